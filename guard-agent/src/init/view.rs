//! Builds the child's tree of mounts inside the new mount namespace and makes it the root.

use std::{
    collections::HashSet,
    ffi::{CStr, CString},
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Component, Path},
};

use nix::{
    fcntl::OFlag,
    mount::{MntFlags, MsFlags},
    sys::stat::{Mode, SFlag, makedev, mkdirat, mknodat},
};

use super::{
    StepError,
    apply::shows_host,
    message::{Ground, Setup, Source},
};
use crate::{
    config::rights::Rights,
    confine::landlock::Access,
    sys::{
        fs::open_at,
        mount::{Attributes, attach, clone_tree, new_filesystem, set_attributes},
    },
};

const STEP: &str = "init.view";

const HARD: Attributes = Attributes {
    read_only: false,
    no_exec: true,
    no_dev: true,
    no_suid: true,
};

/// The devices of the view, with their minor numbers.
const DEVICES: [(&str, u64); 5] = [
    ("null", 3),
    ("zero", 5),
    ("full", 7),
    ("random", 8),
    ("urandom", 9),
];

/// What a small file or a name of the view may cost.
const ROOT_TMPFS: &str = "4m";

pub(crate) fn make_private() -> io::Result<()> {
    let none: Option<&str> = None;
    nix::mount::mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(io::Error::from)
}

/// The tree under construction.
struct Tree {
    root: OwnedFd,
    /// Devices of filesystems that are the sandbox's own: only there may names be made.
    own: HashSet<u64>,
}

fn at(object: impl Into<String>) -> impl FnOnce(io::Error) -> StepError {
    let object = object.into();
    move |error| StepError::new(STEP, object, error)
}

fn tmpfs(options: &[(&CStr, String)], attributes: Attributes) -> io::Result<OwnedFd> {
    let options: Vec<(&CStr, CString)> = options
        .iter()
        .map(|(key, value)| Ok((*key, CString::new(value.as_str())?)))
        .collect::<io::Result<_>>()?;
    new_filesystem(c"tmpfs", &options, attributes)
}

fn device(object: impl AsFd) -> io::Result<u64> {
    Ok(File::from(object.as_fd().try_clone_to_owned()?).metadata()?.dev())
}

impl Tree {
    fn open(&self, from: impl AsFd, name: &Path, directory: bool) -> io::Result<OwnedFd> {
        let kind = if directory { libc::O_DIRECTORY } else { 0 };
        // No link is followed: the trees mounted so far belong to the user, who may swap names at will.
        open_at(
            from,
            name,
            libc::O_PATH | libc::O_NOFOLLOW | kind,
            libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_BENEATH,
        )
    }

    fn require_own(&self, directory: impl AsFd) -> io::Result<()> {
        if self.own.contains(&device(directory)?) {
            Ok(())
        } else {
            // Never leave a placeholder in somebody's tree.
            Err(io::Error::new(
                io::ErrorKind::NotFound,
                "it does not exist in the tree mounted around it",
            ))
        }
    }

    fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut here = self.root.try_clone()?;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            here = match self.open(&here, Path::new(name), true) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.require_own(&here)?;
                    mkdirat(&here, name, Mode::from_bits_truncate(0o755))?;
                    self.open(&here, Path::new(name), true)?
                }
                other => other?,
            };
        }
        Ok(here)
    }

    /// Where something is to be mounted: the object at `path`, made when the place is ours.
    fn target(&self, path: &Path, is_directory: bool) -> io::Result<OwnedFd> {
        if is_directory {
            return self.directory(path);
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        let parent = self.directory(parent)?;
        match self.open(&parent, Path::new(name), false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.require_own(&parent)?;
                mknodat(&parent, name, SFlag::S_IFREG, Mode::from_bits_truncate(0o444), 0)?;
                self.open(&parent, Path::new(name), false)
            }
            other => other,
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "what is attached needs no descriptor any more"
    )]
    fn mount(&mut self, filesystem: OwnedFd, path: &str) -> Result<(), StepError> {
        let target = self.directory(Path::new(path)).map_err(at(path))?;
        let own = device(&filesystem).map_err(at(path))?;
        attach(&filesystem, &target).map_err(at(path))?;
        self.own.insert(own);
        Ok(())
    }
}

/// The host's tree for a host view: read-only, without devices and set-id programs.
pub fn host_base() -> io::Result<OwnedFd> {
    let tree = clone_tree(File::open("/")?, true)?;
    set_attributes(
        &tree,
        Attributes {
            read_only: true,
            no_exec: true,
            no_dev: true,
            no_suid: true,
        },
    )?;
    Ok(tree)
}

