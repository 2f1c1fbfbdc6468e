//! The rules by name, and what can be done with what they match.

use std::{fmt, str::FromStr};

/// What becomes of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `[redacted:RULE]`
    Mask,
    /// `[redacted:RULE:HEX]`: equal matches stay recognisable as equal.
    Hash,
    /// Masked, and whoever asked is told to refuse the call.
    Deny,
    /// The rule does not apply.
    Off,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $id:ident = $name:literal),* $(,)?) => {
        /// A rule. Where matches overlap the rule that is earlier here gives its name to both: what is known
        /// exactly comes before what is guessed from its surroundings.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RuleId {
            $($(#[$doc])* $id),*
        }

        impl RuleId {
            pub const ALL: &[Self] = &[$(Self::$id),*];
            pub(super) const COUNT: usize = Self::ALL.len();

            /// As it stands in a mask, in a policy and in `docs/redaction.md`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$id => $name),*
                }
            }
        }
    };
}

rules! {
    /// A private key in PEM form.
    PrivateKey = "private-key",
    /// The id of an access key of AWS.
    AwsKey = "aws-key",
    GithubToken = "github-token",
    GitlabToken = "gitlab-token",
    /// Tokens, and the addresses of incoming webhooks.
    SlackToken = "slack-token",
    StripeKey = "stripe-key",
    GoogleKey = "google-key",
    AzureKey = "azure-key",
    /// Keys of providers of language models.
    ModelKey = "model-key",
    /// Tokens of package registries.
    RegistryToken = "registry-token",
    /// Keys of other services that can be told by how they begin.
    ServiceKey = "service-key",
    /// A signed JSON web token.
    Jwt = "jwt",
    /// The password in `scheme://user:password@host`.
    UrlPassword = "url-password",
    /// What follows `Bearer` or `Basic`.
    Authorization = "authorization",
    /// A payment card's number.
    Card = "card",
    Iban = "iban",
    /// A number of a person with a check digit, of the countries in `docs/redaction.md`.
    NationalId = "national-id",
    /// A social security number of the United States, which has no check digit.
    UsSsn = "us-ssn",
    Email = "email",
    Phone = "phone",
    /// The value of something named like a secret: `"password": "…"`, `API_KEY=…`, `--token …`.
    NamedSecret = "named-secret",
    /// A random-looking word after a word like `secret` or `token`.
    Entropy = "entropy",
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No rule has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no redaction rule `{0}`: see docs/redaction.md for those there are")]
pub struct UnknownRule(String);

impl FromStr for RuleId {
    type Err = UnknownRule;

    fn from_str(name: &str) -> Result<Self, UnknownRule> {
        let known = Self::ALL.iter().copied().find(|rule| rule.name() == name);
        known.ok_or_else(|| UnknownRule(name.to_owned()))
    }
}
