//! A look at the parked init from outside: what it says of itself is not evidence.

use std::{collections::HashMap, fs, io, os::unix::fs::MetadataExt as _, path::Path};

use crate::{
    init::message::{Ground, Ids},
    warden::hold::Sandbox,
};

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("cannot read `{path}` of the parked process: {source}")]
    Read { path: String, source: io::Error },
    #[error("`{field}` of the parked process is `{found}`, not `{wanted}`")]
    Status {
        field: &'static str,
        found: String,
        wanted: String,
    },
    #[error("the parked process shares the warden's {namespace} namespace")]
    Namespace { namespace: &'static str },
    #[error("the parked process is in cgroup `{found}`, not in its own")]
    Cgroup { found: String },
}

/// At tier T2 the first six, in a user namespace the last six.
const NAMESPACES: [&str; 7] = ["cgroup", "mnt", "pid", "net", "ipc", "uts", "user"];

/// Ids, capabilities, no_new_privs, seccomp, namespaces and cgroup, as the kernel reports them.
pub fn verify(pid: i32, ids: &Ids, ground: Ground, sandbox: &Sandbox) -> Result<(), VerifyError> {
    let read = |name: &str| {
        let path = format!("/proc/{pid}/{name}");
        fs::read_to_string(&path).map_err(|source| VerifyError::Read { path, source })
    };
    check_status(&read("status")?, ids, ground)?;
    let namespaces = match ground {
        Ground::Machine => &NAMESPACES[..6],
        Ground::UserNamespace => {
            for (file, id) in [("uid_map", ids.uid), ("gid_map", ids.gid)] {
                check_map(file, &read(file)?, id)?;
            }
            // The cgroup's only hides a name, and may be missing.
            &NAMESPACES[1..]
        }
        // None was made, and a process that may not be dumped shows none without privilege.
        Ground::Bare => &[],
    };
    for namespace in namespaces {
        let inode = |path: String| {
            fs::metadata(&path)
                .map(|meta| meta.ino())
                .map_err(|source| VerifyError::Read { path, source })
        };
        if inode(format!("/proc/{pid}/ns/{namespace}"))? == inode(format!("/proc/self/ns/{namespace}"))? {
            return Err(VerifyError::Namespace { namespace });
        }
    }
    let Some(cgroup) = sandbox.cgroup() else {
        return Ok(());
    };
    let membership = read("cgroup")?;
    let path = membership
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .unwrap_or_default();
    let own = cgroup.path();
    // Seen from the warden's cgroup namespace the path may begin above us; the last two names are ours.
    let tail = |path: &Path| -> Vec<_> { path.iter().rev().take(2).map(ToOwned::to_owned).collect() };
    if tail(Path::new(path)) != tail(own) {
        return Err(VerifyError::Cgroup {
            found: path.to_owned(),
        });
    }
    Ok(())
}

/// One id is mapped, onto itself.
fn check_map(field: &'static str, text: &str, id: u32) -> Result<(), VerifyError> {
    let found = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted = format!("{id} {id} 1");
    if found == wanted {
        Ok(())
    } else {
        Err(VerifyError::Status { field, found, wanted })
    }
}

fn check_status(status: &str, ids: &Ids, ground: Ground) -> Result<(), VerifyError> {
    let fields: HashMap<&str, String> = status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect();
    let four = |id: u32| format!("{id} {id} {id} {id}");
    let mut groups: Vec<u32> = ids.groups.clone();
    groups.sort_unstable();
    let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
    let none = || "0000000000000000".to_owned();
    let wanted: [(&'static str, String); 10] = [
        ("Uid", four(ids.uid)),
        ("Gid", four(ids.gid)),
        ("Groups", groups.join(" ")),
        ("CapInh", none()),
        ("CapPrm", none()),
        ("CapEff", none()),
        ("CapBnd", none()),
        ("CapAmb", none()),
        ("NoNewPrivs", "1".into()),
        ("Seccomp", "2".into()),
    ];
    for (field, wanted) in wanted {
        // Without a capability in any set, and none to be had again, the bound means nothing; nor can it be emptied.
        if field == "CapBnd" && ground == Ground::Bare {
            continue;
        }
        let found = fields.get(field).cloned().unwrap_or_default();
        if found != wanted {
            return Err(VerifyError::Status { field, found, wanted });
        }
    }
    // Two filters of ours: the one that reports and the allow-list. Inherited ones come on top.
    if let Some(count) = fields.get("Seccomp_filters")
        && count.parse::<u32>().map_or(true, |count| count < 2)
    {
        return Err(VerifyError::Status {
            field: "Seccomp_filters",
            found: count.clone(),
            wanted: "2 or more".into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(change: impl Fn(&str) -> String) -> String {
        let good = "Name:\tguard-agent\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t4 20 \nCapInh:\t0000000000000000\n\
                    CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n\
                    CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2\n";
        change(good)
    }

    #[test]
    fn each_field_counts() {
        let ids = Ids {
            uid: 7,
            gid: 8,
            groups: vec![20, 4],
        };
        assert!(check_status(&status(str::to_owned), &ids, Ground::Machine).is_ok());
        for (from, to) in [
            ("Uid:\t7\t7", "Uid:\t7\t0"),
            ("Gid:\t8", "Gid:\t0"),
            ("4 20", "0 4 20"),
            ("CapBnd:\t0000000000000000", "CapBnd:\t000001ffffffffff"),
            ("CapEff:\t0000000000000000", "CapEff:\t0000000000000001"),
            ("CapInh:\t0000000000000000", "CapInh:\t0000000000000001"),
            ("CapPrm:\t0000000000000000", "CapPrm:\t0000000000000001"),
            ("CapAmb:\t0000000000000000", "CapAmb:\t0000000000000001"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
            ("Seccomp:\t2", "Seccomp:\t0"),
            ("Seccomp_filters:\t2", "Seccomp_filters:\t1"),
        ] {
            let bad = status(|good| good.replace(from, to));
            assert!(check_status(&bad, &ids, Ground::Machine).is_err(), "{to} passed");
            let bare = check_status(&bad, &ids, Ground::Bare);
            assert_eq!(bare.is_ok(), to.starts_with("CapBnd"), "{to}");
        }
    }

    #[test]
    fn one_id_is_mapped_onto_itself() {
        assert!(check_map("uid_map", "      1000       1000          1\n", 1000).is_ok());
        for bad in [
            "",
            "0 1000 1",
            "1000 0 1",
            "1000 1000 2",
            "1000 1000 1\n2000 2000 1",
            "0 0 4294967295",
        ] {
            assert!(check_map("uid_map", bad, 1000).is_err(), "{bad} passed");
        }
    }
}
