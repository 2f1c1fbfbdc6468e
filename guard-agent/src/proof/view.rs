//! The view, by the function that builds a sandbox's: what is not in it does not exist, what is read-only or not to be
//! executed is so.

use std::{
    fs::{self, File},
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
    time::Instant,
};

use nix::sched::{CloneFlags, unshare};

use super::{
    Why, attacks,
    attempt::{Answer, Attempt, Finding},
    child, host,
    namespaces::Owner,
};
use crate::{
    audit::Layer,
    config::rights::Rights,
    fault,
    init::{
        self,
        message::{Ground, Ids, MountPoint, Setup},
    },
    link::message::{Facet, View},
    octets::Octets,
    sys::mount::{clone_tree, set_attributes},
    warden::launch::view::attributes,
};

pub(super) const FACETS: [Facet; 2] = [Facet::Fs, Facet::Exec];

const KEPT: &str = "/proof/kept";
const PROGRAM: &str = "/proof/program";
const DATA: &str = "/proof/data";

/// Attacks before and behind. The view is built on the empty directory `scaffold`.
pub(super) fn attack(
    owner: Owner,
    planted: &Path,
    program: BorrowedFd<'_>,
    scaffold: &Path,
    until: Instant,
) -> Vec<Finding> {
    // As a warden does: from its own mount namespace, where the objects are. Without privilege only from inside.
    let trees = (owner == Owner::Root).then(|| trees(planted));
    if let Err(why) = owner.enter() {
        return unavailable(&why);
    }
    let trees = trees.unwrap_or_else(|| self::trees(planted));
    let inside = || within(owner, trees, planted, program, scaffold);
    if owner == Owner::Root {
        return inside();
    }
    // Without privilege a `/proc` can only be had for a pid namespace of one's own.
    if let Err(error) = unshare(CloneFlags::CLONE_NEWPID) {
        return unavailable(&host::without_user_namespaces(&error.into()));
    }
    match child::start(inside).and_then(|child| child.join(until)) {
        Ok(findings) => findings,
        Err(cause) => failed(&cause),
    }
}

fn unavailable(why: &Why) -> Vec<Finding> {
    FACETS
        .map(|facet| Finding::unavailable(facet, Layer::View, why))
        .into()
}

fn within(
    owner: Owner,
    trees: Result<Vec<OwnedFd>, String>,
    planted: &Path,
    program: BorrowedFd<'_>,
    scaffold: &Path,
) -> Vec<Finding> {
    let (read, write) = (attacks::read(planted), attacks::write(planted));
    let execute = attacks::execute(program);
    // Without a view the same names lead nowhere: the attacks go to the objects themselves.
    let (kept, data) = if fault::point("proof.view").is_ok() {
        match trees.and_then(|trees| build(owner, trees, scaffold)) {
            Ok(()) => match inside() {
                Ok(behind) => behind,
                Err(cause) => return failed(&cause),
            },
            Err(cause) if owner == Owner::Anybody => return unavailable(&host::without_view(&cause)),
            Err(cause) => return failed(&cause),
        }
    } else {
        (write, execute)
    };
    let hidden = attacks::read(planted);
    vec![
        Finding::attempts(
            Facet::Fs,
            Layer::View,
            vec![
                Attempt::new("open a file outside the view", &[libc::ENOENT])
                    .without(read)
                    .behind(hidden),
                Attempt::new("open a read-only file for writing", &[libc::EROFS])
                    .without(write)
                    .behind(kept),
            ],
        ),
        Finding::attempts(
            Facet::Exec,
            Layer::View,
            vec![
                Attempt::new("execute a file of a root without `x`", &[libc::EACCES])
                    .without(execute)
                    .behind(data),
            ],
        ),
    ]
}

fn failed(cause: &str) -> Vec<Finding> {
    FACETS
        .map(|facet| Finding::failed(facet, Layer::View, cause))
        .into()
}

/// What the view forbids, after what it must allow.
fn inside() -> Result<(Answer, Answer), String> {
    let open = |path: &str| File::open(path).map_err(|error| format!("open `{path}` in the view: {error}"));
    open(KEPT)?;
    let (program, data) = (open(PROGRAM)?, open(DATA)?);
    let allowed = attacks::execute(attacks::borrowed(&program));
    if allowed != Answer::WORKED {
        return Err(format!("`{PROGRAM}` cannot be executed in the view"));
    }
    Ok((
        attacks::write(Path::new(KEPT)),
        attacks::execute(attacks::borrowed(&data)),
    ))
}

/// Where the roots of the view are, and with which rights.
const ROOTS: [(&str, Rights); 3] = [(KEPT, Rights::R), (PROGRAM, Rights::RX), (DATA, Rights::R)];

/// Copies of their mounts, with their final attributes.
fn trees(planted: &Path) -> Result<Vec<OwnedFd>, String> {
    let program = fs::read_link("/proc/self/exe").map_err(|error| format!("find this program: {error}"))?;
    let objects = [planted, &program, &program];
    let detached = |(path, (_, rights)): (&Path, (&str, Rights))| {
        let tree = || -> io::Result<_> {
            let object = File::open(path)?;
            let tree = match clone_tree(&object, false) {
                // Of mounts that came from a more privileged namespace none may be left out.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => clone_tree(&object, true),
                other => other,
            }?;
            set_attributes(&tree, attributes(rights))?;
            Ok(tree)
        };
        tree().map_err(|error| format!("mount `{}`: {error}", path.display()))
    };
    objects.into_iter().zip(ROOTS).map(detached).collect()
}

fn build(owner: Owner, trees: Vec<OwnedFd>, scaffold: &Path) -> Result<(), String> {
    let setup = Setup {
        ground: match owner {
            Owner::Root => Ground::Machine,
            Owner::Anybody => Ground::UserNamespace,
        },
        scaffold: Octets::from(scaffold),
        view: View::Private,
        mounts: ROOTS
            .iter()
            .map(|(at, rights)| MountPoint {
                path: Octets::from(*at),
                is_directory: false,
                rights: Some(*rights),
                source: None,
            })
            .collect(),
        links: Vec::new(),
        files: Vec::new(),
        home: None,
        tmp_bytes: 64 << 10,
        ids: Ids {
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
            groups: Vec::new(),
        },
        program: Octets::default(),
        argv: Vec::new(),
        environment: Vec::new(),
        directories: Vec::new(),
        processes: None,
        inet_sockets: false,
        unix_sockets: false,
        scratch: None,
    };
    init::build_view(&setup, trees)
        .map(drop)
        .map_err(|error| error.to_string())
}
