//! The audit trail on a disk that is full, or that cannot be written. Needs root for a small tmpfs in a mount
//! namespace of the test's own thread, which ends with it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use guard_agent::audit::{
    AuditError, AuditHandle, Body, Durability, Exit, Gap, GapKind, Number, Options, Origin, Report, Trail,
    VerifyOptions, verify,
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

/// Runs `test` in a thread with a tmpfs of `size` at the path it gets. Nothing outside sees the mount.
fn on_tmpfs(size: &str, test: impl FnOnce(&Path) -> Result<()> + Send + 'static) -> Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "this test mounts a tmpfs: run it as root"
    );
    let place = tempfile::tempdir()?;
    let path = place.path().to_owned();
    let options = format!("size={size},mode=0700");
    let thread = std::thread::spawn(move || -> Result<()> {
        let none = None::<&Path>;
        unshare(CloneFlags::CLONE_NEWNS).context("unshare the mount namespace")?;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).context("make mounts private")?;
        mount(
            Some("tmpfs"),
            &path,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(options.as_str()),
        )
        .context("mount")?;
        test(&path)
    });
    let Ok(result) = thread.join() else {
        bail!("the test panicked")
    };
    ensure!(
        fs::read_dir(place.path())?.next().is_none(),
        "the mount was seen outside"
    );
    result
}

fn exit(number: u64) -> Body {
    Body::Exit(Box::new(Exit {
        session: "s-1".into(),
        call: None,
        server: "files".into(),
        reason: "x".repeat(700),
        code: None,
        signal: None,
        duration_us: Number(number),
        resources: None,
        stderr_tail: None,
        cause: None,
        degraded: None,
    }))
}

/// Leaves less room than a page.
fn fill_up(at: &Path) -> Result<PathBuf> {
    use std::io::Write as _;
    let path = at.join("ballast");
    let mut file = fs::File::create(&path)?;
    while file.write_all(&[0; 4096]).is_ok() {}
    Ok(path)
}

fn append_until_full(trail: &mut Trail) -> Result<(u64, AuditError)> {
    for number in 0..10_000 {
        if let Err(error) = trail.append(&exit(number), Origin::Warden, Durability::Soon) {
            return Ok((number, error));
        }
    }
    bail!("the disk never got full")
}

fn is_full(error: &AuditError) -> bool {
    matches!(error, AuditError::Io { source, .. } if source.raw_os_error() == Some(nix::libc::ENOSPC))
}

fn good(dir: &Path) -> Result<Report> {
    let report = verify(dir, &VerifyOptions::default())?;
    ensure!(report.ok, "{:?}", report.first_bad);
    Ok(report)
}

/// A refused record leaves nothing, however often it is tried; with room again the chain goes on without a hole.
#[test]
fn a_full_disk_refuses_records_and_breaks_nothing() -> Result<()> {
    on_tmpfs("256k", |at| {
        let dir = at.join("audit");
        let options = Options {
            max_segment_bytes: 20_000,
            checkpoint_every_records: 10,
            ..Options::default()
        };
        let mut trail = Trail::open(&dir, options.clone())?;
        let ballast = at.join("ballast");
        fs::write(&ballast, vec![0; 100_000])?;
        let (taken, error) = append_until_full(&mut trail)?;
        ensure!(is_full(&error), "{error:?}");
        ensure!(taken > 50, "only {taken} records fitted");
        ensure!(error.refusal().hint.contains("room"), "{}", error.refusal());
        for number in 0..20 {
            let refused = trail.append(&exit(number), Origin::Warden, Durability::Sync);
            ensure!(
                refused.is_err_and(|error| is_full(&error)),
                "attempt {number} was taken"
            );
            let report = good(&dir)?;
            ensure!(
                report.records == trail.head().context("no head")?.0,
                "something of a refused record is there"
            );
        }
        fs::remove_file(&ballast)?;
        let before = trail.head().context("no head")?.0;
        for number in 0..30 {
            trail.append(&exit(number), Origin::Warden, Durability::Sync)?;
        }
        trail.close()?;
        let report = good(&dir)?;
        ensure!(report.records > before + 30 && report.unsigned == 0, "{report:?}");
        Ok(())
    })
}

/// A crash on the full disk, and the start after it: refused while it is full, repaired when there is room.
#[test]
fn a_start_on_a_full_disk_is_refused_and_changes_nothing() -> Result<()> {
    on_tmpfs("256k", |at| {
        let dir = at.join("audit");
        let mut trail = Trail::open(&dir, Options::default())?;
        for number in 0..20 {
            trail.append(&exit(number), Origin::Warden, Durability::Sync)?;
        }
        drop(trail);
        let segment = dir.join("000001.jsonl");
        let mut bytes = fs::read(&segment)?;
        bytes.truncate(bytes.len() - 100);
        fs::write(&segment, &bytes)?;
        let ballast = fill_up(at)?;
        let error = Trail::open(&dir, Options::default())
            .err()
            .context("it started on a full disk")?;
        ensure!(is_full(&error), "{error:?}");
        ensure!(fs::read(&segment)? == bytes, "the segment was changed");
        fs::remove_file(&ballast)?;
        Trail::open(&dir, Options::default())?.close()?;
        let text = fs::read_to_string(&segment)?;
        ensure!(text.contains(r#""kind":"torn-tail""#), "the gap is not told");
        good(&dir)?;
        Ok(())
    })
}

/// Through the writer thread: the caller is told, nobody hangs, the thread goes on when there is room.
#[test]
fn the_writer_thread_survives_a_full_disk() -> Result<()> {
    on_tmpfs("256k", |at| {
        let dir = at.join("audit");
        let handle = AuditHandle::spawn(Trail::open(&dir, Options::default())?)?;
        let gap = || Body::Gap(Gap::unknown(None, GapKind::RingFull));
        handle.append_blocking(gap(), Origin::Warden, Durability::Sync)?;
        let ballast = fill_up(at)?;
        let mut refused = 0;
        for number in 0..20 {
            if let Err(error) = handle.append_blocking(exit(number), Origin::Warden, Durability::Sync) {
                ensure!(is_full(&error), "{error:?}");
                refused += 1;
            }
        }
        ensure!(refused >= 10, "only {refused} of 20 were refused");
        fs::remove_file(ballast)?;
        handle.append_blocking(gap(), Origin::Warden, Durability::Sync)?;
        handle.close_blocking()?;
        good(&dir)?;
        Ok(())
    })
}

/// A disk turned read-only below us.
#[test]
fn a_read_only_directory_is_refused() -> Result<()> {
    on_tmpfs("256k", |at| {
        let dir = at.join("audit");
        Trail::open(&dir, Options::default())?.close()?;
        let none = None::<&Path>;
        mount(none, at, none, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, none).context("remount read-only")?;
        let error = Trail::open(&dir, Options::default())
            .err()
            .context("it started on a read-only disk")?;
        ensure!(matches!(&error, AuditError::Io { .. }), "{error:?}");
        ensure!(error.refusal().why.contains("ead-only"), "{}", error.refusal());
        Ok(())
    })
}
