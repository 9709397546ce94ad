//! An instance of the data store inside a program that keeps its data in a folder: what a reply
//! told is there after the next start, and a server with this folder as its `dir` and with
//! `appendonly yes` has the same data. The folder is the first argument, or `forebay-data`.

use std::error::Error;
use std::path::Path;

use runtime::{Embedded, EmbeddedOptions, Environment, LogOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| "forebay-data".into());
    println!("INCR starts -> {}", run(Path::new(&folder))?);
    Ok(())
}

/// Opens the instance in `folder` and counts that it was started; returns the reply.
pub fn run(folder: &Path) -> Result<String, Box<dyn Error>> {
    let options =
        EmbeddedOptions { log: Some(LogOptions::new(folder)), ..EmbeddedOptions::default() };
    let embedded = Embedded::open(&options, Environment::system())?;
    let reply = embedded.session().run(&["INCR", "starts"]);
    // Now and then, as here at the end: it keeps the log short.
    embedded.sweep();
    embedded.close()?;
    Ok(reply.escape_ascii().to_string())
}
