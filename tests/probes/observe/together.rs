//! What is done without a pause, beside somebody who moves what a path leads to or takes the ground away.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    thread,
    time::{Duration, SystemTime},
};

use crate::Call;

/// What the file begins with that may be read; the others are other people's.
const OWN: &[u8] = b"inside";

/// What opens came to.
#[derive(Default)]
struct Tally {
    opens: u64,
    own: u64,
    others: u64,
    refused: u64,
    absent: u64,
    odd: u64,
    first_odd: i32,
}

impl Tally {
    /// Opens what the path leads to and reads it.
    fn open(&mut self, path: *const libc::c_char) {
        self.opens += 1;
        let mut bytes = [0_u8; 8];
        // SAFETY: the callers' paths end with a zero and live on; the buffer has the length given, and the descriptor is
        // this function's own.
        let read = unsafe {
            let file = libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK);
            if file < 0 {
                -1
            } else {
                let read = libc::read(file, bytes.as_mut_ptr().cast(), bytes.len());
                let why = errno();
                libc::close(file);
                if read < 0 {
                    -i64::from(why) - 1
                } else {
                    read as i64
                }
            }
        };
        let odd = match (read, errno()) {
            (0.., _) if bytes.starts_with(OWN) => return self.own += 1,
            (0.., _) => return self.others += 1,
            (-1, libc::EACCES) => return self.refused += 1,
            (-1, libc::ENOENT) => return self.absent += 1,
            (-1, errno) => errno,
            (read, _) => (-1 - read) as i32,
        };
        self.odd += 1;
        if self.first_odd == 0 {
            self.first_odd = odd;
        }
    }

    fn answer(&self, moves: u64, failed: u64) -> String {
        let Self {
            opens,
            own,
            others,
            refused,
            absent,
            odd,
            first_odd,
        } = self;
        format!("{opens} {own} {others} {refused} {absent} {odd} {first_odd} {moves} {failed}")
    }
}

