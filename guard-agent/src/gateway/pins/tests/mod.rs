//! Tests of pins. What hostile servers say is put together here; the lists of honest ones are theirs (`lists/`).

mod attacks;
mod definitions;
mod diffs;
mod documented;
mod filters;
mod gaps;
mod honest;
mod measure;
mod names;
mod properties;
mod verdicts;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};

use super::*;

/// Where pins are kept in tests.
#[derive(Debug, Default)]
struct Memory(BTreeMap<(String, String), Entry>);

impl Store for Memory {
    type Error = Infallible;

    fn get(&self, server: &str, tool: &str) -> Result<Option<Entry>, Infallible> {
        Ok(self.0.get(&(server.to_owned(), tool.to_owned())).cloned())
    }

    fn put(&mut self, server: &str, entry: Entry) -> Result<(), Infallible> {
        self.0.insert((server.to_owned(), entry.tool.clone()), entry);
        Ok(())
    }

    fn list(&self, server: &str) -> Result<Vec<Entry>, Infallible> {
        let of = |((one, _), entry): (&(String, String), &Entry)| (one == server).then(|| entry.clone());
        Ok(self.0.iter().filter_map(of).collect())
    }
}

fn page(tools: &[Value]) -> Vec<u8> {
    json!({ "tools": tools }).to_string().into_bytes()
}

fn list(tools: &[Value]) -> Definitions {
    Definitions::default().page(&page(tools)).unwrap()
}

fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

/// What is found in the texts of a tool that stands alone.
fn rules_in(tool: &Value) -> Vec<Rule> {
    let list = list(std::slice::from_ref(tool));
    looks::texts(&list.tools()[0], &Names::default())
        .iter()
        .map(|look| look.rule)
        .collect()
}

fn rules_in_text(text: &str) -> Vec<Rule> {
    rules_in(&tool("t", text))
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn read(definition: &Value) -> Result<Definition, Refused> {
    Definition::read(definition.to_string().as_bytes(), &[], &Limits::default())
}
