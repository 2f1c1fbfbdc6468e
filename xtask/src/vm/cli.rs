//! The command line of `cargo xtask vm`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{Case, Outcome, Status, Vm, cases, kernel, run};

const KERNELS: &[&str] = &["6.1", "6.12", kernel::NEWEST];

#[derive(clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// Kernel series: two numbers as in `6.12`, `newest`, or `all`; may be given more than once
    #[arg(long, default_value = "6.12", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Added to the kernel command line
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Memory in megabytes; by default as much as the files need
    #[arg(long, value_name = "MB")]
    memory: Option<u64>,
    #[arg(long, default_value_t = 1)]
    cpus: u32,
    /// Seconds the case may take
    #[arg(long, value_name = "S")]
    timeout: Option<u64>,
    /// Folder for what the case leaves in `/out`; with several machines, one folder each below it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Host file or folder for the guest, at the same place or at GUEST
    #[arg(long, value_name = "HOST[:GUEST]")]
    file: Vec<String>,
    /// Brings `shell`, `coreutils`, `node` or `python` along
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    with: Vec<String>,
    /// Variable of the case's environment
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Further kernel module to load
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// Size of an ext4 disk for `/disk`
    #[arg(long, value_name = "MB")]
    disk: Option<u64>,
    /// Directory of the guest that is empty for the case, such as `/sys/kernel/btf`
    #[arg(long, value_name = "DIR")]
    hide: Vec<String>,
    /// The agent of a `test:` case is one that fails on request
    #[arg(long)]
    faults: bool,
    /// `test:NAME` of guard-tests, `unit:PACKAGE`, a path to a static binary, or a named case
    case: String,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

fn after_help() -> String {
    format!("Named cases:\n{}", cases::list())
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let kernels: Vec<&str> = match args
        .kernel
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["all"] => KERNELS.to_vec(),
        given => given.to_vec(),
    };
    let mut list = cases::find(&args.case, &args.args, args.faults)?;
    for case in &mut list {
        adjust(case, args)?;
    }
    let several = kernels.len() * list.len() > 1;
    let mut failed = None;
    let mut table = Vec::new();
    for kernel in &kernels {
        for case in &list {
            let out = args.out.as_ref().map(|dir| {
                if several {
                    dir.join(format!("{kernel}-{}", case.label.replace([' ', '/'], "-")))
                } else {
                    dir.clone()
                }
            });
            let vm = Vm {
                kernel,
                append: &args.append,
                case,
                memory_mb: args.memory,
                cpus: args.cpus,
                out: out.as_deref(),
                stream: true,
                counted: false,
            };
            let outcome = run(&vm)?;
            let code = judge(&outcome, case);
            table.push(row(&outcome, case, code.is_none()));
            failed = failed.or(code);
        }
    }
    if several {
        table.iter().for_each(|row| eprintln!("{row}"));
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}

fn row(outcome: &Outcome, case: &Case, good: bool) -> String {
    let boot = outcome
        .boot
        .map_or_else(|| "-".to_owned(), |boot| format!("{:.1} s", boot.as_secs_f64()));
    let wall = outcome.wall.as_secs_f64();
    let word = if good { "ok" } else { "FAILED" };
    format!(
        "[vm {}] {word:<7}{:<16} boot {boot}, total {wall:.1} s",
        outcome.version, case.label
    )
}

/// The exit code of a run that did not end as its case says, with the reason printed.
fn judge(outcome: &Outcome, case: &Case) -> Option<ExitCode> {
    let result = match case.check {
        Some(check) => check(outcome),
        None if outcome.status == Status::Exit(0) => Ok(()),
        None => Err(anyhow::anyhow!("{}", outcome.status)),
    };
    let error = result.err()?;
    eprintln!("[vm] case `{}` failed: {error:#}", case.label);
    if !matches!(outcome.status, Status::Exit(_)) {
        eprintln!("[vm] last lines of the console:");
        for line in &outcome.console[outcome.console.len().saturating_sub(30)..] {
            eprintln!("    {line}");
        }
    }
    let code = match outcome.status {
        Status::Exit(code) => u8::try_from(code).unwrap_or(1).max(1),
        _ => 1,
    };
    Some(ExitCode::from(code))
}

fn adjust(case: &mut Case, args: &Args) -> Result<()> {
    case.modules.extend(args.module.iter().cloned());
    case.hide.extend(args.hide.iter().cloned());
    for name in &args.with {
        case.layers.push(cases::layer(name)?);
    }
    case.disk_mb = args.disk.or(case.disk_mb);
    case.timeout = args.timeout.map(Duration::from_secs).or(case.timeout);
    for pair in &args.env {
        let (name, value) = pair
            .split_once('=')
            .with_context(|| format!("`--env {pair}` is not NAME=VALUE"))?;
        case.env.push((name.to_owned(), value.to_owned()));
    }
    for file in &args.file {
        let (host, guest) = file.split_once(':').unwrap_or((file, file));
        let host = fs::canonicalize(host).with_context(|| format!("find `{host}`"))?;
        let guest = if file.contains(':') {
            PathBuf::from(guest)
        } else {
            host.clone()
        };
        case.files.host_at(&host, &guest)?;
    }
    Ok(())
}
