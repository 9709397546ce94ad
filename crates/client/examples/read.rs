//! Reads values of a server on this host where they lie; docs/client.md shows this program.

use std::error::Error;
use std::path::Path;

use client::{Attached, DatabaseIndex, Value};

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args().nth(1).unwrap_or_else(|| "forebay.sock".to_owned());
    let mut attached = Attached::connect(Path::new(&socket), None)?;
    attached.select(DatabaseIndex(0))?;

    // A copy, in a buffer that serves any number of reads.
    let mut buffer = Vec::new();
    if attached.get(b"greeting", &mut buffer)? {
        println!("greeting: {}", String::from_utf8_lossy(&buffer));
    }

    // A large value where it lies: it stays as it is until `view` is dropped.
    match attached.view(b"picture", &mut buffer)? {
        Some(Value::Pinned(view)) => println!("picture: {} bytes, not copied", view.len()),
        Some(Value::Copied(bytes)) => println!("picture: {} bytes, copied", bytes.len()),
        None => println!("picture: there is none"),
    }
    Ok(())
}
