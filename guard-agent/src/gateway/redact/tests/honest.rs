//! Honest arguments and results, in which nothing may match.

use super::*;

/// A git log, a listing, a diff, code, prose, identifiers, times.
const TEXTS: &[&str] = &[
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8\ntree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nDate: Sat Nov 30 15:16:20 2024 +0100",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty.bin",
    "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    "id 123e4567-e89b-12d3-a456-426614174000, trace 4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "drwxr-xr-x 2 user user 4096 Nov 30 15:15 src\n-rw-r--r-- 1 user user 19836 Nov 30 15:15 failure.rs",
    "@@ -1,7 +1,7 @@\n-let total = 12345678;\n+let total = 12345679;\n context",
    "fn token(&self) -> Option<Token> { self.tokens.get(self.place + 1).copied() }",
    "let key = SigningKey::from_pkcs8_pem(text)?; ApiToken::v2_default()",
    "const password = await prompt('Password: ');\nif (password === confirm) { save(hash(password)); }",
    "api_key = os.environ[\"API_KEY\"]\nclient = Client(api_key=api_key, token=settings.token)",
    "<input type=\"password\" name=\"password\" autocomplete=\"current-password\">",
    "Your password must have at least 8 characters, 1 digit and 1 letter. The token expires in 3600 s.",
    "The secret of good coffee: grind it fresh. Access is granted by token: ask an administrator.",
    "https://example.org/a/b?page=2&sort=-date&limit=100#section-3 and http://localhost:8080/health",
    "10.0.0.1:443 192.168.1.254 fe80::1ff:fe23:4567:890a 00:1B:44:11:3A:B7 v1.22.333-rc.4",
    "2024-11-30T15:16:20.123456Z 1732979780 1732979780123 1732979780123456789 20241130151620",
    "ISBN 978-3-16-148410-0, EAN 4006381333931, IMEI 490154203237518, part 12-3456-78",
    "| 1 | 2 | 3 | 1000 2000 3000 4000 | 55 555 5555 | 0.1234567890123456 |",
    "lat 52.520008, lon 13.404954; 1,234,567.89 EUR; 3.14159265358979; 6.02214076e23",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ3ZXJ0eXVpb3Bhc2RmZ2hqa2x6eGN2Ym5t",
    "npm i react@18.2.0 @scope/name@^1.0.0; cargo add serde@1; docker pull image@sha256:abc",
    "C:\\Program Files\\App\\new\\table.txt and /usr/lib/x86_64-linux-gnu/libssl.so.1.1",
    "internationalization, pneumonoultramicroscopicsilicovolcanoconiosis, getUserAccessTokenFromCacheOrDefault",
    "100%25 off, %E4%B8%AD%E6%96%87, 50% of %d and %s",
    "Größe: 12 345 678 Byte; 中文字符:令牌;パスワード: 入力してください",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ2VydGlmaWNhdGUgZm9yIHRlc3RzMAoGCCqGSM49BAMC\n-----END CERTIFICATE-----",
];

/// Arguments and results of tools as they are on the wire.
const VALUES: &[&str] = &[
    r#"{"path":"/srv/data/notes.txt","offset":0,"limit":4096}"#,
    r#"{"name":"search","arguments":{"query":"token bucket algorithm","max_results":10},"_meta":{"progressToken":"a1b2c3d4-5"}}"#,
    r#"{"content":[{"type":"text","text":"3 files changed, 12 insertions(+), 4 deletions(-)"},{"type":"text","text":"ok"}],"isError":false}"#,
    r#"{"content":[{"type":"image","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==","mimeType":"image/png"}]}"#,
    r#"{"structuredContent":{"temperature":-3.5e0,"humidity":0.81,"at":1732979780123,"id":12345678901234567890}}"#,
    r#"{"nextCursor":"eyJvZmZzZXQiOjEwMCwic29ydCI6ImRhdGUifQ==","total_tokens":1234,"usage":{"input_tokens":12,"output_tokens":34}}"#,
    r#"{"inputSchema":{"type":"object","properties":{"password":{"type":"string","format":"password"},"token":{"type":"string"}},"required":["password","token"]}}"#,
    r#"{"sql":"SELECT id, password_hash FROM users WHERE token IS NULL AND id IN (1, 2, 3)"}"#,
    r#"{"sha":"da39a3ee5e6b4b0d3255bfef95601890afd80709","node_id":"MDQ6VXNlcjU4MzIzMQ==","size":19836,"key":"main"}"#,
    r#"{"command":["ls","-la","--color=auto"],"env":[{"name":"LANG","value":"C.UTF-8"}],"timeout":30000}"#,
    r#"{"results":[{"title":"A \"quoted\" title\n","score":0.98765,"ids":[1000000001,1000000002,1000000003]}]}"#,
];

#[test]
fn nothing_matches_in_honest_texts() {
    for text in TEXTS {
        assert_eq!(Rules::default().find(text), [], "{text}");
    }
}

#[test]
fn nothing_matches_in_honest_values() {
    for value in VALUES {
        let redacted = Rules::default().json(value.as_bytes()).unwrap();
        assert_eq!(redacted.matches, [], "{value}");
        assert_eq!(redacted.bytes, value.as_bytes());
    }
    for text in TEXTS {
        let value = serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string();
        assert_eq!(json(&value), value);
    }
}
