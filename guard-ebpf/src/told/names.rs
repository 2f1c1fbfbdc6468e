//! Names that are made, changed and removed. Told is the object the operation is about; of a new name, that.

use aya_ebpf::{macros::fexit, programs::FExitContext};
use guard_common::{
    hooks,
    told::{
        TOLD_PATH_LINK, TOLD_PATH_MKDIR, TOLD_PATH_MKNOD, TOLD_PATH_RENAME, TOLD_PATH_RMDIR,
        TOLD_PATH_SYMLINK, TOLD_PATH_TRUNCATE, TOLD_PATH_UNLINK, Told,
    },
};

use super::tell;
use crate::{
    lsm::{Verdict, argument, load},
    maps::PATH_DENTRY,
};

/// By the position of the name's entry among the arguments.
#[inline(always)]
fn entry(told: &Told, context: &FExitContext, slot: usize) -> i32 {
    tell(told, context, || {
        Verdict::ALLOW
            .about(argument(context, slot))
            .rights(hooks::WRITE, 0)
    })
}

#[fexit(function = "security_path_truncate")]
pub(crate) fn told_path_truncate(context: FExitContext) -> i32 {
    tell(&TOLD_PATH_TRUNCATE, &context, || {
        let path = argument(&context, 0);
        Verdict::ALLOW
            .about(load(path, &PATH_DENTRY))
            .rights(hooks::WRITE, 0)
    })
}

#[fexit(function = "security_path_mkdir")]
pub(crate) fn told_path_mkdir(context: FExitContext) -> i32 {
    entry(&TOLD_PATH_MKDIR, &context, 1)
}

#[fexit(function = "security_path_mknod")]
pub(crate) fn told_path_mknod(context: FExitContext) -> i32 {
    entry(&TOLD_PATH_MKNOD, &context, 1)
}

#[fexit(function = "security_path_rmdir")]
pub(crate) fn told_path_rmdir(context: FExitContext) -> i32 {
    entry(&TOLD_PATH_RMDIR, &context, 1)
}

#[fexit(function = "security_path_unlink")]
pub(crate) fn told_path_unlink(context: FExitContext) -> i32 {
    entry(&TOLD_PATH_UNLINK, &context, 1)
}

#[fexit(function = "security_path_symlink")]
pub(crate) fn told_path_symlink(context: FExitContext) -> i32 {
    entry(&TOLD_PATH_SYMLINK, &context, 1)
}

/// What gets another name.
#[fexit(function = "security_path_link")]
pub(crate) fn told_path_link(context: FExitContext) -> i32 {
    entry(&TOLD_PATH_LINK, &context, 0)
}

/// What is moved.
#[fexit(function = "security_path_rename")]
pub(crate) fn told_path_rename(context: FExitContext) -> i32 {
    entry(&TOLD_PATH_RENAME, &context, 1)
}
