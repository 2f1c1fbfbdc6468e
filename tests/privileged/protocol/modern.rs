//! The revision without a greeting: each request says what it needs, and a subscription is named by its request.

use anyhow::{Context as _, Result};

use crate::{duo::Duo, expect, raw};

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}"#;

fn call(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"do","_meta":{{{META}}}}}}}"#
    )
}

fn listen(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true}},"_meta":{{{META}}}}}}}"#
    )
}

fn told(method: &str, subscription: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{"x":1.0,"_meta":{{"io.modelcontextprotocol/subscriptionId":{subscription}}}}}}}"#
    )
}

fn passes(duo: &mut Duo, number: u64, id: &str, line: impl Fn(&str) -> String) -> Result<()> {
    duo.server(line(&number.to_string()))?;
    duo.client_gets(&line(id))
}

#[test]
fn a_first_look_passes() -> Result<()> {
    raw(|duo| {
        let discover = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover","params":{{"_meta":{{{META}}}}}}}"#
            )
        };
        let number = duo.forwarded("\"d\"", discover)?;
        let found = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{}},"ttlMs":0,"cacheScope":"private"}}}}"#
            )
        };
        passes(duo, number, "\"d\"", found)?;
        let number = duo.forwarded("1", call)?;
        duo.answered(number, "1")
    })
}

/// A server that knows nothing of it says so, and the client greets it as of old.
#[test]
fn a_first_look_that_fails_and_then_a_greeting() -> Result<()> {
    raw(|duo| {
        let discover = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover","params":{{"_meta":{{{META}}}}}}}"#
            )
        };
        let number = duo.forwarded("0", discover)?;
        let unknown = |id: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#)
        };
        passes(duo, number, "0", unknown)?;
        let greeting = crate::greeting::Greeting {
            client: r#"{"sampling":{}}"#,
            ..Default::default()
        };
        duo.greet(&greeting)?;
        let asks = r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#;
        duo.server(asks)?;
        duo.client_gets(asks)?;
        duo.works()
    })
}

#[test]
fn a_server_asks_nothing() -> Result<()> {
    raw(|duo| {
        let number = duo.forwarded("\"m\"", call)?;
        for method in [
            "roots/list",
            "sampling/createMessage",
            "elicitation/create",
            "ping",
        ] {
            duo.server(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#))?;
            expect::error_to_server(&duo.at_server()?, "1", -32601).with_context(|| method.to_owned())?;
        }
        let more = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"elicitation/create","params":{{}}}}}}}}}}"#
            )
        };
        passes(duo, number, "\"m\"", more)?;
        let number = duo.forwarded("1", call)?;
        duo.answered(number, "1")
    })
}

#[test]
fn a_subscription_has_the_clients_name() -> Result<()> {
    raw(|duo| {
        for id in ["\"\\u0073ub\"", "9007199254740993"] {
            let number = duo.forwarded(id, listen)?;
            for method in [
                "subscriptions/acknowledged",
                "tools/list_changed",
                "resources/updated",
            ] {
                passes(duo, number, id, |id| told(method, id)).with_context(|| method.to_owned())?;
            }
            // Of nobody's subscription.
            duo.server(told("tools/list_changed", &(number + 7).to_string()))?;
            // Its name stands twice, whichever comes first.
            let over = |id: &str| {
                let result = format!(
                    r#""result":{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#
                );
                if number % 2 == 0 {
                    format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#)
                } else {
                    format!(r#"{{{result},"id":{id},"jsonrpc":"2.0"}}"#)
                }
            };
            passes(duo, number, id, over)?;
            // It is over.
            duo.server(told("tools/list_changed", &number.to_string()))?;
        }
        let number = duo.forwarded("1", call)?;
        duo.answered(number, "1")
    })
}

/// A server may end one by taking it back.
#[test]
fn a_subscription_that_the_server_ends() -> Result<()> {
    raw(|duo| {
        let cancelled = |id: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
        };
        let number = duo.forwarded("\"sub\"", listen)?;
        duo.server(cancelled(&(number + 7).to_string()))?;
        passes(duo, number, "\"sub\"", cancelled)?;
        let over = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        passes(duo, number, "\"sub\"", over)
    })
}
