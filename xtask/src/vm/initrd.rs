//! The initramfs of a machine: base files, modules, the case, and cached archives of large trees.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};

use super::kernel::Kernel;
use super::spec::{self, Spec};
use super::tree::Tree;
use super::{Case, cache_dir, cpio, payload};

/// Modules every guest loads, where the kernel has them as modules.
const MODULES: &[&str] = &["virtio_pci", "virtio_blk", "overlay", "vsock"];

/// Writes the initramfs, and returns its size. The kernel takes archives one after the other, so the large
/// trees keep their archive in the cache. Nothing is compressed: unpacking would run in the emulator.
pub(crate) fn build(case: &Case, kernel: &Kernel, timeout: Duration, path: &Path) -> Result<u64> {
    let init = payload::init()?;
    let mut tree = payload::base();
    tree.file("/init", init, 0o755);
    let mut names: Vec<String> = MODULES.iter().map(|name| (*name).to_owned()).collect();
    names.extend(case.modules.iter().cloned());
    let mut modules = Vec::new();
    for module in kernel.modules.load_order(&names)? {
        let at = format!("/.vm/modules/{}.ko", module.name);
        tree.bytes(&at, &module.bytes, 0o600);
        modules.push(at);
    }
    let spec = Spec {
        argv: case.argv.clone(),
        env: environment(case),
        modules,
        timeout_s: timeout.as_secs(),
        disk: case.disk_mb.is_some(),
        hide: case.hide.clone(),
    };
    tree.bytes(
        spec::SPEC_PATH,
        &serde_json::to_vec(&spec).context("encode the case")?,
        0o600,
    );

    let file = File::create(path).with_context(|| format!("create `{}`", path.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    cpio::write(&tree, &mut out)?;
    for layer in &case.layers {
        let mut archive = File::open(layer_archive(layer)?).context("open a cached archive")?;
        out.flush().context("write the initramfs")?;
        io::copy(&mut archive, out.get_mut()).context("append a cached archive")?;
    }
    if !case.files.is_empty() {
        cpio::write(&case.files, &mut out)?;
    }
    out.flush().context("write the initramfs")?;
    Ok(out
        .get_ref()
        .metadata()
        .context("read the initramfs' size")?
        .len())
}

fn environment(case: &Case) -> Vec<(String, String)> {
    let defaults = [
        (
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
        ("RUST_BACKTRACE", "1"),
    ];
    let mut all: Vec<_> = defaults
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    all.extend(case.env.iter().cloned());
    all
}

fn layer_archive(layer: &Tree) -> Result<PathBuf> {
    // One that others wait for is cheaper than one each.
    let _lock = super::lock(&cache_dir())?;
    let dir = cache_dir().join("layers");
    fs::create_dir_all(&dir).with_context(|| format!("create `{}`", dir.display()))?;
    let path = dir.join(format!("{}.cpio", layer.key()?));
    if let Ok(file) = File::options().append(true).open(&path) {
        let _ = file.set_modified(SystemTime::now());
        return Ok(path);
    }
    drop_old(&dir);
    eprintln!("[vm] archiving {} MB of files", layer.size()? >> 20);
    let mut fresh = tempfile::NamedTempFile::new_in(&dir).context("create an archive")?;
    let mut out = BufWriter::with_capacity(1 << 20, fresh.as_file_mut());
    cpio::write(layer, &mut out)?;
    out.flush().context("write an archive")?;
    drop(out);
    fresh
        .persist(&path)
        .with_context(|| format!("move an archive to `{}`", path.display()))?;
    Ok(path)
}

/// Archives no machine used for a week.
fn drop_old(dir: &Path) {
    let week = Duration::from_secs(7 * 24 * 3600);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let age = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > week) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
