//! The thread that makes sandboxes. It lives as long as the warden: a sandbox's init dies with it.

use std::{io, sync::mpsc, thread};

use tokio::sync::oneshot;

use super::launch::{
    Context, Job, Parked,
    held::{Held, hold},
    park, step_failed,
};
use crate::refusal::Refusal;

enum Order {
    /// Open what a plan may use.
    Hold(Job, oneshot::Sender<Result<Held, Refusal>>),
    Park(Job, oneshot::Sender<Result<Parked, Refusal>>),
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
            for order in incoming {
                match order {
                    Order::Hold(job, answer) => drop(answer.send(hold(&context, &job))),
                    // The asker may be gone; a sandbox nobody waits for is undone by dropping it.
                    Order::Park(job, answer) => {
                        if let Err(Ok(parked)) = answer.send(park(&context, &job)) {
                            parked.abandon();
                        }
                    }
                }
            }
        })?;
        Ok(Self { orders })
    }

    pub(super) async fn park(&self, job: Job) -> Result<Parked, Refusal> {
        self.order(|answer| Order::Park(job, answer)).await
    }

    pub(super) async fn hold(&self, job: Job) -> Result<Held, Refusal> {
        self.order(|answer| Order::Hold(job, answer)).await
    }

    async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<T, Refusal>>) -> Order,
    ) -> Result<T, Refusal> {
        let gone = || step_failed("launch.thread", "the launcher thread has ended");
        let (answer, result) = oneshot::channel();
        self.orders.send(order(answer)).map_err(|_| gone())?;
        result.await.map_err(|_| gone())?
    }
}
