//! ELF files made byte by byte: search order of libraries, and files that lie.

use std::{fs::File, io::Write as _, path::Path};

use proptest::prelude::*;

use super::{Place, grants};
use crate::runtime::elf;

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

/// The parts of an ELF file a loader reads.
#[derive(Default, Clone)]
pub(super) struct Image {
    interpreter: Option<String>,
    needed: Vec<String>,
    rpath: Option<String>,
    runpath: Option<String>,
    soname: Option<String>,
}

impl Image {
    pub(super) fn loaded_by(interpreter: &str) -> Self {
        Self {
            interpreter: Some(interpreter.to_owned()),
            ..Self::default()
        }
    }
    pub(super) fn library(name: &str) -> Self {
        Self {
            soname: Some(name.to_owned()),
            ..Self::default()
        }
    }
    pub(super) fn needs(mut self, name: &str) -> Self {
        self.needed.push(name.to_owned());
        self
    }
    pub(super) fn rpath(mut self, path: &str) -> Self {
        self.rpath = Some(path.to_owned());
        self
    }
    fn runpath(mut self, path: &str) -> Self {
        self.runpath = Some(path.to_owned());
        self
    }

    /// One segment maps the whole file at its own offsets, so addresses are offsets.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let mut text = |value: &str| {
            let at = strings.len() as u64;
            strings.extend(value.bytes().chain([0]));
            at
        };
        let interpreter = self
            .interpreter
            .as_deref()
            .map(|value| (text(value), value.len() as u64 + 1));
        let mut dynamic: Vec<(u64, u64)> = self.needed.iter().map(|name| (1, text(name))).collect();
        for (tag, value) in [(14, &self.soname), (15, &self.rpath), (29, &self.runpath)] {
            dynamic.extend(value.as_ref().map(|value| (tag, text(value))));
        }
        const STRINGS: u64 = 64 + 3 * 56;
        let table = STRINGS + strings.len() as u64;
        dynamic.extend([(5, STRINGS), (10, strings.len() as u64), (0, 0)]);
        let size = table + dynamic.len() as u64 * 16;
        let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        out.extend(
            3_u16
                .to_le_bytes()
                .into_iter()
                .chain(MACHINE.to_le_bytes())
                .chain(1_u32.to_le_bytes()),
        );
        out.extend([0_u64, 64, 0].into_iter().flat_map(u64::to_le_bytes));
        out.extend(0_u32.to_le_bytes());
        out.extend([64_u16, 56, 3, 64, 0, 0].into_iter().flat_map(u16::to_le_bytes));
        let has_dynamic = !self.needed.is_empty() || self.interpreter.is_some() || self.soname.is_some();
        let (at, length) = interpreter.unwrap_or((0, 0));
        let segments = [
            (1_u32, 0, size),
            (if interpreter.is_some() { 3 } else { 0 }, STRINGS + at, length),
            (if has_dynamic { 2 } else { 0 }, table, dynamic.len() as u64 * 16),
        ];
        for (kind, offset, length) in segments {
            out.extend(kind.to_le_bytes().into_iter().chain(4_u32.to_le_bytes()));
            out.extend(
                [offset, offset, offset, length, length, 8]
                    .into_iter()
                    .flat_map(u64::to_le_bytes),
            );
        }
        out.extend(strings);
        out.extend(
            dynamic
                .into_iter()
                .flat_map(|(tag, value)| [tag, value])
                .flat_map(u64::to_le_bytes),
        );
        out
    }
}

/// A place with a loader, so that a program's own libraries are all that is asked about.
fn with_loader() -> (Place, Image) {
    let place = Place::new();
    let loader = place.program("lib/ld-test.so", Image::library("ld-test.so").bytes());
    (place, Image::loaded_by(loader.to_str().unwrap()))
}

#[test]
fn loader_is_executed_and_libraries_are_mapped() {
    let (place, program) = with_loader();
    let library = place.write("lib/liba.so.1.2", Image::library("liba.so.1").bytes());
    place.link("lib/liba.so.1", "liba.so.1.2");
    place.program(
        "bin/server",
        program.needs("liba.so.1").runpath("$ORIGIN/../lib").bytes(),
    );
    let runtime = place.resolve(&["server"]);
    let right = |path: &Path| {
        let grant = runtime
            .grants
            .iter()
            .find(|grant| grant.path.as_path() == path)
            .expect("granted");
        (grant.exec, grant.map)
    };
    assert_eq!(right(&place.at("lib/ld-test.so")), (true, true));
    assert_eq!(right(&library), (false, true));
    assert!(
        runtime
            .links
            .iter()
            .any(|link| link.path.as_path() == place.at("lib/liba.so.1"))
    );
}

