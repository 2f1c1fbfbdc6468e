//! Names of rules that a denial may show: they say nothing of the rule, and stay when its limits change.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// `r-` and eight hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(String);

impl RuleId {
    /// Of the rule of that kind with that name.
    pub fn of(kind: &str, server: &str, name: &str) -> Self {
        let mut hash = Sha256::new();
        for part in ["guard-agent rule", kind, server, name] {
            // With its length, or two rules could be one text.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let short = hash
            .finalize()
            .iter()
            .take(4)
            .fold(0, |all: u32, byte| all << 8 | u32::from(*byte));
        Self(format!("r-{short:08x}"))
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operators search records for them: another release must give the same.
    #[test]
    fn an_id_is_short_stable_and_of_one_rule() {
        let id = RuleId::of("tool", "files", "write_file");
        assert_eq!(id.to_string(), "r-2bf4dadb");
        assert_ne!(id, RuleId::of("allow", "files", "write_file"));
        assert_ne!(RuleId::of("tool", "ab", "c"), RuleId::of("tool", "a", "bc"));
    }
}