/// Whether there is another order.
fn told() -> bool {
    let mut input = libc::pollfd {
        fd: 0,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure of this function's.
    unsafe { libc::poll(&raw mut input, 1, 0) > 0 }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// `ROUNDS LEAST PATH [; CALL]…`: opens the path so often (0: until there is another order) and more, until a thread
/// beside it has made the calls, one after the other, so often at least. Answers what `Tally` counts, then the calls
/// that succeeded and those that failed.
pub(crate) fn race(rounds: u64, least: u64, path: &str, calls: &[&str]) -> String {
    let Ok(path) = CString::new(crate::unhex(path)) else {
        return "not a path".to_owned();
    };
    let calls: Vec<Call> = calls
        .split(|word| *word == ";")
        .filter(|call| !call.is_empty())
        .map(Call::parse)
        .collect();
    let mut tally = Tally::default();
    let (over, played) = (AtomicBool::new(false), AtomicU64::new(0));
    let (moves, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        if !calls.is_empty() {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for call in &calls {
                        let count = if call.make() < 0 { &failed } else { &moves };
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    played.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        loop {
            tally.open(path.as_ptr());
            let enough = match rounds {
                0 => tally.opens.is_multiple_of(16) && told(),
                _ => tally.opens >= rounds && played.load(Ordering::Relaxed) >= least,
            };
            if enough {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    tally.answer(moves.into_inner(), failed.into_inner())
}

/// The same while a thread changes one byte of the path to another and back; as many changes as opens at least.
pub(crate) fn flip(rounds: u64, path: &str, at: usize, other: u8) -> String {
    let mut bytes: Vec<AtomicU8> = crate::unhex(path).into_iter().map(AtomicU8::new).collect();
    bytes.push(AtomicU8::new(0));
    let Some(place) = bytes.get(at) else {
        return "not in the path".to_owned();
    };
    let own = place.load(Ordering::Relaxed);
    let (over, flips) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut tally = Tally::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                place.store(other, Ordering::Relaxed);
                std::hint::spin_loop();
                place.store(own, Ordering::Relaxed);
                std::hint::spin_loop();
                flips.fetch_add(2, Ordering::Relaxed);
            }
        });
        while tally.opens < rounds || flips.load(Ordering::Relaxed) < rounds {
            tally.open(bytes.as_ptr().cast());
        }
        over.store(true, Ordering::Relaxed);
    });
    tally.answer(flips.into_inner(), 0)
}

/// `CALL [; CALL]…`: makes the calls one after the other until there is another order. Answers how many succeeded, and
/// how many did not.
pub(crate) fn play(calls: &[&str]) -> String {
    let calls: Vec<Call> = calls.split(|word| *word == ";").map(Call::parse).collect();
    let (mut moves, mut failed) = (0_u64, 0_u64);
    while !told() {
        for call in &calls {
            if call.make() < 0 {
                failed += 1;
            } else {
                moves += 1;
            }
        }
    }
    format!("{moves} {failed}")
}

/// What ordinary programs do, in a directory, until there is another order, with so many milliseconds between the rounds.
/// Answers how many there were, and the first of what failed; the file `rounds` has the number meanwhile.
pub(crate) fn ordinary(directory: &str, pause: u64) -> String {
    use std::os::unix::ffi::OsStringExt as _;
    let directory = PathBuf::from(std::ffi::OsString::from_vec(crate::unhex(directory)));
    let work = match Work::new(directory) {
        Ok(work) => work,
        Err(error) => return error.to_string(),
    };
    let mut rounds = 0_u64;
    let mut failed = Vec::new();
    while !told() {
        let seldom = if rounds.is_multiple_of(8) {
            &SELDOM[..]
        } else {
            &[]
        };
        for (name, step) in STEPS.iter().chain(seldom) {
            if let Err(error) = step(&work) {
                failed.push(format!("{name} in round {rounds}: {error}"));
            }
        }
        rounds += 1;
        thread::sleep(Duration::from_millis(pause));
    }
    format!(
        "{rounds} {} {}",
        failed.len(),
        failed.first().map_or("", String::as_str)
    )
}

struct Work {
    at: PathBuf,
    unix: UnixListener,
    tcp: TcpListener,
}

type Step = (&'static str, fn(&Work) -> io::Result<()>);

const STEPS: [Step; 9] = [
    ("write", |work| fs::write(work.at("file"), "inside")),
    ("read", |work| {
        let bytes = fs::read(work.at("file"))?;
        same(&bytes, OWN)
    }),
    ("rename", |work| {
        fs::rename(work.at("file"), work.at("renamed"))?;
        fs::rename(work.at("renamed"), work.at("file"))
    }),
    ("link", |work| {
        fs::hard_link(work.at("file"), work.at("second"))?;
        std::os::unix::fs::symlink("file", work.at("symbolic"))?;
        same(&fs::read(work.at("symbolic"))?, OWN)?;
        fs::remove_file(work.at("symbolic"))?;
        fs::remove_file(work.at("second"))
    }),
    ("directory", |work| {
        fs::create_dir(work.at("directory"))?;
        fs::read_dir(&work.at)?.try_for_each(|entry| entry.map(drop))?;
        fs::remove_dir(work.at("directory"))
    }),
    ("attributes", |work| {
        let file = File::options().write(true).open(work.at("file"))?;
        file.set_permissions(file.metadata()?.permissions())?;
        file.set_modified(SystemTime::UNIX_EPOCH)?;
        file.set_len(3)?;
        file.set_len(6)
    }),
    ("unix", |work| {
        let mut client = UnixStream::connect(work.at("socket"))?;
        let (mut server, _) = work.unix.accept()?;
        client.write_all(OWN)?;
        drop(client);
        let mut heard = Vec::new();
        server.read_to_end(&mut heard)?;
        same(&heard, OWN)
    }),
    ("thread", |_| {
        thread::spawn(|| {})
            .join()
            .map_err(|_| io::Error::other("it did not end well"))
    }),
    ("rounds", |work| {
        let before = fs::read_to_string(work.at("rounds"))?;
        let next = before.parse::<u64>().map_err(io::Error::other)? + 1;
        fs::write(work.at("next"), next.to_string())?;
        fs::rename(work.at("next"), work.at("rounds"))
    }),
];

/// What costs more, or ports that are not free again at once.
const SELDOM: [Step; 2] = [
    ("tcp", |work| {
        let client = TcpStream::connect(work.tcp.local_addr()?)?;
        work.tcp.accept()?;
        drop(client);
        Ok(())
    }),
    ("program", Work::program),
];

impl Work {
    fn new(at: PathBuf) -> io::Result<Self> {
        fs::write(at.join("rounds"), "0")?;
        Ok(Self {
            unix: UnixListener::bind(at.join("socket"))?,
            tcp: TcpListener::bind("127.0.0.1:0")?,
            at,
        })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    /// Starts one, which ends at once.
    fn program(&self) -> io::Result<()> {
        let mut command = Command::new(Path::new("/proc/self/exe"));
        let status = command
            .current_dir(&self.at)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(status.to_string()))
    }
}

fn same(found: &[u8], wanted: &[u8]) -> io::Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(io::Error::other("other bytes than were written"))
}
