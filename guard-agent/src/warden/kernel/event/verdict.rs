//! What was refused on a security hook: the object as the kernel has it.

use guard_common::{
    hooks::{self, Hook},
    verdict::{BY_ANOTHER, NAMED, NAMES_WHOLE, OBJECT_KNOWN, VerdictRecord},
};

use super::{DecodeError, Origin, device, origin};

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictEvent {
    pub origin: Origin,
    pub hook: &'static Hook,
    /// The word of a record for it. `None`: another security module refused, for reasons of its own.
    pub reason: Option<&'static str>,
    /// What the caller saw, positive.
    pub errno: u16,
    /// Rights that it takes, and those that are there.
    pub needs: u32,
    pub found: u32,
    /// The filesystem's, as `stat` shows it, but for those that show another (btrfs, overlayfs).
    pub dev: Option<u64>,
    /// Of what is there already.
    pub ino: Option<u64>,
    pub nlink: Option<u32>,
    /// What else there is to say; what it is depends on the hook.
    pub detail: u64,
    /// Where it lies, of what lies somewhere.
    pub names: Option<KernelPath>,
}

/// Where an object lies in its filesystem, by the kernel's own names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KernelPath {
    /// From the top down.
    pub components: Vec<Vec<u8>>,
    /// They begin at the filesystem's root: there was room for all, and none was in the middle of a change.
    pub complete: bool,
}

impl KernelPath {
    /// From the names as they come: the object's first, each ended by a zero.
    fn of(bytes: &[u8], whole: bool) -> Self {
        let mut components: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        // What follows the last zero.
        let ended = components.pop_if(|rest| rest.is_empty()).is_some();
        components.reverse();
        let sound = components.iter().all(|name| is_name(name));
        Self {
            components,
            complete: whole && ended && sound,
        }
    }
}

/// What can be a name in a directory.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/')
}

pub(super) fn decode(record: &VerdictRecord) -> Result<VerdictEvent, DecodeError> {
    let hook = hooks::hook(record.hook).ok_or(DecodeError::Hook { hook: record.hook })?;
    let has = |flag: u16| record.flags & flag != 0;
    let reason = match (has(BY_ANOTHER), record.reason) {
        (true, 0) => None,
        (false, reason) => Some(hooks::reason(reason).ok_or(DecodeError::Reason { reason })?),
        (true, reason) => return Err(DecodeError::Reason { reason }),
    };
    let used =
        usize::try_from(record.names_len).map_or(record.names.len(), |used| used.min(record.names.len()));
    let names = record.names.get(..used).unwrap_or_default();
    // No filesystem has the device 0.
    let dev = (record.dev != 0 && has(NAMED | OBJECT_KNOWN)).then(|| device(record.dev.into()));
    Ok(VerdictEvent {
        origin: origin(&record.header),
        hook,
        reason,
        errno: record.errno,
        needs: record.needs,
        found: record.found,
        dev,
        ino: has(OBJECT_KNOWN).then_some(record.ino),
        nlink: has(OBJECT_KNOWN).then_some(record.nlink),
        detail: record.detail,
        names: has(NAMED).then(|| KernelPath::of(names, has(NAMES_WHOLE))),
    })
}

#[cfg(test)]
mod tests {
    use guard_common::{
        abi::ABI_VERSION,
        hooks::{HOOKS, REASON_LAST, REASON_OUTSIDE},
        record::KIND_VERDICT,
        verdict::{NAMES_BYTES, NAMES_LIMIT},
    };
    use proptest::prelude::*;
    use zerocopy::{FromBytes, IntoBytes};

    use super::{
        super::{Event, tests::head},
        *,
    };

    fn record(names: &[u8]) -> VerdictRecord {
        let mut room = [0xaa; NAMES_BYTES];
        room[..names.len()].copy_from_slice(names);
        VerdictRecord {
            header: head(KIND_VERDICT),
            hook: hooks::FILE_OPEN.id,
            errno: 13,
            reason: REASON_OUTSIDE,
            flags: NAMED | NAMES_WHOLE | OBJECT_KNOWN,
            needs: 1,
            found: 0,
            dev: (8 << 20) | 17,
            nlink: 2,
            ino: 5,
            detail: 6,
            names_len: u32::try_from(names.len()).unwrap(),
            reserved: 0,
            names: room,
        }
    }

    fn event_of(record: &VerdictRecord) -> VerdictEvent {
        match Event::decode(record.as_bytes()) {
            Ok(Event::Verdict(event)) => event,
            other => panic!("{other:?}"),
        }
    }

    fn path(components: &[&[u8]], complete: bool) -> Option<KernelPath> {
        Some(KernelPath {
            components: components.iter().map(|name| name.to_vec()).collect(),
            complete,
        })
    }

    #[test]
    fn a_refusal_is_told_with_its_object() {
        let event = event_of(&record(b"shadow\0etc\0"));
        let wanted = VerdictEvent {
            origin: Origin {
                cgroup_id: 8,
                slot: 3,
                pid: 9,
                tid: 10,
                ktime_ns: 7,
                cpu: 1,
                calls: None,
            },
            hook: &hooks::FILE_OPEN,
            reason: Some("outside-roots"),
            errno: 13,
            needs: 1,
            found: 0,
            dev: Some(libc::makedev(8, 17)),
            ino: Some(5),
            nlink: Some(2),
            detail: 6,
            names: path(&[b"etc", b"shadow"], true),
        };
        assert_eq!(event, wanted);
        assert_eq!(Event::Verdict(event).cgroup_id(), 8);
    }

