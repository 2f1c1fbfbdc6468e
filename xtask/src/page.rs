//! Pages of `docs/` of which a part is generated: it stands between two marks, `<!-- NAME -->` and `<!-- /NAME -->`.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::apt;

/// The page with `text` between the marks of `name`.
pub(crate) fn between(page: &str, name: &str, text: &str) -> Result<String> {
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let (before, rest) = page
        .split_once(&open)
        .with_context(|| format!("the page has no `{open}`"))?;
    let (_, after) = rest
        .split_once(&close)
        .with_context(|| format!("the page has no `{close}` behind `{open}`"))?;
    Ok(format!("{before}{open}\n{}\n{close}{after}", text.trim_end()))
}

/// The commit of the checkout, with a plus when it has changes.
pub(crate) fn commit(root: &Path) -> Result<String> {
    let git = |args: &[&str]| {
        apt::output(
            Command::new("git")
                .args(["-c", "safe.directory=*"])
                .args(args)
                .current_dir(root),
        )
        .context("ask git for the commit")
    };
    let changed = !git(&["status", "--porcelain"])?.trim().is_empty();
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    Ok(format!("`{}`{}", commit.trim(), if changed { "+" } else { "" }))
}

/// The day, as `2026-11-30`.
pub(crate) fn today() -> Result<String> {
    let day = apt::output(Command::new("date").args(["-u", "+%Y-%m-%d"])).context("ask for the date")?;
    Ok(day.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_changes() {
        let page = "a\n<!-- x -->\nold\n<!-- /x -->\nb";
        let new = between(page, "x", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- x -->\nnew\n<!-- /x -->\nb");
        assert!(between(page, "y", "new").is_err());
        assert!(between("<!-- x -->", "x", "new").is_err());
    }
}
