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
const EARLIER: &[&str] = &[
    "previous",
    "prior",
    "above",
    "earlier",
    "preceding",
    "existing",
    "other",
];
const TOLD: &[&str] = &[
    "instructions",
    "instruction",
    "prompts",
    "prompt",
    "rules",
    "guidelines",
    "directives",
    "constraints",
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

pub(super) const PHRASES: &[Phrase] = &[
    phrase(
        Rule::IgnoreInstructions,
        &["ignore", "disregard", "forget", "override", "bypass"],
        &[(3, EARLIER), (2, TOLD)],
    ),
    phrase(
        Rule::IgnoreInstructions,
        &["ignore", "disregard", "forget", "override", "bypass"],
        &[(2, &["system", "safety", "your"]), (2, TOLD)],
    ),
    phrase(
        Rule::IgnoreInstructions,
        &["new"],
        &[(0, &["system"]), (0, &["instructions", "prompt"])],
    ),
    phrase(
        Rule::KeepFromUser,
        &["not", "don't", "dont", "never", "without"],
        &[(3, TELL), (5, USER)],
    ),
    phrase(
        Rule::KeepFromUser,
        &[
            "hide",
            "conceal",
            "hidden",
            "secret",
            "keep",
            "withhold",
            "invisible",
        ],
        &[(4, &["from", "to"]), (1, USER)],
    ),
    phrase(
        Rule::KeepFromUser,
        &["user", "human"],
        &[(2, &["not", "never"]), (3, &["know", "see", "notice", "aware"])],
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
        &[(5, &["system"]), (0, &["prompt", "prompts", "message"])],
    ),
    phrase(
        Rule::Conversation,
        HAND_OVER,
        &[
            (5, &["conversation", "chat", "message", "entire", "full", "whole"]),
            (0, &["history", "conversation", "transcript", "chat"]),
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

pub(super) const WHEN: &[&str] = &[
    "when", "whenever", "every", "each", "before", "after", "if", "any", "all", "always",
];

pub(super) const CHANGES: &[&str] = &[
    "change",
    "replace",
    "redirect",
    "override",
    "bcc",
    "cc",
    "append",
    "forward",
    "reroute",
    "swap",
    "substitute",
];
