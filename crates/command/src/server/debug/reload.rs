//! DEBUG RELOAD: the dataset to its file and back.

use crate::prelude::*;

const FAILED: CommandError =
    CommandError::Fixed("ERR Error trying to load the RDB dump, check server logs.");
const NOT_KEPT: CommandError =
    CommandError::Fixed("ERR DEBUG RELOAD replaces all keys: MERGE and NOFLUSH are not available");

pub(super) static RELOAD: Command = Command {
    name: "debug|reload",
    summary: "Saves the dataset to its file, unless NOSAVE, removes all keys and reads the file.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::at_least(2),
    flags: Flags::UNGUARDED,
    args: &[Arg::word("nosave", "NOSAVE").optional()],
    example: "> DEBUG RELOAD\nOK",
    handler: Handler::Control(|cx, args, reply| {
        let mut saves = true;
        for option in args.from(2) {
            match option.to_ascii_uppercase().as_slice() {
                b"NOSAVE" => saves = false,
                b"MERGE" | b"NOFLUSH" => return Err(NOT_KEPT.into()),
                _ => {
                    return Err(CommandError::Fixed(
                        "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
                    )
                    .into());
                }
            }
        }
        cx.host.persistence()?.reload(saves).map_err(|_| FAILED)?;
        reply.ok();
        Ok(())
    }),
    ..Command::DEFAULT
};
