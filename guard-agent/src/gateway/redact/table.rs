//! The secrets that are known by how they begin: one line a kind. To keep the list, add a line and a test.

use aho_corasick::AhoCorasick;

use super::{
    RuleId::{
        self, AwsKey, AzureKey, GithubToken, GitlabToken, GoogleKey, Jwt, ModelKey, RegistryToken,
        ServiceKey, SlackToken, StripeKey,
    },
    found::Found,
    scan,
    shapes::{
        Class::{Alnum, Base64, Hex, Path, Percent, Upper, Url},
        Ends,
        Part::{self, Lit, Run},
    },
};

/// As long as it likes.
const ANY: usize = usize::MAX;

type Row = (RuleId, &'static str, &'static [Part]);

/// Rule, opening, and what follows. The opening itself is part of the secret.
const ROWS: &[Row] = &[
    (AwsKey, "AKIA", &[Run(Upper, 16, 16)]),
    (AwsKey, "ASIA", &[Run(Upper, 16, 16)]),
    (AwsKey, "ABIA", &[Run(Upper, 16, 16)]),
    (AwsKey, "ACCA", &[Run(Upper, 16, 16)]),
    (GithubToken, "ghp_", &[Run(Alnum, 36, 255)]),
    (GithubToken, "gho_", &[Run(Alnum, 36, 255)]),
    (GithubToken, "ghu_", &[Run(Alnum, 36, 255)]),
    (GithubToken, "ghs_", &[Run(Alnum, 36, 255)]),
    (GithubToken, "ghr_", &[Run(Alnum, 36, 255)]),
    (GithubToken, "github_pat_", &[Run(Url, 40, 255)]),
    (GitlabToken, "glpat-", &[Run(Url, 20, 255)]),
    (GitlabToken, "gldt-", &[Run(Url, 20, 255)]),
    (GitlabToken, "glrt-", &[Run(Url, 20, 255)]),
    (GitlabToken, "glptt-", &[Run(Url, 20, 255)]),
    (GitlabToken, "glcbt-", &[Run(Url, 20, 255)]),
    (GitlabToken, "glsoat-", &[Run(Url, 20, 255)]),
    (SlackToken, "xoxa-", &[Run(Url, 10, 255)]),
    (SlackToken, "xoxb-", &[Run(Url, 10, 255)]),
    (SlackToken, "xoxe-", &[Run(Url, 10, 255)]),
    (SlackToken, "xoxp-", &[Run(Url, 10, 255)]),
    (SlackToken, "xoxr-", &[Run(Url, 10, 255)]),
    (SlackToken, "xoxs-", &[Run(Url, 10, 255)]),
    (SlackToken, "xapp-", &[Run(Url, 10, 255)]),
    (SlackToken, "hooks.slack.com/services/", &[Run(Path, 30, 100)]),
    (StripeKey, "sk_live_", &[Run(Alnum, 16, 255)]),
    (StripeKey, "sk_test_", &[Run(Alnum, 16, 255)]),
    (StripeKey, "rk_live_", &[Run(Alnum, 16, 255)]),
    (StripeKey, "rk_test_", &[Run(Alnum, 16, 255)]),
    (StripeKey, "whsec_", &[Run(Base64, 24, 255)]),
    (GoogleKey, "AIza", &[Run(Url, 35, 35)]),
    (GoogleKey, "GOCSPX-", &[Run(Url, 28, 28)]),
    (GoogleKey, "ya29.", &[Run(Url, 20, ANY)]),
    (AzureKey, "AccountKey=", &[Run(Base64, 40, 88), Lit("==")]),
    (AzureKey, "SharedAccessKey=", &[Run(Base64, 40, 88), Lit("=")]),
    (AzureKey, "sig=", &[Run(Percent, 43, 100)]),
    (ModelKey, "sk-ant-", &[Run(Url, 24, 255)]),
    (ModelKey, "sk-proj-", &[Run(Url, 40, 255)]),
    (ModelKey, "sk-svcacct-", &[Run(Url, 40, 255)]),
    (ModelKey, "sk-admin-", &[Run(Url, 40, 255)]),
    (ModelKey, "sk-or-v1-", &[Run(Hex, 64, 64)]),
    (ModelKey, "sk-", &[Run(Alnum, 32, 64)]),
    (ModelKey, "hf_", &[Run(Alnum, 34, 40)]),
    (ModelKey, "gsk_", &[Run(Alnum, 52, 52)]),
    (ModelKey, "xai-", &[Run(Alnum, 80, 80)]),
    (ModelKey, "r8_", &[Run(Alnum, 37, 37)]),
    (ModelKey, "pplx-", &[Run(Alnum, 48, 48)]),
    (RegistryToken, "npm_", &[Run(Alnum, 36, 36)]),
    (RegistryToken, "pypi-AgE", &[Run(Url, 50, ANY)]),
    (RegistryToken, "rubygems_", &[Run(Hex, 48, 48)]),
    (RegistryToken, "dckr_pat_", &[Run(Url, 27, 27)]),
    (RegistryToken, "cio", &[Run(Alnum, 32, 32)]),
    (ServiceKey, "SG.", &[Run(Url, 22, 22), Lit("."), Run(Url, 43, 43)]),
    (ServiceKey, "SK", &[Run(Hex, 32, 32)]),
    (ServiceKey, "dop_v1_", &[Run(Hex, 64, 64)]),
    (ServiceKey, "doo_v1_", &[Run(Hex, 64, 64)]),
    (ServiceKey, "dor_v1_", &[Run(Hex, 64, 64)]),
    (ServiceKey, "shpat_", &[Run(Hex, 32, 32)]),
    (ServiceKey, "shpca_", &[Run(Hex, 32, 32)]),
    (ServiceKey, "shppa_", &[Run(Hex, 32, 32)]),
    (ServiceKey, "shpss_", &[Run(Hex, 32, 32)]),
    (ServiceKey, "dapi", &[Run(Hex, 32, 32)]),
    (ServiceKey, "hvs.", &[Run(Url, 24, 255)]),
    (ServiceKey, "hvb.", &[Run(Url, 24, 255)]),
    (ServiceKey, "ATATT3", &[Run(Url, 60, ANY)]),
    (ServiceKey, "lin_api_", &[Run(Alnum, 40, 40)]),
    (ServiceKey, "ntn_", &[Run(Alnum, 40, 60)]),
    (ServiceKey, "figd_", &[Run(Url, 40, 60)]),
    (ServiceKey, "NRAK-", &[Run(Upper, 27, 27)]),
    (
        ServiceKey,
        "glsa_",
        &[Run(Alnum, 32, 32), Lit("_"), Run(Hex, 8, 8)],
    ),
    (ServiceKey, "glc_", &[Run(Base64, 32, ANY)]),
    (ServiceKey, "sq0atp-", &[Run(Url, 22, 22)]),
    (ServiceKey, "sq0csp-", &[Run(Url, 43, 43)]),
    (ServiceKey, "AGE-SECRET-KEY-1", &[Run(Upper, 58, 58)]),
    (ServiceKey, "tskey-", &[Run(Url, 20, 100)]),
    (
        ServiceKey,
        "PMAK-",
        &[Run(Hex, 24, 24), Lit("-"), Run(Hex, 34, 34)],
    ),
    (ServiceKey, "pscale_tkn_", &[Run(Url, 32, 64)]),
    (ServiceKey, "sntrys_", &[Run(Base64, 40, ANY)]),
    (ServiceKey, "sbp_", &[Run(Hex, 40, 40)]),
    (ServiceKey, "discord.com/api/webhooks/", &[Run(Path, 60, 120)]),
    (
        Jwt,
        "eyJ",
        &[
            Run(Url, 8, ANY),
            Lit(".eyJ"),
            Run(Url, 8, ANY),
            Lit("."),
            Run(Url, 0, ANY),
        ],
    ),
];

