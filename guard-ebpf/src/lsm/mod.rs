//! Tier T1: programs on the kernel's security hooks. Each decides for tasks of sandboxes alone and returns 0 to all
//! others, on every path. Which hooks there are and why is in `guard_common::hooks`.
//!
//! Order of reading: `subject` (for whom), `object` (fields of the kernel's structures), `walk` (where it lies and
//! what may be done there), `decide` (verdict and record), then one file a hook; `never` has those that refuse
//! whatever they are asked.

mod decide;
mod never;
mod object;
mod subject;
mod tell;
mod walk;

mod file_fcntl;
mod file_ioctl;
mod file_mprotect;
mod file_open;
mod file_receive;
mod file_truncate;
mod inode_attr;
mod inode_getattr;
mod inode_init_security_anon;
mod inode_setattr;
mod mmap_file;
mod path_chmod;
mod path_chown;
mod path_link;
mod path_mkdir;
mod path_mknod;
mod path_notify;
mod path_rename;
mod path_rmdir;
mod path_symlink;
mod path_truncate;
mod path_unlink;
mod ptrace;
mod socket_create;
mod socket_listen;
mod socket_post_create;
mod task_alloc;
mod task_kill;
mod unix;

// What the programs of `told` and `measured` share with these.
pub(crate) use decide::Verdict;
pub(crate) use file_open::{judge_read, needs};
pub(crate) use inode_getattr::enrol;
pub(crate) use object::{argument, load};
pub(crate) use subject::current_task;
pub(crate) use tell::fill;
