//! Whether a connection takes by itself what it posts.
//!
//! The server is of no use for such values: they are held back (`held_posts.rs`). It would have to
//! be woken, and would store and delete them on the other processor: where that is another thread
//! of the same core, whatever runs beside it takes half as long again and more.

use std::collections::VecDeque;

/// Values in a row that a connection has taken by itself, after which the next are said to be for
/// itself, too.
const ROW_MIN: u32 = 16;
/// Each value that was for somebody else makes the row twice as long that is waited for, up to
/// this: such a value may come some milliseconds late.
const ROW_MAX: u32 = 1 << 12;
/// So many rows at once make it half as long again.
const ROWS_UNTIL_SHORTER: u32 = 4;
/// Keys that are remembered: more values at once are for others.
const KEYS_MAX: usize = 64;

/// What one connection knows of the values that it has posted.
#[derive(Debug)]
pub struct OwnTakes {
    /// The keys that it has posted and not taken, the latest last.
    keys: VecDeque<Vec<u8>>,
    /// Values in a row that it has taken itself.
    row: u32,
    row_min: u32,
    /// The most that were there when it took one of the row: so many it posts before it takes.
    depth: usize,
}

impl OwnTakes {
    /// Returns what is known of a new connection.
    pub fn new() -> OwnTakes {
        OwnTakes { keys: VecDeque::new(), row: 0, row_min: ROW_MIN, depth: 0 }
    }

    /// Notes that `key` is posted; returns whether this connection will most likely take it.
    pub fn note_post(&mut self, key: &[u8]) -> bool {
        let is_row = self.row >= self.row_min;
        let is_own = is_row && self.keys.len() < self.depth;
        if is_row && !is_own {
            self.note_other();
        } else if self.keys.len() == KEYS_MAX {
            self.forget();
        }
        self.keys.push_back(key.to_vec());
        is_own
    }

    /// Returns how many values it posts in a row before it takes them; 0 where it is not known to
    /// take them by itself.
    pub fn depth(&self) -> usize {
        if self.row >= self.row_min { self.depth } else { 0 }
    }

    /// Notes that this connection takes `key`, where it has posted it.
    pub fn note_take(&mut self, key: &[u8]) {
        // Mostly the latest, or the first of some that were posted together.
        let place = match self.keys.back() {
            Some(latest) if latest == key => Some(self.keys.len() - 1),
            _ => self.keys.iter().position(|posted| posted == key),
        };
        let Some(place) = place else { return };
        self.depth = self.depth.max(self.keys.len());
        self.keys.remove(place);
        self.row += 1;
        if self.row >= ROWS_UNTIL_SHORTER * self.row_min {
            (self.row, self.row_min) = (self.row_min, (self.row_min / 2).max(ROW_MIN));
        }
    }

    /// Notes that a value that it was expected to take was for somebody else.
    pub fn note_other(&mut self) {
        self.row_min = (2 * self.row_min).min(ROW_MAX);
        self.forget();
    }

    /// Begins anew.
    fn forget(&mut self) {
        self.keys.clear();
        (self.row, self.depth) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Posts `count` values and takes them, in their order; returns how many were said to be own.
    fn cycle(takes: &mut OwnTakes, count: u32) -> usize {
        let keys: Vec<_> = (0..count).map(u32::to_le_bytes).collect();
        let own = keys.iter().filter(|key| takes.note_post(*key)).count();
        for key in &keys {
            takes.note_take(key);
        }
        own
    }

    #[test]
    fn who_takes_its_values_is_known_after_a_row_of_them() {
        for count in [1, 10, KEYS_MAX as u32] {
            let mut takes = OwnTakes::new();
            let rounds = ROW_MIN.div_ceil(count);
            assert_eq!((0..rounds).map(|_| cycle(&mut takes, count)).sum::<usize>(), 0);
            assert_eq!(cycle(&mut takes, count), count as usize);
        }
        let mut takes = OwnTakes::new();
        let own = (0..9).map(|_| cycle(&mut takes, KEYS_MAX as u32 + 1)).sum::<usize>();
        assert_eq!(own, 0, "more than are remembered");
    }

    #[test]
    fn value_that_another_takes_ends_the_row_and_makes_the_next_longer() {
        let mut takes = OwnTakes::new();
        for row in [ROW_MIN, 2 * ROW_MIN, 4 * ROW_MIN] {
            // The one behind the last row counts.
            (takes.row..row).for_each(|_| assert_eq!(cycle(&mut takes, 1), 0));
            assert_eq!(cycle(&mut takes, 1), 1);
            assert!(takes.note_post(b"for another"), "nothing tells");
            assert!(!takes.note_post(b"next"), "the one before is still there");
            takes.note_take(b"next");
        }
    }

    #[test]
    fn row_that_is_waited_for_gets_shorter_again() {
        let mut takes = OwnTakes::new();
        (0..20).for_each(|_| takes.note_other());
        assert_eq!(takes.row_min, ROW_MAX);
        for row_min in [ROW_MAX, ROW_MAX / 2, ROW_MAX / 4] {
            assert_eq!(takes.row_min, row_min);
            (takes.row..ROWS_UNTIL_SHORTER * row_min)
                .for_each(|_| assert!(cycle(&mut takes, 1) < 2));
        }
        (0..10 * ROW_MAX).for_each(|_| assert!(cycle(&mut takes, 1) < 2));
        assert_eq!(takes.row_min, ROW_MIN);
    }
}
