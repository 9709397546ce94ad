//! XINFO: what there is to know of streams, groups and consumers.

mod consumers;
mod groups;
mod stream;

use collections::{Group as ConsumerGroup, Log, Stream};

use super::{no_group_of, reply_id};
use crate::prelude::*;
use crate::table::help;

/// Where the subcommands have their key.
const KEY: u8 = 2;

pub(super) static XINFO: Command = Command {
    name: "xinfo",
    summary: "Tells what there is to know of streams, groups and consumers.",
    since: "5.0.0",
    complexity: "Depends on the subcommand",
    group: Group::Stream,
    arity: Arity::at_least(2),
    subcommands: &[&consumers::CONSUMERS, &groups::GROUPS, &HELP, &stream::STREAM],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "xinfo|help",
    since: "5.0.0",
    group: Group::Stream,
    categories: Categories::STREAM,
    example: "> XINFO HELP\n...",
    ..help::ROW
};

/// Returns the stream at the key of `args`.
fn existing<'c>(cx: &ReadContext<'c>, args: Args<'_>) -> Result<&'c Stream, Unfinished> {
    let stream = cx.view.collection::<Stream>(args.key(0))?;
    Ok(stream.ok_or(CommandError::NO_SUCH_KEY)?)
}

/// Replies with how many entries `group` has read of `log` and has not, each where it is known.
fn reply_progress(group: &ConsumerGroup, log: &Log, reply: &mut Reply<'_>) {
    let or_null = |name: &str, value: Option<i64>, reply: &mut Reply<'_>| {
        reply.bulk(name);
        match value {
            Some(value) => reply.integer(value),
            None => reply.null(),
        }
    };
    reply.bulk("last-delivered-id");
    reply_id(group.last_id(), reply);
    or_null("entries-read", group.entries_read().map(|read| read as i64), reply);
    or_null("lag", group.lag(log), reply);
}
