//! The project's task runner: `cargo xtask TASK`.

#![expect(clippy::print_stdout, reason = "what a task finds out is its output")]

mod apt;
mod bench;
mod btf;
mod cargo;
mod ci;
mod containment;
mod demo;
mod ebpf;
#[path = "../../tests/src/fixtures.rs"]
#[expect(dead_code, unreachable_pub, reason = "the tests use the rest of it")]
mod fixtures;
mod licences;
mod mutants;
mod page;
mod setup;
mod test;
mod tidy;
mod verify;
mod vm;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the guard-agent project")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// What the agent costs, each figure beside its peer
    Bench(bench::Args),
    /// Cut the type information of stock Debian kernels down to what the tests read
    BtfFixtures(btf::Args),
    /// Everything a change has to keep besides the tests
    Ci(ci::Args),
    /// The page of every attempt and what refused it, from runs on every leg
    Containment(containment::Args),
    /// The main job with a real client and real servers, and a hostile one; every claim checked
    Demo(demo::Args),
    /// Rebuild the eBPF object, or prove that the committed one is current
    Ebpf(ebpf::Args),
    /// Licences, sources and reasons of the dependencies
    Licences,
    /// Take away each line that protects; a named test must turn red
    Mutants(mutants::Args),
    /// Run every leg of the tests, on this machine and in virtual machines
    Test(test::Args),
    /// Conventions the compiler does not check
    Tidy,
    /// Load every program on each claimed kernel, and compare what its verifier walked with the baseline
    Verify(verify::Args),
    /// Run a test case in a virtual machine with a stock Debian kernel
    Vm(Box<vm::Args>),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Bench(args) => bench::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Ci(args) => ci::run(&args).map(|()| ExitCode::SUCCESS),
        Task::BtfFixtures(args) => btf::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Containment(args) => containment::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Licences => licences::run().map(|()| ExitCode::SUCCESS),
        Task::Tidy => tidy::run().map(|()| ExitCode::SUCCESS),
        Task::Demo(args) => demo::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Ebpf(args) => ebpf::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Mutants(args) => mutants::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Test(args) => test::run(&args),
        Task::Verify(args) => verify::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Vm(args) => vm::main(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the checkout.
fn workspace() -> PathBuf {
    // Asked at run time: checkouts that share a build directory share this program.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let own = Path::new(&own);
    own.parent().unwrap_or(own).to_owned()
}
