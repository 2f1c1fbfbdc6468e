//! `#!` chains, rewritten so that the interpreter is executed directly.
//!
//! `/usr/bin/env` and the shell that `pip` puts before a long interpreter path are taken out of the
//! chain: the sandbox then needs neither of them.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use super::{
    collect::{Collector, part_of},
    context::{Context, name_of},
    elf::{self, BadElf, Elf},
    lookup::{self, Executable},
    pyenv, runners,
    walk::show,
};
use crate::refusal::Refusal;

/// The kernel gives up after this many interpreters.
const MAX_DEPTH: usize = 5;
/// `BINPRM_BUF_SIZE`: what the kernel reads of a script.
const HEAD: usize = 256;

/// A program file with the arguments it gets.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) executable: Executable,
    pub(super) elf: Elf,
    pub(super) argv: Vec<OsString>,
    /// Set when a script named it; it is an argument then.
    pub(super) script: Option<PathBuf>,
}

struct Line {
    interpreter: OsString,
    arguments: Vec<OsString>,
}

/// Follows the typed command through version-manager shims and scripts to an ELF program.
pub(super) fn unwrap(context: &Context<'_>, collect: &mut Collector) -> Result<Image, Refusal> {
    let mut argv: Vec<OsString> = context
        .ask
        .command
        .iter()
        .map(|word| word.as_os_str().to_owned())
        .collect();
    let Some(name) = argv.first().cloned() else {
        return Err(Refusal::usage(
            "cannot start a server",
            "there is no command",
            "put it after `--`",
        ));
    };
    let executable = pyenv::see_through(context, lookup::command(context, &name)?, collect)?;
    let (mut executable, words) = runners::see_through(context, executable, argv, collect)?;
    argv = words;
    let mut script = None;
    for _ in 0..=MAX_DEPTH {
        let path = &executable.found.real;
        let file = File::open(path).map_err(|error| context.unreadable(path, &error))?;
        match elf::read(&file) {
            Ok(elf) => {
                return Ok(Image {
                    executable,
                    elf,
                    argv,
                    script,
                });
            }
            Err(BadElf::NotElf) => {}
            Err(bad) => return Err(bad_program(context, path, &bad)),
        }
        let line = first_line(context, &file, &executable)?;
        collect.file(&executable.found, "the script that was named");
        let next = lookup::find(context, &line.interpreter, &[])
            .map_err(|refusal| interpreter_missing(&executable, &line, refusal))?;
        let next = pyenv::see_through(context, next, collect)?;
        argv = rewrite(&next, line, &executable.path, argv);
        script.get_or_insert_with(|| executable.path.clone());
        executable = next;
    }
    Err(context.refuse(
        format!("its `#!` lines name more than {MAX_DEPTH} interpreters one after the other"),
        "name the last interpreter in the command",
    ))
}

/// What the kernel would pass: interpreter, its arguments, the script's path, the rest.
fn rewrite(next: &Executable, line: Line, script: &Path, argv: Vec<OsString>) -> Vec<OsString> {
    let mut words = vec![next.path.clone().into_os_string()];
    words.extend(line.arguments);
    words.push(script.as_os_str().to_owned());
    words.extend(argv.into_iter().skip(1));
    words
}

fn first_line(context: &Context<'_>, file: &File, script: &Executable) -> Result<Line, Refusal> {
    let path = &script.found.real;
    let mut head = [0; 4 * HEAD];
    let length = elf::read_up_to(file, &mut head, 0).map_err(|error| context.unreadable(path, &error))?;
    let head = &head[..length];
    let refuse = |why: String, hint: &str| context.refuse(format!("`{}` {why}", show(path)), hint);
    let Some(rest) = head.strip_prefix(b"#!") else {
        return Err(refuse(
            "is neither a program nor a script with an interpreter line".into(),
            "put the interpreter in front of it (`node FILE`, `python3 FILE`), or add a `#!` line",
        ));
    };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    if end + 2 >= HEAD {
        return Err(refuse(
            format!("has an interpreter line of more than {HEAD} bytes"),
            "shorten it",
        ));
    }
    let line = trim_blanks(&rest[..end]);
    if line.ends_with(b"\r") {
        return Err(refuse(
            "has an interpreter line that ends in a carriage return, which would be part of the name".into(),
            "convert the file to Unix line ends (`dos2unix`)",
        ));
    }
    if line.contains(&0) {
        return Err(refuse(
            "has a damaged interpreter line".into(),
            "repair its first line",
        ));
    }
    let (interpreter, argument) = match line.iter().position(|byte| matches!(byte, b' ' | b'\t')) {
        Some(at) => (&line[..at], Some(line[at..].trim_ascii())),
        None => (line, None),
    };
    if interpreter.is_empty() {
        return Err(refuse(
            "has an empty interpreter line".into(),
            "repair its first line",
        ));
    }
    if let Some(python) = exec_trick(interpreter, &rest[end..], path) {
        return Ok(Line {
            interpreter: python.into_os_string(),
            arguments: Vec::new(),
        });
    }
    let interpreter = OsStr::from_bytes(interpreter);
    if Path::new(interpreter).file_name() == Some(OsStr::new("env")) {
        return through_env(argument.unwrap_or_default()).map_err(|why| {
            refuse(
                format!("starts through `env` {why}"),
                "name the interpreter in the command, in front of the script",
            )
        });
    }
    // A path without a slash is relative to the working directory here, never searched in `PATH`.
    Ok(Line {
        interpreter: context.absolute(interpreter).into_os_string(),
        arguments: argument
            .map(|argument| OsStr::from_bytes(argument).to_owned())
            .into_iter()
            .collect(),
    })
}

