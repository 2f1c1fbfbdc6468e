//! `guard-agent check`: what this machine enforces, proved by attacking it, and what to change.

use clap::Args;
use serde::Serialize;

use super::{
    out::{self, Out, Stop},
    run,
};
use crate::{
    audit::{Enforcement, Layer, Missing},
    config::REQUIRED,
    exit::ExitStatus,
    link::message::Facet,
    proof::{
        LsmList, Tier, Verdict, Why,
        facets::{self, holds},
        machine::{Machine, examine},
    },
    refusal::Refusal,
};

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,

    /// As for `run --tier T2`: without the security hooks
    #[arg(long, value_name = "TIER", value_parser = ["T2"])]
    tier: Option<String>,
}

pub(super) fn run(args: &CheckArgs) -> Result<ExitStatus, Refusal> {
    let refused = if nix::unistd::geteuid().is_root() {
        run::enough_rights("a server").err()
    } else {
        None
    };
    let machine = examine(refused, args.tier.is_none())?;
    let status = if machine.refusal.is_none() {
        ExitStatus::Ok
    } else {
        ExitStatus::Failed
    };
    out::with(status, |out| {
        if args.json {
            lines(&machine, out)
        } else {
            table(&machine, out)
        }
    })
}

/// One thing to change, and what it would bring.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Change {
    facets: Vec<Facet>,
    layer: Layer,
    /// Whether `run` refuses without it.
    required: bool,
    change: String,
}

/// What to change, that which `run` waits for first.
fn changes(machine: &Machine) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let ground = machine.proofs.ground;
    for (facet, layers) in facets::layers(ground) {
        for layer in *layers {
            let verdict = machine.proofs.verdict(*facet, *layer);
            let Some(Why {
                change: Some(change), ..
            }) = verdict.why()
            else {
                continue;
            };
            let required = REQUIRED.contains(facet) && facets::needed(ground, *facet).contains(layer);
            match changes
                .iter_mut()
                .find(|known| known.change == *change && known.layer == *layer)
            {
                Some(known) => {
                    known.facets.push(*facet);
                    known.required |= required;
                }
                None => changes.push(Change {
                    facets: vec![*facet],
                    layer: *layer,
                    required,
                    change: change.clone(),
                }),
            }
        }
    }
    changes.sort_by_key(|change| !change.required);
    changes
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
enum Line<'a> {
    Kernel {
        release: &'a str,
        root: bool,
        /// The kernel's own list of security modules.
        #[serde(skip_serializing_if = "Option::is_none")]
        lsm: Option<&'a [String]>,
        /// Why it cannot be seen.
        #[serde(skip_serializing_if = "Option::is_none")]
        lsm_hidden: Option<&'a str>,
    },
    Layer {
        facet: Facet,
        layer: Layer,
        #[serde(flatten)]
        verdict: &'a Verdict,
        /// What a layer that is enforced does not cover here.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        without: Vec<&'a str>,
    },
    Facet {
        facet: Facet,
        verdict: &'static str,
        /// Whether `run` needs it where the policy does not say.
        required: bool,
        #[serde(flatten)]
        enforcement: &'a Enforcement,
    },
    Observation(&'a Verdict),
    /// Whether what other security modules refuse is told, at tier T1.
    Verdicts(&'a Verdict),
    Change(Change),
    Run {
        tier: Tier,
        launches: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        refusal: Option<&'a Refusal>,
        self_test_ms: u64,
    },
}

fn facet_word(machine: &Machine, facet: Facet) -> &'static str {
    if holds(machine.proofs.ground, facet, &machine.facets) {
        "enforced"
    } else {
        "not-enforced"
    }
}

