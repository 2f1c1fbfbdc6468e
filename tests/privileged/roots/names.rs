//! Names that programs outside obey: as they were, whatever the server tries.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use guard_tests::{
    inside::{Inside, py},
    refused::{Stage, USER, text},
};

use super::{VIEWS, give, launch, picture, tree, unchanged};

/// Files at every depth; directories by a file in them.
const NAMES: [&str; 6] = [
    ".git/hooks/pre-commit",
    ".git/config",
    ".envrc",
    ".bashrc",
    ".vscode/tasks.json",
    ".mcp.json",
];
const DEPTHS: [&str; 4] = ["", "one", "one/two", "one/two/three"];
const REFUSED: &[&str] = &["EROFS", "EBUSY", "EACCES", "EPERM"];

fn plant(root: &Path) -> Result<()> {
    for depth in DEPTHS {
        for name in NAMES {
            let path = root.join(depth).join(name);
            fs::create_dir_all(path.parent().context("a name has a parent")?)?;
            fs::write(&path, "as it was")?;
        }
        fs::write(root.join(depth).join(".git/HEAD"), "ref: refs/heads/main")?;
    }
    give(root)
}

/// Every protected object with all that leads to it below its directory.
fn objects(root: &Path) -> Vec<std::path::PathBuf> {
    let in_one = [
        ".git",
        ".git/hooks",
        ".git/hooks/pre-commit",
        ".git/config",
        ".envrc",
        ".bashrc",
        ".vscode",
        ".vscode/tasks.json",
        ".mcp.json",
    ];
    DEPTHS
        .iter()
        .flat_map(|depth| in_one.iter().map(move |name| root.join(depth).join(name)))
        .collect()
}

#[test]
fn not_changed_not_removed_not_renamed() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("protected")?;
        let root = stage.directory("root")?;
        plant(&root)?;
        let before = picture(&root)?;
        let mut inside = Inside::start(launch(&stage, view).root(&root, "rw"))?;
        for path in objects(&root) {
            let name = py(&path);
            let aside = py(path.with_extension("aside"));
            inside.fails(&format!("os.rename({name}, {aside})"), REFUSED)?;
            if path.is_dir() {
                inside.fails(
                    &format!("os.rmdir({name})"),
                    &["EROFS", "EBUSY", "EACCES", "EPERM", "ENOTEMPTY"],
                )?;
                if !path.ends_with(".git") {
                    inside.fails(&format!("write({})", py(path.join("new"))), REFUSED)?;
                    inside.fails(&format!("os.chmod({name}, 0o777)"), REFUSED)?;
                }
                continue;
            }
            inside.gives(&format!("text({name})"), "as it was")?;
            for attempt in [
                format!("write({name})"),
                format!("os.truncate({name}, 0)"),
                format!("os.unlink({name})"),
                format!("os.chmod({name}, 0o777)"),
                format!("os.utime({name}, (1, 1))"),
                format!("os.setxattr({name}, 'user.mark', b'x')"),
            ] {
                inside.fails(&attempt, REFUSED)?;
            }
        }
        // Not by putting another file over one, either.
        let own = py(root.join("own"));
        inside.works(&format!("write({own})"))?;
        for name in [".envrc", ".git/config", ".mcp.json"] {
            inside.fails(
                &format!("os.rename({own}, {})", py(root.join(name))),
                &["EBUSY", "EXDEV", "EROFS"],
            )?;
        }
        inside.works(&format!("os.unlink({own})"))?;
        inside.end()?;
        // The root's own times moved with the file that came and went.
        let mut left = before;
        let mut now = picture(&root)?;
        left.forget(&root);
        now.forget(&root);
        ensure!(left == now, "changed: {:#?}", left.difference(&now));
        let records = stage.bench.records()?;
        let launch = records
            .iter()
            .find(|record| record.kind == "launch")
            .context("no launch")?;
        let protected = launch.body["protected"].as_array().context("no list")?;
        // What is mounted, not every file below it.
        ensure!(protected.len() == 6 * DEPTHS.len(), "{protected:?}");
    }
    Ok(())
}

