//! The project's task runner: `cargo xtask TASK`.

mod ebpf;

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
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Ebpf(args) => ebpf::run(&args),
    }
}
