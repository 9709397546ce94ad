//! FEED READ: changes, from a place in the stream on.

use std::time::Duration;

use super::{ask, group_name, lsn};
use crate::generic::type_named;
use crate::host::{FeedQuestion, FeedRead, FeedStart, PREFIXES_BYTES_MAX, PREFIXES_MAX};
use crate::parse::timeout;
use crate::prelude::*;

/// How many changes are returned where nobody says how many, and at most.
const COUNT_DEFAULT: usize = 100;
const COUNT_MAX: i64 = 10_000;

const NO_START: CommandError =
    CommandError::Fixed("ERR FEED READ begins FROM a place or with a GROUP, one of both");
const BAD_TYPE: CommandError = CommandError::Fixed("ERR unknown type name");
const MANY_PREFIXES: CommandError = CommandError::Fixed("ERR too many prefixes: 64 at most");
const LONG_PREFIXES: CommandError =
    CommandError::Fixed("ERR the prefixes are too long: 64 KiB together at most");

pub(super) const FROM: Arg =
    Arg::string("lsn").token("FROM").among(&["0", "-", "$", "64", "100000"]);

pub(super) static READ: Command = Command {
    name: "feed|read",
    summary: "Returns changes from a place in the stream on; waits for some.",
    since: "7.2.0",
    complexity: "O(N), N being the bytes of the records that are looked at",
    group: Group::Server,
    arity: Arity::at_least(2),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_MULTI).with(Flags::BLOCKING),
    args: &[
        FROM.optional(),
        Arg::integer("count").token("COUNT").optional().within(1, 20),
        Arg::integer("milliseconds").token("BLOCK").optional().only_within(1, 2),
        Arg::string("prefix").token("PREFIX").optional(),
        Arg::string("type").token("TYPE").among(&["string", "hash"]).optional(),
        Arg::integer("database").token("DB").within(0, 15).optional(),
        Arg::string("group").token("GROUP").optional(),
    ],
    note: "The place is an LSN, `-` for the first change that there is, or `$` for those from now \
           on; with GROUP instead of FROM it is what the group has acknowledged. The reply has \
           the LSN to go on from (`next`), the one up to which the stream can be read (`end`), \
           and the changes, each with the LSN of its record, its time in milliseconds, database, \
           slot (null for several or none), cause (`command`, `expired`, `expired-on-access`, \
           `evicted`) and the command that makes it. Changes of one LSN happened at once, and are \
           never parted, so that there may be more than COUNT (100 where nobody says, 10000 at \
           most). A reply has about 1 MiB at most, and one change at least; one without changes \
           says how far it has looked for some that match. PREFIX may be given up to 64 times, \
           with 64 KiB together. \
           TYPE leaves out changes that are known to be of another type; those of whole keys, as \
           DEL, are of any. BLOCK waits until there is a change that matches; after the time the \
           reply is null. Replies come from the log, in which a change is once it is durable, or \
           without a log from memory (`effect-backlog-size`).",
    example: "> FEED READ FROM 0 COUNT 10 BLOCK 1000 PREFIX user: DB 0\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

/// Returns the place at argument `index`.
pub(super) fn start(args: Args<'_>, index: usize) -> Result<FeedStart, CommandError> {
    match args.at(index) {
        b"$" => Ok(FeedStart::Latest),
        b"-" => Ok(FeedStart::First),
        _ => lsn(args, index).map(FeedStart::Lsn),
    }
}

fn run(cx: &mut SessionContext<'_>, args: Args<'_>, _: &mut Reply<'_>) -> Result<Next, Unfinished> {
    let (mut from, mut group, mut wait) = (None, None, None);
    let mut read = FeedRead {
        from: FeedStart::First,
        count: COUNT_DEFAULT,
        waits: false,
        prefixes: Vec::new(),
        kind: None,
        database: None,
    };
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax.into());
    }
    let mut prefix_bytes = 0;
    for index in (2..args.len()).step_by(2) {
        let value = index + 1;
        match args.at(index).to_ascii_uppercase().as_slice() {
            b"FROM" => from = Some(start(args, value)?),
            b"GROUP" => group = Some(group_name(args, value)?),
            b"COUNT" => read.count = args.integer_in(value, 1, COUNT_MAX)? as usize,
            b"BLOCK" => wait = Some(timeout::milliseconds(args, value, cx.now)?),
            b"PREFIX" if read.prefixes.len() == PREFIXES_MAX => return Err(MANY_PREFIXES.into()),
            b"PREFIX" => {
                prefix_bytes += args.at(value).len();
                if prefix_bytes > PREFIXES_BYTES_MAX {
                    return Err(LONG_PREFIXES.into());
                }
                read.prefixes.push(args.at(value).into());
            }
            b"TYPE" => read.kind = Some(type_named(args.at(value)).ok_or(BAD_TYPE)?),
            b"DB" => {
                let count = cx.host.database_count() as i64;
                let number = args.integer(value)?;
                if !(0..count).contains(&number) {
                    return Err(CommandError::DATABASE_OUT_OF_RANGE.into());
                }
                read.database = Some(number as u8);
            }
            _ => return Err(CommandError::Syntax.into()),
        }
    }
    read.from = match (from, group) {
        (Some(from), None) => from,
        (None, Some(name)) => FeedStart::Group(name),
        (Some(_), Some(_)) | (None, None) => return Err(NO_START.into()),
    };
    read.waits = wait.is_some();
    ask(cx, FeedQuestion::Read(read), wait.unwrap_or(Duration::ZERO))
}
