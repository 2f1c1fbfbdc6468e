//! Reads from an ELF file what its loader will ask for, and nothing else.
//!
//! Only headers, the interpreter's name and the dynamic section are read: `node` is a file of 95 MB
//! whose symbols nobody needs here, and a hostile file must not make us map or allocate much.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::{ffi::OsStrExt as _, fs::FileExt as _},
    path::PathBuf,
};

use goblin::{
    container::{Container, Ctx, Endian},
    elf::{
        Dynamic, Header, ProgramHeader,
        dynamic::{
            DF_1_NODEFLIB, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB,
        },
        header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, ET_DYN, ET_EXEC},
        program_header::{PT_DYNAMIC, PT_INTERP, PT_LOAD},
    },
};

const HEADER: usize = 64;
/// More than any real file has; a bound on what a hostile one makes us read.
const MAX_SEGMENTS: u16 = 512;
const MAX_DYNAMIC: u64 = 256 << 10;
const MAX_NAME: usize = 4096;

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = goblin::elf::header::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = goblin::elf::header::EM_AARCH64;

#[derive(Debug, thiserror::Error)]
pub(super) enum BadElf {
    #[error("it is not an ELF file")]
    NotElf,
    #[error("it is built for another architecture ({0}), this machine runs {arch}", arch = std::env::consts::ARCH)]
    Foreign(&'static str),
    #[error("its ELF structure is damaged: {0}")]
    Damaged(&'static str),
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// What a loader needs to know of a file.
#[derive(Debug, Default)]
pub(super) struct Elf {
    pub(super) interpreter: Option<PathBuf>,
    pub(super) soname: Option<OsString>,
    pub(super) needed: Vec<OsString>,
    pub(super) rpath: Option<OsString>,
    pub(super) runpath: Option<OsString>,
    /// `-z nodefaultlib`: neither cache nor default directories.
    pub(super) no_default: bool,
}

pub(super) fn read(file: &File) -> Result<Elf, BadElf> {
    let mut raw = [0_u8; HEADER];
    let length = read_up_to(file, &mut raw, 0)?;
    let header = parse_header(&raw, length)?;
    let context = Ctx::new(Container::Big, Endian::Little);
    let segments = segments(file, &header, context)?;
    let mut elf = Elf::default();
    if let Some(segment) = segments.iter().find(|segment| segment.p_type == PT_INTERP) {
        let length = usize::try_from(segment.p_filesz).unwrap_or(usize::MAX);
        if length > MAX_NAME {
            return Err(BadElf::Damaged("the interpreter's name is too long"));
        }
        let mut name = vec![0; length];
        exact(
            file,
            &mut name,
            segment.p_offset,
            "the interpreter's name lies outside the file",
        )?;
        elf.interpreter = Some(PathBuf::from(until_nul(&name).to_owned()));
    }
    if let Some(segment) = segments.iter().find(|segment| segment.p_type == PT_DYNAMIC) {
        read_dynamic(file, segment, &segments, context, &mut elf)?;
    }
    Ok(elf)
}

fn parse_header(raw: &[u8; HEADER], length: usize) -> Result<Header, BadElf> {
    if length < 4 || !raw.starts_with(b"\x7fELF") {
        return Err(BadElf::NotElf);
    }
    if length < HEADER {
        return Err(BadElf::Damaged("the file ends within its header"));
    }
    if raw[EI_CLASS] != ELFCLASS64 {
        return Err(BadElf::Foreign("32-bit"));
    }
    if raw[EI_DATA] != ELFDATA2LSB {
        return Err(BadElf::Foreign("big-endian"));
    }
    let header =
        goblin::elf::Elf::parse_header(raw).map_err(|_| BadElf::Damaged("the header cannot be parsed"))?;
    if header.e_machine != MACHINE {
        return Err(BadElf::Foreign(goblin::elf::header::machine_to_str(
            header.e_machine,
        )));
    }
    if header.e_type != ET_EXEC && header.e_type != ET_DYN {
        return Err(BadElf::Damaged("it is neither a program nor a shared object"));
    }
    Ok(header)
}

fn segments(file: &File, header: &Header, context: Ctx) -> Result<Vec<ProgramHeader>, BadElf> {
    if header.e_phnum == 0 {
        return Err(BadElf::Damaged("it has no program headers"));
    }
    if header.e_phnum > MAX_SEGMENTS {
        return Err(BadElf::Damaged("it has too many program headers"));
    }
    let count = usize::from(header.e_phnum);
    let mut table = vec![0; count * ProgramHeader::size(context)];
    exact(
        file,
        &mut table,
        header.e_phoff,
        "the program headers lie outside the file",
    )?;
    ProgramHeader::parse(&table, 0, count, context)
        .map_err(|_| BadElf::Damaged("the program headers cannot be parsed"))
}

fn read_dynamic(
    file: &File,
    segment: &ProgramHeader,
    segments: &[ProgramHeader],
    context: Ctx,
    elf: &mut Elf,
) -> Result<(), BadElf> {
    let length = bounded(segment.p_filesz, MAX_DYNAMIC, "the dynamic section is too large")?;
    let mut section = vec![0; length];
    exact(
        file,
        &mut section,
        segment.p_offset,
        "the dynamic section lies outside the file",
    )?;
    // The parser wants a whole file; a segment that starts at 0 makes our piece one.
    let piece = ProgramHeader {
        p_offset: 0,
        ..segment.clone()
    };
    let dynamic = Dynamic::parse(&section, std::slice::from_ref(&piece), context)
        .map_err(|_| BadElf::Damaged("the dynamic section cannot be parsed"))?
        .ok_or(BadElf::Damaged("the dynamic section is missing"))?;
    let value = |tag| {
        dynamic
            .dyns
            .iter()
            .find(|entry| entry.d_tag == tag)
            .map(|entry| entry.d_val)
    };
    elf.no_default = value(DT_FLAGS_1).is_some_and(|flags| flags & DF_1_NODEFLIB != 0);
    let Some(address) = value(DT_STRTAB) else {
        return Ok(());
    };
    let size = value(DT_STRSZ).unwrap_or(0);
    let offset =
        file_offset(segments, address).ok_or(BadElf::Damaged("the string table is outside every segment"))?;
    let text = |at: u64| name_at(file, offset, size, at);
    for entry in &dynamic.dyns {
        if entry.d_tag == DT_NEEDED {
            elf.needed.push(text(entry.d_val)?);
        }
    }
    elf.soname = value(DT_SONAME).map(text).transpose()?;
    elf.rpath = value(DT_RPATH).map(text).transpose()?;
    elf.runpath = value(DT_RUNPATH).map(text).transpose()?;
    Ok(())
}

/// One name of the string table; only it is read, since a program that exports symbols has megabytes of them.
fn name_at(file: &File, table: u64, size: u64, at: u64) -> Result<OsString, BadElf> {
    let outside = BadElf::Damaged("a name lies outside the string table");
    let Some(offset) = table.checked_add(at).filter(|_| at < size) else {
        return Err(outside);
    };
    let mut buffer = vec![0; MAX_NAME.min(usize::try_from(size - at).unwrap_or(MAX_NAME))];
    let length = read_up_to(file, &mut buffer, offset)?;
    match buffer[..length].iter().position(|byte| *byte == 0) {
        Some(end) => Ok(OsStr::from_bytes(&buffer[..end]).to_owned()),
        None => Err(outside),
    }
}

fn file_offset(segments: &[ProgramHeader], address: u64) -> Option<u64> {
    segments
        .iter()
        .filter(|segment| segment.p_type == PT_LOAD)
        .find(|segment| address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
        .and_then(|segment| (address - segment.p_vaddr).checked_add(segment.p_offset))
}

fn bounded(length: u64, limit: u64, what: &'static str) -> Result<usize, BadElf> {
    usize::try_from(length)
        .ok()
        .filter(|_| length <= limit)
        .ok_or(BadElf::Damaged(what))
}

fn exact(file: &File, buffer: &mut [u8], offset: u64, what: &'static str) -> Result<(), BadElf> {
    file.read_exact_at(buffer, offset)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => BadElf::Damaged(what),
            _ => BadElf::Io(error),
        })
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn until_nul(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}
