//! Arguments in, exit status out; everything else is the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    guard_agent::cli::main().into()
}
