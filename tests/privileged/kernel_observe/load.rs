//! What is refused at load, and what observation costs those who are not observed.

use guard_agent::warden::kernel::{KernelError, OBJECT, Programs};
use guard_common::layout::LAYOUT_HASH;

use guard_tests::arena::{Arena, Subject};

#[test]
fn an_object_of_another_layout_is_refused_before_anything_is_attached() {
    let arena = Arena::make("layout");
    let hash = LAYOUT_HASH.to_le_bytes();
    let mut object = OBJECT.to_vec();
    let places: Vec<usize> = (0..object.len() - 8)
        .filter(|at| object[*at..*at + 8] == hash)
        .collect();
    let [place] = places.as_slice() else {
        panic!("{places:?}")
    };
    object[*place] ^= 1;
    let error = Programs::load_and_attach_object(&object, &arena.parent(), arena.level()).unwrap_err();
    let other = LAYOUT_HASH ^ 1;
    assert!(
        matches!(error, KernelError::Layout { object: Some(hash) } if hash == other),
        "{error:?}"
    );
    let text = error.to_string();
    for hash in [LAYOUT_HASH, other] {
        assert!(text.contains(&format!("{hash:016x}")), "{text}");
    }
}

/// An observer that the kernel does not take says so, and the network programs stand.
#[test]
fn without_the_observers_the_network_programs_are_in_force() {
    let arena = Arena::make("blind");
    let mut object = OBJECT.to_vec();
    let code = section(&object, "raw_tp/sched_process_exec");
    // r0 = r5: a register nobody wrote.
    object[code..code + 8].copy_from_slice(&[0xbf, 0x50, 0, 0, 0, 0, 0, 0]);
    let mut programs = Programs::load_and_attach_object(&object, &arena.parent(), arena.level()).unwrap();
    let why = programs.observation().unwrap_err();
    assert!(
        why.contains("`sched_process_exec`") && why.contains("R5"),
        "{why}"
    );
    assert!(matches!(
        programs.observe_start(),
        Err(KernelError::Unobservable { .. })
    ));
    let all = programs.programs();
    let of = |name: &str| all.iter().find(|program| program.name == name).unwrap();
    assert!(of("connect4").attached && !of("sys_exit").attached);
    assert_eq!(of("sys_exit").why_not, None);
    assert!(of("sched_process_exec").why_not.is_some());
}

/// Not a promise but a figure; the bound only catches a program that does work for strangers.
#[test]
fn what_it_costs_a_task_that_is_not_observed() {
    const CALLS: u32 = 2000;
    let arena = Arena::make("cost");
    let (mut programs, _events) = arena.load();
    let (_, _, mut inside) = arena.watched("sandbox", &programs);
    let mut outside = Subject::start();
    let measure =
        |subject: &mut Subject| -> u32 { subject.order(&format!("bench {CALLS}")).parse().unwrap() };
    let mut rows = Vec::new();
    for _ in 0..3 {
        let before = (measure(&mut outside), measure(&mut inside));
        programs.observe_start().unwrap();
        let during = (measure(&mut outside), measure(&mut inside));
        programs.observe_stop();
        rows.push([before.0, during.0, before.1, during.1]);
    }
    let best = |column: usize| f64::from(rows.iter().map(|row| row[column]).min().unwrap()) / 100.0;
    eprintln!(
        "getppid, ns a call: unobserved task {:.1} without the programs, {:.1} with; observed task {:.1} and {:.1}",
        best(0),
        best(1),
        best(2),
        best(3)
    );
    assert!(best(1) < best(0) * 20.0 + 2000.0, "{rows:?}");
}

/// Where a section of a 64-bit ELF file starts.
fn section(elf: &[u8], wanted: &str) -> usize {
    let number = |at: usize, width: usize| {
        let bytes = elf[at..at + width].iter().rev();
        bytes.fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte))
    };
    let (table, size, count, names) = (number(40, 8), number(58, 2), number(60, 2), number(62, 2));
    let header = |index: usize| table + index * size;
    let strings = number(header(names) + 24, 8);
    let name = [wanted.as_bytes(), b"\0"].concat();
    let found = (0..count)
        .map(header)
        .find(|at| elf[strings + number(*at, 4)..].starts_with(&name));
    number(found.expect("no such section") + 24, 8)
}
