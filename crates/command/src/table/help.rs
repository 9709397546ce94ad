//! HELP, which every container has: its row, and its reply, made from the rows.

use std::fmt::Write;

use resp::Reply;

use crate::handler::context::{Next, SessionContext};
use crate::handler::outcome::Unfinished;
use crate::handler::request::Args;
use crate::table::argument::{Arg, ArgKind};
use crate::table::arity::Arity;
use crate::table::flags::Flags;
use crate::table::lookup::lookup;
use crate::table::row::{Command, Handler};

/// What the rows of HELP have in common.
pub(crate) const ROW: Command = Command {
    summary: "Returns the subcommands and what they do.",
    arity: Arity::exactly(2),
    flags: Flags::LOADING.with(Flags::STALE),
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    _: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let container = lookup(args.at(0)).expect("its subcommand was found in it");
    reply_help(container.name, container.subcommands, reply);
    Ok(Next::Done)
}

/// Replies with the subcommands of `container`: of each the syntax and the summary.
pub(crate) fn reply_help(
    container: &str,
    subcommands: &'static [&'static Command],
    reply: &mut Reply<'_>,
) {
    let name = container.to_ascii_uppercase();
    reply.array(1 + 2 * subcommands.len());
    reply.simple(format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for command in subcommands {
        let mut line = command.own_name().to_ascii_uppercase();
        write_syntax(&mut line, command.args);
        reply.simple(line);
        reply.simple(format!("    {}", command.summary));
    }
}

/// Appends the arguments as redis-cli's hints write them, each after a space.
fn write_syntax(line: &mut String, args: &[Arg]) {
    for arg in args {
        line.push(' ');
        write_arg(line, arg);
    }
}

fn write_arg(line: &mut String, arg: &Arg) {
    let mut text = arg.token.to_owned();
    let value = match arg.kind {
        ArgKind::PureToken => String::new(),
        ArgKind::OneOf(args) => alternatives(args),
        ArgKind::Block(args) => {
            let mut inner = String::new();
            write_syntax(&mut inner, args);
            inner.trim_start().to_owned()
        }
        _ => format!("<{}>", arg.name),
    };
    if !text.is_empty() && !value.is_empty() {
        text.push(' ');
    }
    text.push_str(&value);
    if arg.multiple {
        let again = text.clone();
        write!(text, " [{again} ...]").expect("writing to a string does not fail");
    }
    if arg.optional {
        text = format!("[{text}]");
    }
    line.push_str(&text);
}

fn alternatives(args: &[Arg]) -> String {
    let mut texts = Vec::new();
    for arg in args {
        let mut text = String::new();
        write_arg(&mut text, arg);
        texts.push(text);
    }
    texts.join("|")
}
