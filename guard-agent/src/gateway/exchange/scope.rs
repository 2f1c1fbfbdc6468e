//! Who may call and see what. A call that is not allowed is answered as one of something that is not there, and what is
//! not allowed is in no list.

use std::{borrow::Cow, sync::Arc};

use serde_json::json;

use super::{Exchange, Opened, Out};
use crate::{
    config::{
        rights::Rights,
        rules::{identity::Identity, tool::Quadrant},
    },
    gateway::{
        gates::scope::{Rules, Selector},
        pins::Filter,
        protocol::{
            answer::{self, DENIED},
            message::{self, Message},
            splice,
        },
    },
};

/// The rules, and whom they are asked for.
#[derive(Debug, Clone)]
pub(in crate::gateway) struct Scope {
    pub(in crate::gateway) rules: Arc<Rules>,
    pub(in crate::gateway) who: Identity,
}

/// What a call may do.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::gateway) struct Terms {
    /// While it runs; none: those of the launch.
    pub(in crate::gateway) rights: Option<Rights>,
    /// Which rule counts.
    pub(in crate::gateway) rule: Option<String>,
}

/// Why it is not passed on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) gate: &'static str,
    pub(super) rule: String,
    /// For the model.
    pub(super) why: String,
}

impl Denial {
    /// The same whether or not there is such a thing.
    fn unknown(what: &str, name: &str) -> Self {
        Self {
            gate: "identity",
            rule: "unknown".to_owned(),
            why: format!("unknown {what} {}", serde_json::Value::from(name)),
        }
    }
}

/// Which list a request asks for.
pub(super) fn list(method: &str) -> Option<Filter> {
    match method {
        "tools/list" => Some(Filter::Tools),
        "prompts/list" => Some(Filter::Prompts),
        "resources/list" => Some(Filter::Resources),
        "resources/templates/list" => Some(Filter::Templates),
        _ => None,
    }
}

impl Scope {
    fn admits(&self, what: Selector<'_>) -> bool {
        self.rules.admits(&self.who, what)
    }

    /// Whether an item of a list may be seen.
    pub(super) fn shows(&self, list: Filter, name: &str) -> bool {
        self.admits(match list {
            Filter::Tools => Selector::Tool(name),
            Filter::Prompts => Selector::Prompt(name),
            Filter::Resources | Filter::Templates => Selector::Resource(name),
        })
    }

    pub(super) fn admits_resource(&self, uri: &str) -> bool {
        self.admits(Selector::Resource(uri))
    }

    pub(super) fn judge(&self, method: &str, message: &Message<'_>) -> Result<Terms, Denial> {
        let text = |path: &[&str]| message.text_param(path).unwrap_or(Cow::Borrowed(""));
        match method {
            "tools/call" => self.tool(&text(&["name"])),
            "prompts/get" => self.other("prompt", Selector::Prompt, &text(&["name"])),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                self.other("resource", Selector::Resource, &text(&["uri"]))
            }
            "completion/complete" if &*text(&["ref", "type"]) == "ref/prompt" => {
                self.other("prompt", Selector::Prompt, &text(&["ref", "name"]))
            }
            "completion/complete" => self.other("resource", Selector::Resource, &text(&["ref", "uri"])),
            "subscriptions/listen" => {
                let asked = message.param(&["notifications", "resourceSubscriptions"]);
                let raw = asked.map_or(&b"[]"[..], |range| message.raw(range));
                splice::elements(raw).try_for_each(|uri| {
                    let uri = message::text_at(uri, &[]).unwrap_or(Cow::Borrowed(""));
                    self.other("resource", Selector::Resource, &uri).map(drop)
                })?;
                Ok(Terms::default())
            }
            _ => Ok(Terms::default()),
        }
    }

    fn other<'a>(
        &self,
        what: &str,
        selector: fn(&'a str) -> Selector<'a>,
        name: &'a str,
    ) -> Result<Terms, Denial> {
        if self.admits(selector(name)) {
            Ok(Terms::default())
        } else {
            Err(Denial::unknown(what, name))
        }
    }

    fn tool(&self, name: &str) -> Result<Terms, Denial> {
        if !self.admits(Selector::Tool(name)) {
            return Err(Denial::unknown("tool", name));
        }
        let tool = self.rules.tool(name);
        if tool.quadrant != Quadrant::Run {
            return Err(Denial {
                gate: "impact",
                rule: tool.id.to_string(),
                why: "a person would have to approve this call, and nobody can here; use another tool"
                    .to_owned(),
            });
        }
        Ok(Terms {
            rights: tool.rights,
            rule: Some(tool.id.to_string()),
        })
    }
}

