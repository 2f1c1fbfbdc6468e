//! The syntax of `--root`: `PATH[:r|rw|rx|rwx]`.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use super::rights::Rights;

/// The value of one `--root`, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootArg {
    pub path: PathBuf,
    /// `None` when the text has no `:rights` at its end.
    pub rights: Option<Rights>,
}

impl RootArg {
    /// Only a final `:` with one of the four rights is taken as rights, since a path may hold a `:` itself;
    /// a path that ends like that is written with its rights behind it: `odd:r:r`.
    pub fn parse(text: &OsStr) -> Self {
        match split(text) {
            Some((path, suffix)) => match suffix.to_str().and_then(|suffix| suffix.parse().ok()) {
                Some(rights) => Self {
                    path: PathBuf::from(path),
                    rights: Some(rights),
                },
                None => Self {
                    path: PathBuf::from(text),
                    rights: None,
                },
            },
            None => Self {
                path: PathBuf::from(text),
                rights: None,
            },
        }
    }

    /// What was probably meant as rights, when the path as a whole does not exist.
    pub fn mistyped_rights(&self) -> Option<String> {
        let (path, suffix) = split(self.path.as_os_str())?;
        let suffix = suffix.to_str()?;
        let looks_like_rights = suffix.len() <= 4 && suffix.bytes().all(|byte| b"rwxRWX+-".contains(&byte));
        let rest_exists = Path::new(path).symlink_metadata().is_ok();
        (looks_like_rights || rest_exists).then(|| suffix.to_owned())
    }
}

/// At the last `:`, unless a `/` follows it.
fn split(text: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = text.as_bytes();
    let colon = bytes.iter().rposition(|byte| *byte == b':')?;
    let (path, suffix) = (&bytes[..colon], &bytes[colon + 1..]);
    (!suffix.contains(&b'/')).then(|| (OsStr::from_bytes(path), OsStr::from_bytes(suffix)))
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> (String, Option<String>) {
        let root = RootArg::parse(OsStr::new(text));
        (
            root.path.display().to_string(),
            root.rights.map(|rights| rights.to_string()),
        )
    }

    #[test]
    fn the_last_colon_with_rights_counts() {
        assert_eq!(parsed("/srv"), ("/srv".into(), None));
        assert_eq!(parsed("/srv:rwx"), ("/srv".into(), Some("rwx".into())));
        assert_eq!(parsed("/srv:rq"), ("/srv:rq".into(), None));
        assert_eq!(parsed("/srv:r/x"), ("/srv:r/x".into(), None));
        assert_eq!(parsed("/odd:r:rw"), ("/odd:r".into(), Some("rw".into())));
        assert_eq!(parsed(":r"), (String::new(), Some("r".into())));
    }

    fn any_path() -> impl Strategy<Value = Vec<u8>> {
        // Paths with the bytes that matter to the parser more often than chance would give.
        let byte = prop_oneof![
            Just(b':'),
            Just(b'/'),
            Just(b'r'),
            Just(b'w'),
            Just(b'x'),
            1u8..=255
        ];
        proptest::collection::vec(byte, 1..24)
    }

    proptest! {
        #[test]
        fn any_path_with_rights_comes_back(path in any_path(), which in 0usize..4) {
            let rights = ["r", "rw", "rx", "rwx"][which];
            let mut text = path.clone();
            text.push(b':');
            text.extend(rights.bytes());
            let root = RootArg::parse(&OsString::from_vec(text));
            prop_assert_eq!(root.path.as_os_str().as_bytes(), &path[..]);
            prop_assert_eq!(root.rights, Some(rights.parse().unwrap()));
        }

        #[test]
        fn nothing_is_lost_without_rights(path in any_path()) {
            let root = RootArg::parse(OsStr::from_bytes(&path));
            match root.rights {
                None => prop_assert_eq!(root.path.as_os_str().as_bytes(), &path[..]),
                Some(rights) => {
                    let again = [root.path.as_os_str().as_bytes(), b":", rights.to_string().as_bytes()].concat();
                    prop_assert_eq!(again, path);
                }
            }
        }
    }
}