/// A detached tree of what the warden opened, which may not clone it without privilege. Found again by its path, and
/// only if it still is the same object: the warden's checks were of that one.
fn find_again(source: &Source, opened: &OwnedFd) -> io::Result<OwnedFd> {
    let slash = File::open("/")?;
    let path = source.path.as_path();
    let found = open_at(
        &slash,
        path.strip_prefix("/").unwrap_or(path),
        libc::O_PATH | libc::O_NOFOLLOW,
        libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS,
    )?;
    if identity(&found)? != identity(opened)? {
        return Err(io::Error::other("it was replaced while the sandbox was made"));
    }
    let tree = match clone_tree(&found, source.recursive) {
        // Of mounts that came from a more privileged namespace none may be left out.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => clone_tree(&found, true),
        other => other,
    }?;
    set_attributes(&tree, source.attributes)?;
    Ok(tree)
}

fn identity(object: &OwnedFd) -> io::Result<(u64, u64)> {
    let meta = File::from(object.try_clone()?).metadata()?;
    Ok((meta.dev(), meta.ino()))
}

/// Builds the view from the detached trees and pivots into it. Returns what it lacks.
pub(crate) fn build(setup: &Setup, descriptors: Vec<OwnedFd>) -> Result<Vec<String>, StepError> {
    let mut notes = Vec::new();
    let mut descriptors = descriptors.into_iter();
    let base = if shows_host(setup) && setup.ground == Ground::UserNamespace {
        host_base().map_err(at("/"))?
    } else if shows_host(setup) {
        descriptors
            .next()
            .ok_or_else(|| StepError::new(STEP, "/", "no tree for the host's view"))?
    } else {
        let options = [(c"size", ROOT_TMPFS.to_owned()), (c"mode", "0755".to_owned())];
        tmpfs(
            &options,
            Attributes {
                read_only: false,
                no_exec: true,
                no_dev: true,
                no_suid: true,
            },
        )
        .map_err(at("/"))?
    };
    let scaffold = setup.scaffold.as_path();
    let place = File::open(scaffold).map_err(at(setup.scaffold.to_string()))?;
    attach(&base, &place).map_err(at(setup.scaffold.to_string()))?;
    let mut own = HashSet::new();
    if !shows_host(setup) {
        own.insert(device(&base).map_err(at("/"))?);
    }
    let mut tree = Tree { root: base, own };
    private_trees(&mut tree, setup, &mut notes)?;
    for (point, object) in setup.mounts.iter().zip(descriptors) {
        let object = match &point.source {
            None => object,
            Some(source) => find_again(source, &object).map_err(at(point.path.to_string()))?,
        };
        let target = tree
            .target(point.path.as_path(), point.is_directory)
            .map_err(at(point.path.to_string()))?;
        attach(&object, &target).map_err(at(point.path.to_string()))?;
    }
    files(&tree, setup)?;
    links(&tree, setup)?;
    if !shows_host(setup) {
        let whole = Attributes {
            read_only: true,
            ..HARD
        };
        // The root's own mount alone; what is mounted below keeps its rights. Recursion would take them.
        remount(&tree.root, whole).map_err(at("/"))?;
    }
    if setup.ground == Ground::UserNamespace {
        // Here they belong to the child's uid, for which root's would be closed.
        let closed = Attributes {
            read_only: true,
            ..HARD
        };
        for path in ["/dev", "/run"] {
            let own = tree.directory(Path::new(path)).map_err(at(path))?;
            if tree.require_own(&own).is_ok() {
                remount(&own, closed).map_err(at(path))?;
            }
        }
    }
    pivot(&tree.root).map_err(at("/"))?;
    Ok(notes)
}

fn remount(root: &OwnedFd, attributes: Attributes) -> io::Result<()> {
    let path = format!("/proc/self/fd/{}", root.as_raw_fd());
    let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    if attributes.no_exec {
        flags |= MsFlags::MS_NOEXEC;
    }
    if attributes.read_only {
        flags |= MsFlags::MS_RDONLY;
    }
    let none: Option<&str> = None;
    nix::mount::mount(none, path.as_str(), none, flags, none).map_err(io::Error::from)
}

