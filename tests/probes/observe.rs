#![expect(
    unsafe_code,
    reason = "raw system calls with any arguments are what this program is for"
)]
//! Makes the system calls it is told to, one order a line on standard input, one answer a line.
//!
//! `call NR ARG…` answers `RESULT PID TID`; after `thread` or `daemon` a thread or a grandchild in a session of its
//! own makes it. `repeat THREADS TIMES NR ARG…`, `sweep NR ARG…` and the other orders are the arms of `obey`.

#![expect(
    clippy::print_stdout,
    reason = "standard output is where the test reads the answers"
)]

#[path = "observe/children.rs"]
mod children;
#[path = "observe/together.rs"]
mod together;
#[path = "observe/uring.rs"]
mod uring;

use std::{
    ffi::CString,
    io::{self, Read as _, Write as _},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    ptr, thread,
    time::Instant,
};

const PAGE: usize = 4096;
/// The upper half of a sixth argument that makes the filter fail the call with the errno in the lower one.
const MAGIC: u64 = 0x6775_6172 << 32;
const SWEEP: u64 = 133;

fn main() -> io::Result<()> {
    for line in io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        println!("{}", obey(&words));
        io::stdout().flush()?;
    }
    Ok(())
}

fn obey(words: &[&str]) -> String {
    match words {
        ["call", rest @ ..] => Call::parse(rest).answer(),
        ["thread", rest @ ..] => {
            let call = Call::parse(rest);
            thread::scope(|scope| scope.spawn(|| call.answer()).join().unwrap_or_default())
        }
        ["daemon", rest @ ..] => daemon(&Call::parse(rest)),
        ["repeat", threads, times, rest @ ..] => {
            let (threads, times): (u64, u64) = (number(threads), number(times));
            let call = Call::parse(rest);
            thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| (0..times).for_each(|_| call.make_and_close()));
                }
            });
            (threads * times).to_string()
        }
        ["sweep", rest @ ..] => {
            let mut call = Call::parse(rest);
            let failed = (1..=SWEEP).filter(|errno| {
                call.args[5] = MAGIC | errno;
                call.make() == -i64::try_from(*errno).unwrap_or(0)
            });
            failed.count().to_string()
        }
        ["filter"] => filter().map_or_else(|error| error.to_string(), |()| "done".to_owned()),
        ["exec", path] => execute(path),
        ["bench", times] => bench(number(times)),
        ["run", rest @ ..] => children::run(&Call::parse(rest), None),
        ["into", cgroup, rest @ ..] => children::run(&Call::parse(rest), Some(number(cgroup))),
        ["narrow", nr, a, b, c] => children::narrow(number(nr), [number(a), number(b), number(c)]),
        ["handle", mount, path] => CString::new(unhex(path)).map_or_else(
            |_| "not a path".to_owned(),
            |path| children::by_handle(number(mount) as i32, &path),
        ),
        ["child"] => children::child(),
        ["race", rounds, least, path, calls @ ..] => {
            together::race(number(rounds), number(least), path, calls)
        }
        ["flip", rounds, path, at, other] => {
            together::flip(number(rounds), path, number(at) as usize, number(other) as u8)
        }
        ["play", calls @ ..] => together::play(calls),
        ["ordinary", directory, pause] => together::ordinary(directory, number(pause)),
        ["peek", pid] => children::peek(number(pid) as i32),
        ["send", socket, file] => children::send(number(socket) as i32, number(file) as i32),
        ["take", socket] => children::take(number(socket) as i32),
        ["ring", flags] => uring::make(number(flags) as u32),
        // Like a call's number and arguments; one more than a call has.
        ["ring", opcode, flags, rest @ ..] => {
            let call = Call::parse(&[&["0"], rest].concat());
            let [a, b, c, d, e, _] = call.args;
            uring::act(&[number(opcode), number(flags), a, b, c, d, e])
        }
        _ => "not an order".to_owned(),
    }
}

fn number(word: &str) -> u64 {
    let value: i64 = word.parse().unwrap_or_default();
    value.cast_unsigned()
}

/// A call and the memory its arguments point to.
struct Call {
    nr: i64,
    args: [u64; 6],
    _memory: Vec<Memory>,
}

impl Call {
    /// `NR` and up to six arguments: a number, `p=HEX` for text with a zero at its end, `b=HEX` for bytes, `x` for
    /// memory that cannot be read.
    fn parse(words: &[&str]) -> Self {
        let mut words = words.iter();
        let nr = words.next().map_or(-1, |word| number(word).cast_signed());
        let (mut args, mut memory) = ([0; 6], Vec::new());
        for (arg, word) in args.iter_mut().zip(words) {
            let bytes = if let Some(hex) = word.strip_prefix("p=") {
                let mut text = unhex(hex);
                text.push(0);
                text
            } else if let Some(hex) = word.strip_prefix("b=") {
                unhex(hex)
            } else if *word == "x" {
                Vec::new()
            } else {
                *arg = number(word);
                continue;
            };
            let made = Memory::holding(&bytes);
            *arg = made.at;
            memory.push(made);
        }
        Self {
            nr,
            args,
            _memory: memory,
        }
    }

