//! What the security hooks are to let a sandbox use: the same objects as Landlock's rules, found from outside in the
//! view of the parked init, and the mounts below them, which the hooks' walk does not cross.

use std::{
    fs, io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use guard_common::hooks::{MAP, READ, WRITE};

use super::{Context, view::Entry};
use crate::{
    init::message::Setup, link::message::View, octets::Octets, refusal::chain, sys::fs::open_at,
    warden::kernel::Enroller,
};

/// The device files of every view.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// What is enrolled of one sandbox, held open as long as it lives. Given up when dropped.
#[derive(Debug)]
pub struct Enrolled {
    context: Arc<Context>,
    sandbox: u64,
    objects: Vec<OwnedFd>,
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        if let Some(enroller) = &self.context.enroller {
            lock(enroller).forget(self.sandbox);
        }
        self.objects.clear();
    }
}

/// Nothing that can be left half done happens under it.
fn lock(enroller: &Mutex<Enroller>) -> std::sync::MutexGuard<'_, Enroller> {
    enroller.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place of the view and what the hooks allow there.
#[derive(Debug)]
struct Rule {
    path: PathBuf,
    rights: u32,
    /// The operator named it as a root: what calls need cuts the rights.
    named: bool,
    /// Whether symbolic links are followed, as Landlock's rule for it did.
    follow: bool,
    /// Whether there may be nothing: a small file that this view has not, a mount that another one hides.
    optional: bool,
    how: How,
}

/// How the object of a rule is found.
#[derive(Debug)]
enum How {
    /// It is the one that was mounted.
    Held(OwnedFd),
    /// One of the sandbox's own, by its path.
    ByPath,
    /// The root of the mount with this number.
    Mount(u64),
}

/// The rules of a view, and where a mount holds a name of one of them: that lies in it.
pub(super) struct Rules {
    rules: Vec<Rule>,
    held: Vec<PathBuf>,
}

impl Rules {
    pub(super) fn of(setup: &Setup, entries: &[Entry]) -> io::Result<Self> {
        let mut rules: Vec<Rule> = Vec::new();
        let mut held = Vec::new();
        for entry in entries {
            let path = entry.point.path.as_path();
            let Some(rights) = entry.point.rights else {
                held.push(path.to_path_buf());
                continue;
            };
            let map = if entry.attributes.no_exec { 0 } else { MAP };
            // At one path the later one is on top.
            rules.retain(|rule| rule.path != path);
            rules.push(Rule {
                how: How::Held(entry.object.try_clone()?),
                named: entry.named,
                ..rule(path, rights.bits() | map)
            });
        }
        // A root on top of one of the sandbox's own trees has hidden it.
        let shown = |tree: &Path| {
            !entries
                .iter()
                .any(|entry| entry.point.is_directory && tree.starts_with(entry.point.path.as_path()))
        };
        let mut own = vec![("/proc", READ), ("/dev", READ), ("/dev/shm", READ | WRITE)];
        if shown(Path::new("/tmp")) {
            own.push(("/tmp", READ | WRITE));
        }
        rules.extend(
            own.into_iter()
                .map(|(path, rights)| rule(Path::new(path), rights)),
        );
        rules.extend(
            DEVICES
                .iter()
                .map(|name| rule(&Path::new("/dev").join(name), READ | WRITE)),
        );
        if let (View::Private, Some(home)) = (setup.view, &setup.home)
            && shown(home.as_path())
        {
            rules.push(rule(home.as_path(), READ | WRITE));
        }
        rules.extend(setup.files.iter().map(|(path, _)| Rule {
            follow: true,
            optional: true,
            ..rule(path.as_path(), READ)
        }));
        Ok(Self { rules, held })
    }

    /// With the mounts below each place, outer before inner.
    fn with_mounts(mut self, mounts: &[(u64, PathBuf)]) -> Vec<Rule> {
        let below: Vec<Rule> = mounts
            .iter()
            .filter(|(_, at)| self.rules.iter().all(|rule| rule.path != *at) && !self.held.contains(at))
            .filter_map(|(number, at)| {
                let around = self
                    .rules
                    .iter()
                    .filter(|rule| at.starts_with(&rule.path))
                    .max_by_key(|rule| depth(&rule.path))?;
                Some(Rule {
                    optional: true,
                    how: How::Mount(*number),
                    named: around.named,
                    ..rule(at, around.rights)
                })
            })
            .collect();
        self.rules.extend(below);
        self.rules.sort_by_key(|rule| depth(&rule.path));
        self.rules
    }
}

fn rule(path: &Path, rights: u32) -> Rule {
    Rule {
        path: path.to_path_buf(),
        rights,
        named: false,
        follow: false,
        optional: false,
        how: How::ByPath,
    }
}

fn depth(path: &Path) -> usize {
    path.components().count()
}

