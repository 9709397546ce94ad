//! The program `forebay-bench`; users reach it as `forebay bench` and `forebay demo`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use sys::allocations::Counting;

/// Tells what a read through shared memory allocates, which is to be nothing.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    match bench::cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
