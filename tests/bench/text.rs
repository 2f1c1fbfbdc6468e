//! The text that benches send and get: what tools give, such as prose, a listing, a log, code and numbers. A run of one
//! letter would be another thing to whoever looks through it for secrets.

const PART: &str = "# Notes on the release\n\n\
Before the tag is set, every service has to have answered its health check twice, and the change log has to name each \
migration. Roll back with `make undo STEP=3`; it takes about 40 seconds a node.\n\n\
- rows read: 18234, skipped: 12, took 3.41 s\n\
- cache: 91.7 % of 2048 MB in use\n\n\
drwxr-xr-x  4 build staff   4096 Mar 11 09:20 src\n\
-rw-r--r--  1 build staff  18743 Mar 11 09:22 src/main.rs\n\
-rw-r--r--  1 build staff    912 Feb 27 17:05 README.md\n\n\
2026-03-11T09:20:31.084Z INFO  worker[3] took job 7731 (queue \"mail\", 2 left)\n\
2026-03-11T09:20:31.190Z WARN  worker[3] slow answer of \"directory\": 106 ms\n\n\
fn total(rows: &[Row]) -> u64 {\n    rows.iter().filter(|row| row.kind != Kind::Void).map(|row| row.count).sum()\n}\n\n\
{\"items\": [{\"name\": \"bolt\", \"count\": 400, \"price\": 0.12}, {\"name\": \"nut\", \"count\": 380}]}\n\n";

/// So many bytes of it.
pub(crate) fn of(bytes: usize) -> String {
    PART.chars().cycle().take(bytes).collect()
}
