//! Each kind: what is plain passes, what anybody might read another way does not.

use super::*;

fn all(kind: &ParamKind, roots: &[Root], base: Option<&str>, sound: &[&str], wrong: &[&str]) {
    for text in sound {
        assert_eq!(kind.check(text, roots, base), Ok(()), "{text:?}");
    }
    for text in wrong {
        assert!(kind.check(text, roots, base).is_err(), "{text:?}");
    }
}

fn roots() -> Vec<Root> {
    let root = |path: &str, write| Root {
        path: path.to_owned(),
        write,
    };
    vec![root("/srv/a", true), root("/srv/ref/", false)]
}

#[test]
fn paths() {
    let read = ParamKind::Path { rights: Rights::Read };
    let sound = [
        "/srv/a",
        "/srv/a/",
        "/srv/a/b.txt",
        "/srv/a/./b",
        "/srv/a/..b",
        "/srv/a/b..",
        "/srv/a/...",
        "/srv/a/a b",
        "/srv/a/100%.txt",
        "/srv/a/ü",
        "/srv/a/$id.tsx",
        "/srv/a/b~",
        "/srv/a/a:b",
        "/srv/ref/x",
        "/srv/a/%20",
        "/srv/a/-rf",
    ];
    let wrong = [
        "",
        "/",
        "/srv",
        "/srv/ab",
        "/srv/a.txt",
        "/srv/A/b",
        "/srv/a/../b",
        "/srv/a/..",
        "..",
        "../a",
        "/srv/a/b/../../../etc/passwd",
        "//srv/a",
        "/srv//a",
        "/srv/a//b",
        "/srv/a/\0",
        "/srv/a/b\n",
        "/srv/a/\u{85}",
        "~/a",
        "~root/a",
        "/srv/a/~x/b",
        "$HOME/a",
        "/srv/a/${HOME}",
        "file:///srv/a",
        "FILE:/srv/a",
        "file:srv/a",
        "http://x/srv/a",
        "/srv/a\\..\\b",
        "/srv/a/%2e%2e/b",
        "/srv/a/%2E./b",
        "/srv/a%2fb",
        "/srv/a/%252e",
        "/srv/a/%00",
        "/srv/a/%5c",
        "/srv/a/\u{ff0e}\u{ff0e}/b",
        "/srv/a/\u{2025}/b",
        "/srv/a\u{ff0f}b",
        " /srv/a",
        "/srv/a ",
        "b.txt",
        "./b.txt",
        "\u{2024}\u{2024}/x",
    ];
    all(&read, &roots(), None, &sound, &wrong);
    let long = format!("/srv/a/{}", "x".repeat(256));
    let deep = format!("/srv/a{}", "/x".repeat(2100));
    all(&read, &roots(), None, &[], &[&long, &deep]);
    // Nothing is given, nothing is open; the whole tree is, where it is given.
    all(&read, &[], None, &[], &["/srv/a", "/"]);
    all(
        &read,
        &[Root {
            path: "/".to_owned(),
            write: false,
        }],
        None,
        &["/", "/etc"],
        &["/etc/../x"],
    );
}

#[test]
fn paths_that_are_written_need_a_root_that_is() {
    let write = ParamKind::Path {
        rights: Rights::Write,
    };
    all(&write, &roots(), None, &["/srv/a/b"], &["/srv/ref/b", "/etc/x"]);
    let why = write.check("/srv/ref/b", &roots(), None).unwrap_err();
    assert_eq!(
        why,
        "\"/srv/ref/b\" may only be read; what is written must be in /srv/a"
    );
    let why = write.check("/etc/x", &roots(), None).unwrap_err();
    assert_eq!(
        why,
        "\"/etc/x\" must be in a directory that may be written, such as /srv/a"
    );
}

