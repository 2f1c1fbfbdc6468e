//! Where the running kernel keeps a member of a structure, from its own type information.
//!
//! Only what the loader asks for: the offset of a named, byte-aligned member, direct or in unnamed
//! structures and unions. Anything unexpected in the data means "not known", never a guess.

/// The kernel's type information, kept as the bytes it came in.
#[derive(Debug)]
pub struct KernelTypes {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Where each type starts; the first has number 1.
    starts: Vec<usize>,
}

/// Unnamed structures in unnamed structures: deeper is not known.
const DEPTH: u32 = 8;

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
const KIND_FUNCTION: u32 = 12;
const KIND_UNION: u32 = 5;
/// Set in a structure whose members say how many bits they have.
const KIND_FLAG: u32 = 1 << 31;

impl KernelTypes {
    /// Splits the data into its parts; `None` when it is not type information of this machine's byte order.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let magic = u16::from_ne_bytes(data.get(..2)?.try_into().ok()?);
        if magic != MAGIC || *data.get(2)? != 1 {
            return None;
        }
        let header = usize::try_from(word(data, 4)?).ok()?;
        let part = |offset: usize, length: usize| {
            let start = header.checked_add(usize::try_from(word(data, offset)?).ok()?)?;
            let end = start.checked_add(usize::try_from(word(data, length)?).ok()?)?;
            data.get(start..end).map(<[u8]>::to_vec)
        };
        let types = part(8, 12)?;
        Some(Self {
            starts: starts(&types)?,
            types,
            strings: part(16, 20)?,
        })
    }

    /// Offset in bytes of `member` in the first structure called `structure` that has it.
    pub fn member_offset(&self, structure: &str, member: &str) -> Option<u64> {
        self.starts.iter().find_map(|start| {
            let kind = (word(&self.types, start.checked_add(4)?)? >> 24) & 0x1f;
            (kind == KIND_STRUCT && self.is(word(&self.types, *start)?, structure))
                .then(|| self.member(*start, member, DEPTH))?
        })
    }

    /// The number of the kernel function called `name`.
    pub fn function(&self, name: &str) -> Option<u32> {
        let wanted = |start: &usize| {
            let kind = (word(&self.types, start.checked_add(4)?)? >> 24) & 0x1f;
            Some(kind == KIND_FUNCTION && self.is(word(&self.types, *start)?, name))
        };
        let index = self.starts.iter().position(|start| wanted(start) == Some(true))?;
        u32::try_from(index + 1).ok()
    }

    /// The offset of a member in the structure or union that starts there.
    fn member(&self, start: usize, wanted: &str, depth: u32) -> Option<u64> {
        let info = word(&self.types, start.checked_add(4)?)?;
        let (kind, count) = ((info >> 24) & 0x1f, usize::try_from(info & 0xffff).ok()?);
        if kind != KIND_STRUCT && kind != KIND_UNION {
            return None;
        }
        for index in 0..count {
            let at = start.checked_add(12)?.checked_add(index.checked_mul(12)?)?;
            let name = word(&self.types, at)?;
            let place = word(&self.types, at.checked_add(8)?)?;
            let (bits, width) = if info & KIND_FLAG != 0 {
                (place & 0x00ff_ffff, place >> 24)
            } else {
                (place, 0)
            };
            let offset = u64::from(bits / 8);
            if name != 0 && self.is(name, wanted) {
                return (width == 0 && bits % 8 == 0).then_some(offset);
            }
            if name == 0 && depth > 0 && bits % 8 == 0 {
                let number = usize::try_from(word(&self.types, at.checked_add(4)?)?).ok()?;
                let inner = number.checked_sub(1).and_then(|index| self.starts.get(index));
                if let Some(found) = inner.and_then(|start| self.member(*start, wanted, depth - 1)) {
                    return offset.checked_add(found);
                }
            }
        }
        None
    }

    fn is(&self, name: u32, wanted: &str) -> bool {
        usize::try_from(name)
            .ok()
            .and_then(|start| self.strings.get(start..))
            .and_then(|rest| rest.strip_prefix(wanted.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// Where each type starts; `None` when one cannot be read.
fn starts(types: &[u8]) -> Option<Vec<usize>> {
    let mut starts = Vec::new();
    let mut at = 0;
    while at < types.len() {
        starts.push(at);
        let info = word(types, at.checked_add(4)?)?;
        let (kind, count) = ((info >> 24) & 0x1f, usize::try_from(info & 0xffff).ok()?);
        at = at.checked_add(12)?.checked_add(body_length(kind, count)?)?;
    }
    Some(starts)
}

/// Bytes after the common part of a type; `None` for a kind this reader does not know.
fn body_length(kind: u32, count: usize) -> Option<usize> {
    match kind {
        // pointer, forward, typedef, volatile, const, restrict, function, float, type tag
        2 | 7..=12 | 16 | 18 => Some(0),
        // integer, variable, declaration tag
        1 | 14 | 17 => Some(4),
        3 => Some(12),
        // structure, union, section, 64-bit enumeration
        4 | 5 | 15 | 19 => count.checked_mul(12),
        // enumeration, function prototype
        6 | 13 => count.checked_mul(8),
        _ => None,
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One integer, `struct pair { int first; int second; }`, then
    /// `struct nest { int own; union { int one; struct pair; }; }` with the pair unnamed in the union.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0pair\0first\0second\0nest\0own\0one\0";
        let types: Vec<u32> = vec![
            1,
            1 << 24,
            4,
            32, // int
            5,
            (4 << 24) | 2,
            8, // struct pair, two members
            10,
            1,
            0, // first
            16,
            1,
            32, // second
            0,
            (5 << 24) | 2,
            8, // union
            32,
            1,
            0, // one
            0,
            2,
            0, // the pair
            23,
            (4 << 24) | 2,
            12, // struct nest
            28,
            1,
            0, // own
            0,
            3,
            32, // the union
        ];
        let mut data = Vec::new();
        data.extend(MAGIC.to_ne_bytes());
        data.extend([1, 0]);
        let length = u32::try_from(types.len() * 4).unwrap();
        for value in [24, 0, length, length, u32::try_from(strings.len()).unwrap()] {
            data.extend(value.to_ne_bytes());
        }
        data.extend(types.iter().flat_map(|value| value.to_ne_bytes()));
        data.extend(strings);
        data
    }

    #[test]
    fn finds_members_and_nothing_else() {
        let types = KernelTypes::parse(&sample()).unwrap();
        assert_eq!(types.member_offset("pair", "first"), Some(0));
        assert_eq!(types.member_offset("pair", "second"), Some(4));
        assert_eq!(types.member_offset("pair", "sec"), None);
        assert_eq!(types.member_offset("pai", "first"), None);
        assert_eq!(types.member_offset("int", "first"), None);
    }

    #[test]
    fn finds_members_of_unnamed_unions_and_structures() {
        let types = KernelTypes::parse(&sample()).unwrap();
        assert_eq!(types.member_offset("nest", "own"), Some(0));
        assert_eq!(types.member_offset("nest", "one"), Some(4));
        assert_eq!(types.member_offset("nest", "first"), Some(4));
        assert_eq!(types.member_offset("nest", "second"), Some(8));
        assert_eq!(types.member_offset("nest", "third"), None);
    }

    /// The last word but one of the union's second member: the number of its type. Its own makes it endless.
    #[test]
    fn a_structure_in_itself_ends() {
        let mut data = sample();
        let union_member = 24 + (4 + 9 + 3 + 3 + 1) * 4;
        assert_eq!(word(&data, union_member), Some(2));
        data[union_member..union_member + 4].copy_from_slice(&3u32.to_ne_bytes());
        let types = KernelTypes::parse(&data).unwrap();
        assert_eq!(types.member_offset("nest", "second"), None);
    }

    #[test]
    fn cut_or_altered_data_never_panics() {
        let whole = sample();
        for end in 0..whole.len() {
            if let Some(types) = KernelTypes::parse(&whole[..end]) {
                let _ = types.member_offset("nest", "second");
            }
        }
        for index in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut altered = whole.clone();
                altered[index] = value;
                if let Some(types) = KernelTypes::parse(&altered) {
                    let _ = types.member_offset("nest", "second");
                }
            }
        }
    }

    #[test]
    fn reads_the_running_kernel() {
        let Ok(data) = super::super::probe::kernel_types() else {
            return;
        };
        let types = KernelTypes::parse(&data).unwrap();
        // Stable on every 64-bit kernel this runs on: two pointers.
        assert_eq!(types.member_offset("list_head", "prev"), Some(8));
        assert_eq!(types.member_offset("bpf_sock_addr_kern", "uaddr"), Some(8));
        assert!(types.function("vfs_open").is_some());
        assert_eq!(types.function("list_head"), None);
        // In an unnamed union.
        assert!(types.member_offset("inode", "i_nlink").is_some());
    }
}
