//! The commands of strings.

mod get;

use crate::row::Command;

/// The rows of the family.
pub static STRING: &[&Command] = &[&get::GET];
