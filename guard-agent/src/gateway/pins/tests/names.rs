//! Names that look like others.

use super::*;

fn like(names: &Names, name: &str) -> Vec<(Rule, String)> {
    looks::name(name, names)
        .into_iter()
        .map(|look| (look.rule, look.excerpt))
        .collect()
}

fn alike(name: &str, own: &[&str], foreign: &[&str]) -> bool {
    let names = Names::new(own.iter().copied(), foreign.iter().copied());
    like(&names, name)
        .iter()
        .any(|(rule, _)| *rule == Rule::LookAlike)
}

#[test]
fn a_name_that_can_be_taken_for_another_is_found() {
    let others = [
        "read_fiIe",
        "read_fi1e",
        "Read_File",
        "READ_FILE",
        "read-file",
        "readFile",
        "readfile",
        "read.file",
        "rеad_file",
        "ｒead_file",
        "read_\u{200b}file",
        "read_file\u{301}",
        "raed_file",
        "read_fille",
        "read__file",
    ];
    for name in others {
        assert!(alike(name, &["read_file"], &[]), "{name}");
        assert!(alike("read_file", &[name], &[]), "{name}");
    }
    assert!(alike("get_c0de_now", &["get_code_now"], &[]));
    assert!(alike("rnodern", &["modern"], &[]));
    assert!(alike("1ist", &["list"], &[]));
}

#[test]
fn honest_neighbours_are_not_alike() {
    let pairs = [
        ("read_file", "read_text_file"),
        ("browser_network_request", "browser_network_requests"),
        ("get_item", "set_item"),
        ("git_diff", "git_diff_staged"),
        ("list_v12", "list_v21"),
        ("list_a", "list_b"),
        ("form", "from"),
        ("read_file", "read_file"),
    ];
    for (one, other) in pairs {
        assert!(!alike(one, &[other], &[other]), "{one} {other}");
        assert!(!alike(other, &[one], &[one]), "{one} {other}");
    }
}

/// Two servers may each have a style.
#[test]
fn of_other_servers_separators_tell_names_apart() {
    for name in ["readFile", "read-file", "readfile"] {
        assert!(!alike(name, &[], &["read_file"]), "{name}");
    }
    for name in ["read_fiIe", "Read_File", "rеad_file", "raed_file"] {
        assert!(alike(name, &[], &["read_file"]), "{name}");
    }
}

#[test]
fn a_name_is_made_of_the_protocols_characters() {
    let names = Names::default();
    for name in ["lire fichier", "чтение", "a\u{0}", "a:b", &"x".repeat(129)] {
        assert_eq!(like(&names, name)[0].0, Rule::OddName, "{name}");
    }
    for name in ["Read.File-2/x_y", &"x".repeat(128)] {
        assert_eq!(like(&names, name), [], "{name}");
    }
}

#[test]
fn the_newcomer_is_held_and_not_who_was_there() {
    let mut store = Memory::default();
    let one = list(&[tool("read_file", "Reads.")]);
    judge(&mut store, "s", &one, &[], false, at(0)).unwrap();
    let two = list(&[tool("read_file", "Reads."), tool("read_fiIe", "Reads.")]);
    let judged = judge(&mut store, "s", &two, &["raed_file"], false, at(1)).unwrap();
    assert_eq!(judged[0].verdict, Verdict::Same);
    let Verdict::Held(Why::Looks(looks)) = &judged[1].verdict else {
        panic!("{judged:?}");
    };
    assert_eq!(looks[0].rule, Rule::LookAlike);
    assert_eq!(looks[0].excerpt, "read_fiIe looks like read_file");
    // Also of a pinned tool that is not listed now.
    let alone = list(&[tool("Read_File", "Reads.")]);
    let judged = judge(&mut store, "s", &alone, &[], false, at(2)).unwrap();
    assert!(!judged[0].verdict.allows(), "{judged:?}");
    // And of two that come together neither is trusted.
    let judged = judge(&mut Memory::default(), "s", &two, &[], false, at(0)).unwrap();
    assert!(judged.iter().all(|one| !one.verdict.allows()));
}

/// What it looks like is not asked: the work grows with the square of its length.
#[test]
fn a_name_that_is_far_too_long_is_held_and_no_more() {
    let long = "ab".repeat(1000);
    let names = Names::new([long.as_str()], []);
    assert_eq!(
        like(&names, &format!("{long}b")),
        [(
            Rule::OddName,
            format!("{}… and 1841 bytes more", "ab".repeat(80) + " ")
        )]
    );
    let short = "ab".repeat(60);
    let names = Names::new([short.as_str()], []);
    assert_eq!(like(&names, &format!("{short}b"))[0].0, Rule::LookAlike);
}
