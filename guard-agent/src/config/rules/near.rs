//! Names that were probably meant, and names that a person could take for one another.

/// The candidate that `typed` is nearest to, if near enough to be meant.
pub(super) fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // One slip in a short name, two in a longer one.
    let most = if typed.chars().count() < 5 { 1 } else { 2 };
    candidates
        .into_iter()
        .map(|candidate| (distance(typed, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, candidate)| candidate)
}

/// "; did you mean `x`?" or nothing.
pub(super) fn meant<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(typed, candidates).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

fn distance(typed: &str, candidate: &str) -> usize {
    if folded(typed) == folded(candidate) {
        0
    } else {
        strsim::osa_distance(&typed.to_lowercase(), &candidate.to_lowercase())
    }
}

/// Each two of `names` that look alike. Names are ASCII, so it is case, separators and a few letters.
pub(super) fn alike<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(&'a str, &'a str)> {
    let mut seen: std::collections::BTreeMap<String, &str> = std::collections::BTreeMap::new();
    let mut pairs = Vec::new();
    for name in names {
        match seen.get(&folded(name)) {
            Some(first) if *first != name => pairs.push((*first, name)),
            Some(_) => {}
            None => {
                seen.insert(folded(name), name);
            }
        }
    }
    pairs
}

fn folded(name: &str) -> String {
    let fold = |one: char| match one.to_ascii_lowercase() {
        '0' => 'o',
        '1' | 'i' | '|' => 'l',
        '-' | '.' => '_',
        other => other,
    };
    name.chars().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant() {
        let names = ["files", "mail", "read_file"];
        assert_eq!(nearest("Files", names), Some("files"));
        assert_eq!(nearest("fiels", names), Some("files"));
        assert_eq!(nearest("read-file", names), Some("read_file"));
        assert_eq!(nearest("mael", names), Some("mail"));
        assert_eq!(nearest("moel", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn look_alikes() {
        let names = [
            "admin",
            "Adm1n",
            "clerk",
            "read_file",
            "read-file",
            "clerks",
            "clerk",
        ];
        assert_eq!(alike(names), [("admin", "Adm1n"), ("read_file", "read-file")]);
    }
}