/// By the name that a link on the way leads to, too.
#[test]
fn by_both_names_of_a_root() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("both")?;
        let root = stage.directory("real/root")?;
        plant(&root)?;
        std::os::unix::fs::symlink("real", stage.path("short"))?;
        let typed = stage.path("short/root");
        let mut inside = Inside::start(launch(&stage, view).root(&typed, "rw"))?;
        for place in [&typed, &root] {
            for name in [
                ".git/hooks/pre-commit",
                ".git/config",
                ".envrc",
                "one/two/.mcp.json",
            ] {
                inside.fails(&format!("write({})", py(place.join(name))), REFUSED)?;
                inside.fails(&format!("os.unlink({})", py(place.join(name))), REFUSED)?;
            }
            inside.fails(
                &format!("os.rename({}, {})", py(place.join(".git")), py(place.join("x"))),
                REFUSED,
            )?;
            inside.works(&format!("write({})", py(place.join("new"))))?;
        }
        inside.end()?;
        ensure!(fs::read_to_string(root.join(".envrc"))? == "as it was", "changed");
    }
    Ok(())
}

/// Submodules, worktrees and bare repositories have hooks and a configuration too, and so has a root that is the
/// `.git` itself.
#[test]
fn every_git_directory() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("gits")?;
        let root = stage.directory("root")?;
        let git = ["", "sub/.git/modules/lib", "bare.repo", "sub/.git"];
        for directory in ["sub/.git", "sub/.git/modules/lib", "bare.repo"] {
            for below in ["objects/ab", "refs", "hooks"] {
                fs::create_dir_all(root.join(directory).join(below))?;
            }
            for file in ["HEAD", "config", "hooks/pre-commit"] {
                fs::write(root.join(directory).join(file), "as it was")?;
            }
        }
        fs::create_dir(root.join("worktree"))?;
        fs::write(
            root.join("worktree/.git"),
            "gitdir: ../sub/.git/worktrees/worktree",
        )?;
        give(&root)?;
        for (path, inner) in [
            (root.clone(), git),
            (root.join("sub/.git"), ["", "modules/lib", "", ""]),
        ] {
            let mut inside = Inside::start(launch(&stage, view).root(&path, "rw"))?;
            for directory in inner.iter().filter(|name| path != root || !name.is_empty()) {
                let directory = path.join(directory);
                for name in ["config", "hooks/pre-commit"] {
                    inside.fails(&format!("write({})", py(directory.join(name))), REFUSED)?;
                    inside.fails(&format!("os.unlink({})", py(directory.join(name))), REFUSED)?;
                }
                inside.fails(&format!("write({})", py(directory.join("hooks/new"))), REFUSED)?;
                inside.fails(
                    &format!(
                        "os.rename({}, {})",
                        py(directory.join("hooks")),
                        py(directory.join("x"))
                    ),
                    REFUSED,
                )?;
                if directory != path {
                    inside.fails(
                        &format!("os.rename({}, {})", py(&directory), py(path.join("x"))),
                        &["EBUSY", "EXDEV"],
                    )?;
                }
                inside.works(&format!("write({})", py(directory.join("objects/ab/cd"))))?;
                inside.works(&format!("write({})", py(directory.join("HEAD.lock"))))?;
                inside.works(&format!(
                    "os.rename({}, {})",
                    py(directory.join("HEAD.lock")),
                    py(directory.join("HEAD"))
                ))?;
            }
            if path == root {
                let link = py(root.join("worktree/.git"));
                inside.fails(&format!("write({link})"), REFUSED)?;
                inside.fails(&format!("os.unlink({link})"), REFUSED)?;
            }
            inside.end()?;
        }
    }
    Ok(())
}

