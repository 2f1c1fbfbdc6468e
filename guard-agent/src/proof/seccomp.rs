//! seccomp, by the filters of the sandbox: refused with the right errno, and each refusal reported where it is to be.

use std::{
    collections::BTreeSet,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::{
    attacks,
    attempt::{Answer, Attempt, Finding},
    child, host,
};
use crate::{
    audit::Layer,
    confine::{
        ConfineError,
        notify::{Listener, describe},
        seccomp::{ChildFilters, Options},
    },
    fault,
    link::{channel::Channel, message::Facet},
    refusal::chain,
};

pub(super) const FACETS: [Facet; 4] = [Facet::Fs, Facet::Net, Facet::Exec, Facet::Ipc];

/// The answers to all attacks, in one order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Answers {
    netlink: Answer,
    memory_file: Answer,
    mode: Answer,
    set_id: Answer,
    read_memory: Answer,
}

fn all(file: &OwnedFd) -> Answers {
    Answers {
        netlink: attacks::netlink(),
        memory_file: Answer::of(attacks::memory::make()),
        mode: attacks::mode(file),
        set_id: attacks::set_id(file),
        read_memory: attacks::read_memory(nix::unistd::getpid()),
    }
}

type Both = Result<(Answers, Answers), String>;

/// Attacks before and behind, with a listener as a warden has one.
pub(super) fn attack(options: &Options, limit: Duration) -> Vec<Finding> {
    match both(options, limit) {
        Ok((without, behind, ops)) => findings(options, &without, &behind, &ops),
        Err(cause) => FACETS
            .map(|facet| Finding::failed(facet, Layer::Seccomp, &cause))
            .into(),
    }
}

fn findings(options: &Options, without: &Answers, behind: &Answers, ops: &BTreeSet<String>) -> Vec<Finding> {
    let tried = |attempt: Attempt, op: &str, of: fn(&Answers) -> Answer| {
        let attempt = attempt.without(of(without)).behind(of(behind));
        attempt.reported(ops.contains(op))
    };
    let refused = &[libc::EPERM];
    let layer = Layer::Seccomp;
    let mut findings = vec![
        Finding::attempts(
            Facet::Net,
            layer,
            vec![tried(
                Attempt::new("make a netlink socket", refused),
                "socket",
                |answers| answers.netlink,
            )],
        ),
        Finding::attempts(
            Facet::Exec,
            layer,
            vec![
                tried(
                    // A host may have forbidden them to itself.
                    Attempt::refusal_only("make a memory file that can be executed", refused),
                    "memfd_create",
                    |answers| answers.memory_file,
                ),
                tried(Attempt::new("set a set-id bit", refused), "fchmod", |answers| {
                    answers.set_id
                }),
            ],
        ),
        Finding::attempts(
            Facet::Ipc,
            layer,
            vec![tried(
                Attempt::new("read a process's memory", refused),
                "process_vm_readv",
                |answers| answers.read_memory,
            )],
        ),
    ];
    // Elsewhere mounts hold it, and the filter lets it pass.
    if !options.namespaces {
        let mode = tried(
            Attempt::new("change a file's mode", refused),
            "fchmod",
            |answers| answers.mode,
        );
        findings.push(Finding::attempts(Facet::Fs, layer, vec![mode]));
    }
    findings
}

/// The attacker is a child of this process, which reads its listener and refuses, as a warden does.
fn both(options: &Options, limit: Duration) -> Result<(Answers, Answers, BTreeSet<String>), String> {
    let (ours, theirs) = Channel::pair().map_err(|error| error.to_string())?;
    let attacker = child::start(move || -> Both {
        let channel = Channel::new(theirs).map_err(|error| error.to_string())?;
        let file = attacks::memory::make_or_file()?;
        let without = all(&file);
        if fault::point("proof.seccomp").is_ok() {
            let filters = ChildFilters::reporting(options).map_err(|error| chain(&error))?;
            let listener = filters.install().map_err(|error| explain(&error))?;
            channel
                .send(&(), &[listener.as_fd()])
                .map_err(|error| chain(&error))?;
        }
        drop(channel);
        Ok((without, all(&file)))
    })?;
    let until = Instant::now() + limit;
    let mut ops = BTreeSet::new();
    // Closed without a message: there is no filter to listen to.
    if let Ok(((), mut descriptors)) = ours.receive_within::<()>(limit)
        && let Some(listener) = descriptors.pop()
    {
        let listener = Listener::new(listener).map_err(|error| error.to_string())?;
        serve(&listener, &attacker, &mut ops, until).map_err(|error| error.to_string())?;
    }
    let (without, behind) = attacker.join(until)??;
    Ok((without, behind, ops))
}

/// Refuses what is asked until the attacker has reported.
fn serve<T>(
    listener: &Listener,
    attacker: &child::Child<T>,
    ops: &mut BTreeSet<String>,
    until: Instant,
) -> std::io::Result<()>
where
    T: serde::de::DeserializeOwned,
{
    while Instant::now() < until {
        while let Some(call) = listener.recv()? {
            let denied = describe(&call);
            listener.deny(call.id, denied.errno)?;
            ops.insert(denied.op);
        }
        let mut ready = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(attacker.descriptor(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, PollTimeout::from(1000_u16)) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let reported = |ready: &PollFd<'_>| ready.revents().is_some_and(|events| !events.is_empty());
        if reported(&ready[1]) {
            break;
        }
    }
    Ok(())
}

fn explain(error: &ConfineError) -> String {
    match error {
        ConfineError::ListenerTaken => format!("{}: {}", chain(error), host::LISTENER),
        _ => chain(error),
    }
}