/// The rows, and a search for all their openings at once.
#[derive(Debug)]
pub(super) struct Table(Option<AhoCorasick>);

impl Table {
    pub(super) fn new() -> Self {
        // It fails only for more openings than a table can be written with; then the test of every row fails.
        Self(AhoCorasick::new(ROWS.iter().map(|(_, opening, _)| opening)).ok())
    }

    pub(super) fn search(&self, text: &str, found: &mut Found<'_>) {
        let Some(openings) = &self.0 else { return };
        let mut ends = Ends::default();
        for opening in openings.find_overlapping_iter(text) {
            let Some((rule, _, parts)) = ROWS.get(opening.pattern().as_usize()) else {
                continue;
            };
            if scan::word(scan::before(text, opening.start())) {
                continue;
            }
            if let Some(end) = ends.follow(text, opening.end(), parts) {
                found.add(*rule, opening.start()..end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::redact::{Match, Rules};

    /// What a row describes, with the shortest runs, or with its first run one shorter than that.
    fn sample(opening: &str, parts: &[Part], mut short: usize) -> String {
        let mut text = opening.to_owned();
        for part in parts {
            match part {
                Lit(literal) => text.push_str(literal),
                Run(class, least, _) => {
                    let alphabet = match class {
                        Upper => "K7QX2M",
                        Hex => "a7c2e9",
                        _ => "q7Wm2Zx",
                    };
                    text.extend(alphabet.chars().cycle().take(least - short));
                    short = 0;
                }
            }
        }
        text
    }

    #[test]
    fn every_row_finds_what_it_describes_and_nothing_shorter() {
        let rules = Rules::default();
        for (rule, opening, parts) in ROWS {
            let secret = sample(opening, parts, 0);
            let text = format!("({secret}), and so on");
            let range = 1..1 + secret.len();
            assert_eq!(rules.find(&text), [Match { range, rule: *rule }], "{text}");

            let text = format!("({}), and so on", sample(opening, parts, 1));
            assert!(
                rules.find(&text).iter().all(|found| found.rule != *rule),
                "{text}"
            );
            let text = format!("(a{secret}), in a word");
            assert!(
                rules.find(&text).iter().all(|found| found.rule != *rule),
                "{text}"
            );
        }
    }
}
