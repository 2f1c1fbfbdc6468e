//! Which type has a name. A load asks a hundred times, and a kernel has a hundred thousand types.

use super::records::{Kind, Record, Records};

/// Hash of the name, and number, of every structure and function: sorted.
#[derive(Debug)]
pub(super) struct Names(Vec<(u32, u32)>);

impl Names {
    pub(super) fn of(records: &Records) -> Self {
        let mut names: Vec<(u32, u32)> = records
            .iter()
            .filter(|(_, record)| matches!(record.kind, Kind::Structure | Kind::Function))
            .filter_map(|(number, record)| Some((hash(records.name(record.name)?), number)))
            .collect();
        names.sort_unstable();
        Self(names)
    }

    /// Numbers and records of that kind and name, in order.
    pub(super) fn find<'a>(
        &'a self,
        records: &'a Records,
        kind: Kind,
        name: &str,
    ) -> impl Iterator<Item = (u32, Record<'a>)> + use<'a> {
        let wanted = hash(name.as_bytes());
        let name = name.to_owned();
        let first = self.0.partition_point(|(hash, _)| *hash < wanted);
        self.0
            .get(first..)
            .unwrap_or_default()
            .iter()
            .take_while(move |(hash, _)| *hash == wanted)
            .filter_map(|(_, number)| Some((*number, records.get(*number)?)))
            .filter(move |(_, record)| record.kind == kind && records.is_called(record.name, &name))
    }
}

/// FNV-1a. Names are compared after it: it only has to be quick.
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
