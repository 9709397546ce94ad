//! The part of a host that knows the clients of a network.

use std::time::Duration;

use crate::handler::outcome::Wake;
use crate::host::client_info::ClientInfo;

/// The sessions that clients have, as others see them. No method locks a shard. Where a method is
/// not written, there is no session that it could find.
pub trait Clients {
    /// Returns all sessions as they were when they last sent something, by ascending number.
    fn all(&self) -> Vec<ClientInfo> {
        Vec::new()
    }

    /// Returns session `id` in the same way.
    fn one(&self, id: u64) -> Option<ClientInfo> {
        let _ = id;
        None
    }

    /// Ends the sessions of `ids`, whatever they do, and returns how many of them there were. From
    /// then on no other session finds them; what they have under way may still complete.
    fn end(&self, ids: &[u64]) -> usize {
        let _ = ids;
        0
    }

    /// Ends the wait of session `id` that a blocking command began; false where it does not wait.
    fn unblock(&self, id: u64, wake: Wake) -> bool {
        let _ = (id, wake);
        false
    }

    /// Lets the requests that `pause` is about wait for as long as `span`, or for the rest of a
    /// pause underway, whichever is longer. Of two pauses at once the stricter holds.
    fn pause(&self, pause: Pause, span: Duration) {
        let _ = (pause, span);
    }

    /// Ends a pause.
    fn resume(&self) {}
}

/// Which requests a pause is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pause {
    /// Those that may write.
    Writes,
    /// All.
    All,
}
