//! Reads the graph off a schema, and refuses what has no end or is too big.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{super::NoForm, Graph, Id, Node};

/// Subschemas of one schema. The biggest tool of known servers has some hundred.
const NODES: usize = 2048;

/// How many subschemas may lead from one to the next at the same value.
const CHAIN: u32 = 32;

/// Keywords with one schema for the same value.
const ONE: [&str; 4] = ["not", "if", "then", "else"];

/// Keywords with a list of schemas for the same value.
const MANY: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Keywords whose meaning depends on the path of the check, or on where else a name is defined.
const REFUSED: [&str; 5] = [
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
];

struct Builder<'s> {
    root: &'s Value,
    /// Before 2019-09 what stands beside a `$ref` means nothing.
    lone_ref: bool,
    nodes: Vec<Node>,
    /// By address: a subschema that is referred to twice is one node.
    seen: HashMap<*const Value, Id>,
    anchors: HashMap<&'s str, &'s Value>,
    refs: Vec<(Id, &'s str)>,
    choices: bool,
}

pub(in super::super) fn build(schema: &Value, lone_ref: bool) -> Result<Graph, NoForm> {
    let mut builder = Builder {
        root: schema,
        lone_ref,
        nodes: Vec::new(),
        seen: HashMap::new(),
        anchors: HashMap::new(),
        refs: Vec::new(),
        choices: false,
    };
    builder.node(schema)?;
    // A target may be a new node with references of its own.
    while let Some((from, reference)) = builder.refs.pop() {
        let target = builder.target(reference)?;
        let target = builder.node(target)?;
        builder.at(from).same.push(target);
    }
    let (rank, by_rank) = ranked(&builder.nodes)?;
    Ok(Graph {
        nodes: builder.nodes,
        rank,
        by_rank,
        choices: builder.choices,
    })
}

impl<'s> Builder<'s> {
    fn at(&mut self, id: Id) -> &mut Node {
        // Ids are only ever those of nodes that were pushed.
        #[expect(clippy::indexing_slicing, reason = "an id is the index of a node")]
        &mut self.nodes[id as usize]
    }

    fn node(&mut self, schema: &'s Value) -> Result<Id, NoForm> {
        if let Some(id) = self.seen.get(&std::ptr::from_ref(schema)) {
            return Ok(*id);
        }
        if self.nodes.len() == NODES {
            return Err(NoForm::TooManySubschemas(NODES));
        }
        let id = Id::try_from(self.nodes.len()).map_err(|_| NoForm::TooManySubschemas(NODES))?;
        self.nodes.push(Node::default());
        self.seen.insert(std::ptr::from_ref(schema), id);
        match schema {
            Value::Bool(_) => self.at(id).weight = 1,
            Value::Object(keywords) => self.read(id, keywords)?,
            _ => return Err(NoForm::NotASchema),
        }
        Ok(id)
    }

    fn read(&mut self, id: Id, keywords: &'s Map<String, Value>) -> Result<(), NoForm> {
        if let Some(refused) = REFUSED.iter().find(|refused| keywords.contains_key(**refused)) {
            return Err(NoForm::Keyword(refused));
        }
        let top = id == super::ROOT;
        let fragment = |id: &str| self.lone_ref && id.starts_with('#');
        match keywords.get("$id").and_then(Value::as_str) {
            // Another base for every reference below.
            Some(own) if !top && !fragment(own) => return Err(NoForm::Keyword("$id")),
            Some(own) if !top => self.anchor(own.trim_start_matches('#'), keywords)?,
            _ => {}
        }
        if !top && keywords.contains_key("$schema") {
            return Err(NoForm::Keyword("$schema"));
        }
        for definitions in ["$defs", "definitions"] {
            for schema in members(keywords, definitions) {
                self.node(schema.1)?;
            }
        }
        if let Some(reference) = keywords.get("$ref") {
            let reference = reference.as_str().ok_or(NoForm::NotASchema)?;
            self.refs.push((id, reference));
            if self.lone_ref {
                self.at(id).weight = 1;
                return Ok(());
            }
        }
        if let Some(anchor) = keywords.get("$anchor").and_then(Value::as_str) {
            self.anchor(anchor, keywords)?;
        }
        self.same(id, keywords)?;
        self.parts(id, keywords)?;
        self.own(id, keywords);
        Ok(())
    }

    /// Another name for the schema that has these keywords.
    fn anchor(&mut self, name: &'s str, keywords: &'s Map<String, Value>) -> Result<(), NoForm> {
        let own = find(self.root, keywords).ok_or(NoForm::NotASchema)?;
        match self.anchors.insert(name, own) {
            None => Ok(()),
            // Which of them is meant is anybody's guess.
            Some(_) => Err(NoForm::Reference(super::super::flaw::excerpt(name))),
        }
    }

    fn same(&mut self, id: Id, keywords: &'s Map<String, Value>) -> Result<(), NoForm> {
        self.choices |= keywords.contains_key("anyOf") || keywords.contains_key("oneOf");
        let mut below = Vec::new();
        for keyword in ONE {
            below.extend(keywords.get(keyword));
        }
        for keyword in MANY {
            below.extend(elements(keywords, keyword));
        }
        below.extend(members(keywords, "dependentSchemas").map(|(_, schema)| schema));
        // Draft 7 has both forms under one name.
        below.extend(
            members(keywords, "dependencies")
                .map(|(_, schema)| schema)
                .filter(|schema| !schema.is_array()),
        );
        // What is not yet evaluated is found by looking at all of them once more.
        let twice =
            keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems");
        for schema in below {
            let child = self.node(schema)?;
            let node = self.at(id);
            node.same
                .extend(std::iter::repeat_n(child, 1 + usize::from(twice)));
        }
        Ok(())
    }

