//! An instance of the data store inside a program that keeps its data in a folder: what a reply
//! told is there after the next start, and a server with this folder as its `dir` and with
//! `appendonly yes` has the same data.

use runtime::{Embedded, EmbeddedOptions, Environment, LogOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| "forebay-data".into());
    let log = Some(LogOptions::new(folder));
    let options = EmbeddedOptions { log, ..EmbeddedOptions::default() };
    let embedded = Embedded::open(&options, Environment::system())?;
    let reply = embedded.session().run(&["INCR", "starts"]);
    println!("INCR starts -> {}", reply.escape_ascii());
    // Now and then, as here at the end: it keeps the log short.
    embedded.sweep();
    embedded.close()?;
    Ok(())
}