/// Everything else of a repository and an editor's directory is the server's to change.
#[test]
fn beside_them() -> Result<()> {
    let stage = Stage::new("beside")?;
    let root = stage.directory("root")?;
    plant(&root)?;
    let mut inside = Inside::start(launch(&stage, "private").root(&root, "rw"))?;
    for work in [
        format!("write({})", py(root.join(".git/HEAD"))),
        format!("write({})", py(root.join(".git/index.lock"))),
        format!(
            "os.rename({}, {})",
            py(root.join(".git/index.lock")),
            py(root.join(".git/index"))
        ),
        format!("os.mkdir({})", py(root.join(".git/objects"))),
        format!("write({})", py(root.join(".gitignore"))),
    ] {
        inside.works(&work)?;
    }
    inside.end()?;
    ensure!(root.join(".git/index").exists(), "not made");
    Ok(())
}

/// A project in a subdirectory cannot be moved away and made anew with hooks of the server's.
#[test]
fn not_by_moving_a_directory_above_them() -> Result<()> {
    for view in VIEWS {
        let stage = Stage::new("above")?;
        let root = stage.directory("root")?;
        let project = root.join("one/two");
        fs::create_dir_all(&project)?;
        plant(&project)?;
        fs::create_dir(root.join("plain"))?;
        give(&root)?;
        let mut inside = Inside::start(launch(&stage, view).root(&root, "rw"))?;
        for path in [&root.join("one"), &project] {
            let (name, aside) = (py(path), py(path.with_extension("aside")));
            inside.fails(&format!("os.rename({name}, {aside})"), &["EBUSY"])?;
        }
        // A directory that leads to none is free to go.
        inside.works(&format!(
            "os.rename({}, {})",
            py(root.join("plain")),
            py(root.join("other"))
        ))?;
        inside.works(&format!("write({})", py(project.join("new"))))?;
        inside.end()?;
    }
    Ok(())
}

#[test]
fn freed_by_a_policy() -> Result<()> {
    let stage = Stage::new("freed")?;
    let root = stage.directory("root")?;
    plant(&root)?;
    let policy = stage.path("policy.toml");
    let code = format!(
        "import os; open({0}, 'w').write('new'); os.rename({1}, {2}); import errno\n\
         try: open({3}, 'w')\n\
         except OSError as error: print(errno.errorcode[error.errno])",
        py(root.join(".envrc")),
        py(root.join(".git/hooks/pre-commit")),
        py(root.join(".git/hooks/post-commit")),
        py(root.join(".bashrc"))
    );
    fs::write(
        &policy,
        format!(
            "[server.s]\nprotocol = \"none\"\ncommand = [\"/usr/bin/python3\", \"-I\", \"-c\", {}]\nuser = \"{USER}\"\n\
             roots = [{{ path = {}, rights = \"rw\" }}]\nfree_names = [\".git/hooks\", \".envrc\"]\n",
            serde_json::json!(code),
            serde_json::json!(text(&root))
        ),
    )?;
    let finished = stage
        .plain()
        .option("--policy", &policy)
        .run_policy("", guard_tests::refused::PATIENCE)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    ensure!(
        finished.stdout == "EROFS",
        "what is not freed: {} {}",
        finished.stdout,
        finished.stderr
    );
    ensure!(fs::read_to_string(root.join(".envrc"))? == "new", "not freed");
    ensure!(root.join(".git/hooks/post-commit").exists(), "not freed");
    Ok(())
}

/// A read-only root has nothing to protect, and a name that is not there is not made.
#[test]
fn nothing_to_protect() -> Result<()> {
    for rights in ["r", "rw"] {
        let stage = Stage::new("plain")?;
        let root = tree(&stage, "root")?;
        let before = picture(&root)?;
        Inside::start(launch(&stage, "private").root(&root, rights))?.end()?;
        unchanged(&root, &before)?;
    }
    Ok(())
}
