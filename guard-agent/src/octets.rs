//! Bytes that are text most of the time: paths, arguments, environment values.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A byte string. In JSON it is a string when it is UTF-8 and `{"b64": …}` when not, so nothing is lost.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Octets(pub Vec<u8>);

impl Octets {
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
    pub fn to_path_buf(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.0.clone()))
    }
}

impl From<&Path> for Octets {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().to_vec())
    }
}
impl From<PathBuf> for Octets {
    fn from(path: PathBuf) -> Self {
        Self(path.into_os_string().into_vec())
    }
}
impl From<OsString> for Octets {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}
impl From<&OsStr> for Octets {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}
impl From<&str> for Octets {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}
impl From<String> for Octets {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl fmt::Display for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Escaped: a newline in a file name must not forge a line of a log.
        write!(f, "{}", self.0.escape_ascii())
    }
}
impl fmt::Debug for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

impl Serialize for Octets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Base64 {
            b64: String,
        }
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Base64 {
                b64: STANDARD.encode(&self.0),
            }
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Base64 { b64: String },
        }
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(Self(text.into_bytes())),
            Form::Base64 { b64 } => STANDARD.decode(b64).map(Self).map_err(de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_other_bytes_survive() {
        let text = Octets::from("docs/ä");
        assert_eq!(serde_json::to_string(&text).unwrap(), "\"docs/ä\"");
        let raw = Octets(vec![0xff, 0x00, b'a']);
        let json = serde_json::to_string(&raw).unwrap();
        assert_eq!(json, r#"{"b64":"/wBh"}"#);
        assert_eq!(serde_json::from_str::<Octets>(&json).unwrap(), raw);
    }
}
