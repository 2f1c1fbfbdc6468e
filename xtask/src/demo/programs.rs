//! What the demo runs: built or installed on this machine, or brought along into a virtual one.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::{cargo, fixtures, setup};

/// Where a virtual machine has the agent and the files of `tests/servers`.
pub(super) const GUEST: &str = "/case";
/// Where it has what npm installed.
pub(super) const GUEST_MODULES: &str = "/opt/demo";
const SERVER: &str = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";

pub(super) struct Programs {
    pub(super) agent: PathBuf,
    pub(super) node: PathBuf,
    /// The client, and the folder with the SDK it is made of.
    pub(super) client: PathBuf,
    pub(super) sdk: PathBuf,
    /// The folder that the reference file-system server was installed in.
    pub(super) modules: PathBuf,
    pub(super) hostile: PathBuf,
    /// A native add-on for node.
    pub(super) addon: PathBuf,
}

impl Programs {
    /// Builds and installs what is missing.
    pub(super) fn here() -> Result<Self> {
        let node = setup::node()?;
        fixtures::keep_in(setup::fixtures()?);
        let folder = |file: PathBuf| {
            file.ancestors()
                .find(|dir| dir.join("node_modules").is_dir())
                .map(Path::to_owned)
                .context("an installed package lies in no `node_modules`")
        };
        let servers = crate::workspace().join("tests/servers");
        Ok(Self {
            node: node.canonicalize().context("find node")?,
            modules: folder(fixtures::node_server_filesystem()?)?,
            sdk: fixtures::node_sdk()?,
            addon: fixtures::node_addon()?,
            agent: cargo::agent(&[])?,
            client: servers.join("demo-client.mjs"),
            hostile: servers.join("hostile.mjs"),
        })
    }

    /// Where `guest.rs` puts them.
    pub(super) fn in_a_guest(node: PathBuf) -> Self {
        let at = |name: &str| Path::new(GUEST).join(name);
        let modules = |name: &str| Path::new(GUEST_MODULES).join(name);
        Self {
            agent: at("guard-agent"),
            node,
            client: at("demo-client.mjs"),
            sdk: modules("sdk"),
            modules: modules("server-filesystem"),
            hostile: at("hostile.mjs"),
            addon: at("addon.node"),
        }
    }

    pub(super) fn server(&self) -> PathBuf {
        self.modules.join(SERVER)
    }
}
