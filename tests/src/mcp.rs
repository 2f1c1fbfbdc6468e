//! A small MCP client that speaks raw JSON-RPC over stdio: what a strict client would see, nothing smoothed over.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

/// How long an answer may take, unless the test says otherwise.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to a server, direct or through the agent.
#[derive(Debug)]
pub struct Client {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<String>,
    /// Messages that are no answer: notifications and requests of the server.
    pub other: VecDeque<Value>,
    /// How long an answer may take.
    pub patience: Duration,
    next: u64,
}

impl Client {
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start the server")?;
        let out = child.stdout.take().context("the server has no output")?;
        let (sender, from) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            to: child.stdin.take(),
            child,
            from,
            other: VecDeque::new(),
            patience: PATIENCE,
            next: 0,
        })
    }

    /// # Errors
    /// When the server is gone.
    pub fn send(&mut self, message: &Value) -> Result<()> {
        let to = self.to.as_mut().context("the connection is closed")?;
        writeln!(to, "{message}")?;
        Ok(to.flush()?)
    }

    /// Sends a request and waits for the answer with its id.
    ///
    /// # Errors
    /// When none comes in time, a line is no JSON, or the answer is a protocol error.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let until = Instant::now() + self.patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self
                .from
                .recv_timeout(left)
                .with_context(|| format!("no answer to `{method}` within {:?}", self.patience))?;
            let message: Value =
                serde_json::from_str(&line).with_context(|| format!("not JSON: `{line}`"))?;
            if message["id"] == id && message.get("method").is_none() {
                if let Some(error) = message.get("error") {
                    bail!("`{method}` failed: {error}");
                }
                return Ok(message["result"].clone());
            }
            self.other.push_back(message);
        }
    }

    /// # Errors
    /// When the server does not answer as MCP wants.
    pub fn initialize(&mut self) -> Result<Value> {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "guard-tests", "version": "0"}});
        let result = self.request("initialize", &params)?;
        ensure!(
            result["protocolVersion"].is_string(),
            "no protocol version in {result}"
        );
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(result)
    }

    /// Names of the tools.
    ///
    /// # Errors
    /// When the list is unreadable.
    pub fn tools(&mut self) -> Result<Vec<String>> {
        let result = self.request("tools/list", &json!({}))?;
        let tools = result["tools"].as_array().context("no list of tools")?;
        Ok(tools
            .iter()
            .filter_map(|tool| Some(tool["name"].as_str()?.to_owned()))
            .collect())
    }

    /// Calls a tool: whether it says that it failed, and its text.
    ///
    /// # Errors
    /// On a protocol error.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<(bool, String)> {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        let parts = result["content"].as_array().context("no content")?;
        let text = parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n");
        Ok((result["isError"].as_bool().unwrap_or(false), text))
    }

    /// Closes the connection; the server must leave by itself.
    ///
    /// # Errors
    /// When it does not.
    pub fn close(mut self) -> Result<std::process::ExitStatus> {
        drop(self.to.take());
        let until = Instant::now() + self.patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(
                Instant::now() < until,
                "the server did not leave when its input ended"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}
