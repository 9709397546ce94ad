//! Tables at a limit: what is refused changes nothing, and all that moves is told.

use super::*;

/// Keys of a run: most of what is asked for is not there.
const KEYS: u64 = 6_000;
const STEPS: u64 = 6_000;

/// Returns a length near those at which an entry looks otherwise, or any.
fn length(random: &mut Prng) -> usize {
    let length = match random.below(12) {
        0 => 1015 + random.below(16),
        1 => 3900 + random.below(220),
        2..=4 => random.below(1100),
        _ => random.below(80),
    };
    length as usize
}

impl Pair {
    /// Changes the value of `key` somehow, or removes it; `false` where it was refused.
    fn change_at_limit(&mut self, key: &[u8], kind: u64, bytes: &[u8]) -> bool {
        let hash = self.arena.hasher().hash(key);
        let found = self.table.find(hash, key);
        assert_eq!(found.is_some(), self.model.contains_key(key));
        let expiry = bytes.len().is_multiple_of(3).then_some(UnixMs(1 + bytes.len() as i64));
        let tail = &bytes[..bytes.len().min(100)];
        let changed = match (kind, found) {
            (0, Some(id)) => {
                self.table.remove(id);
                self.model.remove(key);
                return true;
            }
            (1, Some(id)) => {
                let changed = self.table.append(id, tail, Encoding::Raw);
                changed.map(|id| (id, ([&self.model[key].0, tail].concat(), self.model[key].1)))
            }
            (2, Some(id)) => {
                let changed = self.table.set_expiry(id, expiry);
                changed.map(|id| (id, (self.model[key].0.clone(), expiry)))
            }
            (_, Some(id)) => {
                let changed = self.table.replace(id, key, &value(bytes, expiry));
                changed.map(|id| (id, (bytes.to_vec(), expiry)))
            }
            (_, None) => {
                let changed = self.table.insert(hash, key, &value(bytes, expiry));
                changed.map(|id| (id, (bytes.to_vec(), expiry)))
            }
        };
        let Ok((id, expected)) = changed else { return false };
        assert_eq!((self.table.entry(id).key(), self.table.entry(id).value()), (key, &*expected.0));
        assert_eq!(self.table.find(hash, key), Some(id));
        self.model.insert(key.to_vec(), expected);
        true
    }

    fn step_at_limit(&mut self) {
        let number = self.random.below(KEYS);
        let mut key = format!("{number}:").into_bytes();
        if number.is_multiple_of(8) {
            key.resize(120 + (number / 8 % 16) as usize, b'k');
        }
        let mut bytes = vec![0; length(&mut self.random)];
        self.random.fill(&mut bytes);
        let kind = self.random.below(8);
        loop {
            let moved = self.table.moved_entries;
            if self.change_at_limit(&key, kind, &bytes) {
                return;
            }
            assert_eq!(self.table.moved_entries, moved, "what is refused moves nothing");
            let Some(id) = self.table.sample(self.random.next()) else { return };
            let gone = self.table.entry(id).key().to_vec();
            self.table.remove(id);
            self.model.remove(&gone);
        }
    }
}

#[test]
fn table_at_its_limit_agrees_with_a_model() {
    for (seed, limit) in [(0, 80 << 10), (1, 300 << 10), (2, 600 << 10)] {
        let mut pair = Pair::new(seed, 0, 1 << 20);
        pair.arena.set_limit(pair.arena.usage().touched_bytes + limit);
        for step in 0..STEPS {
            pair.step_at_limit();
            if step % 64 == 0 {
                pair.check();
            }
        }
        pair.check();
        assert!(pair.table.moved_entries_max() <= 1024);
        assert!(pair.table.moved_entries > 0, "pages were compacted");
    }
}

#[test]
fn all_that_one_insertion_moves_is_told() {
    let arena = arena(1 << 20, 16);
    let (mut table, mut random) = (table(&arena, 0), Prng::new(0));
    arena.set_limit(arena.usage().touched_bytes + (500 << 10));
    let mut most = 0;
    for number in 0..24_000_u64 {
        let length = match number % 4 == 0 && number > 8_000 {
            true => 300 + random.below(800),
            false => 10 + random.below(50),
        };
        let (key, bytes) = (number.to_le_bytes(), vec![1; length as usize]);
        loop {
            let moved = table.moved_entries;
            let inserted = table.insert(arena.hasher().hash(&key), &key, &value(&bytes, None));
            most = most.max(table.moved_entries - moved);
            if inserted.is_ok() {
                break;
            }
            table.remove(table.sample(random.next()).expect("it has entries"));
        }
    }
    assert!(most > 457, "{most} entries: two pages were compacted by one insertion");
    assert!((most..=1024).contains(&table.moved_entries_max()), "{most} entries moved at once");
}
