//! What a check will cost, found by going through a value as the validator would, but counting only.
//!
//! A schema may look at one value many times: by ten branches that refer to ten others, at each of a hundred levels.
//! Here each subschema is met once a value, with the number of times the validator would come by. That costs little,
//! and says beforehand whether the validator would take too long. It also says which members are declared
//! anywhere, and where a number is compared.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use serde_json::Value;

use super::{
    flaw::{self, Flaw, Flaws},
    graph::{Graph, Id, Node, ROOT},
    pointer::{self, Step},
};

/// Looks at a value by a subschema, one with a long list of values counting more.
pub(super) const WORK: u64 = 1 << 18;

/// Up to so much work all reasons are collected, which takes some ten times as long as the verdict.
pub(super) const FEW: u64 = 1 << 13;

/// Up to so much the first one is, if the schema has forms to choose from; beyond it there is the verdict alone.
pub(super) const SOME: u64 = 1 << 15;

/// Bytes of a string that an expression reads in the time of one look.
const REGEX_BYTES: u64 = 16;

/// Characters that an expression which steps back is put through.
const SHORT: usize = 1024;

/// Doubles hold every integer up to this one.
const EXACT: u64 = 1 << 53;

/// What a value is, beyond what its schema says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side {
    /// Arguments of a call, of which a server reads what it will. A result has numbers that nobody compares again.
    pub(super) call: bool,
    /// There are the members that the schema declares, and no others.
    pub(super) declared_only: bool,
    /// Which outermost members there are the operator says, who is asked elsewhere.
    pub(super) named: bool,
}

/// The subschemas that look at a value, each with how often.
#[derive(Debug)]
struct Set {
    nodes: Vec<(Id, u64)>,
    work: u64,
    regexes: u64,
    compares: bool,
    declares: bool,
    open: bool,
}

pub(super) struct Survey<'a> {
    graph: &'a Graph,
    looks_around: bool,
    side: Side,
    sets: HashMap<Vec<(Id, u64)>, Rc<Set>>,
    steps: Vec<Step<'a>>,
    pub(super) work: u64,
}

/// It would take too long.
struct Enough;

impl<'a> Survey<'a> {
    pub(super) fn new(graph: &'a Graph, looks_around: bool, side: Side) -> Self {
        Survey {
            graph,
            looks_around,
            side,
            sets: HashMap::new(),
            steps: Vec::new(),
            work: 0,
        }
    }

    /// Goes through a value. Whether the validator may be let at it.
    pub(super) fn go(&mut self, value: &'a Value, flaws: &mut Flaws) -> bool {
        let set = self.set(vec![(ROOT, 1)]);
        let done = self.value(value, &set, flaws);
        if done.is_err() {
            let why = "checking this against the tool's schema takes too much work; send fewer, shorter or less deeply \
                       nested values";
            flaws.add(Flaw::new(&pointer::render(&self.steps), "work", why));
        }
        done.is_ok()
    }

    fn spend(&mut self, work: u64) -> Result<(), Enough> {
        self.work = self.work.saturating_add(work);
        if self.work > WORK { Err(Enough) } else { Ok(()) }
    }