#[test]
fn relative_paths_begin_where_the_policy_says() {
    let write = ParamKind::Path {
        rights: Rights::Write,
    };
    all(
        &write,
        &roots(),
        Some("/srv/a/sub"),
        &["b.txt", "./b", "b/c/", "."],
        &["../b", "b/../../c", "~/b"],
    );
    all(&write, &roots(), Some("/srv/ref"), &["/srv/a/x"], &["b.txt"]);
    let form = Form::of(
        br#"{"type":"object","properties":{"p":{}}}"#,
        &Overlay {
            roots: roots(),
            base: Some("/srv/a".to_owned()),
            ..with("/p", of_kind(write))
        },
    )
    .unwrap();
    passes(&form, r#"{"p":"x"}"#);
    refused(&form, r#"{"p":"\u002e\u002e/x"}"#, "/p", "path");
}

#[test]
fn words_of_a_command() {
    let sound = [
        "a",
        "a-b",
        "file.txt",
        "/usr/share/x",
        "k=v",
        "10:20",
        "user@host",
        "naïve",
        "a,b",
    ];
    let wrong = [
        "",
        "-rf",
        "--upload-pack=x",
        "+x",
        "=ls",
        "@file",
        "a b",
        "a;b",
        "a|b",
        "a&b",
        "a&&b",
        "$(id)",
        "`id`",
        "$HOME",
        "a>b",
        "a<b",
        "a\nb",
        "a\tb",
        "*",
        "a?",
        "[a]",
        "{a,b}",
        "!1",
        "#x",
        "~",
        "~root",
        "a'b",
        "a\"b",
        "a\\b",
        "(a)",
        "a\0",
        "%PATH%",
        "^x",
        "a\u{a0}b",
        "a\u{2028}b",
    ];
    all(&ParamKind::ShellWord, &[], None, &sound, &wrong);
}

#[test]
fn identifiers() {
    let sound = ["a", "9", "a_b", "a-b.c", "550e8400-e29b-41d4-a716-446655440000"];
    let wrong = [
        "",
        "-a",
        ".a",
        "_a",
        "a..b",
        "a b",
        "a/b",
        "ä",
        "a\n",
        "a;b",
        &"a".repeat(129),
    ];
    all(&ParamKind::Identifier, &[], None, &sound, &wrong);
}

#[test]
fn hosts() {
    let any = ParamKind::Host { allowed: vec![] };
    let sound = [
        "example.org",
        "EXAMPLE.org",
        "a-b.c9.example",
        "1a.example.org",
        "3com.example",
    ];
    let wrong = [
        "",
        "localhost",
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "127.1",
        "0177.0.0.1",
        "1.2.3.4.",
        "example.org.",
        "exa mple.org",
        "example.org:80",
        "a@example.org",
        "example.org/x",
        "-a.example",
        "a-.example",
        "a..example",
        "ex\u{430}mple.org",
        "xn--exmple-4nf.org",
        "a.XN--p1ai",
        "example.org\n",
        "example\u{3002}org",
        "a_b.example",
        "example.0x7f",
        "%65xample.org",
        "fe80::1%eth0",
    ];
    all(&any, &[], None, &sound, &wrong);
    let some = ParamKind::Host {
        allowed: ["example.org", "*.example.net", "127.0.0.1", "::1", "printer"]
            .map(str::to_owned)
            .into(),
    };
    let sound = [
        "example.org",
        "Example.ORG",
        "a.example.net",
        "a.b.example.net",
        "127.0.0.1",
        "::1",
        "[::1]",
        "printer",
    ];
    let wrong = [
        "a.example.org",
        "example.net",
        "xexample.net",
        "evilexample.org",
        "example.org.evil.com",
        "127.0.0.2",
        "127.1",
        "scanner",
        ".example.net",
    ];
    all(&some, &[], None, &sound, &wrong);
    // A star is for names.
    all(
        &ParamKind::Host {
            allowed: vec!["*.0.0.1".to_owned()],
        },
        &[],
        None,
        &[],
        &["127.0.0.1"],
    );
}

#[test]
fn urls() {
    let any = ParamKind::Url {
        schemes: vec![],
        hosts: vec![],
    };
    let sound = [
        "https://example.org",
        "http://example.org:8080/a?b=c#d",
        "HTTPS://Example.org/%20",
        "https://example.org/@x",
    ];
    let wrong = [
        "",
        "example.org",
        "//example.org",
        "https:example.org",
        "https:/example.org",
        "https:///x",
        "file:///etc/passwd",
        "ftp://example.org",
        "javascript:alert(1)",
        "data:text/html,x",
        "https://user@example.org",
        "https://user:pw@example.org",
        "https://example.org@evil.com",
        "https://example.org\\@evil.com",
        "https://127.0.0.1",
        "https://[::1]/",
        "https://0x7f.1/",
        "https://2130706433",
        "https://localhost",
        "https://ex\u{430}mple.org",
        "https://xn--exmple-4nf.org",
        "https://example.org:0",
        "https://example.org:99999",
        "https://example.org:a",
        " https://example.org",
        "https://example.org/ x",
        "https://exam\tple.org",
        "https://example.org/\n",
        "https://%65xample.org",
        "https://example.org/%zz",
        "https://[::1%25eth0]/",
        "https://example.org.",
    ];
    all(&any, &[], None, &sound, &wrong);
    let own = ParamKind::Url {
        schemes: vec!["git".to_owned()],
        hosts: vec!["*.example.org".to_owned()],
    };
    all(
        &own,
        &[],
        None,
        &["git://a.example.org/x"],
        &[
            "https://a.example.org",
            "git://example.org",
            "git://a.example.org.evil.com",
            "git://evil.com#.example.org",
        ],
    );
}

#[test]
fn mail_goes_to_allowed_domains_alone() {
    let kind = ParamKind::EmailDomain {
        allowed: vec!["example.org".to_owned(), "*.example.net".to_owned()],
    };
    let sound = [
        "a@example.org",
        "A.b+c@Example.ORG",
        "a@x.example.net",
        "a@example.org, b@example.org;c@example.org",
        "Jane Doe <jane@example.org>",
    ];
    let wrong = [
        "",
        ",",
        "a@example.org,",
        "a",
        "@example.org",
        "a@",
        "a@evil.com",
        "a@example.org, b@evil.com",
        "a@example.org;b@evil.com",
        "a@example.org b@evil.com",
        "a@example.org\r\nBcc: b@evil.com",
        "a@example.org\nbcc:b@evil.com",
        "a@example.org\u{2028}Bcc: b@evil.com",
        "a@example.org%0abcc:b@evil.com",
        "a@evil.com@example.org",
        "b%evil.com@example.org",
        "evil.com!b@example.org",
        "@evil.com:a@example.org",
        "\"a@evil.com\"@example.org",
        "\"b@evil.com, x\" <a@example.org>",
        "a@example.org <b@evil.com>",
        "<a@example.org> b@evil.com",
        "a@example.org (b@evil.com)",
        "undisclosed: b@evil.com;",
        "<a@example.org",
        "a@example.org>",
        "a@xexample.org",
        "a@example.org.evil.com",
        "a@[127.0.0.1]",
        "-oQ/tmp@example.org",
        "-x@example.org",
        "a|b@example.org",
        "`a`@example.org",
        "a..b@example.org",
        ".a@example.org",
        "a@example\u{ff0e}org",
        "a@ex\u{430}mple.org",
        "a@example.net",
        "a@example.org\0",
        "Jane<a@example.org>",
        "mailto:a@example.org",
    ];
    all(&kind, &[], None, &sound, &wrong);
    let none = ParamKind::EmailDomain { allowed: vec![] };
    all(&none, &[], None, &[], &["a@example.org"]);
    // Each recipient of a list.
    let form = Form::of(
        br#"{"type":"object","properties":{"to":{}}}"#,
        &with("/to", of_kind(kind)),
    )
    .unwrap();
    passes(&form, r#"{"to":["a@example.org","b@example.org"]}"#);
    refused(
        &form,
        r#"{"to":["a@example.org","b@evil.com"]}"#,
        "/to/1",
        "email-domain",
    );
    refused(
        &form,
        r#"{"to":"a@example.org\r\nBcc: b@evil.com"}"#,
        "/to",
        "email-domain",
    );
}
