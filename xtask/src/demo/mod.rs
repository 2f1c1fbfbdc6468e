//! `cargo xtask demo`: the product's main job with a real client and real servers, every claim checked. Where this
//! machine has no tier T1 it repeats itself in a virtual one that has.

mod client;
mod guest;
mod machine;
mod play;
mod programs;
mod refusals;
mod stage;
mod tier;
mod trail;

use std::{path::PathBuf, time::Instant};

use anyhow::{Result, ensure};

use crate::setup;
use machine::{Machine, Tier};
use play::Demo;
use programs::Programs;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// In a virtual machine: what it needs is there, node at this place
    #[arg(long, hide = true, value_name = "NODE")]
    inside: Option<PathBuf>,
}

/// What was claimed so far, and what of it did not hold.
#[derive(Default)]
struct Claims {
    made: usize,
    broken: Vec<String>,
}

impl Claims {
    fn check(&mut self, holds: bool, claim: &str) {
        self.made += 1;
        if !holds {
            println!("   NOT AS EXPECTED: {claim}");
            self.broken.push(claim.to_owned());
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(node) = &args.inside {
        return play(&Programs::in_a_guest(node.clone()), &Machine::emulated());
    }
    setup::root("cargo xtask demo")?;
    let start = Instant::now();
    println!("preparing: agent, node, the client SDK, a server and an add-on from npm");
    let programs = Programs::here()?;
    let machine = Machine::this(&programs.agent)?;
    println!("prepared in {:.1} s", start.elapsed().as_secs_f64());
    play(&programs, &machine)?;
    if machine.tier == Tier::T1 {
        return Ok(());
    }
    let why = machine.why.as_deref().unwrap_or("`check` does not say why");
    println!("\nThis machine gives tier T2. It has no T1: {why}.");
    println!("The same at tier T1, in a virtual machine with Debian's kernel (minutes in an emulator),");
    println!(
        "booted with `{}`: the security hooks are asked before Landlock.",
        guest::ORDER
    );
    guest::play(&programs)?;
    println!("\ndemo: everything holds, at tier T2 on this machine and at tier T1 in the virtual one");
    Ok(())
}

/// All of it, on the machine this process runs on.
fn play(programs: &Programs, machine: &Machine) -> Result<()> {
    let start = Instant::now();
    let mut demo = Demo::new(programs, machine)?;
    demo.ordinary_use()?;
    demo.hostile_server()?;
    demo.records()?;
    let claims = demo.end();
    let passed = claims.made - claims.broken.len();
    println!(
        "\ndemo at tier {}: {passed} of {} checks hold, {:.1} s",
        machine.tier.name(),
        claims.made,
        start.elapsed().as_secs_f64()
    );
    ensure!(
        claims.broken.is_empty(),
        "not as expected: {}",
        claims.broken.join("; ")
    );
    Ok(())
}
