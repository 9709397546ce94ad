//! DEBUG PROTOCOL: a reply of each type.

use resp::Protocol;

use crate::prelude::*;

/// What Redis replies with, and so no better known.
#[expect(clippy::approx_constant, reason = "the digits are part of the protocol's test")]
const DOUBLE: f64 = 3.141;
const NO_PUSH: CommandError = CommandError::Fixed("ERR RESP2 is not supported by this command");
const UNKNOWN: CommandError = CommandError::Fixed(
    "ERR Wrong protocol type name. Please use one of the following: \
     string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);

pub(super) static PROTOCOL: Command = Command {
    name: "debug|protocol",
    summary: "Replies with a value of the type that is named.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(3),
    args: &[Arg::one_of(
        "type",
        &[
            Arg::word("string", "STRING"),
            Arg::word("integer", "INTEGER"),
            Arg::word("double", "DOUBLE"),
            Arg::word("bignum", "BIGNUM"),
            Arg::word("null", "NULL"),
            Arg::word("array", "ARRAY"),
            Arg::word("set", "SET"),
            Arg::word("map", "MAP"),
            Arg::word("verbatim", "VERBATIM"),
            Arg::word("true", "TRUE"),
            Arg::word("false", "FALSE"),
        ],
    )],
    example: "> DEBUG PROTOCOL integer\n(integer) 12345",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    _: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    match args.at(2).to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk("Hello World"),
        b"integer" => reply.integer(12_345),
        b"double" => reply.double(DOUBLE),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => attribute(reply),
        b"push" => push(reply)?,
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.verbatim(*b"txt", "This is a verbatim\nstring"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        _ => return Err(UNKNOWN.into()),
    }
    Ok(())
}

/// Replies with a value and, where the protocol has attributes, an attribute before it.
fn attribute(reply: &mut Reply<'_>) {
    if reply.protocol() == Protocol::Resp3 {
        reply.raw(b"|1\r\n");
        reply.bulk("key-popularity");
        reply.array(2);
        reply.bulk("key:123");
        reply.integer(90);
    }
    reply.bulk("Some real reply following the attribute");
}

/// Replies with a value and a message out of band before it.
fn push(reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    if reply.protocol() == Protocol::Resp2 {
        return Err(NO_PUSH.into());
    }
    reply.push(2);
    reply.bulk("server-cpu-usage");
    reply.integer(42);
    reply.bulk("Some real reply following the push reply");
    Ok(())
}
