//! SUBSTR: GETRANGE under its first name.

use super::getrange::GETRANGE;
use crate::prelude::*;

pub(super) static SUBSTR: Command = Command {
    name: "substr",
    since: "1.0.0",
    deprecated: Some(("2.0.0", "`GETRANGE`")),
    example: "> SET lake deep\nOK\n> SUBSTR lake 1 2\n\"ee\"\n> SUBSTR lake -2 -1\n\"ep\"",
    ..GETRANGE
};
