//! Waiting for something to become true, with a bound.

use std::thread;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);
/// Looks before a wait is given up. It bounds a hang and is no statement about speed: a machine
/// that is busy with other work may need most of it.
const LOOKS_MAX: u32 = 6_000;

/// Looks until `look` returns something, and returns that.
///
/// # Panics
/// When it returns nothing for about a minute; `what` says what was waited for.
pub fn poll<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS_MAX {
        if let Some(found) = look() {
            return found;
        }
        thread::sleep(PAUSE);
    }
    panic!("waited in vain for {what}");
}

/// Looks until `look` returns true.
///
/// # Panics
/// When it does not for about a minute; `what` says what was waited for.
pub fn poll_until(what: &str, mut look: impl FnMut() -> bool) {
    poll(what, || look().then_some(()));
}

/// Lets time pass, for the tests whose subject is what happens when nothing happens.
pub fn let_pass(time: Duration) {
    thread::sleep(time);
}
