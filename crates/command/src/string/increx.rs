//! INCREX: arithmetic on the number at a key, within bounds, and a time to live.

use std::cmp::Ordering;

use base::Key;
use base::extended::Extended;
use base::number::parse_i64;
use keyspace::{Expiry, WriteView};
use resp::IntegerText;

use crate::parse::time_to_live::{EX, EXAT, PX, PXAT, TimeForm};
use crate::prelude::*;

const CROSSED_BOUNDS: CommandError = CommandError::Fixed("ERR LBOUND can't be greater than UBOUND");
const NO_EXPIRATION: CommandError = CommandError::Fixed("ERR ENX flag requires an expiration");
const INFINITE_INCREMENT: CommandError =
    CommandError::Fixed("ERR BYFLOAT increment cannot be Infinity");
const INFINITE_VALUE: CommandError = CommandError::Fixed("ERR value cannot be Infinity");
const APPLIED_OVERFLOW: CommandError = CommandError::Fixed("ERR applied increment would overflow");
const APPLIED_INFINITY: CommandError =
    CommandError::Fixed("ERR applied increment would be Infinity");

pub(super) static INCREX: Command = Command {
    name: "increx",
    summary: "Adds to the number at a key within bounds and may change when the key expires.",
    since: "8.8.0",
    group: Group::String,
    arity: Arity::at_least(2),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::one_of(
            "increment",
            &[
                Arg::double("float").token("BYFLOAT"),
                Arg::integer("integer").token("BYINT").within(-1000, 1000),
            ],
        )
        .optional(),
        Arg::integer("lowerbound").token("LBOUND").within(-1000, 0).optional(),
        Arg::integer("upperbound").token("UBOUND").within(0, 1000).optional(),
        Arg::word("saturate", "SATURATE").optional(),
        Arg::one_of("expiration", &[EX, PX, EXAT, PXAT, Arg::word("persist", "PERSIST")])
            .optional(),
        Arg::word("enx", "ENX").optional(),
    ],
    note: "A command of Redis 8.8, which Redis 7.2 does not have.",
    example: "> INCREX visits BYINT 3 UBOUND 5 EX 60 ENX\n1) (integer) 3\n2) (integer) 3\n\
        > INCREX visits BYINT 3 UBOUND 5\n1) (integer) 3\n2) (integer) 0\n\
        > INCREX visits BYINT 3 UBOUND 5 SATURATE\n1) (integer) 5\n2) (integer) 2",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let options = Options::parse(args)?;
    match options.increment {
        Some((true, _)) => add::<Extended>(cx, args.key(0), &options, reply),
        _ => add::<i64>(cx, args.key(0), &options, reply),
    }
}

/// What the request asks for, as it is written.
#[derive(Default)]
struct Options<'a> {
    /// BYINT or BYFLOAT, which it is if true, and how much; without it one is added.
    increment: Option<(bool, &'a [u8])>,
    low: Option<&'a [u8]>,
    high: Option<&'a [u8]>,
    /// SATURATE: a sum beyond the bounds becomes the bound.
    saturates: bool,
    time: Option<(TimeForm, &'a [u8])>,
    /// PERSIST: the time to live ends.
    persists: bool,
    /// ENX: a time to live that is there stays.
    keeps_time: bool,
}

impl<'a> Options<'a> {
    /// Reads the options. None may be there twice.
    fn parse(args: Args<'a>) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        let mut index = 2;
        while index < args.len() {
            let value = (index + 1 < args.len()).then(|| args.at(index + 1));
            let is_expiring = options.time.is_some() || options.persists;
            index += match (value, TimeForm::named(args.at(index))) {
                (Some(value), Some(form)) if !is_expiring => {
                    options.time = Some((form, value));
                    2
                }
                _ if args.is(index, "PERSIST") && !is_expiring && !options.keeps_time => {
                    options.persists = true;
                    1
                }
                _ if args.is(index, "ENX") && !options.keeps_time && !options.persists => {
                    options.keeps_time = true;
                    1
                }
                _ if args.is(index, "SATURATE") && !options.saturates => {
                    options.saturates = true;
                    1
                }
                (Some(value), None) if options.take_number(args.at(index), value) => 2,
                _ => return Err(CommandError::Syntax),
            };
        }
        match options.keeps_time && options.time.is_none() {
            true => Err(NO_EXPIRATION),
            false => Ok(options),
        }
    }

    /// Takes the number behind `word`; returns false where the word is another, or was there.
    fn take_number(&mut self, word: &[u8], value: &'a [u8]) -> bool {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("BYINT") || is("BYFLOAT") {
            return self.increment.is_none()
                && self.increment.replace((is("BYFLOAT"), value)).is_none();
        }
        let bound = match () {
            () if is("LBOUND") => &mut self.low,
            () if is("UBOUND") => &mut self.high,
            () => return false,
        };
        bound.is_none() && bound.replace(value).is_none()
    }
}