/// The trees that are the sandbox's own in both views.
fn private_trees(tree: &mut Tree, setup: &Setup, notes: &mut Vec<String>) -> Result<(), StepError> {
    let size = setup.tmp_bytes.to_string();
    let sized = |mode: &str| {
        vec![
            (c"size", size.clone()),
            (c"nr_inodes", "65536".to_owned()),
            (c"mode", mode.to_owned()),
        ]
    };
    let proc = match new_filesystem(c"proc", &[], HARD) {
        // Inside a container whose `/proc` is masked the kernel shows no whole one.
        Err(error) if setup.ground == Ground::UserNamespace && error.raw_os_error() == Some(libc::EPERM) => {
            notes.push(
                "the server has no `/proc`: this machine's own is masked, and the kernel gives no whole one then".into(),
            );
            let options = [(c"size", "4k".to_owned()), (c"mode", "0555".to_owned())];
            tmpfs(&options, HARD)
        }
        other => other,
    };
    tree.mount(proc.map_err(at("/proc"))?, "/proc")?;
    tree.mount(tmpfs(&sized("1777"), HARD).map_err(at("/tmp"))?, "/tmp")?;
    tree.mount(
        tmpfs(&[(c"size", "1m".into()), (c"mode", "0755".into())], HARD).map_err(at("/run"))?,
        "/run",
    )?;
    device_tree(tree, setup.ground, &sized("1777"))?;
    if shows_host(setup) {
        let empty = || tmpfs(&[(c"size", "4k".into()), (c"mode", "0555".into())], HARD);
        // The cgroup tree, and the rest of sysfs with it.
        if Path::new("/sys").is_dir() {
            tree.mount(empty().map_err(at("/sys"))?, "/sys")?;
        }
    } else if let Some(home) = &setup.home {
        let mut options = sized("0700");
        options.push((c"uid", setup.ids.uid.to_string()));
        options.push((c"gid", setup.ids.gid.to_string()));
        let path = home.to_string();
        tree.mount(tmpfs(&options, HARD).map_err(at(path.clone()))?, &path)?;
    }
    Ok(())
}

fn device_tree(tree: &mut Tree, ground: Ground, shared: &[(&CStr, String)]) -> Result<(), StepError> {
    let attributes = Attributes {
        no_dev: false,
        ..HARD
    };
    let options = [(c"size", "64k".to_owned()), (c"mode", "0755".to_owned())];
    tree.mount(tmpfs(&options, attributes).map_err(at("/dev"))?, "/dev")?;
    let dev = tree.directory(Path::new("/dev")).map_err(at("/dev"))?;
    for (name, minor) in DEVICES {
        match ground {
            Ground::UserNamespace => borrow_device(tree, &dev, name, minor),
            Ground::Machine | Ground::Bare => make_device(&dev, name, minor),
        }
        .map_err(|error| StepError::new(STEP, format!("/dev/{name}"), error))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        nix::unistd::symlinkat(target, &dev, name)
            .map_err(|error| StepError::new(STEP, format!("/dev/{name}"), error))?;
    }
    tree.mount(tmpfs(shared, HARD).map_err(at("/dev/shm"))?, "/dev/shm")
}

fn make_device(dev: &OwnedFd, name: &str, minor: u64) -> io::Result<()> {
    let mode = Mode::from_bits_truncate(0o666);
    mknodat(dev, name, SFlag::S_IFCHR, mode, makedev(1, minor))?;
    // The umask took bits from the mode.
    nix::sys::stat::fchmodat(dev, name, mode, nix::sys::stat::FchmodatFlags::FollowSymlink)?;
    Ok(())
}

/// The host's own node: without privilege none can be made.
fn borrow_device(tree: &Tree, dev: &OwnedFd, name: &str, minor: u64) -> io::Result<()> {
    let slash = File::open("/")?;
    let node = open_at(
        &slash,
        &Path::new("dev").join(name),
        libc::O_PATH | libc::O_NOFOLLOW,
        libc::RESOLVE_NO_SYMLINKS,
    )?;
    let meta = File::from(node.try_clone()?).metadata()?;
    if meta.mode() & libc::S_IFMT != libc::S_IFCHR || meta.rdev() != makedev(1, minor) {
        return Err(io::Error::other("the host's is another device"));
    }
    let copy = clone_tree(&node, false)?;
    set_attributes(
        &copy,
        Attributes {
            no_dev: false,
            ..HARD
        },
    )?;
    mknodat(dev, name, SFlag::S_IFREG, Mode::from_bits_truncate(0o444), 0)?;
    attach(&copy, tree.open(dev, Path::new(name), false)?)
}

/// Small files that only a private view needs.
fn files(tree: &Tree, setup: &Setup) -> Result<(), StepError> {
    if shows_host(setup) {
        return Ok(());
    }
    for (path, text) in &setup.files {
        write_file(tree, path.as_path(), text).map_err(at(path.to_string()))?;
    }
    Ok(())
}

