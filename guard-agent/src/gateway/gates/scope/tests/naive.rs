//! Random policies and names, against an evaluator that tries everything and shares no code.

use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use proptest::{collection::vec, prelude::*};

use super::{super::*, rules};

#[derive(Debug, Clone)]
struct Made {
    /// Pattern, low impact, reversible.
    tools: Vec<(String, bool, bool)>,
    /// What each role allows: the server, the kind, the pattern.
    roles: Vec<Vec<(&'static str, &'static str, String)>>,
    /// Which roles each person has; the uid is the place in the list.
    people: Vec<Vec<usize>>,
}

fn pattern() -> impl Strategy<Value = String> {
    "[ab/*]{1,4}".prop_filter("a dead pattern", |text| !text.contains("**"))
}

fn made() -> impl Strategy<Value = Made> {
    let tool = (pattern(), any::<bool>(), any::<bool>());
    let entry = (
        prop::sample::select(vec!["s", "s", "s", "t"]),
        prop::sample::select(vec!["", "tool:", "prompt:"]),
        pattern(),
    );
    (
        vec(tool, 0..5),
        vec(vec(entry, 1..4), 1..4),
        vec(vec(0..3_usize, 1..4), 1..4),
    )
        .prop_map(|(tools, roles, people)| {
            let mut seen = BTreeSet::new();
            let tools = tools
                .into_iter()
                .filter(|(name, ..)| seen.insert(name.clone()))
                .collect();
            let most = roles.len();
            let some = |roles: Vec<usize>| {
                let kept: BTreeSet<usize> = roles.into_iter().map(|role| role % most).collect();
                kept.into_iter().collect()
            };
            let people = people.into_iter().map(some).collect();
            Made { tools, roles, people }
        })
}

impl Made {
    fn text(&self) -> String {
        // The last tool keeps the policy from locking everybody out; no random pattern matches its name.
        let mut text = String::from("[server.t]\ntool.zz.reversible = true\n[server.s]\n");
        for (name, low, reversible) in &self.tools {
            let impact = if *low { "low" } else { "high" };
            writeln!(
                text,
                "[server.s.tool.\"{name}\"]\nimpact = \"{impact}\"\nreversible = {reversible}"
            )
            .unwrap();
            if *low && !*reversible {
                text.push_str("quota = { calls = \"1/day\" }\n");
            }
        }
        for (at, role) in self.roles.iter().enumerate() {
            let entries: Vec<String> = role
                .iter()
                .map(|(server, kind, pattern)| format!("\"{kind}{server}/{pattern}\""))
                .collect();
            writeln!(text, "[role.r{at}]\nallow = [{}, \"t/zz\"]", entries.join(", ")).unwrap();
        }
        text.push_str("[identity.peer.uid]\n");
        for (uid, roles) in self.people.iter().enumerate() {
            let roles: Vec<String> = roles.iter().map(|role| format!("\"r{role}\"")).collect();
            writeln!(text, "{uid} = {{ user = \"u\", roles = [{}] }}", roles.join(", ")).unwrap();
        }
        text
    }

    /// Every rule that matches, and of those none is beaten: one, none, or a tie.
    fn best(&self, name: &str) -> Vec<&(String, bool, bool)> {
        let rank = |pattern: &str| match pattern.find('*') {
            None => usize::MAX,
            Some(before) => before,
        };
        let all: Vec<_> = self
            .tools
            .iter()
            .filter(|(pattern, ..)| fits(pattern, name))
            .collect();
        let most = all.iter().map(|(pattern, ..)| rank(pattern)).max();
        all.into_iter()
            .filter(|(pattern, ..)| Some(rank(pattern)) == most)
            .collect()
    }

    fn admits(&self, uid: usize, kind: &str, name: &str) -> bool {
        self.people[uid]
            .iter()
            .flat_map(|role| &self.roles[*role])
            .any(|(server, of, pattern)| {
                let of = if of.is_empty() { "tool:" } else { of };
                *server == "s" && of == kind && fits(pattern, name)
            })
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.chars().next() {
        None => name.is_empty(),
        Some('*') => {
            fits(&pattern[1..], name)
                || (!name.is_empty() && !name.starts_with('/') && fits(pattern, &name[1..]))
        }
        Some(one) => name.starts_with(one) && fits(&pattern[1..], &name[1..]),
    }
}

/// Every name of up to seven letters: two patterns of four that share a name share one of those.
fn names() -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..7 {
        let to = all.len();
        for at in from..to {
            for one in ["a", "b", "/"] {
                all.push(format!("{}{one}", all[at]));
            }
        }
        from = to;
    }
    all.split_off(1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn as_a_naive_evaluator(made in made()) {
        let text = made.text();
        let names = names();
        let tie = names.iter().any(|name| made.best(name).len() > 1);
        let policy = match rules::parse(Path::new("p"), &text, String::new()) {
            Ok(policy) => policy,
            Err(refusal) => {
                prop_assert!(
                    refusal.why.contains(" tie: ") == tie && (tie || refusal.why.contains("adds nothing")),
                    "{}\n{}", refusal, text
                );
                return Ok(());
            }
        };
        prop_assert!(!tie, "{}", text);
        let Ok(rules) = Rules::of_policy(&policy, "s") else {
            let anybody = made.people.iter().flatten().any(|role| made.roles[*role].iter().any(|(server, ..)| *server == "s"));
            prop_assert!(!anybody, "{}", text);
            return Ok(());
        };
        for name in &names {
            let found = rules.tool(name);
            let wanted = made.best(name).first().map(|(pattern, low, reversible)| {
                let quadrant = match (low, reversible) {
                    (true, true) => Quadrant::Run,
                    (false, true) => Quadrant::Notify,
                    (true, false) => Quadrant::Quota,
                    (false, false) => Quadrant::Approve,
                };
                (pattern.clone(), quadrant)
            });
            let told = found.pattern.as_ref().map(|pattern| (pattern.to_string(), found.quadrant));
            prop_assert_eq!(&told, &wanted, "{} in\n{}", name, text);
            if told.is_none() {
                prop_assert_eq!(found.quadrant, Quadrant::Approve);
            }
            for uid in 0..made.people.len() {
                let who = rules.identity(u32::try_from(uid).unwrap()).unwrap();
                prop_assert_eq!(rules.admits(who, Selector::Tool(name)), made.admits(uid, "tool:", name), "{} in\n{}", name, text);
                prop_assert_eq!(rules.admits(who, Selector::Prompt(name)), made.admits(uid, "prompt:", name), "{} in\n{}", name, text);
            }
        }
    }
}
