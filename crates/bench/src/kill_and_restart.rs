//! The end of the demonstration: a server that keeps a log is killed while clients write to it, and
//! started again. Every write that was acknowledged is there.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, ensure};
use resp::Value;

use crate::server_process::{ServerProcess, ServerSpec};
use crate::target::Target;
use crate::wire::Wire;

/// Connections that write at once, each keys of its own.
const WRITERS: usize = 16;
/// How long they write before the server is killed.
const WRITING: Duration = Duration::from_secs(2);
/// Keys that are asked for at once afterwards.
const WINDOW: u64 = 64;

/// Shows it and leaves nothing behind.
///
/// # Errors
/// When the server fails, or an acknowledged write is not there.
pub fn show(server: &ServerSpec) -> anyhow::Result<()> {
    let name = format!("forebay-demo-{}", std::process::id());
    let folder = env::temp_dir().join(name);
    fs::create_dir_all(&folder)?;
    let shown = kill_and_restart(server, &folder);
    fs::remove_dir_all(&folder)?;
    shown
}

fn kill_and_restart(server: &ServerSpec, folder: &Path) -> anyhow::Result<()> {
    let mut spec = server.clone();
    let folder = folder.to_str().context("the folder's name is UTF-8")?;
    let options = ["--dir", folder, "--appendonly", "yes", "--appendfsync", "always"];
    spec.options.extend(options.map(str::to_owned));
    println!(
        "\nA server that keeps a log, every write on disk before its reply (appendfsync always):"
    );
    let server = ServerProcess::start(&spec)?;
    let target = server.unix();
    let acknowledged: Vec<u64> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let target = &target;
                scope.spawn(move || write(writer, target))
            })
            .collect();
        thread::sleep(WRITING);
        // The keeper kills it as `kill -9` does.
        drop(server);
        writers.into_iter().map(|writer| writer.join().expect("writing does not panic")).collect()
    });
    let count: u64 = acknowledged.iter().sum();
    println!("  killed (-9) in mid-load; {count} writes of {WRITERS} clients were acknowledged");
    ensure!(count > 0, "nothing was written");
    let started = Instant::now();
    let server = ServerProcess::start(&spec)?;
    println!("  started again: answers after {:.0} ms", started.elapsed().as_secs_f64() * 1000.0);
    let mut wire = Wire::connect(&server.unix())?;
    for (writer, count) in acknowledged.iter().enumerate() {
        verify(writer, *count, &mut wire)?;
    }
    println!("  all {count} are there, with their values");
    server.stop();
    Ok(())
}

/// Sets one key after the other until the server is gone; returns how many were acknowledged.
fn write(writer: usize, target: &Target) -> u64 {
    let Ok(mut wire) = Wire::connect(target) else { return 0 };
    let mut count = 0;
    loop {
        let (key, value) = pair(writer, count);
        match wire.call(&[b"SET", key.as_bytes(), value.as_bytes()]) {
            Ok(Value::Simple(_)) => count += 1,
            _ => return count,
        }
    }
}

/// Checks that the first `count` keys of `writer` have their values.
fn verify(writer: usize, count: u64, wire: &mut Wire) -> anyhow::Result<()> {
    for first in (0..count).step_by(WINDOW as usize) {
        let pairs: Vec<_> =
            (first..count.min(first + WINDOW)).map(|number| pair(writer, number)).collect();
        let mut request: Vec<&[u8]> = vec![b"MGET"];
        request.extend(pairs.iter().map(|(key, _)| key.as_bytes()));
        let expected =
            pairs.iter().map(|(_, value)| Value::Bulk(value.clone().into_bytes())).collect();
        let found = wire.call(&request)?;
        ensure!(
            found == Value::Array(expected),
            "writes of client {writer} are missing: {found:?}"
        );
    }
    Ok(())
}

fn pair(writer: usize, number: u64) -> (String, String) {
    (format!("{writer}:{number}"), format!("value {number} of client {writer}"))
}
