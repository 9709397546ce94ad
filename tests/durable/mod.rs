//! Servers whose data are on disk: killed, started again, and started on what they cannot use.

mod backups;
mod feed;
mod file_size_limit;
mod kills;
mod loading;
mod moments;
mod redis_files;
mod snapshots;
mod starts;

use std::path::Path;

use harness::{Kind, Launch};

/// Returns the launch of a server that keeps a log in `folder` and makes each write durable.
fn durable(folder: &Path) -> Launch {
    let launch = Launch::new(Kind::Forebay).option("dir", &folder.display().to_string());
    launch.option("appendonly", "yes").option("appendfsync", "always")
}
