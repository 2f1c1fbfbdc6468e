//! The client's roots, cut to what the sandbox has: a server must not learn of more, nor count on it.

use std::{
    ffi::OsStr,
    ops::Range,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use crate::gateway::protocol::{message, splice};

/// Where the roots are, and what of them is left.
type Cut = (Range<usize>, Vec<u8>);

/// The roots in the result of an answer, when some of them go; or what is wrong with them.
pub(super) fn cut(text: &[u8], result: Range<usize>, roots: &[PathBuf]) -> Result<Option<Cut>, &'static str> {
    if message::look_alike(text, result.clone(), &["roots"]) {
        return Err("the client's answer has a key that looks like `roots`");
    }
    let Some(at) = message::find(text, result, &["roots"]) else {
        return Err("the client's answer has no roots");
    };
    let array = text.get(at.clone()).unwrap_or_default();
    if !array.starts_with(b"[") {
        return Err("the client's roots are no array");
    }
    let cut = splice::cut(array, |root| {
        !message::look_alike(root, 0..root.len(), &["uri"])
            && message::text_at(root, &["uri"]).is_some_and(|uri| inside(&uri, roots))
    });
    Ok(cut.map(|cut| (at, cut)))
}

/// Whether a `file:` URI of this machine names a root of the sandbox or something in it. By its text: nothing is
/// granted by it.
fn inside(uri: &str, roots: &[PathBuf]) -> bool {
    let Some(path) = uri.strip_prefix("file://") else {
        return false;
    };
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let decoded: Vec<u8> = percent_encoding::percent_decode_str(path).collect();
    let path = Path::new(OsStr::from_bytes(&decoded));
    path.is_absolute()
        && !decoded.contains(&0)
        && !path.components().any(|part| part == Component::ParentDir)
        && roots.iter().any(|root| path.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_in_the_sandbox_is_left() {
        let roots = [PathBuf::from("/srv/a"), PathBuf::from("/home/u ser")];
        for uri in [
            "file:///srv/a",
            "file:///srv/a/",
            "file:///srv/a/b%20c",
            "file://localhost/home/u%20ser/x",
        ] {
            assert!(inside(uri, &roots), "{uri}");
        }
        for uri in [
            "file:///srv",
            "file:///srv/ab",
            "file:///srv/a/../b",
            "file:///srv/a/%2e%2e/b",
            "file://other/srv/a",
            "file:srv/a",
            "http:///srv/a",
            "/srv/a",
            "file:///srv/a%00b",
        ] {
            assert!(!inside(uri, &roots), "{uri}");
        }
    }

    #[test]
    fn what_stays_keeps_its_bytes() {
        let roots = [PathBuf::from("/srv/a")];
        let cut = |array: &str| {
            let text = format!(r#"{{"roots":{array}}}"#);
            let cut = super::cut(text.as_bytes(), 0..text.len(), &roots);
            cut.map(|cut| cut.map(|(_, cut)| String::from_utf8(cut).unwrap()))
        };
        let some = cut(
            r#"[ {"name":"x", "uri":"file:///srv/a"}, {"uri":"file:///etc"}, {"URI":"file:///etc","uri":"file:///srv/a"}, 7 ]"#,
        );
        assert_eq!(some, Ok(Some(r#"[{"name":"x", "uri":"file:///srv/a"}]"#.into())));
        assert_eq!(cut(r#"[{"uri":"file:///srv/a/b"}]"#), Ok(None));
        assert!(cut(r#""file:///etc""#).is_err() && cut(r#"[],"Roots":[]"#).is_err());
    }
}
