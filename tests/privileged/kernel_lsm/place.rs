//! What the rows act on: three roots and what lies outside, the same before every row.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    os::linux::net::SocketAddrExt as _,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        net::{SocketAddr, UnixDatagram, UnixListener},
    },
    path::{Path, PathBuf},
};

use guard_tests::arena::Subject;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::elf;

/// Directories whose content is made anew.
const DIRECTORIES: [&str; 4] = ["r", "rw", "rwx", "outside"];

pub(crate) struct Place {
    pub(crate) at: PathBuf,
    /// A process of no sandbox that nobody gives orders.
    pub(crate) bystander: Subject,
    /// Services outside, and one whose socket lies in a root.
    _services: (Vec<UnixListener>, Vec<UnixDatagram>),
}

impl Place {
    /// The directories are there.
    pub(crate) fn new(at: &Path) -> Self {
        let outside = at.join("services");
        fs::create_dir(&outside).unwrap();
        let stream = UnixListener::bind(outside.join("stream")).unwrap();
        let within = UnixListener::bind(at.join("rw/.stranger")).unwrap();
        let address = SocketAddr::from_abstract_name(abstract_name(at)).unwrap();
        let nameless = UnixListener::bind_addr(&address).unwrap();
        let address = SocketAddr::from_abstract_name(format!("{}:datagram", abstract_name(at))).unwrap();
        let nameless_datagram = UnixDatagram::bind_addr(&address).unwrap();
        for name in ["mount", "mount2"] {
            fs::create_dir(at.join(name)).unwrap();
        }
        let place = Self {
            at: at.to_owned(),
            bystander: Subject::start(),
            _services: (
                vec![stream, within, nameless],
                vec![
                    UnixDatagram::bind(outside.join("datagram")).unwrap(),
                    nameless_datagram,
                ],
            ),
        };
        for root in DIRECTORIES {
            fs::write(place.path(root).join(".held"), "held").unwrap();
        }
        place.reset();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    /// Of a service outside.
    pub(crate) fn abstract_name(&self) -> String {
        abstract_name(&self.at)
    }

    /// As if no row had been. What is hidden stays the same file: subjects hold it open.
    pub(crate) fn reset(&self) {
        while umount2(&self.path("mount2"), MntFlags::MNT_DETACH).is_ok() {}
        while umount2(&self.path("mount"), MntFlags::MNT_DETACH).is_ok() {}
        mount(
            Some("none"),
            &self.path("mount"),
            Some("tmpfs"),
            MsFlags::empty(),
            None::<&str>,
        )
        .unwrap();
        for directory in DIRECTORIES {
            let directory = self.path(directory);
            empty(&directory);
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
            for file in ["file", "other", "unlisted"] {
                fs::write(directory.join(file), file).unwrap();
            }
            fs::create_dir(directory.join("directory")).unwrap();
            fs::create_dir(directory.join("empty")).unwrap();
            fs::write(directory.join("directory/file"), "below").unwrap();
            std::os::unix::fs::symlink(self.path("outside/file"), directory.join("link-out")).unwrap();
            std::os::unix::fs::symlink(self.path("r/file"), directory.join("link-in")).unwrap();
            self.program(&directory.join("program"), &elf::ends());
            self.program(
                &directory.join("script"),
                format!("#!{}\n", self.path("outside/program").display()).as_bytes(),
            );
            fs::write(directory.join(".held"), "held").unwrap();
        }
    }

    fn program(&self, path: &Path, bytes: &[u8]) {
        let mut file = fs::File::create(path).unwrap();
        file.write_all(bytes).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What is outside and in the root that is only read: names, modes, owners, sizes, times and contents.
    pub(crate) fn picture(&self) -> Vec<String> {
        let mut picture = Vec::new();
        for directory in ["outside", "r"] {
            see(&self.path(directory), &mut picture);
        }
        picture
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in ["mount2", "mount"] {
            while umount2(&self.path(name), MntFlags::MNT_DETACH).is_ok() {}
        }
    }
}

fn abstract_name(at: &Path) -> String {
    format!("guard-tests:{}", at.display())
}

fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let removed = if entry.file_type().unwrap().is_dir() {
            fs::remove_dir_all(entry.path())
        } else {
            fs::remove_file(entry.path())
        };
        assert!(removed.is_ok_and(|()| true), "{}", entry.path().display());
    }
}

fn see(path: &Path, picture: &mut Vec<String>) {
    let meta = fs::symlink_metadata(path).unwrap();
    let content = match fs::read(path) {
        Ok(content) if meta.is_file() => String::from_utf8_lossy(&content).into_owned(),
        Err(error) if error.kind() != ErrorKind::IsADirectory && meta.is_file() => error.to_string(),
        _ => String::new(),
    };
    picture.push(format!(
        "{} {:o} {}:{} {} {}.{} {content:?}",
        path.display(),
        meta.mode(),
        meta.uid(),
        meta.gid(),
        meta.nlink(),
        meta.mtime(),
        meta.mtime_nsec(),
    ));
    if meta.is_dir() {
        let mut below: Vec<PathBuf> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        below.sort();
        for path in below {
            see(&path, picture);
        }
    }
}