/// Links of the paths that people use. The host's tree has its own, but not in the trees that are private in it.
fn links(tree: &Tree, setup: &Setup) -> Result<(), StepError> {
    let hidden = |path: &Path| ["/tmp", "/run", "/dev"].iter().any(|own| path.starts_with(own));
    for link in &setup.links {
        let path = link.path.as_path();
        if shows_host(setup) && !hidden(path) {
            continue;
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            continue;
        };
        let place = || at(link.path.to_string());
        let parent = match tree.directory(parent) {
            Ok(parent) => parent,
            // Below another link, which brings it along.
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => continue,
            Err(error) => return Err(place()(error)),
        };
        // A mounted tree brings its own links; this process still is root and must write in nobody else's.
        if tree.require_own(&parent).is_err() {
            continue;
        }
        match nix::unistd::symlinkat(link.target.as_path(), &parent, name) {
            Ok(()) | Err(nix::Error::EEXIST | nix::Error::EROFS) => {}
            Err(error) => return Err(place()(error.into())),
        }
    }
    Ok(())
}

fn write_file(tree: &Tree, path: &Path, text: &str) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let parent = tree.directory(parent)?;
    tree.require_own(&parent)?;
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    match nix::fcntl::openat(&parent, name, flags, Mode::from_bits_truncate(0o444)) {
        Ok(file) => io::Write::write_all(&mut File::from(file), text.as_bytes()),
        // The operator's root or the runtime brought the real one.
        Err(nix::Error::EEXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn pivot(root: &OwnedFd) -> io::Result<()> {
    nix::unistd::fchdir(root)?;
    // The old root lands on top of the new one and is taken off: no path leads to the host any more.
    nix::unistd::pivot_root(".", ".")?;
    nix::mount::umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")
}

/// The objects of Landlock's rules for this view, opened by the paths the child will use.
pub(super) fn landlock_rules(setup: &Setup) -> Result<Vec<(OwnedFd, Access)>, StepError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| StepError::new("init.landlock", path, error)
    };
    let slash = Path::new("/");
    let root = File::open(slash).map_err(failed(slash))?;
    let mut rules = Vec::new();
    let mut add = |path: &Path, access: Access, resolve: u64| -> Result<(), StepError> {
        let object = open_at(
            &root,
            path.strip_prefix("/").unwrap_or(path),
            libc::O_PATH,
            resolve,
        )
        .map_err(failed(path))?;
        rules.push((object, access));
        Ok(())
    };
    for (path, _) in &setup.files {
        if path.as_path().exists() {
            add(path.as_path(), Rights::R.into(), 0)?;
        }
    }
    // No link is followed, as when these were mounted: who owns the tree around one may have put one there since.
    let mut push = |path: &Path, access: Access| add(path, access, libc::RESOLVE_NO_SYMLINKS);
    for point in &setup.mounts {
        if let Some(rights) = point.rights {
            push(point.path.as_path(), rights.into())?;
        }
    }
    push(Path::new("/proc"), Rights::R.into())?;
    // A root on top of one of the sandbox's own trees has hidden it: writing there is for the root's rights to say.
    let hidden = |tree: &Path| {
        setup
            .mounts
            .iter()
            .any(|point| point.is_directory && tree.starts_with(point.path.as_path()))
    };
    if !hidden(Path::new("/tmp")) {
        push(Path::new("/tmp"), Rights::RW.into())?;
    }
    for (name, _) in DEVICES {
        push(&Path::new("/dev").join(name), Access::DEVICE)?;
    }
    push(Path::new("/dev"), Access::LIST)?;
    push(Path::new("/dev/shm"), Rights::RW.into())?;
    if !shows_host(setup)
        && let Some(home) = &setup.home
        && !hidden(home.as_path())
    {
        push(home.as_path(), Rights::RW.into())?;
    }
    Ok(rules)
}

/// The objects of Landlock's rules where there is no view: those the warden opened.
pub(super) fn bare_rules(setup: &Setup, objects: Vec<OwnedFd>) -> Result<Vec<(OwnedFd, Access)>, StepError> {
    let mut rules = Vec::new();
    for (point, object) in setup.mounts.iter().zip(objects) {
        if let Some(rights) = point.rights {
            rules.push((object, rights.into()));
        }
    }
    let slash = File::open("/").map_err(at("/"))?;
    let mut add = |path: &Path, access: Access| -> Result<(), StepError> {
        let below = path.strip_prefix("/").unwrap_or(path);
        match open_at(&slash, below, libc::O_PATH, 0) {
            Ok(object) => rules.push((object, access)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StepError::new("init.landlock", path.display().to_string(), error)),
        }
        Ok(())
    };
    for (path, _) in &setup.files {
        add(path.as_path(), Rights::R.into())?;
    }
    add(Path::new("/proc"), Rights::R.into())?;
    for (name, _) in DEVICES {
        add(&Path::new("/dev").join(name), Access::DEVICE)?;
    }
    if let Some(scratch) = &setup.scratch {
        add(scratch.as_path(), Rights::RW.into())?;
    }
    Ok(rules)
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
