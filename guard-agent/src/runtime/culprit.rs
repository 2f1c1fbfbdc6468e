//! Why `execve` refused a program: which file of the chain from script over interpreter to ELF loader it was.
//!
//! Asked inside the sandbox by whoever was refused, with its rights: what it finds is what the kernel found.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    elf::{self, BadElf},
    lookup::may_execute,
    walk::show,
};
use crate::octets::Octets;

/// The kernel gives up after this many interpreters; the last one has a loader.
const MAX_DEPTH: usize = 6;
/// What the kernel reads of a script.
const HEAD: u64 = 256;

/// The file that stood in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    file: Octets,
    /// What asked for it, the program itself last. Empty: it is the program.
    asked_by: Vec<Octets>,
    cause: Cause,
    errno: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Cause {
    /// It is not in the view, or may not be reached.
    Unreachable(i32),
    NotExecutable,
    Foreign(String),
    /// Neither an ELF file nor a script with an interpreter line.
    NoFormat,
    Damaged(String),
    /// Nothing is wrong with any file that can be looked at.
    Unknown,
}

impl Culprit {
    /// Walks the chain as the kernel does.
    pub fn find(program: &Path, errno: i32) -> Self {
        let mut chain: Vec<PathBuf> = vec![program.to_owned()];
        for _ in 0..MAX_DEPTH {
            let Some(file) = chain.last() else { break };
            match examine(file) {
                Ok(Some(next)) => chain.push(next),
                Ok(None) => break,
                Err(cause) => return Self::new(chain, cause, errno),
            }
        }
        chain.truncate(1);
        Self::new(chain, Cause::Unknown, errno)
    }

    fn new(mut chain: Vec<PathBuf>, cause: Cause, errno: i32) -> Self {
        let file = chain.pop().unwrap_or_default();
        Self {
            file: file.into(),
            asked_by: chain.into_iter().rev().map(Octets::from).collect(),
            cause,
            errno,
        }
    }

    /// One line: "the ELF loader … that … asks for is not in the sandbox".
    pub fn why(&self) -> String {
        let mut text = format!("`{}`", show(self.file.as_path()));
        for asker in &self.asked_by {
            let _ = write!(text, ", which `{}` asks for", show(asker.as_path()));
        }
        if !self.asked_by.is_empty() {
            text.push(',');
        }
        let error = |errno: i32| io::Error::from_raw_os_error(errno).to_string();
        let _ = match &self.cause {
            Cause::Unreachable(errno) => write!(text, " cannot be reached in the sandbox: {}", error(*errno)),
            Cause::NotExecutable => write!(text, " may not be executed there"),
            Cause::Foreign(built) => write!(text, " {built}"),
            Cause::NoFormat => write!(
                text,
                " is neither a program nor a script with an interpreter line (`#!`)"
            ),
            Cause::Damaged(what) => write!(text, " {what}"),
            Cause::Unknown => write!(text, ": {}", error(self.errno)),
        };
        text
    }

    pub fn hint(&self) -> String {
        let file = show(self.file.as_path());
        match self.cause {
            Cause::Unreachable(_) => format!("if it exists outside, give it with `--root {file}:rx`"),
            Cause::NotExecutable => {
                format!(
                    "give it with `--root {file}:rx`, and make it executable for the server's user (`chmod +x`)"
                )
            }
            Cause::Foreign(_) => "install it for this machine's architecture".into(),
            Cause::NoFormat => "name its interpreter in front of it, or give it a `#!` line".into(),
            Cause::Damaged(_) => "install it again: the file is incomplete or damaged".into(),
            Cause::Unknown => {
                "check that its interpreter and libraries are among the roots, or choose another `--runtime`"
                    .into()
            }
        }
    }
}

