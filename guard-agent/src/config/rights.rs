//! Rights of a root: read, write, execute.

use std::{fmt, str::FromStr};

use guard_common::hooks::{EXECUTE, MAP, READ, WRITE};
use serde::{Deserialize, Serialize};

/// What a sandboxed process may do beneath a root. Reading is always part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Rights {
    pub write: bool,
    pub exec: bool,
}

impl Rights {
    pub const R: Self = Self {
        write: false,
        exec: false,
    };
    pub const RW: Self = Self {
        write: true,
        exec: false,
    };
    pub const RX: Self = Self {
        write: false,
        exec: true,
    };

    /// As the kernel half counts them. Who may execute may map as code.
    pub fn bits(self) -> u32 {
        let mut bits = READ;
        if self.write {
            bits |= WRITE;
        }
        if self.exec {
            bits |= EXECUTE | MAP;
        }
        bits
    }

    /// Whether everything `other` allows is allowed here too.
    pub fn contains(self, other: Self) -> bool {
        (self.write || !other.write) && (self.exec || !other.exec)
    }
}

impl FromStr for Rights {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "r" => Ok(Self::R),
            "rw" => Ok(Self::RW),
            "rx" => Ok(Self::RX),
            "rwx" => Ok(Self {
                write: true,
                exec: true,
            }),
            other => Err(format!("`{other}` is not one of `r`, `rw`, `rx`, `rwx`")),
        }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("r")?;
        f.write_str(if self.write { "w" } else { "" })?;
        f.write_str(if self.exec { "x" } else { "" })
    }
}
impl From<Rights> for String {
    fn from(rights: Rights) -> Self {
        rights.to_string()
    }
}
impl TryFrom<String> for Rights {
    type Error = String;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_what_the_operator_typed() {
        for (text, bits) in [
            ("r", READ),
            ("rw", READ | WRITE),
            ("rx", READ | EXECUTE | MAP),
            ("rwx", READ | WRITE | EXECUTE | MAP),
        ] {
            assert_eq!(text.parse::<Rights>().unwrap().bits(), bits, "{text}");
        }
    }
}
