//! The commands of the server.

use crate::row::Command;

/// The rows of the family.
pub static SERVER: &[&Command] = &[];