/// Adds to the number at `key`, and replies with the new value and with how much was added.
fn add<N: Number>(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    options: &Options<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let parse = |name: &'static str, text| N::parse(text).ok_or_else(|| N::not_a_number(name));
    let increment = options.increment.map(|(_, text)| parse("Increment", text)).transpose()?;
    let increment = increment.unwrap_or(N::ONE);
    increment.check_finite(INFINITE_INCREMENT)?;
    let low = options.low.map(|text| parse("LBOUND", text)).transpose()?.unwrap_or(N::MIN);
    let high = options.high.map(|text| parse("UBOUND", text)).transpose()?.unwrap_or(N::MAX);
    if low.order(high).is_gt() {
        return Err(CROSSED_BOUNDS.into());
    }
    let time = options.time.map(|(form, text)| {
        form.positive(text, cx.now(), &INCREX).map(|at| (at, form.is_absolute()))
    });
    let time = time.transpose()?;
    let current = match cx.view.string(key)? {
        Some(text) => N::parse(text).ok_or(N::VALUE_ERROR)?,
        None => N::ZERO,
    };
    current.check_finite(INFINITE_VALUE)?;
    let (value, is_within) = bounded_sum(current, increment, low, high);
    reply.array(2);
    if !is_within && !options.saturates {
        current.reply(reply);
        N::ZERO.reply(reply);
        return Ok(());
    }
    let applied = value.difference(current).ok_or(N::APPLIED_ERROR)?;
    value.reply(reply);
    applied.reply(reply);
    let has_time = cx.view.entry(key).is_some_and(|entry| entry.expiry().is_some());
    cx.view.name_event(N::EVENT);
    match time.filter(|_| !(options.keeps_time && has_time)) {
        Some((at, true)) if at <= cx.now() => {
            cx.view.remove(key);
        }
        Some((at, _)) => value.store(&mut cx.view, key, Stored::With(Expiry::At(at)))?,
        None if options.persists && has_time => {
            value.store(&mut cx.view, key, Stored::Persisting)?
        }
        None => value.store(&mut cx.view, key, Stored::With(Expiry::Keep))?,
    }
    Ok(())
}

/// Returns the sum, and true where it is within the bounds; else the bound that it is beyond.
fn bounded_sum<N: Number>(current: N, increment: N, low: N, high: N) -> (N, bool) {
    match current.sum(increment) {
        None if increment.order(N::ZERO).is_lt() => (low, false),
        None => (high, false),
        Some(sum) if sum.order(high).is_gt() => (high, false),
        Some(sum) if sum.order(low).is_lt() => (low, false),
        Some(sum) => (sum, true),
    }
}

/// What becomes of the time to live.
#[derive(Clone, Copy)]
enum Stored {
    With(Expiry),
    /// There is one, and it ends.
    Persisting,
}

/// What is counted in: integers, or the numbers of INCRBYFLOAT.
trait Number: Copy {
    const ZERO: Self;
    const ONE: Self;
    const MIN: Self;
    const MAX: Self;
    const EVENT: &'static str;
    /// The key holds no such number.
    const VALUE_ERROR: CommandError;
    const APPLIED_ERROR: CommandError;

