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
        entry.uid, entry.gid, 1, entry.mtime, 0, 0, 0, 0, 0
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

    use super::*;

    struct Read {
        name: String,
        mode: u32,
        uid: u32,
        mtime: u32,
        bytes: Vec<u8>,
    }

    /// The archive as another implementation of the format reads it.
    fn read_back(archive: &[u8]) -> Vec<Read> {
        let mut rest = archive;
        let mut all = Vec::new();
        loop {
            let mut reader = ::cpio::newc::Reader::new(rest).unwrap();
            let entry = reader.entry();
            if entry.is_trailer() {
                return all;
            }
            let (name, mode, uid, mtime) =
                (entry.name().to_owned(), entry.mode(), entry.uid(), entry.mtime());
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            all.push(Read {
                name,
                mode,
                uid,
                mtime,
                bytes,
            });
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn another_reader_finds_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::write(&source, b"12345").unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        File::options()
            .write(true)
            .open(&source)
            .unwrap()
            .set_modified(time)
            .unwrap();
        let mut tree = Tree::default();
        tree.bytes("/etc/empty", b"", 0o600);
        tree.bytes("/bin/tool", b"\0\x01binary", 0o4755);
        tree.host_at(&source, Path::new("/home/odd name")).unwrap();
        tree.own(Path::new("/home"), 1000);
        tree.link("/lib", "usr/lib");
        let mut archive = Vec::new();
        write(&tree, &mut archive).unwrap();

        let all = read_back(&archive);
        let names: Vec<&str> = all.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "etc",
                "etc/empty",
                "home",
                "home/odd name",
                "lib",
                "usr",
                "usr/bin",
                "usr/bin/tool"
            ],
            "parents come first"
        );
        let find = |name: &str| all.iter().find(|entry| entry.name == name).unwrap();
        assert_eq!(
            (find("etc/empty").mode, find("etc/empty").bytes.len()),
            (0o100_600, 0)
        );
        assert_eq!(
            (find("usr/bin/tool").mode, find("usr/bin/tool").bytes.as_slice()),
            (0o104_755, &b"\0\x01binary"[..])
        );
        assert_eq!(
            (find("lib").mode, find("lib").bytes.as_slice()),
            (0o120_777, &b"usr/lib"[..])
        );
        let file = find("home/odd name");
        assert_eq!(
            (file.bytes.as_slice(), file.uid, file.mtime),
            (&b"12345"[..], 1000, 1_700_000_000)
        );
        assert_eq!(
            (find("home").mode, find("home").uid, find("etc").uid),
            (0o040_755, 1000, 0)
        );
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
