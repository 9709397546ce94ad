//! XGROUP: groups of consumers.

mod create;
mod createconsumer;
mod delconsumer;
mod destroy;
mod setid;

use collections::{Group as ConsumerGroup, Log, Stream, StreamId};
use keyspace::WrongType;

use super::{loose_id, no_group_of, strict_id};
use crate::prelude::*;
use crate::table::help;

/// Where the subcommands have their key, and the name of a group behind it.
const KEY: u8 = 2;
const NAME: usize = 3;

const NO_KEY: CommandError = CommandError::Fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to \
     use the MKSTREAM option to create an empty stream automatically.",
);
const BELOW_UNKNOWN: CommandError =
    CommandError::Fixed("ERR value for ENTRIESREAD must be positive or -1");

/// The last identity of a group, for generators.
const POSITION: Arg = Arg::one_of(
    "id-selector",
    &[Arg::string("id").among(&["0", "0", "2-0", "4-1"]), Arg::word("new-id", "$")],
);
const ENTRIES_READ: Arg =
    Arg::integer("entries-read").token("ENTRIESREAD").optional().within(-1, 9);

pub(super) static XGROUP: Command = Command {
    name: "xgroup",
    summary: "Makes, changes and removes groups of consumers.",
    since: "5.0.0",
    complexity: "Depends on the subcommand",
    group: Group::Stream,
    arity: Arity::at_least(2),
    subcommands: &[
        &create::CREATE,
        &createconsumer::CREATECONSUMER,
        &delconsumer::DELCONSUMER,
        &destroy::DESTROY,
        &HELP,
        &setid::SETID,
    ],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "xgroup|help",
    since: "5.0.0",
    group: Group::Stream,
    categories: Categories::STREAM,
    example: "> XGROUP HELP\n...",
    ..help::ROW
};

/// Returns the group of `args`; the error says whether it or the key is not there.
fn existing_group<'c>(
    cx: &'c WriteContext<'_>,
    args: Args<'_>,
) -> Result<&'c ConsumerGroup, Unfinished> {
    let stream = existing(cx, args)?.ok_or(NO_KEY)?;
    let group = stream.group(args.at(NAME));
    Ok(group.ok_or_else(|| no_group_of(args.key(0).bytes, args.at(NAME)))?)
}

fn existing<'c>(cx: &'c WriteContext<'_>, args: Args<'_>) -> Result<Option<&'c Stream>, WrongType> {
    cx.view.collection::<Stream>(args.key(0))
}

/// Reads the number behind ENTRIESREAD: that which says that it is not known is none.
fn entries_read(args: Args<'_>, index: usize) -> Result<Option<u64>, CommandError> {
    match args.integer(index)? {
        -1 => Ok(None),
        read => u64::try_from(read).map(Some).map_err(|_| BELOW_UNKNOWN),
    }
}

/// Returns the identity that argument 4 is: `$` is the last of `log`, and where it `is_loose`, `-`
/// is the first of all and `+` the last.
fn position(args: Args<'_>, log: Option<&Log>, is_loose: bool) -> Result<StreamId, CommandError> {
    match args.at(4) {
        b"$" => Ok(log.map_or(StreamId::MIN, Log::last_id)),
        _ if is_loose => loose_id(args, 4, 0),
        _ => strict_id(args, 4),
    }
}

/// Returns the refusal of options that the subcommand does not have.
fn syntax(args: Args<'_>) -> CommandError {
    CommandError::subcommand_syntax("XGROUP", args.at(1))
}
