//! A lane of a client's session as a stream of bytes, for a program that writes and reads RESP by
//! itself.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sys::fork::Generation;

use crate::lane_connection::Lane;
use crate::shm_session::ShmSession;

/// A lane that keeps the session which it lives with. It has authenticated as the client has; its
/// database is 0.
pub struct LaneStream {
    // In this order: the lane ends before its session.
    lane: Lane,
    _session: Arc<ShmSession>,
    generation: Generation,
}

impl LaneStream {
    pub(crate) fn new((lane, session): (Lane, Arc<ShmSession>)) -> LaneStream {
        LaneStream { lane, _session: session, generation: Generation::current() }
    }

    /// Returns whether this is the process that has made it. A forked child that sent bytes over it
    /// would cut in on its parent; it has to leave the lane to that, and not to drop it.
    pub fn is_own(&self) -> bool {
        self.generation.is_current()
    }
}

impl Deref for LaneStream {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.lane
    }
}

impl DerefMut for LaneStream {
    fn deref_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }
}

impl fmt::Debug for LaneStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lane.fmt(formatter)
    }
}
