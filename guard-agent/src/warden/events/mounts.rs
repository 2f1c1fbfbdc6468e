//! Where filesystems are mounted: the kernel names an object from the top of its filesystem, a record from the top of
//! the tree. Best effort; nothing is decided by it.

use std::{
    cell::RefCell,
    fs::File,
    io::{self, Read as _, Seek as _},
    rc::Rc,
    time::{Duration, Instant},
};

/// How long what was read is taken to hold.
const FRESH: Duration = Duration::from_secs(1);
/// The most that is read of one list.
const MOST_BYTES: u64 = 4 << 20;
const OURS: &str = "/proc/self/mountinfo";

/// The sandbox's mounts, and ours for what it can reach and does not see.
#[derive(Debug)]
pub(super) struct Mounts {
    lists: Vec<List>,
}

/// Mounts as one process sees them. The file stays with them, whatever becomes of the process.
#[derive(Debug)]
struct List {
    file: File,
    read: RefCell<Option<(Instant, Rc<[Mount]>)>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    dev: u64,
    /// What of the filesystem is mounted.
    top: Vec<u8>,
    at: Vec<u8>,
}

impl Mounts {
    /// As the sandbox of this init sees them, and as we do.
    pub(super) fn seen_by(init: i32) -> Self {
        let theirs = format!("/proc/{init}/mountinfo");
        let lists = [theirs.as_str(), OURS].into_iter().filter_map(|name| {
            let file = File::open(name);
            let failed = |error: &io::Error| tracing::debug!(name, %error, "records may lack paths");
            file.inspect_err(failed).ok()
        });
        Self::of(lists)
    }

    pub(super) fn of(lists: impl IntoIterator<Item = File>) -> Self {
        let list = |file| List {
            file,
            read: RefCell::default(),
        };
        Self {
            lists: lists.into_iter().map(list).collect(),
        }
    }

    /// The path of what has these names below the top of a filesystem; of several, one that is `known`.
    pub(super) fn path(&self, dev: u64, names: &[Vec<u8>], known: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        self.lists
            .iter()
            .find_map(|list| path(&list.mounts(), dev, names, &known))
    }
}

impl List {
    fn mounts(&self) -> Rc<[Mount]> {
        let mut read = self.read.borrow_mut();
        if let Some((when, mounts)) = &*read
            && when.elapsed() < FRESH
        {
            return Rc::clone(mounts);
        }
        let mounts: Rc<[Mount]> = self.lines().map_or_else(
            |error| {
                tracing::warn!(%error, "cannot read where filesystems are mounted");
                Rc::default()
            },
            |text| text.split(|byte| *byte == b'\n').filter_map(mount).collect(),
        );
        *read = Some((Instant::now(), Rc::clone(&mounts)));
        mounts
    }

    fn lines(&self) -> io::Result<Vec<u8>> {
        let mut file = &self.file;
        file.rewind()?;
        let mut text = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut text)?;
        Ok(text)
    }
}

/// A line of `mountinfo`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    let (major, minor) = std::str::from_utf8(fields.next()?).ok()?.split_once(':')?;
    Some(Mount {
        dev: libc::makedev(major.parse().ok()?, minor.parse().ok()?),
        top: unescaped(fields.next()?),
        at: unescaped(fields.next()?),
    })
}

/// Blanks, line ends and backslashes stand there as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| after.split_at_checked(3)).flatten();
        let byte = octal.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 8).ok()?, after))
        });
        let (byte, after) = byte.unwrap_or((*first, after));
        plain.push(byte);
        rest = after;
    }
    plain
}

/// Of several mounts that show an object one where it is `known`, then one that shows most of the filesystem, then the
/// first.
fn path(mounts: &[Mount], dev: u64, names: &[Vec<u8>], known: &impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let shown = mounts
        .iter()
        .filter(|mount| mount.dev == dev)
        .filter_map(|mount| {
            let (depth, below) = below(&mount.top, names)?;
            let mut path = mount.at.strip_suffix(b"/").unwrap_or(&mount.at).to_vec();
            for name in below {
                path.push(b'/');
                path.extend_from_slice(name);
            }
            if path.is_empty() {
                path.push(b'/');
            }
            Some((!known(&path), depth, path))
        });
    shown
        .min_by_key(|(unknown, depth, _)| (*unknown, *depth))
        .map(|(_, _, path)| path)
}

/// How deep a place in a filesystem lies, and which names are left below it.
fn below<'a>(top: &[u8], names: &'a [Vec<u8>]) -> Option<(usize, &'a [Vec<u8>])> {
    let mut rest = names;
    let mut depth = 0;
    // What is no path at all, as of a namespace's file, fits nothing.
    let above = top.strip_prefix(b"/")?;
    for name in above.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let (first, after) = rest.split_first()?;
        if first != name {
            return None;
        }
        (rest, depth) = (after, depth + 1);
    }
    Some((depth, rest))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    const HOST: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /dev rw - devtmpfs udev rw
