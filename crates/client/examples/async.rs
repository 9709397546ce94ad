//! Many tasks that share one connection, over shared memory, a unix socket or TCP, as the URL says;
//! docs/client.md shows this program.

use std::error::Error;
use std::time::Duration;

use client::{AsyncClient, SetOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = AsyncClient::connect(&url).await?;

    // Requests of tasks that run at one time are sent together.
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call(&[b"INCR", b"hits"]).await.map(drop) })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    if let Some(hits) = client.take(b"hits").await? {
        println!("hits: {}", String::from_utf8_lossy(&hits));
    }

    // One task waits for what another puts.
    let waiter = client.clone();
    let waiting = tokio::spawn(async move { waiter.get_blocking(b"job", None).await });
    let minute = SetOptions::new().expires_in(Duration::from_secs(60));
    client.put_with(b"job", b"paint the fence", &minute).await?;
    if let Some(job) = waiting.await?? {
        println!("job: {}", String::from_utf8_lossy(&job));
    }
    Ok(())
}
