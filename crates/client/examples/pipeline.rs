//! Sends many requests at once, of which some fail; docs/client.md shows this program.

use std::error::Error;

use client::{Client, Reply};

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url)?;

    let requests: [&[&[u8]]; 6] = [
        &[b"DEL", b"queue", b"total"],
        &[b"RPUSH", b"queue", b"a", b"b", b"c"],
        // A transaction is nothing else than requests in a row.
        &[b"MULTI"],
        &[b"INCRBY", b"total", b"3"],
        &[b"LRANGE", b"queue", b"0", b"-1"],
        &[b"EXEC"],
    ];
    let replies = client.pipeline(&requests)?;
    println!("pushed: {:?}", replies[1]);
    if let Some(Reply::Array(results)) = replies.last() {
        println!("total: {:?}", results[0]);
    }

    // An error is a reply like any other, and the requests after it are executed.
    let replies = client.pipeline(&[&[b"GET", b"queue"], &[b"LLEN", b"queue"]])?;
    if let Reply::Error(text) = &replies[0] {
        println!("refused: {}", String::from_utf8_lossy(text));
    }
    println!("length: {:?}", replies[1]);
    Ok(())
}
