//! What the kernel half reports, and how a record of the ring becomes it.
//! The bytes come from the kernel half, still nothing is taken on trust.
#![forbid(unsafe_code)]

mod exec;
mod verdict;

use std::net::SocketAddr;

use guard_common::{
    abi::ABI_VERSION,
    record::{
        ADDRESS_GIVEN, ALLOWED, CallRecord, Header, KIND_CALL, KIND_EXEC, KIND_NET, KIND_PATHS, KIND_VERDICT,
        MARKED, PATH_CUT, PATH_GIVEN, PATH_UNREADABLE, PathsRecord, SECOND_GIVEN,
    },
};
use zerocopy::FromBytes;

pub use self::{
    exec::ExecEvent,
    verdict::{KernelPath, VerdictEvent},
};
use super::{decode::NetEvent, sockaddr};

/// One thing that happened in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A network operation that a cgroup program denied.
    Net(NetEvent),
    /// A system call that failed, or an open that succeeded.
    Call(CallEvent),
    /// A program that was executed.
    Exec(ExecEvent),
    /// What a security hook refused.
    Verdict(VerdictEvent),
}

/// Who did it and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The caller's cgroup at the sandboxes' level; 0 when the caller is in none there.
    pub cgroup_id: u64,
    /// The slot of that sandbox, 0 when none was opened.
    pub slot: u32,
    /// In the kernel's first pid namespace.
    pub pid: u32,
    pub tid: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub ktime_ns: u64,
    pub cpu: u32,
    /// The calls in flight then, a bit each, by the gateway's word. `None`: nobody marks them.
    pub calls: Option<u64>,
}

/// A path as the caller gave it, relative ones too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPath {
    /// Without the zero at its end; empty when it could not be read.
    pub bytes: Vec<u8>,
    /// `false`: it goes on, or its memory could not be read.
    pub complete: bool,
}

/// One observed system call; `guard_common::syscalls` says what its arguments are.
///
/// Paths and addresses were copied from the caller's memory when the call returned: another thread of the
/// caller may have changed them since the kernel looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEvent {
    pub origin: Origin,
    pub nr: u32,
    /// Positive; 0: it succeeded.
    pub errno: u16,
    pub args: [u64; 6],
    pub result: i64,
    /// Also the name of a unix socket, which starts with a zero when abstract.
    pub path: Option<UserPath>,
    pub second: Option<UserPath>,
    /// Where a socket call wanted to go, for IPv4 and IPv6.
    pub address: Option<SocketAddr>,
}

/// Bytes that are no record of this build's kernel half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("a record of kind {kind} has {got} bytes")]
    Length { kind: u16, got: usize },
    #[error("the record is of layout {got} instead of {ABI_VERSION}")]
    Abi { got: u32 },
    #[error("the record is of unknown kind {kind}")]
    Kind { kind: u16 },
    #[error("the record is of unknown security hook {hook}")]
    Hook { hook: u16 },
    #[error("the record has unknown reason {reason} for a refusal")]
    Reason { reason: u16 },
}

/// Whose room in the ring a record took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) slot: u32,
    pub(super) allowed: bool,
}

/// The beginning of a record of this build.
pub(super) fn header(bytes: &[u8]) -> Result<Header, DecodeError> {
    let length = DecodeError::Length {
        kind: 0,
        got: bytes.len(),
    };
    let (header, _) = Header::read_from_prefix(bytes).map_err(|_| length)?;
    if header.abi != ABI_VERSION {
        return Err(DecodeError::Abi { got: header.abi });
    }
    Ok(header)
}

impl Owner {
    pub(super) fn of(header: &Header) -> Self {
        Self {
            slot: header.slot,
            allowed: header.flags & ALLOWED != 0,
        }
    }
}

