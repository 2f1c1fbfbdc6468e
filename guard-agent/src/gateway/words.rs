//! What is said on stderr when a session cannot go on as it should: what, and what to do.

use std::time::Duration;

use super::noise;

/// Said while the client still waits: its server will not answer any more.
pub(super) fn quarantined(name: &str, why: &str) -> String {
    format!(
        "[{name}] quarantined: {why}\n\
         [{name}]   nothing of it runs any more; it is killed when the client closes the connection\n\
         [{name}]   see what it tried with `guard-agent audit tail`, then close the connection or start the server anew\n"
    )
}

pub(super) fn noisy(name: &str) -> String {
    format!(
        "[{name}] ended: it wrote {} lines to its stdout that are no messages of the protocol\n\
         [{name}]   a server's log belongs to its stderr; what speaks no MCP is run with `--protocol none`\n",
        noise::MOST
    )
}

/// Of a server that was killed for it.
pub(super) fn too_slow(name: &str, what: &str, key: &str, limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    format!(
        "[{name}] ended: it has not {what} within {seconds} s\n\
         [{name}]   look into its own log for what it waits for; a policy gives it more time with `limits.{key}`\n"
    )
}

/// Of a program that ended in order, though somebody waited for it.
pub(super) fn no_server(name: &str, unanswered: usize, answered: bool) -> String {
    let what = if unanswered == 1 { "a request" } else { "requests" };
    let fix = if answered {
        "start the session again; look for what made it end in its own log"
    } else {
        "name the server's own command after `--`; a program that speaks something else than MCP is run with `--protocol none`"
    };
    format!(
        "error: `{name}` ended before it answered {what} of its client\n  why: it ended by itself, with status 0\n  fix: {fix}\n"
    )
}
