//! One attack and what it shows. It shows something only when it worked without the layer and was refused behind it.

use std::io;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::verdict::{Verdict, Why};
use crate::{audit::Layer, link::message::Facet};

/// How an attack ended: 0 it worked, else the errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer(i32);

impl Answer {
    pub(super) const WORKED: Self = Self(0);

    pub(super) fn of<T>(result: io::Result<T>) -> Self {
        match result {
            Ok(_) => Self::WORKED,
            Err(error) => Self::errno(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    pub(super) fn errno(errno: i32) -> Self {
        Self(errno)
    }

    pub(super) fn said(self) -> String {
        if self == Self::WORKED {
            "it worked".to_owned()
        } else {
            format!("{:?}", Errno::from_raw(self.0))
        }
    }
}

/// What the attack must do without the layer to prove anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Control {
    Works,
    /// Anything but the refusal: a second reason may stand in the way of success.
    Differs,
}

/// One attack, made twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// "open a file", to stand behind "`" … "`".
    what: String,
    refused_with: Vec<i32>,
    control: Control,
    without: Option<Answer>,
    behind: Option<Answer>,
    /// Whether the layer told of the refusal, where it is to.
    reported: Option<bool>,
}

impl Attempt {
    /// An attack that works without the layer.
    pub(super) fn new(what: &str, refused_with: &[i32]) -> Self {
        Self {
            what: what.to_owned(),
            refused_with: refused_with.to_vec(),
            control: Control::Works,
            without: None,
            behind: None,
            reported: None,
        }
    }

    /// An attack of which only the refusal is the layer's: without it something else may answer.
    pub(super) fn refusal_only(what: &str, refused_with: &[i32]) -> Self {
        Self {
            control: Control::Differs,
            ..Self::new(what, refused_with)
        }
    }

    pub(super) fn without(mut self, answer: Answer) -> Self {
        self.without = Some(answer);
        self
    }

    pub(super) fn behind(mut self, answer: Answer) -> Self {
        self.behind = Some(answer);
        self
    }

    pub(super) fn reported(mut self, seen: bool) -> Self {
        self.reported = Some(seen);
        self
    }

    /// `None`: proved. Otherwise what is wrong with it.
    fn flaw(&self) -> Option<String> {
        let what = &self.what;
        let (Some(without), Some(behind)) = (self.without, self.behind) else {
            return Some(format!("`{what}` was not tried"));
        };
        let refused = |answer: Answer| self.refused_with.contains(&answer.0);
        let control = match self.control {
            Control::Works => without == Answer::WORKED,
            Control::Differs => !refused(without),
        };
        if !control {
            return Some(format!(
                "`{what}` proves nothing, it fails without the layer too: {}",
                without.said()
            ));
        }
        if behind == Answer::WORKED {
            return Some(format!("`{what}` got through"));
        }
        if !refused(behind) {
            return Some(format!("`{what}` was answered {} instead", behind.said()));
        }
        (self.reported == Some(false)).then(|| format!("`{what}` was refused, and no report of it came"))
    }
}

/// What a child found about one layer of one facet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) facet: Facet,
    pub(super) layer: Layer,
    pub(super) evidence: Evidence,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Evidence {
    Attempts(Vec<Attempt>),
    /// The machine does not offer the layer.
    Unavailable(Why),
    /// The proof itself did not work.
    Failed(String),
}

impl Finding {
    pub(super) fn attempts(facet: Facet, layer: Layer, attempts: Vec<Attempt>) -> Self {
        Self {
            facet,
            layer,
            evidence: Evidence::Attempts(attempts),
        }
    }

    pub(super) fn unavailable(facet: Facet, layer: Layer, why: &Why) -> Self {
        Self {
            facet,
            layer,
            evidence: Evidence::Unavailable(why.clone()),
        }
    }

    pub(super) fn failed(facet: Facet, layer: Layer, cause: impl Into<String>) -> Self {
        Self {
            facet,
            layer,
            evidence: Evidence::Failed(cause.into()),
        }
    }

    /// Only attacks that all worked without the layer and were all refused behind it make it enforced.
    pub(super) fn verdict(&self) -> Verdict {
        match &self.evidence {
            Evidence::Unavailable(why) => Verdict::NotAvailable(why.clone()),
            Evidence::Failed(cause) => Verdict::not_enforced(format!("its self-test did not work: {cause}")),
            Evidence::Attempts(attempts) if attempts.is_empty() => {
                Verdict::not_enforced("its self-test tried nothing")
            }
            Evidence::Attempts(attempts) => {
                let flaws: Vec<String> = attempts.iter().filter_map(Attempt::flaw).collect();
                if flaws.is_empty() {
                    Verdict::Enforced
                } else {
                    Verdict::not_enforced(format!("its self-test failed: {}", flaws.join(", ")))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACCES: i32 = libc::EACCES;

    fn verdict(attempts: Vec<Attempt>) -> Verdict {
        Finding::attempts(Facet::Fs, Layer::Landlock, attempts).verdict()
    }

    fn open() -> Attempt {
        Attempt::new("open a file", &[EACCES])
    }

    fn why(attempt: Attempt) -> String {
        let verdict = verdict(vec![attempt]);
        assert!(matches!(verdict, Verdict::NotEnforced(_)), "{verdict:?}");
        verdict.why().map(|why| why.why.clone()).unwrap_or_default()
    }

    #[test]
    fn only_worked_then_refused_is_enforced() {
        let refused = Answer::errno(EACCES);
        assert_eq!(
            verdict(vec![open().without(Answer::WORKED).behind(refused)]),
            Verdict::Enforced
        );
        for (attempt, words) in [
            (open().without(refused).behind(refused), "proves nothing"),
            (
                open().without(Answer::WORKED).behind(Answer::WORKED),
                "got through",
            ),
            (
                open().without(Answer::WORKED).behind(Answer::errno(libc::ENOENT)),
                "answered ENOENT instead",
            ),
            (open().without(Answer::WORKED), "was not tried"),
            (open().behind(refused), "was not tried"),
            (
                open().without(Answer::WORKED).behind(refused).reported(false),
                "no report of it came",
            ),
        ] {
            let why = why(attempt);
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_refusal_that_something_else_gives_as_well_proves_nothing() {
        let family = || Attempt::refusal_only("make a socket", &[libc::EPERM]);
        let (other, refused) = (Answer::errno(libc::EAFNOSUPPORT), Answer::errno(libc::EPERM));
        assert_eq!(
            verdict(vec![family().without(other).behind(refused)]),
            Verdict::Enforced
        );
        assert!(why(family().without(refused).behind(refused)).contains("proves nothing"));
        assert!(why(family().without(other).behind(other)).contains("instead"));
    }

    #[test]
    fn one_that_got_through_is_enough_and_nothing_tried_is_nothing_proved() {
        let good = open().without(Answer::WORKED).behind(Answer::errno(EACCES));
        let bad = open().without(Answer::WORKED).behind(Answer::WORKED);
        assert!(!verdict(vec![good, bad]).holds());
        assert!(!verdict(Vec::new()).holds());
    }
}
