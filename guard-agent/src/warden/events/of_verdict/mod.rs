//! What was refused on the security hooks: each record is one refusal, and names the object itself.

#[cfg(test)]
mod tests;
mod words;

use guard_common::told::told;

use super::{
    attempt::{Key, Who, blank},
    desk::Surroundings,
    in_flight::During,
    ledger::Ledger,
};
use crate::{
    audit::{Decision, Kernel, Layer, PathSource, errno_name},
    octets::Octets,
    warden::kernel::VerdictEvent,
};

/// Takes one event.
pub(super) fn note(event: VerdictEvent, during: During, ledger: &mut Ledger, around: &Surroundings) {
    let who = Who::of(&event.origin, during);
    let (hook, nlink) = (event.hook, event.nlink);
    let op = words::operation(hook, event.needs);
    let key = Key::Verdict {
        hook: hook.id,
        reason: event.reason,
        errno: event.errno,
        needs: event.needs,
        found: event.found,
        dev: event.dev,
        ino: event.ino,
        detail: event.detail,
        names: event.names,
        during: who.during.clone(),
    };
    if ledger.repeated(&key) {
        return;
    }
    ledger.first(key, op, |key| {
        let (layer, reason) = match (event.reason, told(hook)) {
            (Some(reason), _) => (Layer::BpfLsm, Some(reason)),
            (None, Some(told)) => {
                let (layer, reason) = around.refused(told, event.errno, who.tid);
                (layer, Some(reason))
            }
            // No program tells of others on this hook.
            (None, None) => (Layer::Unknown, None),
        };
        let blank = blank(op.into(), Decision::Deny, layer, &who);
        let Key::Verdict {
            errno,
            needs,
            found,
            dev,
            ino,
            detail,
            names,
            ..
        } = key
        else {
            return blank;
        };
        // What was never in a directory has no names at all, and no path.
        let placed = names
            .as_ref()
            .map(|names| around.placed(*dev, names))
            .filter(|(path, _)| !path.is_empty());
        let (path, complete) = placed.map_or((None, true), |(path, complete)| (Some(path), complete));
        Kernel {
            reason: reason.map(str::to_owned),
            path_source: path.as_ref().map(|_| PathSource::Kernel),
            path_complete: (!complete).then_some(false),
            path: path.map(Octets),
            dev: dev.map(Into::into),
            ino: ino.map(Into::into),
            nlink,
            rights: words::rights(*needs),
            family: words::family(hook, *detail),
            detail: Some(words::details(hook, *found, *detail)),
            exe: around.program(who.tid),
            errno: Some(errno_name((*errno).into())),
            ..blank
        }
    });
}
