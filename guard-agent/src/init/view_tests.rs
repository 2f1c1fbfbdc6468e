//! What the tree under construction never does to a tree that is somebody's.

use std::{fs, os::unix::fs::symlink};

use super::*;

/// A tree over a directory, of which the device is the sandbox's own or not.
fn tree(path: &Path, own: bool) -> Tree {
    let root = OwnedFd::from(File::open(path).unwrap());
    let device = device(&root).unwrap();
    Tree {
        root,
        own: own.then_some(device).into_iter().collect(),
    }
}

#[test]
fn nothing_is_made_in_somebodys_tree() {
    let place = tempfile::tempdir().unwrap();
    for (path, is_directory) in [("/missing", true), ("/missing/below", true), ("/missing", false)] {
        let error = tree(place.path(), false)
            .target(Path::new(path), is_directory)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{path}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{path}");
    }
    let own = tree(place.path(), true);
    own.target(Path::new("/missing/below"), true).unwrap();
    own.target(Path::new("/missing/file"), false).unwrap();
    assert_eq!(fs::read_dir(place.path().join("missing")).unwrap().count(), 2);
}

/// Whoever owns the tree may put a link where a mount is to go.
#[test]
fn no_link_is_followed() {
    let (place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(outside.path().join("inner")).unwrap();
    fs::write(outside.path().join("file"), "x").unwrap();
    symlink(outside.path(), place.path().join("away")).unwrap();
    symlink(outside.path().join("file"), place.path().join("file")).unwrap();
    for (path, is_directory) in [("/away", true), ("/away/inner", true), ("/away/file", false)] {
        for own in [true, false] {
            assert!(
                tree(place.path(), own)
                    .target(Path::new(path), is_directory)
                    .is_err(),
                "{path}"
            );
        }
    }
    // The link itself may be opened, which nothing can be mounted on; never what it names.
    let opened = tree(place.path(), true).target(Path::new("/file"), false);
    let opened = opened.map(|object| File::from(object).metadata().unwrap().is_symlink());
    assert!(opened.is_err() || opened.is_ok_and(|link| link));
}
