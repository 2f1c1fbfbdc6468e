//! A root that is another directory by the time init looks: what the warden checked and recorded is what is mounted,
//! or nothing is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{agent::AgentBuilder, inside::py};

use super::Place;

const LAUNCHES: u32 = 30;

/// Exchanges two names as fast as it can.
struct Swapper {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    fn start(one: std::path::PathBuf, other: std::path::PathBuf) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (stop, count) = (stop.clone(), count.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let flags = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
                    let swapped = nix::fcntl::renameat2(
                        nix::fcntl::AT_FDCWD,
                        &one,
                        nix::fcntl::AT_FDCWD,
                        &other,
                        flags,
                    );
                    count.fetch_add(u64::from(swapped.is_ok()), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_micros(300));
                }
            }
        });
        Self {
            stop,
            count,
            thread: Some(thread),
        }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(std::thread::JoinHandle::join));
    }
}

#[test]
fn the_recorded_object_is_the_one_inside() -> Result<()> {
    let place = Place::new("swap")?;
    let (root, other) = (place.dir("swapped")?, place.dir("other")?);
    for (dir, name) in [(&root, "one"), (&other, "two")] {
        let file = dir.join("who");
        std::fs::write(&file, name)?;
        place.give(&file)?;
    }
    use std::os::unix::fs::MetadataExt as _;
    let names = [(root.metadata()?.ino(), "one"), (other.metadata()?.ino(), "two")];
    let swapper = Swapper::start(root.clone(), other);
    let script = format!("print(open({}).read())", py(root.join("who")));
    let (mut ran, mut replaced) = (0, 0);
    for round in 0..LAUNCHES {
        let mut agent = AgentBuilder::new(&place.bench)
            .started(place.start()?)
            .root(&root, "r")
            .command(["/usr/bin/python3", "-I", "-c", &script]);
        if super::bare()? {
            // Without mounts a path is whatever is there: only Landlock's rule is the object's.
            agent = agent.flag("--allow-unenforced");
        }
        let before = place
            .bench
            .records()
            .map(|records| records.len())
            .unwrap_or_default();
        let mut live = agent.spawn()?;
        // Its input stays open until it has spoken: a server whose client is gone has little time left.
        let said = live.line(super::LONG).map_err(|error| format!("{error:#}"));
        if let Err(error) = &said
            && error.contains("it was replaced while the sandbox was made")
        {
            replaced += 1;
            continue;
        }
        drop(live.finish(super::LONG)?);
        let records = place.bench.records()?;
        let launch = records
            .iter()
            .skip(before)
            .find(|record| record.kind == "launch")
            .with_context(|| format!("round {round}: {said:?}"))?;
        let inode = launch.field("roots").and_then(|roots| roots[0]["ino"].as_u64());
        let inode = inode.with_context(|| format!("no inode: {launch:?}"))?;
        let recorded = names.iter().find(|(ino, _)| *ino == inode).map(|(_, name)| *name);
        match &said {
            Ok(line) => ensure!(
                Some(line.as_str()) == recorded,
                "round {round}: inside is `{line}`, recorded `{recorded:?}`"
            ),
            // Bare: the path is the other one now, which no rule is for.
            Err(error) => {
                ensure!(super::bare()? && error.contains("PermissionError"), "{error}");
                continue;
            }
        }
        ran += 1;
    }
    let swaps = swapper.count.load(Ordering::Relaxed);
    eprintln!("{swaps} swaps, {LAUNCHES} launches: {ran} ran, {replaced} refused");
    ensure!(swaps > 100, "only {swaps} swaps");
    ensure!(
        super::bare()? || replaced > 0,
        "no launch met a swap: nothing was tested"
    );
    Ok(())
}
