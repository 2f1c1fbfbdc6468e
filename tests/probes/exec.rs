//! Running code that is not in a root with the right to execute.
#![expect(unsafe_code, reason = "code pages are mapped and entered by hand")]

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::Write as _,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    },
    path::Path,
    process::{Command, Stdio},
};

use guard_tests::tiny_elf::{self, RAN, Tiny};

use crate::{
    files::done,
    probe::{Answer, Failure, Probe, probe},
    raw::{self, call},
};

const NO_EXEC: &[&str] = &["EACCES", "EPERM"];
const NO_EXEC_OUTSIDE: &[&str] = &["ENOENT", "EACCES", "EPERM"];
const NO_SETID: &[&str] = &["EPERM", "EACCES", "dropped"];

pub(crate) const PROBES: &[Probe] = &[
    probe("exec-outside", "exec of unlisted binary", |a| {
        run(&a.outside("prog")?)
    })
    .refused(NO_EXEC_OUTSIDE),
    probe("exec-rw-root", "exec of unlisted binary", |a| run(&a.rw("prog")?)).refused(NO_EXEC),
    probe("exec-r-root", "exec of unlisted binary", |a| {
        run(&a.path("r")?.join("prog"))
    })
    .refused(NO_EXEC),
    probe("exec-dropped", "exec of unlisted binary", |a| {
        let path = a.rw("dropped")?;
        write_program(
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o755)
                .open(&path)?,
        )?;
        run(&path)
    })
    .refused(NO_EXEC),
    probe("exec-tmp", "exec of unlisted binary", |_| {
        let path = Path::new("/tmp").join(format!("guard-{}", std::process::id()));
        write_program(
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o755)
                .open(&path)?,
        )?;
        let answer = run(&path);
        fs::remove_file(&path)?;
        answer
    })
    .refused(NO_EXEC),
    probe("exec-shell", "exec of any system binary", |_| {
        exit_is(Command::new("/bin/sh").args(["-c", "exit 42"]))
    })
    .refused(NO_EXEC_OUTSIDE),
    probe("exec-usr-bin", "exec of any system binary", |_| {
        exit_is(Command::new("/usr/bin/env").args(["sh", "-c", "exit 42"]))
    })
    .refused(NO_EXEC_OUTSIDE),
    probe("exec-script-rw-root", "scripts", |a| run(&a.rw("script")?)).refused(NO_EXEC),
    probe("exec-fd", "exec of unlisted binary", |a| {
        let program = File::open(a.rw("prog")?)?;
        exec_fd(&program.into())
    })
    .refused(NO_EXEC),
    probe("exec-proc-self-fd", "exec of unlisted binary", |a| {
        let program = File::open(a.rw("prog")?)?;
        run(Path::new(&format!("/proc/self/fd/{}", program.as_raw_fd())))
    })
    .refused(&["EACCES", "EPERM", "ENOENT"]),
    probe("exec-loader", "ld.so trick", |a| {
        let lib = a.path("rx")?.join("lib");
        let output = Command::new(lib.join("ld.so"))
            .arg("--library-path")
            .arg(&lib)
            .arg(a.rw("dynamic")?)
            .output()?;
        if output.status.success() {
            return Ok(String::new());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // The loader got as far as mapping the program's code; whatever else it misses proves nothing.
        let word = if said.contains("failed to map segment") {
            "not-mapped"
        } else {
            "exit"
        };
        Err(Failure::Word(word, said))
    })
    .refused(&["not-mapped"]),
    probe("preload", "ld.so trick", |a| {
        // A library of the writable root, mapped with execute right by an allowed program.
        map_and_enter(&a.rw("prog")?)
    })
    .refused(NO_EXEC),
    probe("mprotect-exec", "mprotect(+X)", |a| mprotect_exec(&a.rw("prog")?)).refused(NO_EXEC),
    probe("memfd-exec", "memfd", |_| exec_fd(&memfd(0)?)).refused(NO_EXEC),
    probe("memfd-exec-flag", "memfd", |_| exec_fd(&memfd(0x10)?))
        .refused(NO_EXEC)
        .needs("memfd-exec-flag"),
    probe("memfd-exec-path", "memfd", |_| {
        let program = memfd(0)?;
        run(Path::new(&format!("/proc/self/fd/{}", program.as_raw_fd())))
    })
    .refused(NO_EXEC),
    probe("setuid-program", "setuid, setgid, file caps", |a| {
        run(&a.path("rx")?.join("suid"))
    })
    .refused(&["not-raised", "EPERM", "EACCES"]),
    probe("chmod-setuid", "setuid, setgid, file caps", |a| {
        fs::set_permissions(a.rw("prog")?, Permissions::from_mode(0o4755))?;
        has_setid(&a.rw("prog")?)
    })
    .refused(NO_SETID),
    probe("fchmod-setgid", "setuid, setgid, file caps", |a| {
        File::open(a.rw("prog")?)?.set_permissions(Permissions::from_mode(0o2755))?;
        has_setid(&a.rw("prog")?)
    })
    .refused(NO_SETID),
    probe("create-setuid", "setuid, setgid, file caps", |a| {
        let path = a.rw("created")?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o4755)
            .open(&path)?;
        has_setid(&path)
    })
    .refused(NO_SETID),
    probe("mknod-setuid", "setuid, setgid, file caps", |a| {
        let path = a.rw("created")?;
        call!(SYS_mknod, raw::path(&path), libc::S_IFREG | 0o4755, 0)?;
        has_setid(&path)
    })
    .refused(NO_SETID),
    probe("mkdir-setgid", "setuid, setgid, file caps", |a| {
        let path = a.rw("madedir")?;
        call!(SYS_mkdir, raw::path(&path), 0o755)?;
        call!(SYS_chmod, raw::path(&path), 0o2755)?;
        has_setid(&path)
    })
    .refused(NO_SETID),
    probe("file-caps", "setuid, setgid, file caps", |a| {
        let mut capability = [0x0200_0001_u32, 1 << 21, 0, 0, 0];
        done(call!(
            SYS_setxattr,
            raw::path(a.rw("prog")?),
            c"security.capability",
            raw::at(&mut capability),
            20,
            0
        ))
    })
    .root()
    .refused(&["EPERM", "EACCES"]),
];

