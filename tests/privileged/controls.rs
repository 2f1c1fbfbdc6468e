//! Every probe outside the sandbox: an attempt that fails there proves nothing when it fails inside.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use anyhow::Result;
use guard_tests::{
    control,
    require::{Leg, Row, without_control},
    suite::{Declared, Suite},
    world::World,
};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let suite = Suite::load()?;
    let world = Arc::new(World::new("controls")?);
    let missing = Arc::new(Mutex::new(BTreeSet::new()));
    let mut trials = vec![Trial::test("legs", || {
        without_control().map(drop).map_err(failed)
    })];
    for probe in suite.probes {
        let (world, missing) = (Arc::clone(&world), Arc::clone(&missing));
        trials.push(Trial::test(probe.name.clone(), move || {
            one(&world, &probe, &missing)
        }));
    }
    let whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(world);
    if whole {
        let missing = missing.lock().map_err(|_| anyhow::anyhow!("a test panicked"))?;
        eprintln!("n/a for want of a feature: {missing:?}");
        Leg::current()?.judge(&missing)?;
    }
    conclusion.exit();
}

fn one(world: &World, probe: &Declared, missing: &Mutex<BTreeSet<String>>) -> Result<(), Failed> {
    if let Row::NotApplicable(why) = control::run(world, probe).map_err(failed)? {
        eprintln!("{}: n/a ({why})", probe.name);
        missing
            .lock()
            .map_err(|_| "poisoned")?
            .extend(probe.needs.clone());
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` wants")]
fn failed(error: anyhow::Error) -> Failed {
    format!("{error:#}").into()
}
