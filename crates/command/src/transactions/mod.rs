//! The commands of transactions.

mod discard;
mod exec;
mod multi;
mod unwatch;
mod watch;

use crate::table::row::Command;

pub(crate) static TRANSACTIONS: &[&Command] =
    &[&discard::DISCARD, &exec::EXEC, &multi::MULTI, &unwatch::UNWATCH, &watch::WATCH];