/// Without the spaces and tabs at both ends: what the kernel takes off, and no more.
fn trim_blanks(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    let end = line
        .iter()
        .rposition(|byte| !blank(byte))
        .map_or(start, |last| last + 1);
    &line[start..end]
}

/// `env NAME`, `env -S NAME ARG…`: the words after `env`.
fn through_env(argument: &[u8]) -> Result<Line, &'static str> {
    let (split, text) = match argument {
        [b'-', b'S', rest @ ..] | [b'-', b'v', b'S', rest @ ..] => (true, rest),
        other => match other.strip_prefix(b"--split-string=") {
            Some(rest) => (true, rest),
            None => (false, other),
        },
    };
    let mut words = if split {
        split_words(text)?
    } else {
        vec![OsStr::from_bytes(text).to_owned()]
    };
    if words.first().is_none_or(|word| word.is_empty()) {
        return Err("without naming a program");
    }
    let name = words[0].as_bytes();
    if name.starts_with(b"-") {
        return Err("with options other than `-S`");
    }
    if name.contains(&b'=') {
        return Err("with variables of its own");
    }
    if name.iter().any(u8::is_ascii_whitespace) {
        return Err("with several words but without `-S`");
    }
    let interpreter = words.remove(0);
    Ok(Line {
        interpreter,
        arguments: words,
    })
}

/// Words as `env -S` splits them; escapes and variables are not supported.
fn split_words(text: &[u8]) -> Result<Vec<OsString>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    for &byte in text {
        match (byte, quote) {
            (b'\\' | b'$', _) => return Err("with escapes or variables in `-S`"),
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (byte, Some(open)) if byte == open => quote = None,
            (b'#', None) if word.is_none() => break,
            (byte, None) if byte.is_ascii_whitespace() => words.extend(word.take()),
            (byte, _) => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err("with an open quote");
    }
    words.extend(word);
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

/// `#!/bin/sh` and `'''exec' /long/venv/bin/python "$0" "$@"`: what installers write when the
/// interpreter's path is too long for a `#!` line, or relative to the script.
fn exec_trick(interpreter: &[u8], rest: &[u8], script: &Path) -> Option<PathBuf> {
    if name_of(Path::new(OsStr::from_bytes(interpreter))) != "sh" {
        return None;
    }
    let line = rest.get(1..)?.split(|byte| *byte == b'\n').next()?;
    let words = line.strip_prefix(b"'''exec' ")?.strip_suffix(b" \"$0\" \"$@\"")?;
    if let Some(name) = words.strip_prefix(b"\"$(dirname -- \"$(realpath -- \"$0\")\")\"/") {
        let name = name
            .strip_prefix(b"'")
            .and_then(|name| name.strip_suffix(b"'"))
            .unwrap_or(name);
        return Some(script.parent()?.join(OsStr::from_bytes(name)));
    }
    let quoted = |mark: &[u8]| {
        words
            .strip_prefix(mark)
            .and_then(|inner| inner.strip_suffix(mark))
    };
    let path = quoted(b"\"").or_else(|| quoted(b"'")).unwrap_or(words);
    let plain = path.starts_with(b"/") && !path.iter().any(|byte| b"\"'$`\\".contains(byte));
    plain.then(|| PathBuf::from(OsStr::from_bytes(path)))
}

fn interpreter_missing(script: &Executable, line: &Line, refusal: Refusal) -> Refusal {
    Refusal {
        why: format!(
            "`{}` asks for the interpreter `{}`: {}",
            show(&script.found.real),
            line.interpreter.display(),
            refusal.why
        ),
        ..refusal
    }
}

fn bad_program(context: &Context<'_>, path: &Path, bad: &BadElf) -> Refusal {
    let hint = match bad {
        BadElf::Foreign(_) => "install it for this machine's architecture",
        BadElf::Io(_) => "see the cause, then try again",
        BadElf::NotElf | BadElf::Damaged(_) => "install it again: the file is incomplete or damaged",
    };
    context.refuse(format!("{}: {bad}", part_of("program file", path)), hint)
}
