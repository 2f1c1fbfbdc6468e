//! What the system call filter reported: each of these calls waits for the warden's refusal.

use super::{
    attempt::{Key, Who, blank},
    desk::Surroundings,
    in_flight::During,
    ledger::Ledger,
};
use crate::{
    audit::{Decision, Field, Kernel, Layer, errno_name},
    confine::notify::{Notification, describe, telling},
};

/// Takes one notification.
pub(super) fn note(notification: &Notification, during: During, ledger: &mut Ledger, around: &Surroundings) {
    let key = Key::Refused {
        nr: notification.nr,
        args: telling(notification),
        during,
    };
    if ledger.repeated(&key) {
        return;
    }
    let denied = describe(notification);
    ledger.first(key, &denied.op.clone(), |key| {
        let who = Who {
            pid: group_of(notification.tid),
            tid: notification.tid,
            during: key.during().clone(),
        };
        let detail = match denied.detail {
            serde_json::Value::Object(map) if !map.is_empty() => {
                Some(map.into_iter().map(|(key, value)| (key, field(&value))).collect())
            }
            _ => None,
        };
        Kernel {
            detail,
            exe: around.program(who.tid),
            errno: Some(errno_name(denied.errno)),
            ..blank(denied.op.into(), Decision::Deny, Layer::Seccomp, &who)
        }
    });
}

/// The thread group of a waiting thread; the thread itself when that cannot be read.
fn group_of(tid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let group = status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    group.unwrap_or(tid)
}

fn field(value: &serde_json::Value) -> Field {
    match value {
        serde_json::Value::Bool(flag) => Field::Flag(*flag),
        serde_json::Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Field::Number(number.into()),
            (None, Some(number)) => {
                i32::try_from(number).map_or_else(|_| Field::Text(number.to_string().into()), Field::Signed)
            }
            _ => Field::Text(number.to_string().into()),
        },
        serde_json::Value::String(text) => Field::Text(text.as_str().into()),
        other => Field::Text(other.to_string().into()),
    }
}
