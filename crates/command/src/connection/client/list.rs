//! CLIENT LIST: all sessions.

use std::fmt::Write;

use base::number::parse_i64;

use super::client_type::ClientType;
use crate::host::Clients;
use crate::host::client_info::ClientInfo;
use crate::prelude::*;

const INVALID_ID: CommandError = CommandError::Fixed("ERR Invalid client ID");

pub(super) static LIST: Command = Command {
    name: "client|list",
    summary: "Returns a line for each session.",
    since: "2.4.0",
    complexity: "O(N), N being the number of sessions",
    group: Group::Connection,
    arity: Arity::at_least(2),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::one_of(
        "filter",
        &[
            Arg::one_of(
                "client-type",
                &[
                    Arg::word("normal", "NORMAL"),
                    Arg::word("master", "MASTER"),
                    Arg::word("replica", "REPLICA"),
                    Arg::word("pubsub", "PUBSUB"),
                ],
            )
            .token("TYPE")
            .since("5.0.0"),
            Arg::integer("client-id").token("ID").within(1, 10).multiple().since("6.2.0"),
        ],
    )
    .optional()],
    history: &[
        ("2.8.12", "Added unique client `id` field."),
        ("5.0.0", "Added optional `TYPE` filter."),
        ("6.0.0", "Added `user` field."),
        (
            "6.2.0",
            "Added `argv-mem`, `tot-mem`, `laddr` and `redir` fields and the optional `ID` filter.",
        ),
        ("7.0.0", "Added `resp`, `multi-mem`, `rbs` and `rbp` fields."),
        ("7.0.3", "Added `ssub` field."),
        ("7.2.0", "Added `lib-name` and `lib-ver` fields."),
    ],
    tips: &["nondeterministic_output"],
    example: "> CLIENT LIST\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let filter = Filter::parse(args)?;
    let mut text = String::new();
    for mut info in filter.chosen(cx.host.clients()?) {
        if info.id == cx.session.id {
            cx.describe(args, &mut info);
        }
        writeln!(text, "{info}").expect("writing to a string does not fail");
    }
    reply.verbatim(*b"txt", text);
    Ok(Next::Done)
}

/// Which sessions are asked for.
enum Filter {
    All,
    /// Those of a type that no session has: all are of the type `normal`.
    Nobody,
    /// These, in this order.
    Ids(Vec<i64>),
}

impl Filter {
    fn parse(args: Args<'_>) -> Result<Filter, CommandError> {
        match args.len() {
            2 => Ok(Filter::All),
            4 if args.is(2, "TYPE") => match ClientType::named(args.at(3))? {
                ClientType::Normal => Ok(Filter::All),
                ClientType::Absent => Ok(Filter::Nobody),
            },
            4.. if args.is(2, "ID") => {
                let ids = args.from(3).map(|text| parse_i64(text).ok_or(INVALID_ID));
                Ok(Filter::Ids(ids.collect::<Result<_, _>>()?))
            }
            _ => Err(CommandError::Syntax),
        }
    }

    fn chosen(&self, clients: &dyn Clients) -> Vec<ClientInfo> {
        match self {
            Filter::All => clients.all(),
            Filter::Nobody => Vec::new(),
            Filter::Ids(ids) => {
                let ids = ids.iter().filter_map(|&id| u64::try_from(id).ok());
                ids.filter_map(|id| clients.one(id)).collect()
            }
        }
    }
}
