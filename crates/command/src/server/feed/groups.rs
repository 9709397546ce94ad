//! FEED ACK, CREATE, DROP, GROUPS: readers by name, and how far they have come.

use std::time::Duration;

use super::{ask, group_name, lsn};
use crate::host::FeedQuestion;
use crate::prelude::*;

pub(super) static ACK: Command = Command {
    name: "feed|ack",
    summary: "Notes how far a group has read the stream of changes.",
    since: "7.2.0",
    complexity: "O(1)",
    group: Group::Server,
    arity: Arity::exactly(4),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_MULTI),
    args: &[Arg::string("group"), Arg::integer("lsn").within(0, 1000)],
    note: "Durable before the reply. What is before the LSN of the slowest group may be removed \
           from the log. An LSN before the one of the last time changes nothing.",
    example: "> FEED ACK readers 4711\n...",
    handler: Handler::Session(|cx, args, _| {
        let (name, lsn) = (group_name(args, 2)?, lsn(args, 3)?);
        ask(cx, FeedQuestion::Acknowledge { name, lsn }, Duration::ZERO)
    }),
    ..Command::DEFAULT
};

pub(super) static CREATE: Command = Command {
    name: "feed|create",
    summary: "Makes a group that reads the stream of changes.",
    arity: Arity::exactly(5),
    args: &[Arg::string("group"), super::read::FROM],
    note: "The log keeps what the group has not acknowledged, as far as `feed-lag-max` allows. \
           Takes a log (`appendonly yes`), with which groups last; there are 128 at most.",
    example: "> FEED CREATE readers FROM $\n...",
    handler: Handler::Session(|cx, args, _| {
        if !args.is(3, "FROM") {
            return Err(CommandError::Syntax.into());
        }
        let (name, from) = (group_name(args, 2)?, super::read::start(args, 4)?);
        ask(cx, FeedQuestion::Create { name, from }, Duration::ZERO)
    }),
    ..ACK
};

pub(super) static DROP: Command = Command {
    name: "feed|drop",
    summary: "Forgets a group that reads the stream of changes.",
    arity: Arity::exactly(3),
    args: &[Arg::string("group")],
    note: "Replies 1, or 0 where there was none of this name.",
    example: "> FEED DROP readers\n...",
    handler: Handler::Session(|cx, args, _| {
        ask(cx, FeedQuestion::Drop { name: group_name(args, 2)? }, Duration::ZERO)
    }),
    ..ACK
};

pub(super) static GROUPS: Command = Command {
    name: "feed|groups",
    summary: "Lists the groups that read the stream of changes.",
    complexity: "O(N), N being the number of groups",
    arity: Arity::exactly(2),
    args: &[],
    note: "Of each: its name, the LSN that it has acknowledged, how many bytes of records are \
           behind that, whether the log keeps what it has not read (`held`), and whether a part of \
           that is gone (`lost`).",
    example: "> FEED GROUPS\n...",
    handler: Handler::Session(|cx, _, _| ask(cx, FeedQuestion::Groups, Duration::ZERO)),
    ..ACK
};
