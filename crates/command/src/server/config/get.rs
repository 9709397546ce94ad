//! CONFIG GET: options and their values.

use base::glob::matches;

use crate::prelude::*;

pub(super) static GET: Command = Command {
    name: "config|get",
    summary: "Returns each option whose name matches a pattern, and its value.",
    since: "2.0.0",
    complexity: "O(N), N being the number of options",
    group: Group::Server,
    arity: Arity::at_least(3),
    flags: Flags::ADMIN
        .with(Flags::NOSCRIPT)
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::UNGUARDED),
    args: &[Arg::string("parameter").among(&["maxmemory", "max*", "port"]).multiple()],
    history: &[("7.0.0", "Added the ability to pass multiple pattern parameters in one call")],
    example: "> CONFIG GET maxmemory\n1) \"maxmemory\"\n2) \"0\"",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    if args.from(2).any(is_pattern) {
        reply_matching(cx, args, reply);
    } else {
        reply_named(cx, args, reply);
    }
    Ok(Next::Done)
}

/// Replies with the options that are written out: each is looked up, and comes back as written.
fn reply_named(cx: &SessionContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) {
    let mut found: Vec<(&[u8], String)> = Vec::new();
    for written in args.from(2) {
        let value = str::from_utf8(written).ok().and_then(|name| cx.host.config_value(name));
        let is_known = found.iter().any(|(other, _)| other.eq_ignore_ascii_case(written));
        if let (Some(value), false) = (value, is_known) {
            found.push((written, value));
        }
    }
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name);
        reply.bulk(value);
    }
}

fn reply_matching(cx: &SessionContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) {
    let wanted = |name: &str, is_hidden: bool| {
        let name = name.as_bytes();
        let shows = |text: &[u8]| match is_hidden {
            true => text.eq_ignore_ascii_case(name),
            false => matches(text, name, true),
        };
        args.from(2).any(shows)
    };
    let values = cx.host.config_values(&wanted);
    reply.map(values.len());
    for (name, value) in values {
        // A name that was written out comes back as it was written.
        let written = args.from(2).find(|text| text.eq_ignore_ascii_case(name.as_bytes()));
        reply.bulk(written.unwrap_or(name.as_bytes()));
        reply.bulk(value);
    }
}

/// Returns whether `text` may match anything but itself.
fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| b"*?[\\".contains(byte))
}