/// Enrols everything of a parked sandbox. Nothing of its program runs yet, and init is confined: what its tree shows is
/// what was built.
pub(super) fn enrol(context: &Arc<Context>, sandbox: u64, init: i32, rules: Rules) -> io::Result<Enrolled> {
    let enroller = context
        .enroller
        .as_ref()
        .ok_or_else(|| io::Error::other("the security hooks are not in force"))?;
    let root = open_at(
        fs::File::open("/")?,
        Path::new(&format!("proc/{init}/root")),
        libc::O_PATH | libc::O_DIRECTORY,
        0,
    )?;
    let mut enrolled = Enrolled {
        context: Arc::clone(context),
        sandbox,
        objects: Vec::new(),
    };
    for rule in rules.with_mounts(&mounts(init)?) {
        let at = |error: io::Error| io::Error::other(format!("`{}`: {error}", rule.path.display()));
        let object = match object(&root, &rule) {
            Ok(Some(object)) => object,
            Ok(None) => continue,
            Err(error) => return Err(at(error)),
        };
        let mut enroller = lock(enroller);
        let enrol = if rule.named {
            Enroller::enrol_root
        } else {
            Enroller::enrol
        };
        enrol(&mut enroller, sandbox, object.as_fd(), rule.rights)
            .map_err(|error| at(io::Error::other(chain(&error))))?;
        enrolled.objects.push(object);
    }
    Ok(enrolled)
}

/// The object of a rule; none where there may be none.
fn object(root: &OwnedFd, rule: &Rule) -> io::Result<Option<OwnedFd>> {
    if let How::Held(object) = &rule.how {
        return object.try_clone().map(Some);
    }
    let object = match open_in(root, rule) {
        Err(error) if rule.optional && leads_nowhere(&error) => return Ok(None),
        other => other?,
    };
    if let How::Mount(number) = rule.how
        && crate::sys::fs::look(&object).ok().flatten() != Some(number)
    {
        // Another mount hides it, or it was moved meanwhile: nothing of it is allowed.
        return Ok(None);
    }
    Ok(Some(object))
}

fn leads_nowhere(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)
    )
}

fn open_in(root: &OwnedFd, rule: &Rule) -> io::Result<OwnedFd> {
    let below = rule.path.strip_prefix("/").unwrap_or(&rule.path);
    let below = if below.as_os_str().is_empty() {
        Path::new(".")
    } else {
        below
    };
    let (flags, resolve) = if rule.follow {
        (libc::O_PATH, libc::RESOLVE_IN_ROOT)
    } else {
        (
            libc::O_PATH | libc::O_NOFOLLOW,
            libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS,
        )
    };
    open_at(root, below, flags, resolve)
}

/// Each mount in the view of a process: its number and where it is.
fn mounts(process: i32) -> io::Result<Vec<(u64, PathBuf)>> {
    let text = fs::read(format!("/proc/{process}/mountinfo"))?;
    Ok(parse(&text))
}

fn parse(text: &[u8]) -> Vec<(u64, PathBuf)> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut words = line.split(|byte| *byte == b' ');
            let number = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
            Some((number, Octets(unescape(words.nth(3)?)).to_path_buf()))
        })
        .collect()
}

/// The kernel writes blanks, tabs, line ends and backslashes as three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let octal = |digits: &[u8]| {
            digits.iter().try_fold(0u16, |number, digit| {
                matches!(digit, b'0'..=b'7').then(|| number * 8 + u16::from(digit - b'0'))
            })
        };
        match (first, tail.get(..3).and_then(octal)) {
            (b'\\', Some(byte)) => {
                bytes.push(u8::try_from(byte & 0xff).unwrap_or_default());
                rest = tail.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_odd_names() {
        let text = b"36 35 98:0 /mnt1 /a\\040b/c\\134d rw,noatime master:1 - ext3 /dev/root rw\n\
                     37 36 0:5 / / rw - tmpfs none rw\n";
        assert_eq!(
            parse(text),
            [(36, PathBuf::from("/a b/c\\d")), (37, PathBuf::from("/"))]
        );
        assert_eq!(unescape(b"\\04"), b"\\04");
    }

    #[test]
    fn a_mount_below_a_root_gets_its_rights_and_comes_after_it() {
        let rules = Rules {
            rules: vec![
                Rule {
                    named: true,
                    ..rule(Path::new("/srv/project/inner"), READ | WRITE)
                },
                rule(Path::new("/srv"), READ),
            ],
            held: vec![PathBuf::from("/srv/project/.git/hooks")],
        };
        let mounts = [
            "/",
            "/srv",
            "/srv/project/inner/disk",
            "/srv/project/.git/hooks",
            "/srv/other",
            "/elsewhere",
        ];
        let mounts = mounts.map(|path| (7, PathBuf::from(path)));
        let all: Vec<(String, u32, bool)> = rules
            .with_mounts(&mounts)
            .into_iter()
            .map(|rule| (rule.path.display().to_string(), rule.rights, rule.named))
            .collect();
        assert_eq!(
            all,
            [
                ("/srv".to_owned(), READ, false),
                ("/srv/other".to_owned(), READ, false),
                ("/srv/project/inner".to_owned(), READ | WRITE, true),
                ("/srv/project/inner/disk".to_owned(), READ | WRITE, true),
            ]
        );
    }
}
