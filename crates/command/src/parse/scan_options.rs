//! The cursor and the options of SCAN, SSCAN, HSCAN and ZSCAN.

use base::glob::matches;
use base::number::parse_cursor;

use crate::handler::error::CommandError;
use crate::handler::request::Args;
use crate::table::argument::Arg;

const INVALID_CURSOR: CommandError = CommandError::Fixed("ERR invalid cursor");
/// About how many elements a call visits unless COUNT says otherwise.
const COUNT_DEFAULT: u64 = 10;

/// Where to go on, as an argument.
pub(crate) const CURSOR: Arg = Arg::integer("cursor").within(0, 1 << 20);
/// Which names are wanted, as an argument.
pub(crate) const MATCH: Arg = Arg::pattern("pattern").token("MATCH").optional();
/// How many elements are visited, as an argument.
pub(crate) const COUNT: Arg = Arg::integer("count").token("COUNT").within(1, 1000).optional();

/// Reads the cursor at `index`.
///
/// # Errors
/// When it is none.
pub(crate) fn cursor(args: Args<'_>, index: usize) -> Result<u64, CommandError> {
    parse_cursor(args.at(index)).ok_or(INVALID_CURSOR)
}

/// What is scanned, where some have options of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    Keys,
    Fields,
    Members,
}

/// What is wanted of the elements.
#[derive(Debug)]
pub(crate) struct ScanOptions<'a> {
    pub pattern: Option<&'a [u8]>,
    /// The name of a type of keys.
    pub type_name: Option<&'a [u8]>,
    /// Fields are wanted without their values.
    pub no_values: bool,
    pub count: u64,
}

impl<'a> ScanOptions<'a> {
    /// Reads the arguments from `first` on.
    ///
    /// # Errors
    /// When they are not understood.
    pub fn parse(
        args: Args<'a>,
        first: usize,
        scanned: Scanned,
    ) -> Result<ScanOptions<'a>, CommandError> {
        let mut options =
            ScanOptions { pattern: None, type_name: None, no_values: false, count: COUNT_DEFAULT };
        let mut index = first;
        while index < args.len() {
            let has_value = index + 1 < args.len();
            if scanned == Scanned::Fields && args.is(index, "NOVALUES") {
                options.no_values = true;
                index += 1;
                continue;
            }
            if has_value && args.is(index, "COUNT") {
                let count = args.integer(index + 1)?;
                let count = u64::try_from(count).ok().filter(|&count| count > 0);
                options.count = count.ok_or(CommandError::Syntax)?;
            } else if has_value && args.is(index, "MATCH") {
                let pattern = args.at(index + 1);
                options.pattern = (pattern != b"*").then_some(pattern);
            } else if has_value && scanned == Scanned::Keys && args.is(index, "TYPE") {
                options.type_name = Some(args.at(index + 1));
            } else {
                return Err(CommandError::Syntax);
            }
            index += 2;
        }
        Ok(options)
    }

    /// Returns whether `name` fits the pattern.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| matches(pattern, name, false))
    }
}
