//! Laundering by names (links and renames across a root's edge), and going beyond a root's rights.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
};

use crate::{
    files::{done, overwrite},
    probe::{Answer, Args, Failure, Probe, probe},
    raw::{self, call},
};

const IN_R_ROOT: &[&str] = &["EACCES", "EROFS", "EPERM"];
/// `rename` and `link` between two mounts, or between directories of different rights.
const APART: &[&str] = &["ENOENT", "EACCES", "EXDEV", "EROFS", "EPERM"];

pub(crate) const PROBES: &[Probe] = &[
    probe("swap-link", "check then open race", swap_link).refused(&["never"]),
    probe("swap-path", "falco#2916", swap_path).refused(&["never"]),
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
    // By path and without opening it, which Landlock sees from 6.2 on.
    probe("r-root-truncate", "truncate by path", |a| {
        done(call!(SYS_truncate, raw::path(a.path("r")?.join("own")), 0))
    })
    .refused(IN_R_ROOT)
    .mutates(),
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

const READS: usize = 10_000;
const SWAPS: usize = 200;

/// One thread swaps what a name in the root stands for while another opens it.
fn swap_link(args: &Args) -> Answer {
    let (name, good, bad) = (args.rw("swap")?, args.rw("good")?, args.rw("bad")?);
    fs::copy(args.rw("own")?, &name)?;
    let (secret, own) = (args.outside("secret")?, args.rw("own")?);
    let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (flag, count) = (Arc::clone(&stop), Arc::clone(&swaps));
    let target = name.clone();
    let swapper = std::thread::spawn(move || -> std::io::Result<()> {
        while !flag.load(Ordering::Relaxed) {
            symlink(&secret, &bad)?;
            fs::rename(&bad, &target)?;
            fs::copy(&own, &good)?;
            fs::rename(&good, &target)?;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    // On a busy machine all reads can fall into one turn of the other thread, which proves nothing.
    let enough =
        |read: usize| read >= READS && (swaps.load(Ordering::Relaxed) >= SWAPS || swapper.is_finished());
    let leaked = (0..)
        .take_while(|read| !enough(*read))
        .find(|_| fs::read(&name).is_ok_and(|bytes| bytes.starts_with(b"GUARD-SECRET")));
    stop.store(true, Ordering::Relaxed);
    swapper
        .join()
        .map_err(|_| Failure::Word("fault", String::from("the swapper panicked")))??;
    told(leaked)
}

/// One thread changes the path in memory while the other's system call reads it.
fn swap_path(args: &Args) -> Answer {
    let (own, secret) = (raw::path(args.rw("own")?), raw::path(args.outside("secret")?));
    let longest = own
        .as_bytes_with_nul()
        .len()
        .max(secret.as_bytes_with_nul().len());
    // Ends in zeroes whatever of the two is being written.
    let path: Arc<Vec<AtomicU8>> = Arc::new((0..=longest).map(|_| AtomicU8::new(0)).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, shared) = (Arc::clone(&stop), Arc::clone(&path));
    let swapper = std::thread::spawn(move || {
        while !flag.load(Ordering::Relaxed) {
            for text in [&own, &secret] {
                for (to, from) in shared.iter().zip(text.as_bytes_with_nul()) {
                    to.store(*from, Ordering::Relaxed);
                }
            }
        }
    });
    let leaked = (0..READS * 10).find(|_| {
        let opened = call!(SYS_openat, libc::AT_FDCWD, path.as_ptr() as usize, libc::O_RDONLY);
        opened.is_ok_and(|fd| {
            let mut start = [0_u8; 12];
            let read = call!(SYS_read, fd, raw::at(&mut start), 12);
            let closed = call!(SYS_close, fd);
            read.is_ok() && closed.is_ok() && start.starts_with(b"GUARD-SECRET")
        })
    });
    stop.store(true, Ordering::Relaxed);
    swapper
        .join()
        .map_err(|_| Failure::Word("fault", String::from("the swapper panicked")))?;
    told(leaked)
}

fn told(leaked: Option<usize>) -> Answer {
    leaked
        .map(|round| format!("in round {round}"))
        .ok_or_else(|| Failure::Word("never", String::from("not once")))
}
