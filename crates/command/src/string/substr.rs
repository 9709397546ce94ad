//! SUBSTR: GETRANGE under its first name.

use super::getrange;
use crate::prelude::*;

/// The row.
pub static SUBSTR: Command = Command {
    name: "substr",
    summary: "Returns the bytes of a string from one position to another, both included.",
    since: "1.0.0",
    complexity: "O(N), N being the returned bytes",
    group: Group::String,
    arity: Arity::exactly(4),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::integer("start").within(-50, 50),
        Arg::integer("end").within(-50, 50),
    ],
    deprecated: Some(("2.0.0", "`GETRANGE`")),
    example: "> SET lake deep\nOK\n> SUBSTR lake 1 2\n\"ee\"\n> SUBSTR lake -2 -1\n\"ep\"",
    handler: Handler::Read(getrange::run),
    ..Command::DEFAULT
};
