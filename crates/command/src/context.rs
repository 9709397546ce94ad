//! What a handler of each kind may touch.

use base::prng::Prng;
use base::{Key, UnixMs};
use keyspace::{Access, ReadView, WriteView, WrongType};

use crate::host::Host;
use crate::session::SessionState;

/// Reads the session's database.
pub struct ReadContext<'c> {
    /// The database, under the locks of the command's keys.
    pub view: ReadView<'c>,
}

/// Reads and writes the session's database.
pub struct WriteContext<'c> {
    /// The database, under the locks of the command's keys.
    pub view: WriteView<'c>,
}

/// Reads and changes the session.
pub struct SessionContext<'c> {
    /// The session that sent the request.
    pub session: &'c mut SessionState,
    /// The process around the engine.
    pub host: &'c dyn Host,
    /// The time of the batch.
    pub now: UnixMs,
}

/// Works on the whole keyspace.
pub struct ControlContext<'c> {
    /// Free, or within the guard of an EXEC.
    pub access: Access<'c>,
    /// The session that sent the request.
    pub session: &'c mut SessionState,
    /// The process around the engine.
    pub host: &'c dyn Host,
    /// The time of the batch.
    pub now: UnixMs,
    /// For commands that pick by chance.
    pub random: &'c mut Prng,
}

/// What the engine does after a session command has replied. Whatever ends a transaction ends the
/// watches too: EXEC that refuses, DISCARD, RESET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the engine acts on it"]
pub enum Next {
    /// Nothing.
    Done,
    /// Takes `session.transaction`, which is not broken, runs its queue and writes the reply of
    /// EXEC. The watches end.
    Exec,
    /// Watches the keys of the request.
    Watch,
    /// Forgets all watched keys.
    Unwatch,
    /// Closes the session once the replies are sent.
    Close,
}

impl<'c> ReadContext<'c> {
    /// Returns the time that decides what has expired.
    #[inline]
    pub fn now(&self) -> UnixMs {
        self.view.now()
    }

    /// Returns the string at `key`.
    ///
    /// # Errors
    /// When the key holds another type.
    #[inline]
    pub fn string(&self, key: &Key<'_>) -> Result<Option<&'c [u8]>, WrongType> {
        self.view.string(key)
    }
}

impl WriteContext<'_> {
    /// Returns the time that decides what has expired.
    #[inline]
    pub fn now(&self) -> UnixMs {
        self.view.now()
    }
}
