//! Which type has a name. A load asks some hundred times, and a kernel has a hundred thousand types.

use super::records::{Kind, Record, Records};

/// Structures and functions in chains, by a number made from the name: a chain is read in the order of the types.
#[derive(Debug)]
pub(super) struct Names {
    /// The first type of each chain, 0 for none.
    first: Vec<u32>,
    /// By type: the next one of its chain, 0 for none.
    next: Vec<u32>,
}

/// As many as most kernels have names, in the order of magnitude.
const CHAINS: usize = 1 << 16;

impl Names {
    pub(super) fn of(records: &Records) -> Self {
        let mut names = Self {
            first: vec![0; CHAINS],
            next: vec![0; records.len().saturating_add(1)],
        };
        // Backwards, since each is put before those that were.
        for number in (1..=u32::try_from(records.len()).unwrap_or(u32::MAX)).rev() {
            let Some((name, Kind::Structure | Kind::Function)) = records.head(number) else {
                continue;
            };
            let Some(name) = records.name(name) else { continue };
            if let (Some(first), Some(next)) = (
                names.first.get_mut(chain(name)),
                names.next.get_mut(number as usize),
            ) {
                *next = *first;
                *first = number;
            }
        }
        names
    }

    /// Numbers and records of that kind and name, in order.
    pub(super) fn find<'a>(
        &'a self,
        records: &'a Records,
        kind: Kind,
        name: &str,
    ) -> impl Iterator<Item = (u32, Record<'a>)> + use<'a> {
        let name = name.to_owned();
        let first = self.first.get(chain(name.as_bytes())).copied();
        std::iter::successors(first, |number| self.next.get(*number as usize).copied())
            .take_while(|number| *number != 0)
            .filter_map(|number| Some((number, records.get(number)?)))
            .filter(move |(_, record)| record.kind == kind && records.is_called(record.name, &name))
    }
}

/// From a name's length and both its ends: names are compared after it, and it is made for every name of a kernel.
fn chain(name: &[u8]) -> usize {
    let end = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let (start, end) = if name.len() < 8 {
        (
            name.iter()
                .fold(0, |sum: u64, byte| (sum << 8) | u64::from(*byte)),
            0,
        )
    } else {
        (end(name.first_chunk()), end(name.last_chunk()))
    };
    let mixed = (start ^ end.rotate_left(23) ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The upper bits of a product depend on all of it.
    usize::try_from(mixed >> 48).unwrap_or(0)
}