impl Exchange {
    /// The answer to what is denied. A tool's is a result, which a model reads; others have an error.
    pub(super) fn deny(&self, message: &Message<'_>, method: &str, denial: &Denial, out: &mut Out) {
        let id = message.raw_id();
        if method != "tools/call" || message.param(&["task"]).is_some() {
            let data = json!({"gate": denial.gate, "rule": denial.rule});
            return answer::error(&mut out.to_client, Some(id), DENIED, &denial.why, &data);
        }
        let text = format!("guard-agent: {} [{} {}]", denial.why, denial.gate, denial.rule);
        let mut result = json!({"content": [{"type": "text", "text": text}], "isError": true});
        if self.opened == Opened::Modern {
            result["resultType"] = "complete".into();
        }
        out.to_client.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.to_client.extend_from_slice(id);
        out.to_client
            .extend_from_slice(format!(",\"result\":{result}}}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::Value;

    use super::*;
    use crate::{
        config::rules,
        gateway::{
            exchange::{Step, calls::Method},
            protocol::message::Read,
        },
    };

    const POLICY: &str = r#"
[server.files]
command = ["x"]
roots = [{ path = "/srv/docs", rights = "rw" }]
[server.files.tool."read_*"]
impact = "low"
reversible = true
rights = "r"
[server.files.tool.write]
impact = "low"
reversible = true
[role.reader]
allow = ["files/read_*", "files/write", "files/risky", "resource:files/file:///srv/docs/**", "prompt:files/hello"]
[identity.peer.uid]
1000 = { user = "ann", roles = ["reader"] }
"#;

    fn exchange() -> Exchange {
        let policy = rules::in_force(Path::new("p"), POLICY, String::new()).unwrap();
        let rules = Rules::of_policy(&policy, "files").unwrap();
        let who = rules.identity(1000).unwrap().clone();
        let scope = Scope {
            rules: Arc::new(rules),
            who,
        };
        Exchange::new("files", vec![PathBuf::from("/srv/docs")], Some(scope))
    }

    fn ask(exchange: &mut Exchange, method: &str, params: &Value) -> Out {
        let asked = json!({"jsonrpc": "2.0", "id": "k", "method": method, "params": params});
        exchange.client_sent(&Read::of(asked.to_string().as_bytes()))
    }

    fn said(out: &Out) -> Value {
        serde_json::from_slice(&out.to_client).unwrap()
    }

    #[test]
    fn what_a_role_allows_passes_with_the_rights_of_its_tool() {
        let mut exchange = exchange();
        for (name, rights) in [("read_file", Some(Rights::R)), ("write", None)] {
            let out = ask(&mut exchange, "tools/call", &json!({"name": name}));
            assert!(out.to_client.is_empty() && !out.to_server.is_empty(), "{name}");
            let [Step::Begun(begun)] = out.steps.as_slice() else {
                panic!("{:?}", out.steps)
            };
            assert_eq!(begun.terms.rights, rights, "{name}");
            assert!(begun.terms.rule.as_ref().unwrap().starts_with("r-"));
            let answer = json!({"jsonrpc": "2.0", "id": exchange.last(), "result": {}});
            exchange.server_sent(&Read::of(answer.to_string().as_bytes()));
        }
        for (method, params) in [
            ("resources/read", json!({"uri": "file:///srv/docs/a"})),
            ("resources/subscribe", json!({"uri": "file:///srv/docs/a"})),
            ("prompts/get", json!({"name": "hello"})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "hello"}}),
            ),
            (
                "subscriptions/listen",
                json!({"notifications": {"resourceSubscriptions": ["file:///srv/docs/a"]}}),
            ),
            ("ping", json!({})),
        ] {
            let asked = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
            let out = exchange.client_sent(&Read::of(asked.to_string().as_bytes()));
            assert!(!out.to_server.is_empty() && out.to_client.is_empty(), "{method}");
        }
    }

