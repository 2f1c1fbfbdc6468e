//! What `sched_process_exec` reported: programs that were started.

use super::{
    attempt::{Given, Key, Who, blank},
    desk::Surroundings,
    in_flight::During,
    ledger::Ledger,
    places::join,
};
use crate::{
    audit::{Decision, Kernel, Layer, PathSource},
    octets::Octets,
    warden::kernel::ExecEvent,
};

/// Takes one event.
pub(super) fn note(event: ExecEvent, during: During, ledger: &mut Ledger, around: &Surroundings) {
    let who = Who::of(&event.origin, during);
    let (dev, ino, nlink) = (event.dev, event.ino, event.nlink);
    let key = Key::Exec {
        filename: Given {
            bytes: event.filename.bytes,
            complete: event.filename.complete,
        },
        interpreter: event.interpreter.map(|path| Given {
            bytes: path.bytes,
            complete: path.complete,
        }),
        dev: dev.unwrap_or(0),
        ino: ino.unwrap_or(0),
        nlink: nlink.unwrap_or(0),
        during: who.during.clone(),
    };
    if ledger.repeated(&key) {
        return;
    }
    ledger.first(key, "exec", |key| {
        let Key::Exec {
            filename,
            interpreter,
            ..
        } = key
        else {
            return blank("exec".into(), Decision::Allow, Layer::Unknown, &who);
        };
        let (base, sure) = around.working_directory(who.tid);
        let place = |given: &Given| match &base {
            Some(base) if given.is_relative() => (join(base, &given.bytes), sure && given.complete),
            _ => (given.bytes.clone(), given.complete && !given.is_relative()),
        };
        let (path, complete) = place(filename);
        // Of a script: what runs it.
        let exe = interpreter
            .as_ref()
            .map_or_else(|| path.clone(), |given| place(given).0);
        Kernel {
            path: Some(Octets(path)),
            path_source: Some(PathSource::Kernel),
            path_complete: (!complete).then_some(false),
            dev: dev.map(Into::into),
            ino: ino.map(Into::into),
            nlink,
            rights: Some("x".to_owned()),
            exe: Some(Octets(exe)),
            ..blank("exec".into(), Decision::Allow, Layer::Unknown, &who)
        }
    });
}