#[test]
fn rpath_is_inherited_and_runpath_is_not() {
    let (place, program) = with_loader();
    place.write("one/libdeep.so", Image::library("libdeep.so").bytes());
    place.write(
        "one/libmid.so",
        Image::library("libmid.so").needs("libdeep.so").bytes(),
    );
    let directory = place.at("one");
    let directory = directory.to_str().unwrap();
    place.program(
        "bin/inherits",
        program.clone().needs("libmid.so").rpath(directory).bytes(),
    );
    assert!(grants(&place.resolve(&["inherits"]), &place.at("one/libdeep.so")));
    place.program("bin/not", program.needs("libmid.so").runpath(directory).bytes());
    let refusal = place.refused(&["not"]);
    assert!(
        refusal.why.contains("libraries that are not there: `libdeep.so`"),
        "{refusal}"
    );
}

#[test]
fn an_own_runpath_cuts_off_what_was_inherited() {
    let (place, program) = with_loader();
    for directory in ["one", "two"] {
        place.write(
            &format!("{directory}/libdeep.so"),
            Image::library("libdeep.so").bytes(),
        );
    }
    let middle = Image::library("libmid.so")
        .needs("libdeep.so")
        .runpath("${ORIGIN}/../two");
    place.write("one/libmid.so", middle.bytes());
    place.program(
        "bin/server",
        program.needs("libmid.so").rpath("$ORIGIN/../one").bytes(),
    );
    let runtime = place.resolve(&["server"]);
    assert!(grants(&runtime, &place.at("two/libdeep.so")) && !grants(&runtime, &place.at("one/libdeep.so")));
}

#[test]
fn a_library_of_another_machine_is_passed_over_as_the_loader_does() {
    let (place, program) = with_loader();
    let mut foreign = Image::library("liba.so").bytes();
    foreign[18] = 40;
    place.write("one/liba.so", foreign);
    let library = place.write("two/liba.so", Image::library("liba.so").bytes());
    place.program(
        "bin/server",
        program
            .clone()
            .needs("liba.so")
            .runpath("$ORIGIN/../one:$ORIGIN/../two")
            .bytes(),
    );
    assert!(grants(&place.resolve(&["server"]), &library));
    place.program(
        "bin/server",
        program.needs("liba.so").runpath("$ORIGIN/../one").bytes(),
    );
    assert!(place.refused(&["server"]).why.contains("another architecture"));
}

#[test]
fn cpu_variants_are_all_granted() {
    let (place, program) = with_loader();
    let plain = place.write("lib/liba.so", Image::library("liba.so").bytes());
    let variant = place.write(
        "lib/glibc-hwcaps/x86-64-v3/liba.so",
        Image::library("liba.so").bytes(),
    );
    place.program(
        "bin/server",
        program.needs("liba.so").runpath("$ORIGIN/../lib").bytes(),
    );
    let runtime = place.resolve(&["server"]);
    assert!(grants(&runtime, &plain) && grants(&runtime, &variant));
}

#[test]
fn programs_that_cannot_run_here_say_why() {
    let place = Place::new();
    let good = Image::default().bytes();
    for (at, value, why) in [
        (18, 40, "built for another architecture"),
        (4, 1, "built for another architecture (32-bit)"),
        (16, 1, "neither a program nor a shared object"),
        (56, 0, "no program headers"),
    ] {
        let mut bytes = good.clone();
        bytes[at] = value;
        place.program("bin/server", bytes);
        assert!(
            place.refused(&["server"]).why.contains(why),
            "{}",
            place.refused(&["server"])
        );
    }
    place.program("bin/server", &good[..40]);
    assert!(
        place
            .refused(&["server"])
            .why
            .contains("the file ends within its header")
    );
    place.program("bin/server", Image::loaded_by("/no/such/ld.so").bytes());
    assert!(
        place
            .refused(&["server"])
            .why
            .contains("ELF loader `/no/such/ld.so` is missing")
    );
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn every_truncation_is_an_error_or_a_prefix_that_suffices() {
    let whole = Image::loaded_by("/lib/ld.so")
        .needs("liba.so")
        .runpath("/x")
        .bytes();
    assert!(elf::read(&file_of(&whole)).is_ok(), "control");
    for length in 0..whole.len() - 16 {
        // The last entry is DT_NULL: all else is needed.
        assert!(elf::read(&file_of(&whole[..length])).is_err(), "cut to {length}");
    }
}

proptest! {
    /// Whatever a file says about itself, reading it ends, within bounds, without a panic.
    #[test]
    fn damaged_files_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let mut bytes = Image::loaded_by("/lib/ld.so").needs("liba.so").rpath("$ORIGIN").bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = elf::read(&file_of(&bytes));
    }
}
