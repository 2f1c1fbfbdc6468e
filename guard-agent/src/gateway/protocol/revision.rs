//! The revisions of the protocol.

/// In the order of their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::gateway) enum Revision {
    /// Before the first release; libraries still know it.
    V2024_10_07,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    /// The last one that begins with `initialize`.
    pub(in crate::gateway) const LAST_LEGACY: Self = Self::V2025_11_25;

    pub(in crate::gateway) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "2024-10-07" => Self::V2024_10_07,
            "2024-11-05" => Self::V2024_11_05,
            "2025-03-26" => Self::V2025_03_26,
            "2025-06-18" => Self::V2025_06_18,
            "2025-11-25" => Self::V2025_11_25,
            "2026-07-28" => Self::V2026_07_28,
            _ => return None,
        })
    }

    pub(in crate::gateway) fn name(self) -> &'static str {
        match self {
            Self::V2024_10_07 => "2024-10-07",
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether a line may be an array of messages.
    pub(in crate::gateway) fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for revision in [
            Revision::V2024_10_07,
            Revision::V2024_11_05,
            Revision::V2025_03_26,
            Revision::V2025_06_18,
            Revision::V2025_11_25,
            Revision::V2026_07_28,
        ] {
            assert_eq!(Revision::parse(revision.name()), Some(revision));
            assert_eq!(revision.has_batches(), revision.name() == "2025-03-26");
        }
        assert_eq!(Revision::parse("2099-01-01"), None);
        assert_eq!(Revision::parse("2025-11-25 "), None);
    }
}
