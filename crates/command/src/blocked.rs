//! What a session waits for, and how it goes on.

use std::time::Duration;

use resp::Reply;

/// What a blocked session waits for. Its later requests wait too.
#[derive(Clone, Copy, Debug)]
pub struct Blocked {
    /// How long it waits; without it, until something happens.
    pub timeout: Option<Duration>,
    /// Writes the reply once that time has passed.
    pub at_timeout: fn(&mut Reply<'_>),
    /// Writes the reply once this key is there, of those that it waits for; none where it waits
    /// for no key.
    pub at_key: Option<fn(&[u8], &mut Reply<'_>)>,
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The time has passed, or CLIENT UNBLOCK says that it has.
    TimedOut,
    /// CLIENT UNBLOCK asks for an error.
    Refused,
    /// A key is there.
    Served,
}

impl Blocked {
    /// The error of [`Wake::Refused`].
    pub const REFUSED: &'static str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
}
