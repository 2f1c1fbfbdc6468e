//! What an interpreter's own arguments make it load.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
};

/// The program an interpreter is told to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Main {
    /// A file or directory.
    Script(OsString),
    /// `python -m`.
    Module(OsString),
    /// Given on the command line, read from standard input, or none at all.
    Inline,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) main: Main,
    /// `--require`, `--import`, `--loader`: modules by path or name.
    pub(super) modules: Vec<OsString>,
    /// `--env-file` and the like: plain files.
    pub(super) files: Vec<OsString>,
}

const NODE_MODULES: &[&str] = &["-r", "--require", "--import", "--loader", "--experimental-loader"];
const NODE_FILES: &[&str] = &[
    "--env-file",
    "--env-file-if-exists",
    "--icu-data-dir",
    "--openssl-config",
    "--snapshot-blob",
    "--build-snapshot-config",
    "--experimental-config-file",
];
const NODE_INLINE: &[&str] = &[
    "-e",
    "--eval",
    "-p",
    "--print",
    "-pe",
    "-i",
    "--interactive",
    "-h",
    "--help",
    "-v",
    "--version",
    "--run",
];
/// Options whose value is the next word when no `=` follows.
const NODE_VALUES: &[&str] = &[
    "-C",
    "--allow-fs-read",
    "--allow-fs-write",
    "--conditions",
    "--cpu-prof-dir",
    "--cpu-prof-interval",
    "--cpu-prof-name",
    "--debug-port",
    "--diagnostic-dir",
    "--disable-proto",
    "--disable-warning",
    "--dns-result-order",
    "--experimental-default-type",
    "--experimental-policy",
    "--experimental-sea-config",
    "--heap-prof-dir",
    "--heap-prof-interval",
    "--heap-prof-name",
    "--heapsnapshot-near-heap-limit",
    "--heapsnapshot-signal",
    "--input-type",
    "--inspect-port",
    "--inspect-publish-uid",
    "--localstorage-file",
    "--max-http-header-size",
    "--network-family-autoselection-attempt-timeout",
    "--policy-integrity",
    "--redirect-warnings",
    "--report-dir",
    "--report-directory",
    "--report-filename",
    "--report-signal",
    "--secure-heap",
    "--secure-heap-min",
    "--test-concurrency",
    "--test-coverage-exclude",
    "--test-coverage-include",
    "--test-global-setup",
    "--test-isolation",
    "--test-name-pattern",
    "--test-reporter",
    "--test-reporter-destination",
    "--test-shard",
    "--test-skip-pattern",
    "--test-timeout",
    "--title",
    "--tls-cipher-list",
    "--tls-keylog",
    "--tls-max-v1.2",
    "--trace-event-categories",
    "--trace-event-file-pattern",
    "--trace-require-module",
    "--unhandled-rejections",
    "--use-largepages",
    "--v8-pool-size",
    "--watch-path",
];

/// Arguments of `node` after its own name.
pub(super) fn node<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> Arguments {
    let mut arguments = Arguments {
        main: Main::Inline,
        modules: Vec::new(),
        files: Vec::new(),
    };
    let mut words = words.into_iter();
    let mut inline = false;
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            if let Some(script) = words.next().filter(|_| !inline) {
                arguments.main = Main::Script(script.to_owned());
            }
            break;
        }
        if bytes == b"-" {
            break;
        }
        if !bytes.starts_with(b"-") {
            if !inline && bytes != b"inspect" {
                arguments.main = Main::Script(word.to_owned());
            }
            break;
        }
        let (name, value) = split_value(bytes);
        let known = |list: &[&str]| list.iter().any(|option| option.as_bytes() == name);
        if known(NODE_INLINE) {
            inline = true;
        } else if known(NODE_MODULES) {
            arguments
                .modules
                .extend(value.or_else(|| words.next()).map(OsStr::to_owned));
        } else if known(NODE_FILES) {
            arguments
                .files
                .extend(value.or_else(|| words.next()).map(OsStr::to_owned));
        } else if known(NODE_VALUES) && value.is_none() {
            words.next();
        }
    }
    arguments
}

/// `--name=value`; short options take no `=`.
fn split_value(word: &[u8]) -> (&[u8], Option<&OsStr>) {
    match word.iter().position(|byte| *byte == b'=') {
        Some(at) if word.starts_with(b"--") => (&word[..at], Some(OsStr::from_bytes(&word[at + 1..]))),
        _ => (word, None),
    }
}

/// Arguments of `python` after its own name. Short options may be joined: `-uIm module`.
pub(super) fn python<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> Main {
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            return words
                .next()
                .map_or(Main::Inline, |script| Main::Script(script.to_owned()));
        }
        if bytes == b"-" {
            return Main::Inline;
        }
        if bytes == b"--check-hash-based-pycs" {
            words.next();
            continue;
        }
        if bytes.starts_with(b"--") {
            continue;
        }
        let Some(letters) = bytes.strip_prefix(b"-") else {
            return Main::Script(word.to_owned());
        };
        let taking = letters
            .iter()
            .position(|letter| matches!(letter, b'c' | b'm' | b'W' | b'X'));
        let Some(at) = taking else { continue };
        let joined = &letters[at + 1..];
        let value = match joined {
            [] => words.next().unwrap_or_default(),
            joined => OsStr::from_bytes(joined),
        };
        match letters[at] {
            b'c' => return Main::Inline,
            b'm' => return Main::Module(value.to_owned()),
            _ => {}
        }
    }
    Main::Inline
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&OsStr> {
        line.split_whitespace().map(OsStr::new).collect()
    }

    fn script(name: &str) -> Main {
        Main::Script(name.into())
    }

    #[test]
    fn node_finds_the_script_behind_its_options() {
        for (line, main) in [
            ("a.js -r x", script("a.js")),
            ("-r ./hook.js a.js", script("a.js")),
            ("--import tsx --no-warnings a.ts", script("a.ts")),
            ("--title my a.js", script("a.js")),
            ("--title=my a.js", script("a.js")),
            ("--max-old-space-size=4096 a.js", script("a.js")),
            ("-- -odd.js", script("-odd.js")),
            ("-e code a.js", Main::Inline),
            ("-p 1 -- a.js", Main::Inline),
            ("- a.js", Main::Inline),
            ("", Main::Inline),
        ] {
            assert_eq!(node(words(line)).main, main, "{line}");
        }
    }

    #[test]
    fn node_lists_what_it_loads_before_the_script() {
        let found = node(words(
            "-r ./a.js --require=b --import tsx --env-file .env main.js --require late",
        ));
        assert_eq!(found.modules, ["./a.js", "b", "tsx"]);
        assert_eq!(found.files, [".env"]);
    }

    #[test]
    fn python_finds_script_or_module() {
        for (line, main) in [
            ("server.py --x", script("server.py")),
            ("-u -W ignore server.py", script("server.py")),
            ("-Wignore -X utf8 server.py", script("server.py")),
            ("-m pkg.server", Main::Module("pkg.server".into())),
            ("-uIm pkg", Main::Module("pkg".into())),
            ("-mpkg", Main::Module("pkg".into())),
            ("-Bc code x.py", Main::Inline),
            ("-", Main::Inline),
            ("-- -x.py", script("-x.py")),
            ("--check-hash-based-pycs always a.py", script("a.py")),
        ] {
            assert_eq!(python(words(line)), main, "{line}");
        }
    }
}
