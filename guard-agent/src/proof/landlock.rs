//! Landlock, by our own ruleset without a rule: files, programs, and who may be signalled or connected to.

use std::{os::fd::BorrowedFd, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    attacks::{self, Loopback, Unix},
    attempt::{Answer, Attempt, Finding},
    facets, host,
};
use crate::{
    audit::Layer,
    confine::{
        ConfineError,
        landlock::{LandlockState, restrict},
    },
    fault,
    init::{self, message::Ground},
    link::message::Facet,
    refusal::chain,
};

/// What the child reports.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Found {
    /// As a sandbox on each of the grounds would find it; nothing where it is not in force.
    landlock: Vec<(Ground, facets::Landlock)>,
    pub(super) findings: Vec<Finding>,
}

impl Found {
    pub(super) fn on(&self, ground: Ground) -> facets::Landlock {
        let known = self.landlock.iter().find(|(known, _)| *known == ground);
        known.map(|(_, landlock)| landlock.clone()).unwrap_or_default()
    }
}

pub(super) const FACETS: [Facet; 4] = [Facet::Fs, Facet::Exec, Facet::Ipc, Facet::Net];

/// Attacks before and behind a ruleset like that of a sandbox on this ground: TCP is attacked where it takes that.
pub(super) fn attack(planted: &Path, program: BorrowedFd<'_>, ground: Ground) -> Found {
    let settings = init::landlock_settings(ground);
    let network = settings.network;
    let everywhere = |finding: &dyn Fn(Facet) -> Finding| {
        let facets = FACETS.into_iter().filter(|facet| network || *facet != Facet::Net);
        facets.map(finding).collect::<Vec<_>>()
    };
    let unix = match Unix::abstract_name() {
        Ok(unix) => unix,
        Err(error) => {
            return Found {
                landlock: Vec::new(),
                findings: everywhere(&|facet| Finding::failed(facet, Layer::Landlock, error.to_string())),
            };
        }
    };
    let loopback = network.then(Loopback::listen).and_then(Result::ok);
    let parent = nix::unistd::getppid();
    let all = || Answers {
        read: attacks::read(planted),
        write: attacks::write(planted),
        execute: attacks::execute(program),
        signal: attacks::signal(parent),
        socket: unix.connect(),
        connect: loopback.as_ref().map(Loopback::connect),
    };
    let without = all();
    let state = if fault::point("proof.landlock").is_ok() {
        match restrict(&[], settings) {
            Ok(state) => Some(state),
            Err(ConfineError::LandlockMissing(absence)) => {
                let why = host::without_landlock(absence);
                return Found {
                    landlock: Vec::new(),
                    findings: everywhere(&|facet| Finding::unavailable(facet, Layer::Landlock, &why)),
                };
            }
            Err(error) => {
                return Found {
                    landlock: Vec::new(),
                    findings: everywhere(&|facet| Finding::failed(facet, Layer::Landlock, chain(&error))),
                };
            }
        }
    } else {
        None
    };
    let behind = all();
    let mut findings = findings(&without, &behind, state.as_ref());
    if network && loopback.is_none() {
        findings.push(Finding::failed(Facet::Net, Layer::Landlock, "loopback is down"));
    }
    Found {
        findings,
        landlock: state.map_or_else(Vec::new, |state| found(ground, &state)),
    }
}

/// At tier T2 sockets can be made, at tier T3 none.
fn found(ground: Ground, state: &LandlockState) -> Vec<(Ground, facets::Landlock)> {
    let without_root = ground != Ground::Machine;
    let grounds: &[Ground] = if without_root {
        &[Ground::UserNamespace, Ground::Bare]
    } else {
        &[Ground::Machine]
    };
    let of = |ground: &Ground| (*ground, init::landlock_found(*ground, !without_root, state));
    grounds.iter().map(of).collect()
}

struct Answers {
    read: Answer,
    write: Answer,
    execute: Answer,
    signal: Answer,
    socket: Answer,
    connect: Option<Answer>,
}

fn findings(without: &Answers, behind: &Answers, state: Option<&LandlockState>) -> Vec<Finding> {
    let attempt = |what, errno, of: fn(&Answers) -> Answer| {
        Attempt::new(what, &[errno])
            .without(of(without))
            .behind(of(behind))
    };
    let layer = Layer::Landlock;
    let mut findings = vec![
        Finding::attempts(
            Facet::Fs,
            layer,
            vec![
                attempt("open a file for reading", libc::EACCES, |answers| answers.read),
                attempt("open a file for writing", libc::EACCES, |answers| answers.write),
            ],
        ),
        Finding::attempts(
            Facet::Exec,
            layer,
            vec![attempt("execute a program", libc::EACCES, |answers| {
                answers.execute
            })],
        ),
    ];
    if state.is_none_or(|state| state.scopes) {
        let signal = attempt("signal a process outside", libc::EPERM, |answers| answers.signal);
        let socket = attempt("connect to an abstract socket outside", libc::EPERM, |answers| {
            answers.socket
        });
        findings.push(Finding::attempts(Facet::Ipc, layer, vec![signal, socket]));
    } else {
        findings.push(Finding::unavailable(Facet::Ipc, layer, &host::without_scopes()));
    }
    if let (Some(without), Some(behind)) = (without.connect, behind.connect) {
        if state.is_none_or(|state| state.handled_net != 0) {
            let connect = Attempt::new("connect by TCP", &[libc::EACCES])
                .without(without)
                .behind(behind);
            findings.push(Finding::attempts(Facet::Net, layer, vec![connect]));
        } else {
            findings.push(Finding::unavailable(Facet::Net, layer, &host::without_tcp()));
        }
    }
    findings
}
