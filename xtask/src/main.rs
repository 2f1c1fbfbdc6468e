//! The project's task runner: `cargo xtask TASK`.

mod apt;
mod ebpf;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the guard-agent project")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Rebuild the eBPF object, or prove that the committed one is current
    Ebpf(ebpf::Args),
    /// Run a test case in a virtual machine with a stock Debian kernel
    Vm(vm::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Ebpf(args) => ebpf::run(&args).map(|()| ExitCode::SUCCESS),
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
