//! The server is over, and what waits for it is told.

use serde_json::{Value, json};

use super::{Exchange, Out};
use crate::{
    gateway::protocol::answer::{self, INTERNAL_ERROR},
    link::message::Exited,
};

/// Why no answer will come any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) enum Ended {
    /// How, where that is known.
    Server(Option<Exited>),
    /// It closed its input, and may still say something.
    Deaf,
    Quarantined,
}

impl Ended {
    pub(super) fn words(&self, name: &str) -> String {
        match self {
            Self::Server(_) => format!("server \"{name}\" ended before it answered"),
            Self::Deaf => format!("server \"{name}\" does not read any more"),
            Self::Quarantined => format!("server \"{name}\" is quarantined"),
        }
    }

    pub(super) fn rule(&self) -> &'static str {
        match self {
            Self::Server(_) => "server-ended",
            Self::Deaf => "server-deaf",
            Self::Quarantined => "quarantined",
        }
    }

    fn data(&self) -> Value {
        let mut data = json!({"gate": "execution", "rule": self.rule()});
        if let Self::Server(Some(exited)) = self {
            data["reason"] = exited.reason.as_str().into();
            for (key, value) in [("code", exited.code), ("signal", exited.signal)] {
                if let Some(value) = value {
                    data[key] = value.into();
                }
            }
        }
        data
    }
}

impl Exchange {
    /// Nothing will be answered any more: what waits is told, and what comes will be.
    pub(in crate::gateway) fn end(&mut self, ended: Ended) -> Out {
        self.fail_after(0, ended)
    }

    /// The server did not take what came after this request. What it took it may still answer.
    pub(in crate::gateway) fn deaf(&mut self, last: u64) -> Out {
        self.fail_after(last, Ended::Deaf)
    }

    fn fail_after(&mut self, last: u64, ended: Ended) -> Out {
        let mut numbers: Vec<u64> = self
            .requests
            .keys()
            .copied()
            .filter(|number| *number > last)
            .collect();
        numbers.sort_unstable();
        let mut out = Out::default();
        for number in numbers {
            if let Some(request) = self.take(number) {
                self.tell(&mut out, &request.raw, &ended);
                self.over(&request, ended.rule(), &mut out);
            }
        }
        // That it does not read says less than how it ended.
        if self.ended.is_none() || ended != Ended::Deaf {
            self.ended = Some(ended);
        }
        out
    }

    pub(super) fn tell(&self, out: &mut Out, id: &[u8], ended: &Ended) {
        let (words, data) = (ended.words(&self.name), ended.data());
        answer::error(&mut out.to_client, Some(id), INTERNAL_ERROR, &words, &data);
    }
}
