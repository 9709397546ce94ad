//! DEBUG SDSLEN: the lengths of a key and of the string there.

use keyspace::Object;

use super::peek;
use crate::prelude::*;

const NO_STRING: CommandError = CommandError::Fixed("ERR Not an sds encoded string.");

pub(super) static SDSLEN: Command = Command {
    name: "debug|sdslen",
    summary: "Tells how long a key and the string there are, and what memory they take.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(3),
    args: &[Arg::string("key")],
    note: "A key and its value lie in one block without room to grow: what the block takes beside \
        the key is counted for the value.",
    example: "> SET lake deep\nOK\n> DEBUG SDSLEN lake\n...",
    handler: Handler::Control(|cx, args, reply| {
        reply.simple(peek(cx, args.at(2), describe).ok_or(CommandError::NO_SUCH_KEY)??);
        Ok(())
    }),
    ..Command::DEFAULT
};

fn describe(entry: &Object<'_>) -> Result<String, CommandError> {
    if !["embstr", "raw"].contains(&entry.encoding_name()) {
        return Err(NO_STRING);
    }
    let (key, value) = (entry.key().len(), entry.text_length());
    let rest = entry.memory_bytes().saturating_sub(key as u64);
    Ok(format!(
        "key_sds_len:{key}, key_sds_avail:0, key_zmalloc: {key}, \
         val_sds_len:{value}, val_sds_avail:0, val_zmalloc: {rest}"
    ))
}
