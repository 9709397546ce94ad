//! The periodic work of an instance, in rounds: it removes expired keys, frees deferred memory,
//! reads what readers report of their accesses, and evicts where memory is above its limit.

use std::time::Duration;

use base::ShardIndex;
use base::prng::Prng;
use command::{LatencyEvent, Observer};
use keyspace::SweepContext;

use crate::options::SweepOptions;
use crate::runtime::Runtime;

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

/// What lasts from one round to the next. It has no thread: its owner calls it as often as
/// [`SweepOptions::frequency`] says, while there is something to do.
#[derive(Debug)]
pub struct Sweeper {
    /// The shard whose turn in expiry is next.
    next_shard: usize,
    /// Rounds without expiry after one that removed nothing, and how many of them are left.
    expiry_pause: u32,
    expiry_pause_left: u32,
    /// Chooses the keys that eviction looks at.
    random: Prng,
}

impl Sweeper {
    /// Returns a sweeper that has done nothing yet and picks keys by `random`.
    pub fn new(random: Prng) -> Sweeper {
        Sweeper { next_shard: 0, expiry_pause: 0, expiry_pause_left: 0, random }
    }

    /// Sweeps `runtime` once, and tells `observer` what took how long. Returns whether memory is
    /// still above its limit after room was made for the time that a round has for it. The caller
    /// holds no guard.
    pub fn round(
        &mut self,
        runtime: &Runtime,
        options: &SweepOptions,
        observer: &dyn Observer,
    ) -> bool {
        let keyspace = runtime.keyspace();
        if options.expires {
            self.expire_at_times(runtime, options, observer);
        }
        if options.expires && keyspace.lease_count() > 0 {
            keyspace.end_leases_over(runtime.clock().wall());
        }
        runtime.count_backlog();
        keyspace.arena().reclaim();
        keyspace.drop_retired();
        keyspace.take_access_reports(runtime.clock().wall());
        let is_over_limit = options.evicts && self.repay(runtime, options, observer);
        runtime.note_memory(keyspace.used_memory());
        is_over_limit
    }

    /// Makes room where memory is above the limit, for at most this round's share of time: a limit
    /// that was lowered takes effect without a write. Returns whether it still is above.
    fn repay(
        &mut self,
        runtime: &Runtime,
        options: &SweepOptions,
        observer: &dyn Observer,
    ) -> bool {
        let keyspace = runtime.keyspace();
        let started = runtime.steady();
        let end = started + Duration::from_secs(1) / options.frequency / REPAY_SHARE;
        let was_over = keyspace.is_over_limit();
        runtime.over_limit.note(was_over, started);
        if !was_over {
            return false;
        }
        while keyspace.is_over_limit() && runtime.steady() < end {
            let now = runtime.clock().wall();
            let mut context = SweepContext::new(now, &mut self.random);
            if keyspace.repay(&mut context).is_err() {
                return false;
            }
        }
        let time = runtime.steady().saturating_sub(started);
        observer.note_event(LatencyEvent::EvictionCycle, time.as_nanos() as u64);
        keyspace.is_over_limit()
    }

    /// Looks for expired keys, the less often the longer there were none, at least once a second:
    /// they are absent to everybody all the same.
    fn expire_at_times(
        &mut self,
        runtime: &Runtime,
        options: &SweepOptions,
        observer: &dyn Observer,
    ) {
        if self.expiry_pause_left > 0 {
            self.expiry_pause_left -= 1;
            return;
        }
        self.expiry_pause = match self.expire(runtime, options, observer) {
            0 => (2 * self.expiry_pause + 1).min(options.frequency),
            _ => 0,
        };
        self.expiry_pause_left = self.expiry_pause;
    }

    /// Removes expired keys, shard by shard, for at most this round's share of time; returns how
    /// many.
    fn expire(
        &mut self,
        runtime: &Runtime,
        options: &SweepOptions,
        observer: &dyn Observer,
    ) -> u64 {
        if !runtime.has_volatile() {
            return 0;
        }
        let keyspace = runtime.keyspace();
        let (mut examined, mut expired) = (0, 0);
        let percent = EXPIRE_TIME_PERCENT + 2 * (options.expire_effort - 1);
        let budget = Duration::from_secs(1) / options.frequency * percent / 100;
        let started = runtime.steady();
        let passed = || runtime.steady().saturating_sub(started);
        'shards: for _ in 0..keyspace.shard_count() {
            let shard = ShardIndex(self.next_shard as u16);
            self.next_shard = (self.next_shard + 1) % keyspace.shard_count();
            loop {
                let now = runtime.clock().wall();
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
        runtime.sweep_stats.note(examined, expired, time, time >= budget);
        observer.note_event(LatencyEvent::ExpireCycle, time.as_nanos() as u64);
        expired
    }
}
