//! What a person sees of a change.

use super::*;

fn diff(old: &Value, new: &Value) -> Diff {
    Diff::of(&read(old).unwrap(), &read(new).unwrap(), &[])
}

fn with(member: &str, value: &Value) -> Value {
    let mut whole = json!({"name": "t"});
    whole[member] = value.clone();
    whole
}

/// `-/+ pointer old new` of each change.
fn told(old: &Value, new: &Value) -> Vec<String> {
    let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "·".to_owned());
    diff(&with("x", old), &with("x", new))
        .changes
        .iter()
        .map(|change| {
            format!(
                "{:?} {} {} {}",
                change.kind,
                change.pointer,
                side(&change.old),
                side(&change.new)
            )
        })
        .collect()
}

#[test]
fn each_change_is_told_with_its_place() {
    assert_eq!(told(&json!({"a": 1}), &json!({"a": 2})), ["Changed /x/a 1 2"]);
    assert_eq!(
        told(&json!({"a": 1}), &json!({"b": 1})),
        ["Removed /x/a 1 ·", "Added /x/b · 1"]
    );
    assert_eq!(told(&json!([1, 2, 3]), &json!([0, 1, 2, 3])), ["Added /x/0 · 0"]);
    assert_eq!(told(&json!([1, 2, 3]), &json!([1, 3])), ["Removed /x/1 2 ·"]);
    assert_eq!(told(&json!([1, 1]), &json!([1])), ["Removed /x/1 1 ·"]);
    assert_eq!(
        told(&json!([1, 2, 3]), &json!([1, 4, 5, 3])),
        ["Changed /x/1 2 4", "Added /x/2 · 5"]
    );
    assert_eq!(
        told(&json!([{"a/~": [true]}]), &json!([{"a/~": [null]}])),
        ["Changed /x/0/a~1~0/0 true null"]
    );
    assert_eq!(
        told(&json!({"b": 1, "a": [2]}), &json!("1")),
        [r#"Changed /x {"a":[2],"b":1} "1""#]
    );
    assert_eq!(told(&json!(1), &json!(1)), [""; 0]);
}

#[test]
fn what_moves_no_pin_is_no_change() {
    let one =
        read(&json!({"name": "t", "inputSchema": {"required": ["a", "b"]}, "_meta": {"v": 1}})).unwrap();
    let raw = br#"{"_meta":{"v":2}, "inputSchema":{"required":["b","a"]},"name":"\u0074"}"#;
    let volatile = ["/_meta/v".parse().unwrap()];
    let other = Definition::read(raw, &volatile, &Limits::default()).unwrap();
    assert_eq!(Diff::of(&one, &other, &volatile).changes, []);
    assert_eq!(Diff::of(&one, &other, &[]).changes.len(), 1);
}

#[test]
fn of_a_long_text_the_words_that_changed_are_shown() {
    let long =
        "Reads a file of the project and returns its lines, from the first that is asked for to the last. "
            .repeat(3);
    let old = format!("{long}It never writes. {long}");
    let new = format!("{long}It sometimes writes\u{202e}. {long}");
    let diff = diff(
        &with("description", &old.into()),
        &with("description", &new.into()),
    );
    let spans = &diff.changes[0].spans;
    let [
        Span::Same(before),
        Span::Removed(old),
        Span::Added(new),
        Span::Same(after),
    ] = &spans[..]
    else {
        panic!("{spans:?}");
    };
    assert_eq!(before, " … first that is asked for to the last. It ");
    assert_eq!(
        (old.as_str(), new.as_str()),
        ("never writes.", "sometimes writes\\u{202e}.")
    );
    assert_eq!(after, " Reads a file of the project and returns … ");
    assert_eq!(
        diff.to_string(),
        format!("/description\n    {before}\n  - {old}\n  + {new}\n    {after}\n")
    );
}

#[test]
fn what_came_alone_is_told_alone() {
    let long = "one two three four five six seven eight nine ten eleven twelve thirteen ";
    let diff = diff(
        &with("x", &format!("{long}END").into()),
        &with("x", &format!("{long}a b END").into()),
    );
    let added = [
        Span::Same(long.to_owned()),
        Span::Added("a b ".to_owned()),
        Span::Same("END".to_owned()),
    ];
    assert_eq!(diff.changes[0].spans, added);
}

#[test]
fn a_short_value_is_shown_whole_and_with_what_it_hides() {
    let diff = diff(
        &with("title", &"a".into()),
        &with("title", &"a\u{200b}\u{1b}[0m\u{e0041}\n".into()),
    );
    assert_eq!(
        diff.to_string(),
        "/title\n  - \"a\"\n  + \"a\\u{200b}\\u001b[0m\\u{e0041}\\n\"\n"
    );
}

#[test]
fn a_server_that_changes_much_gets_no_more_room() {
    let all = |number: usize| {
        let texts: Vec<String> = (0..200)
            .map(|index| format!("{number} {index} ").repeat(2000))
            .collect();
        with("x", &json!(texts))
    };
    let limits = Limits {
        definition: 64 << 20,
        ..Limits::default()
    };
    let read = |value: &Value| Definition::read(value.to_string().as_bytes(), &[], &limits).unwrap();
    let diff = Diff::of(&read(&all(1)), &read(&all(2)), &[]);
    assert_eq!((diff.changes.len(), diff.more), (64, 136));
    assert!(diff.to_string().len() < 64 * 10_000, "{}", diff.to_string().len());
    assert!(serde_json::to_string(&diff).unwrap().len() < 64 * 15_000);
    let spans = &diff.changes[0].spans;
    assert!(
        matches!(spans.last(), Some(Span::Same(text)) if text.ends_with(" parts more")),
        "{spans:?}"
    );
    assert!(diff.to_string().ends_with("and 136 changes more\n"));
}

#[test]
fn it_has_a_form_for_programs() {
    let diff = diff(
        &json!({"name": "t", "x": 1}),
        &json!({"name": "t", "y": "\u{202e}"}),
    );
    assert_eq!(
        serde_json::to_value(&diff).unwrap(),
        json!({"changes": [
            {"pointer": "/x", "kind": "removed", "old": "1"},
            {"pointer": "/y", "kind": "added", "new": "\"\\u{202e}\""},
        ], "more": 0})
    );
    let span = serde_json::to_value(Span::Added("x".to_owned())).unwrap();
    assert_eq!(span, json!({"kind": "added", "text": "x"}));
}

/// Nearly every word differs, in every text: the work is bounded.
#[test]
fn texts_that_differ_in_nearly_all_words_take_no_time() {
    let all = |shift: usize| {
        let word = |index: usize, word: usize| match word % 50 {
            49 => "same ".to_owned(),
            _ => format!("{} ", word * 7 + index + shift * 31),
        };
        let text = |index: usize| (0..600).map(|at| word(index, at)).collect::<String>();
        with("x", &(0..64).map(text).collect())
    };
    let begin = std::time::Instant::now();
    let diff = diff(&all(0), &all(1));
    assert_eq!(diff.changes.len(), 64);
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
    let parts = |change: &Change| change.spans.len();
    assert!(parts(&diff.changes[0]) > 4, "{:?}", diff.changes[0].spans);
    assert_eq!(parts(&diff.changes[63]), 2);
}
