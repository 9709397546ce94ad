//! The options of SET, SHM COMMIT, MSETEX and GETEX.

use base::UnixMs;
use keyspace::{Cost, Expiry};

use super::comparison::Comparison;
use crate::handler::error::CommandError;
use crate::handler::request::Args;
use crate::parse::time_to_live::TimeForm;
use crate::table::row::Command;

/// What SET, SHM COMMIT and MSETEX ask for beyond keys and values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SetOptions<'a> {
    /// NX: only an absent key. XX: only an existing one. IFEQ and its like: only one whose string
    /// compares so.
    pub condition: Option<Condition<'a>>,
    /// GET: replies with the old value.
    pub get: bool,
    /// What becomes of the time to live.
    pub time: Time<'a>,
    /// COST: how much dearer than others the value is to have back.
    pub cost: Option<Cost>,
}

/// What a command takes beside the options that all take.
#[derive(Clone, Copy)]
struct Takes {
    /// GET and comparisons, for which there has to be one key.
    old_value: bool,
    cost: bool,
}

/// When they do anything at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    Absent,
    Present,
    Compared(Comparison<'a>),
}

/// What becomes of the time to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Time<'a> {
    /// Nothing was said.
    #[default]
    Unsaid,
    /// KEEPTTL: as it is.
    Keep,
    /// PERSIST: it ends.
    Persist,
    /// A new one in this form.
    Set(TimeForm, &'a [u8]),
}

impl<'a> SetOptions<'a> {
    /// Reads the options of SET, which begin at argument `first`.
    ///
    /// # Errors
    /// When a word is no option, contradicts an earlier one, or lacks its value.
    pub fn of_set(args: Args<'a>, first: usize) -> Result<SetOptions<'a>, CommandError> {
        SetOptions::parse(args, first, Takes { old_value: true, cost: true })
    }

    /// Reads the options of SHM COMMIT, which begin at argument `first`: those of SET but COST, for
    /// which the effect of an upload has no place.
    ///
    /// # Errors
    /// When a word is no option, contradicts an earlier one, or lacks its value.
    pub fn of_upload(args: Args<'a>, first: usize) -> Result<SetOptions<'a>, CommandError> {
        SetOptions::parse(args, first, Takes { old_value: true, cost: false })
    }

    /// Reads the options of MSETEX, which begin at argument `first`.
    ///
    /// # Errors
    /// When a word is no option, contradicts an earlier one, or lacks its value.
    pub fn of_msetex(args: Args<'a>, first: usize) -> Result<SetOptions<'a>, CommandError> {
        SetOptions::parse(args, first, Takes { old_value: false, cost: false })
    }

    /// Reads the options from argument `first` on.
    fn parse(args: Args<'a>, first: usize, takes: Takes) -> Result<SetOptions<'a>, CommandError> {
        let mut options = SetOptions::default();
        let mut index = first;
        while index < args.len() {
            let condition = options.condition;
            if args.is(index, "NX") && matches!(condition, None | Some(Condition::Absent)) {
                options.condition = Some(Condition::Absent);
            } else if args.is(index, "XX") && matches!(condition, None | Some(Condition::Present)) {
                options.condition = Some(Condition::Present);
            } else if takes.old_value
                && index + 1 < args.len()
                && let Some(comparison) = Comparison::named(args.at(index), args.at(index + 1))
            {
                // Said twice, the later one counts; another beside it contradicts it.
                match condition {
                    None => {}
                    Some(Condition::Compared(earlier)) if earlier.has_form_of(&comparison) => {}
                    Some(_) => return Err(CommandError::Syntax),
                }
                index += 1;
                options.condition = Some(Condition::Compared(comparison));
            } else if takes.old_value && args.is(index, "GET") {
                options.get = true;
            } else if takes.cost && index + 1 < args.len() && args.is(index, "COST") {
                index += 1;
                let cost = u64::try_from(args.integer(index)?).ok().and_then(Cost::of);
                options.cost = Some(cost.ok_or(CommandError::NotInteger)?);
            } else if args.is(index, "KEEPTTL") && matches!(options.time, Time::Unsaid | Time::Keep)
            {
                options.time = Time::Keep;
            } else {
                options.time = options.time.replaced(args, index)?;
                index += 1;
            }
            index += 1;
        }
        Ok(options)
    }
}

impl<'a> Time<'a> {
    /// Reads the options of GETEX.
    ///
    /// # Errors
    /// When a word is no option, contradicts an earlier one, or lacks its value.
    pub fn of_getex(args: Args<'a>) -> Result<Time<'a>, CommandError> {
        let mut time = Time::Unsaid;
        let mut index = 2;
        while index < args.len() {
            if args.is(index, "PERSIST") && matches!(time, Time::Unsaid | Time::Persist) {
                time = Time::Persist;
            } else {
                time = time.replaced(args, index)?;
                index += 1;
            }
            index += 1;
        }
        Ok(time)
    }

    /// Returns the time that the option at `index` sets with the argument after it. Said twice in
    /// the same form, the later one counts.
    pub fn replaced(self, args: Args<'a>, index: usize) -> Result<Time<'a>, CommandError> {
        let form = TimeForm::named(args.at(index)).ok_or(CommandError::Syntax)?;
        let is_free = match self {
            Time::Unsaid => true,
            Time::Set(earlier, _) => earlier == form,
            Time::Keep | Time::Persist => false,
        };
        if !is_free || index + 1 == args.len() {
            return Err(CommandError::Syntax);
        }
        Ok(Time::Set(form, args.at(index + 1)))
    }

    /// Returns what a write does to the time to live.
    ///
    /// # Errors
    /// When the time is none that `command` takes.
    pub fn expiry(self, now: UnixMs, command: &'static Command) -> Result<Expiry, CommandError> {
        match self {
            Time::Unsaid | Time::Persist => Ok(Expiry::Clear),
            Time::Keep => Ok(Expiry::Keep),
            Time::Set(form, text) => form.positive(text, now, command).map(Expiry::At),
        }
    }
}
