//! The words of the rules.

use std::{collections::HashMap, sync::LazyLock};

use super::Rule;

/// One of `first`, then one of each step's words, with at most so many other words before it.
pub(super) struct Phrase {
    pub(super) rule: Rule,
    first: &'static [&'static str],
    pub(super) rest: &'static [(usize, &'static [&'static str])],
}

const fn phrase(
    rule: Rule,
    first: &'static [&'static str],
    rest: &'static [(usize, &'static [&'static str])],
) -> Phrase {
    Phrase { rule, first, rest }
}

const USER: &[&str] = &["user", "human", "anyone", "anybody", "person", "operator"];
const NO_HEED: &[&str] = &["ignore", "disregard", "forget"];
const EARLIER: &[&str] = &["previous", "prior", "above", "earlier", "preceding"];
const TOLD: &[&str] = &[
    "instructions",
    "instruction",
    "prompts",
    "prompt",
    "directives",
    "guidelines",
    "rules",
];
const TELL: &[&str] = &[
    "tell",
    "mention",
    "inform",
    "reveal",
    "notify",
    "alert",
    "disclose",
    "telling",
    "mentioning",
    "informing",
    "revealing",
    "notifying",
    "alerting",
    "disclosing",
];
const TOOLS: &[&str] = &["tool", "tools", "function", "functions"];
const HAND_OVER: &[&str] = &[
    "include", "pass", "send", "provide", "put", "copy", "append", "forward", "paste", "repeat", "upload",
    "post", "write",
];
const ALL_OF_IT: &[&str] = &["entire", "full", "whole", "complete"];

pub(super) const PHRASES: &[Phrase] = &[
    phrase(Rule::IgnoreInstructions, NO_HEED, &[(3, EARLIER), (2, TOLD)]),
    phrase(Rule::IgnoreInstructions, NO_HEED, &[(3, TOLD), (1, EARLIER)]),
    phrase(
        Rule::IgnoreInstructions,
        NO_HEED,
        &[(2, &["system", "safety", "your", "other"]), (1, TOLD)],
    ),
    // A prompt or a rule can be a tool's own thing, which it overrides.
    phrase(
        Rule::IgnoreInstructions,
        &["override", "bypass"],
        &[
            (
                3,
                &[
                    "previous",
                    "prior",
                    "above",
                    "earlier",
                    "preceding",
                    "safety",
                    "your",
                ],
            ),
            (2, &["instructions", "instruction", "directives", "guidelines"]),
        ],
    ),
    phrase(
        Rule::KeepFromUser,
        &["not", "don't", "dont", "never", "without"],
        &[(3, TELL), (5, USER)],
    ),
    phrase(
        Rule::KeepFromUser,
        &["hide", "conceal", "secret", "keep", "withhold"],
        &[(4, &["from"]), (1, USER)],
    ),
    phrase(
        Rule::KeepFromUser,
        &["user", "human"],
        &[
            (1, &["must", "should"]),
            (0, &["not", "never"]),
            (2, &["know", "see", "notice", "learn"]),
        ],
    ),
    phrase(
        Rule::BeforeAllTools,
        &["before"],
        &[(3, &["any", "every", "all", "other"]), (2, TOOLS)],
    ),
    phrase(
        Rule::BeforeAllTools,
        &["instead"],
        &[(0, &["of"]), (1, &["any", "every", "all", "other"]), (2, TOOLS)],
    ),
    phrase(
        Rule::Conversation,
        HAND_OVER,
        &[
            (3, &["your", "entire", "full", "whole", "complete"]),
            (2, &["system"]),
            (0, &["prompt", "message"]),
        ],
    ),
    phrase(
        Rule::Conversation,
        HAND_OVER,
        &[
            (4, ALL_OF_IT),
            (1, &["conversation", "chat", "transcript", "dialogue"]),
        ],
    ),
    phrase(
        Rule::Conversation,
        HAND_OVER,
        &[
            (4, &["your", "our"]),
            (0, &["conversation", "chat"]),
            (0, &["history", "transcript"]),
        ],
    ),
];

/// Which phrases a word begins.
static FIRST: LazyLock<HashMap<&str, Vec<&Phrase>>> = LazyLock::new(|| {
    let mut all: HashMap<&str, Vec<&Phrase>> = HashMap::new();
    for phrase in PHRASES {
        for word in phrase.first {
            all.entry(word).or_default().push(phrase);
        }
    }
    all
});

pub(super) fn beginning_with(word: &str) -> &'static [&'static Phrase] {
    FIRST.get(word).map_or(&[], Vec::as_slice)
}

/// Without blanks, in lower case.
pub(super) const TAGS: &[&str] = &[
    "<important>",
    "</important>",
    "<system>",
    "</system>",
    "<system-reminder>",
    "<system_prompt>",
    "<system-prompt>",
    "<secret>",
    "<hidden>",
    "<admin>",
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|endoftext|>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<<sys>>",
    "[inst]",
    "[/inst]",
];

/// Files that hold secrets, in lower case.
pub(super) const SECRET_FILES: &[&str] = &[
    ".ssh/",
    "/.ssh",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    "/etc/shadow",
    "/etc/passwd",
    ".aws/credentials",
    ".cursor/mcp.json",
    "claude_desktop_config",
    ".netrc",
    ".git-credentials",
    ".kube/config",
    ".docker/config.json",
    ".gnupg",
    ".pgpass",
    "/proc/self/environ",
    "wallet.dat",
];

/// What is done with them. A definition may say that a key lies there.
pub(super) const TAKES: &[&str] = &[
    "read", "cat", "open", "load", "pass", "send", "include", "attach", "upload", "copy", "content",
    "contents", "paste", "access",
];

/// What another tool's name follows, and then what is to be done with its arguments.
pub(super) const WHEN: &[&str] = &["when", "whenever", "time", "before", "after", "if"];
pub(super) const CHANGES: &[&str] = &["change", "redirect", "bcc", "cc", "reroute", "substitute"];
