//! Every row inside and outside: result, counters, records and traces.

use std::collections::BTreeSet;

use guard_agent::warden::kernel::{Event, VerdictEvent};
use guard_common::hooks::{FILE_IOCTL_COMPAT, FILE_TRUNCATE, HOOKS, Hook, Rule, URING_ALLOWED};
use guard_tests::arena::Subject;

use crate::{
    place::Place,
    rows::{self, Actor, Row},
    stage::Stage,
};

/// Hooks that others stand before: what leads there is refused already.
const SECOND: [(&str, &str); 3] = [
    ("bpf_map", "`bpf` refuses the call that makes descriptors"),
    ("bpf_prog", "`bpf` refuses the call that makes descriptors"),
    (
        "uring_sqpoll",
        "`uring_allowed` refuses, where it is, before the flags are looked at",
    ),
];

/// A stage, what is acted on, and who is there for a comparison.
pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) place: Place,
}

impl Scene {
    pub(crate) fn set(name: &str) -> Self {
        let mut stage = Stage::set(name);
        let place = Place::new(stage.scratch.path());
        for (name, subject) in [("inside", &mut stage.inside), ("outside", &mut stage.outside)] {
            let place = &place;
            Actor { subject, place, name }.prepare();
        }
        stage.enforce();
        Self { stage, place }
    }

    fn there(&self, hook: &Hook) -> bool {
        let programs = self.stage.programs.programs();
        programs
            .iter()
            .any(|program| program.name == hook.name && program.attached)
    }

    /// Rows whose hook decides on this kernel.
    pub(crate) fn rows(&self) -> Vec<Row> {
        // Rows for what a hook that came later decides there.
        let later = [
            ("6.2", &FILE_TRUNCATE),
            ("6.8", &FILE_IOCTL_COMPAT),
            ("6.15", &URING_ALLOWED),
        ];
        let over: Vec<String> = later
            .iter()
            .filter(|(_, hook)| self.there(hook))
            .map(|(version, _)| format!(", before {version}"))
            .collect();
        rows::all()
            .into_iter()
            .filter(|row| self.there(row.hook) && !over.iter().any(|over| row.name.ends_with(over)))
            .collect()
    }

    /// How often a hook allowed, and refused.
    fn hits(&self, hook: &Hook) -> [u64; 2] {
        let hits = self.stage.programs.hits(hook).unwrap();
        [hits.allowed, hits.denied]
    }

    /// How often any hook decided and told of it.
    fn told(&self) -> [u64; 2] {
        let telling = HOOKS.iter().filter(|hook| hook.rule != Rule::Label);
        telling
            .map(|hook| self.hits(hook))
            .fold([0; 2], |sum, hits| [sum[0] + hits[0], sum[1] + hits[1]])
    }

    pub(crate) fn reserved(&self) -> u64 {
        let counters = self.stage.programs.counters().unwrap();
        assert_eq!(counters.lost, 0);
        counters.reserved
    }

    /// Has somebody act; what came of it.
    pub(crate) fn outside(&mut self, row: &Row) -> i64 {
        self.place.reset();
        act(&mut self.stage.outside, &self.place, "outside", row)
    }
}

pub(crate) fn act(subject: &mut Subject, place: &Place, name: &str, row: &Row) -> i64 {
    let mut actor = Actor { subject, place, name };
    let result = (row.act)(&mut actor);
    actor.close_all();
    result
}

fn outside(scene: &mut Scene, row: &Row, wrong: &mut Vec<String>) {
    let before = (scene.told(), scene.reserved());
    let result = scene.outside(row);
    if !row.outside.takes(result) {
        wrong.push(format!(
            "{}: outside {result}, expected {:?}",
            row.name, row.outside
        ));
    }
    if (scene.told(), scene.reserved()) != before {
        wrong.push(format!(
            "{}: counted or recorded although it is outside",
            row.name
        ));
    }
}

fn inside(scene: &mut Scene, row: &Row, wrong: &mut Vec<String>) {
    let (hits, told, reserved) = (scene.hits(row.hook), scene.told(), scene.reserved());
    scene.place.reset();
    let picture = scene.place.picture();
    if row.label_alone {
        scene.stage.arena.leave(&scene.stage.inside);
    }
    let result = act(&mut scene.stage.inside, &scene.place, "inside", row);
    scene.stage.arena.enter("sandbox", &scene.stage.inside);
    if !row.inside.takes(result) {
        wrong.push(format!(
            "{}: inside {result}, expected {:?}",
            row.name, row.inside
        ));
    }
    let [allowed, denied] = scene.hits(row.hook);
    if (row.refused && denied == hits[1]) || (!row.refused && allowed == hits[0]) {
        wrong.push(format!("{}: `{}` did not decide", row.name, row.hook.name));
    }
    let refused = scene.told()[1] - told[1];
    if !row.refused && refused > 0 {
        wrong.push(format!("{}: {refused} refusals on the way", row.name));
    }
    let records = scene.reserved() - reserved;
    if records != refused {
        wrong.push(format!("{}: {records} records of {refused} refusals", row.name));
    }
    let mut told = Vec::new();
    let drained = scene.stage.events.drain(|event| match event {
        Event::Verdict(event) => told.push(event),
        Event::Net(_) => {}
        other => wrong.push(format!("{}: {other:?}", row.name)),
    });
    assert!(!drained.more);
    let as_it_was = |event: &VerdictEvent| {
        event.hook == row.hook
            && event.reason == Some(row.why)
            && event.errno == row.hook.errno
            && event.origin.cgroup_id == scene.stage.sandbox
            && event.origin.slot == scene.stage.slot
    };
    if told.len() as u64 != refused || !told.iter().all(as_it_was) {
        wrong.push(format!("{}: {} expected, {told:?}", row.name, row.why));
    }
    if scene.place.picture() != picture {
        wrong.push(format!("{}: left a trace", row.name));
    }
}

#[test]
fn every_hook_refuses_inside_what_works_outside_and_tells_of_it_once() {
    let mut scene = Scene::set("battery");
    let rows = scene.rows();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows.len(), "each row has a name of its own");
    let mut wrong = Vec::new();
    for row in &rows {
        outside(&mut scene, row, &mut wrong);
        inside(&mut scene, row, &mut wrong);
    }
    for hook in HOOKS.iter().filter(|hook| scene.there(hook)) {
        let [allowed, denied] = scene.hits(hook);
        let decides = !matches!(hook.rule, Rule::Label | Rule::Enrol);
        let second = SECOND.iter().any(|(name, _)| *name == hook.name);
        if decides && !second && denied == 0 {
            wrong.push(format!("`{}` refused nothing", hook.name));
        }
        // What else has such an object came later than these kernels.
        let kinds = hook.name == "inode_init_security_anon";
        if !matches!(hook.rule, Rule::Never | Rule::Enrol) && !kinds && allowed == 0 {
            wrong.push(format!("`{}` allowed nothing", hook.name));
        }
    }
    // All that was reserved was there to be read.
    let counters = scene.stage.programs.slot_counters(scene.stage.slot).unwrap();
    let read = scene.stage.programs.consumed(scene.stage.slot).unwrap();
    if (counters.reserved, counters.lost) != (read.records, 0) {
        wrong.push(format!("{counters:?}, {read:?}"));
    }
    for program in scene.stage.programs.programs() {
        if program.recursion_misses != 0 {
            wrong.push(format!("{program:?}"));
        }
    }
    println!("{} rows", rows.len());
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
}
