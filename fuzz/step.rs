//! One execution of a target, and how long it takes: libFuzzer counts in whole seconds alone.

use std::time::{Duration, Instant};

/// An execution that takes longer is reported; on a machine that does other work some are.
const SLOW: Duration = Duration::from_millis(100);
/// How much of a slow input is shown.
const SHOWN_BYTES: usize = 300;

/// An execution from when this is made until it is dropped.
pub struct Step<'i> {
    start: Instant,
    input: &'i [u8],
}

impl<'i> Step<'i> {
    /// Begins the execution of `input`.
    pub fn begin(input: &'i [u8]) -> Step<'i> {
        Step { start: Instant::now(), input }
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        let time = self.start.elapsed();
        if time > SLOW && !std::thread::panicking() {
            let shown = &self.input[..self.input.len().min(SHOWN_BYTES)];
            eprintln!("slow unit: {} ms: {}", time.as_millis(), shown.escape_ascii());
        }
    }
}
