//! `warden`: the privileged background role (hidden; `run` starts it).

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{exit::ExitStatus, warden};

#[derive(Debug, Args)]
pub(super) struct WardenArgs {
    /// The state directory; one warden each
    #[arg(long)]
    state: PathBuf,
    /// Leave after this many milliseconds without a session
    #[arg(long, default_value_t = 5000)]
    idle_ms: u64,
    /// Stay at tier T2
    #[arg(long)]
    no_hooks: bool,
}

pub(super) fn run(args: &WardenArgs) -> ExitStatus {
    warden::main(&warden::Args {
        state: args.state.clone(),
        idle: Duration::from_millis(args.idle_ms),
        hooks: !args.no_hooks,
    })
}
