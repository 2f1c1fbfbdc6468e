//! Kernel modules: where they are, what they need first, and their bytes unpacked.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use walkdir::WalkDir;

/// The modules of one kernel, by name.
///
/// Debian's packages bring no `modules.dep` (their installation makes it), so dependencies are read from the
/// modules themselves.
#[derive(Debug, Clone)]
pub(crate) struct Modules {
    files: BTreeMap<String, PathBuf>,
}

/// A module ready to load.
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

impl Modules {
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        for entry in WalkDir::new(dir) {
            let path = entry
                .with_context(|| format!("list `{}`", dir.display()))?
                .into_path();
            if let Some(name) = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(module_name)
            {
                files.insert(name, path);
            }
        }
        Ok(Self { files })
    }

    /// The named modules with what they need, in load order. A name this kernel has no module for is taken
    /// as built in: what needs it will say so when it is not.
    pub(crate) fn load_order(&self, names: &[String]) -> Result<Vec<Module>> {
        let mut order = Vec::new();
        for name in names {
            self.visit(&name.replace('-', "_"), &mut order, 0)?;
        }
        Ok(order)
    }

    fn visit(&self, name: &str, order: &mut Vec<Module>, depth: usize) -> Result<()> {
        ensure!(depth < 32, "the dependencies of module `{name}` form a circle");
        if order.iter().any(|module| module.name == name) {
            return Ok(());
        }
        let Some(path) = self.files.get(name) else {
            return Ok(());
        };
        let bytes = read(path)?;
        for needed in depends(&bytes).with_context(|| format!("read module `{}`", path.display()))? {
            self.visit(&needed, order, depth + 1)?;
        }
        order.push(Module {
            name: name.to_owned(),
            bytes,
        });
        Ok(())
    }
}

/// `virtio_rng` of `virtio-rng.ko.xz`: the kernel takes both spellings for the same name.
fn module_name(file: &str) -> Option<String> {
    let (name, rest) = file.split_once(".ko")?;
    matches!(rest, "" | ".xz").then(|| name.replace('-', "_"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    if path.extension().is_some_and(|extension| extension == "xz") {
        let done = Command::new("xz")
            .arg("-dc")
            .arg(path)
            .output()
            .context("start `xz`")?;
        if !done.status.success() {
            bail!(
                "unpack `{}`: {}",
                path.display(),
                String::from_utf8_lossy(&done.stderr)
            );
        }
        return Ok(done.stdout);
    }
    fs::read(path).with_context(|| format!("read `{}`", path.display()))
}

fn depends(module: &[u8]) -> Result<Vec<String>> {
    let elf = goblin::elf::Elf::parse(module).context("parse the ELF file")?;
    let info = elf
        .section_headers
        .iter()
        .find(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(".modinfo"))
        .and_then(goblin::elf::SectionHeader::file_range)
        .and_then(|range| module.get(range))
        .context("it has no `.modinfo`")?;
    Ok(depends_field(info))
}

fn depends_field(info: &[u8]) -> Vec<String> {
    let field = info
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(b"depends="));
    let text = String::from_utf8_lossy(field.unwrap_or_default());
    text.split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalized() {
        assert_eq!(module_name("virtio-rng.ko.xz").as_deref(), Some("virtio_rng"));
        assert_eq!(module_name("overlay.ko").as_deref(), Some("overlay"));
        assert_eq!(module_name("modules.order"), None);
        assert_eq!(module_name("x.ko.zst"), None);
    }

    #[test]
    fn dependencies_are_read_from_the_module_information() {
        assert_eq!(
            depends_field(b"license=GPL\0depends=virtio-ring,virtio\0name=x\0"),
            ["virtio_ring", "virtio"]
        );
        assert_eq!(depends_field(b"license=GPL\0depends=\0"), Vec::<String>::new());
        assert_eq!(depends_field(b"xdepends=a\0"), Vec::<String>::new());
    }
}