impl Event {
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let header = header(bytes)?;
        match header.kind {
            KIND_NET => Ok(Self::Net(NetEvent::from_record(&whole(bytes, header.kind)?))),
            KIND_CALL => Ok(Self::Call(call(&whole(bytes, header.kind)?, None))),
            KIND_PATHS => {
                let record: PathsRecord = whole(bytes, header.kind)?;
                Ok(Self::Call(call(&record.call, Some(&record.second))))
            }
            KIND_EXEC => Ok(Self::Exec(exec::decode(&whole(bytes, header.kind)?))),
            KIND_VERDICT => verdict::decode(&whole(bytes, header.kind)?).map(Self::Verdict),
            kind => Err(DecodeError::Kind { kind }),
        }
    }

    /// The bits of the calls in flight, and when that was.
    pub fn stamped(&self) -> (Option<u64>, u64) {
        match self {
            Self::Net(event) => (event.calls, event.ktime_ns),
            Self::Call(event) => (event.origin.calls, event.origin.ktime_ns),
            Self::Exec(event) => (event.origin.calls, event.origin.ktime_ns),
            Self::Verdict(event) => (event.origin.calls, event.origin.ktime_ns),
        }
    }

    pub fn cgroup_id(&self) -> u64 {
        match self {
            Self::Net(event) => event.cgroup_id,
            Self::Call(event) => event.origin.cgroup_id,
            Self::Exec(event) => event.origin.cgroup_id,
            Self::Verdict(event) => event.origin.cgroup_id,
        }
    }
}

/// A record of exactly this type.
fn whole<T: FromBytes>(bytes: &[u8], kind: u16) -> Result<T, DecodeError> {
    T::read_from_bytes(bytes).map_err(|_| DecodeError::Length {
        kind,
        got: bytes.len(),
    })
}

fn origin(header: &Header) -> Origin {
    Origin {
        cgroup_id: header.cgroup_id,
        slot: header.slot,
        pid: header.pid,
        tid: header.tid,
        ktime_ns: header.ktime_ns,
        cpu: header.cpu,
        calls: calls(header),
    }
}

pub(super) fn calls(header: &Header) -> Option<u64> {
    (header.flags & MARKED != 0).then_some(header.calls)
}

/// A text with `PATH_` flags.
fn text(room: &[u8], length: u16, flags: u16) -> Option<UserPath> {
    (flags & PATH_GIVEN != 0).then(|| UserPath {
        bytes: room
            .get(..usize::from(length).min(room.len()))
            .unwrap_or_default()
            .to_vec(),
        complete: flags & (PATH_CUT | PATH_UNREADABLE) == 0,
    })
}

/// The `SECOND_` flags as `PATH_` flags.
fn second_flags(flags: u16) -> u16 {
    (flags / SECOND_GIVEN) & (PATH_GIVEN | PATH_CUT | PATH_UNREADABLE)
}

fn call(record: &CallRecord, second: Option<&[u8]>) -> CallEvent {
    let mut path = text(&record.path, record.path_len, record.flags);
    let mut address = None;
    if record.flags & ADDRESS_GIVEN != 0 {
        let length = usize::from(record.path_len).min(record.path.len());
        match sockaddr::parse(record.path.get(..length).unwrap_or_default()) {
            sockaddr::Address::Internet(at) => address = Some(at),
            sockaddr::Address::Unix(bytes) => {
                path = Some(UserPath {
                    bytes,
                    complete: true,
                });
            }
            sockaddr::Address::Other => {}
        }
    }
    CallEvent {
        origin: origin(&record.header),
        nr: record.nr,
        errno: record.errno,
        args: record.args,
        result: record.result,
        path,
        second: second.and_then(|room| text(room, record.second_len, second_flags(record.flags))),
        address,
    }
}

/// The kernel's own numbering of devices, as `stat` shows it.
fn device(kernel: u64) -> u64 {
    const MINOR_BITS: u32 = 20;
    let (major, minor) = (kernel >> MINOR_BITS, kernel & ((1 << MINOR_BITS) - 1));
    let part = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    libc::makedev(part(major), part(minor))
}

#[cfg(test)]
mod tests {
    use guard_common::record::{PATH_BYTES, SECOND_CUT};
    use proptest::prelude::*;
    use zerocopy::IntoBytes;

    use super::*;

    pub(super) fn head(kind: u16) -> Header {
        Header {
            abi: ABI_VERSION,
            kind,
            flags: 0,
            ktime_ns: 7,
            cgroup_id: 8,
            pid: 9,
            tid: 10,
            slot: 3,
            cpu: 1,
            calls: 0,
        }
    }

    fn record() -> CallRecord {
        let mut path = [0xaa; PATH_BYTES];
        path[..4].copy_from_slice(b"/etc");
        CallRecord {
            header: head(KIND_CALL),
            nr: 257,
            errno: 13,
            flags: PATH_GIVEN,
            result: -13,
            args: [1, 2, 3, 4, 5, 6],
            path_len: 4,
            second_len: 0,
            reserved: 0,
            path,
        }
    }

