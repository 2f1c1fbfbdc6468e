//! A few types made by hand, and the running kernel. Real kernels are in `fixtures`, broken data in `broken`.

use super::{Argument, KernelTypes, records::word};

mod broken;
mod fixtures;

const MAGIC: u16 = 0xeb9f;

/// Every fixture, in order of age.
const KERNELS: [(&str, &[u8]); 5] = [
    ("5.10", include_bytes!("../fixtures/5.10.btf")),
    ("6.1", include_bytes!("../fixtures/6.1.btf")),
    ("6.12", include_bytes!("../fixtures/6.12.btf")),
    ("6.18", include_bytes!("../fixtures/6.18.btf")),
    ("7.3", include_bytes!("../fixtures/7.3.btf")),
];

/// What a stock kernel of that series says.
pub(in crate::warden::kernel) fn kernel(series: &str) -> KernelTypes {
    KernelTypes::parse(data(series)).unwrap()
}

/// The fixture of that series.
pub(in crate::warden::kernel) fn data(series: &str) -> &'static [u8] {
    KERNELS.iter().find(|(name, _)| *name == series).unwrap().1
}

/// Where a string of the data starts, to alter it.
pub(in crate::warden::kernel) fn string_at(data: &[u8], text: &str) -> usize {
    let whole = [b"\0", text.as_bytes(), b"\0"].concat();
    let at = data.windows(whole.len()).position(|window| window == whole);
    at.unwrap() + 1
}

/// One integer, `struct pair { int first; int second; }`, then
/// `struct nest { int own; union { int one; struct pair; }; }` with the pair unnamed in the union.
fn sample() -> Vec<u8> {
    let strings = "\0int\0pair\0first\0second\0nest\0own\0one\0";
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
    build(&types, strings)
}

/// A header, these types, these strings.
fn build(types: &[u32], strings: &str) -> Vec<u8> {
    let mut data = Vec::new();
    data.extend(MAGIC.to_ne_bytes());
    data.extend([1, 0]);
    let length = u32::try_from(types.len() * 4).unwrap();
    for value in [24, 0, length, length, u32::try_from(strings.len()).unwrap()] {
        data.extend(value.to_ne_bytes());
    }
    data.extend(types.iter().flat_map(|value| value.to_ne_bytes()));
    data.extend(strings.as_bytes());
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

#[test]
fn reads_the_running_kernel() {
    let Ok(data) = crate::warden::kernel::probe::kernel_types() else {
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
    assert_eq!(types.slot("vfs_open", "path", 0), Some(0));
    assert_eq!(types.slot("vfs_open", "file", 0), Some(1));
}

#[test]
fn arguments_have_names_kinds_and_pointers() {
    let argument = |name: &str, kind: &str, pointers: usize| Argument {
        name: name.to_owned(),
        kind: kind.to_owned(),
        pointers,
    };
    assert_eq!(
        kernel("6.12").arguments("bpf_lsm_inode_setattr"),
        Some(vec![
            argument("idmap", "mnt_idmap", 1),
            argument("dentry", "dentry", 1),
            argument("attr", "iattr", 1),
        ])
    );
    assert_eq!(
        kernel("6.12").arguments("bpf_lsm_path_chmod"),
        Some(vec![argument("path", "path", 1), argument("mode", "umode_t", 0)])
    );
    assert_eq!(kernel("6.12").arguments("inode"), None);
}