fn run(path: &Path) -> Answer {
    exit_is(&mut Command::new(path))
}

fn exit_is(command: &mut Command) -> Answer {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    match status.code() {
        Some(RAN) => Ok(String::from("it ran")),
        Some(code) if code == RAN + 1 => Err(Failure::Word(
            "not-raised",
            String::from("ran with its caller's uid"),
        )),
        _ => Err(Failure::Word("exit", status.to_string())),
    }
}

fn write_program(mut file: File) -> Result<(), Failure> {
    file.write_all(&tiny_elf::program(Tiny::Exit))?;
    Ok(())
}

fn memfd(flags: u32) -> Result<OwnedFd, Failure> {
    let raw = call!(SYS_memfd_create, c"guard", flags)?;
    // SAFETY: the call has just returned this descriptor and nothing else owns it.
    let file = unsafe { OwnedFd::from_raw_fd(i32::try_from(raw).unwrap_or(-1)) };
    write_program(File::from(file.try_clone()?))?;
    Ok(file)
}

/// Replaces a child of its own, so that the answer can still be told.
fn exec_fd(program: &OwnedFd) -> Answer {
    // SAFETY: one thread; the child makes one call and leaves.
    match unsafe { nix::unistd::fork()? } {
        nix::unistd::ForkResult::Child => {
            let errno = call!(
                SYS_execveat,
                program,
                c"",
                NULL_VECTOR.as_ptr() as usize,
                NULL_VECTOR.as_ptr() as usize,
                libc::AT_EMPTY_PATH
            )
            .err()
            .map_or(0, |errno| errno as i32);
            // SAFETY: leaves at once. Errnos of exec are below 100 and cannot be taken for the program's own status.
            unsafe { libc::_exit(100 + errno) }
        }
        nix::unistd::ForkResult::Parent { child } => match nix::sys::wait::waitpid(child, None)? {
            nix::sys::wait::WaitStatus::Exited(_, RAN) => Ok(String::from("it ran")),
            nix::sys::wait::WaitStatus::Exited(_, code) if code > 100 => {
                Err(Failure::Errno(nix::errno::Errno::from_raw(code - 100)))
            }
            status => Err(Failure::Word("exit", format!("{status:?}"))),
        },
    }
}

static NULL_VECTOR: [usize; 1] = [0];

fn map_and_enter(path: &Path) -> Answer {
    let file = OwnedFd::from(File::open(path)?);
    let address = call!(
        SYS_mmap,
        0,
        4096,
        libc::PROT_READ | libc::PROT_EXEC,
        libc::MAP_PRIVATE,
        file,
        0
    )?;
    enter(address)
}

fn mprotect_exec(path: &Path) -> Answer {
    let file = OwnedFd::from(File::open(path)?);
    let address = call!(SYS_mmap, 0, 4096, libc::PROT_READ, libc::MAP_PRIVATE, file, 0)?;
    call!(SYS_mprotect, address, 4096, libc::PROT_READ | libc::PROT_EXEC)?;
    enter(address)
}

/// Runs the mapped tiny program in a child: mapping alone would not prove that it can run.
fn enter(address: usize) -> Answer {
    // SAFETY: one thread; the child jumps to the mapped code, which ends it by `exit(42)`.
    match unsafe { nix::unistd::fork()? } {
        nix::unistd::ForkResult::Child => {
            // SAFETY: the page holds the tiny program's bytes, mapped readable and executable.
            unsafe {
                let code: extern "C" fn() = std::mem::transmute(address + tiny_elf::entry_offset());
                code();
                libc::_exit(1)
            }
        }
        nix::unistd::ForkResult::Parent { child } => match nix::sys::wait::waitpid(child, None)? {
            nix::sys::wait::WaitStatus::Exited(_, RAN) => Ok(String::from("mapped code ran")),
            status => Err(Failure::Word("exit", format!("{status:?}"))),
        },
    }
}

fn has_setid(path: &Path) -> Answer {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o6000 == 0 {
        return Err(Failure::Word("dropped", format!("mode is {mode:o}")));
    }
    Ok(format!("mode is {mode:o}"))
}
