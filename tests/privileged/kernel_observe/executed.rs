//! Programs that were executed.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use guard_agent::warden::kernel::{Event, Events, ExecEvent};

use guard_tests::arena::{Arena, Subject, drain};

fn execute(inside: &mut Subject, path: &Path) -> u32 {
    let hex: String = path
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let answer = inside.order(&format!("exec {hex}"));
    let (pid, status) = answer.split_once(' ').unwrap();
    assert_eq!(status, "0", "`{}` did not run", path.display());
    pid.parse().unwrap()
}

fn executed(events: &mut Events) -> ExecEvent {
    let mut all: Vec<ExecEvent> = drain(events)
        .into_iter()
        .filter_map(|event| match event {
            Event::Exec(exec) => Some(exec),
            _ => None,
        })
        .collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn an_executed_file_is_reported_with_its_inode_and_a_script_with_its_interpreter() {
    let arena = Arena::make("exec");
    let (programs, mut events) = arena.observe();
    let (id, slot, mut inside) = arena.watched("sandbox", &programs);
    // A filesystem that shows the numbers the kernel has, where there is one.
    let place = ["/dev/shm", "/tmp"]
        .into_iter()
        .find(|place| Path::new(place).is_dir())
        .unwrap();
    let directory = tempfile::tempdir_in(place).unwrap();
    let program = directory.path().join("program");
    fs::copy(guard_tests::programs::observe().unwrap(), &program).unwrap();
    fs::hard_link(&program, directory.path().join("second name")).unwrap();
    let metadata = fs::metadata(&program).unwrap();

    let pid = execute(&mut inside, &program);
    let event = executed(&mut events);
    assert_eq!(
        (event.origin.pid, event.origin.slot, event.origin.cgroup_id),
        (pid, slot, id)
    );
    assert_eq!(event.filename.bytes, program.as_os_str().as_encoded_bytes());
    assert!(event.filename.complete);
    assert_eq!(event.interpreter, None);
    assert_eq!((event.ino, event.nlink), (Some(metadata.ino()), Some(2)));
    assert_eq!(event.dev, Some(metadata.dev()));

    let script = directory.path().join("script");
    fs::write(&script, format!("#!{} argument\n", program.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    execute(&mut inside, &script);
    let event = executed(&mut events);
    assert_eq!(event.filename.bytes, script.as_os_str().as_encoded_bytes());
    let interpreter = event.interpreter.unwrap();
    assert_eq!(interpreter.bytes, program.as_os_str().as_encoded_bytes());
    assert_eq!(
        event.ino,
        Some(metadata.ino()),
        "the inode that runs is the interpreter's"
    );

    execute(&mut Subject::start(), &program);
    assert_eq!(drain(&mut events), [], "an exec outside was reported");
    let counters = programs.slot_counters(slot).unwrap();
    // Each program opens some files when it starts.
    assert!(counters.allowed_reserved >= 4, "{counters:?}");
    assert_eq!(counters.allowed_lost, 0);
}
