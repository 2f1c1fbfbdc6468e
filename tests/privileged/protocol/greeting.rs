//! `initialize`: forwarded as it is, but for versions that nobody here knows.

use anyhow::Result;

use crate::{duo::Duo, expect, greeted, raw};

/// What both say of themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Greeting<'a> {
    pub(crate) version: &'a str,
    pub(crate) client: &'a str,
    pub(crate) server: &'a str,
}

impl Default for Greeting<'_> {
    fn default() -> Self {
        Self {
            version: "2025-06-18",
            client: "{}",
            server: r#"{"tools":{}}"#,
        }
    }
}

impl Greeting<'_> {
    pub(crate) fn question(&self, id: &str) -> String {
        let Self { version, client, .. } = self;
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{client},"clientInfo":{{"name":"guard-tests","version":"0"}}}}}}"#
        )
    }

    pub(crate) fn answer(&self, id: &str) -> String {
        let Self { version, server, .. } = self;
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"{version}","capabilities":{server},"serverInfo":{{"name":"scripted","version":"0"}}}}}}"#
        )
    }
}

pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl Duo {
    /// The whole handshake, each message as it was said.
    pub(crate) fn greet(&mut self, greeting: &Greeting<'_>) -> Result<()> {
        let number = self.forwarded("0", |id| greeting.question(id))?;
        self.server(greeting.answer(&number.to_string()))?;
        self.client_gets(&greeting.answer("0"))?;
        self.client(INITIALIZED)?;
        self.server_gets(INITIALIZED)
    }
}

#[test]
fn each_known_version_passes_unchanged() -> Result<()> {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        raw(|duo| {
            duo.greet(&Greeting {
                version,
                ..Greeting::default()
            })?;
            duo.works()
        })?;
    }
    Ok(())
}

/// Nothing else of the request changes: not the client's spelling, not what is like a version elsewhere.
#[test]
fn a_version_of_the_future_is_asked_for_as_the_newest_we_know() -> Result<()> {
    let question = |id: &str, version: &str| {
        format!(
            r#"{{ "params": {{"clientInfo":{{"version":"2099-01-01","name":"\u0067"}}, "protocolVersion" : "{version}","capabilities":{{"roots":{{}}}},"x":1.0}},"id":{id},"method":"initialize","jsonrpc":"2.0"}}"#
        )
    };
    let newest = Greeting {
        version: "2025-11-25",
        ..Greeting::default()
    };
    raw(|duo| {
        duo.client(question("\"first\"", "2099-01-01"))?;
        let number = duo.takes(|id| question(id, "2025-11-25"))?.to_string();
        duo.server(newest.answer(&number))?;
        duo.client_gets(&newest.answer("\"first\""))?;
        duo.works()
    })
}

/// The client hears why; what the server would do under rules that nobody here knows does not matter.
#[test]
fn an_answer_with_an_unknown_version_is_an_error() -> Result<()> {
    for version in ["2099-01-01", "1.0", "", "2025-11-25x"] {
        raw(|duo| {
            let number = duo.forwarded("\"hello\"", |id| Greeting::default().question(id))?;
            let unknown = Greeting {
                version,
                ..Greeting::default()
            };
            duo.server(unknown.answer(&number.to_string()))?;
            expect::error(&duo.at_client()?, "\"hello\"", -32603, "form", "version")
        })?;
    }
    Ok(())
}

#[test]
fn a_server_may_refuse_to_greet() -> Result<()> {
    raw(|duo| {
        let number = duo.forwarded("1", |id| Greeting::default().question(id))?;
        let refusal = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no","data":{{"supported":["x"]}}}}}}"#
            )
        };
        duo.server(refusal(&number.to_string()))?;
        duo.client_gets(&refusal("1"))
    })
}

#[test]
fn a_second_greeting_is_refused_while_the_first_is_open_and_later() -> Result<()> {
    raw(|duo| {
        let greeting = Greeting::default();
        let number = duo.forwarded("0", |id| greeting.question(id))?;
        duo.client(greeting.question("\"again\""))?;
        expect::error(
            &duo.at_client()?,
            "\"again\"",
            -32600,
            "form",
            "initialized-twice",
        )?;
        duo.server(greeting.answer(&number.to_string()))?;
        duo.client_gets(&greeting.answer("0"))?;
        duo.client(INITIALIZED)?;
        duo.server_gets(INITIALIZED)?;
        duo.refused(greeting.question("0"), "0", -32600, "initialized-twice")
    })
}

#[test]
fn a_greeting_that_is_taken_back_is_answered_all_the_same() -> Result<()> {
    raw(|duo| {
        let greeting = Greeting::default();
        let number = duo.forwarded("0", |id| greeting.question(id))?;
        duo.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#)?;
        duo.works()?;
        duo.server(greeting.answer(&number.to_string()))?;
        duo.client_gets(&greeting.answer("0"))
    })
}

#[test]
fn both_may_speak_again_after_a_greeting_with_everything_declared() -> Result<()> {
    greeted(|duo| {
        for _ in 0..3 {
            duo.works()?;
        }
        Ok(())
    })
}
