//! The programs that people use with Redis, on Forebay: redis-py, redis-cli, redis-benchmark; and
//! our own client.

mod adopted_twins;
#[cfg(feature = "tokio")]
mod async_client;
mod attached;
mod client_faults;
mod client_leases;
mod collection_churn;
mod collection_reads;
mod eviction_and_views;
mod lane_client;
mod namespaces;
mod redis_benchmark;
mod redis_cli;
mod redis_py;
mod rust_client;
mod upload_client;

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
