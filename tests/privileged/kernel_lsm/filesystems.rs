//! Roots on several filesystems, and what becomes of them under a sandbox.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use guard_agent::warden::kernel::Event;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::{
    battery::Scene,
    elf,
    rows::{A, Actor},
};

/// Mounts of a test, undone when it ends.
struct Mounts(Vec<PathBuf>);

impl Mounts {
    fn add(&mut self, what: &Path, at: &Path, kind: Option<&str>, flags: MsFlags, options: Option<&str>) {
        fs::create_dir_all(at).unwrap();
        mount(Some(what), at, kind, flags, options).unwrap();
        self.0.push(at.to_owned());
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for at in self.0.iter().rev() {
            let _ = umount2(at, MntFlags::MNT_DETACH);
        }
    }
}

/// Opens and lets go.
fn open(scene: &mut Scene, name: &str, flags: i32) -> i64 {
    with(scene, |a| {
        a.open(name, flags | (libc::O_CREAT * i32::from(name.ends_with("new"))))
            .min(0)
    })
}

fn with<T>(scene: &mut Scene, act: impl FnOnce(&mut Actor<'_>) -> T) -> T {
    let mut actor = Actor {
        subject: &mut scene.stage.inside,
        place: &scene.place,
        name: "inside",
    };
    let result = act(&mut actor);
    actor.close_all();
    result
}

/// Reading, listing, creating, changing, moving, removing: what each comes to.
fn ordinary_work(scene: &mut Scene, root: &str) -> Vec<i64> {
    let name = |below: &str| format!("{root}/{below}");
    vec![
        open(scene, &name("file"), libc::O_RDONLY),
        open(scene, root, libc::O_DIRECTORY),
        open(scene, &name("directory"), libc::O_DIRECTORY),
        open(scene, &name("directory/below"), libc::O_RDWR),
        with(scene, |a| {
            a.call(libc::SYS_chmod, &[A::P(&name("other")), A::N(0o600)])
        }),
        with(scene, |a| {
            a.call(libc::SYS_truncate, &[A::P(&name("third")), A::N(1)])
        }),
        with(scene, |a| {
            a.call(libc::SYS_rename, &[A::P(&name("fourth")), A::P(&name("moved"))])
        }),
        with(scene, |a| {
            a.call(libc::SYS_link, &[A::P(&name("file")), A::P(&name("linked"))])
        }),
        open(scene, &name("new"), libc::O_RDWR),
        with(scene, |a| a.call(libc::SYS_unlink, &[A::P(&name("new"))])),
        with(scene, |a| {
            a.call(libc::SYS_mkdir, &[A::P(&name("made")), A::N(0o755)])
        }),
        with(scene, |a| a.call(libc::SYS_rmdir, &[A::P(&name("made"))])),
        with(scene, |a| {
            a.run(libc::SYS_execve, &[A::P(&name("program")), A::N(0), A::N(0)])
        }),
    ]
}

fn fill(root: &Path) {
    fs::create_dir_all(root.join("directory")).unwrap();
    for file in ["file", "other", "third", "fourth", "directory/below"] {
        fs::write(root.join(file), "content").unwrap();
    }
    fs::write(root.join("program"), elf::ends()).unwrap();
    fs::set_permissions(root.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn roots_on_each_filesystem_and_what_becomes_of_them() {
    let mut scene = Scene::set("filesystems");
    let mut mounts = Mounts(Vec::new());
    let at = |name: &str| scene.stage.at(name);
    let [tmpfs, disk, lower, upper, work, merged] =
        ["tmpfs", "disk", "lower", "upper", "work", "merged"].map(at);
    mounts.add(Path::new("none"), &tmpfs, Some("tmpfs"), MsFlags::empty(), None);
    for directory in [&lower, &upper, &work, &merged, &disk] {
        fs::create_dir_all(directory).unwrap();
    }
    fill(&tmpfs.join("root"));
    fill(&tmpfs.join("beside"));
    fill(&disk);
    fill(&lower);
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    mounts.add(
        Path::new("none"),
        &merged,
        Some("overlay"),
        MsFlags::empty(),
        Some(&options),
    );
    for root in [tmpfs.join("root"), disk, merged] {
        scene.stage.enrol(&root, 15);
    }

    for root in ["tmpfs/root", "disk", "merged"] {
        assert_eq!(ordinary_work(&mut scene, root), [0; 13], "{root}");
    }
    // What an overlay is made of is not in it.
    for below in ["tmpfs/beside/file", "lower/file", "upper/other", "lower/program"] {
        assert_eq!(open(&mut scene, below, libc::O_RDONLY), -13, "{below}");
    }

    mounted_things(&mut scene, &mut mounts);
    moved_things(&mut scene);
    depth(&mut scene);
}

/// An object is what it is wherever it is mounted.
fn mounted_things(scene: &mut Scene, mounts: &mut Mounts) {
    let at = |name: &str| scene.stage.at(name);
    mounts.add(&at("rw"), &at("elsewhere"), None, MsFlags::MS_BIND, None);
    mounts.add(&at("outside"), &at("rw/hole"), None, MsFlags::MS_BIND, None);
    mounts.add(
        Path::new("none"),
        &at("rw/sub"),
        Some("tmpfs"),
        MsFlags::empty(),
        None,
    );
    let sub = at("rw/sub");
    fs::write(sub.join("file"), "below").unwrap();
    assert_eq!(open(scene, "elsewhere/file", libc::O_RDWR), 0);
    assert_eq!(open(scene, "elsewhere/new", libc::O_RDWR), 0);
    assert_eq!(
        open(scene, "rw/hole/file", libc::O_RDONLY),
        -13,
        "what is mounted in a root is not in it"
    );
    assert_eq!(open(scene, "rw/sub/file", libc::O_RDONLY), -13);
    assert_eq!(open(scene, "rw/sub/new", libc::O_RDWR), -13);
    scene.stage.enrol(&sub, 1);
    assert_eq!(open(scene, "rw/sub/file", libc::O_RDONLY), 0);
    assert_eq!(open(scene, "rw/sub/file", libc::O_RDWR), -13);
}

/// What somebody outside moves while the sandbox runs.
fn moved_things(scene: &mut Scene) {
    let at = |name: &str| scene.stage.at(name);
    fs::create_dir(at("first")).unwrap();
    fs::write(at("first/file"), "one").unwrap();
    fs::create_dir(at("second")).unwrap();
    for root in ["first", "second"] {
        let root = scene.stage.at(root);
        scene.stage.enrol(&root, 3);
    }
    let at = |name: &str| scene.stage.at(name);
    fs::rename(at("first"), at("renamed")).unwrap();
    fs::remove_dir(at("second")).unwrap();
    fs::create_dir(at("second")).unwrap();
    fs::write(at("second/file"), "another").unwrap();
    assert_eq!(
        open(scene, "renamed/file", libc::O_RDWR),
        0,
        "a root is the object"
    );
    assert_eq!(open(scene, "second/file", libc::O_RDONLY), -13, "and no name");

    let (inside, outside) = (scene.stage.at("rw/going"), scene.stage.at("outside/going"));
    fs::write(&inside, "going").unwrap();
    let ends = with(scene, |a| {
        let held = a.open("rw/going", libc::O_RDWR);
        assert!(held > 2, "{held}");
        fs::rename(&inside, &outside).unwrap();
        [
            // What was opened stays open, and is not changed as a file any more.
            a.call(libc::SYS_read, &[A::N(held), A::B(&[0; 8]), A::N(8)]),
            a.call(libc::SYS_ftruncate, &[A::N(held), A::N(1)]),
            a.call(libc::SYS_open, &[A::T(&format!("/proc/self/fd/{held}")), A::N(0)]),
            a.open("outside/going", libc::O_RDONLY),
        ]
    });
    assert_eq!(ends, [5, -13, -13, -13]);
    fs::rename(&outside, &inside).unwrap();
    assert_eq!(open(scene, "rw/going", libc::O_RDWR), 0);
    // A second name that somebody outside made: by it the file is inside, as the documentation says.
    fs::hard_link(scene.stage.at("outside/file"), scene.stage.at("rw/alias")).unwrap();
    assert_eq!(open(scene, "rw/alias", libc::O_RDONLY), 0);
    assert_eq!(open(scene, "outside/file", libc::O_RDONLY), -13);
}

/// The root is looked for in 256 steps, the object's own included.
fn depth(scene: &mut Scene) {
    for (root, directories, why) in [
        ("rw", 254, None),
        ("rw", 255, Some("too-deep")),
        ("rw", 300, Some("too-deep")),
        ("outside", 0, Some("outside-roots")),
        ("outside", 300, Some("too-deep")),
    ] {
        let name = format!("{root}/{}file", "d/".repeat(directories));
        let path = scene.stage.at(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "deep").unwrap();
        let _ = scene.stage.events.drain(|_| ());
        let expected = if why.is_none() { 0 } else { -13 };
        assert_eq!(open(scene, &name, libc::O_RDONLY), expected, "{name}");
        let mut told = Vec::new();
        let _ = scene.stage.events.drain(|event| match event {
            Event::Verdict(event) => told.extend(event.reason),
            other => panic!("{other:?}"),
        });
        assert_eq!(told, Vec::from_iter(why), "{name}");
    }
}
