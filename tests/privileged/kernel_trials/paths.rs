//! What is raced for: a path, and what leads it elsewhere while it is walked.

use std::{fs, os::unix::fs::symlink};

use guard_common::hooks::{Hook, PATH_LINK, PATH_RENAME, SB_MOUNT};
use guard_tests::arena::{Arg, words};

use crate::stage::Stage;

pub(crate) const OPEN: u32 = 2;
const LINK: u32 = 86;
const UNLINK: u32 = 87;
pub(crate) const CHDIR: u32 = 80;
const RENAME: u32 = 82;
pub(crate) const MOUNT: u32 = 165;
const UMOUNT: u32 = 166;
pub(crate) const UNSHARE: u32 = 272;
pub(crate) const SETNS: u32 = 308;
const RENAMEAT2: u32 = 316;

const EXCHANGE: i64 = 2;
pub(crate) const BIND: i64 = 4096;
const DETACH: i64 = 2;
pub(crate) const NEW_MOUNTS: i64 = 0x2_0000;
/// `MS_REC | MS_PRIVATE`
pub(crate) const PRIVATE: i64 = 0x4_4000;

/// An argument of a call that moves something.
#[derive(Clone, Copy)]
pub(crate) enum A {
    N(i64),
    /// Below the scratch directory.
    P(&'static str),
    T(&'static str),
}

pub(crate) type Call = (u32, &'static [A]);

pub(crate) struct Race {
    pub(crate) name: &'static str,
    /// Opened without a pause.
    pub(crate) path: &'static str,
    /// From where, if the path is relative.
    pub(crate) from: Option<&'static str>,
    /// What it leads to sometimes, and must not be had.
    pub(crate) forbidden: &'static str,
    /// Made over and over by a thread of the process that opens.
    pub(crate) own: &'static [Call],
    /// The same for the process inside alone: outside they would pile up.
    pub(crate) games: &'static [Call],
    /// And by another process, of no sandbox.
    pub(crate) beside: &'static [Call],
    /// What is refused of the own calls.
    pub(crate) refuses: Option<&'static Hook>,
    /// Whether the path leads out inside, too: what is refused to be moved is not there to be opened.
    pub(crate) leads_out: bool,
    /// A byte of the path that a thread changes to this one instead, at the beginning of the name.
    pub(crate) flip: Option<(&'static str, u8)>,
}

const RACE: Race = Race {
    name: "",
    path: "",
    from: None,
    forbidden: "outside/file",
    own: &[],
    games: &[],
    beside: &[],
    refuses: None,
    leads_out: true,
    flip: None,
};

const fn exchange(one: &'static [A; 5]) -> Call {
    (RENAMEAT2, one)
}

pub(crate) const RACES: [Race; 8] = [
    Race {
        name: "a file exchanged with a link to one outside",
        path: "rw/name",
        own: &[exchange(&[
            A::N(-100),
            A::P("rw/name"),
            A::N(-100),
            A::P("rw/link"),
            A::N(EXCHANGE),
        ])],
        ..RACE
    },
    Race {
        name: "a directory exchanged with a link to one outside",
        path: "rw/directory/file",
        own: &[exchange(&[
            A::N(-100),
            A::P("rw/directory"),
            A::N(-100),
            A::P("rw/way-out"),
            A::N(EXCHANGE),
        ])],
        ..RACE
    },
    Race {
        name: "the same, exchanged by somebody outside",
        path: "rw/directory/file",
        beside: &[exchange(&[
            A::N(-100),
            A::P("rw/directory"),
            A::N(-100),
            A::P("rw/way-out"),
            A::N(EXCHANGE),
        ])],
        ..RACE
    },
    Race {
        name: "the way up from a directory that is moved",
        path: "../../outside/file",
        from: Some("rw/a/b"),
        own: &[
            (RENAME, &[A::P("rw/a/b"), A::P("rw/b")]),
            (RENAME, &[A::P("rw/b"), A::P("rw/a/b")]),
        ],
        ..RACE
    },
    Race {
        name: "a second name, of a file of the root and of one outside",
        path: "rw/leak",
        own: &[
            (LINK, &[A::P("outside/file"), A::P("rw/leak")]),
            (UNLINK, &[A::P("rw/leak")]),
            (LINK, &[A::P("rw/file"), A::P("rw/leak")]),
            (UNLINK, &[A::P("rw/leak")]),
        ],
        refuses: Some(&PATH_LINK),
        leads_out: false,
        ..RACE
    },
    Race {
        name: "a file moved in, of the root and from outside",
        path: "rw/leak",
        own: &[
            (RENAME, &[A::P("outside/file"), A::P("rw/leak")]),
            (RENAME, &[A::P("rw/leak"), A::P("outside/file")]),
            (RENAME, &[A::P("rw/file"), A::P("rw/leak")]),
            (RENAME, &[A::P("rw/leak"), A::P("rw/file")]),
        ],
        refuses: Some(&PATH_RENAME),
        leads_out: false,
        ..RACE
    },
    Race {
        name: "mounts that come and go, and new namespaces",
        path: "rw/mount/file",
        games: &[
            (UNSHARE, &[A::N(NEW_MOUNTS)]),
            (
                MOUNT,
                &[A::P("outside"), A::P("rw/mount"), A::N(0), A::N(BIND), A::N(0)],
            ),
        ],
        beside: &[
            (
                MOUNT,
                &[A::P("outside"), A::P("rw/mount"), A::N(0), A::N(BIND), A::N(0)],
            ),
            (
                MOUNT,
                &[A::P("rw/a"), A::P("rw/mount"), A::T("tmpfs"), A::N(0), A::N(0)],
            ),
            (UMOUNT, &[A::P("rw/mount"), A::N(DETACH)]),
            (UMOUNT, &[A::P("rw/mount"), A::N(DETACH)]),
        ],
        refuses: Some(&SB_MOUNT),
        ..RACE
    },
    Race {
        name: "a path that is changed while it is read",
        path: "rw/file",
        forbidden: "ow/file",
        flip: Some(("rw", b'o')),
        ..RACE
    },
];

pub(crate) fn order(stage: &Stage, calls: &[Call]) -> String {
    let calls: Vec<String> = calls
        .iter()
        .map(|(nr, args)| {
            let paths: Vec<Vec<u8>> = args
                .iter()
                .map(|arg| match arg {
                    A::P(name) => stage.at(name).into_os_string().into_encoded_bytes(),
                    A::T(text) => text.as_bytes().to_vec(),
                    A::N(_) => Vec::new(),
                })
                .collect();
            let args: Vec<Arg<'_>> = args
                .iter()
                .zip(&paths)
                .map(|(arg, path)| match arg {
                    A::N(number) => Arg::Number(*number),
                    A::P(_) | A::T(_) => Arg::Text(path),
                })
                .collect();
            words(*nr, &args)
        })
        .collect();
    calls.join(" ; ")
}

/// The places as they are before a race.
pub(crate) fn lay_out(stage: &Stage) {
    for entry in fs::read_dir(stage.at("rw")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
    for directory in ["ow", "rw/directory", "rw/a/b", "rw/outside", "rw/mount"] {
        fs::create_dir_all(stage.at(directory)).unwrap();
    }
    for file in [
        "rw/file",
        "rw/name",
        "rw/directory/file",
        "rw/outside/file",
        "rw/mount/file",
    ] {
        fs::write(stage.at(file), "inside").unwrap();
    }
    for file in ["outside/file", "ow/file"] {
        fs::write(stage.at(file), "outside").unwrap();
    }
    symlink(stage.at("outside/file"), stage.at("rw/link")).unwrap();
    symlink(stage.at("outside"), stage.at("rw/way-out")).unwrap();
}
