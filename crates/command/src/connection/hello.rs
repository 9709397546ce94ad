//! HELLO: the protocol, and who the session is.

use base::number::parse_i64;
use resp::{Protocol, RequestView};

use crate::handler::client_name::check_name;
use crate::handler::error::quoted;
use crate::prelude::*;

const BAD_VERSION: CommandError =
    CommandError::Fixed("ERR Protocol version is not an integer or out of range");
const NO_PROTOCOL: CommandError = CommandError::Fixed("NOPROTO unsupported protocol version");
const NOT_AUTHENTICATED: CommandError = CommandError::Fixed(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
     <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
     protocol version at the same time",
);

pub(super) static HELLO: Command = Command {
    name: "hello",
    summary: "Chooses the protocol, may authenticate, and tells about the server.",
    since: "6.0.0",
    group: Group::Connection,
    arity: Arity::at_least(1),
    flags: Flags::NOSCRIPT
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::FAST)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY),
    args: &[Arg::block(
        "arguments",
        &[
            Arg::integer("protover").within(2, 3),
            Arg::block(
                "auth",
                &[Arg::string("username").among(&["default"]), Arg::string("password")],
            )
            .token("AUTH")
            .optional(),
            Arg::string("clientname").token("SETNAME").among(&["lake", "hill"]).optional(),
        ],
    )
    .optional()],
    history: &[(
        "6.2.0",
        "`protover` made optional; when called without arguments the command reports the current \
         connection's context.",
    )],
    secrets: Some(is_secret),
    example: "> HELLO 3\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

/// User and password follow AUTH.
fn is_secret(request: RequestView<'_>, index: usize) -> bool {
    let mut option = 2;
    while option < index {
        let is_auth = request.at(option).eq_ignore_ascii_case(b"AUTH");
        option += if is_auth { 3 } else { 2 };
        if is_auth && index < option {
            return true;
        }
    }
    false
}

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let options = Options::parse(args)?;
    if let Some((user, password)) = options.credentials {
        if !cx.host.authenticate(user, password) {
            return Err(CommandError::WRONG_PASSWORD.into());
        }
        cx.session.authenticated = true;
    }
    if !cx.session.authenticated {
        return Err(NOT_AUTHENTICATED.into());
    }
    if let Some(name) = options.name {
        cx.session.names.set_session(name);
    }
    if let Some(protocol) = options.protocol {
        cx.session.protocol = protocol;
        reply.set_protocol(protocol);
    }
    reply_greeting(cx, reply);
    Ok(Next::Done)
}

fn reply_greeting(cx: &SessionContext<'_>, reply: &mut Reply<'_>) {
    reply.map(7);
    let version = cx.host.redis_version();
    for (name, value) in [("server", "redis"), ("version", version.as_str())] {
        reply.bulk(name);
        reply.bulk(value);
    }
    reply.bulk("proto");
    reply.integer(cx.session.protocol.version());
    reply.bulk("id");
    reply.integer(cx.session.id as i64);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(name);
        reply.bulk(value);
    }
    reply.bulk("modules");
    reply.array(0);
}

#[derive(Default)]
struct Options<'a> {
    protocol: Option<Protocol>,
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        if args.len() > 1 {
            let version = parse_i64(args.at(1)).ok_or(BAD_VERSION)?;
            options.protocol = Some(Protocol::from_version(version).ok_or(NO_PROTOCOL)?);
        }
        let mut index = 2;
        while index < args.len() {
            let more = args.len() - index - 1;
            if args.is(index, "AUTH") && more >= 2 {
                options.credentials = Some((args.at(index + 1), args.at(index + 2)));
                index += 3;
            } else if args.is(index, "SETNAME") && more >= 1 {
                check_name(args.at(index + 1))?;
                options.name = Some(args.at(index + 1));
                index += 2;
            } else {
                let option = quoted(args.at(index), usize::MAX);
                return Err(CommandError::text_of(&[
                    b"ERR Syntax error in HELLO option '",
                    option,
                    b"'",
                ]));
            }
        }
        Ok(options)
    }
}