    fn parse(text: &[u8]) -> Option<Self>;
    /// Returns the refusal of the option called `name`.
    fn not_a_number(name: &'static str) -> CommandError;
    fn check_finite(self, error: CommandError) -> Result<(), CommandError>;
    fn order(self, other: Self) -> Ordering;
    /// Returns the sum; none beyond the least and the greatest number.
    fn sum(self, other: Self) -> Option<Self>;
    fn difference(self, other: Self) -> Option<Self>;
    fn reply(self, reply: &mut Reply<'_>);
    fn store(
        self,
        view: &mut WriteView<'_>,
        key: &Key<'_>,
        stored: Stored,
    ) -> Result<(), Unfinished>;
}

impl Number for i64 {
    const ZERO: i64 = 0;
    const ONE: i64 = 1;
    const MIN: i64 = i64::MIN;
    const MAX: i64 = i64::MAX;
    const EVENT: &'static str = "incrby";
    const VALUE_ERROR: CommandError = CommandError::NotInteger;
    const APPLIED_ERROR: CommandError = APPLIED_OVERFLOW;

    fn parse(text: &[u8]) -> Option<i64> {
        parse_i64(text)
    }

    fn not_a_number(name: &'static str) -> CommandError {
        CommandError::text_of(&[b"ERR ", name.as_bytes(), b" is not an integer or out of range"])
    }

    fn check_finite(self, _: CommandError) -> Result<(), CommandError> {
        Ok(())
    }

    fn order(self, other: i64) -> Ordering {
        self.cmp(&other)
    }

    fn sum(self, other: i64) -> Option<i64> {
        self.checked_add(other)
    }

    fn difference(self, other: i64) -> Option<i64> {
        self.checked_sub(other)
    }

    fn reply(self, reply: &mut Reply<'_>) {
        reply.integer(self);
    }

    fn store(
        self,
        view: &mut WriteView<'_>,
        key: &Key<'_>,
        stored: Stored,
    ) -> Result<(), Unfinished> {
        let text = IntegerText::new(self);
        match stored {
            Stored::With(expiry) => view.set(key, text.as_bytes(), expiry)?,
            Stored::Persisting => view.set_persisting(key, text.as_bytes(), false)?,
        }
        Ok(())
    }
}

impl Number for Extended {
    const ZERO: Extended = Extended::ZERO;
    const ONE: Extended = Extended::ONE;
    const MIN: Extended = Extended::MIN;
    const MAX: Extended = Extended::MAX;
    const EVENT: &'static str = "incrbyfloat";
    const VALUE_ERROR: CommandError = CommandError::NotFloat;
    const APPLIED_ERROR: CommandError = APPLIED_INFINITY;

    fn parse(text: &[u8]) -> Option<Extended> {
        Extended::parse(text)
    }

    fn not_a_number(name: &'static str) -> CommandError {
        CommandError::text_of(&[b"ERR ", name.as_bytes(), b" is not a valid float"])
    }

    fn check_finite(self, error: CommandError) -> Result<(), CommandError> {
        if self.is_finite() { Ok(()) } else { Err(error) }
    }

    fn order(self, other: Extended) -> Ordering {
        Extended::order(self, other)
    }

    fn sum(self, other: Extended) -> Option<Extended> {
        self.checked_add(other).filter(|sum| sum.is_finite())
    }

    fn difference(self, other: Extended) -> Option<Extended> {
        Number::sum(self, other.negated())
    }

    fn reply(self, reply: &mut Reply<'_>) {
        reply.double_text(&self.to_text());
    }

    fn store(
        self,
        view: &mut WriteView<'_>,
        key: &Key<'_>,
        stored: Stored,
    ) -> Result<(), Unfinished> {
        let text = self.to_text();
        match stored {
            Stored::With(expiry) => view.set_text(key, text.as_bytes(), expiry)?,
            Stored::Persisting => view.set_persisting(key, text.as_bytes(), true)?,
        }
        Ok(())
    }
}
