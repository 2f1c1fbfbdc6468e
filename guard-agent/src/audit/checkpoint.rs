//! Signed statements about the chain's head.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    chain::Digest,
    record::{Seq, Stamp},
};

/// "At this time record `seq` was the head and had this hash."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The record before this one.
    pub seq: Seq,
    /// Its hash.
    pub root: Digest,
    /// SHA-256 of the 32 bytes of the public key.
    pub key_id: Digest,
    /// The key that signs from here on, when this is the last of `key_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_key: Option<Digest>,
    /// Ed25519, base64.
    pub signature: String,
}

pub(super) fn key_id(key: &VerifyingKey) -> Digest {
    Digest::of(&[key.as_bytes()])
}

/// What is signed. Every part has a fixed length, so no two statements have the same bytes.
fn message(chain: Digest, seq: Seq, root: Digest, time: Stamp, next_key: Option<Digest>) -> Vec<u8> {
    let mut message = b"guard-agent audit checkpoint v1\0".to_vec();
    message.extend_from_slice(&chain.0);
    message.extend_from_slice(&seq.to_be_bytes());
    message.extend_from_slice(&root.0);
    // The text has one length for all years from 0000 to 9999.
    message.extend_from_slice(time.to_string().as_bytes());
    message.push(next_key.is_some().into());
    message.extend_from_slice(&next_key.unwrap_or(Digest([0; 32])).0);
    message
}

impl Checkpoint {
    pub(super) fn sign(
        key: &SigningKey,
        chain: Digest,
        seq: Seq,
        root: Digest,
        time: Stamp,
        next_key: Option<Digest>,
    ) -> Self {
        let signature = key.sign(&message(chain, seq, root, time, next_key));
        let key_id = key_id(&key.verifying_key());
        Self {
            seq,
            root,
            key_id,
            next_key,
            signature: STANDARD.encode(signature.to_bytes()),
        }
    }

    /// Whether `key` said this, about this chain, at this time.
    pub(super) fn verified(&self, key: &VerifyingKey, chain: Digest, time: Stamp) -> bool {
        let Ok(bytes) = STANDARD.decode(&self.signature) else {
            return false;
        };
        let Ok(signature) = Signature::from_slice(&bytes) else {
            return false;
        };
        let message = message(chain, self.seq, self.root, time, self.next_key);
        key.verify_strict(&message, &signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_statement_is_signed() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let other = SigningKey::from_bytes(&[8; 32]);
        let (chain, root, time) = (Digest([1; 32]), Digest([2; 32]), Stamp::from_micros(1));
        let good = Checkpoint::sign(&key, chain, 5, root, time, None);
        let public = key.verifying_key();
        assert!(good.verified(&public, chain, time));
        assert!(!good.verified(&other.verifying_key(), chain, time));
        assert!(!good.verified(&public, Digest([3; 32]), time));
        assert!(!good.verified(&public, chain, Stamp::from_micros(2)));
        assert!(
            !Checkpoint {
                seq: 6,
                ..good.clone()
            }
            .verified(&public, chain, time)
        );
        assert!(
            !Checkpoint {
                root: chain,
                ..good.clone()
            }
            .verified(&public, chain, time)
        );
        assert!(
            !Checkpoint {
                next_key: Some(root),
                ..good.clone()
            }
            .verified(&public, chain, time)
        );
        assert!(
            !Checkpoint {
                signature: "AAAA".into(),
                ..good
            }
            .verified(&public, chain, time)
        );
    }
}
