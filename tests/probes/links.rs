//! Laundering by names (links and renames across a root's edge), and going beyond a root's rights.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt as _,
};

use crate::{
    files::{done, overwrite},
    probe::{Probe, probe},
    raw::{self, call},
};

const IN_R_ROOT: &[&str] = &["EACCES", "EROFS", "EPERM"];
/// `rename` and `link` between two mounts, or between directories of different rights.
const APART: &[&str] = &["ENOENT", "EACCES", "EXDEV", "EROFS", "EPERM"];

pub(crate) const PROBES: &[Probe] = &[
    probe("link-in", "rename, link to launder", |a| {
        Ok(fs::hard_link(a.outside("secret")?, a.rw("laundered")?).map(|()| String::new())?)
    })
    .refused(APART),
    probe("link-out", "rename, link to launder", |a| {
        Ok(fs::hard_link(a.rw("own")?, a.outside("laundered")?).map(|()| String::new())?)
    })
    .refused(APART)
    .mutates(),
    probe("rename-out", "rename, link to launder", |a| {
        Ok(fs::rename(a.rw("own")?, a.outside("moved")?).map(|()| String::new())?)
    })
    .refused(APART)
    .mutates(),
    probe("rename-in", "rename, link to launder", |a| {
        Ok(fs::rename(a.outside("victim")?, a.rw("moved")?).map(|()| String::new())?)
    })
    .refused(APART)
    .mutates(),
    probe("rename-exchange", "rename, link to launder", |a| {
        let (from, to) = (raw::path(a.rw("own")?), raw::path(a.outside("victim")?));
        done(call!(SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 2))
    })
    .refused(APART)
    .mutates(),
    probe("r-root-rename-to-rw", "rename, link to launder", |a| {
        Ok(fs::rename(a.path("r")?.join("own"), a.rw("moved")?).map(|()| String::new())?)
    })
    .refused(APART),
    probe("r-root-link-to-rw", "rename, link to launder", |a| {
        Ok(fs::hard_link(a.path("r")?.join("own"), a.rw("linked")?).map(|()| String::new())?)
    })
    .refused(APART),
    probe("r-root-write", "rights of a root", |a| {
        overwrite(&a.path("r")?.join("own"))
    })
    .refused(IN_R_ROOT),
    probe("r-root-create", "rights of a root", |a| {
        Ok(File::create_new(a.path("r")?.join("new")).map(|_| String::new())?)
    })
    .refused(IN_R_ROOT),
    probe("r-root-unlink", "rights of a root", |a| {
        Ok(fs::remove_file(a.path("r")?.join("own")).map(|()| String::new())?)
    })
    .refused(IN_R_ROOT),
    probe("r-root-chmod", "rights of a root", |a| {
        Ok(
            fs::set_permissions(a.path("r")?.join("own"), Permissions::from_mode(0o600))
                .map(|()| String::new())?,
        )
    })
    .refused(IN_R_ROOT),
    probe("r-root-utimes", "rights of a root", |a| {
        let mut times = [[1_i64, 0], [1, 0]];
        done(call!(
            SYS_utimensat,
            libc::AT_FDCWD,
            raw::path(a.path("r")?.join("own")),
            raw::at(&mut times),
            0
        ))
    })
    .refused(IN_R_ROOT),
    probe("r-root-setxattr", "rights of a root", |a| {
        done(call!(
            SYS_setxattr,
            raw::path(a.path("r")?.join("own")),
            c"user.guard",
            c"1",
            1,
            0
        ))
    })
    .refused(IN_R_ROOT),
];
