//! Races for what is opened: a path is led somewhere else while it is walked. Whatever comes of it, what is opened is
//! in a root, and what is refused is on record as the object that it is.

use std::{
    fs,
    os::{linux::fs::MetadataExt as _, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use guard_agent::warden::kernel::{Event, Events, VerdictEvent};
use guard_common::hooks::FILE_OPEN;
use guard_tests::{
    arena::{Arg, Subject},
    workers::{Tally, hex, stop},
};

use crate::{
    paths::{BIND, CHDIR, MOUNT, NEW_MOUNTS, OPEN, PRIVATE, RACES, Race, SETNS, UNSHARE, lay_out, order},
    rounds,
    stage::Stage,
};

/// Who opens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Inside,
    /// The control.
    Outside,
}

/// What was told while a race ran. It is looked at as it comes: a million of them are too many to keep.
struct Told {
    forbidden: PathBuf,
    object: (Option<u64>, Option<u64>),
    /// Refused opens, each of the object that must not be had.
    opens: u64,
    all: u64,
    wrong: Option<String>,
}

impl Told {
    fn of(forbidden: PathBuf) -> Self {
        let metadata = fs::metadata(&forbidden).unwrap();
        Self {
            object: (Some(metadata.st_dev()), Some(metadata.st_ino())),
            forbidden,
            opens: 0,
            all: 0,
            wrong: None,
        }
    }

    fn read(&mut self, events: &mut Events) {
        while events.drain(|event| self.one(&event)).more {}
    }

    fn one(&mut self, event: &Event) {
        self.all += 1;
        match event {
            Event::Verdict(event) if *event.hook == FILE_OPEN && self.is_it(event) => self.opens += 1,
            Event::Verdict(event) if *event.hook != FILE_OPEN => {}
            other => {
                self.wrong.get_or_insert_with(|| format!("{other:?}"));
            }
        }
    }

    /// What was told names what was there, not what the path said.
    fn is_it(&self, event: &VerdictEvent) -> bool {
        let Some(names) = &event.names else { return false };
        let parts = names.components.iter();
        let kernels: Vec<u8> = parts.flat_map(|name| [b"/", name.as_slice()].concat()).collect();
        event.reason == Some("outside-roots")
            && (event.dev, event.ino) == self.object
            && names.complete
            && self.forbidden.as_os_str().as_bytes().ends_with(&kernels)
    }
}

impl Race {
    fn order(&self, stage: &Stage, rounds: u64, who: Who) -> String {
        let path = match self.from {
            Some(_) => Path::new(self.path).to_owned(),
            None => stage.at(self.path),
        };
        if let Some((name, other)) = self.flip {
            let at = stage.at(name).as_os_str().len() - name.len();
            return format!("flip {} {} {at} {other}", rounds * 10, hex(&path));
        }
        let games = if who == Who::Inside { self.games } else { &[] };
        let least = match (self.own, games) {
            ([], []) => 0,
            // New namespaces cost more than opens.
            ([], _) => rounds / 100,
            _ => rounds,
        };
        let calls = order(stage, &[self.own, games].concat());
        format!("race {rounds} {least} {} {calls}", hex(&path))
            .trim_end()
            .to_owned()
    }

    /// Runs it once: what the opens came to.
    fn run(&self, stage: &mut Stage, rounds: u64, who: Who, told: &mut Told) -> Tally {
        let asked = self.order(stage, rounds, who);
        let beside = order(stage, self.beside);
        let from = self
            .from
            .map(|from| stage.at(from).into_os_string().into_encoded_bytes());
        let Stage {
            inside,
            outside,
            events,
            ..
        } = stage;
        let subject = if who == Who::Inside { inside } else { outside };
        if let Some(from) = from {
            assert_eq!(subject.call(CHDIR, &[Arg::Text(&from)]).result, 0);
        }
        let beside = (!beside.is_empty()).then(|| {
            let mut subject = Subject::start();
            subject.tell(&format!("play {beside}"));
            subject
        });
        subject.tell(&asked);
        let over = AtomicBool::new(false);
        let answer = thread::scope(|scope| {
            scope.spawn(|| {
                // The ring has room for some thousands.
                while !over.load(Ordering::Relaxed) {
                    told.read(events);
                    thread::sleep(Duration::from_millis(1));
                }
                told.read(events);
            });
            let answer = subject.heard();
            over.store(true, Ordering::Relaxed);
            answer
        });
        let mut tally = Tally::read(&answer);
        if let Some(mut beside) = beside {
            let moves = stop(&mut beside);
            tally.moves += moves.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
        tally
    }

    /// Until it went both ways, and enough was moved: on a busy machine one of the two may stand still for a while.
    fn ran(&self, stage: &mut Stage, rounds: u64, who: Who) -> (Tally, Told) {
        const ATTEMPTS: usize = 20;
        lay_out(stage);
        let (mut sum, mut told) = (Tally::default(), Told::of(stage.at(self.forbidden)));
        for _ in 0..ATTEMPTS {
            lay_out(stage);
            sum.add(&self.run(stage, rounds, who, &mut told));
            let other = match who {
                Who::Outside => sum.others,
                Who::Inside => sum.refused,
            };
            let out = other > 0 || (who == Who::Inside && !self.leads_out);
            if sum.own > 0 && out && sum.moves >= rounds / 10 {
                return (sum, told);
            }
        }
        panic!("{}: never both ways: {sum:?}", self.name);
    }
}

/// A tree in which a root's path leads elsewhere, made by somebody outside, and doors to it and back that subjects got
/// before they were under the hooks.
struct Elsewhere {
    _maker: Subject,
    doors: [[i64; 2]; 2],
}

impl Elsewhere {
    fn make(stage: &mut Stage) -> Self {
        let text = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let (root, outside) = (text(&stage.at("rw")), text(&stage.at("outside")));
        let mut maker = Subject::start();
        let zero = Arg::Number(0);
        assert_eq!(maker.call(UNSHARE, &[Arg::Number(NEW_MOUNTS)]).result, 0);
        let private = [zero, Arg::Text(b"/"), zero, Arg::Number(PRIVATE), zero];
        assert_eq!(maker.call(MOUNT, &private).result, 0);
        let bind = [
            Arg::Text(&outside),
            Arg::Text(&root),
            zero,
            Arg::Number(BIND),
            zero,
        ];
        assert_eq!(maker.call(MOUNT, &bind).result, 0);
        let spaces = [maker.pid(), std::process::id()].map(|pid| format!("/proc/{pid}/ns/mnt"));
        let doors = [&mut stage.inside, &mut stage.outside].map(|subject| {
            spaces
                .each_ref()
                .map(|space| subject.call(OPEN, &[Arg::Text(space.as_bytes())]).result)
        });
        assert!(doors.iter().flatten().all(|door| *door > 2), "{doors:?}");
        Self { _maker: maker, doors }
    }

    /// There and back: the path is the same, what it leads to is not.
    fn visited(&self, stage: &mut Stage, who: Who) {
        const TIMES: u64 = 10;
        let open = format!("race {TIMES} 0 {}", hex(&stage.at("rw/file")));
        let [inside, outside] = self.doors;
        let (subject, doors, there) = match who {
            Who::Inside => (&mut stage.inside, inside, (0, 0, TIMES)),
            Who::Outside => (&mut stage.outside, outside, (0, TIMES, 0)),
        };
        for _ in 0..TIMES {
            for (door, expected) in doors.into_iter().zip([there, (TIMES, 0, 0)]) {
                let through = [Arg::Number(door), Arg::Number(NEW_MOUNTS)];
                assert_eq!(subject.call(SETNS, &through).result, 0);
                let tally = Tally::read(&subject.order(&open));
                assert_eq!((tally.own, tally.others, tally.refused), expected, "{tally:?}");
            }
        }
        // What is told of it is another test's matter.
        let _ = stage.events.drain(drop);
    }
}

#[test]
fn whatever_a_path_is_led_to_what_is_opened_lies_in_a_root() {
    let mut stage = Stage::set("races");
    let rounds = rounds();
    lay_out(&stage);
    let elsewhere = Elsewhere::make(&mut stage);
    elsewhere.visited(&mut stage, Who::Outside);
    for race in &RACES {
        let (tally, told) = race.ran(&mut stage, (rounds / 10).max(200), Who::Outside);
        assert_eq!(
            (tally.refused, tally.odd, told.all),
            (0, 0, 0),
            "{}: outside {tally:?}",
            race.name
        );
        println!(
            "{}: outside {} and {} forbidden",
            race.name, tally.own, tally.others
        );
    }
    stage.enforce();
    elsewhere.visited(&mut stage, Who::Inside);
    for race in &RACES {
        let denied = |stage: &Stage, hook| stage.programs.hits(hook).unwrap().denied;
        let lost = |stage: &Stage| stage.programs.slot_counters(stage.slot).unwrap().lost;
        let before = (denied(&stage, &FILE_OPEN), lost(&stage));
        let others = race.refuses.map(|hook| denied(&stage, hook));
        let start = Instant::now();
        let (tally, told) = race.ran(&mut stage, rounds, Who::Inside);
        let seconds = start.elapsed().as_secs_f64();
        println!("{}: {tally:?}, {} told, {seconds:.1} s", race.name, told.opens);
        assert_eq!((tally.others, tally.odd), (0, 0), "{}: {tally:?}", race.name);
        assert_eq!(tally.refused > 0, race.leads_out, "{}: {tally:?}", race.name);
        // Every refusal was counted, and told as what it was or counted as lost.
        assert_eq!(told.wrong, None, "{}", race.name);
        assert_eq!(
            denied(&stage, &FILE_OPEN) - before.0,
            tally.refused,
            "{}",
            race.name
        );
        let (opens, lost) = (told.opens, lost(&stage) - before.1);
        assert!(
            opens <= tally.refused && opens + lost >= tally.refused && (opens > 0) == race.leads_out,
            "{}: {opens} told and {lost} lost of {tally:?}",
            race.name
        );
        if let (Some(hook), Some(before)) = (race.refuses, others) {
            let refused = denied(&stage, hook) > before;
            assert!(refused, "{}: `{}` refused nothing", race.name, hook.name);
        }
    }
}
