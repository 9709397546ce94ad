//! The request that COMMAND GETKEYS is asked about.

use resp::RequestView;

use crate::handler::error::CommandError;
use crate::handler::request::Args;
use crate::table::key_spec::{KeyFlags, KeySpec};
use crate::table::lookup::find_for;
use crate::table::row::Command;

/// Where the request begins in `COMMAND GETKEYS request...`.
const REQUEST_POSITION: usize = 2;

const UNKNOWN: CommandError = CommandError::Fixed("ERR Invalid command specified");
const NO_KEYS: CommandError = CommandError::Fixed("ERR The command has no key arguments");
const WRONG_COUNT: CommandError =
    CommandError::Fixed("ERR Invalid arguments specified for command");
const WRONG_ARITY: CommandError =
    CommandError::Fixed("ERR Invalid number of arguments specified for command");

/// A request that is not run, only looked at.
pub(crate) struct RequestWithKeys<'a> {
    pub command: &'static Command,
    pub request: RequestView<'a>,
}

impl<'a> RequestWithKeys<'a> {
    /// Reads the request within `args`.
    ///
    /// # Errors
    /// When there is no such command, or it has no keys, or not so many arguments, or the request
    /// counts its keys wrong.
    pub fn parse(args: Args<'a>) -> Result<RequestWithKeys<'a>, CommandError> {
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
        if command.keys.iter().any(|spec| spec.positions(request).next().is_none()) {
            return Err(WRONG_COUNT);
        }
        Ok(RequestWithKeys { command, request })
    }

    /// Returns what this very request does with the keys of `spec`.
    pub fn flags_of(&self, spec: &KeySpec) -> KeyFlags {
        match self.command.key_flags {
            Some(of_request) if spec.flags.contains(KeyFlags::VARIABLE_FLAGS) => {
                of_request(self.request)
            }
            _ => spec.flags,
        }
    }
}
