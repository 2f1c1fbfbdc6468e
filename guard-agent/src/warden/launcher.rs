//! The thread that makes sandboxes. It lives as long as the warden: a sandbox's init dies with it.

use std::{io, sync::mpsc, thread};

use tokio::sync::oneshot;

use super::launch::{Context, Job, Parked, park};
use crate::refusal::Refusal;

struct Order {
    job: Job,
    answer: oneshot::Sender<Result<Parked, Refusal>>,
}

/// A handle on the thread.
#[derive(Debug, Clone)]
pub(super) struct Launcher {
    orders: mpsc::Sender<Order>,
}

impl Launcher {
    pub(super) fn start(context: std::sync::Arc<Context>) -> io::Result<Self> {
        let (orders, incoming) = mpsc::channel::<Order>();
        thread::Builder::new().name("launcher".into()).spawn(move || {
            for Order { job, answer } in incoming {
                // The asker may be gone; a sandbox nobody waits for is undone by dropping it.
                if let Err(Ok(parked)) = answer.send(park(&context, &job)) {
                    parked.abandon();
                }
            }
        })?;
        Ok(Self { orders })
    }

    pub(super) async fn park(&self, job: Job) -> Result<Parked, Refusal> {
        let gone = || super::launch::step_failed("launch.thread", "the launcher thread has ended");
        let (answer, result) = oneshot::channel();
        self.orders.send(Order { job, answer }).map_err(|_| gone())?;
        result.await.map_err(|_| gone())?
    }
}