/// What the file asks for next, nothing, or what is wrong with it.
fn examine(path: &Path) -> Result<Option<PathBuf>, Cause> {
    let unreachable = |error: io::Error| Cause::Unreachable(error.raw_os_error().unwrap_or(libc::EIO));
    let metadata = fs::metadata(path).map_err(unreachable)?;
    if !metadata.is_file() || !may_execute(path) {
        return Err(Cause::NotExecutable);
    }
    // A program may be executable and not readable: then the kernel alone knows.
    let Ok(file) = File::open(path) else {
        return Ok(None);
    };
    match elf::read(&file) {
        Ok(elf) => Ok(elf.interpreter),
        Err(BadElf::NotElf) => interpreter(&file).map(Some).ok_or(Cause::NoFormat),
        Err(foreign @ BadElf::Foreign(_)) => Err(Cause::Foreign(without_subject(&foreign))),
        Err(damaged @ BadElf::Damaged(_)) => Err(Cause::Damaged(without_subject(&damaged))),
        Err(BadElf::Io(_)) => Ok(None),
    }
}

/// "it is …" follows a name here.
fn without_subject(bad: &BadElf) -> String {
    let text = bad.to_string();
    match text.strip_prefix("it ") {
        Some(rest) => rest.to_owned(),
        None => format!("is unusable: {text}"),
    }
}

/// The first word of a `#!` line.
fn interpreter(mut file: &File) -> Option<PathBuf> {
    let mut head = Vec::new();
    io::Seek::rewind(&mut file).ok()?;
    file.take(HEAD).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line
        .trim_ascii_start()
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .next()
        .filter(|word| !word.is_empty())?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(word)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    fn why(program: &Path) -> String {
        let culprit = Culprit::find(program, libc::ENOENT);
        // As it comes over init's socket.
        let text = serde_json::to_string(&culprit).unwrap();
        assert_eq!(serde_json::from_str::<Culprit>(&text).unwrap(), culprit);
        culprit.why()
    }

    #[test]
    fn the_file_in_the_chain_is_named() {
        let place = Place(tempfile::tempdir().unwrap());
        let at = |name: &str| place.0.path().join(name).display().to_string();
        let missing = place.file("missing.js", format!("#! {} -x\n", at("gone")).as_bytes(), 0o755);
        assert_eq!(
            why(&missing),
            format!(
                "`{}`, which `{}` asks for, cannot be reached in the sandbox: No such file or directory (os error 2)",
                at("gone"),
                at("missing.js")
            )
        );
        place.file("inner", b"no interpreter line", 0o755);
        let outer = place.file("outer", format!("#!{}\n", at("inner")).as_bytes(), 0o755);
        assert_eq!(
            why(&outer),
            format!(
                "`{}`, which `{}` asks for, is neither a program nor a script with an interpreter line (`#!`)",
                at("inner"),
                at("outer")
            )
        );
        let plain = place.file("plain", b"x", 0o644);
        assert_eq!(
            why(&plain),
            format!("`{}` may not be executed there", at("plain"))
        );
        let mut elf = fs::read("/proc/self/exe").unwrap()[..64].to_vec();
        let cut = place.file("cut", &elf, 0o755);
        assert!(
            why(&cut).contains("is unusable: its ELF structure is damaged"),
            "{}",
            why(&cut)
        );
        elf[18] = if cfg!(target_arch = "x86_64") { 0xb7 } else { 0x3e };
        let foreign = place.file("foreign", &elf, 0o755);
        assert!(
            why(&foreign).contains("is built for another architecture"),
            "{}",
            why(&foreign)
        );
    }

    #[test]
    fn a_chain_in_which_nothing_is_wrong_gives_the_kernels_word() {
        assert_eq!(
            why(Path::new("/proc/self/exe")),
            "`/proc/self/exe`: No such file or directory (os error 2)"
        );
        let place = Place(tempfile::tempdir().unwrap());
        let own = place.0.path().join("loop");
        let itself = place.file("loop", format!("#!{}\n", own.display()).as_bytes(), 0o755);
        assert!(why(&itself).ends_with("loop`: No such file or directory (os error 2)"));
    }
}
