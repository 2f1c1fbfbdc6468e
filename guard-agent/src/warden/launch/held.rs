//! What a plan may use, opened once with the child's own rights. A session that launches again uses the same objects:
//! whatever lies at a path by then, a later sandbox gets what the first one got.

use std::{io, path::Path};

use super::{
    Context, Job,
    roots::{self, Opened, Reserved},
    step_failed, view,
};
use crate::{
    config::rights::Rights,
    init::message::{Ground, Ids},
    refusal::Refusal,
    runtime::Grant,
    sys::fs::AsUser,
};

/// Roots and grants, open.
#[derive(Debug)]
pub struct Held {
    pub(super) roots: Vec<(Opened, Rights)>,
    pub(super) grants: Vec<(Grant, Opened)>,
}

/// The rights of a sandbox's user on files, taken by this thread. Without privilege it has no others.
pub(super) fn as_user(context: &Context, ids: &Ids) -> Result<Option<AsUser>, Refusal> {
    (context.ground == Ground::Machine)
        .then(|| AsUser::enter(ids.uid, ids.gid, &ids.groups))
        .transpose()
        .map_err(|error| {
            step_failed(
                "launch.roots",
                format!("cannot take the rights of uid {}: {error}", ids.uid),
            )
        })
}

fn reserved<'a>(context: &'a Context, audit: &'a Path) -> Reserved<'a> {
    Reserved {
        paths: vec![
            ("audit directory", audit),
            ("state directory", context.state.as_path()),
        ],
    }
}

/// Opens roots and grants as the child's user. The calling thread is to live as long as the warden.
pub fn hold(context: &Context, job: &Job) -> Result<Held, Refusal> {
    let request = &job.request;
    let audit = request.audit.to_path_buf();
    let reserved = reserved(context, &audit);
    let uid = job.ids.uid;
    let user = as_user(context, &job.ids)?;
    let mut roots: Vec<(Opened, Rights)> = Vec::new();
    for root in &request.roots {
        if let Some(tree) = view::private_tree(root.path.as_path()) {
            return Err(Refusal::usage(
                format!("cannot use root `{}`", root.path),
                format!("`{tree}` is always the sandbox's own"),
                "name a directory elsewhere",
            ));
        }
        roots.push((roots::open_root(root, uid, &reserved)?, root.rights));
    }
    let paths: Vec<_> = roots
        .iter()
        .map(|(opened, rights)| (opened.resolved.clone(), *rights))
        .collect();
    roots::check_nesting(&paths)?;
    let grants = request
        .runtime
        .grants
        .iter()
        .map(|grant| Ok((grant.clone(), roots::open_grant(grant, uid)?)))
        .collect::<Result<_, Refusal>>()?;
    drop(user);
    Ok(Held { roots, grants })
}

impl Held {
    /// The same objects for one more sandbox. What could have come into a root since is looked for again.
    pub(super) fn again(&self, context: &Context, job: &Job) -> Result<Self, Refusal> {
        let audit = job.request.audit.to_path_buf();
        let reserved = reserved(context, &audit);
        for (root, _) in &self.roots {
            roots::check_again(root, &reserved)?;
        }
        let copies = || -> io::Result<Self> {
            let roots = self.roots.iter();
            let grants = self.grants.iter();
            Ok(Self {
                roots: roots
                    .map(|(root, rights)| Ok((root.try_clone()?, *rights)))
                    .collect::<io::Result<_>>()?,
                grants: grants
                    .map(|(grant, opened)| Ok((grant.clone(), opened.try_clone()?)))
                    .collect::<io::Result<_>>()?,
            })
        };
        copies().map_err(|error| step_failed("launch.roots", error))
    }
}
