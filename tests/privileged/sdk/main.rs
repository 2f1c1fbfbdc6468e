//! Real MCP servers driven by the clients of the official SDKs: with the agent between them every line either end gets
//! is the same, to the byte, as without it, and each call is on record. One test a pair of client and server.

mod clients;
mod pair;
mod servers;
mod steps;
mod trail;
mod wire;

use anyhow::Result;
use clients::Client;
use libtest_mimic::{Arguments, Failed, Trial};
use pair::Pair;
use servers::Server;

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let full = std::env::var("GUARD_TEST_FULL").is_ok_and(|value| value == "1");
    let mut trials = Vec::new();
    for client in Client::ALL {
        for server in Server::ALL {
            if full || usual(client, server) {
                let pair = Pair { client, server };
                let name = format!("{}::{}", client.name(), server.name());
                trials.push(Trial::test(name, move || {
                    pair.run().map_err(|error| Failed::from(format!("{error:#}")))
                }));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Every client meets a server of each language, and every server one client at least: of the era it is made for, where
/// it is made for one.
fn usual(client: Client, server: Server) -> bool {
    match server {
        Server::Everything | Server::Time => true,
        Server::Filesystem => client == Client::TypescriptOne,
        Server::Git => client == Client::TypescriptTwo,
        Server::Memory | Server::Fetch => client == Client::PythonTwo,
        Server::Sqlite => client == Client::PythonOne,
    }
}
