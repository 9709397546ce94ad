//! ARC (Megiddo and Modha, FAST 2003), with bytes for pages.

use crate::simulation::lists::Lists;
use crate::simulation::{Cache, Request, Setup};

/// Keys that were used once, and more than once.
const RECENT: usize = 0;
const FREQUENT: usize = 1;
/// Those that went from there.
const RECENT_GHOSTS: usize = 2;
const FREQUENT_GHOSTS: usize = 3;

pub(crate) struct Arc {
    capacity: u64,
    /// The bytes that the recent keys should have.
    target: u64,
    lists: Lists<4>,
}

impl Arc {
    pub fn new(setup: &Setup) -> Arc {
        Arc { capacity: setup.capacity_bytes, target: 0, lists: Lists::new(setup) }
    }

    fn adapt(&mut self, ghosts: usize, bytes: u64) {
        let (recent, frequent) =
            (self.lists.bytes(RECENT_GHOSTS).max(1), self.lists.bytes(FREQUENT_GHOSTS).max(1));
        if ghosts == RECENT_GHOSTS {
            let step = bytes.max((bytes as f64 * frequent as f64 / recent as f64) as u64);
            self.target = (self.target + step).min(self.capacity);
        } else {
            let step = bytes.max((bytes as f64 * recent as f64 / frequent as f64) as u64);
            self.target = self.target.saturating_sub(step);
        }
    }

    fn make_room(&mut self, bytes: u64, is_frequent_ghost: bool) {
        let lists = &mut self.lists;
        while lists.bytes(RECENT) + lists.bytes(FREQUENT) + bytes > self.capacity {
            let recent = lists.bytes(RECENT);
            let takes_recent =
                recent > 0 && (recent > self.target || is_frequent_ghost && recent == self.target);
            let (from, to) = match takes_recent || lists.bytes(FREQUENT) == 0 {
                true => (RECENT, RECENT_GHOSTS),
                false => (FREQUENT, FREQUENT_GHOSTS),
            };
            let oldest = lists.oldest(from).or(lists.oldest(RECENT)).or(lists.oldest(FREQUENT));
            lists.shift(oldest.expect("they have bytes"), to);
        }
    }

    fn trim_ghosts(&mut self) {
        let lists = &mut self.lists;
        while lists.bytes(RECENT) + lists.bytes(RECENT_GHOSTS) > self.capacity {
            let Some(oldest) = lists.oldest(RECENT_GHOSTS) else { break };
            lists.remove(oldest);
        }
        while (0..4).map(|queue| lists.bytes(queue)).sum::<u64>() > 2 * self.capacity {
            let Some(oldest) = lists.oldest(FREQUENT_GHOSTS) else { break };
            lists.remove(oldest);
        }
    }
}

impl Cache for Arc {
    fn request(&mut self, request: Request) -> bool {
        let Request { key, bytes, .. } = request;
        let size = u64::from(bytes);
        match self.lists.queue_of(key) {
            Some(RECENT | FREQUENT) => {
                self.lists.shift(key, FREQUENT);
                return true;
            }
            _ if size > self.capacity => {}
            Some(ghosts) => {
                self.adapt(ghosts, size);
                self.lists.remove(key);
                self.make_room(size, ghosts == FREQUENT_GHOSTS);
                self.lists.push(FREQUENT, key, bytes);
            }
            None => {
                self.make_room(size, false);
                self.lists.push(RECENT, key, bytes);
            }
        }
        self.trim_ghosts();
        false
    }
}
