//! JSON values: what is replaced, and every byte that is not.

use super::*;
use crate::gateway::redact::RuleId::*;

fn matches(value: &str) -> Vec<(RuleId, usize)> {
    Rules::default().json(value.as_bytes()).unwrap().matches
}

#[test]
fn all_but_the_match_stays_as_it_was_written() {
    let value = "{ \"z\" : 1.50e+03,\r\n\t\"a\":[true ,null],\"t\":\"\\u0041\\/ mail alice@example.org \\ud83d\\ude00\\n\" , \"z\":-0 }";
    let expected = value.replace("alice@example.org", "[redacted:email]");
    assert_eq!(json(value), expected);
    assert_eq!(matches(value), [(Email, 1)]);
}

#[test]
fn escapes_are_read_and_go_with_the_match_only() {
    assert_eq!(
        json(r#"["\u00e4 alice\u0040example.org\u0021 \""]"#),
        r#"["\u00e4 [redacted:email]\u0021 \""]"#
    );
    assert_eq!(
        json(r#""\ud83d\ude00a@example.org\ud800""#),
        r#""\ud83d\ude00[redacted:email]\ud800""#
    );
    let begin = concat!("-----BEGIN PRIVATE", " KEY-----");
    let end = concat!("-----END PRIVATE", " KEY-----");
    let body = noise(64);
    assert_eq!(
        json(&format!(r#"{{"k":"x\n{begin}\n{body}\n{end}\n"}}"#)),
        r#"{"k":"x\n[redacted:private-key]\n"}"#
    );
}

#[test]
fn keys_are_redacted_too() {
    assert_eq!(
        json(r#"{"alice@example.org": {"n": 1}}"#),
        r#"{"[redacted:email]": {"n": 1}}"#
    );
}

#[test]
fn the_value_of_a_secrets_name_is_one_whatever_it_looks_like() {
    let value = r#"{"password":"a b","api_key":"x","accessToken":"-","Authorization":"none","client-secret":"s","APIKey":"k","x-api-key":"\u0061"}"#;
    let expected = r#"{"password":"[redacted:named-secret]","api_key":"[redacted:named-secret]","accessToken":"[redacted:named-secret]","Authorization":"[redacted:named-secret]","client-secret":"[redacted:named-secret]","APIKey":"[redacted:named-secret]","x-api-key":"[redacted:named-secret]"}"#;
    assert_eq!(json(value), expected);
    assert_eq!(matches(value), [(NamedSecret, 7)]);
    assert_eq!(
        json(r#"{"p\u0061ssword":"a"}"#),
        r#"{"p\u0061ssword":"[redacted:named-secret]"}"#
    );
    assert_eq!(
        json(r#"{"secrets":["a",["b"],1]}"#),
        r#"{"secrets":["[redacted:named-secret]",["[redacted:named-secret]"],"[redacted:named-secret]"]}"#
    );
    assert_eq!(
        json(r#"{"password": 1234}"#),
        r#"{"password": "[redacted:named-secret]"}"#
    );
    // What says more about it gives its name.
    let token = format!("{}{}", concat!("gh", "p_"), noise(36));
    assert_eq!(
        json(&format!(r#"{{"token":"{token}"}}"#)),
        r#"{"token":"[redacted:github-token]"}"#
    );
}

#[test]
fn names_that_only_sound_secret_and_values_that_are_none_stay() {
    for value in [
        r#"{"progressToken":"abc","nextPageToken":"def","page_token":"g","max_tokens":4096,"token_type":"Bearer"}"#,
        r#"{"password":"","secret":true,"token":null,"credentials":{}}"#,
        r#"{"properties":{"password":{"type":"string","description":"The password."}},"required":["password"]}"#,
        r#"{"key":"value","keys":["a"],"author":"x","passed":12,"pass":3,"tokens":["a","b"]}"#,
        r#"{"name":"password","description":"a field"}"#,
        r#"["--password-file","/run/x","--token"]"#,
    ] {
        assert_eq!(json(value), value);
    }
}

#[test]
fn names_beside_their_values() {
    assert_eq!(
        json(r#"[{"name":"DB_PASSWORD","value":"x"},{"name":"HOME","value":"x"}]"#),
        r#"[{"name":"DB_PASSWORD","value":"[redacted:named-secret]"},{"name":"HOME","value":"x"}]"#
    );
    assert_eq!(
        json(r#"{"args":["--user","u","--password","p","-v"]}"#),
        r#"{"args":["--user","u","--password","[redacted:named-secret]","-v"]}"#
    );
}

#[test]
fn numbers_that_are_cards_become_strings() {
    assert_eq!(
        json(r#"{"n": 4111111111111111, "m":[378282246310005]}"#),
        r#"{"n": "[redacted:card]", "m":["[redacted:card]"]}"#
    );
    assert_eq!(json("4111111111111111"), r#""[redacted:card]""#);
    assert_eq!(
        json(r#"{"pesel":44051401359,"size":44051401359}"#),
        r#"{"pesel":"[redacted:national-id]","size":44051401359}"#
    );
    for value in ["4111111111111112", "1732979780123", "[1e10,-4111111111111111]"] {
        assert_eq!(json(value), value);
    }
}

#[test]
fn what_is_split_over_blocks_goes_from_each() {
    let token = format!("{}{}", concat!("gh", "p_"), noise(36));
    let (one, two) = token.split_at(7);
    let (two, three) = two.split_at(9);
    let value = format!(
        r#"{{"content":[{{"type":"text","text":"x {one}"}},{{"text":"{two}","type":"text"}},{{"type":"text","text":"{three} y"}}]}}"#
    );
    let mask = "[redacted:github-token]";
    assert_eq!(
        json(&value),
        format!(
            r#"{{"content":[{{"type":"text","text":"x {mask}"}},{{"text":"{mask}","type":"text"}},{{"type":"text","text":"{mask} y"}}]}}"#
        )
    );
    assert_eq!(matches(&value), [(GithubToken, 1)]);
    // Escapes at the seam, and a rest that is found in a block by itself.
    assert_eq!(
        json(r#"{"content":[{"text":"alice"},{"text":"\u0040example.org, b@example.org"}]}"#),
        r#"{"content":[{"text":"[redacted:email]"},{"text":"[redacted:email], [redacted:email]"}]}"#
    );
}

#[test]
fn what_is_split_over_anything_else_is_not_one_text() {
    for value in [
        r#"{"content":[{"text":"alice"},{"type":"image","data":""},{"text":"@example.org"}]}"#,
        r#"{"content":[{"text":"alice"}],"more":{"content":[{"text":"@example.org"}]}}"#,
        r#"{"content":[{"note":"alice"},{"note":"@example.org"}]}"#,
    ] {
        assert_eq!(json(value), value);
    }
}

#[test]
fn what_is_no_json_gives_an_error_and_no_output() {
    for (value, expected) in [
        (
            &b"{\"a\":"[..],
            "cannot redact a value that is not JSON: EOF while parsing a value at line 1 column 5",
        ),
        (
            b"\"a\" \"b\"",
            "cannot redact a value that is not JSON: trailing characters at line 1 column 5",
        ),
        (
            b"",
            "cannot redact a value that is not JSON: EOF while parsing a value at line 1 column 0",
        ),
        (
            b"\"\xff\"",
            "cannot redact a value that is not UTF-8: invalid utf-8 sequence of 1 bytes from index 1",
        ),
    ] {
        assert_eq!(Rules::default().json(value).unwrap_err().to_string(), expected);
    }
}

#[test]
fn depth_and_length_are_no_trouble() {
    let deep = format!("{}\"a@example.org\"{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(json(&deep), deep.replace("a@example.org", "[redacted:email]"));
}

#[test]
fn deny_is_told_and_the_record_is_masked() {
    let rules = Rules::with(&[(Card, Mode::Deny)], Key::new([0; 32]));
    let redacted = rules.json(br#"{"n":4111111111111111}"#).unwrap();
    assert_eq!(redacted.bytes, br#"{"n":"[redacted:card]"}"#);
    assert!(redacted.denied);
    assert!(!rules.json(br#"{"n":"a@example.org"}"#).unwrap().denied);
}