    #[test]
    fn names_are_whole_only_when_they_begin_at_the_root_and_can_be_names() {
        let names = |bytes: &[u8]| event_of(&record(bytes)).names;
        // The root itself.
        assert_eq!(names(b""), path(&[], true));
        assert_eq!(names(b"a\0"), path(&[b"a"], true));
        for (bytes, components) in [
            (&b"a\0b"[..], &[&b"b"[..], b"a"][..]),
            (b"a\0\0b\0", &[b"b", b"", b"a"]),
            (b"\0", &[b""]),
            (b"..\0b\0", &[b"b", b".."]),
            (b"x/y\0", &[b"x/y"]),
        ] {
            let found = names(bytes).unwrap();
            assert_eq!(found.components, components, "{}", bytes.escape_ascii());
            assert!(!found.complete, "{}", bytes.escape_ascii());
        }
        let mut cut = record(b"a\0b\0");
        cut.flags = NAMED | OBJECT_KNOWN;
        assert_eq!(event_of(&cut).names, path(&[b"b", b"a"], false));
        cut.flags = OBJECT_KNOWN;
        assert_eq!(event_of(&cut).names, None);
        // More than there is: what there is.
        cut.flags = NAMED;
        cut.names_len = u32::MAX;
        let found = event_of(&cut).names.unwrap();
        assert_eq!((found.components.len(), found.complete), (3, false));
    }

    #[test]
    fn what_another_module_refused_has_no_reason_of_ours() {
        let mut other = record(b"shadow\0etc\0");
        other.flags |= BY_ANOTHER;
        assert_eq!(
            Event::decode(other.as_bytes()),
            Err(DecodeError::Reason {
                reason: REASON_OUTSIDE
            })
        );
        other.reason = 0;
        let event = event_of(&other);
        assert_eq!((event.reason, event.errno, event.ino), (None, 13, Some(5)));
        assert_eq!(event.names, path(&[b"etc", b"shadow"], true));
    }

    /// What is about to be made is somewhere and nothing yet.
    #[test]
    fn what_is_not_there_yet_has_a_device_and_no_inode() {
        let mut new = record(b"new\0");
        new.flags = NAMED | NAMES_WHOLE;
        let event = event_of(&new);
        assert_eq!(
            (event.dev, event.ino, event.nlink),
            (Some(libc::makedev(8, 17)), None, None)
        );
        new.dev = 0;
        assert_eq!(event_of(&new).dev, None);
        new.dev = 17;
        new.flags = 0;
        assert_eq!(event_of(&new).dev, None);
    }

    #[test]
    fn other_hooks_reasons_and_lengths_are_refused() {
        let last = u16::try_from(HOOKS.len()).unwrap();
        for hook in [0, last + 1, u16::MAX] {
            let mut other = record(b"");
            other.hook = hook;
            assert_eq!(Event::decode(other.as_bytes()), Err(DecodeError::Hook { hook }));
        }
        for reason in [0, REASON_OUTSIDE - 1, REASON_LAST + 1] {
            let mut other = record(b"");
            other.reason = reason;
            assert_eq!(
                Event::decode(other.as_bytes()),
                Err(DecodeError::Reason { reason })
            );
        }
        let short = DecodeError::Length {
            kind: KIND_VERDICT,
            got: 863,
        };
        assert_eq!(Event::decode(&record(b"").as_bytes()[..863]), Err(short));
    }

    fn name() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 1..40)
            .prop_filter("what can be a name", |name| is_name(name) && !name.contains(&0))
    }

    proptest! {
        #[test]
        fn names_come_back_as_they_were(components in proptest::collection::vec(name(), 0..12), whole in any::<bool>()) {
            let mut bytes = Vec::new();
            for component in components.iter().rev() {
                bytes.extend_from_slice(component);
                bytes.push(0);
            }
            prop_assume!(bytes.len() <= NAMES_LIMIT);
            let mut record = record(&bytes);
            record.flags = if whole { NAMED | NAMES_WHOLE } else { NAMED };
            prop_assert_eq!(event_of(&record).names, Some(KernelPath { components, complete: whole }));
        }

        #[test]
        fn any_record_decodes_or_is_refused(
            bytes in proptest::collection::vec(any::<u8>(), 864..=864),
            hook in 0u16..70,
            reason in 95u16..120,
        ) {
            let mut record = VerdictRecord::read_from_bytes(&bytes).unwrap();
            record.header.abi = ABI_VERSION;
            record.header.kind = KIND_VERDICT;
            (record.hook, record.reason) = (hook, reason);
            match Event::decode(record.as_bytes()) {
                Ok(Event::Verdict(event)) => {
                    prop_assert_eq!((event.hook.id, event.reason), (hook, hooks::reason(reason)));
                    prop_assert_eq!((event.needs, event.found, event.detail), (record.needs, record.found, record.detail));
                    let names = event.names.map_or(0, |names| names.components.concat().len());
                    prop_assert!(names <= NAMES_BYTES);
                }
                Err(DecodeError::Hook { .. }) => prop_assert_eq!(hooks::hook(hook), None),
                Err(DecodeError::Reason { .. }) => {
                    prop_assert!(record.flags & BY_ANOTHER != 0 || hooks::reason(reason).is_none());
                }
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
        }
    }
}
