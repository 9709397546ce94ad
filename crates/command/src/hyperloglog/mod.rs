//! The commands of HyperLogLogs, which are strings of a format of their own
//! (`collections/hyperloglog.rs`).
//!
//! A count that is asked for is kept in the value, so that PFCOUNT changes it, though it counts as
//! a command that reads. That the count is kept is an effect, by which no event is published.

mod pfadd;
mod pfcount;
mod pfdebug;
mod pfmerge;
mod pfselftest;

use collections::hyperloglog::{Flaw, HyperLogLog, Registers};

use crate::prelude::*;

pub(crate) static HYPERLOGLOG: &[&Command] = &[
    &pfadd::PFADD,
    &pfcount::PFCOUNT,
    &pfdebug::PFDEBUG,
    &pfmerge::PFMERGE,
    &pfselftest::PFSELFTEST,
];

/// The effect by which a value becomes dense.
const CONVERSION: &str = "PFDEBUG|TODENSE";

impl From<Flaw> for CommandError {
    fn from(flaw: Flaw) -> CommandError {
        CommandError::Fixed(match flaw {
            Flaw::OtherString => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            Flaw::Corrupt => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

/// Raises `registers` to those of the HyperLogLogs at the keys of the request, and returns whether
/// one of these is dense. A key that is absent has none.
fn merge_keys(
    cx: &WriteContext<'_>,
    args: Args<'_>,
    registers: &mut Registers,
) -> Result<bool, Unfinished> {
    let view = cx.view.as_read();
    let mut has_dense = false;
    for key in args.keys() {
        let Some(value) = view.string(key)? else { continue };
        let log = HyperLogLog::parse(value).map_err(CommandError::from)?;
        log.merge_into(registers).map_err(CommandError::from)?;
        has_dense |= log.is_dense();
    }
    Ok(has_dense)
}
