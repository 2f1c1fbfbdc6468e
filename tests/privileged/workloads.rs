//! What ordinary servers do besides answering: workers, subprocesses, native add-ons, databases, temporary files.
//! Each works outside of a sandbox, and inside in both views with the same answer.

use std::{
    ffi::OsString,
    fs,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    agent::{AgentBuilder, Bench},
    control::User,
    fixtures,
    guards::Scratch,
};

const PATIENCE: Duration = Duration::from_secs(120);
const NODE: &str = "/usr/bin/node";
const PYTHON: &str = "/usr/bin/python3";

/// One program, and what it must say wherever it runs.
struct Work {
    scratch: Scratch,
    user: User,
    roots: Vec<(PathBuf, &'static str)>,
    command: Vec<OsString>,
    says: String,
}

impl Work {
    fn new(name: &str, says: &str) -> Result<Self> {
        Ok(Self {
            scratch: Scratch::new(name)?,
            user: User::of_tests()?,
            roots: Vec::new(),
            command: Vec::new(),
            says: says.to_owned(),
        })
    }

    /// A directory of the server's user, as a root.
    fn root(&mut self, name: &str, rights: &'static str) -> Result<PathBuf> {
        let path = self.scratch.path().join(name);
        fs::create_dir(&path)?;
        chown(&path, Some(self.user.uid), Some(self.user.gid))?;
        self.roots.push((path.clone(), rights));
        Ok(path)
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> Result<PathBuf> {
        let path = self.scratch.path().join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(path)
    }

    /// `program FILE`, the file being this text.
    fn script(mut self, program: &str, name: &str, text: &str) -> Result<Self> {
        let file = self.file(name, text, 0o644)?;
        self.command = vec![program.into(), file.into_os_string()];
        Ok(self)
    }

    fn outside(&self) -> Result<String> {
        let (program, arguments) = self.command.split_first().context("a command")?;
        let output = Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .uid(self.user.uid)
            .gid(self.user.gid)
            .output()?;
        ensure!(
            output.status.success(),
            "outside: {} {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// `between` puts back what a run has changed.
    fn everywhere(&self, between: impl Fn() -> Result<()>) -> Result<()> {
        let outside = self.outside()?;
        ensure!(
            outside == self.says,
            "the control says `{outside}`, not `{}`",
            self.says
        );
        for view in ["private", "host"] {
            between()?;
            let bench = Bench::new("workloads")?;
            let mut run = AgentBuilder::new(&bench)
                .user(&self.user.name)
                .view(view)
                .outer_env("GUARD_AGENT_IDLE_MS", "100")
                .option("--directory", "/");
            for (path, rights) in &self.roots {
                run = run.root(path, rights);
            }
            let finished = run.command(self.command.clone()).run_to_its_end(PATIENCE)?;
            ensure!(
                finished.stdout == self.says && finished.status.success(),
                "{view}: `{}`, {}: {}",
                finished.stdout,
                finished.status,
                finished.stderr
            );
        }
        Ok(())
    }

    fn works(&self) -> Result<()> {
        self.everywhere(|| Ok(()))
    }
}

#[test]
fn worker_threads_of_node() -> Result<()> {
    let text = r"
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
if (isMainThread) {
  const shared = new Int32Array(new SharedArrayBuffer(4));
  const one = (n) => new Promise((done, failed) => {
    const worker = new Worker(__filename, { workerData: { n, shared } });
    worker.on('message', done); worker.on('error', failed);
  });
  Promise.all([1, 2, 3, 4].map(one)).then((sums) => console.log(sums.join(' '), Atomics.load(shared, 0)));
} else {
  let sum = 0;
  for (let i = 0; i < 100000; i++) sum += i % workerData.n;
  Atomics.add(workerData.shared, 0, workerData.n);
  parentPort.postMessage(sum);
}";
    Work::new("work-threads", "0 50000 99999 150000 10")?
        .script(NODE, "main.cjs", text)?
        .works()
}

#[test]
fn subprocesses_of_node() -> Result<()> {
    let text = r"
const { execFileSync, fork, spawnSync } = require('node:child_process');
if (process.argv[2] === 'child') {
  process.on('message', (word) => { process.send(word + ' back'); process.disconnect(); });
} else {
  const sync = execFileSync(process.execPath, ['-p', '6 * 7']).toString().trim();
  const status = spawnSync(process.execPath, ['-e', 'process.exit(7)']).status;
  const child = fork(__filename, ['child']);
  child.on('message', (word) => console.log(sync, status, word));
  child.send('there and');
}";
    Work::new("work-fork", "42 7 there and back")?
        .script(NODE, "main.cjs", text)?
        .works()
}

#[test]
fn asyncio_of_python() -> Result<()> {
    let text = r"
import asyncio, sys
async def echo():
    reader, writer = await asyncio.open_connection(sock=left)
    writer.write(b'ping\n'); await writer.drain()
    return (await reader.readline()).decode().strip()
async def serve():
    reader, writer = await asyncio.open_connection(sock=right)
    line = await reader.readline()
    writer.write(line.upper()); await writer.drain()
async def child():
    process = await asyncio.create_subprocess_exec(
        sys.executable, '-c', 'print(input()[::-1])', stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate(b'drawer\n')
    return out.decode().strip()
async def main():
    answers = await asyncio.gather(echo(), child(), asyncio.to_thread(lambda: sum(range(10))), serve(),
                                   asyncio.wait_for(asyncio.sleep(0.01, 'slept'), 5))
    print(*[answer for answer in answers if answer is not None])
import socket
left, right = socket.socketpair()
asyncio.run(main())
";
    Work::new("work-asyncio", "PING reward 45 slept")?
        .script(PYTHON, "main.py", text)?
        .works()
}

#[test]
fn subprocesses_and_pools_of_python() -> Result<()> {
    let text = r"
import concurrent.futures, multiprocessing, subprocess, sys
def square(n):
    return n * n
if __name__ == '__main__':
    multiprocessing.set_start_method('spawn')
    with multiprocessing.Pool(2) as pool:
        squares = pool.map(square, range(5))
    queue = multiprocessing.get_context('spawn').SimpleQueue()
    process = multiprocessing.Process(target=queue.put, args=('queued',))
    process.start(); process.join()
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        total = sum(threads.map(square, range(100)))
    out = subprocess.run([sys.executable, '-c', 'print(1 + 1)'], capture_output=True, text=True, check=True).stdout
    print(squares, queue.get(), total, out.strip(), process.exitcode)
";
    Work::new("work-pools", "[0, 1, 4, 9, 16] queued 328350 2 0")?
        .script(PYTHON, "main.py", text)?
        .works()
}

/// A program that is not the runtime's own: a root that is that one file.
#[test]
fn another_program_as_a_root() -> Result<()> {
    let text = r"
import subprocess
print(subprocess.run(['/usr/bin/sort', '-r'], input='a\nc\nb\n', capture_output=True, text=True, check=True).stdout.split())
";
    let mut work = Work::new("work-program", "['c', 'b', 'a']")?.script(PYTHON, "main.py", text)?;
    work.roots.push(("/usr/bin/sort".into(), "rx"));
    work.works()
}

#[test]
fn a_database_in_a_root() -> Result<()> {
    let mut work = Work::new("work-sqlite", "wal 499500 2 ok")?;
    let data = work.root("data", "rw")?;
    let text = format!(
        r"
import sqlite3, threading
path = {:?}
first = sqlite3.connect(path)
mode = first.execute('pragma journal_mode=wal').fetchone()[0]
first.execute('create table t (n)')
first.executemany('insert into t values (?)', [(n,) for n in range(1000)])
first.commit()
seen = []
def read():
    # A second connection, while the first one writes: the write-ahead log is shared memory in a file.
    seen.append(sqlite3.connect(path).execute('select count(*) from t where n < 2').fetchone()[0])
first.execute('begin immediate'); first.execute('insert into t values (-1)')
thread = threading.Thread(target=read); thread.start(); thread.join()
first.rollback()
print(mode, first.execute('select sum(n) from t').fetchone()[0], seen[0], first.execute('pragma integrity_check').fetchone()[0])
",
        data.join("db").display().to_string()
    );
    let work = work.script(PYTHON, "main.py", &text)?;
    work.everywhere(|| {
        fs::remove_dir_all(&data)?;
        fs::create_dir(&data)?;
        Ok(chown(&data, Some(work.user.uid), Some(work.user.gid))?)
    })?;
    ensure!(
        data.join("db").is_file(),
        "the database is not where it was asked for"
    );
    Ok(())
}

#[test]
fn temporary_files() -> Result<()> {
    let text = r"
import os, tempfile
with tempfile.NamedTemporaryFile() as named, tempfile.TemporaryFile() as nameless, tempfile.TemporaryDirectory() as directory:
    named.write(b'x' * 100000); named.flush()
    nameless.write(b'y'); nameless.seek(0)
    inner = os.path.join(directory, 'a'); os.mkdir(inner); os.rename(inner, inner + 'b')
    print(os.path.getsize(named.name), nameless.read().decode(), os.listdir(directory))
descriptor, path = tempfile.mkstemp()
os.close(descriptor); os.unlink(path)
print(os.path.exists(path))
";
    Work::new("work-temp", "100000 y ['ab']\nFalse")?
        .script(PYTHON, "main.py", text)?
        .works()
}

/// A package whose work is done by a shared object that npm fetched for this platform.
#[test]
fn a_native_add_on_from_npm() -> Result<()> {
    let mut work = Work::new("work-npm", "3632233996 crc32.linux-x64-gnu.node")?;
    work.command = vec![NODE.into(), fixtures::node_native()?.into_os_string()];
    work.works()
}

/// The same of PyPI: compiled modules in a virtual environment.
#[test]
fn a_native_module_from_pypi() -> Result<()> {
    let venv = fixtures::python_venv(&["mcp-server-time"])?;
    let mut work = Work::new("work-pypi", "[1, 2] True")?;
    let text = "import pydantic_core\n\
        maps = open('/proc/self/maps').read()\n\
        print(pydantic_core.from_json('[1, 2]'), '_pydantic_core.' in maps and '.so' in maps)\n";
    let script = work.file("main.py", text, 0o644)?;
    work.command = vec![venv.join("bin/python").into_os_string(), script.into_os_string()];
    work.works()
}

/// A script whose interpreter is a script whose interpreter is found by `env`.
#[test]
fn a_chain_of_scripts() -> Result<()> {
    let mut work = Work::new("work-chain", "inner ['outer', 'x', 'y z']")?;
    let inner = work.file(
        "inner",
        "#!/usr/bin/env python3\nimport os, sys\nprint(os.path.basename(sys.argv[0]), [os.path.basename(sys.argv[1])] + sys.argv[2:])\n",
        0o755,
    )?;
    let outer = work.file(
        "outer",
        &format!("#!{}\nnot python at all\n", inner.display()),
        0o755,
    )?;
    work.command = vec![outer.into_os_string(), "x".into(), "y z".into()];
    work.works()
}

/// Files come and go while it looks.
#[test]
fn a_watched_directory() -> Result<()> {
    let mut work = Work::new("work-watch", "seen note.txt")?;
    let data = work.root("data", "rw")?;
    let text = format!(
        "const fs = require('node:fs'), path = require('node:path');\n\
         const place = {:?};\n\
         const watcher = fs.watch(place, (_, name) => {{ console.log('seen', name); watcher.close(); process.exit(0); }});\n\
         setTimeout(() => fs.writeFileSync(path.join(place, 'note.txt'), 'x'), 50);\n\
         setTimeout(() => {{ console.log('nothing seen'); process.exit(1); }}, 20000);\n",
        data.display().to_string()
    );
    let work = work.script(NODE, "main.cjs", &text)?;
    let note: &Path = &data.join("note.txt");
    work.everywhere(|| Ok(fs::remove_file(note)?))
}
