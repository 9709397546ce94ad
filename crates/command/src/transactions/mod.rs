//! The commands of transactions.

use crate::row::Command;

/// The rows of the family.
pub static TRANSACTIONS: &[&Command] = &[];
