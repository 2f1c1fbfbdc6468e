//! What rules mean that stand.

use std::time::Duration;

use super::{
    super::{
        amount::Rate,
        param::{Kind, Number, Scalar},
        role::Budget,
        tool::{Impact, Quadrant},
    },
    BASE, added,
};
use crate::config::rights::Rights;

#[test]
fn the_quadrants() {
    for (impact, reversible, quadrant) in [
        (Impact::Low, true, Quadrant::Run),
        (Impact::High, true, Quadrant::Notify),
        (Impact::Low, false, Quadrant::Quota),
        (Impact::High, false, Quadrant::Approve),
    ] {
        assert_eq!(Quadrant::of(impact, reversible), quadrant);
    }
}

#[test]
fn a_tool_with_everything() {
    let policy = added(
        r#"[server.files.tool.pay]
impact = "low"
reversible = false
quota = { calls = "20/day", sum = { "/amount" = "1000/day" } }
rights = "rw"
sensitive = true
untrusted = true
[server.files.tool.pay.params]
"/amount" = { min = 1, max = 99.5 }
"/to" = { kind = "email-domain", domains = ["example.org", "*.example.org"], min_len = 3, max_len = 64 }
"/file" = { kind = "path", roots = "rw" }
"/mode" = { one_of = ["a", 1, true] }
"/tags" = { max_items = 3 }
"/tags/*" = { pattern = "[a-z]+" }
"#,
    );
    let tool = &policy.servers["files"].tools[0];
    assert_eq!(tool.pattern.as_ref().unwrap().to_string(), "pay");
    assert_eq!(tool.quadrant, Quadrant::Quota);
    assert_eq!(tool.rights, Some(Rights::RW));
    assert!(tool.sensitive && tool.untrusted);
    let quota = tool.quota.as_ref().unwrap();
    assert_eq!(quota.calls, Some(20));
    let sums: Vec<_> = quota
        .sum
        .iter()
        .map(|(at, most)| (at.to_string(), *most))
        .collect();
    assert_eq!(sums, [("/amount".to_owned(), 1000)]);
    let params = tool.params.as_ref().unwrap();
    let at = |text: &str| params.iter().find(|(at, _)| at.to_string() == text).unwrap().1;
    assert_eq!(params.len(), 6);
    assert_eq!(at("/amount").min, Some(Number::Whole(1)));
    assert_eq!(at("/amount").max, Some(Number::Real(99.5)));
    assert_eq!(at("/to").kind, Some(Kind::EmailDomain));
    assert_eq!((at("/to").min_len, at("/to").max_len), (Some(3), Some(64)));
    assert_eq!(at("/to").domains.as_ref().unwrap().len(), 2);
    assert_eq!(at("/file").roots, Some(Rights::RW));
    let values = [
        Scalar::Text("a".into()),
        Scalar::Number(Number::Whole(1)),
        Scalar::Bool(true),
    ];
    assert_eq!(at("/mode").one_of.as_deref(), Some(&values[..]));
    assert_eq!(at("/tags").max_items, Some(3));
    assert!(at("/tags/*").pattern.as_ref().unwrap().matches("abc"));
}

/// What is not said is the strictest.
#[test]
fn an_empty_rule() {
    let policy = added("[server.files.tool.pay]\n");
    let tool = &policy.servers["files"].tools[0];
    assert_eq!(tool.quadrant, Quadrant::Approve);
    assert_eq!((tool.rights, &tool.params, &tool.quota), (None, &None, &None));
    assert!(!tool.sensitive && !tool.untrusted);
}

#[test]
fn no_parameter_at_all_is_not_any() {
    let policy = added("[server.files.tool.pay]\nparams = {}\n");
    assert_eq!(
        policy.servers["files"].tools[0]
            .params
            .as_ref()
            .map(std::collections::BTreeMap::len),
        Some(0)
    );
}

#[test]
fn rights_between_calls() {
    let idle = |text: &str| added(text).servers["files"].idle_rights;
    assert_eq!(idle(""), None);
    assert_eq!(
        idle("[server.files.tool.pay]\nrights = \"rw\"\n"),
        Some(Rights::R)
    );
    let asked = BASE.replace("command", "idle_rights = \"rw\"\ncommand");
    assert_eq!(
        super::read(&asked).unwrap().servers["files"].idle_rights,
        Some(Rights::RW)
    );
}

#[test]
fn limits_of_calls() {
    let policy = added(
        "[server.b]\nlimits = { call_timeout = \"30s\", start_timeout = \"1h\", output = \"8M\", pids = 9 }\n",
    );
    let server = &policy.servers["b"];
    assert_eq!(server.call_timeout, Some(Duration::from_secs(30)));
    assert_eq!(server.start_timeout, Some(Duration::from_secs(3600)));
    assert_eq!(server.output, Some(8 << 20));
}

#[test]
fn a_role_with_everything() {
    let policy = added(
        "[role.other]\nallow = [\"files/a\"]\nbudget = { calls = 5, output_tokens = 4000, window = \"1h\" }\nrate = { per_tool = \"10/1m\", per_user = \"60/1m\" }\n",
    );
    let role = &policy.roles["other"];
    let budget = Budget {
        calls: Some(5),
        output_tokens: Some(4000),
        window: Duration::from_secs(3600),
    };
    assert_eq!(role.budget, Some(budget));
    let rate = |calls| {
        Some(Rate {
            calls,
            window: Duration::from_secs(60),
        })
    };
    assert_eq!((role.per_tool, role.per_user), (rate(10), rate(60)));
}

