//! One session of a gateway: its number, its user, its trail; then its one sandbox, or one for each of its calls.

use std::{rc::Rc, sync::Arc};

use super::{
    calls,
    launch::{report, step_failed},
    sandbox::{self, Plan},
    serve::Warden,
    trails::Trails,
};
use crate::{
    audit::AuditHandle,
    init::message::Ids,
    link::{
        asynchronous::AsyncLink,
        message::{Exited, Isolation, LaunchRequest, User},
    },
    refusal::Refusal,
};

/// Uids for children and gateways. No account lies here (it is above every range that distributions and
/// systemd assign), and a number is drawn anew for each session, so none is shared or soon reused.
const DYNAMIC_BASE: u32 = 2_100_000_000;
const DYNAMIC_SPAN: u32 = 40_000_000;

fn random<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| step_failed("launch.random", error))?;
    Ok(bytes)
}

pub(super) fn dynamic_uid() -> Result<u32, Refusal> {
    Ok(DYNAMIC_BASE + u32::from_ne_bytes(random()?) % DYNAMIC_SPAN)
}

fn ids(user: &User) -> Result<Ids, Refusal> {
    let ids = match user {
        User::Account { uid, gid, groups, .. } => Ids {
            uid: *uid,
            gid: *gid,
            groups: groups.clone(),
        },
        User::Dynamic => {
            let id = dynamic_uid()?;
            Ids {
                uid: id,
                gid: id,
                groups: Vec::new(),
            }
        }
    };
    // Checked where it counts, whatever the gateway sent.
    if ids.uid == 0 || ids.gid == 0 || ids.groups.contains(&0) {
        return Err(Refusal::usage(
            "cannot launch as root",
            "a contained server never has uid or gid 0",
            "name a user with `--user NAME`, or leave it out for an unprivileged one",
        ));
    }
    Ok(ids)
}

/// The whole session. An error means that nothing was started and nothing is left.
pub(super) async fn run(
    warden: &Rc<Warden>,
    link: &mut AsyncLink,
    request: LaunchRequest,
) -> Result<Exited, Refusal> {
    let audit = request.audit.to_path_buf();
    if !audit.is_absolute() {
        return Err(Refusal::usage(
            format!("cannot use audit directory `{}`", request.audit),
            "it is not an absolute path",
            "name it from `/` on",
        ));
    }
    let request = super::unprivileged::with_view(&warden.facts, request)?;
    let trail = warden.trails.acquire(&audit).await?;
    tracing::debug!(
        server = request.server,
        roots = request.roots.len(),
        grants = request.runtime.grants.len(),
        "a launch is asked for"
    );
    let result = with_trail(warden, link, request, &trail).await;
    Trails::release(warden, &audit).await;
    result
}

async fn with_trail(
    warden: &Rc<Warden>,
    link: &mut AsyncLink,
    request: LaunchRequest,
    trail: &AuditHandle,
) -> Result<Exited, Refusal> {
    let session: String = random::<6>()?
        .iter()
        .fold("s-".to_owned(), |text, byte| format!("{text}{byte:02x}"));
    let ids = ids(&request.user)?;
    super::unprivileged::same_ids(warden.context.ground, &ids)?;
    let doubt = warden.ring.skipped_now().why();
    report::tier(&request, &warden.facts, doubt.as_deref())?;
    let isolation = request.isolation;
    let plan = Plan {
        session,
        request: Arc::new(request),
        ids,
        held: None,
    };
    match isolation {
        Isolation::Session => sandbox::run(warden, link, &plan, None, trail).await.result,
        Isolation::Call { .. } => calls::run(warden, link, plan, trail).await,
    }
}
