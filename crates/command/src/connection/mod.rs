//! The commands of the session.

mod ping;

use crate::row::Command;

/// The rows of the family.
pub static CONNECTION: &[&Command] = &[&ping::PING];