    fn value(&mut self, value: &'a Value, set: &Rc<Set>, flaws: &mut Flaws) -> Result<(), Enough> {
        self.spend(set.work)?;
        match value {
            Value::String(text) => self.text(text, set, flaws),
            Value::Number(number) => {
                let wide = |number: u64| number > EXACT && !doubles(number);
                let wide = number.as_u64().is_some_and(wide)
                    || number.as_i64().is_some_and(|number| wide(number.unsigned_abs()));
                if wide && set.compares && self.side.call {
                    let why = "an integer of this size is compared differently by different programs; write one between \
                               -9007199254740992 and 9007199254740992";
                    flaws.add(Flaw::new(&pointer::render(&self.steps), "number", why));
                }
                Ok(())
            }
            Value::Array(items) => self.items(items, set, flaws),
            Value::Object(members) => self.members(members, set, flaws),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    fn text(&mut self, text: &str, set: &Set, flaws: &mut Flaws) -> Result<(), Enough> {
        if set.regexes == 0 {
            return Ok(());
        }
        if !self.looks_around {
            return self.spend(set.regexes.saturating_mul(text.len() as u64 / REGEX_BYTES));
        }
        if text.len() > SHORT {
            let why = format!(
                "must be at most {SHORT} bytes long, since the tool's schema has a pattern that is slow to check"
            );
            flaws.add(Flaw::new(&pointer::render(&self.steps), "length", &why));
        }
        // From each character on it may look at all that follow.
        let length = text.len().min(SHORT) as u64;
        self.spend(set.regexes.saturating_mul(16 + length * length / 64))
    }

    fn items(&mut self, items: &'a [Value], set: &Rc<Set>, flaws: &mut Flaws) -> Result<(), Enough> {
        let graph = self.graph;
        let rest = self.below(set, |node, add| node.items.iter().for_each(add));
        let prefixed = set.nodes.iter().any(|(id, _)| {
            graph
                .nodes
                .get(*id as usize)
                .is_some_and(|node| !node.prefix.is_empty())
        });
        for (index, item) in items.iter().enumerate() {
            let own = prefixed.then(|| {
                self.below(set, |node, add| {
                    node.items.iter().chain(node.prefix.get(index)).for_each(add);
                })
            });
            self.steps.push(Step::Index(index));
            self.value(item, own.as_ref().unwrap_or(&rest), flaws)?;
            self.steps.pop();
        }
        Ok(())
    }

    fn members(
        &mut self,
        members: &'a serde_json::Map<String, Value>,
        set: &Rc<Set>,
        flaws: &mut Flaws,
    ) -> Result<(), Enough> {
        let names = self.below(set, |node, add| node.names.iter().for_each(add));
        for (name, member) in members {
            self.spend(names.work)?;
            self.text(name, &names, flaws)?;
            let mut known = false;
            let mut tried = 0;
            let own = self.below(set, |node, add| {
                let property = node.properties.get(name);
                known |= property.is_some();
                property.into_iter().for_each(&mut *add);
                for (pattern, child) in &node.patterns {
                    tried += 1 + name.len() as u64 / REGEX_BYTES;
                    if pattern.is_match(name) {
                        known = true;
                        add(child);
                    }
                }
                node.members.iter().for_each(add);
            });
            self.spend(tried)?;
            if !known {
                self.undeclared(name, set, flaws);
            }
            self.steps.push(Step::Key(name));
            self.value(member, &own, flaws)?;
            self.steps.pop();
        }
        Ok(())
    }

    /// A member that no subschema names.
    fn undeclared(&self, name: &str, set: &Set, flaws: &mut Flaws) {
        let top = self.steps.is_empty();
        // Of the outermost ones the tool's own openness counts only where it declares none at all; below, a map that
        // may have any key is an ordinary thing.
        let free = if top {
            set.open && !set.declares
        } else {
            set.open || !set.declares
        };
        if !self.side.declared_only || free || top && self.side.named || flaws.full() {
            return;
        }
        let mut valid: Vec<&str> = set
            .nodes
            .iter()
            .filter_map(|(id, _)| self.graph.nodes.get(*id as usize))
            .flat_map(|node| node.properties.keys().map(String::as_str))
            .collect();
        valid.sort_unstable();
        valid.dedup();
        flaws.add(unknown(&self.steps, name, &valid));
    }

    /// The subschemas that look at a part of a value.
    fn below(&mut self, set: &Set, mut children: impl FnMut(&Node, &mut dyn FnMut(&Id))) -> Rc<Set> {
        let mut start: Vec<(Id, u64)> = Vec::new();
        for (id, count) in &set.nodes {
            if let Some(node) = self.graph.nodes.get(*id as usize) {
                children(node, &mut |child| start.push((*child, *count)));
            }
        }
        start.sort_unstable();
        start.dedup_by(|one, other| {
            let same = one.0 == other.0;
            if same {
                other.1 = other.1.saturating_add(one.1);
            }
            same
        });
        self.set(start)
    }

    /// With those that they lead to at the same value.
    fn set(&mut self, start: Vec<(Id, u64)>) -> Rc<Set> {
        if let Some(set) = self.sets.get(&start) {
            return Rc::clone(set);
        }
        let mut open: BTreeMap<u32, u64> = BTreeMap::new();
        let mut set = Set {
            nodes: Vec::new(),
            work: 1,
            regexes: 0,
            compares: false,
            declares: false,
            open: false,
        };
        let rank = |id: Id| self.graph.rank.get(id as usize).copied().unwrap_or_default();
        for (id, count) in &start {
            open.insert(rank(*id), *count);
        }
        while let Some((at, count)) = open.pop_first() {
            let Some(id) = self.graph.by_rank.get(at as usize).copied() else {
                continue;
            };
            let Some(node) = self.graph.nodes.get(id as usize) else {
                continue;
            };
            for child in &node.same {
                let sum = open.entry(rank(*child)).or_default();
                *sum = sum.saturating_add(count);
            }
            set.work = set.work.saturating_add(count.saturating_mul(node.weight));
            set.regexes = set.regexes.saturating_add(count.saturating_mul(node.regexes));
            set.compares |= node.compares;
            set.declares |= node.declares;
            set.open |= node.open;
            set.nodes.push((id, count));
        }
        let set = Rc::new(set);
        self.sets.insert(start, Rc::clone(&set));
        set
    }
}

/// A parameter that does not exist.
pub(super) fn unknown(steps: &[Step<'_>], name: &str, valid: &[&str]) -> Flaw {
    let at = format!("{}/{}", pointer::render(steps), pointer::escape(name));
    let why = if valid.is_empty() {
        "there is no such parameter; none are taken here".to_owned()
    } else {
        format!(
            "there is no such parameter; valid are: {}",
            flaw::list(valid.iter().copied(), 120)
        )
    };
    Flaw::new(&at, "unknown-parameter", &why)
}

/// A double holds it.
fn doubles(number: u64) -> bool {
    64 - number.leading_zeros() - number.trailing_zeros() <= 53
}
