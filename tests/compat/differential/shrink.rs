//! The fewest steps that still show a failure.

use super::sequence::{Epoch, Step};
use super::world::{Failure, World, lines};

/// Runs to spend on it.
const RUNS_MAX: usize = 600;

/// Returns the fewest steps found of `epoch` that fail, and how.
pub fn shrink(world: &World, epoch: &Epoch) -> String {
    let mut runs = 0;
    let mut fails = |steps: &[Step]| -> Option<Failure> {
        runs += 1;
        let epoch = Epoch { steps: steps.to_vec(), ..epoch.clone() };
        (runs <= RUNS_MAX).then(|| world.run(&epoch).err()).flatten()
    };
    let Some(mut failure) = fails(&epoch.steps) else {
        return format!("a second run of the epoch does not fail\n{}", world.log());
    };
    if failure.is_broken {
        return format!("the server is broken; its log:\n{}", world.log());
    }
    let mut steps = epoch.steps.clone();
    steps.truncate(failure.steps_before + 1);
    let mut part = steps.len().div_ceil(2);
    while part > 0 {
        let mut start = 0;
        while start < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(start..steps.len().min(start + part));
            match fails(&fewer) {
                Some(found) if !found.is_broken => {
                    fewer.truncate(found.steps_before + 1);
                    (steps, failure) = (fewer, found);
                }
                _ => start += part,
            }
        }
        part /= 2;
    }
    format!("{} steps are enough:\n{}\n\n{failure}", steps.len(), lines(&steps))
}
