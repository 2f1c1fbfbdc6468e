//! The way back: a tar archive written raw to a disk the host knows by its serial.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::spec::{FILES_NAME, OUT_SERIAL, VERDICT_NAME, Verdict};

/// The block device with this serial. Probing is asynchronous, so it may take a moment to appear.
pub(crate) fn disk(serial: &str) -> Result<PathBuf> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        for entry in fs::read_dir("/sys/block").context("list `/sys/block`")? {
            let entry = entry.context("list `/sys/block`")?;
            if fs::read_to_string(entry.path().join("serial")).is_ok_and(|text| text.trim_end() == serial) {
                return Ok(Path::new("/dev").join(entry.file_name()));
            }
        }
        if Instant::now() > end {
            bail!("no disk with serial `{serial}`: is `virtio_blk` loaded?");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn hand_over(verdict: &Verdict) -> Result<()> {
    let path = disk(OUT_SERIAL)?;
    let device = File::options()
        .write(true)
        .open(&path)
        .with_context(|| format!("open `{}`", path.display()))?;
    let mut archive = tar::Builder::new(BufWriter::with_capacity(1 << 18, device));
    archive.follow_symlinks(false);
    let text = serde_json::to_vec(verdict).context("encode the verdict")?;
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    archive
        .append_data(&mut header, VERDICT_NAME, text.as_slice())
        .context("write the verdict")?;
    archive
        .append_dir_all(FILES_NAME, "/out")
        .context("write `/out` to the output disk")?;
    let mut writer = archive.into_inner().context("finish the archive")?;
    writer.flush().context("flush the archive")?;
    writer.get_ref().sync_all().context("sync the output disk")
}
