//! Real programs under the strictest filter of a sandbox with namespaces: they do their work, and set off nothing.

use std::path::Path;

use anyhow::Result;

use crate::harness::probe_in;

/// Runs a program under that filter; it must do its work and set off nothing but what is named.
fn program(directory: &Path, expected: &str, noise: &[&str], command: &[&str]) -> Result<()> {
    let run = probe_in(directory, "closed", "exec", command)?;
    run.assert_ok();
    assert_eq!(
        run.stdout().trim(),
        expected,
        "{}",
        String::from_utf8_lossy(&run.output.stderr)
    );
    let loud: Vec<_> = run
        .records
        .iter()
        .filter(|record| !noise.contains(&record.op.as_str()))
        .collect();
    assert!(loud.is_empty(), "{loud:?}");
    Ok(())
}

const PYTHON: &str = "
import asyncio, threading, subprocess, sqlite3, os, tempfile, multiprocessing, signal, select, mmap, hashlib, time
t = [threading.Thread(target=lambda: None) for _ in range(8)]
[x.start() for x in t]; [x.join() for x in t]
async def main():
    p = await asyncio.create_subprocess_exec('/bin/echo', 'sub', stdout=asyncio.subprocess.PIPE)
    out, _ = await p.communicate()
    await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(10)))
    await asyncio.to_thread(os.getpid)
    return out.decode().strip()
assert asyncio.run(main()) == 'sub'
assert subprocess.run(['/bin/sh', '-c', 'echo hi | cat'], capture_output=True, text=True).stdout == 'hi\\n'
with tempfile.TemporaryDirectory() as d:
    db = sqlite3.connect(d + '/x.db'); db.execute('pragma journal_mode=wal')
    db.execute('create table t(a)'); db.executemany('insert into t values (?)', [(i,) for i in range(100)]); db.commit()
    assert db.execute('select sum(a) from t').fetchone() == (4950,); db.close()
    open(d + '/a', 'w').write('x'); os.chmod(d + '/a', 0o640); os.rename(d + '/a', d + '/b'); os.link(d + '/b', d + '/c')
    import shutil; shutil.copy2(d + '/b', d + '/e'); os.mkfifo(d + '/f'); os.utime(d + '/b')
q = multiprocessing.get_context('fork').SimpleQueue()
p = multiprocessing.get_context('fork').Process(target=q.put, args=(7,)); p.start(); assert q.get() == 7; p.join()
mmap.mmap(-1, 4096).close(); os.pidfd_open(os.getpid()); os.sched_getaffinity(0); os.eventfd(0)
signal.setitimer(signal.ITIMER_REAL, 0.01); signal.signal(signal.SIGALRM, lambda *a: None); time.sleep(0.02)
a, b = os.pipe(); os.write(b, b'1'); assert os.read(a, 1) == b'1'
import socket; x, y = socket.socketpair(); x.sendall(b'p'); assert y.recv(1) == b'p'
print('done')
";

const NODE: &str = "
const fs = require('fs'), os = require('os'), cp = require('child_process'), { Worker } = require('worker_threads');
const dir = fs.mkdtempSync(os.tmpdir() + '/n-');
(async () => {
  await fs.promises.writeFile(dir + '/a', 'x'); await fs.promises.copyFile(dir + '/a', dir + '/b');
  await fs.promises.chmod(dir + '/b', 0o600); await fs.promises.rename(dir + '/b', dir + '/c');
  const watcher = fs.watch(dir, () => {}); watcher.close();
  const w = new Worker('require(\"worker_threads\").parentPort.postMessage(1)', { eval: true });
  await new Promise((ok) => w.on('message', ok)); await w.terminate();
  const out = cp.execFileSync('/bin/echo', ['sub']).toString().trim();
  const child = cp.spawn(process.execPath, ['-e', 'process.send(2)'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const m = await new Promise((ok) => child.on('message', ok)); await new Promise((ok) => child.on('exit', ok));
  require('crypto').randomBytes(8); await new Promise((ok) => require('zlib').gzip('x', ok));
  await new Promise((ok) => setTimeout(ok, 5));
  fs.rmSync(dir, { recursive: true });
  console.log(out, m);
})();
";

#[test]
fn python_works() -> Result<()> {
    program(Path::new("/"), "done", &[], &["/usr/bin/python3", "-c", PYTHON])
}

#[test]
fn node_works() -> Result<()> {
    // Some versions of node ask for a ring at start, and fall back.
    program(
        Path::new("/"),
        "sub 2",
        &["io_uring_setup"],
        &["/usr/bin/node", "-e", NODE],
    )
}

#[test]
fn git_and_shell_tools_work() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let script = "set -e; export HOME=$PWD; git init -q .; echo a > f; git add f; \
        git -c user.name=user1 -c user.email=user1@example.org commit -q -m first; \
        git mv f g; git -c user.name=user1 -c user.email=user1@example.org commit -qam second; git gc -q; \
        cp -a g h; tar cf t.tar g h; gzip t.tar; find . -name g | xargs cat > /dev/null; ls -la > /dev/null; \
        git log --oneline | wc -l";
    // A name lookup asks a cache daemon over a unix socket first; the file is read when that fails.
    program(directory.path(), "2", &["socket"], &["/bin/sh", "-c", script])?;
    let sql = "create table t(a); insert into t values (1),(2); select sum(a) from t;";
    program(
        directory.path(),
        "3",
        &["socket"],
        &["/usr/bin/sqlite3", "x.db", sql],
    )?;
    program(directory.path(), "", &[], &["/bin/true"])
}
