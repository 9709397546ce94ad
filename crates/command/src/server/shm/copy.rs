//! SHM COPY: copies a part of an upload, while its client writes the rest.
//!
//! `SHM COMMIT ... COPIED` then finds the value nearly there. Nothing has changed before that: a
//! key has its value from one moment to the next. Each connection has one value copied ahead at
//! most, and any other request gives it up: its client may have written the upload anew.

use super::commit::COMMIT;
use crate::handler::outcome::PartialUploadCopy;
use crate::prelude::*;

pub(super) static COPY: Command = Command {
    name: "shm|copy",
    summary: "Copies a part of an upload that is written already, ahead of its COMMIT.",
    complexity: "O(N), N being the length of the part",
    arity: Arity::exactly(7),
    flags: Flags::DENYOOM.with(Flags::NOSCRIPT).with(Flags::NO_MULTI),
    keys: &[KeySpec::at(6, KeyFlags::OW.with(KeyFlags::UPDATE))],
    key_flags: None,
    args: &[
        Arg::integer("offset").within(0, 1 << 40),
        Arg::integer("length").within(0, 1 << 20),
        Arg::integer("from").within(0, 1 << 20),
        Arg::integer("to").within(0, 1 << 20),
        Arg::key("key"),
    ],
    example: "> SHM COPY 1030792151040 4194304 0 1048576 lake\n...",
    handler: Handler::Write(run),
    ..COMMIT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (offset, length) = (super::natural(args, 2)?, super::natural(args, 3)?);
    let (from, to) = (super::natural(args, 4)?, super::natural(args, 5)?);
    if from > to || to > length {
        return Err(CommandError::Fixed("ERR the part is not within the length").into());
    }
    cx.check_value_bytes(length, 0)?;
    if !cx.prepares {
        reply.integer(0);
        return Ok(());
    }
    Err(Need::PartialUploadCopy(Box::new(PartialUploadCopy { offset, length, part: from..to }))
        .into())
}
