//! Values that tell their own length, rewritten where there may be no room.

use super::*;
use crate::layout::small_entry_bytes;

/// The longest value: with the longest key, and a time to live, its entry stays small.
const VALUE_BYTES_MAX: u64 = 3500;

/// A table, what the value of each key begins with, and the random choices.
struct Rewriter {
    arena: Arc<Arena>,
    table: Table,
    model: HashMap<Vec<u8>, Vec<u8>>,
    random: Prng,
    refused: u64,
    kept: u64,
}

impl Rewriter {
    fn new(seed: u64, segments: u32) -> Rewriter {
        let arena = arena(1 << 16, segments);
        let table = table(&arena, 0);
        let (model, random) = (HashMap::new(), Prng::new(seed));
        Rewriter { arena, table, model, random, refused: 0, kept: 0 }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(if cfg!(miri) { 12 } else { 300 });
        let mut key = format!("key:{number}").into_bytes();
        key.resize(if number.is_multiple_of(7) { 300 } else { key.len() }, b'k');
        key
    }

    fn bytes(&mut self) -> Vec<u8> {
        let bound = [16, 120, 400, VALUE_BYTES_MAX][self.random.below(4) as usize];
        let mut bytes = vec![0; self.random.below(bound) as usize + 1];
        self.random.fill(&mut bytes);
        bytes
    }

    /// Returns `old` with some of its bytes changed, added or gone.
    fn edited(&mut self, old: &[u8]) -> Vec<u8> {
        let mut bytes = old.to_vec();
        let at = self.random.below(bytes.len() as u64 + 1) as usize;
        let count = (self.random.below(40) as usize).min(bytes.len() - at);
        let more = vec![7; self.random.below(40) as usize];
        bytes.splice(at..at + count, more);
        bytes.truncate(VALUE_BYTES_MAX as usize);
        if bytes.is_empty() { vec![1] } else { bytes }
    }

    fn step(&mut self) {
        let key = self.key();
        let hash = self.arena.hasher().hash(&key);
        let Some(id) = self.table.find(hash, &key) else {
            let bytes = self.bytes();
            if self.table.insert(hash, &key, &value(&bytes, None)).is_ok() {
                self.model.insert(key, bytes);
            }
            return;
        };
        match self.random.below(16) {
            0 => {
                self.table.remove(id);
                self.model.remove(&key);
            }
            1 => drop(self.table.set_expiry(id, Some(UnixMs(5)))),
            2 => drop(self.table.set_expiry(id, None)),
            3 => drop(self.table.evacuate()),
            4 => self.rewrite_part(id, key),
            choice => {
                let old = self.model[&key].clone();
                let bytes = if choice < 8 { self.bytes() } else { self.edited(&old) };
                self.rewrite(id, key, bytes);
            }
        }
    }

    fn rewrite(&mut self, id: EntryId, key: Vec<u8>, bytes: Vec<u8>) {
        let before = self.table.entry(id);
        let (length, mark, expiry) = (before.value_length(), before.mark(), before.expiry());
        match self.table.rewrite(id, &key, &bytes, Encoding::Listpack) {
            Ok(id) => {
                let entry = self.table.entry(id);
                assert_eq!((entry.key(), entry.mark(), entry.expiry()), (&*key, mark, expiry));
                assert_eq!(entry.encoding(), Encoding::Listpack);
                self.kept += u64::from(entry.value_length() > bytes.len() as u64);
                let exact = small_entry_bytes(key.len() as u64, bytes.len() as u64, true);
                assert!(self.refused > 0 || entry.memory_bytes() <= 2 * exact.unwrap() + 64);
                self.model.insert(key, bytes);
            }
            Err(_) => {
                assert!(bytes.len() as u64 > length, "what becomes no longer needs no room");
                self.refused += 1;
            }
        }
    }

    fn rewrite_part(&mut self, id: EntryId, key: Vec<u8>) {
        let bytes = self.model.get_mut(&key).expect("it is there");
        let at = self.random.below(bytes.len() as u64);
        let part = vec![8; self.random.below(bytes.len() as u64 - at + 1) as usize];
        self.table.rewrite_part(id, at, &part);
        bytes[at as usize..][..part.len()].copy_from_slice(&part);
    }

    fn check(&self) {
        assert_eq!(self.table.len(), self.model.len() as u64);
        for (key, bytes) in &self.model {
            let id = self.table.find(self.arena.hasher().hash(key), key).expect("it is there");
            assert!(self.table.entry(id).value().starts_with(bytes), "{}", key.escape_ascii());
        }
        assert!(self.table.moved_entries_max() <= 1024);
    }
}

#[test]
fn miri_rewritten_values_begin_as_a_model_says() {
    for (seed, segments) in [(1, 64), (2, 5)] {
        let mut rewriter = Rewriter::new(seed, segments);
        for step in 0..if cfg!(miri) { 150 } else { 40_000 } {
            rewriter.step();
            if step % 1000 == 0 {
                rewriter.check();
            }
        }
        rewriter.check();
        assert!(rewriter.kept > 0 || cfg!(miri));
        println!("{} refused, {} kept", rewriter.refused, rewriter.kept);
    }
}

#[test]
fn value_that_becomes_shorter_needs_no_room() {
    let arena = arena(1 << 16, 5);
    let mut table = table(&arena, 0);
    let keys = || (0_u64..).map(|number| format!("key:{number}").into_bytes());
    let hash = |key: &[u8]| arena.hasher().hash(key);
    let long = [7; 400];
    let stored = keys().take_while(|key| table.insert(hash(key), key, &value(&long, None)).is_ok());
    let count = stored.count();
    assert!(count > 20);
    for key in keys().take(count) {
        for length in [300, 200, 100, 9, 1] {
            let id = table.find(hash(&key), &key).expect("it is there");
            let id = table.rewrite(id, &key, &vec![9; length], Encoding::Intset).unwrap();
            assert!(table.entry(id).value().starts_with(&vec![9; length]));
        }
    }
    // What was given up serves others.
    let more = |key: &Vec<u8>| {
        let key = [key, &b":more"[..]].concat();
        table.insert(hash(&key), &key, &value(b"x", None)).is_ok()
    };
    assert!(keys().take_while(more).take(count).count() > count / 2);
}
