//! Works with a server over shared memory, a unix socket or TCP, as the URL says; docs/client.md
//! shows this program.

use std::error::Error;
use std::thread;

use client::{Client, Reply};

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url)?;

    client.put(b"greeting", b"hello")?;
    if let Some(value) = client.get(b"greeting")? {
        println!("greeting: {}", String::from_utf8_lossy(&value));
    }

    // A large value: over shared memory where it lies, until `view` is dropped.
    client.put(b"picture", &[7; 100_000])?;
    if let Some(view) = client.get(b"picture")? {
        println!("picture: {} bytes, not copied: {}", view.len(), view.is_pinned());
    }

    // Threads share the client; each has a connection of its own.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| client.call(&[b"INCR", b"visits"]));
        }
    });

    // Many requests, sent together; take deletes.
    let replies = client.pipeline(&[&[b"STRLEN", b"picture"], &[b"DEL", b"picture"]])?;
    assert_eq!(replies, [Reply::Integer(100_000), Reply::Integer(1)]);
    if let Some(visits) = client.take(b"visits")? {
        println!("visits: {}", String::from_utf8_lossy(&visits));
    }
    Ok(())
}
