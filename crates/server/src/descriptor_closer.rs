//! Descriptors whose last close may take as long as a client likes.
//!
//! Where the kernel cannot refuse descriptors that clients pass (before Linux 6.16), whoever closes
//! the last one waits for what it stands for: for a file of a file system that does not answer,
//! say. Threads do that which serve nobody; sockets are told not to linger before. As many as hang
//! may hang, up to a bound; what comes beyond it waits behind them, and takes descriptors
//! meanwhile.
//!
//! *Not here*: what is closed so (`sys::socket`).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use sys::socket::Closer;

/// Threads at once.
const THREADS_MAX: usize = 64;

/// What waits to be closed.
#[derive(Debug, Default)]
pub struct DescriptorCloser {
    shared: Arc<Work>,
}

#[derive(Debug, Default)]
struct Work {
    state: Mutex<State>,
    has_more: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bounded by the descriptors of the process.
    waiting: VecDeque<OwnedFd>,
    threads: usize,
    /// Those that wait for something to close.
    idle: usize,
}

impl Closer for DescriptorCloser {
    fn close(&self, descriptors: Vec<OwnedFd>) {
        let mut state = self.shared.state();
        state.waiting.extend(descriptors);
        if state.waiting.len() > state.idle && state.threads < THREADS_MAX {
            let work = Arc::clone(&self.shared);
            let run = move || work.run();
            match thread::Builder::new().name("close".to_owned()).spawn(run) {
                Ok(_) => state.threads += 1,
                // What waits is closed by the threads that there are, or with the next of them.
                Err(error) => tracing::warn!(%error, "No further thread closes descriptors"),
            }
        }
        drop(state);
        self.shared.has_more.notify_one();
    }
}

impl Work {
    /// Closes what comes, one after the other.
    fn run(&self) {
        let mut state = self.state();
        loop {
            match state.waiting.pop_front() {
                Some(descriptor) => {
                    drop(state);
                    // Before the last close, so that nobody has to hang for it.
                    sys::socket::forbid_linger(&descriptor);
                    drop(descriptor);
                    state = self.state();
                }
                None => {
                    state.idle += 1;
                    state = self.has_more.wait(state).expect("no holder of the closings panics");
                    state.idle -= 1;
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the closings panics")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;

    #[test]
    fn all_that_is_handed_over_is_closed() {
        let closings = DescriptorCloser::default();
        let (readers, writers): (Vec<_>, Vec<_>) = (0..5).map(|_| pipe().unwrap()).unzip();
        let mut writers = writers.into_iter().map(OwnedFd::from);
        closings.close(writers.by_ref().take(3).collect());
        closings.close(writers.collect());
        for mut reader in readers {
            assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the end, once the writer is closed");
        }
    }
}
