//! CLIENT KILL: ends sessions.

use base::number::parse_i64;

use super::client_type::ClientType;
use crate::handler::error::quoted;
use crate::host::client_info::ClientInfo;
use crate::prelude::*;

const BAD_ID: CommandError = CommandError::Fixed("ERR client-id should be greater than 0");
const NOBODY: CommandError = CommandError::Fixed("ERR No such client");

pub(super) static KILL: Command = Command {
    name: "client|kill",
    summary: "Ends the sessions that an address or filters name.",
    since: "2.4.0",
    complexity: "O(N), N being the number of sessions",
    group: Group::Connection,
    arity: Arity::at_least(3),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::one_of(
        "filter",
        &[
            Arg::string("old-format").among(&["1.2.3.4:5"]),
            Arg::one_of(
                "new-format",
                &[
                    Arg::integer("client-id").token("ID").within(90, 99).since("2.8.12"),
                    Arg::one_of(
                        "client-type",
                        &[
                            Arg::word("normal", "NORMAL"),
                            Arg::word("master", "MASTER").since("3.2.0"),
                            Arg::word("slave", "SLAVE"),
                            Arg::word("replica", "REPLICA").since("5.0.0"),
                            Arg::word("pubsub", "PUBSUB"),
                        ],
                    )
                    .token("TYPE")
                    .since("2.8.12"),
                    Arg::string("username").token("USER").among(&["default"]),
                    Arg::string("addr").token("ADDR").among(&["1.2.3.4:5"]),
                    Arg::string("laddr").token("LADDR").among(&["1.2.3.4:5"]).since("6.2.0"),
                    Arg::one_of("skipme", &[Arg::word("yes", "YES"), Arg::word("no", "NO")])
                        .token("SKIPME"),
                ],
            )
            .multiple(),
        ],
    )],
    history: &[
        ("2.8.12", "Added new filter format."),
        ("2.8.12", "`ID` option."),
        ("3.2.0", "Added `master` type in for `TYPE` option."),
        (
            "5.0.0",
            "Replaced `slave` `TYPE` with `replica`. `slave` still supported for backward \
             compatibility.",
        ),
        ("6.2.0", "`LADDR` option."),
    ],
    example: "> CLIENT KILL 1.2.3.4:6\n(error) ERR No such client\n\
        > CLIENT KILL ID 99\n(integer) 0",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    // One argument is an address, whatever else it looks like.
    let is_address = args.len() == 3;
    let filter = match is_address {
        true => Filter { address: Some(args.at(2)), spares_asker: false, ..Filter::default() },
        false => Filter::parse(args)?,
    };
    let asker = cx.session.id;
    let host = cx.host.clients()?;
    let clients = host.all();
    let own = clients.iter().find(|info| info.id == asker);
    // A lane spares the connection that it lives with: it would end before its reply.
    let parent = own.and_then(|info| info.parent);
    let is_chosen = |info: &&ClientInfo| filter.names(info) && Some(info.id) != parent;
    let chosen: Vec<u64> = clients.iter().filter(is_chosen).map(|info| info.id).collect();
    let others: Vec<u64> = chosen.iter().copied().filter(|id| *id != asker).collect();
    let ends_asker = chosen.len() > others.len() && !filter.spares_asker;
    let count = host.end(&others) + usize::from(ends_asker);
    match (is_address, count) {
        (false, count) => reply.integer(count as i64),
        (true, 0) => return Err(NOBODY.into()),
        (true, _) => reply.ok(),
    }
    // Whoever ends itself gets the reply first.
    Ok(if ends_asker { Next::Close } else { Next::Done })
}

/// What a session has to be to be ended: all that is set.
struct Filter<'a> {
    id: Option<u64>,
    kind: Option<ClientType>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    spares_asker: bool,
}

impl Default for Filter<'_> {
    fn default() -> Self {
        Filter { id: None, kind: None, address: None, local_address: None, spares_asker: true }
    }
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Result<Filter<'a>, CommandError> {
        let mut filter = Filter::default();
        for index in (2..args.len()).step_by(2) {
            if index + 1 == args.len() {
                return Err(CommandError::Syntax);
            }
            let value = args.at(index + 1);
            match args.at(index).to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = parse_i64(value).filter(|id| *id > 0).ok_or(BAD_ID)?;
                    filter.id = Some(id.unsigned_abs());
                }
                b"type" => filter.kind = Some(ClientType::named(value)?),
                b"addr" => filter.address = Some(value),
                b"laddr" => filter.local_address = Some(value),
                b"user" => check_user(value)?,
                b"skipme" => {
                    filter.spares_asker = match value.to_ascii_lowercase().as_slice() {
                        b"yes" => true,
                        b"no" => false,
                        _ => return Err(CommandError::Syntax),
                    };
                }
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(filter)
    }

    fn names(&self, info: &ClientInfo) -> bool {
        let is =
            |wanted: Option<&[u8]>, found: &str| wanted.is_none_or(|it| it == found.as_bytes());
        self.id.is_none_or(|id| id == info.id)
            && self.kind.is_none_or(|kind| kind == ClientType::Normal)
            && is(self.address, &info.address)
            && is(self.local_address, &info.local_address)
    }
}

/// Checks that there is such a user: every session is the default user's.
fn check_user(name: &[u8]) -> Result<(), CommandError> {
    if name == b"default" {
        return Ok(());
    }
    Err(CommandError::text_of(&[b"ERR No such user '", quoted(name, usize::MAX), b"'"]))
}
