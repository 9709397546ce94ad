//! Hands large values from one process to another without a copy on the way back; docs/client.md
//! shows this program. Start it as `handover URL worker`, then as `handover URL`.

use std::error::Error;
use std::time::Duration;

use client::{Client, SetOptions};

/// A picture's side in pixels.
const SIDE: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url)?;
    match arguments.next().as_deref() {
        Some("worker") => work(&client),
        _ => order(&client),
    }
}

/// Writes a picture in place, publishes it, and waits for what a worker makes of it.
fn order(client: &Client) -> Result<(), Box<dyn Error>> {
    let mut picture = client.create(b"job:1", SIDE * SIDE)?;
    for (index, pixel) in picture.iter_mut().enumerate() {
        *pixel = (index % SIDE) as u8;
    }
    // Should no worker come, it is gone after a minute.
    let minute = SetOptions::new().expires_in(Duration::from_secs(60));
    picture.seal_with(&minute)?;

    match client.get_blocking(b"job:1:done", Duration::from_secs(60))? {
        Some(answer) => println!("answer: {}", String::from_utf8_lossy(&answer)),
        None => println!("no worker within a minute"),
    }
    client.take(b"job:1:done")?;
    Ok(())
}

/// Waits for a picture and takes it: of several workers, one gets it.
fn work(client: &Client) -> Result<(), Box<dyn Error>> {
    loop {
        if client.get_blocking(b"job:1", None)?.is_none() {
            continue;
        }
        let Some(picture) = client.take(b"job:1")? else { continue };
        let sum: u64 = picture.iter().map(|pixel| u64::from(*pixel)).sum();
        println!("{} bytes, not copied: {}", picture.len(), picture.is_pinned());
        client.put(b"job:1:done", format!("mean {}", sum / picture.len() as u64).as_bytes())?;
        return Ok(());
    }
}