#[test]
fn approvals_without_a_word() {
    let approval = added("").approval;
    assert_eq!(approval.pending_ttl, Duration::from_secs(900));
    assert_eq!(approval.redeem_ttl, Duration::from_secs(120));
    assert!(!approval.self_approval && approval.operators.is_empty());
}

#[test]
fn hints() {
    assert_eq!(added("").hints, Vec::<String>::new());
    let policy = added(
        "peer.uid.0 = { user = \"Ann\", tenant = \"Acme\", roles = [\"clerk\"] }\n\
         [role.Clerk]\nallow = [\"files/dir/*\"]\n[server.F1les]\n[server.files.tool.read-x]\n\
         [server.files.tool.read_x]\nreversible = true\nsensitive = true\n[server.files.tool.\"a/b/c\"]\nreversible = true\n",
    );
    assert_eq!(
        policy.hints,
        [
            "servers `F1les` and `files` look alike and are two",
            "roles `Clerk` and `clerk` look alike and are two",
            "users `Ann` and `ann` look alike and are two",
            "tenants `Acme` and `acme` look alike and are two",
            "tools of server `files` `read-x` and `read_x` look alike and are two",
            "nobody has role `Clerk`",
            "no role allows anything of server `F1les`",
            "no role allows tool `a/b/c` of server `files`, so its rule is never asked",
            "tool `read-x` of server `files` needs approval, and no operator can give it to user `Ann`",
            "tool `read-x` of server `files` needs approval, and no operator can give it to user `ann`",
            "tool `read_x` of server `files` needs approval once something untrusted was read, and no operator can give it to user `Ann`",
            "tool `read_x` of server `files` needs approval once something untrusted was read, and no operator can give it to user `ann`",
            "uid 0 has an identity: every program that runs as root can call as it",
        ]
    );
}

#[test]
fn who_may_approve_what() {
    let operator = |tenants: &str| {
        let key = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        let text = format!(
            "[approval]\noperators = [{{ name = \"o\", key = \"{key}\", servers = [\"files\"], tenants = [{tenants}] }}]\n"
        );
        added(&text).approval.operators.remove(0)
    };
    let (acme, nobody) = (operator("\"acme\""), operator(""));
    assert!(acme.may_approve("files", Some("acme")));
    assert!(!acme.may_approve("files", Some("other")));
    assert!(!acme.may_approve("files", None));
    assert!(!acme.may_approve("mail", Some("acme")));
    assert!(nobody.may_approve("files", None));
    assert!(!nobody.may_approve("files", Some("acme")));
}

/// A policy is obeyed as a whole or refused: with the line of a rule that is not enforced yet.
#[test]
fn what_is_not_built_is_refused_where_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    let obeyed = |text: &str| {
        std::fs::write(&path, text).unwrap();
        // Whatever is refused here is only not built.
        assert!(super::super::load(&path).is_ok(), "{text}");
        crate::config::raw::load(&path).map(|loaded| loaded.rules.is_some())
    };
    let who = "[role.clerk]\nallow = [\"a/*\"]\n[identity.peer.uid]\n1000 = { user = \"ann\", roles = [\"clerk\"] }\n";
    let tool = "[server.a]\ncommand = [\"x\"]\n[server.a.tool.\"*\"]\nimpact = \"low\"\nreversible = true\n";
    assert!(obeyed(&format!("{tool}{who}")).unwrap());
    let rights = tool.replace("[server.a.tool", "idle_rights = \"r\"\n[server.a.tool");
    let rights = rights.replace(
        "[\"x\"]",
        "[\"x\"]\nroots = [{ path = \"/srv\", rights = \"rw\" }]",
    ) + "rights = \"rw\"\n";
    assert!(obeyed(&format!("{rights}{who}")).unwrap());
    std::fs::write(&path, "[server.a]\ncommand = [\"x\"]\n").unwrap();
    let plain = crate::config::raw::load(&path).unwrap();
    assert!(plain.rules.is_none());
    for (text, line, word) in [
        (format!("{tool}params = {{}}\n{who}"), 3, "`params`"),
        (format!("{tool}sensitive = true\n{who}"), 3, "`sensitive`"),
        (format!("{tool}untrusted = true\n{who}"), 3, "`untrusted`"),
        (
            format!("{}{who}", tool.replace("\"low\"", "\"high\"")),
            3,
            "telling operators",
        ),
        (
            format!(
                "{}quota = {{ calls = \"1/day\" }}\n{who}",
                tool.replace("true", "false")
            ),
            6,
            "`quota`",
        ),
        (
            format!(
                "{tool}{}",
                who.replace("[identity.", "rate = { per_tool = \"1/1m\" }\n[identity.")
            ),
            8,
            "`rate`",
        ),
        (
            format!(
                "{tool}{}",
                who.replace(
                    "[identity.",
                    "budget = { calls = 1, window = \"1h\" }\n[identity."
                )
            ),
            8,
            "`budget`",
        ),
        (
            format!("{tool}{who}[identity]\ntenant_param = \"/tenant\"\n")
                .replace("user = \"ann\",", "user = \"ann\", tenant = \"acme\","),
            11,
            "`tenant_param`",
        ),
    ] {
        let refusal = obeyed(&text).unwrap_err();
        assert!(
            refusal.what.ends_with(&format!(", line {line}")),
            "{text}\n{refusal}"
        );
        assert!(
            refusal.why.contains(word) && refusal.why.contains("not built yet"),
            "{text}\n{refusal}"
        );
    }
    let refusal = obeyed(&format!("{tool}{who}[approval]\n")).unwrap_err();
    assert!(
        refusal.why.starts_with("`[approval]` is not built yet"),
        "{refusal}"
    );
}
