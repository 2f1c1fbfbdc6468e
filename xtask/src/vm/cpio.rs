//! Writes a [`Tree`] as a `newc` cpio archive, the format of an initramfs.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::tree::{Entry, Kind, Tree};

const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

/// One archive. The kernel unpacks several of them written one after the other.
pub(crate) fn write(tree: &Tree, out: &mut impl Write) -> Result<()> {
    for (index, (path, entry)) in tree.entries().enumerate() {
        // The kernel treats equal inode numbers of files with links as one file; these are all distinct.
        let inode = u32::try_from(index + 1).context("too many files")?;
        member(inode, path, entry, out).with_context(|| format!("archive `{}`", path.display()))?;
    }
    header(out, 0, 0, &Entry::root(Kind::Directory, 0), 0, b"TRAILER!!!")?;
    Ok(())
}

fn member(inode: u32, path: &Path, entry: &Entry, out: &mut impl Write) -> Result<()> {
    let name = path.strip_prefix("/").unwrap_or(path).as_os_str().as_bytes();
    match &entry.kind {
        Kind::Directory => header(out, inode, DIRECTORY, entry, 0, name)?,
        Kind::Link(target) => {
            let target = target.as_os_str().as_bytes();
            header(out, inode, SYMLINK, entry, target.len() as u64, name)?;
            padded(out, target)?;
        }
        Kind::Bytes(bytes) => {
            header(out, inode, REGULAR, entry, bytes.len() as u64, name)?;
            padded(out, bytes)?;
        }
        Kind::File(source) => {
            let file = File::open(source).with_context(|| format!("open `{}`", source.display()))?;
            let size = file.metadata().context("read its size")?.len();
            header(out, inode, REGULAR, entry, size, name)?;
            let copied = io::copy(&mut file.take(size), out).context("copy its bytes")?;
            ensure!(copied == size, "it shrank while it was read");
            pad(out, size)?;
        }
    }
    Ok(())
}

fn header(out: &mut impl Write, inode: u32, kind: u32, entry: &Entry, size: u64, name: &[u8]) -> Result<()> {
    let size = u32::try_from(size).context("the format holds files up to 4 GiB")?;
    let mode = if kind == 0 { 0 } else { kind | entry.mode };
    let name_size = name.len() + 1;
    write!(
        out,
        "070701{inode:08X}{mode:08X}{:08X}{:08X}{:08X}{:08X}{size:08X}{:08X}{:08X}{:08X}{:08X}{name_size:08X}{:08X}",
        entry.uid, entry.gid, 1, 0, 0, 0, 0, 0, 0
    )
    .context("write a header")?;
    out.write_all(name).context("write a name")?;
    out.write_all(&[0]).context("write a name")?;
    pad(out, (110 + name_size) as u64).context("write a header")?;
    Ok(())
}

fn padded(out: &mut impl Write, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).context("write bytes")?;
    pad(out, bytes.len() as u64).context("write bytes")
}

fn pad(out: &mut impl Write, size: u64) -> Result<()> {
    out.write_all(&[0; 3][..(size.wrapping_neg() % 4) as usize])
        .context("write padding")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::process::{Command, Stdio};

    use super::*;

    /// GNU cpio is the judge of the format, where it is installed; the machines' boots are the other.
    #[test]
    fn another_reader_unpacks_what_was_written() {
        if !crate::apt::in_path("cpio") {
            eprintln!("skipped: no `cpio` here");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::write(&source, b"12345").unwrap();
        let mut tree = Tree::default();
        tree.bytes("/etc/empty", b"", 0o600);
        tree.bytes("/bin/tool", b"\0\x01binary", 0o755);
        tree.file("/data/odd name", &source, 0o644);
        tree.link("/lib", "usr/lib");
        let mut archive = Vec::new();
        write(&tree, &mut archive).unwrap();
        assert_eq!(archive.len() % 4, 0);

        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        let mut cpio = Command::new("cpio")
            .args(["--extract", "--quiet", "--no-absolute-filenames"])
            .current_dir(&root)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        cpio.stdin.take().unwrap().write_all(&archive).unwrap();
        assert!(cpio.wait().unwrap().success());
        assert_eq!(fs::read(root.join("usr/bin/tool")).unwrap(), b"\0\x01binary");
        assert_eq!(fs::read(root.join("data/odd name")).unwrap(), b"12345");
        assert_eq!(fs::metadata(root.join("etc/empty")).unwrap().size(), 0);
        assert_eq!(
            fs::metadata(root.join("etc/empty")).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_link(root.join("lib")).unwrap(), Path::new("usr/lib"));
    }

    #[test]
    fn bytes_are_as_the_format_says() {
        let mut tree = Tree::default();
        tree.bytes("/a", b"hello", 0o644);
        let mut archive = Vec::new();
        write(&tree, &mut archive).unwrap();
        let text = String::from_utf8(archive).unwrap();
        let zeros = "00000000";
        let mut expected = format!(
            "07070100000001{:08X}{zeros}{zeros}00000001{zeros}00000005",
            0o100_644
        );
        expected.push_str(&zeros.repeat(4));
        expected.push_str("00000002");
        expected.push_str(zeros);
        expected.push_str("a\0hello\0\0\0");
        assert!(text.starts_with(&expected), "{text:?}\n{expected:?}");
        assert!(text.contains("TRAILER!!!\0"));
    }
}
