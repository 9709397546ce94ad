//! Environment variables of the tests: how much work to do, and which seed to repeat.

/// Returns the number that the environment has under `name`.
///
/// # Panics
/// When it is none.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not '{text}'")))
}