24 22 8:1 /var/lib/store /srv/a\\040place rw - ext4 /dev/sda1 rw
25 22 0:40 /@home /home rw - btrfs /dev/sdb1 rw
26 22 0:40 /@ /mnt/system rw - btrfs /dev/sdb1 rw
27 22 0:4 net:[4026531840] /run/netns/x rw - nsfs nsfs rw
";

    fn list(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn names(path: &str) -> Vec<Vec<u8>> {
        path.split('/')
            .filter(|name| !name.is_empty())
            .map(|name| name.as_bytes().to_vec())
            .collect()
    }

    fn found(mounts: &Mounts, major: u32, minor: u32, path: &str, known: &str) -> Option<String> {
        let known = |path: &[u8]| !known.is_empty() && path.starts_with(known.as_bytes());
        let path = mounts.path(libc::makedev(major, minor), &names(path), known)?;
        Some(String::from_utf8(path).unwrap())
    }

    #[test]
    fn the_path_is_that_of_the_mount_that_shows_the_object() {
        let mounts = Mounts::of([list(HOST)]);
        for (major, minor, path, known, wanted) in [
            (8, 1, "/etc/shadow", "", Some("/etc/shadow")),
            (8, 1, "", "", Some("/")),
            (0, 5, "/sda", "", Some("/dev/sda")),
            (0, 5, "", "", Some("/dev")),
            // Shown twice.
            (8, 1, "/var/lib/store/x", "", Some("/var/lib/store/x")),
            (8, 1, "/var/lib/store/x", "/srv", Some("/srv/a place/x")),
            (8, 1, "/var/lib/store", "/srv", Some("/srv/a place")),
            (8, 1, "/var/lib/stores", "/srv", Some("/var/lib/stores")),
            // A part of the filesystem is mounted.
            (0, 40, "/@home/u/x", "", Some("/home/u/x")),
            (0, 40, "/@/etc", "", Some("/mnt/system/etc")),
            (0, 40, "/@snapshots/1", "", None),
            (0, 4, "", "", None),
            (9, 9, "/x", "", None),
        ] {
            assert_eq!(
                found(&mounts, major, minor, path, known).as_deref(),
                wanted,
                "{major}:{minor} {path}"
            );
        }
    }

    #[test]
    fn the_sandboxs_own_mounts_come_first() {
        let own = "\
90 80 0:99 / / ro - tmpfs tmpfs rw
91 90 0:100 / /tmp rw - tmpfs tmpfs rw
92 90 8:1 /home/u/project /project rw - ext4 /dev/sda1 rw
";
        let mounts = Mounts::of([list(own), list(HOST)]);
        assert_eq!(found(&mounts, 0, 100, "/x", "").as_deref(), Some("/tmp/x"));
        assert_eq!(
            found(&mounts, 8, 1, "/home/u/project/a", "").as_deref(),
            Some("/project/a")
        );
        assert_eq!(
            found(&mounts, 8, 1, "/home/u/other", "").as_deref(),
            Some("/home/u/other")
        );
    }

    #[test]
    fn the_list_is_read_again_only_after_a_while() {
        let mut file = list("22 1 8:1 / / rw - ext4 x rw\n");
        let mounts = Mounts::of([file.try_clone().unwrap()]);
        assert_eq!(found(&mounts, 8, 2, "/x", ""), None);
        file.write_all(b"23 1 8:2 / /b rw - ext4 x rw\n").unwrap();
        assert_eq!(found(&mounts, 8, 2, "/x", ""), None);
        std::thread::sleep(FRESH);
        assert_eq!(found(&mounts, 8, 2, "/x", "").as_deref(), Some("/b/x"));
    }

    /// The kernel's own list, of this process.
    #[test]
    fn this_machines_files_are_found() {
        use std::os::{linux::fs::MetadataExt as _, unix::ffi::OsStrExt as _};
        let mounts = Mounts::seen_by(i32::try_from(std::process::id()).unwrap());
        let dev = std::fs::metadata("/proc").unwrap().st_dev();
        let path = mounts
            .path(dev, &names("/version"), |path| path == b"/proc/version")
            .unwrap();
        assert_eq!(std::ffi::OsStr::from_bytes(&path), "/proc/version");
    }

    proptest! {
        #[test]
        fn any_lines_are_read(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mounts: Vec<Mount> = text.split(|byte| *byte == b'\n').filter_map(mount).collect();
            let _ = path(&mounts, 1, &names("/a/b"), &|_| true);
        }

        #[test]
        fn escapes_are_undone(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut escaped = Vec::new();
            for byte in &name {
                if matches!(byte, b' ' | b'\t' | b'\n' | b'\\') {
                    escaped.extend(format!("\\{byte:03o}").into_bytes());
                } else {
                    escaped.push(*byte);
                }
            }
            prop_assert_eq!(unescaped(&escaped), name);
        }
    }
}
