//! Who a server runs as.

use super::{super::user, *};
use crate::{link::message::User, octets::Octets};

const OTHER: &str = "name another account, or use `dynamic` for a uid of its own";

fn account(name: &str, uid: u32, gid: u32, groups: &[u32], home: impl Into<Octets>) -> User {
    User::Account {
        name: name.into(),
        uid,
        gid,
        groups: groups.to_vec(),
        home: home.into(),
    }
}

#[track_caller]
fn refused(case: &Case, asked: Option<&str>, what: &str, why: &str, hint: &str) {
    let refusal = user::resolve(asked, &case.host).unwrap_err();
    let text = refusal.to_string().replace(case.base.to_str().unwrap(), "BASE");
    assert_eq!(text, format!("error: {what}\n  why: {why}\n  fix: {hint}"));
    assert_eq!(refusal.exit, ExitStatus::Usage);
}

#[test]
fn without_root_it_is_the_caller_with_the_groups_of_the_process() {
    let case = Case::new();
    let ann = account("ann", 1000, 1000, &[44, 1000], case.at("home/ann"));
    for asked in [None, Some("caller"), Some("ann"), Some("1000")] {
        assert_eq!(user::resolve(asked, &case.host).unwrap(), ann);
    }
    for asked in ["bob", "dynamic", "root", "1001"] {
        refused(
            &case,
            Some(asked),
            &format!("cannot run the server as `{asked}`"),
            "only root may choose another user",
            "leave the user out, or run guard-agent with `sudo`",
        );
    }
}

#[test]
fn without_root_no_group_can_be_dropped() {
    let mut case = Case::new();
    case.host.groups.push(0);
    refused(
        &case,
        None,
        "cannot run the server as uid 1000",
        "it is a member of group 0, which an ordinary user cannot leave and no server may have",
        "start it as a user who is not in that group, or as root with `--user`",
    );
}

#[test]
fn a_caller_without_an_account() {
    let mut case = Case::new();
    case.host.uid = 5000;
    assert_eq!(
        user::resolve(None, &case.host).unwrap(),
        account("5000", 5000, 1000, &[44, 1000], "/tmp")
    );
    case.host.uid = 65534;
    refused(
        &case,
        None,
        "cannot run the server as uid 65534",
        "uid 65534 stands for files of nobody in particular, on this machine and over the network",
        OTHER,
    );
}

#[test]
fn root_gets_a_dynamic_uid_or_names_a_user() {
    let case = Case::root();
    for asked in [None, Some("caller"), Some("dynamic")] {
        assert_eq!(user::resolve(asked, &case.host).unwrap(), User::Dynamic);
    }
    // By name and by uid the first line counts; group 0 and the primary group are no supplementary ones.
    let bob = account("bob", 1001, 1001, &[44, 300], case.at("home/bob"));
    for asked in ["bob", "1001"] {
        assert_eq!(user::resolve(Some(asked), &case.host).unwrap(), bob);
    }
    assert_eq!(
        user::resolve(Some("homeless"), &case.host).unwrap(),
        account("homeless", 1002, 1002, &[], "/tmp")
    );
}

#[test]
fn users_that_no_server_runs_as() {
    let case = Case::root();
    for asked in ["root", "0", "toor", "00"] {
        let what = format!("cannot run the server as `{asked}`");
        refused(
            &case,
            Some(asked),
            &what,
            "it is root, and no sandbox runs as root",
            OTHER,
        );
    }
    for asked in ["nobody", "65534"] {
        let why = "uid 65534 stands for files of nobody in particular, on this machine and over the network";
        refused(
            &case,
            Some(asked),
            &format!("cannot run the server as `{asked}`"),
            why,
            OTHER,
        );
    }
    refused(
        &case,
        Some("4294967295"),
        "cannot run the server as `4294967295`",
        "uid 4294967295 is no user",
        OTHER,
    );
    refused(
        &case,
        Some("4294967296"),
        "cannot run the server as `4294967296`",
        "a uid has 32 bits",
        "name an account: `--user NAME`, or `--user dynamic`",
    );
    refused(
        &case,
        Some("operator"),
        "cannot run the server as `operator`",
        "its primary group is 0, root's",
        "name another account, or use `dynamic` for ids of its own",
    );
    for asked in ["carl", "+nis", "broken", "", "1003", "a\nb"] {
        refused(
            &case,
            Some(asked),
            &format!("cannot run the server as `{}`", shown(asked)),
            "`BASE/passwd` has no such account (directory services are not asked)",
            "name a local account, or use `dynamic` for a uid of its own",
        );
    }
}

#[test]
fn the_person_behind_sudo() {
    let mut case = Case::root();
    case.host.sudo_uid = Some("1001".into());
    case.host.sudo_gid = Some("9".into());
    let bob = account("bob", 1001, 1001, &[44, 300], case.at("home/bob"));
    assert_eq!(user::resolve(None, &case.host).unwrap(), bob);
    assert_eq!(user::resolve(Some("dynamic"), &case.host).unwrap(), User::Dynamic);
    case.host.sudo_uid = Some("7000".into());
    assert_eq!(
        user::resolve(None, &case.host).unwrap(),
        account("7000", 7000, 9, &[], "/tmp")
    );
    case.host.sudo_gid = None;
    refused(
        &case,
        None,
        "cannot run the server as uid 7000",
        "`SUDO_UID` is 7000, no line of `/etc/passwd` has it, and `SUDO_GID` is not set",
        "name an account: `--user NAME`, or `--user dynamic`",
    );
    case.host.sudo_gid = Some("0".into());
    refused(
        &case,
        None,
        "cannot run the server as uid 7000",
        "its primary group is 0, root's",
        "name another account, or use `dynamic` for ids of its own",
    );
    // Root by sudo from root is root.
    case.host.sudo_uid = Some("0".into());
    assert_eq!(user::resolve(None, &case.host).unwrap(), User::Dynamic);
    for bad in ["", "-1", "+7", "1000 "] {
        case.host.sudo_uid = Some(bad.into());
        refused(
            &case,
            None,
            "cannot tell who asks",
            &format!("`SUDO_UID` is `{bad}`, not an id"),
            "unset `SUDO_UID`, or name the user: `--user NAME`",
        );
    }
}

#[test]
fn sudo_counts_only_for_root() {
    let mut case = Case::new();
    case.host.sudo_uid = Some("1001".into());
    assert!(matches!(
        user::resolve(None, &case.host).unwrap(),
        User::Account { uid: 1000, .. }
    ));
}
