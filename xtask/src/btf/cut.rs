//! The few types of a kernel that a fixture keeps.
//!
//! What is kept is as the kernel has it: names, sizes, offsets, arguments in their order. What is not asked for is
//! left out: other members, and so all that only they lead to.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail};

use super::{
    format::{self, Body, Member, Type},
    wanted,
};

/// Unnamed structures in unnamed structures: deeper is not looked.
const DEPTH: u32 = 8;

pub(super) struct Cut {
    pub(super) types: Vec<Type>,
    /// What this kernel has not, such as `bpf_lsm_unix_find` or `file.f_path`.
    pub(super) absent: Vec<String>,
}

/// Cuts out the functions of all wanted hooks, and the structures with the wanted members.
pub(super) fn cut(whole: &[Type]) -> Result<Cut> {
    let mut cutter = Cutter {
        whole,
        kept: Vec::new(),
        places: HashMap::new(),
    };
    let mut absent = Vec::new();
    let named = |kind: u32, name: &str| -> Vec<u32> {
        (1..)
            .zip(whole)
            .filter(|(_, item)| item.kind == kind && item.name == name)
            .map(|(number, _)| number)
            .collect()
    };
    for name in wanted::HOOKS.iter().flat_map(|hook| wanted::functions(hook)) {
        let found = named(format::FUNCTION, &name);
        for number in &found {
            cutter.keep(*number, &[])?;
        }
        if found.is_empty() {
            absent.push(name);
        }
    }
    for (structure, members) in wanted::MEMBERS {
        // Two of one name stay two: which of them a member is taken from is the reader's affair.
        let found = named(format::STRUCTURE, structure);
        for number in &found {
            cutter.keep(*number, &[])?;
        }
        for member in *members {
            let only = std::slice::from_ref(member);
            if !found.iter().any(|number| cutter.leads_to(*number, only, DEPTH)) {
                absent.push(format!("{structure}.{member}"));
            }
        }
    }
    Ok(Cut {
        types: cutter.kept,
        absent,
    })
}

type Names = &'static [&'static str];

struct Cutter<'a> {
    whole: &'a [Type],
    kept: Vec<Type>,
    /// The new number of a type, by its old number and what is wanted of it.
    places: HashMap<(u32, Names), u32>,
}

impl Cutter<'_> {
    fn old(&self, number: u32) -> Result<&Type> {
        (number as usize)
            .checked_sub(1)
            .and_then(|index| self.whole.get(index))
            .with_context(|| format!("there is no type {number}"))
    }

    /// The new number of a type, kept with all it needs. `of_outer` is what is wanted of the structure that it
    /// is an unnamed part of.
    fn keep(&mut self, number: u32, of_outer: Names) -> Result<u32> {
        if number == 0 {
            return Ok(0);
        }
        let mut item = self.old(number)?.clone();
        let names = match item.kind {
            format::STRUCTURE | format::UNION if item.name.is_empty() => of_outer,
            format::STRUCTURE | format::UNION => wanted::members(&item.name),
            _ => &[],
        };
        if let Some(place) = self.places.get(&(number, names)) {
            return Ok(*place);
        }
        // Its place is known before what it leads to is followed: that may lead back.
        let index = self.kept.len();
        let place = u32::try_from(index + 1).context("too many types")?;
        self.places.insert((number, names), place);
        self.kept.push(item.clone());
        match item.kind {
            format::INTEGER
            | format::FLOAT
            | format::FORWARD
            | format::ENUMERATION
            | format::ENUMERATION_64
            | format::STRUCTURE
            | format::UNION
            | format::ARRAY => {}
            format::POINTER
            | format::TYPEDEF..=format::RESTRICT
            | format::TYPE_TAG
            | format::FUNCTION
            | format::PROTOTYPE => item.value = self.keep(item.value, &[])?,
            kind => bail!("type {number} is of kind {kind}, which nothing wanted leads to"),
        }
        match &mut item.body {
            Body::Empty | Body::Integer(_) | Body::Linkage(_) => {}
            Body::Array([element, index, _]) => {
                *element = self.keep(*element, &[])?;
                *index = self.keep(*index, &[])?;
            }
            Body::Parameters(parameters) => {
                for (_, kind) in parameters {
                    *kind = self.keep(*kind, &[])?;
                }
            }
            Body::Members(members) => {
                members.retain(|member| self.is_wanted(member, names, DEPTH));
                for member in members {
                    member.kind = self.keep(member.kind, names)?;
                }
            }
        }
        if let Some(slot) = self.kept.get_mut(index) {
            *slot = item;
        }
        Ok(place)
    }

    fn is_wanted(&self, member: &Member, names: &[&str], depth: u32) -> bool {
        if member.name.is_empty() {
            depth > 0 && self.leads_to(member.kind, names, depth - 1)
        } else {
            names.contains(&member.name.as_str())
        }
    }

    /// Whether a structure has one of these members, or an unnamed part of it has.
    fn leads_to(&self, number: u32, names: &[&str], depth: u32) -> bool {
        self.old(number).is_ok_and(|item| match &item.body {
            Body::Members(members) => members.iter().any(|member| self.is_wanted(member, names, depth)),
            _ => false,
        })
    }
}
