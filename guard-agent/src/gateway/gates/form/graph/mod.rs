//! A schema as a graph: which subschema looks at a value itself, and which at its parts.
//!
//! The validator has no bound of its own on work, and a schema comes from the server that is to be held. From the graph
//! the cost of a check is counted before it is made ([`super::survey`]), a schema that would never end is found, and it
//! is known which parameters are declared.

mod build;

use std::collections::HashMap;

use regex::Regex;

pub(super) use build::build;

/// A subschema's number.
pub(super) type Id = u32;

/// A whole schema.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Each node after those that lead to it without going into the value.
    pub(super) rank: Vec<u32>,
    pub(super) by_rank: Vec<Id>,
    /// It has forms to choose from. To say why none of them fits takes the reasons of all.
    pub(super) choices: bool,
}

/// The node of the whole schema.
pub(super) const ROOT: Id = 0;

/// One subschema.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Those that look at the same value; one that the validator may look at twice stands here twice.
    pub(super) same: Vec<Id>,
    pub(super) properties: HashMap<String, Id>,
    /// It has the keyword, if only for nothing.
    pub(super) declares: bool,
    pub(super) patterns: Vec<(Regex, Id)>,
    /// Those for any other member.
    pub(super) members: Vec<Id>,
    /// It says by itself that there may be other members.
    pub(super) open: bool,
    pub(super) items: Vec<Id>,
    pub(super) prefix: Vec<Id>,
    pub(super) names: Option<Id>,
    /// The cost of its own keywords.
    pub(super) weight: u64,
    /// Regular expressions that a string is put through.
    pub(super) regexes: u64,
    /// It compares numbers.
    pub(super) compares: bool,
}
