//! The commands of keys whatever their type.

use crate::row::Command;

/// The rows of the family.
pub static GENERIC: &[&Command] = &[];
