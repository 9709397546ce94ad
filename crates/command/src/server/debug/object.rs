//! DEBUG OBJECT: how a value lies in memory.

use base::number::parse_i64;
use keyspace::{Encoding, Object, text_of};

use crate::prelude::*;

/// The clock of accesses has 24 bits of seconds.
const CLOCK_MASK: i64 = 0x00ff_ffff;
/// A longer text is not written as a number.
const NUMBER_BYTES_MAX: usize = 11;

pub(super) static OBJECT: Command = Command {
    name: "debug|object",
    summary: "Tells where a value lies, how it is encoded, and when it was used last.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::at_least(3),
    args: &[Arg::string("key"), Arg::word("fast", "FAST").optional()],
    note: "Redis compresses longer values before it tells `serializedlength`. Of other types than \
        strings Forebay tells the bytes in memory there. Under the adaptive policies an entry does \
        not tell when it was used last, and `lru` and `lru_seconds_idle` are left out.",
    example: "> DEBUG OBJECT lake\n(error) ERR no such key",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let is_fast = match args.len() {
        3 => false,
        4 if args.is(3, "fast") => true,
        _ => return Err(CommandError::subcommand_syntax("DEBUG", args.at(1)).into()),
    };
    let (database, now) = (cx.session.database, cx.now);
    let hasher = *cx.access.keyspace().hasher();
    let key = hasher.key(args.at(2));
    let line = cx.access.write(&key, database, now, |view| {
        let view = view.as_read();
        let entry = view.peek(&key)?;
        let mut copy = Vec::new();
        let value = match entry.item_tail() {
            Some(_) => text_of(&entry),
            None => entry.value_or_copy(&mut copy),
        };
        let mut line =
            format!("Value at:{:p} refcount:1 encoding:{}", value.as_ptr(), entry.encoding_name());
        if !is_fast {
            line += &format!(" serializedlength:{}", serialized_bytes(&entry, value));
            if let Some(idle) = view.idle_seconds(&key, &entry) {
                let used = (now.0 / 1000).saturating_sub_unsigned(idle) & CLOCK_MASK;
                line += &format!(" lru:{used} lru_seconds_idle:{idle}");
            }
        }
        Some(line)
    });
    reply.simple(line.ok_or(CommandError::NO_SUCH_KEY)?);
    Ok(())
}

/// Returns the bytes that Redis would write to disk for a value, which is `text` where it is a
/// string, did it not compress.
fn serialized_bytes(entry: &Object<'_>, text: &[u8]) -> u64 {
    if let Some(collection) = entry.collection() {
        return collection.memory_bytes();
    }
    let number = match entry.encoding() {
        Encoding::Int => parse_i64(text),
        // Short texts are looked at once more when they are written.
        _ if text.len() <= NUMBER_BYTES_MAX => parse_i64(text),
        _ => None,
    };
    match number {
        Some(number) if i8::try_from(number).is_ok() => 2,
        Some(number) if i16::try_from(number).is_ok() => 3,
        Some(number) if i32::try_from(number).is_ok() => 5,
        _ => length_bytes(text.len() as u64) + text.len() as u64,
    }
}

/// Returns the bytes that a length takes on disk.
fn length_bytes(length: u64) -> u64 {
    match length {
        0..64 => 1,
        64..16_384 => 2,
        16_384..=0xffff_ffff => 5,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_one_two_five_or_nine_bytes() {
        for (length, bytes) in [(0, 1), (63, 1), (64, 2), (16_383, 2), (16_384, 5)] {
            assert_eq!(length_bytes(length), bytes, "{length}");
        }
        assert_eq!((length_bytes(u32::MAX.into()), length_bytes(1 << 32)), (5, 9));
    }
}
