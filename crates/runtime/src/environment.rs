//! The sources of an instance's time and randomness.

use std::io;
use std::sync::Arc;

use engine::Clock;

use crate::simulated::{ManualClock, SeededRandomness};
use crate::system::{SystemClock, SystemRandomness};

/// Gives randomness: keys of hashes, and the seeds of all generators of one instance.
pub trait Randomness: Send + Sync {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// When there is no randomness; `bytes` must not be used then.
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()>;
}

/// What an instance knows of the world: nothing else that it does depends on more than its
/// requests.
#[derive(Clone)]
pub struct Environment {
    /// Its clocks.
    pub clock: Arc<dyn Clock>,
    pub randomness: Arc<dyn Randomness>,
}

impl Environment {
    /// Returns the clocks and the randomness of the system.
    pub fn system() -> Environment {
        Environment { clock: Arc::new(SystemClock), randomness: Arc::new(SystemRandomness) }
    }

    /// Returns an environment in which `clock` is the time and `seed` decides all that is random.
    /// Not for instances to which strangers send keys: a client that knows the seed can make them
    /// collide.
    pub fn simulated(clock: Arc<ManualClock>, seed: u64) -> Environment {
        Environment { clock, randomness: Arc::new(SeededRandomness::new(seed)) }
    }
}
