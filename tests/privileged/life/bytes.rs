//! What is relayed is what was said: any bytes, any length, at the reader's pace.

use std::{
    io::{Read as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::life::{left::Role, stage::Stage};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use sha2::{Digest as _, Sha256};

use super::{ended, on_stage};

/// Pseudo-random bytes, newlines and NULs among them.
fn noise(length: usize) -> Vec<u8> {
    let mut chance = guard_tests::life::chance::Chance::new(7);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&chance.number().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Sends while it reads, and returns what came back.
fn echoed(stage: &Stage, sent: Vec<u8>) -> Result<Vec<u8>> {
    let mut session = stage.start(&mut stage.puppet(["echo"]))?;
    let mut stdin = session.stdin.take().context("no input")?;
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let done = session.wait()?;
    writer.join().ok().context("the writer panicked")??;
    ended(&done, 0)?;
    Ok(done.stdout)
}

#[test]
fn a_line_of_8_mib_both_ways() -> Result<()> {
    on_stage(|stage| {
        let mut line = vec![b'a'; 8 << 20];
        line.push(b'\n');
        let back = echoed(stage, line.clone())?;
        ensure!(
            back.len() == line.len(),
            "{} of {} bytes came back",
            back.len(),
            line.len()
        );
        ensure!(back == line, "the line came back changed");
        Ok(())
    })
}

#[test]
fn any_bytes_both_ways() -> Result<()> {
    on_stage(|stage| {
        // No newline at the end, and 3 MiB of what no text has.
        let sent = noise((3 << 20) + 17);
        let back = echoed(stage, sent.clone())?;
        ensure!(
            back.len() == sent.len(),
            "{} of {} bytes came back",
            back.len(),
            sent.len()
        );
        ensure!(back == sent, "the bytes came back changed");
        Ok(())
    })
}

#[test]
fn raw_bytes_of_the_server() -> Result<()> {
    on_stage(|stage| {
        let done = stage.finish(&mut stage.puppet(["raw"]), b"")?;
        ended(&done, 0)?;
        ensure!(
            done.stdout == [0, 0xff, 0x1b, b'\r', b'\n', 0x80, 0xc3, b'\n'],
            "{:?}",
            done.stdout
        );
        Ok(())
    })
}

fn resident(pid: i32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .context("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("no number")?.parse()?)
}

fn expected(bytes: usize) -> String {
    let mut hash = Sha256::new();
    let block: Vec<u8> = (0..251 * 256).map(|at| (at % 251) as u8).collect();
    let mut left = bytes;
    while left > 0 {
        let count = left.min(block.len());
        hash.update(&block[..count]);
        left -= count;
    }
    format!("{:x}", hash.finalize())
}

#[test]
fn a_client_that_stops_reading() -> Result<()> {
    const BYTES: usize = 100 << 20;
    on_stage(|stage| {
        // The server ends right after its last byte: what the client has not read then must arrive all the same.
        let mut session = stage.start(&mut stage.puppet([format!("flood={BYTES}"), "exit=0".into()]))?;
        let warden = stage.wait_for(Role::Warden)?;
        let mut out = session.stdout.take().context("no output")?;
        let mut first = [0; 1];
        out.read_exact(&mut first)?;
        let before = (resident(session.pid())?, resident(warden)?);
        std::thread::sleep(Duration::from_millis(700));
        let after = (resident(session.pid())?, resident(warden)?);
        eprintln!(
            "resident, KiB: gateway {} -> {}, warden {} -> {}",
            before.0, after.0, before.1, after.1
        );
        ensure!(
            after.0 < before.0 + 1024 && after.1 < before.1 + 1024,
            "memory grew: {before:?} -> {after:?} KiB"
        );

        let mut hash = Sha256::new_with_prefix(first);
        let mut buffer = vec![0; 1 << 20];
        let mut total = 1;
        loop {
            let count = out.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
            total += count;
        }
        let done = session.wait()?;
        ended(&done, 0)?;
        ensure!(total == BYTES, "{total} of {BYTES} bytes arrived");
        ensure!(
            format!("{:x}", hash.finalize()) == expected(BYTES),
            "the bytes arrived changed"
        );
        Ok(())
    })
}

/// The server is long dead when the client comes back to read.
#[test]
fn the_last_words_wait_for_a_slow_client() -> Result<()> {
    const BYTES: usize = 120_000;
    on_stage(|stage| {
        let mut session = stage.start(&mut stage.puppet([format!("flood={BYTES}"), "exit=0".into()]))?;
        let mut out = session.stdout.take().context("no output")?;
        // More than one pipe holds, less than all buffers together: the server ends, its words are on the way.
        stage.wait_until("the server lives on", || {
            let left = stage.left();
            (left.pids(Role::Server).is_empty()
                && stage
                    .records()
                    .is_ok_and(|all| all.iter().any(|one| one.kind == "exit")))
            .then_some(())
        })?;
        std::thread::sleep(Duration::from_millis(2500));
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes)?;
        let done = session.wait()?;
        ended(&done, 0)?;
        ensure!(bytes.len() == BYTES, "{} of {BYTES} bytes arrived", bytes.len());
        Ok(())
    })
}

fn non_blocking(fd: &OwnedFd) -> Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(fd.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Some clients hand out descriptors that do not block.
#[test]
fn descriptors_that_do_not_block() -> Result<()> {
    on_stage(|stage| {
        let (stdin, feed) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let (take, stdout) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        non_blocking(&stdin)?;
        non_blocking(&stdout)?;
        let mut command = stage.puppet(["echo"]);
        command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout));
        let session = stage.start(&mut command)?;
        drop(command);
        // Silence first: there is nothing to read yet.
        std::thread::sleep(Duration::from_millis(400));
        let sent = noise(1 << 20);
        let writer = std::thread::spawn({
            let sent = sent.clone();
            move || std::fs::File::from(feed).write_all(&sent)
        });
        // Nothing is read for a while: there is no room to write.
        std::thread::sleep(Duration::from_millis(400));
        let mut back = Vec::new();
        std::fs::File::from(take).read_to_end(&mut back)?;
        writer.join().ok().context("the writer panicked")??;
        let done = session.wait()?;
        ended(&done, 0)?;
        ensure!(
            back == sent,
            "{} of {} bytes came back, or changed",
            back.len(),
            sent.len()
        );
        Ok(())
    })
}
