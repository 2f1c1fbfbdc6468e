//! What a gateway tells of the calls of its client, on a socket of its own: whoever passes calls on waits for the word
//! that one is on record, and for nothing else.

use serde::{Deserialize, Serialize};

use crate::audit::Call;

/// Bits of a call stamp.
pub const BITS: u32 = 64;

/// Gateway → warden. Of the record the warden takes all but `session`, `server`, `call` and `kernel`, which it knows
/// itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Told {
    /// A call is about to be passed on; answered with [`Noted`] once that is on record. Its number is higher than all
    /// before it in this session.
    Begin {
        call: u64,
        /// Which bit of the stamp stands for it. Set only after the answer, and cleared before `End` is sent.
        bit: u32,
        record: Box<Call>,
    },
    /// It is over. Not answered.
    End { call: u64, record: Box<Call> },
    /// A message that was refused. Not answered.
    Refused { record: Box<Call> },
}

/// Warden → gateway: the beginning of this call is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noted {
    pub call: u64,
}
