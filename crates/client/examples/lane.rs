//! Sends requests to a server on this host through shared memory.

use std::error::Error;
use std::path::Path;

use client::{Lane, LaneShape, Reply};

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args().nth(1).unwrap_or_else(|| "forebay.sock".to_owned());
    let shape = LaneShape::new(64 * 1024, 64 * 1024).ok_or("powers of two")?;
    let mut lane = Lane::connect(Path::new(&socket), None, shape)?;

    lane.call(&[b"SET", b"greeting", b"hello"])?;
    if let Reply::Bulk(value) = lane.call(&[b"GET", b"greeting"])? {
        println!("greeting: {}", String::from_utf8_lossy(&value));
    }

    // Many requests, sent at once.
    let request: [&[u8]; 2] = [b"INCR", b"visits"];
    let replies = lane.pipeline(&vec![&request[..]; 1000])?;
    println!("visits: {:?}", replies.last());
    Ok(())
}
