//! The developer commands (chores), started as `cargo xtask <chore>`.
//!
//! *Layout*: `chores.rs` is the table of chores. `tidy/` holds the coding rules, one file for each
//! kind of rule; `docs/` writes the generated pages; `steps.rs` is what a full test run consists
//! of, `loom_and_miri.rs`, `fuzz.rs` with `dictionary.rs` and the table `stress_tests.rs` parts of
//! it, `python.rs` too; `setup.rs` installs what the tests need; `process.rs` runs other programs
//! and counts what their tests report.
//! *Invariants*: a chore that could not do its work says so and fails; nothing is skipped silently.
//! *Not here*: anything that the product needs to run. No crate imports this one.
#![forbid(unsafe_code)]

mod chores;
mod dictionary;
mod docs;
mod fuzz;
mod loom_and_miri;
mod process;
mod python;
mod setup;
mod steps;
mod stress_tests;
mod tidy;
mod workspace;

use std::process::ExitCode;

use chores::CHORES;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        eprintln!("{}", chores::usage());
        return ExitCode::from(2);
    };
    if ["help", "--help", "-h"].contains(&name.as_str()) {
        println!("{}", chores::usage());
        return ExitCode::SUCCESS;
    }
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        eprintln!("error: no chore is called '{name}'\n\n{}", chores::usage());
        return ExitCode::from(2);
    };
    match (chore.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
