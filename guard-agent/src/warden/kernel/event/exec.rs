//! A program that was started.

use guard_common::record::{DEVICE_KNOWN, ExecRecord, INODE_KNOWN, LINKS_KNOWN};

use super::{Origin, UserPath, device, origin, second_flags, text};

/// A program that replaced the calling one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecEvent {
    pub origin: Origin,
    /// The kernel's copy of what the caller named; `/dev/fd/N` when it was a descriptor.
    pub filename: UserPath,
    /// The program that runs it when that is another: of a script.
    pub interpreter: Option<UserPath>,
    /// The inode that runs, the interpreter's when there is one. The device as `stat` shows it, but for
    /// filesystems that show another (btrfs, overlayfs).
    pub dev: Option<u64>,
    pub ino: Option<u64>,
    pub nlink: Option<u32>,
}

pub(super) fn decode(record: &ExecRecord) -> ExecEvent {
    let known = |flag: u16| record.flags & flag != 0;
    ExecEvent {
        origin: origin(&record.header),
        filename: text(&record.filename, record.filename_len, record.flags).unwrap_or(UserPath {
            bytes: Vec::new(),
            complete: false,
        }),
        interpreter: text(
            &record.interpreter,
            record.interpreter_len,
            second_flags(record.flags),
        ),
        dev: known(DEVICE_KNOWN).then(|| device(record.dev)),
        ino: known(INODE_KNOWN).then_some(record.ino),
        nlink: known(LINKS_KNOWN).then_some(record.nlink),
    }
}

#[cfg(test)]
mod tests {
    use guard_common::record::{INTERPRETER_BYTES, KIND_EXEC, PATH_BYTES, PATH_GIVEN, SECOND_GIVEN};
    use zerocopy::IntoBytes;

    use super::{
        super::{Event, tests::head},
        *,
    };

    #[test]
    fn what_the_kernel_does_not_tell_of_an_executed_file_is_left_out() {
        let mut record = ExecRecord {
            header: head(KIND_EXEC),
            dev: (8 << 20) | 17,
            ino: 5,
            nlink: 2,
            flags: PATH_GIVEN,
            filename_len: 1,
            interpreter_len: 0,
            reserved: [0; 3],
            filename: [b'/'; PATH_BYTES],
            interpreter: [0; INTERPRETER_BYTES],
        };
        let decoded = |record: &ExecRecord| match Event::decode(record.as_bytes()) {
            Ok(Event::Exec(event)) => event,
            other => panic!("{other:?}"),
        };
        let event = decoded(&record);
        assert_eq!((event.dev, event.ino, event.nlink), (None, None, None));
        assert_eq!(event.interpreter, None);
        record.flags |= INODE_KNOWN | DEVICE_KNOWN | LINKS_KNOWN | SECOND_GIVEN;
        let event = decoded(&record);
        assert_eq!(event.dev, Some(libc::makedev(8, 17)));
        assert_eq!((event.ino, event.nlink), (Some(5), Some(2)));
        assert_eq!(event.interpreter.unwrap().bytes, b"");
    }
}
