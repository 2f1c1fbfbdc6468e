//! JSON Pointers (RFC 6901) of parameters: `/path`, `/options/mode`, and `/paths/*` for each item of a list.

use std::fmt;

/// Deeper than any tool's arguments that a rule speaks of.
const DEPTH_MOST: usize = 16;

/// Where in a call's arguments something stands. Not the arguments themselves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pointer {
    text: String,
    steps: Vec<Step>,
}

/// One step down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The member of that name, or the item with that number.
    Member(String),
    /// `*`: every item.
    Each,
}

impl Pointer {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some(body) = text.strip_prefix('/') else {
            return Err("a JSON Pointer begins with `/`".to_owned());
        };
        let steps: Vec<Step> = body.split('/').map(step).collect::<Option<_>>().ok_or_else(|| {
            "in a JSON Pointer `~` stands only as `~0` (a `~`) or `~1` (a `/`), and no part is empty"
                .to_owned()
        })?;
        if steps.len() > DEPTH_MOST {
            return Err(format!("it has more than {DEPTH_MOST} parts"));
        }
        Ok(Self {
            text: text.to_owned(),
            steps,
        })
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether `other` lies somewhere in the value that stands here.
    pub fn holds(&self, other: &Self) -> bool {
        other.steps.len() > self.steps.len() && other.steps.starts_with(&self.steps)
    }
}

fn step(part: &str) -> Option<Step> {
    match part {
        "" => None,
        "*" => Some(Step::Each),
        _ => {
            let mut name = String::with_capacity(part.len());
            let mut rest = part.chars();
            while let Some(one) = rest.next() {
                name.push(match one {
                    '~' => match rest.next()? {
                        '0' => '~',
                        '1' => '/',
                        _ => return None,
                    },
                    other => other,
                });
            }
            Some(Step::Member(name))
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers() {
        let member = |name: &str| Step::Member(name.to_owned());
        let steps = |text: &str| Pointer::parse(text).unwrap().steps;
        assert_eq!(steps("/path"), [member("path")]);
        assert_eq!(
            steps("/a~1b~0c/*/~01"),
            [member("a/b~c"), Step::Each, member("~1")]
        );
        for text in ["", "path", "/", "/a/", "//a", "/~", "/~2", &"/a".repeat(17)] {
            assert!(Pointer::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_in_another() {
        let at = |text: &str| Pointer::parse(text).unwrap();
        assert!(at("/a").holds(&at("/a/*")));
        assert!(!at("/a").holds(&at("/a")));
        assert!(!at("/a").holds(&at("/ab")));
        assert!(!at("/a/b").holds(&at("/a")));
    }
}