    /// The kernel's own result: an errno is negative.
    fn make(&self) -> i64 {
        let [a, b, c, d, e, f] = self.args;
        // SAFETY: whoever gives the orders answers for the arguments; the orders of these tests name files, memory of
        // this call and calls that fail. None makes this program's own memory invalid.
        let result = unsafe { libc::syscall(self.nr, a, b, c, d, e, f) };
        let result = if result == -1 {
            -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(0))
        } else {
            result
        };
        // The sixth argument stays in its register, and calls with fewer would be made with it.
        // SAFETY: takes nothing, changes nothing.
        unsafe { libc::syscall(libc::SYS_getppid, 0, 0, 0, 0, 0, 0) };
        result
    }

    fn make_and_close(&self) {
        let result = self.make();
        let opens = matches!(self.nr, libc::SYS_open | libc::SYS_openat | libc::SYS_creat);
        if let (true, Ok(fd @ 0..)) = (opens, i32::try_from(result)) {
            // SAFETY: the call just opened it, and nobody else knows it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }

    fn answer(&self) -> String {
        let result = self.make();
        // SAFETY: takes nothing, changes nothing.
        let tid = unsafe { libc::gettid() };
        format!("{result} {} {tid}", std::process::id())
    }
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .filter_map(|index| u8::from_str_radix(hex.get(index * 2..index * 2 + 2)?, 16).ok())
        .collect()
}

/// Bytes that end where readable memory ends.
struct Memory {
    start: *mut libc::c_void,
    length: usize,
    at: u64,
}

// SAFETY: the memory is nobody else's, and only the kernel reads it.
unsafe impl Sync for Memory {}

impl Memory {
    fn holding(bytes: &[u8]) -> Self {
        let room = bytes.len().div_ceil(PAGE) * PAGE;
        let length = room + PAGE;
        // SAFETY: a new mapping where the kernel likes; then its last page is made inaccessible, and the bytes are
        // copied to the end of what is before it, which is at least as long.
        unsafe {
            let start = libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert!(start != libc::MAP_FAILED, "{}", io::Error::last_os_error());
            let guard = start.cast::<u8>().add(room);
            assert_eq!(libc::mprotect(guard.cast(), PAGE, libc::PROT_NONE), 0);
            let at = guard.sub(bytes.len());
            ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
            Self {
                start,
                length,
                at: at.expose_provenance() as u64,
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, whole.
        unsafe {
            libc::munmap(self.start, self.length);
        }
    }
}

/// Forks twice, with a new session between; the answer comes through a pipe.
fn daemon(call: &Call) -> String {
    let (mut reader, writer) = match io::pipe() {
        Ok(ends) => ends,
        Err(error) => return error.to_string(),
    };
    // SAFETY: this program has one thread while it obeys this order, so its children may do anything.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::setsid();
            if libc::fork() == 0 {
                let answer = call.answer();
                libc::write(writer.as_raw_fd(), answer.as_ptr().cast(), answer.len());
            }
            libc::_exit(0);
        }
        libc::waitpid(child, ptr::null_mut(), 0);
    }
    drop(writer);
    let mut answer = String::new();
    let _ = reader.read_to_string(&mut answer);
    answer
}

/// Executes a program in a child; answers its process id once it has ended.
fn execute(path: &str) -> String {
    let Ok(path) = CString::new(unhex(path)) else {
        return "not a path".to_owned();
    };
    let argv = [path.as_ptr(), ptr::null()];
    // SAFETY: as in `daemon`; the arrays end with a null and live through the call.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            libc::dup2(null, 0);
            libc::dup2(null, 1);
            libc::execve(path.as_ptr(), argv.as_ptr(), [ptr::null()].as_ptr());
            libc::_exit(1);
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        format!("{child} {status}")
    }
}

/// Calls with [`MAGIC`] in their sixth argument fail as it says, from now on.
fn filter() -> io::Result<()> {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
    const OR: u16 = 0x44; // BPF_ALU | BPF_OR | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    const RETURN_A: u16 = 0x16; // BPF_RET | BPF_A
    const SIXTH: u32 = 56; // offsetof(struct seccomp_data, args[5])
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let statement = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        statement(LOAD, 0, 0, SIXTH + 4),
        statement(EQUAL, 0, 4, (MAGIC >> 32) as u32),
        statement(LOAD, 0, 0, SIXTH),
        statement(AND, 0, 0, 0xffff),
        statement(OR, 0, 0, ERRNO),
        statement(RETURN_A, 0, 0, 0),
        statement(RETURN, 0, 0, ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `filter` points at a live program of the length given; the kernel copies it.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Nanoseconds a call of the cheapest kind takes, times 100: the best of many short rounds, of which some are
/// not interrupted however busy the machine is.
fn bench(times: u64) -> String {
    let round = || {
        let start = Instant::now();
        for _ in 0..times {
            // SAFETY: takes nothing, changes nothing.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        start.elapsed().as_nanos() * 100 / u128::from(times.max(1))
    };
    (0..60).map(|_| round()).min().unwrap_or(0).to_string()
}