    fn parts(&mut self, id: Id, keywords: &'s Map<String, Value>) -> Result<(), NoForm> {
        for (name, schema) in members(keywords, "properties") {
            let child = self.node(schema)?;
            self.at(id).properties.insert(name.to_owned(), child);
        }
        self.at(id).declares = keywords.contains_key("properties");
        for (pattern, schema) in members(keywords, "patternProperties") {
            let child = self.node(schema)?;
            let regex = super::super::schema::regex(pattern)?;
            self.at(id).patterns.push((regex, child));
        }
        for keyword in ["additionalProperties", "unevaluatedProperties"] {
            if let Some(schema) = keywords.get(keyword) {
                let child = self.node(schema)?;
                let node = self.at(id);
                node.members.push(child);
                node.open |= *schema != Value::Bool(false);
            }
        }
        let list = keywords.get("items").is_some_and(Value::is_array);
        let prefix = elements(keywords, if list { "items" } else { "prefixItems" });
        for schema in prefix {
            let child = self.node(schema)?;
            self.at(id).prefix.push(child);
        }
        for keyword in ["items", "additionalItems", "contains", "unevaluatedItems"] {
            if let Some(schema) = keywords.get(keyword).filter(|schema| !schema.is_array()) {
                let child = self.node(schema)?;
                self.at(id).items.push(child);
            }
        }
        if let Some(schema) = keywords.get("propertyNames") {
            let child = self.node(schema)?;
            self.at(id).names = Some(child);
        }
        Ok(())
    }

    fn own(&mut self, id: Id, keywords: &'s Map<String, Value>) {
        // Values that what comes is compared with, element by element.
        let compared = ["enum", "const", "required", "dependentRequired", "dependencies"];
        let size: usize = compared
            .iter()
            .filter_map(|keyword| keywords.get(*keyword))
            .map(size)
            .sum();
        let numbers = [
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ];
        let compares = numbers.iter().any(|keyword| keywords.contains_key(*keyword))
            || ["enum", "const"]
                .iter()
                .filter_map(|keyword| keywords.get(*keyword))
                .any(holds_number);
        let node = self.at(id);
        node.weight = 1 + size as u64 / 8;
        node.regexes = u64::from(keywords.contains_key("pattern"));
        node.compares = compares;
    }

    fn target(&self, reference: &str) -> Result<&'s Value, NoForm> {
        let refused = || NoForm::Reference(super::super::flaw::excerpt(reference));
        let fragment = reference.strip_prefix('#').ok_or_else(refused)?;
        let fragment = percent_decode_str(fragment)
            .decode_utf8()
            .map_err(|_| refused())?;
        if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&fragment).ok_or_else(refused)
        } else {
            self.anchors.get(fragment.as_ref()).copied().ok_or_else(refused)
        }
    }
}

fn members<'s>(
    keywords: &'s Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = (&'s str, &'s Value)> {
    let members = keywords.get(keyword).and_then(Value::as_object);
    members
        .into_iter()
        .flatten()
        .map(|(name, schema)| (name.as_str(), schema))
}

fn elements<'s>(keywords: &'s Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'s Value> {
    keywords
        .get(keyword)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The value in this tree that is this object.
fn find<'s>(value: &'s Value, wanted: &Map<String, Value>) -> Option<&'s Value> {
    match value {
        Value::Object(object) if std::ptr::eq(object, wanted) => Some(value),
        Value::Object(object) => object.values().find_map(|part| find(part, wanted)),
        Value::Array(list) => list.iter().find_map(|part| find(part, wanted)),
        _ => None,
    }
}

/// Values in it, and a share of their text.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len() / 16,
        Value::Array(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

fn holds_number(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::Array(list) => list.iter().any(holds_number),
        Value::Object(members) => members.values().any(holds_number),
        _ => false,
    }
}

/// Nodes in an order in which those that lead to a node at the same value stand before it.
fn ranked(nodes: &[Node]) -> Result<(Vec<u32>, Vec<Id>), NoForm> {
    let mut incoming = vec![0_u32; nodes.len()];
    let mut depth = vec![0_u32; nodes.len()];
    let mut rank = vec![0_u32; nodes.len()];
    let mut order: Vec<Id> = Vec::with_capacity(nodes.len());
    for child in nodes.iter().flat_map(|node| &node.same) {
        if let Some(count) = incoming.get_mut(*child as usize) {
            *count += 1;
        }
    }
    let free = (0..)
        .zip(&incoming)
        .filter(|(_, count)| **count == 0)
        .map(|(id, _)| id);
    let mut ready: Vec<Id> = free.collect();
    while let Some(id) = ready.pop() {
        if let Some(own) = rank.get_mut(id as usize) {
            *own = u32::try_from(order.len()).unwrap_or(u32::MAX);
        }
        order.push(id);
        let below = depth.get(id as usize).map_or(0, |depth| depth + 1);
        for child in nodes.get(id as usize).into_iter().flat_map(|node| &node.same) {
            let child_at = *child as usize;
            if let (Some(count), Some(depth)) = (incoming.get_mut(child_at), depth.get_mut(child_at)) {
                *count -= 1;
                *depth = below.max(*depth);
                if *count == 0 {
                    ready.push(*child);
                }
            }
        }
    }
    // What is left refers to itself and never comes to a part of the value.
    if order.len() < nodes.len() {
        return Err(NoForm::Endless);
    }
    if depth.iter().any(|depth| *depth > CHAIN) {
        return Err(NoForm::TooDeep(CHAIN));
    }
    Ok((rank, order))
}