fn lines(machine: &Machine, out: &mut Out) -> Result<(), Stop> {
    let (lsm, lsm_hidden) = match &machine.lsm {
        LsmList::Seen(names) => (Some(names.as_slice()), None),
        LsmList::Hidden(why) => (None, Some(why.as_str())),
    };
    out.json(&Line::Kernel {
        release: &machine.release,
        root: machine.root,
        lsm,
        lsm_hidden,
    })?;
    for (facet, layers) in facets::layers(machine.proofs.ground) {
        let Some(enforcement) = machine.facets.get(facet) else {
            continue;
        };
        for layer in *layers {
            out.json(&Line::Layer {
                facet: *facet,
                layer: *layer,
                verdict: &machine.proofs.verdict(*facet, *layer),
                without: without(enforcement, *layer),
            })?;
        }
        out.json(&Line::Facet {
            facet: *facet,
            verdict: facet_word(machine, *facet),
            required: REQUIRED.contains(facet),
            enforcement,
        })?;
    }
    out.json(&Line::Observation(&machine.proofs.observation))?;
    if machine.proofs.hooked() {
        out.json(&Line::Verdicts(&machine.proofs.told))?;
    }
    for change in changes(machine) {
        out.json(&Line::Change(change))?;
    }
    out.json(&Line::Run {
        tier: machine.tier(),
        launches: machine.refusal.is_none(),
        refusal: machine.refusal.as_ref(),
        self_test_ms: u64::try_from(machine.proofs.elapsed.as_millis()).unwrap_or(u64::MAX),
    })
}

fn without(enforcement: &Enforcement, layer: Layer) -> Vec<&str> {
    let of_layer = |missing: &&Missing| missing.layer == layer && enforcement.layers.contains(&layer);
    enforcement
        .missing
        .iter()
        .filter(of_layer)
        .map(|missing| missing.why.as_str())
        .collect()
}

fn words(verdict: &Verdict) -> String {
    verdict.word().replace('-', " ")
}

fn reason(verdict: &Verdict) -> String {
    verdict
        .why()
        .map_or_else(String::new, |why| format!(": {}", why.why))
}

fn table(machine: &Machine, out: &mut Out) -> Result<(), Stop> {
    let who = if machine.root { "root" } else { "an ordinary user" };
    out.line(format_args!(
        "Linux {}, as {who}; {}",
        machine.release, machine.lsm
    ))?;
    out.line("")?;
    for (facet, layers) in facets::layers(machine.proofs.ground) {
        let Some(enforcement) = machine.facets.get(facet) else {
            continue;
        };
        let word = facet_word(machine, *facet).replace('-', " ");
        let note = if REQUIRED.contains(facet) {
            ""
        } else {
            " (not required unless the policy says so)"
        };
        out.line(format_args!("{:<9} {word}{note}", facets::name(*facet)))?;
        for layer in *layers {
            let verdict = machine.proofs.verdict(*facet, *layer);
            out.line(format_args!(
                "  {:<14} {}{}",
                layer.to_string(),
                words(&verdict),
                reason(&verdict)
            ))?;
            for gap in without(enforcement, *layer) {
                out.line(format_args!("  {:<14}   without: {gap}", ""))?;
            }
        }
    }
    let observation = &machine.proofs.observation;
    out.line(format_args!(
        "observation {}{}",
        words(observation),
        reason(observation)
    ))?;
    if machine.proofs.hooked() {
        let told = &machine.proofs.told;
        out.line(format_args!("verdicts    {}{}", words(told), reason(told)))?;
    }
    out.line("")?;
    out.line(format_args!(
        "self-test: {} ms",
        machine.proofs.elapsed.as_millis()
    ))?;
    match &machine.refusal {
        None => out.line(format_args!("run: launches at tier {}", machine.tier()))?,
        Some(refusal) => {
            out.line(format_args!(
                "run: refuses ({}): {}",
                machine.tier(),
                refusal.what
            ))?;
            out.line(format_args!("  why: {}", refusal.why))?;
        }
    }
    let changes = changes(machine);
    if !changes.is_empty() {
        out.line("what to change:")?;
    }
    for change in &changes {
        let facets: Vec<&str> = change.facets.iter().map(|facet| facets::name(*facet)).collect();
        let weight = if change.required { "" } else { ", not required" };
        out.line(format_args!(
            "  {} ({}{weight}): {}",
            change.layer,
            facets.join(", "),
            change.change
        ))?;
    }
    Ok(())
}
