//! What EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT share.

use base::UnixMs;
use resp::Reply;

use crate::handler::context::WriteContext;
use crate::handler::error::{CommandError, quoted};
use crate::handler::outcome::Unfinished;
use crate::handler::request::Args;
use crate::parse::time_to_live::TimeForm;
use crate::table::row::Command;

const NX_EXCLUDES: CommandError =
    CommandError::Fixed("ERR NX and XX, GT or LT options at the same time are not compatible");
const GT_EXCLUDES_LT: CommandError =
    CommandError::Fixed("ERR GT and LT options at the same time are not compatible");

/// When a new time to live is taken.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    /// NX: only where the key has none.
    absent: bool,
    /// XX: only where it has one.
    present: bool,
    /// GT: only a later one; none counts as endless.
    later: bool,
    /// LT: only an earlier one.
    earlier: bool,
}

/// Gives the request's key the time to live that is written in `form`.
///
/// A time that has come removes the key: the effect is a deletion, the reply the same.
///
/// # Errors
/// When the time or an option is none.
pub(crate) fn expire(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    form: TimeForm,
    command: &'static Command,
) -> Result<(), Unfinished> {
    let conditions = Conditions::parse(args)?;
    let at = form.at(args.integer(2)?, cx.now(), command)?;
    let key = args.key(0);
    let current = cx.view.entry(key).map(|entry| entry.expiry());
    let is_taken = current.is_some_and(|current| conditions.allow(current, at));
    if is_taken && at <= cx.now() {
        cx.view.remove(key);
    } else if is_taken {
        cx.view.set_expiry(key, at)?;
    }
    reply.integer(i64::from(is_taken));
    Ok(())
}

impl Conditions {
    fn parse(args: Args<'_>) -> Result<Conditions, CommandError> {
        let mut conditions = Conditions::default();
        for option in args.from(3) {
            match option.to_ascii_uppercase().as_slice() {
                b"NX" => conditions.absent = true,
                b"XX" => conditions.present = true,
                b"GT" => conditions.later = true,
                b"LT" => conditions.earlier = true,
                _ => {
                    // The option ends the line, and Redis trims newlines from the end of one.
                    let shown = quoted(option, option.len());
                    let is_shown = |byte: &u8| !b"\r\n".contains(byte);
                    let shown_bytes = shown.iter().rposition(is_shown).map_or(0, |last| last + 1);
                    let shown = &shown[..shown_bytes];
                    return Err(CommandError::text_of(&[b"ERR Unsupported option ", shown]));
                }
            }
        }
        let is_compared = conditions.later || conditions.earlier;
        if conditions.absent && (conditions.present || is_compared) {
            return Err(NX_EXCLUDES);
        }
        if conditions.later && conditions.earlier {
            return Err(GT_EXCLUDES_LT);
        }
        Ok(conditions)
    }

    fn allow(self, current: Option<UnixMs>, at: UnixMs) -> bool {
        !(self.absent && current.is_some()
            || self.present && current.is_none()
            || self.later && current.is_none_or(|current| at <= current)
            || self.earlier && current.is_some_and(|current| at >= current))
    }
}
