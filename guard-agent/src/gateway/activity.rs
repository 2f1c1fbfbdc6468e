//! Who said how much, and when: what the end of a session is decided by, and told with.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Who spoke last, and how much of the server's words the client took.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) start: Instant,
    /// When the client spoke for the first time.
    first: OnceLock<Instant>,
    /// Microseconds from the start.
    pub(super) client: AtomicU64,
    pub(super) server: AtomicU64,
    /// Bytes.
    pub(super) to_server: AtomicU64,
    pub(super) to_client: AtomicU64,
}

impl Activity {
    pub(super) fn begun_now() -> Self {
        Self {
            start: Instant::now(),
            first: OnceLock::new(),
            client: AtomicU64::new(0),
            server: AtomicU64::new(0),
            to_server: AtomicU64::new(0),
            to_client: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn client_spoke(&self) {
        self.client.store(self.now(), Ordering::Relaxed);
        self.first.get_or_init(Instant::now);
    }

    /// How long the client has waited for the server's first word.
    pub(super) fn unheard_for(&self) -> Option<Duration> {
        if self.server.load(Ordering::Relaxed) > 0 || self.to_server.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.first.get().map(Instant::elapsed)
    }

    pub(super) fn server_spoke(&self) {
        self.server.store(self.now(), Ordering::Relaxed);
    }

    /// Whether the client spoke last, where nothing more is known of what they say.
    pub(super) fn server_is_due(&self) -> bool {
        let client = self.client.load(Ordering::Relaxed);
        self.to_server.load(Ordering::Relaxed) > 0 && client >= self.server.load(Ordering::Relaxed)
    }

    pub(super) fn quiet_for(&self) -> Duration {
        let last = self
            .client
            .load(Ordering::Relaxed)
            .max(self.server.load(Ordering::Relaxed));
        Duration::from_micros(self.now().saturating_sub(last))
    }
}
