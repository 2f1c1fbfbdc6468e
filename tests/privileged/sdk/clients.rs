//! The clients: how each is started for a list of steps, and whether what it printed is what the steps were to end in.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{fixtures, programs, refused::text};
use serde_json::{Value, json};

use crate::{
    servers::{python_one, python_two},
    steps::{End, Step},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Inspector,
    PythonOne,
    PythonTwo,
    TypescriptOne,
    TypescriptTwo,
}

impl Client {
    pub(crate) const ALL: [Self; 5] = [
        Self::Inspector,
        Self::PythonOne,
        Self::PythonTwo,
        Self::TypescriptOne,
        Self::TypescriptTwo,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Inspector => "inspector",
            Self::PythonOne => "python-1",
            Self::PythonTwo => "python-2",
            Self::TypescriptOne => "typescript-1",
            Self::TypescriptTwo => "typescript-2",
        }
    }

    /// Those of the server's steps that it takes. The inspector starts the server for each, so it makes one of a kind.
    pub(crate) fn takes(self, steps: Vec<Step>) -> Vec<Step> {
        if self != Self::Inspector {
            return steps;
        }
        let kinds = ["list", "call", "read", "get"];
        let first = |kind: &str| {
            steps
                .iter()
                .find(|step| step.end == End::Done && step.said.get(kind).is_some())
                .cloned()
        };
        kinds.into_iter().filter_map(first).collect()
    }

    /// How often it starts the server for these steps.
    pub(crate) fn sessions(self, steps: &[Step]) -> usize {
        match self {
            Self::Inspector => steps.len(),
            // A sibling that lives for one question: which era is it of?
            Self::TypescriptTwo => 2,
            _ => 1,
        }
    }

    /// What it opens each of these sessions with, given that the server knows the era without `initialize` or does not.
    pub(crate) fn openings(self, modern: bool, sessions: usize) -> Vec<Vec<&'static str>> {
        let (discover, initialize) = ("server/discover", "initialize");
        match (self, modern) {
            (Self::PythonTwo, true) => vec![vec![discover]],
            (Self::PythonTwo, false) => vec![vec![discover, initialize]],
            // What the sibling found out is not asked again.
            (Self::TypescriptTwo, true) => vec![vec![discover], vec![]],
            (Self::TypescriptTwo, false) => vec![vec![discover], vec![initialize]],
            _ => vec![vec![initialize]; sessions],
        }
    }

    /// Its command lines, to run one after the other. `launcher` is the server to it.
    pub(crate) fn commands(self, launcher: &Path, steps: &[Step]) -> Result<Vec<Command>> {
        if self == Self::Inspector {
            let start = fixtures::node_inspector()?;
            return steps
                .iter()
                .map(|step| inspect(&start, launcher, &step.said))
                .collect();
        }
        let said: Vec<&Value> = steps.iter().map(|step| &step.said).collect();
        let mut asked = json!({"command": text(launcher), "steps": said});
        let (interpreter, script) = match self {
            Self::PythonOne => (python_one()?.join("bin/python"), "python.py"),
            Self::PythonTwo => (python_two()?.join("bin/python"), "python.py"),
            Self::TypescriptTwo => {
                asked["sdk"] = text(&fixtures::node_client()?).into();
                ("/usr/bin/node".into(), "typescript-v2.mjs")
            }
            _ => {
                asked["sdk"] = text(&fixtures::node_sdk()?).into();
                ("/usr/bin/node".into(), "typescript-v1.mjs")
            }
        };
        let mut command = Command::new(interpreter);
        command
            .arg(programs::source(&format!("servers/clients/{script}")))
            .arg(asked.to_string());
        Ok(vec![command])
    }

    /// What each step ended in is what it had to.
    pub(crate) fn judge(self, steps: &[Step], printed: &[Vec<u8>]) -> Result<()> {
        let answers: Vec<Value> = if self == Self::Inspector {
            let one = |text: &Vec<u8>| Ok(json!({"result": serde_json::from_slice::<Value>(text)?}));
            printed.iter().map(one).collect::<Result<_>>()?
        } else {
            let text = printed.concat();
            let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            // The first line is about the server.
            lines
                .skip(1)
                .map(serde_json::from_slice)
                .collect::<Result<_, _>>()?
        };
        ensure!(
            answers.len() == steps.len(),
            "{} steps have {} answers",
            steps.len(),
            answers.len()
        );
        for (step, answer) in steps.iter().zip(&answers) {
            let result = answer.get("result");
            let failed =
                answer.get("error").is_some() || result.is_some_and(|result| result["isError"] == true);
            let held = match step.end {
                End::Done => !failed && result.is_some_and(|result| !empty(result)),
                End::Failed => failed,
                End::Cancelled => answer["cancelled"] == true,
                End::Either => failed || result.is_some(),
            };
            ensure!(held, "{} did not end in {:?}: {answer}", step.said, step.end);
            if step.said["progress"] == true {
                let told = answer["progress"].as_array().map_or(0, Vec::len);
                ensure!(told > 1, "no progress: {answer}");
            }
        }
        Ok(())
    }
}

/// A list of nothing would be the same on both sides as well.
fn empty(result: &Value) -> bool {
    result.as_array().is_some_and(Vec::is_empty) || result.as_object().is_some_and(serde_json::Map::is_empty)
}

fn inspect(start: &Path, launcher: &Path, said: &Value) -> Result<Command> {
    let mut command = Command::new("/usr/bin/node");
    command.arg(start).arg("--cli").arg(launcher).arg("--method");
    let pairs = |arguments: &Value| -> Result<Vec<String>> {
        let members = arguments.as_object().context("arguments are an object")?;
        let spelled = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok(members
            .iter()
            .map(|(key, value)| format!("{key}={}", spelled(value)))
            .collect())
    };
    let word = |value: &Value| value.as_str().map(str::to_owned).context("a word");
    if let Some(call) = said.get("call") {
        command.args(["tools/call", "--tool-name", &word(&call["name"])?]);
        for pair in pairs(&call["arguments"])? {
            command.args(["--tool-arg", &pair]);
        }
    } else if let Some(uri) = said.get("read") {
        command.args(["resources/read", "--uri", &word(uri)?]);
    } else if let Some(get) = said.get("get") {
        command.args(["prompts/get", "--prompt-name", &word(&get["name"])?]);
        for pair in pairs(&get["arguments"])? {
            command.args(["--prompt-args", &pair]);
        }
    } else {
        command.arg(format!("{}/list", word(&said["list"])?));
    }
    Ok(command)
}
