//! The client's roots, cut to what the sandbox has: a server must not learn of more, nor count on it.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use crate::gateway::protocol::{message, splice};

/// The array of roots without those that lie outside; `None`: there are none such.
pub(super) fn cut(array: &[u8], roots: &[PathBuf]) -> Option<Vec<u8>> {
    splice::cut(array, |root| {
        message::text_at(root, &["uri"]).is_some_and(|uri| inside(&uri, roots))
    })
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
        let array = br#"[ {"name":"x", "uri":"file:///srv/a"}, {"uri":"file:///etc"}, 7 ]"#;
        let roots = [PathBuf::from("/srv/a")];
        assert_eq!(
            cut(array, &roots).unwrap(),
            br#"[{"name":"x", "uri":"file:///srv/a"}]"#
        );
        assert_eq!(cut(br#"[{"uri":"file:///srv/a/b"}]"#, &roots), None);
    }
}
