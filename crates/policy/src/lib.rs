//! The adaptive eviction policy.
#![forbid(unsafe_code)]

mod ghosts;
mod logarithm;
mod lru_sizes;
mod mark;
mod sampled_keys;
mod scatter;
mod shadows;
mod shard;
mod shared;
#[cfg(feature = "simulation")]
pub mod simulation;
mod value;
mod window;

pub use mark::{Mark, Tick};
pub use shadows::Advice;
pub use shard::{Candidate, SAMPLES, ShardPolicy};
pub use shared::Shared;
pub use value::{Blend, Cost, Objective, Value};
