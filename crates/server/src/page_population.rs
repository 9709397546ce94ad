//! Memory that a client has mapped and sealed, on its way to be used: its pages are brought.
//!
//! That takes as long as zeroing so much memory, which is not for a worker, nor under a lock:
//! threads do it, few for each session and user, so that nobody stops others by it. What comes
//! beyond that waits behind them, and is bounded by how many lanes, runs and pin tables there may
//! be. On kernels before 5.14 it can also wait for whoever writes to the memory's descriptor at
//! this moment, and a client can make a write take for ever.
//!
//! *Not here*: what is brought, and what follows (`attach.rs`, `lane_lifecycle.rs`,
//! `upload_memory.rs`).

use std::sync::{Arc, Mutex, MutexGuard};
use std::{io, thread};

use crate::user_quotas::QuotaOwner;

/// Memories whose pages are brought at once, each by a thread.
const UNDERWAY_MAX: usize = 64;
/// Those of one session among them.
const PER_SESSION_MAX: usize = 2;
/// Those of one user, as `user_quotas.rs` tells users apart, ended sessions included.
const PER_USER_MAX: usize = 8;

/// What is underway, and what waits for its turn.
#[derive(Default)]
pub struct PagePopulation {
    state: Mutex<State>,
}

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maker {
    /// The session that it was made for.
    pub session: u64,
    /// Whose share it counts towards.
    pub owner: QuotaOwner,
}

/// Brings a memory and tells what came of it. Told false, as the session has ended before it was
/// its turn, it gives the memory up, and waits for nothing.
type Task = Box<dyn FnOnce(bool) + Send>;

#[derive(Default)]
struct State {
    underway: Vec<Maker>,
    /// None of them could begin now: each end of one that is underway lets one begin at most.
    waiting: Vec<(Maker, Task)>,
}

impl PagePopulation {
    /// Has a thread run `task`, now or once those before it leave it room.
    ///
    /// # Errors
    /// When there is no thread; the task is gone.
    pub fn begin(
        self: &Arc<PagePopulation>,
        maker: Maker,
        task: impl FnOnce(bool) + Send + 'static,
    ) -> io::Result<()> {
        let mut state = self.state();
        if !state.admits(maker) {
            state.waiting.push((maker, Box::new(task)));
            return Ok(());
        }
        let page_population = Arc::clone(self);
        let run = move || {
            // Without it a crash of the thread is told in short.
            let _stack = sys::crash::AlternateStack::for_this_thread();
            page_population.run(maker, Box::new(task));
        };
        thread::Builder::new().name("populate-pages".to_owned()).spawn(run)?;
        state.underway.push(maker);
        Ok(())
    }

    /// Gives up what waits for `session`, which has ended.
    pub fn end(&self, session: u64) {
        let is_over = |waiting: &mut (Maker, Task)| waiting.0.session == session;
        let given_up: Vec<_> = self.state().waiting.extract_if(.., is_over).collect();
        given_up.into_iter().for_each(|(_, task)| task(false));
    }

    /// Runs `task`, and then those that its end and theirs leave room for.
    fn run(&self, maker: Maker, task: Task) {
        let mut next = Some((maker, task));
        while let Some((maker, task)) = next {
            task(true);
            next = self.state().exchange(maker);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the page population panics")
    }
}

impl State {
    fn admits(&self, maker: Maker) -> bool {
        let count = |is_counted: &dyn Fn(&Maker) -> bool| {
            self.underway.iter().filter(|other| is_counted(other)).count()
        };
        self.underway.len() < UNDERWAY_MAX
            && count(&|other| other.session == maker.session) < PER_SESSION_MAX
            && count(&|other| other.owner == maker.owner) < PER_USER_MAX
    }

    /// Notes that one of `maker` has ended, and begins the first that may.
    fn exchange(&mut self, maker: Maker) -> Option<(Maker, Task)> {
        let ended = self.underway.iter().position(|other| *other == maker);
        self.underway.swap_remove(ended.expect("it has begun"));
        let first = self.waiting.iter().position(|waiting| self.admits(waiting.0))?;
        let next = self.waiting.remove(first);
        self.underway.push(next.0);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

    use super::*;
    use crate::tests::PATIENCE;

    /// A memory that is there when the test says so.
    struct Memory {
        end: Sender<()>,
        /// What the task has been told.
        told: Receiver<bool>,
    }

    impl Memory {
        fn is_told(&self) -> Result<bool, RecvTimeoutError> {
            self.told.recv_timeout(PATIENCE)
        }
    }

    fn begin(page_population: &Arc<PagePopulation>, session: u64, owner: QuotaOwner) -> Memory {
        let (end, ended) = channel();
        let (tell, told) = channel();
        let task = move |is_wanted| {
            tell.send(is_wanted).unwrap();
            if is_wanted {
                ended.recv().unwrap();
            }
        };
        page_population.begin(Maker { session, owner }, task).unwrap();
        Memory { end, told }
    }

    fn counts(page_population: &PagePopulation) -> (usize, usize) {
        let state = page_population.state();
        (state.underway.len(), state.waiting.len())
    }

    #[test]
    fn memories_of_one_session_and_one_user_leave_room_for_others() {
        let page_population = Arc::default();
        let mut memories = Vec::new();
        for session in 0..4 {
            memories
                .extend([(); 2].map(|()| begin(&page_population, session, QuotaOwner::Range(1))));
            assert_eq!(counts(&page_population).1, session as usize, "two of one session at once");
            memories.push(begin(&page_population, session, QuotaOwner::Range(1)));
        }
        let of_user = begin(&page_population, 5, QuotaOwner::Range(1));
        assert_eq!(counts(&page_population), (8, 5), "eight of one user");
        for user in 2..9 {
            for session in 0..8 {
                memories.push(begin(
                    &page_population,
                    u64::from(user) * 100 + session,
                    QuotaOwner::User(user),
                ));
            }
        }
        assert_eq!(counts(&page_population), (64, 5));
        let of_all = begin(&page_population, 1000, QuotaOwner::User(9));
        assert_eq!(counts(&page_population), (64, 6), "sixty-four together");
        memories.iter().for_each(|memory| memory.end.send(()).unwrap());
        assert_eq!((of_user.is_told(), of_all.is_told()), (Ok(true), Ok(true)));
        assert!(memories.iter().all(|memory| memory.is_told() == Ok(true)));
        of_user.end.send(()).unwrap();
        of_all.end.send(()).unwrap();
    }

    #[test]
    fn what_waits_is_given_up_with_its_session_and_the_rest_goes_on() {
        let page_population = Arc::default();
        let [first, second, third] =
            [(); 3].map(|()| begin(&page_population, 1, QuotaOwner::User(1)));
        let others = [(); 3].map(|()| begin(&page_population, 2, QuotaOwner::User(1)));
        page_population.end(1);
        assert_eq!((third.is_told(), counts(&page_population)), (Ok(false), (4, 1)));
        for memory in [&first, &second].into_iter().chain(&others) {
            memory.end.send(()).unwrap();
            assert_eq!(memory.is_told(), Ok(true));
        }
    }
}