    #[test]
    fn what_no_role_allows_is_answered_as_if_it_were_not_there() {
        let mut exchange = exchange();
        for name in ["delete", "read", "READ_file", "no such", "read_\u{430}", ""] {
            let params = json!({"name": name, "arguments": {"a": 1}});
            let out = ask(&mut exchange, "tools/call", &params);
            assert!(out.to_server.is_empty(), "{name}");
            let answer = said(&out);
            assert_eq!(
                (&answer["id"], &answer["result"]["isError"]),
                (&json!("k"), &json!(true))
            );
            let text = format!("guard-agent: unknown tool {} [identity unknown]", json!(name));
            assert_eq!(answer["result"]["content"][0]["text"], text);
            let [Step::Refused(refused)] = out.steps.as_slice() else {
                panic!("{:?}", out.steps)
            };
            let call = refused.call.as_ref().unwrap();
            assert_eq!(
                (call.method, call.name.as_deref()),
                (Method::ToolsCall, Some(name))
            );
            assert_eq!((refused.gate, &*refused.rule), ("identity", "unknown"));
        }
        for (method, params) in [
            ("resources/read", json!({"uri": "file:///etc/passwd"})),
            ("resources/read", json!({"uri": "file:///srv/docs/../x"})),
            ("resources/read", json!({"uri": 7})),
            ("resources/subscribe", json!({"uri": "file:///etc/passwd"})),
            ("prompts/get", json!({"name": "other"})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "other"}}),
            ),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/resource", "uri": "file:///etc/{x}"}}),
            ),
            ("completion/complete", json!({})),
            (
                "subscriptions/listen",
                json!({"notifications": {"resourceSubscriptions": ["file:///srv/docs/a", "file:///x"]}}),
            ),
            ("tools/call", json!({"name": "delete", "task": {}})),
        ] {
            let out = ask(&mut exchange, method, &params);
            assert!(out.to_server.is_empty(), "{method} {params}");
            let error = said(&out)["error"].clone();
            assert_eq!(
                (&error["code"], &error["data"]["gate"]),
                (&json!(DENIED), &json!("identity"))
            );
        }
    }

    #[test]
    fn what_needs_a_person_is_denied() {
        let mut exchange = exchange();
        let out = ask(&mut exchange, "tools/call", &json!({"name": "risky"}));
        assert!(out.to_server.is_empty());
        let text = said(&out)["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(text.contains("approve") && text.contains("[impact r-"), "{text}");
    }

    #[test]
    fn lists_hold_what_may_be_called_and_their_other_bytes() {
        let mut exchange = exchange();
        let mut listed = |method: &str, result: &str| {
            let out = ask(&mut exchange, method, &json!({}));
            assert!(!out.to_server.is_empty());
            let answer = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
                exchange.last()
            );
            let out = exchange.server_sent(&Read::of(answer.as_bytes()));
            String::from_utf8(out.to_client).unwrap()
        };
        let tool = |name: &str| format!(r#"{{ "name":"{name}","inputSchema":{{"type":"object"}} }}"#);
        let all = format!(
            r#"{{"tools":[{}, {},{}],"x":1.0}}"#,
            tool("delete"),
            tool("read_a"),
            tool("write")
        );
        let left = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"k\",\"result\":{{\"tools\":[{},{}],\"x\":1.0}}}}\n",
            tool("read_a"),
            tool("write")
        );
        assert_eq!(listed("tools/list", &all), left);
        let whole = format!(r#"{{"tools":[ {} ]}}"#, tool("write"));
        assert!(listed("tools/list", &whole).contains(&whole));
        let prompts = r#"{"prompts":[{"name":"other"},{"name":"hello"}]}"#;
        assert!(listed("prompts/list", prompts).contains(r#"{"prompts":[{"name":"hello"}]}"#));
        let resources = r#"{"resources":[{"uri":"file:///srv/docs/a"},{"uri":"file:///etc/x"}]}"#;
        assert!(listed("resources/list", resources).contains(r#"[{"uri":"file:///srv/docs/a"}]"#));
        // What cannot be read is not shown.
        let error = listed("tools/list", r#"{"tools":[{"title":"no name"}]}"#);
        assert!(
            error.contains("cannot be shown") && error.contains("bad-answer"),
            "{error}"
        );
        let error = listed("tools/list", r#"{"items":[]}"#);
        assert!(error.contains("bad-answer"), "{error}");
    }

    #[test]
    fn of_what_may_not_be_read_no_news_come() {
        let mut exchange = exchange();
        let mut told = |uri: &str| {
            let news = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
            !exchange
                .server_sent(&Read::of(news.to_string().as_bytes()))
                .to_client
                .is_empty()
        };
        assert!(told("file:///srv/docs/a"));
        assert!(!told("file:///etc/passwd"));
    }
}
