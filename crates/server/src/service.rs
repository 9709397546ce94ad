//! The service thread: expiry, freed memory, rates, and reminders for the workers.
//!
//! It sleeps without a timeout while there is nothing to do, so that an idle server uses no
//! processor time; a worker that serves requests rings its bell. Keeping the clock here spares
//! the workers a timer in every wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use base::ShardIndex;
use base::prng::Prng;
use command::{LatencyEvent, Observer};
use keyspace::{Keyspace, SweepContext};

use crate::connection::End;
use crate::mailbox::Message;
use crate::shared::Shared;

/// Entries that one look at a shard may examine; removing them holds the shard for well below a
/// millisecond.
const EXPIRE_ENTRIES_PER_STEP: u64 = 128;
/// The share of a shard's examined entries, in percent, above which it is looked at again in the
/// same round: there are probably more expired ones.
const EXPIRED_PERCENT_WORTH_MORE: u64 = 10;
/// The share of a round that expiry may take, in percent, at effort 1; each further step of effort
/// adds two.
const EXPIRE_TIME_PERCENT: u32 = 25;
/// The part of a round that may go into eviction when no write does it.
const REPAY_SHARE: u32 = 4;
/// Rounds without any request after which the thread sleeps until the bell rings.
const QUIET_ROUNDS: u32 = 16;
/// How often it is looked whether values that only views hold are let go: a client says nothing
/// when it releases a pin.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(100);
/// How often connections are looked at for timeouts and slow readers.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Wakes the service thread.
#[derive(Default)]
pub struct Bell {
    /// Requests came since the last round.
    is_active: AtomicBool,
    is_sleeping: AtomicBool,
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Tells that there were requests. Two loads while the service thread is awake.
    #[inline]
    pub fn note_activity(&self) {
        if !self.is_active.load(Ordering::Relaxed) {
            // SYNC POINT: active before a look at the sleeper. Pairs with the store in `wait`.
            self.is_active.store(true, Ordering::SeqCst);
        }
        if self.is_sleeping.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    /// Begins a round now.
    pub fn ring(&self) {
        *self.rung.lock().expect("no holder of the bell panics") = true;
        self.changed.notify_one();
    }

    /// Sleeps until `interval` has passed or the bell rings; without an interval until it rings
    /// or there has been activity.
    fn wait(&self, interval: Option<Duration>) {
        let mut rung = self.rung.lock().expect("no holder of the bell panics");
        match interval {
            Some(interval) if !*rung => {
                let waited = self.changed.wait_timeout(rung, interval);
                rung = waited.expect("no holder of the bell panics").0;
            }
            Some(_) => {}
            None => {
                // SYNC POINT: asleep before a look at the activity, so that a worker either sees
                // the flag or is seen here. Pairs with the store in `note_activity`.
                self.is_sleeping.store(true, Ordering::SeqCst);
                while !*rung && !self.is_active.load(Ordering::SeqCst) {
                    rung = self.changed.wait(rung).expect("no holder of the bell panics");
                }
                self.is_sleeping.store(false, Ordering::SeqCst);
            }
        }
        *rung = false;
    }
}

/// The service thread's own state.
pub struct Service {
    shared: Arc<Shared>,
    /// The shard whose turn in expiry is next.
    next_shard: usize,
    quiet_rounds: u32,
    /// Rounds without expiry after one that removed nothing, and how many of them are left.
    expiry_pause: u32,
    expiry_pause_left: u32,
    checked_at: Duration,
    /// Chooses the keys that eviction looks at.
    random: Prng,
}

impl Service {
    /// Returns a service of `shared` that has done nothing yet.
    pub fn new(shared: Arc<Shared>, random: Prng) -> Service {
        Service {
            shared,
            next_shard: 0,
            quiet_rounds: 0,
            expiry_pause: 0,
            expiry_pause_left: 0,
            checked_at: Duration::ZERO,
            random,
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
            self.shared.bell.wait(pause.into_iter().chain(interval).min());
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
        let round = Duration::from_secs(1) / settings.frequency;
        if self.quiet_rounds < QUIET_ROUNDS || has_volatile(self.shared.keyspace()) {
            return Some(round);
        }
        // Whoever leaves a value to its views has rung the bell behind that.
        let awaits_pins = self.shared.keyspace().arena().has_retired();
        let reclaim = awaits_pins.then_some(RECLAIM_INTERVAL);
        reclaim.or_else(|| self.needs_checks().then_some(CHECK_INTERVAL))
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
            self.shared.settings().timeout.is_some() && !self.shared.clients.is_empty();
        may_be_idle
            || self.shared.pending_checks.load(Ordering::Relaxed) > 0
            || self.shared.outbound.has_left()
    }

    fn round(&mut self) {
        let was_active = self.shared.bell.is_active.swap(false, Ordering::SeqCst);
        self.quiet_rounds = if was_active { 0 } else { self.quiet_rounds.saturating_add(1) };
        self.end_pause();
        let switches = &self.shared.switches;
        if switches.is_service_paused.load(Ordering::Relaxed) {
            return;
        }
        let is_paused = self.shared.pause.switch.get().is_some();
        if !is_paused && !switches.leaves_expired.load(Ordering::Relaxed) {
            self.expire_at_times();
        }
        self.shared.keyspace().arena().reclaim();
        self.shared.keyspace().drop_retired();
        self.shared.keyspace().take_touches(sys::clock::realtime());
        if !is_paused {
            self.repay();
        }
        self.shared.note_memory(self.shared.keyspace().used_memory());
        self.evict_clients();
        let now = sys::clock::monotonic();
        self.shared.rates.sample(now, self.shared.totals_since_start());
        if now - self.checked_at >= CHECK_INTERVAL && self.needs_checks() {
            self.checked_at = now;
            self.shared.outbound.forget_received();
            self.shared.post_all(|| Message::CheckConnections);
        }
    }

    /// Closes the largest clients where all of them together take too much.
    fn evict_clients(&self) {
        let Some(limit) = self.shared.settings().max_memory_clients else { return };
        let surplus = self.shared.clients.surplus(limit);
        self.shared.end_clients(&surplus, End::Evicted);
    }

    /// Makes room where memory is above the limit, for at most this round's share of time: a limit
    /// that was lowered takes effect without a write.
    fn repay(&mut self) {
        let keyspace = self.shared.keyspace();
        let budget = Duration::from_secs(1) / self.shared.settings().frequency / REPAY_SHARE;
        let started = sys::clock::monotonic();
        let end = started + budget;
        let was_over = keyspace.is_over_limit();
        self.shared.over_limit.note(was_over, started);
        if !was_over {
            return;
        }
        while keyspace.is_over_limit() && sys::clock::monotonic() < end {
            let now = sys::clock::realtime();
            let mut context = SweepContext { now, random: &mut self.random };
            if keyspace.repay(&mut context).is_err() {
                return;
            }
        }
        let time = sys::clock::monotonic() - started;
        self.shared.note_event(LatencyEvent::EvictionCycle, time.as_nanos() as u64);
        if keyspace.is_over_limit() {
            // More of it in the next round, though nothing else may happen until then.
            self.quiet_rounds = 0;
        }
    }

    /// Looks for expired keys, the less often the longer there were none, at least once a second:
    /// they are absent to everybody all the same.
    fn expire_at_times(&mut self) {
        if self.expiry_pause_left > 0 {
            self.expiry_pause_left -= 1;
            return;
        }
        let pause_max = self.shared.settings().frequency;
        self.expiry_pause = match self.expire() {
            0 => (2 * self.expiry_pause + 1).min(pause_max),
            _ => 0,
        };
        self.expiry_pause_left = self.expiry_pause;
    }

    /// Removes expired keys, shard by shard, for at most this round's share of time; returns how
    /// many.
    fn expire(&mut self) -> u64 {
        let keyspace = self.shared.keyspace();
        if !has_volatile(keyspace) {
            return 0;
        }
        let (mut examined, mut expired) = (0, 0);
        let settings = self.shared.settings();
        let percent = EXPIRE_TIME_PERCENT + 2 * (settings.expire_effort - 1);
        let budget = Duration::from_secs(1) / settings.frequency * percent / 100;
        let started = sys::clock::monotonic();
        let passed = || sys::clock::monotonic() - started;
        'shards: for _ in 0..keyspace.shard_count() {
            let shard = ShardIndex(self.next_shard as u16);
            self.next_shard = (self.next_shard + 1) % keyspace.shard_count();
            loop {
                let now = sys::clock::realtime();
                let outcome = keyspace.expire_step(shard, now, EXPIRE_ENTRIES_PER_STEP);
                examined += outcome.examined;
                expired += outcome.expired;
                if passed() >= budget {
                    break 'shards;
                }
                if outcome.expired * 100 <= outcome.examined * EXPIRED_PERCENT_WORTH_MORE {
                    break;
                }
            }
        }
        let time = passed();
        self.shared.sweep.note(examined, expired, time, time >= budget);
        self.shared.note_event(LatencyEvent::ExpireCycle, time.as_nanos() as u64);
        expired
    }
}

/// Returns whether any key has a time to live.
fn has_volatile(keyspace: &Keyspace) -> bool {
    keyspace.shard_indexes().any(|shard| keyspace.shard_volatile(shard) > 0)
}
