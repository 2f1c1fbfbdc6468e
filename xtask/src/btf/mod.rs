//! `cargo xtask btf-fixtures`: the type information of stock Debian kernels, cut down to what the agent's tests ask.
//!
//! Order of reading: `wanted` (what a fixture has), `image` (out of a kernel's file), `format`, `cut`.

mod cut;
mod format;
mod image;
#[cfg(test)]
mod tests;
mod wanted;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    page,
    vm::{cache_dir, kernel},
};

const FIXTURES: &str = "guard-agent/src/warden/kernel/btf/fixtures";
const PAGE: &str = "README.md";
const TABLE: &str = "kernels";
/// What a file of the repository may be long.
const BYTES_MOST: usize = 60_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Kernel series: two numbers as in `6.12`, or `newest`
    #[arg(long, value_delimiter = ',', default_value = "5.10,6.1,6.12,6.18,newest")]
    kernel: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = crate::workspace().join(FIXTURES);
    let mut made = 0;
    for series in &args.kernel {
        match kernel::get(&cache_dir(), series) {
            Ok(kernel) => {
                make(&kernel, &folder)?;
                made += 1;
            }
            // Debian keeps no kernel for ever, and the fixture made from it is still true.
            Err(error) => eprintln!("[btf {series}] cannot be had, what is committed stays: {error:#}"),
        }
    }
    ensure!(made > 0, "none of these kernels can be had");
    let page = folder.join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("read `{}`", page.display()))?;
    let text = page::between(&text, TABLE, &table(&folder)?)?;
    fs::write(&page, text).with_context(|| format!("write `{}`", page.display()))
}

fn make(kernel: &kernel::Kernel, folder: &Path) -> Result<()> {
    let whole = image::types(&kernel.vmlinuz)?;
    let context = || format!("cut the types of `{}`", kernel.vmlinuz.display());
    let types = format::read(&whole).with_context(context)?;
    let cut = cut::cut(&types).with_context(context)?;
    let data = format::write(&cut.types, &package(&kernel.vmlinuz)?).with_context(context)?;
    // Whoever reads a fixture would otherwise be the first to find out.
    ensure!(
        format::read(&data)? == cut.types,
        "the fixture of {} reads otherwise than it was written",
        kernel.version
    );
    ensure!(
        data.len() <= BYTES_MOST,
        "the fixture of {} has {} bytes, {BYTES_MOST} at most",
        kernel.version,
        data.len()
    );
    let name = format!("{}.btf", series(&kernel.version));
    let path = folder.join(&name);
    fs::write(&path, &data).with_context(|| format!("write `{}`", path.display()))?;
    println!(
        "{name}: {} of {} types, {} bytes of {}; {} has not {}",
        cut.types.len(),
        types.len(),
        data.len(),
        whole.len(),
        kernel.version,
        cut.absent.join(", ")
    );
    Ok(())
}

/// The package a kernel in the cache is from: its folder there, as in
/// `linux-image-6.12.118+deb13-cloud-amd64_6.12.118-1`.
fn package(vmlinuz: &Path) -> Result<String> {
    vmlinuz
        .parent()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str())
        .map(str::to_owned)
        .with_context(|| format!("`{}` is in no folder of a package", vmlinuz.display()))
}

/// `6.12` of `6.12.118`: a fixture made anew from a later package of the series takes the place of the earlier one.
fn series(version: &str) -> &str {
    let end = version
        .match_indices('.')
        .nth(1)
        .map_or(version.len(), |(at, _)| at);
    version.get(..end).unwrap_or(version)
}

/// Which fixture is of which package: from all that are there, of which this run may have made some only.
fn table(folder: &Path) -> Result<String> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list `{}`", folder.display()))? {
        let path: PathBuf = entry.context("list the fixtures")?.path();
        if path.extension().is_some_and(|extension| extension == "btf") {
            let context = || format!("read `{}`", path.display());
            let data = fs::read(&path).with_context(context)?;
            let note = format::note(&data).with_context(context)?;
            let (package, version) = note.split_once('_').unwrap_or((&note, ""));
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            rows.push(format!("| `{name}` | `{package}` | {version} |"));
        }
    }
    rows.sort();
    Ok(format!(
        "| fixture | Debian package | version |\n|---|---|---|\n{}",
        rows.join("\n")
    ))
}
