//! What has to be on record of each attempt: who refused it, and by which hook.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use anyhow::Result;
use serde_json::Value;

use super::machine::{Tier, asked_first};

/// What the hostile server tried to reach.
pub(super) struct Attempts {
    pub(super) secret: PathBuf,
    pub(super) link: PathBuf,
    pub(super) addon: PathBuf,
    pub(super) port: u16,
}

/// One record that has to be there.
pub(super) struct Wanted {
    what: &'static str,
    op: &'static str,
    /// Any, where it is not said.
    layer: Option<&'static str>,
    /// Of the layer `bpf-lsm`.
    hook: Option<&'static str>,
    path: Option<PathBuf>,
    port: Option<u16>,
    /// How many there are of it.
    pub(super) records: usize,
}

impl Wanted {
    fn path(what: &'static str, op: &'static str, path: &Path) -> Self {
        Self {
            what,
            op,
            layer: None,
            hook: None,
            path: Some(path.to_owned()),
            port: None,
            records: 1,
        }
    }

    fn by(mut self, layer: &'static str, hook: &'static str) -> Self {
        self.layer = Some(layer);
        self.hook = (layer == "bpf-lsm").then_some(hook);
        self
    }

    pub(super) fn find<'a>(&self, records: &'a [Value]) -> Vec<&'a Value> {
        let is = |record: &&Value| {
            record["kind"] == "kernel"
                && record["server"] == "hostile"
                && record["decision"] == "deny"
                && record["op"] == self.op
                && self.layer.is_none_or(|layer| record["layer"] == layer)
                && record["detail"]["hook"].as_str() == self.hook
                && record["path"].as_str() == self.path.as_deref().and_then(Path::to_str)
                && self.port.is_none_or(|port| record["port"] == port)
        };
        records.iter().filter(is).collect()
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is on record", self.what)?;
        if let Some(layer) = self.layer {
            write!(f, " as refused by {layer}")?;
        }
        self.hook.map_or(Ok(()), |hook| write!(f, ", hook {hook}"))
    }
}

/// What has to be there at a tier.
pub(super) fn wanted(tier: Tier, attempts: &Attempts) -> Result<Vec<Wanted>> {
    let secret = Wanted::path("the open of the secret", "open", &attempts.secret);
    let link = Wanted::path("the open of the link", "open", &attempts.link);
    let connect = Wanted {
        what: "the connection",
        op: "connect",
        layer: Some("cgroup-bpf"),
        hook: None,
        path: None,
        port: Some(attempts.port),
        records: 1,
    };
    Ok(match tier {
        Tier::T2 => vec![secret, link, connect],
        Tier::T1 => {
            let addon = Wanted::path("the add-on mapped as code", "mmap", &attempts.addon);
            let mut wanted = match asked_first()? {
                // The hook names what the link leads to; the second refusal of the same is counted in a later record.
                "bpf-lsm" => vec![Wanted { records: 2, ..secret }.by("bpf-lsm", "file_open")],
                other => vec![secret.by(other, ""), link.by(other, "")],
            };
            wanted.extend([addon.by("bpf-lsm", "mmap_file"), connect]);
            wanted
        }
    })
}

/// The members of a record that say who refused what, and why.
pub(super) fn line(record: &Value) -> String {
    let text = |name: &str| record[name].as_str().unwrap_or("-").to_owned();
    let object = record["path"].as_str().map_or_else(
        || format!("{}:{}", text("address"), record["port"]),
        str::to_owned,
    );
    let hook = record["detail"]["hook"].as_str().unwrap_or("-");
    let repeat = record["repeat"]
        .as_u64()
        .map_or_else(String::new, |repeat| format!(" (again: {repeat})"));
    format!(
        "op={} decision={} layer={} hook={hook} reason={} {object}{repeat}",
        text("op"),
        text("decision"),
        text("layer"),
        text("reason")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_that_does_not_name_the_hook_is_none() {
        let wanted = Wanted::path("an open", "open", Path::new("/srv/secret")).by("bpf-lsm", "file_open");
        let record = |layer: &str, hook: Value| {
            json!({ "kind": "kernel", "server": "hostile", "decision": "deny", "op": "open", "layer": layer,
                "path": "/srv/secret", "reason": "outside-roots", "detail": { "hook": hook } })
        };
        let good = record("bpf-lsm", "file_open".into());
        let others = [
            record("landlock", Value::Null),
            record("bpf-lsm", Value::Null),
            record("bpf-lsm", "mmap_file".into()),
        ];
        assert_eq!(wanted.find(&others).len(), 0);
        let all = [others.as_slice(), std::slice::from_ref(&good)].concat();
        assert_eq!(wanted.find(&all), [&good]);
        assert_eq!(
            line(&good),
            "op=open decision=deny layer=bpf-lsm hook=file_open reason=outside-roots /srv/secret"
        );
    }
}
