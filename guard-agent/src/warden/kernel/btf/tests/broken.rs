//! Data that is cut, altered, renamed or in a circle: the answer is "not known", and it comes.

use proptest::prelude::*;

use super::{KERNELS, KernelTypes, build, sample, string_at, word};

/// Asks everything that a load asks, and more.
fn ask(types: &KernelTypes) {
    for structure in ["file", "inode", "qstr", "task_struct", "nest"] {
        for member in ["f_inode", "i_nlink", "len", "cred", "second"] {
            let _ = types.member_offset(structure, member);
        }
    }
    for function in [
        "bpf_lsm_file_open",
        "bpf_lsm_inode_setattr",
        "bpf_lsm_path_rename",
        "bpf_lsm_key_permission",
        "security_mmap_file",
    ] {
        let _ = types.function(function);
        let _ = types.arguments(function);
        let _ = types.slot(function, "dentry", 1);
    }
}

/// The same types with the end of their part, or of the strings, at `length`.
fn cut(data: &[u8], part: usize, length: u32) -> Vec<u8> {
    let mut cut = data.to_vec();
    cut[part..part + 4].copy_from_slice(&length.to_ne_bytes());
    cut
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn altered_bytes_never_panic_and_never_hang(
        which in 0..KERNELS.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut altered = KERNELS[which].1.to_vec();
        for (place, value) in &changes {
            let place = place.index(altered.len());
            altered[place] = *value;
        }
        if let Some(types) = KernelTypes::parse(&altered) {
            ask(&types);
        }
    }

    /// A header that is right about less than there is, which a plain cut never is.
    #[test]
    fn shorter_parts_never_panic(which in 0..KERNELS.len(), part in prop::sample::select(vec![12usize, 20]), length in 0u32..12_000) {
        if let Some(types) = KernelTypes::parse(&cut(KERNELS[which].1, part, length)) {
            ask(&types);
        }
    }
}

#[test]
fn a_cut_fixture_is_nothing() {
    for (name, whole) in KERNELS {
        for end in 0..whole.len() {
            assert!(KernelTypes::parse(&whole[..end]).is_none(), "{name} at {end}");
        }
        // A type of which the end is missing.
        assert!(
            KernelTypes::parse(&cut(whole, 12, 1000 * 4 + 2)).is_none(),
            "{name}"
        );
        // All types, and not one name.
        let nameless = KernelTypes::parse(&cut(whole, 20, 1)).unwrap();
        assert_eq!(nameless.member_offset("file", "f_inode"), None, "{name}");
        assert_eq!(nameless.arguments("bpf_lsm_file_open"), None, "{name}");
    }
}

#[test]
fn what_is_renamed_is_not_known_and_the_rest_is() {
    let renamed = |data: &[u8], name: &str| {
        let mut data = data.to_vec();
        let at = string_at(&data, name);
        data[at] = b'Z';
        KernelTypes::parse(&data).unwrap()
    };
    for (name, whole) in KERNELS {
        let types = renamed(whole, "f_inode");
        assert_eq!(types.member_offset("file", "f_inode"), None, "{name}");
        assert!(types.member_offset("file", "f_flags").is_some(), "{name}");

        let types = renamed(whole, "linux_binprm");
        assert_eq!(types.member_offset("linux_binprm", "file"), None, "{name}");
        assert_eq!(
            types.slot("bpf_lsm_bprm_check_security", "linux_binprm", 0),
            None,
            "{name}"
        );
        assert_eq!(
            types.slot("bpf_lsm_bprm_check_security", "Zinux_binprm", 0),
            Some(0),
            "{name}"
        );

        let types = renamed(whole, "bpf_lsm_path_unlink");
        assert_eq!(types.function("bpf_lsm_path_unlink"), None, "{name}");
        assert_eq!(types.arguments("bpf_lsm_path_unlink"), None, "{name}");
        assert_eq!(types.slot("bpf_lsm_path_unlink", "dentry", 0), None, "{name}");
        assert_eq!(types.slot("bpf_lsm_path_rmdir", "dentry", 0), Some(1), "{name}");
    }
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

/// Eight levels of a thousand unnamed members each would be 10²⁴ looks.
#[test]
fn a_structure_full_of_itself_ends() {
    let mut words = vec![1, (4 << 24) | 1000, 8];
    words.extend([0, 1, 0].repeat(1000));
    let types = KernelTypes::parse(&build(&words, "\0full\0other\0")).unwrap();
    assert_eq!(types.member_offset("full", "other"), None);
}

/// `typedef`, `const` and pointer that lead to themselves.
#[test]
fn arguments_in_a_circle_end() {
    for kind in [2u32, 8, 10] {
        let words = [1, 12 << 24, 2, 0, (13 << 24) | 1, 0, 6, 3, 1, kind << 24, 3];
        let types = KernelTypes::parse(&build(&words, "\0hook\0it\0")).unwrap();
        assert!(types.function("hook").is_some());
        assert_eq!(types.arguments("hook"), None, "kind {kind}");
    }
}

/// A list without an end, an argument of two slots, a type that is not there, one without a name of its own.
#[test]
fn arguments_that_are_no_slots_are_not_known() {
    let takes = |name: u32, kind: u32| {
        // 1: the function, 2: its prototype, 3: `struct wide` of 16 bytes, 4: a pointer to it, 5: a pointer to 2.
        let words = [
            1,
            12 << 24,
            2,
            0,
            (13 << 24) | 1,
            0,
            name,
            kind,
            6,
            4 << 24,
            16,
            0,
            2 << 24,
            3,
            0,
            2 << 24,
            2,
        ];
        let types = KernelTypes::parse(&build(&words, "\0hook\0wide\0a\0")).unwrap();
        let arguments = types.arguments("hook")?;
        Some((arguments[0].kind.clone(), arguments[0].pointers))
    };
    assert_eq!(takes(11, 4), Some(("wide".to_owned(), 1)));
    assert_eq!(takes(11, 5), Some((String::new(), 1)));
    assert_eq!(takes(11, 3), None);
    assert_eq!(takes(11, 2), None);
    assert_eq!(takes(11, 9), None);
    assert_eq!(takes(0, 0), None);
}

/// Two structures of one name are one answer only as long as they agree.
#[test]
fn structures_that_disagree_are_not_known() {
    let pair = |one: u32, other: u32| {
        let mut words = Vec::new();
        for place in [one, other] {
            words.extend([1, (4 << 24) | 1, 64, 6, 3, place]);
        }
        words.extend([0, 1 << 24, 4, 32]);
        KernelTypes::parse(&build(&words, "\0twin\0own\0")).unwrap()
    };
    assert_eq!(pair(32, 32).member_offset("twin", "own"), Some(4));
    assert_eq!(pair(32, 64).member_offset("twin", "own"), None);
    // No member starts where its structure ends.
    assert_eq!(pair(512, 512).member_offset("twin", "own"), None);
}
