//! A small kernel made by hand, cut down.

use super::{
    cut::cut,
    format::{self, Body, Member, Type},
    series, wanted,
};

fn plain(name: &str, kind: u32, value: u32) -> Type {
    Type {
        name: name.to_owned(),
        kind,
        flag: false,
        value,
        body: Body::Empty,
    }
}

fn structure(name: &str, kind: u32, size: u32, members: &[(&str, u32, u32)]) -> Type {
    let members = members.iter().map(|(name, kind, place)| Member {
        name: (*name).to_owned(),
        kind: *kind,
        place: *place,
    });
    Type {
        body: Body::Members(members.collect()),
        ..plain(name, kind, size)
    }
}

fn prototype(returns: u32, parameters: &[(&str, u32)]) -> Type {
    let parameters = parameters.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
    Type {
        body: Body::Parameters(parameters.collect()),
        ..plain("", format::PROTOTYPE, returns)
    }
}

fn function(name: &str, prototype: u32) -> Type {
    Type {
        body: Body::Linkage(1),
        ..plain(name, format::FUNCTION, prototype)
    }
}

fn integer(name: &str) -> Type {
    Type {
        body: Body::Integer(32),
        ..plain(name, format::INTEGER, 4)
    }
}

/// A `file` with an inode in an unnamed union, a `path` by value, and one member nobody wants; the hook that opens it.
fn kernel() -> Vec<Type> {
    vec![
        integer("int"),
        plain("", format::POINTER, 3),
        structure(
            "file",
            format::STRUCTURE,
            64,
            &[
                ("f_lock", 1, 0),
                ("", 4, 64),
                ("f_path", 5, 128),
                ("f_flags", 1, 256),
            ],
        ),
        structure("", format::UNION, 8, &[("f_inode", 7, 0), ("f_other", 6, 0)]),
        structure("path", format::STRUCTURE, 16, &[("mnt", 6, 0), ("dentry", 6, 64)]),
        plain("", format::POINTER, 0),
        plain("", format::POINTER, 8),
        structure("inode", format::STRUCTURE, 600, &[("i_private", 6, 0)]),
        prototype(1, &[("file", 2)]),
        function("bpf_lsm_file_open", 9),
        function("vfs_open", 9),
        prototype(0, &[("file", 2), ("depth", 1)]),
    ]
}

#[test]
fn what_is_written_is_read_again() {
    let types = kernel();
    let data = format::write(&types, "linux-image-1_2").unwrap();
    assert_eq!(format::read(&data).unwrap(), types);
    assert_eq!(format::note(&data).unwrap(), "linux-image-1_2");
    for end in 0..data.len() {
        assert!(format::read(&data[..end]).is_err(), "{end}");
    }
}

#[test]
fn a_cut_keeps_what_is_wanted_where_it_is() {
    let cut = cut(&kernel()).unwrap();
    let expected = vec![
        function("bpf_lsm_file_open", 2),
        prototype(3, &[("file", 4)]),
        integer("int"),
        plain("", format::POINTER, 5),
        structure(
            "file",
            format::STRUCTURE,
            64,
            &[("", 6, 64), ("f_path", 9, 128), ("f_flags", 3, 256)],
        ),
        structure("", format::UNION, 8, &[("f_inode", 7, 0)]),
        plain("", format::POINTER, 8),
        structure("inode", format::STRUCTURE, 600, &[]),
        structure(
            "path",
            format::STRUCTURE,
            16,
            &[("mnt", 10, 0), ("dentry", 10, 64)],
        ),
        plain("", format::POINTER, 0),
    ];
    assert_eq!(cut.types, expected);
    let absent = |name: &str| cut.absent.iter().any(|absent| absent == name);
    assert!(absent("bpf_lsm_path_unlink") && absent("security_file_open"));
    assert!(absent("file.f_mode") && absent("inode.i_ino"));
    assert!(!absent("bpf_lsm_file_open") && !absent("file.f_inode"));
}

#[test]
fn a_structure_that_leads_to_itself_is_kept_once() {
    let mut types = kernel();
    types[7] = structure("dentry", format::STRUCTURE, 200, &[("d_parent", 7, 192)]);
    let cut = cut(&types).unwrap();
    let dentries: Vec<&Type> = cut.types.iter().filter(|item| item.name == "dentry").collect();
    assert_eq!(dentries.len(), 1);
}

#[test]
fn a_reference_to_nothing_is_an_error() {
    let mut types = kernel();
    types[8] = prototype(1, &[("file", 99)]);
    assert!(cut(&types).is_err());
}

#[test]
fn functions_of_a_hook_have_the_names_the_kernel_gave_them() {
    assert_eq!(
        wanted::functions("file_open"),
        ["bpf_lsm_file_open", "security_file_open"]
    );
    assert_eq!(
        wanted::functions("settime"),
        ["bpf_lsm_settime", "security_settime64"]
    );
}

#[test]
fn a_series_is_two_numbers() {
    assert_eq!(series("6.12.118"), "6.12");
    assert_eq!(series("7.3"), "7.3");
}
