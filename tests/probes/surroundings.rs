//! What a process is born with and born into: environment, descriptors, cgroups, shared IPC objects.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::MetadataExt as _,
};

use crate::{
    files::done,
    probe::{Answer, Failure, Probe, probe},
    raw::{self, NULL, call},
};

const NO_CGROUP: &[&str] = &["ENOENT", "EACCES", "EROFS", "EPERM"];

pub(crate) const PROBES: &[Probe] = &[
    probe("environment", "every secret inherited", |a| {
        let planted = a.text("planted")?;
        let kept: Vec<String> = std::env::vars_os()
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .filter(|name| name.starts_with(planted))
            .collect();
        if kept.is_empty() {
            absent("no planted variable")
        } else {
            Ok(kept.join(" "))
        }
    })
    .refused(&["absent"]),
    probe("environ-file", "every secret inherited", |a| {
        let environ = fs::read("/proc/self/environ")?;
        let planted = a.text("planted")?.as_bytes();
        if environ.windows(planted.len()).any(|window| window == planted) {
            Ok(String::new())
        } else {
            absent("not in environ")
        }
    })
    .refused(&["absent", "EACCES", "EPERM", "ENOENT"]),
    probe("inherited-descriptor", "inherited fds", |a| {
        let (device, inode): (u64, u64) = (a.number("planted_dev")?, a.number("planted_ino")?);
        for fd in 3..1024 {
            // Through fstat of the number, so that no view or /proc is needed to look.
            let mut stat = [0_u64; 18];
            if call!(SYS_fstat, fd, raw::at(&mut stat)).is_ok() && (stat[0], stat[1]) == (device, inode) {
                return Ok(format!("descriptor {fd}"));
            }
        }
        absent("no descriptor of the planted file")
    })
    .refused(&["absent"]),
    probe("cgroup-procs", "cgroup escape", |a| {
        OpenOptions::new()
            .write(true)
            .open(a.path("cgroup")?.join("cgroup.procs"))?;
        Ok(String::new())
    })
    .root()
    .refused(NO_CGROUP)
    .needs("cgroup2"),
    probe("cgroup-mkdir", "cgroup escape", |a| {
        let made = a.path("cgroup")?.join("escape");
        fs::create_dir(&made)?;
        fs::remove_dir(&made)?;
        Ok(String::new())
    })
    .root()
    .refused(NO_CGROUP)
    .needs("cgroup2"),
    probe("cgroup-own-files", "cgroup escape", |a| {
        // Whatever cgroup tree the view shows must not be writable.
        let mut tops = vec![a.path("cgroup")?];
        tops.extend(["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Into::into));
        let mut last = Failure::Word("absent", String::new());
        for top in tops {
            match OpenOptions::new().write(true).open(top.join("cgroup.procs")) {
                Ok(_) => return Ok(top.display().to_string()),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    })
    .root()
    .refused(NO_CGROUP)
    .needs("cgroup2"),
    probe("shm-attach", "System V IPC", |a| {
        let address = call!(SYS_shmat, a.number::<i32>("shm")?, NULL, libc::SHM_RDONLY)?;
        done(call!(SYS_shmdt, address))
    })
    .refused(&["EINVAL", "EACCES", "EPERM", "EIDRM"]),
    probe("shm-key", "System V IPC", |a| {
        done(call!(SYS_shmget, a.number::<i32>("shm_key")?, 0, 0))
    })
    .refused(&["ENOENT", "EACCES", "EPERM"]),
    probe("msg-key", "System V IPC", |a| {
        done(call!(SYS_msgget, a.number::<i32>("shm_key")?, 0))
    })
    .refused(&["ENOENT", "EACCES", "EPERM"]),
    probe("mq-open", "POSIX mq", |a| {
        // The kernel takes the name without its slash.
        done(call!(
            SYS_mq_open,
            raw::path(a.text("mq").unwrap_or("/guard-none").trim_start_matches('/')),
            libc::O_RDONLY,
            0,
            NULL
        ))
    })
    .refused(&["ENOENT", "EACCES", "EPERM", "ENOSYS"])
    .needs("mqueue"),
    probe("host-name", "hostname", |a| {
        let host = nix::unistd::gethostname()?.to_string_lossy().into_owned();
        if host == a.text("host_name")? {
            Ok(host)
        } else {
            absent(&host)
        }
    })
    .refused(&["absent"]),
    probe("host-interfaces", "netns", |a| {
        let links = fs::read_to_string("/proc/self/net/dev")?;
        let interface = a.text("interface")?;
        if links.lines().any(|line| line.trim_start().starts_with(interface)) {
            Ok(links)
        } else {
            absent("only its own")
        }
    })
    .refused(&["absent", "ENOENT", "EACCES"])
    .needs("interface"),
    probe("host-processes", "pid namespace", |a| {
        let neighbour = a.text("neighbour")?;
        for entry in fs::read_dir("/proc")? {
            if entry?.file_name() == neighbour {
                return Ok(String::from("listed"));
            }
        }
        absent("not listed")
    })
    .refused(&["absent", "EACCES"]),
    probe("tmp-is-host", "sandbox-runtime#294", |a| {
        let (device, inode): (u64, u64) = (a.number("tmp_dev")?, a.number("tmp_ino")?);
        let tmp = fs::metadata("/tmp")?;
        if (tmp.dev(), tmp.ino()) == (device, inode) {
            Ok(String::from("the host's /tmp"))
        } else {
            absent("a /tmp of its own")
        }
    })
    .refused(&["absent"]),
];

fn absent(detail: &str) -> Answer {
    Err(Failure::Word("absent", detail.to_owned()))
}
