//! The type information inside a kernel as it boots: a `vmlinuz` is an ELF file, packed, behind code that unpacks it.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use goblin::elf::{Elf, SectionHeader};

use crate::apt;

/// How the file in it is packed: first bytes, program that unpacks it, Debian package of that.
const PACKERS: &[(&[u8], &str, &str)] = &[
    (&[0x02, 0x21, 0x4c, 0x18], "lz4", "lz4"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstd"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0x00], "xz", "xz-utils"),
];
const SECTION: &str = ".BTF";

// The setup header, as the kernel's `Documentation/arch/x86/boot.rst` has it.
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const SECTOR: usize = 512;

/// The `.BTF` section of the kernel that `vmlinuz` unpacks to.
pub(super) fn types(vmlinuz: &Path) -> Result<Vec<u8>> {
    let read = || {
        let image = std::fs::read(vmlinuz)?;
        let kernel = unpack(payload(&image)?)?;
        section(&kernel)
    };
    read().with_context(|| format!("read the type information of `{}`", vmlinuz.display()))
}

/// The packed file, with the four bytes behind it that say how long it is unpacked.
fn payload(image: &[u8]) -> Result<&[u8]> {
    ensure!(
        image.get(MAGIC..MAGIC + 4) == Some(b"HdrS"),
        "it has no x86 setup header"
    );
    let sectors = usize::from(*image.get(SETUP_SECTORS).context("it is cut short")?);
    let start = (sectors + 1) * SECTOR + word(image, PAYLOAD_OFFSET)?;
    let end = start + word(image, PAYLOAD_LENGTH)?;
    image
        .get(start..end)
        .context("it is shorter than its header says")
}

fn unpack(payload: &[u8]) -> Result<Vec<u8>> {
    let Some((_, program, package)) = PACKERS.iter().find(|(magic, ..)| payload.starts_with(magic)) else {
        bail!(
            "its payload is packed in a way unknown here: {:02x?}",
            payload.get(..6)
        );
    };
    apt::ensure_programs(&[(program, package)])?;
    let (packed, length) = payload
        .split_at_checked(payload.len().saturating_sub(4))
        .context("its payload is empty")?;
    // A file, because nobody reads what a pipe that is still being filled gives back.
    let mut file = tempfile::tempfile().context("make a temporary file")?;
    file.write_all(packed)
        .and_then(|()| file.seek(SeekFrom::Start(0)).map(drop))
        .context("write the payload")?;
    let done = Command::new(program)
        .args(["-d", "-c"])
        .stdin(Stdio::from(file))
        .output()
        .with_context(|| format!("start `{program}`"))?;
    ensure!(
        done.status.success() && done.stdout.len() == word(length, 0)?,
        "`{program}` gives {} bytes of it, {}: {}",
        done.stdout.len(),
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(done.stdout)
}

fn section(kernel: &[u8]) -> Result<Vec<u8>> {
    let elf = Elf::parse(kernel).context("parse the unpacked kernel")?;
    elf.section_headers
        .iter()
        .find(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(SECTION))
        .and_then(SectionHeader::file_range)
        .and_then(|range| kernel.get(range))
        .map(<[u8]>::to_vec)
        .with_context(|| format!("it has no `{SECTION}`"))
}

fn word(data: &[u8], at: usize) -> Result<usize> {
    let bytes = data.get(at..at + 4).context("it is cut short")?;
    Ok(u32::from_le_bytes(bytes.try_into()?) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One setup sector, then eight bytes of something else, then the payload.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2 * SECTOR + 8];
        image[SETUP_SECTORS] = 1;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET] = 8;
        image[PAYLOAD_LENGTH] = u8::try_from(payload.len()).unwrap();
        image.extend(payload);
        image.extend(b"signature");
        image
    }

    #[test]
    fn the_payload_is_where_the_header_says() {
        assert_eq!(payload(&image(b"packed")).unwrap(), b"packed");
        let whole = image(b"packed");
        assert!(payload(&whole[..2 * SECTOR + 8]).is_err());
        assert!(payload(&whole[..0x100]).is_err());
        assert!(payload(&[0; 4096]).is_err());
    }

    #[test]
    fn what_is_packed_in_an_unknown_way_is_an_error() {
        let error = format!("{:#}", unpack(b"BZh91AY&SY").unwrap_err());
        assert!(error.contains("packed in a way unknown here"), "{error}");
    }
}
