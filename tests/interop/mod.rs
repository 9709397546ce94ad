//! The programs that people use with Redis and memcached, on Forebay: redis-py, redis-cli,
//! redis-benchmark, pymemcache, pylibmc, Django's caches, libmemcached's tools; and our own client.

mod adopted_twins;
#[cfg(feature = "tokio")]
mod async_client;
mod attached;
mod client_faults;
mod client_leases;
mod collection_reads;
mod eviction_and_views;
mod lane_client;
mod memcached_clients;
mod namespaces;
mod redis_benchmark;
mod redis_cli;
mod redis_py;
mod rust_client;
mod upload_client;

use std::path::PathBuf;

use harness::Server;

/// Returns the URLs of `server`: by shared memory, by its unix socket, and by TCP.
fn urls(server: &Server, query: &str) -> [String; 3] {
    let path = server.socket().display();
    [
        format!("shm://{path}{query}"),
        format!("unix://{path}{query}"),
        format!("redis://{}{query}", server.address()),
    ]
}

/// Returns the Python interpreter that has the packages of `requirements.txt`: `FOREBAY_PYTHON`, or
/// the one that `cargo xtask setup` installs under the target folder.
fn python() -> PathBuf {
    if let Some(path) = std::env::var_os("FOREBAY_PYTHON") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("a program knows its path");
    let target = test.ancestors().nth(3).expect("tests lie in target/<profile>/deps");
    let python = target.join("venv/bin/python");
    assert!(python.exists(), "{} is absent: run `cargo xtask setup`", python.display());
    python
}
