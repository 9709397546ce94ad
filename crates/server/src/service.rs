//! The service thread: expiry, freed memory, rates, and reminders for other threads.
//!
//! It sleeps without a timeout while there is nothing to do, so that an idle server uses no
//! processor time; a worker that serves requests wakes it. Keeping the clock here spares
//! the workers a timer in every wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use base::prng::Prng;
use runtime::{SweepOptions, Sweeper};

use crate::connection::CloseReason;
use crate::mailbox::Message;
use crate::server_state::ServerState;

/// Rounds without any request after which the thread sleeps until it is woken.
const QUIET_ROUNDS: u32 = 16;
/// How often it is looked whether values that only views hold are let go: a client says nothing
/// when it releases a pin.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(100);
/// How often it is looked whether the time of a lease has passed.
const LEASE_INTERVAL: Duration = Duration::from_millis(50);
/// How often connections are looked at for timeouts and slow readers.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The part of `maxmemory` that is left when the server gives back memory of its program.
const ROOM_SHARE_LEFT: u64 = 8;

/// Wakes the service thread.
#[derive(Default)]
pub struct ServiceWaker {
    /// Requests came since the last round.
    is_active: AtomicBool,
    is_sleeping: AtomicBool,
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl ServiceWaker {
    /// Tells that there were requests. Two loads while the service thread is awake.
    #[inline]
    pub fn note_activity(&self) {
        if !self.is_active.load(Ordering::Relaxed) {
            // SYNC POINT: active before a look at the sleeper. Pairs with the store in `wait`.
            self.is_active.store(true, Ordering::SeqCst);
        }
        if self.is_sleeping.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Begins a round now.
    pub fn wake(&self) {
        *self.is_woken.lock().expect("no holder of the waker panics") = true;
        self.changed.notify_one();
    }

    /// Sleeps until `interval` has passed or another thread wakes it; without an interval until it
    /// is woken or there has been activity.
    fn wait(&self, interval: Option<Duration>) {
        let mut is_woken = self.is_woken.lock().expect("no holder of the waker panics");
        match interval {
            Some(interval) if !*is_woken => {
                let waited = self.changed.wait_timeout(is_woken, interval);
                is_woken = waited.expect("no holder of the waker panics").0;
            }
            Some(_) => {}
            None => {
                // SYNC POINT: asleep before a look at the activity, so that a worker either sees
                // the flag or is seen here. Pairs with the store in `note_activity`.
                self.is_sleeping.store(true, Ordering::SeqCst);
                while !*is_woken && !self.is_active.load(Ordering::SeqCst) {
                    is_woken = self.changed.wait(is_woken).expect("no holder of the waker panics");
                }
                self.is_sleeping.store(false, Ordering::SeqCst);
            }
        }
        *is_woken = false;
    }
}

/// The service thread's own state.
pub struct ServiceThread {
    shared: Arc<ServerState>,
    quiet_rounds: u32,
    checked_at: Duration,
    sweeper: Sweeper,
    has_given_back_program: bool,
}

impl ServiceThread {
    /// Returns a service of `shared` that has done nothing yet, and picks keys by `random`.
    pub fn new(shared: Arc<ServerState>, random: Prng) -> ServiceThread {
        ServiceThread {
            shared,
            quiet_rounds: 0,
            checked_at: Duration::ZERO,
            sweeper: Sweeper::new(random),
            has_given_back_program: false,
        }
    }

    /// Runs until the server has shut down.
    pub fn run(mut self) {
        while !self.shared.shutdown.has_begun() {
            let interval = self.interval();
            if interval.is_none() {
                self.shared.rates.clear();
            }
            let pause = self.shared.pause.left(sys::clock::monotonic());
            self.shared.service_waker.wait(pause.into_iter().chain(interval).min());
            if sys::crash::has_begun() {
                sys::crash::wait_for_the_end();
            }
            let began = sys::clock::monotonic();
            self.round();
            let took = sys::clock::monotonic() - began;
            self.shared.service_counters.rounds.add(1);
            self.shared.service_counters.round_nanoseconds.add(took.as_nanos() as u64);
        }
    }

    /// Returns the time to the next round; none when nothing but requests makes one useful.
    fn interval(&self) -> Option<Duration> {
        let settings = self.shared.settings();
        let round = Duration::from_secs(1) / settings.process.frequency;
        let has_leases = self.shared.keyspace().lease_count() > 0;
        let round = if has_leases { round.min(LEASE_INTERVAL) } else { round };
        if self.quiet_rounds < QUIET_ROUNDS || has_leases || self.shared.runtime.has_volatile() {
            return Some(round);
        }
        // Whoever leaves a value to its views has woken this thread after that.
        let awaits_pins = self.shared.keyspace().arena().has_retired();
        let reclaim = awaits_pins.then_some(RECLAIM_INTERVAL);
        let is_due_later = self.needs_checks()
            || self.shared.awaits_schedule()
            || self.shared.transfers.idle_count() > 0;
        reclaim.or_else(|| is_due_later.then_some(CHECK_INTERVAL))
    }

    /// Lets go on what a pause made wait, once its time is over.
    fn end_pause(&self) {
        if self.shared.pause.end_if_over(sys::clock::monotonic()) {
            self.shared.post_all(|| Message::Resume);
        }
    }

    /// Returns whether any connection might have to be closed after a while.
    fn needs_checks(&self) -> bool {
        let may_be_idle =
            self.shared.settings().network.timeout.is_some() && !self.shared.clients.is_empty();
        may_be_idle
            || self.shared.pending_checks.load(Ordering::Relaxed) > 0
            || self.shared.in_flight.has_left()
    }

    fn round(&mut self) {
        let was_active = self.shared.service_waker.is_active.swap(false, Ordering::SeqCst);
        self.quiet_rounds = if was_active { 0 } else { self.quiet_rounds.saturating_add(1) };
        self.end_pause();
        self.shared.durability.check(&self.shared.runtime);
        let switches = &self.shared.switches;
        if switches.is_service_paused.load(Ordering::Relaxed) {
            return;
        }
        let is_loading = self.shared.loading.is_on();
        let is_paused = self.shared.pause.switch.get().is_some() || is_loading;
        let options = SweepOptions {
            expires: !is_paused && !switches.leaves_expired.load(Ordering::Relaxed),
            evicts: !is_paused,
            ..self.shared.settings().sweep()
        };
        if self.sweeper.round(&self.shared.runtime, &options, &*self.shared) {
            // More of it in the next round, though nothing else may happen until then.
            self.quiet_rounds = 0;
        }
        if !is_paused && self.shared.keyspace().has_unserved() {
            // A stream has gone that somebody waits for, or a lease has ended.
            self.shared.post_all(|| Message::Resume);
        }
        self.shared.save_if_due();
        self.shared.huge_pages.note_memory(self.shared.keyspace().arena().usage().touched_bytes);
        self.evict_clients();
        self.give_back_program();
        let now = sys::clock::monotonic();
        self.shared.transfers.close_idle(now);
        self.shared.rates.sample(now, self.shared.totals_since_start());
        if now - self.checked_at >= CHECK_INTERVAL && self.needs_checks() {
            self.checked_at = now;
            self.shared.in_flight.forget_received();
            self.shared.post_all(|| Message::CheckConnections);
        }
    }

    /// Gives back the memory of the program, of which the start alone needed the most, once the
    /// memory that the server may have is nearly full: the process is about to be as large as it
    /// ever gets.
    fn give_back_program(&mut self) {
        if self.has_given_back_program || !self.shared.identity.owns_process {
            return;
        }
        let bytes_max = self.shared.settings().memory.max_bytes;
        let nearly_full = bytes_max - bytes_max / ROOM_SHARE_LEFT;
        if bytes_max == 0 || self.shared.keyspace().used_memory() < nearly_full {
            return;
        }
        self.has_given_back_program = true;
        if let Err(error) = sys::program_pages::give_back() {
            tracing::debug!("The memory of unused code stays: {error}");
        }
    }

    /// Closes the largest clients where all of them together take too much.
    fn evict_clients(&self) {
        let Some(limit) = self.shared.settings().derived.clients_bytes_max else { return };
        let surplus = self.shared.clients.surplus(limit);
        self.shared.end_clients(&surplus, CloseReason::Evicted);
    }
}
