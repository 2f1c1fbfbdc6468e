//! Links: those that lead out of a root lead nowhere, whoever makes them and whenever.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    inside::{Inside, py},
    refused::Stage,
};

use super::{VIEWS, give, launch, tree};

const SECRET: &str = "GUARD-SECRET";
/// How often an outsider swaps the link during one run.
const SWAPS: u32 = 2000;

struct Ground {
    stage: Stage,
    root: PathBuf,
    secret: PathBuf,
}

impl Ground {
    fn new() -> Result<Self> {
        let stage = Stage::new("links")?;
        let root = tree(&stage, "root")?;
        let outside = stage.directory("outside")?;
        let secret = outside.join("secret");
        fs::write(&secret, SECRET)?;
        // Its own, and readable by all: ordinary permissions do not refuse it.
        give(&outside)?;
        Ok(Self { stage, root, secret })
    }
}

#[test]
fn out_of_the_root() -> Result<()> {
    for view in VIEWS {
        let Ground { stage, root, secret } = Ground::new()?;
        symlink(&secret, root.join("absolute"))?;
        symlink("../outside/secret", root.join("relative"))?;
        symlink("../outside", root.join("directory"))?;
        symlink("sub/inner", root.join("within"))?;
        for rights in ["r", "rw"] {
            let mut inside = Inside::start(launch(&stage, view).root(&root, rights))?;
            inside.gives(&format!("text({})", py(root.join("within"))), "an inner note")?;
            for name in ["absolute", "relative", "directory/secret", "../outside/secret"] {
                let link = py(root.join(name));
                inside.fails(&format!("text({link})"), &["ENOENT", "EACCES"])?;
                inside.fails(
                    &format!("write({link}, mode='a')"),
                    &["ENOENT", "EACCES", "EROFS"],
                )?;
                inside.fails(&format!("os.truncate({link}, 0)"), &["ENOENT", "EACCES", "EROFS"])?;
            }
            if rights == "rw" {
                // One of its own making.
                let own = root.join("own");
                inside.works(&format!("os.symlink({}, {})", py(&secret), py(&own)))?;
                inside.fails(&format!("text({})", py(&own)), &["ENOENT", "EACCES"])?;
            }
            inside.end()?;
        }
        ensure!(fs::read_to_string(&secret)? == SECRET, "the secret was changed");
    }
    Ok(())
}

/// Puts something else behind `path` in one step, again and again, until told to stop or the count is reached.
fn swap(path: &Path, harmless: &Path, leading_out: &Path) -> Result<()> {
    let fresh = path.with_extension("fresh");
    for round in 0..SWAPS {
        let target = if round % 2 == 0 { leading_out } else { harmless };
        symlink(target, &fresh)?;
        fs::rename(&fresh, path)?;
    }
    Ok(())
}

/// The last component, and a directory on the way.
#[test]
fn swapped_while_it_is_opened() -> Result<()> {
    for view in VIEWS {
        for directory in [false, true] {
            let Ground { stage, root, secret } = Ground::new()?;
            fs::create_dir(root.join("good"))?;
            fs::write(root.join("good/secret"), "harmless")?;
            give(&root)?;
            let link = root.join("flip");
            let outside = secret.parent().context("the secret lies in a directory")?;
            let (harmless, leading_out, opened) = if directory {
                (root.join("good"), outside.to_path_buf(), link.join("secret"))
            } else {
                (root.join("good/secret"), secret.clone(), link.clone())
            };
            symlink(&harmless, &link)?;
            let mut inside = Inside::start(launch(&stage, view).root(&root, "rw"))?;
            let batch = format!(
                "(lambda seen: {{str(key): seen.count(key) for key in set(seen)}})([attempt(lambda: text({})) for _ in range(500)])",
                py(&opened)
            );
            let done = AtomicBool::new(false);
            let (mut reads, mut refusals) = (0, 0);
            std::thread::scope(|scope| -> Result<()> {
                let swapper = scope.spawn(|| {
                    let result = swap(&link, &harmless, &leading_out);
                    done.store(true, Ordering::Release);
                    result
                });
                while !done.load(Ordering::Acquire) {
                    let seen = inside.works(&batch)?;
                    for (what, count) in seen.as_object().context("no counts")? {
                        let count = count.as_u64().unwrap_or_default();
                        match what.as_str() {
                            "harmless" => reads += count,
                            "ENOENT" | "EACCES" => refusals += count,
                            other => anyhow::bail!("{count} times `{other}` in {view}"),
                        }
                    }
                }
                swapper
                    .join()
                    .map_err(|_| anyhow::anyhow!("the swapper panicked"))?
            })?;
            // Both were met, or the race proves nothing.
            ensure!(
                reads > 0 && refusals > 0,
                "{reads} reads and {refusals} refusals in {view}"
            );
            inside.end()?;
        }
    }
    Ok(())
}

/// A second name would carry a file into other rights. Within one root it has the same, and git and npm need it.
#[test]
fn hard_links() -> Result<()> {
    for view in VIEWS {
        let Ground { stage, root, secret } = Ground::new()?;
        let reference = tree(&stage, "reference")?;
        let run = launch(&stage, view)
            .root(&root, "r")
            .root(&root.join("sub"), "rw")
            .root(&reference, "r");
        let mut inside = Inside::start(run)?;
        let new = py(root.join("sub/new"));
        let errnos = ["EPERM", "EACCES", "ENOENT", "EXDEV", "EROFS"];
        for file in [secret.clone(), reference.join("note"), root.join("note")] {
            inside.fails(&format!("os.link({}, {new})", py(&file)), &errnos)?;
        }
        for place in [
            root.join("new"),
            reference.join("new"),
            secret.with_extension("new"),
        ] {
            inside.fails(
                &format!("os.link({}, {})", py(root.join("sub/inner")), py(&place)),
                &errnos,
            )?;
            ensure!(!place.exists(), "a second name was made");
        }
        ensure!(!root.join("sub/new").exists(), "a second name was made");
        inside.works(&format!("os.link({}, {new})", py(root.join("sub/inner"))))?;
        inside.end()?;
    }
    Ok(())
}
