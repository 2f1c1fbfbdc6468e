//! The strictest of several roles' limits.

use std::time::Duration;

use crate::config::rules::{
    amount::Rate,
    role::{Budget, Role},
};

/// So many in any window of that length. Those of different windows are not comparable, so all hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    pub most: u64,
    pub window: Duration,
}

/// Each holds, whichever role allowed the call: another role never loosens a limit. None is implied by another of
/// its list. Shortest window first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    pub calls: Vec<Limit>,
    pub output_tokens: Vec<Limit>,
    pub per_tool: Vec<Limit>,
    pub per_user: Vec<Limit>,
}

impl Limits {
    pub(super) fn of<'a>(roles: impl Iterator<Item = &'a Role>) -> Self {
        let mut all = Self::default();
        for role in roles {
            if let Some(Budget {
                calls,
                output_tokens,
                window,
            }) = role.budget
            {
                all.calls.extend(calls.map(|most| Limit { most, window }));
                all.output_tokens
                    .extend(output_tokens.map(|most| Limit { most, window }));
            }
            let limit = |rate: Rate| Limit {
                most: rate.calls,
                window: rate.window,
            };
            all.per_tool.extend(role.per_tool.map(limit));
            all.per_user.extend(role.per_user.map(limit));
        }
        for list in [
            &mut all.calls,
            &mut all.output_tokens,
            &mut all.per_tool,
            &mut all.per_user,
        ] {
            strictest(list);
        }
        all
    }
}

/// Fewer in a longer window imply the others.
fn strictest(limits: &mut Vec<Limit>) {
    limits.sort_by_key(|limit| (std::cmp::Reverse(limit.window), limit.most));
    let mut least = u64::MAX;
    limits.retain(|limit| {
        let counts = limit.most < least;
        least = least.min(limit.most);
        counts
    });
    limits.reverse();
}
