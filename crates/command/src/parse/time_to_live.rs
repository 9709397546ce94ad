//! Times to live as requests write them.

use base::UnixMs;
use base::number::parse_i64;

use crate::handler::error::CommandError;
use crate::table::argument::Arg;
use crate::table::row::Command;

/// In so many seconds, as an argument.
pub(crate) const EX: Arg = Arg::integer("seconds").token("EX").within(1, 1_000_000);
/// In so many milliseconds, as an argument.
pub(crate) const PX: Arg = Arg::integer("milliseconds").token("PX").within(1, 1_000_000_000);
/// At this second since the Unix epoch, as an argument.
pub(crate) const EXAT: Arg =
    Arg::unix_time("unix-time-seconds").token("EXAT").within(1, 10_000_000_000);
/// At this millisecond since the Unix epoch, as an argument.
pub(crate) const PXAT: Arg =
    Arg::unix_time("unix-time-milliseconds").token("PXAT").within(1, 10_000_000_000_000);

/// How a request writes when a key expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeForm {
    /// In so many seconds.
    Seconds,
    /// In so many milliseconds.
    Milliseconds,
    /// At this second since the Unix epoch.
    UnixSeconds,
    /// At this millisecond since the Unix epoch.
    UnixMilliseconds,
}

impl TimeForm {
    /// Returns the form that the option `word` of SET and GETEX announces.
    pub fn named(word: &[u8]) -> Option<TimeForm> {
        let forms = [
            ("EX", TimeForm::Seconds),
            ("PX", TimeForm::Milliseconds),
            ("EXAT", TimeForm::UnixSeconds),
            ("PXAT", TimeForm::UnixMilliseconds),
        ];
        let named = forms.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word));
        named.map(|(_, form)| *form)
    }

    /// Returns whether the time is told as it is, not from now on.
    pub fn is_absolute(self) -> bool {
        matches!(self, TimeForm::UnixSeconds | TimeForm::UnixMilliseconds)
    }

    /// Returns when a key expires whose time is written as `text`: the time must be positive, as
    /// it must in SET, GETEX and SETEX.
    ///
    /// # Errors
    /// When `text` is no integer, or no time that `command` takes.
    pub fn positive(
        self,
        text: &[u8],
        now: UnixMs,
        command: &'static Command,
    ) -> Result<UnixMs, CommandError> {
        match parse_i64(text).ok_or(CommandError::NotInteger)? {
            ..=0 => Err(CommandError::InvalidExpire(command)),
            number => self.at(number, now, command),
        }
    }

    /// Returns when a key expires whose time is `number`, which may be negative, as in EXPIRE.
    ///
    /// # Errors
    /// When the time is beyond 64 bits of milliseconds.
    pub fn at(
        self,
        number: i64,
        now: UnixMs,
        command: &'static Command,
    ) -> Result<UnixMs, CommandError> {
        let milliseconds = match self {
            TimeForm::Seconds | TimeForm::UnixSeconds => number.checked_mul(1000),
            TimeForm::Milliseconds | TimeForm::UnixMilliseconds => Some(number),
        };
        let start = if self.is_absolute() { 0 } else { now.0 };
        let at = milliseconds.and_then(|milliseconds| milliseconds.checked_add(start));
        at.map(UnixMs).ok_or(CommandError::InvalidExpire(command))
    }
}
