//! What the kernel knows about a process, read from `/proc`.

use std::fs;
use std::path::PathBuf;

/// Returns how many descriptors the process has open.
pub fn descriptor_count(process_id: u32) -> usize {
    fs::read_dir(format!("/proc/{process_id}/fd")).expect("the process lives").count()
}

/// Returns how many descriptors all the pollers of the process wait for.
pub fn watched_count(process_id: u32) -> usize {
    let infos = fs::read_dir(format!("/proc/{process_id}/fdinfo")).expect("the process lives");
    // A descriptor may be closed between the two looks.
    let texts = infos.filter_map(|info| fs::read_to_string(info.ok()?.path()).ok());
    texts.map(|text| text.lines().filter(|line| line.starts_with("tfd:")).count()).sum()
}

/// Returns whether every thread of the process has stopped, as SIGSTOP makes them one by one.
pub fn is_stopped(process_id: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process_id}/task")).expect("the process lives");
    let states = tasks.flatten().map(|task| fs::read_to_string(task.path().join("status")));
    let is_stopped = |text: &str| text.lines().any(|line| line.starts_with("State:\tT"));
    states.into_iter().all(|state| is_stopped(&state.expect("the process lives")))
}

/// Returns the processes that the process has started and that have not been waited for.
pub fn children(process_id: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("there is a /proc");
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| parent(*id) == Some(process_id)).collect()
}

/// Returns what names the namespace of the process that is called `name`, such as `net`.
pub fn namespace(process_id: u32, name: &str) -> PathBuf {
    fs::read_link(format!("/proc/{process_id}/ns/{name}")).expect("the process lives")
}

/// Returns whether the process lives.
pub fn is_alive(process_id: u32) -> bool {
    parent(process_id).is_some()
}

/// Returns who has started the process, if it lives.
fn parent(process_id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process_id}/stat")).ok()?;
    // The name in parentheses may have any character; behind it stand the state and the parent.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Returns the resident memory in bytes, memory shared with other processes included.
pub fn resident_bytes(process_id: u32) -> u64 {
    status_bytes(process_id, "VmRSS:")
}

/// Returns that part of the resident memory in bytes which is of files: the program and its
/// libraries.
pub fn resident_bytes_of_files(process_id: u32) -> u64 {
    status_bytes(process_id, "RssFile:")
}

/// Returns the most resident memory that it ever had, in bytes.
pub fn resident_bytes_max(process_id: u32) -> u64 {
    status_bytes(process_id, "VmHWM:")
}

/// Makes [`resident_bytes_max`] begin anew with what the process has now.
pub fn reset_resident_max(process_id: u32) {
    fs::write(format!("/proc/{process_id}/clear_refs"), "5").expect("the process is ours");
}

/// Returns the nanoseconds for which threads of the process have run on a processor.
pub fn processor_ns(process_id: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process_id}/task")).expect("the process lives");
    threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("schedstat")).ok())
        .map(|text| {
            let ran = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
            ran.expect("schedstat begins with the time that the thread ran")
        })
        .sum()
}

/// Returns whether the kernel probes the peer of the TCP connection of this host's `port` while
/// nothing passes.
pub fn is_kept_alive(port: u16) -> bool {
    /// The timer of a connection that waits for no acknowledgement.
    const KEEP_ALIVE: &str = "02:";
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux tells");
    let own = format!(":{port:04X}");
    table.lines().any(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns.len() > 5 && columns[1].ends_with(&own) && columns[5].starts_with(KEEP_ALIVE)
    })
}

fn status_bytes(process_id: u32, name: &str) -> u64 {
    let status = read(process_id, "status");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).expect("the kernel prints it in kB") * 1024
}

fn read(process_id: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{process_id}/{name}")).expect("the process lives")
}
