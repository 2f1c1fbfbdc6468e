//! Names that mean something to us, and names that only look like them.

/// Members of a message.
pub(in crate::gateway) const MESSAGE: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];

/// Members of `params` that a decision hangs on, in any of its methods.
pub(in crate::gateway) const PARAMS: &[&str] = &[
    "_meta",
    "arguments",
    "capabilities",
    "clientInfo",
    "cursor",
    "inputResponses",
    "name",
    "progressToken",
    "protocolVersion",
    "requestId",
    "requestState",
    "task",
    "taskId",
    "uri",
];

/// The same of `params._meta`.
pub(in crate::gateway) const META: &[&str] = &[
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/related-task",
    "progressToken",
];

/// Whether some reader could take `key` for one of `names`, though it is none.
pub(in crate::gateway) fn looks_like_one(key: &str, names: &[&str]) -> bool {
    if names.contains(&key) {
        return false;
    }
    names.iter().any(|name| fold(key).eq(fold(name)))
}

/// Without case, without what cannot be seen, and with the letters whose lower or upper case is an ASCII one.
fn fold(key: &str) -> impl Iterator<Item = char> {
    key.chars()
        .filter(|one| !one.is_control() && !invisible(*one))
        .map(|one| match one {
            '\u{130}' | '\u{131}' => 'i',
            '\u{17f}' => 's',
            other => other,
        })
        .flat_map(char::to_lowercase)
}

fn invisible(one: char) -> bool {
    matches!(one, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// What one side may ask the other, in any revision.
const REQUESTS: &[&str] = &[
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/update",
    "tools/call",
    "tools/list",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
];

/// Whether the method is one of a request: as a notification a server might still act on it.
pub(in crate::gateway) fn is_request(method: &str) -> bool {
    REQUESTS.contains(&method)
}

/// Whether a server may send such a notification without a word on it beforehand.
pub(in crate::gateway) fn is_server_notification(method: &str) -> bool {
    matches!(
        method,
        "notifications/cancelled"
            | "notifications/elicitation/complete"
            | "notifications/message"
            | "notifications/progress"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/resources/updated"
            | "notifications/subscriptions/acknowledged"
            | "notifications/tasks"
            | "notifications/tasks/status"
            | "notifications/tools/list_changed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_only_looks_like_one_is_found() {
        let likes = [
            "Method",
            "METHOD",
            "meth\u{0}od",
            "method\u{200b}",
            "re\u{17f}ult",
            "\u{131}d",
            "PARAM\u{17f}",
        ];
        for key in likes {
            assert!(looks_like_one(key, MESSAGE), "{key:?}");
        }
        assert!(looks_like_one("ta\u{17f}\u{212a}", PARAMS) && looks_like_one("RequestID", PARAMS));
        for key in MESSAGE
            .iter()
            .chain(&["vendor", "methods", "meta", "identity", "\u{444}"])
        {
            assert!(!looks_like_one(key, MESSAGE), "{key:?}");
        }
    }
}
