//! The command line: one file a subcommand.

pub mod audit;
mod check;
pub mod out;
mod resolve;
mod run;
pub mod run_args;
mod warden;

use std::ffi::OsString;

use clap::{Parser, Subcommand, error::ErrorKind};

use crate::{exit::ExitStatus, init, proof, refusal::Refusal, warden::reaper};

/// Runs local MCP servers in a sandbox that the kernel enforces, with an audit trail.
#[derive(Debug, Parser)]
#[command(name = "guard-agent", version = crate::VERSION, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start an MCP server in a sandbox and check what passes between it and its client
    Run(Box<run_args::RunArgs>),
    /// Say what this machine enforces, proved by attacking it, and what to change
    Check(check::CheckArgs),
    /// Read and verify the audit trail
    Audit(audit::AuditArgs),
    /// The privileged part, started by `run` when none is running
    #[command(hide = true)]
    Warden(warden::WardenArgs),
    /// Works out what a command needs, with the rights of the user it will run as
    #[command(hide = true)]
    Resolve,
}

/// The whole program: role, arguments, work, exit status.
pub fn main() -> ExitStatus {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Every role waits for children of its own. It cannot fail, and nothing can be said yet if it does.
    let _ = crate::sys::signals::reset_children();
    // Roles that only our own processes start, without a command line to parse.
    match arguments.first().and_then(|name| name.to_str()) {
        Some(init::ROLE) => return init::main(),
        Some(proof::ROLE) => return ExitStatus::Ok,
        Some(reaper::ROLE) => return reaper::main(arguments.get(1..).unwrap_or_default()),
        _ => {}
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                return report(&misunderstood(&error));
            }
            let _ = error.print();
            return if error.use_stderr() {
                ExitStatus::Usage
            } else {
                ExitStatus::Ok
            };
        }
    };
    let result = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Audit(args) => audit::run(args),
        Command::Warden(args) => Ok(warden::run(&args)),
        Command::Resolve => resolve::main(),
    };
    result.unwrap_or_else(|refusal| report(&refusal))
}

/// The parser's error in the shape of all others: one line of what, one of why, one of what to do.
fn misunderstood(error: &clap::Error) -> Refusal {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut paragraphs = text.split("\n\n");
    let line = |paragraph: &str| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        crate::config::shown(words.join(" ").replace('\'', "`"))
    };
    let why = line(paragraphs.next().unwrap_or_default());
    // How to force a value through is not what somebody needs who mistyped a flag.
    let tip = paragraphs
        .flat_map(str::lines)
        .filter_map(|tip| tip.trim().strip_prefix("tip: "))
        .find(|tip| !tip.starts_with("to pass "))
        .map_or_else(String::new, |tip| format!("{}; ", line(tip)));
    Refusal::usage(
        "cannot understand the command line",
        why,
        format!("{tip}add `--help` to the command to see what it takes"),
    )
}

fn report(refusal: &Refusal) -> ExitStatus {
    eprintln!("{refusal}");
    refusal.exit
}
