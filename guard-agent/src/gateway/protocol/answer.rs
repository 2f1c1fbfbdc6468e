//! Messages of our own. They say whose they are: nobody is to take them for the other side's.

use serde_json::{Value, json};

/// Not one of the protocol's.
pub(in crate::gateway) const TOO_MANY: i32 = -31001;
pub(in crate::gateway) const DENIED: i32 = -31003;
pub(in crate::gateway) const TIMEOUT: i32 = -31002;
pub(in crate::gateway) const METHOD_NOT_FOUND: i32 = -32601;
pub(in crate::gateway) const INTERNAL_ERROR: i32 = -32603;

/// Appends the line of an error answer. `id` as the request has it.
pub(in crate::gateway) fn error(
    out: &mut Vec<u8>,
    id: Option<&[u8]>,
    code: i32,
    message: &str,
    data: &Value,
) {
    let message = Value::from(format!("guard-agent: {message}"));
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.unwrap_or(b"null"));
    out.extend_from_slice(
        format!(",\"error\":{{\"code\":{code},\"message\":{message},\"data\":{data}}}}}\n").as_bytes(),
    );
}

/// What a denial by the first gate carries.
pub(in crate::gateway) fn form(rule: &str) -> Value {
    json!({"gate": "form", "rule": rule})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_line_with_the_id_as_it_was() {
        let mut out = Vec::new();
        error(
            &mut out,
            Some(b"\"\\u0061\""),
            -32600,
            "a \"b\"\n",
            &form("shape"),
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"error\":{\"code\":-32600,\
             \"message\":\"guard-agent: a \\\"b\\\"\\n\",\"data\":{\"gate\":\"form\",\"rule\":\"shape\"}}}\n"
        );
    }
}
