//! What the system says of its errors.

use std::io;

/// Returns the system's own text for `error`, without the number that Rust adds.
pub fn base_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
