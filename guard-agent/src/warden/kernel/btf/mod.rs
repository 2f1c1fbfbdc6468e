//! Where the running kernel keeps a member of a structure, and what its functions take: from its own type information.
//!
//! Only what the loader asks for: the offset of a named, byte-aligned member, direct or in unnamed structures and
//! unions; the number of a function; its arguments. Anything unexpected in the data means "not known", never a guess.
//!
//! Order of reading: `records` (bytes to types), `names` (which type has a name), `arguments`.

mod arguments;
mod names;
mod records;
#[cfg(test)]
pub(super) mod tests;

pub use arguments::Argument;
use names::Names;
use records::{Kind, Record, Records};

/// The kernel's type information, kept as the bytes it came in.
#[derive(Debug)]
pub struct KernelTypes {
    records: Records,
    names: Names,
}

/// Unnamed structures in unnamed structures: deeper is not known.
const DEPTH: u32 = 8;
/// Members looked at for one answer. The largest structure of a kernel has some hundreds; without an end, a
/// structure full of itself would take for ever.
const MEMBERS_MOST: u32 = 1 << 16;

impl KernelTypes {
    /// Splits the data into its parts; `None` when it is not type information of this machine's byte order.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let records = Records::parse(data)?;
        Some(Self {
            names: Names::of(&records),
            records,
        })
    }

    /// Offset in bytes of `member` in the structure called `structure`. Where several are called so, those that have
    /// the member have to agree.
    pub fn member_offset(&self, structure: &str, member: &str) -> Option<u64> {
        let mut search = Search {
            records: &self.records,
            wanted: member,
            left: MEMBERS_MOST,
        };
        let mut answer = None;
        for (_, record) in self.named(Kind::Structure, structure) {
            let Some(offset) = search.within(&record, DEPTH).ok()? else {
                continue;
            };
            if answer.is_some_and(|earlier| earlier != offset) {
                return None;
            }
            answer = Some(offset);
        }
        answer
    }

    /// The number of the kernel function called `name`; of the first, where several are.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.named(Kind::Function, name).next().map(|(number, _)| number)
    }

    /// Numbers and records of that kind and name, in order.
    fn named(&self, kind: Kind, name: &str) -> impl Iterator<Item = (u32, Record<'_>)> {
        self.names.find(&self.records, kind, name)
    }
}

/// The member is there, and where it is cannot be told.
struct Unknown;

/// The look for one member.
struct Search<'a> {
    records: &'a Records,
    wanted: &'a str,
    /// How many more members are looked at.
    left: u32,
}

impl Search<'_> {
    /// The offset of the member in the structure or union, `None` when it is not there.
    fn within(&mut self, structure: &Record<'_>, depth: u32) -> Result<Option<u64>, Unknown> {
        for index in 0..structure.count {
            self.left = self.left.checked_sub(1).ok_or(Unknown)?;
            let member = structure.member(index).ok_or(Unknown)?;
            let named = member.name != 0;
            if named && !self.records.is_called(member.name, self.wanted) {
                continue;
            }
            let inner = (!named)
                .then(|| self.records.get(member.kind))
                .flatten()
                .filter(|inner| matches!(inner.kind, Kind::Structure | Kind::Union));
            let offset = match inner {
                Some(inner) => {
                    let depth = depth.checked_sub(1).ok_or(Unknown)?;
                    let Some(offset) = self.within(&inner, depth)? else {
                        continue;
                    };
                    offset
                }
                None if named => 0,
                None => continue,
            };
            let whole = member.bytes().and_then(|own| own.checked_add(offset));
            // A member outside its structure is no member of it.
            return match whole.filter(|whole| *whole < u64::from(structure.value)) {
                Some(whole) => Ok(Some(whole)),
                None => Err(Unknown),
            };
        }
        Ok(None)
    }
}