    fn call_of(record: &CallRecord) -> CallEvent {
        match Event::decode(record.as_bytes()) {
            Ok(Event::Call(call)) => call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_path_ends_where_the_record_says_and_tells_whether_it_is_whole() {
        let mut one = record();
        let event = call_of(&one);
        let whole = UserPath {
            bytes: b"/etc".to_vec(),
            complete: true,
        };
        assert_eq!(event.path, Some(whole));
        assert_eq!((event.second, event.address), (None, None));
        assert_eq!((event.origin.slot, event.origin.cgroup_id), (3, 8));
        one.flags = PATH_GIVEN | PATH_CUT;
        one.path_len = u16::MAX;
        let path = call_of(&one).path.unwrap();
        assert_eq!((path.bytes.len(), path.complete), (PATH_BYTES, false));
        one.flags = 0;
        assert_eq!(call_of(&one).path, None);
    }

    #[test]
    fn calls_are_told_where_they_are_marked() {
        let mut one = record();
        one.header.calls = 5;
        assert_eq!(call_of(&one).origin.calls, None);
        one.header.flags = MARKED;
        assert_eq!(call_of(&one).origin.calls, Some(5));
        assert!(!Owner::of(&one.header).allowed);
        one.header.flags = MARKED | ALLOWED;
        one.header.calls = 0;
        assert_eq!(call_of(&one).origin.calls, Some(0));
        assert!(Owner::of(&one.header).allowed);
    }

    #[test]
    fn two_paths_are_told_apart() {
        let mut first = record();
        first.header.kind = KIND_PATHS;
        first.flags = PATH_GIVEN | SECOND_GIVEN | SECOND_CUT;
        first.second_len = 2;
        let mut both = PathsRecord {
            call: first,
            second: [b'x'; PATH_BYTES],
        };
        let Ok(Event::Call(event)) = Event::decode(both.as_bytes()) else {
            panic!()
        };
        assert!(event.path.unwrap().complete);
        let second = event.second.unwrap();
        assert_eq!((second.bytes.as_slice(), second.complete), (&b"xx"[..], false));
        both.call.flags = PATH_GIVEN;
        let Ok(Event::Call(event)) = Event::decode(both.as_bytes()) else {
            panic!()
        };
        assert_eq!(event.second, None);
    }

    #[test]
    fn other_layouts_lengths_and_kinds_are_refused() {
        let good = record();
        let bytes = good.as_bytes();
        assert_eq!(Event::decode(&[]), Err(DecodeError::Length { kind: 0, got: 0 }));
        let short = DecodeError::Length {
            kind: KIND_CALL,
            got: 519,
        };
        assert_eq!(Event::decode(&bytes[..519]), Err(short));
        let mut other = good;
        other.header.abi = ABI_VERSION - 1;
        let abi = DecodeError::Abi { got: ABI_VERSION - 1 };
        assert_eq!(Event::decode(other.as_bytes()), Err(abi));
        other = good;
        other.header.kind = 99;
        assert_eq!(
            Event::decode(other.as_bytes()),
            Err(DecodeError::Kind { kind: 99 })
        );
        // A record of one kind is none of another, whatever its number says.
        other.header.kind = KIND_EXEC;
        assert!(matches!(
            Event::decode(other.as_bytes()),
            Err(DecodeError::Length { .. })
        ));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(
            mut bytes in proptest::collection::vec(any::<u8>(), 48..1000),
            kind in 0u16..7,
            exact in any::<bool>(),
        ) {
            if exact {
                let length = match kind {
                    KIND_NET => 200,
                    KIND_CALL => 520,
                    KIND_PATHS => 920,
                    KIND_VERDICT => 864,
                    _ => 736,
                };
                bytes.resize(length, 0x5a);
            }
            bytes[..4].copy_from_slice(&ABI_VERSION.to_ne_bytes());
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            let known = (KIND_NET..=KIND_VERDICT).contains(&kind);
            let decoded = Event::decode(&bytes);
            // Of a verdict the hook and the reason have to be known, too.
            prop_assert!(!exact || kind == KIND_VERDICT || decoded.is_ok() == known);
            prop_assert!(known || decoded.is_err());
        }
    }
}
