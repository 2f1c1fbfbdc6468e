//! What is suspicious in a definition whatever its pin: text a person does not see, orders to a model, and names that
//! look like others. Deterministic, by rules with ids.
//!
//! The rules look for what no honest definition has a reason for. They are no reading of what a text means: who
//! words an order otherwise is not found, and what is found goes to a person.

mod hidden;
mod names;
mod phrases;
mod words;

use std::borrow::Cow;

use super::{definition::Definition, pointer, shown};

pub(super) use hidden::hidden;
pub use names::Names;

/// Characters of a text that are shown with what was found in it.
const EXCERPT: usize = 160;
/// What was found is shown to a person, who needs no more than so much of it.
const MOST: usize = 32;

macro_rules! rules {
    ($($(#[$doc:meta])* $id:ident = $name:literal),* $(,)?) => {
        /// A reason to hold a definition.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $($(#[$doc])* $id),*
        }

        impl Rule {
            pub const ALL: &[Self] = &[$(Self::$id),*];

            /// As it stands in a record and in `docs/pins.md`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$id => $name),*
                }
            }
        }
    };
}

rules! {
    /// What takes no room on a screen: zero width, fillers, variation selectors where nothing varies.
    HiddenCharacter = "hidden-character",
    /// What reorders the text around it.
    Bidi = "bidi",
    /// A second, invisible ASCII alphabet.
    TagCharacter = "tag-character",
    /// Escape sequences of terminals.
    TerminalEscape = "terminal-escape",
    ControlCharacter = "control-character",
    HtmlComment = "html-comment",
    /// Text pushed out of sight by spaces or empty lines.
    BlankRun = "blank-run",
    /// Base64 of text.
    EncodedText = "encoded-text",
    IgnoreInstructions = "ignore-instructions",
    KeepFromUser = "keep-from-user",
    /// What delimits the parts of a model's prompt, or is made to look like it.
    ModelTag = "model-tag",
    /// Wants to be used before or instead of all other tools.
    BeforeAllTools = "before-all-tools",
    /// Reads or passes on a file that holds secrets.
    SecretFile = "secret-file",
    /// Wants what the model was told, or the conversation.
    Conversation = "conversation",
    /// Changes what is passed to another tool of the list.
    OtherTool = "other-tool",
    /// Names a tool of another server.
    ForeignTool = "foreign-tool",
    /// A name that can be taken for another one's.
    LookAlike = "look-alike",
    /// A name with characters that names of tools do not have, or longer than they are.
    OddName = "odd-name",
}

/// What was found, where, and the text around it, as it can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub rule: Rule,
    pub pointer: String,
    pub excerpt: String,
}

/// What is found in the texts of a definition, its keys among them: each rule once for each text.
pub(super) fn texts(definition: &Definition, names: &Names) -> Vec<Look> {
    let mut looks = Vec::new();
    let tree = definition.tree();
    tree.texts(&mut Vec::new(), &mut |path: &[Cow<'_, str>], text| {
        let mut rules = Vec::new();
        hidden::search(text, &mut rules);
        if !is_picture(path, text) {
            hidden::encoded(text, &mut rules);
        }
        // Names are names: what they say is no sentence.
        if !text.contains(char::is_whitespace) && text.len() < 24 {
            words::tags(text, &mut rules);
        } else {
            words::search(text, definition.name(), names, &mut rules);
        }
        rules.sort_unstable_by_key(|(rule, _)| *rule);
        rules.dedup_by_key(|(rule, _)| *rule);
        for (rule, at) in rules {
            if looks.len() < MOST {
                looks.push(Look {
                    rule,
                    pointer: shown::cut(&pointer::join(path), EXCERPT),
                    excerpt: excerpt(text, at),
                });
            }
        }
    });
    looks
}

/// What is wrong with the name itself, and which other it looks like.
pub(super) fn name(name: &str, names: &Names) -> Vec<Look> {
    let look = |rule, excerpt: String| Look {
        rule,
        pointer: "/name".to_owned(),
        excerpt,
    };
    let odd = names::is_odd(name).then(|| look(Rule::OddName, shown::cut(name, EXCERPT)));
    let alike = names.like(name).map(|other| {
        let (one, other) = (shown::cut(name, EXCERPT), shown::cut(other, EXCERPT));
        look(Rule::LookAlike, format!("{one} looks like {other}"))
    });
    odd.into_iter().chain(alike).collect()
}

/// The picture of an icon is text in base64 where it is SVG, and no model reads it.
fn is_picture(path: &[Cow<'_, str>], text: &str) -> bool {
    path.first().is_some_and(|first| first == "icons") && text.starts_with("data:image/")
}

/// Around a byte of the text.
fn excerpt(text: &str, at: usize) -> String {
    let start = text.floor_char_boundary(at.saturating_sub(40));
    let out = shown::cut(text.get(start..).unwrap_or_default(), EXCERPT);
    if start > 0 { format!("… {out}") } else { out }
}
