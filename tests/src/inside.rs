//! A Python interpreter inside a sandbox that evaluates what the test asks: any call, and its errno.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agent::{AgentBuilder, Finished, Live};

/// The distribution's own: every user reaches it.
pub const PYTHON: &str = "/usr/bin/python3";

const PATIENCE: Duration = Duration::from_secs(60);

/// One line in, one line out. Text that is no UTF-8 travels as surrogates.
const DRIVER: &str = r"
import sys, os, json, errno, socket, subprocess, stat, time, ctypes
def text(path):
    with open(path) as file: return file.read()
def write(path, content='x', mode='w'):
    with open(path, mode) as file: return file.write(content)
def run(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return [done.returncode, done.stdout, done.stderr]
def attempt(call):
    try: return call()
    except OSError as error: return errno.errorcode.get(error.errno, str(error.errno))
def attempt_any(call):
    try: return call()
    except Exception as error: return repr(error)
for line in sys.stdin:
    code = json.loads(line)
    try:
        answer = {'ok': eval(code)}
    except OSError as error:
        answer = {'errno': errno.errorcode.get(error.errno, str(error.errno))}
    except Exception as error:
        answer = {'error': repr(error)}
    print(json.dumps(answer), flush=True)
";

/// What an expression came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Ok(Value),
    /// The name of the errno.
    Errno(String),
}

/// A running interpreter.
#[derive(Debug)]
pub struct Inside(Live);

impl Inside {
    /// Starts it as the launch says; only the command is added.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start(run: AgentBuilder) -> Result<Self> {
        let live = run.command([PYTHON, "-I", "-c", DRIVER]).spawn()?;
        let mut inside = Self(live);
        ensure!(inside.ask("1 + 1")? == Answer::Ok(json!(2)), "it cannot count");
        Ok(inside)
    }

    /// # Errors
    /// When there is no answer, or an error that is not one of the system.
    pub fn ask(&mut self, code: &str) -> Result<Answer> {
        self.0.send(&json!(code).to_string())?;
        let line = self.0.line(PATIENCE).with_context(|| format!("asked `{code}`"))?;
        let answer: Value = serde_json::from_str(&line).with_context(|| format!("unreadable: `{line}`"))?;
        if let Some(value) = answer.get("ok") {
            return Ok(Answer::Ok(value.clone()));
        }
        match answer["errno"].as_str() {
            Some(errno) => Ok(Answer::Errno(errno.to_owned())),
            None => bail!("`{code}` went wrong: {line}"),
        }
    }

    /// The value it must come to.
    ///
    /// # Errors
    /// When it comes to another.
    pub fn gives(&mut self, code: &str, wanted: impl Into<Value>) -> Result<()> {
        let (found, wanted) = (self.ask(code)?, Answer::Ok(wanted.into()));
        ensure!(found == wanted, "`{code}` gave {found:?}, not {wanted:?}");
        Ok(())
    }

    /// Any value, but no error.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn works(&mut self, code: &str) -> Result<Value> {
        match self.ask(code)? {
            Answer::Ok(value) => Ok(value),
            Answer::Errno(errno) => bail!("`{code}` failed with {errno}"),
        }
    }

    /// It must fail with one of these errors.
    ///
    /// # Errors
    /// When it works or fails otherwise.
    pub fn fails(&mut self, code: &str, errnos: &[&str]) -> Result<()> {
        match self.ask(code)? {
            Answer::Errno(errno) if errnos.contains(&errno.as_str()) => Ok(()),
            other => bail!("`{code}` gave {other:?}, not one of {errnos:?}"),
        }
    }

    /// Pid of what was started, the agent or what stands around it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.child.id()
    }

    #[must_use]
    pub fn live(self) -> Live {
        self.0
    }

    /// Ends it as a client does.
    ///
    /// # Errors
    /// When it does not end well.
    pub fn end(self) -> Result<Finished> {
        let finished = self.0.finish(PATIENCE)?;
        ensure!(
            finished.status.success(),
            "ended with {}: {}",
            finished.status,
            finished.stderr
        );
        Ok(finished)
    }
}

/// A path as a Python literal, whatever its bytes are.
#[must_use]
pub fn py(path: impl AsRef<Path>) -> String {
    use std::{fmt::Write as _, os::unix::ffi::OsStrExt as _};
    let mut text = String::from("b'");
    for byte in path.as_ref().as_os_str().as_bytes() {
        let _ = match byte {
            b'/' | b'.' | b'-' | b'_' => write!(text, "{}", char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => write!(text, "{}", char::from(*byte)),
            byte => write!(text, "\\x{byte:02x}"),
        };
    }
    text.push('\'');
    text
}
