//! COMMAND GETKEYS and COMMAND GETKEYSANDFLAGS: the keys of a request, and what it does with them.

use resp::RequestView;

use crate::prelude::*;
use crate::table::describe::reply_words;
use crate::table::key_spec::Extent;
use crate::table::lookup::find_for;

/// Where the request begins in `COMMAND GETKEYS request...`.
const REQUEST_POSITION: usize = 2;

const UNKNOWN: CommandError = CommandError::Fixed("ERR Invalid command specified");
const NO_KEYS: CommandError = CommandError::Fixed("ERR The command has no key arguments");
const WRONG_COUNT: CommandError =
    CommandError::Fixed("ERR Invalid arguments specified for command");
const WRONG_ARITY: CommandError =
    CommandError::Fixed("ERR Invalid number of arguments specified for command");

pub(super) static GETKEYS: Command = Command {
    name: "command|getkeys",
    summary: "Returns the keys in a request that is given as arguments.",
    since: "2.8.13",
    complexity: "O(N), N being the number of arguments",
    group: Group::Server,
    arity: Arity::at_least(4),
    flags: Flags::LOADING.with(Flags::STALE),
    categories: Categories::CONNECTION,
    args: &[Arg::string("command").among(&["GET"]), Arg::string("arg").multiple()],
    example: "> COMMAND GETKEYS MSET lake deep hill high\n1) \"lake\"\n2) \"hill\"",
    handler: Handler::Session(|_, args, reply| {
        let inner = RequestWithKeys::parse(args)?;
        reply.array(inner.command.key_positions(inner.request).count());
        for position in inner.command.key_positions(inner.request) {
            reply.bulk(inner.request.at(position));
        }
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};

pub(super) static GETKEYSANDFLAGS: Command = Command {
    name: "command|getkeysandflags",
    summary: "Returns the keys in a request, each with what the request does with it.",
    since: "7.0.0",
    example: "> COMMAND GETKEYSANDFLAGS GET lake\n1) 1) \"lake\"\n   2) 1) RO\n      2) access",
    handler: Handler::Session(|_, args, reply| {
        let inner = RequestWithKeys::parse(args)?;
        reply.array(inner.command.key_positions(inner.request).count());
        for spec in inner.command.keys {
            let flags = inner.flags_of(spec);
            for position in spec.positions(inner.request) {
                reply.array(2);
                reply.bulk(inner.request.at(position));
                reply_words(flags.names(), reply);
            }
        }
        Ok(Next::Done)
    }),
    ..GETKEYS
};

/// A request that is not run, only looked at.
struct RequestWithKeys<'a> {
    command: &'static Command,
    request: RequestView<'a>,
}

impl<'a> RequestWithKeys<'a> {
    /// Reads the request within `args`.
    ///
    /// # Errors
    /// When there is no such command, or it has no keys, or not so many arguments, or the request
    /// counts its keys wrong.
    fn parse(args: Args<'a>) -> Result<RequestWithKeys<'a>, CommandError> {
        let outer = args.request();
        let ranges = &outer.ranges[REQUEST_POSITION..];
        let request = RequestView { ranges, ..outer };
        let command = find_for(request).ok_or(UNKNOWN)?;
        if command.keys.is_empty() {
            return Err(NO_KEYS);
        }
        if !command.arity.accepts(request.len()) {
            return Err(WRONG_ARITY);
        }
        let mut counted = command.keys.iter().filter(|spec| spec.extent == Extent::Counted);
        let lacks_counted = counted.any(|spec| spec.positions(request).next().is_none());
        // Neither the one key nor a list: of the two that there are, one has to be empty.
        let has_both = command.keys.iter().any(|spec| {
            matches!(spec.extent, Extent::OneWithout(_))
                && !request.at(spec.first.into()).is_empty()
                && command.key_positions(request).next().is_none()
        });
        if lacks_counted || has_both {
            return Err(WRONG_COUNT);
        }
        Ok(RequestWithKeys { command, request })
    }

    /// Returns what this very request does with the keys of `spec`.
    fn flags_of(&self, spec: &KeySpec) -> KeyFlags {
        match self.command.key_flags {
            Some(of_request) if spec.flags.contains(KeyFlags::VARIABLE_FLAGS) => {
                of_request(self.request)
            }
            // It is about who looks for the keys without knowing the command.
            _ => spec.flags.without(KeyFlags::INCOMPLETE),
        }
    }
}
