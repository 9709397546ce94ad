//! A table whose keys are chosen with knowledge of the key of the index hash.

use std::collections::BTreeSet;

use base::KeyHasher;
use base::collisions::Collisions;

use super::*;
use crate::layout::CHAIN_ENTRIES_MAX;

const END: [u8; 16] = *b"{t}aaaaaaaaaaaaa";

fn collisions(arena: &Arena) -> Collisions {
    Collisions::new(arena.hasher(), END)
}

/// Returns `count` keys whose hashes end with the same `bits` bits.
fn alike(hasher: &KeyHasher, bits: u32, count: usize) -> Vec<Vec<u8>> {
    let keys = (0_u64..).map(|number| format!("alike {number}").into_bytes());
    keys.filter(|key| hasher.hash(key) & ((1 << bits) - 1) == 5).take(count).collect()
}

fn insert(arena: &Arena, table: &mut Table, key: &[u8]) {
    let hash = arena.hasher().hash(key);
    table.insert(hash, key, &value(b"v", None)).expect("there is room");
}

fn remove(arena: &Arena, table: &mut Table, key: &[u8]) {
    let id = table.find(arena.hasher().hash(key), key).expect("it is there");
    table.remove(id);
}

/// Returns every key once, as SCAN finds them, and the most that one step visited.
fn scanned(table: &Table) -> (BTreeSet<Vec<u8>>, usize) {
    let (mut seen, mut cursor, mut most) = (BTreeSet::new(), 0, 0);
    loop {
        let before = seen.len();
        cursor = table.scan(cursor, &mut |entry| {
            assert!(seen.insert(entry.key().to_vec()), "an entry is visited once");
        });
        most = most.max(seen.len() - before);
        if cursor == 0 {
            return (seen, most);
        }
    }
}

#[test]
fn flooded_table_agrees_with_a_model() {
    for (seed, steps) in [(1, 30_000), (2, 30_000)] {
        let mut pair = Pair::new(seed, 1200, 300);
        let same = collisions(&pair.arena);
        pair.names = (0..500).map(|index| same.key(index).to_vec()).collect();
        pair.names.extend(alike(pair.arena.hasher(), 8, 400));
        for step in 0..steps {
            pair.step();
            if step % 1000 == 0 {
                pair.check();
            }
        }
        pair.check();
        assert!(pair.table.spill.len() > 100, "{} entries are spilled", pair.table.spill.len());
        assert!(pair.table.compacted_pages() > 0, "spilled entries are moved as others are");
        while let Some(key) = pair.model.keys().next().cloned() {
            remove(&pair.arena, &mut pair.table, &key);
            pair.model.remove(&key);
            if pair.model.len().is_multiple_of(100) {
                pair.check();
            }
        }
        assert!(pair.table.spill.is_empty());
    }
}

#[test]
fn small_flooded_table_agrees_with_a_model() {
    let mut pair = Pair::new(3, 70, 100);
    let same = collisions(&pair.arena);
    pair.names = (0..70).map(|index| same.key(index).to_vec()).collect();
    for index in 0..70 {
        let (key, arena) = (pair.names[index].clone(), pair.arena.clone());
        insert(&arena, &mut pair.table, &key);
        pair.model.insert(key, (b"v".to_vec(), None));
    }
    assert_eq!(pair.table.spill.len(), 70 - ALIKE_MAX as u64);
    for step in 0..60 {
        pair.step();
        if step % 20 == 0 {
            pair.check();
        }
    }
    pair.check();
}

#[test]
fn a_key_costs_a_bounded_number_of_comparisons_whatever_the_keys_are() {
    let arena = arena(1 << 20, 512);
    let count = 20_000;
    let same = collisions(&arena);
    let families = [
        (0..count).map(|index| same.key(index).to_vec()).collect::<Vec<_>>(),
        alike(arena.hasher(), 9, count as usize),
    ];
    for keys in families {
        let mut table = table(&arena, 0);
        let worst = |act: &mut dyn FnMut()| {
            let compared = step_counters::steps_of(CountedStep::Entry, act);
            assert!(compared <= ALIKE_MAX as u64 + 1, "{compared} keys");
        };
        for key in &keys {
            let hash = arena.hasher().hash(key);
            worst(&mut || assert!(table.find(hash, key).is_none()));
            insert(&arena, &mut table, key);
            worst(&mut || assert!(table.find(hash, key).is_some()));
        }
        assert!(table.moved_entries_max() <= 2 * CHAIN_ENTRIES_MAX as u64);
        let (seen, most) = scanned(&table);
        assert_eq!(seen, keys.iter().cloned().collect());
        assert!(most <= 64 + 8 + 2 * CHAIN_ENTRIES_MAX, "a step of SCAN visits {most}");
        for key in &keys {
            let hash = arena.hasher().hash(key);
            worst(&mut || assert!(table.find(hash, key).is_some()));
            remove(&arena, &mut table, key);
        }
        assert!(table.moved_entries_max() <= 1024);
        assert!(table.is_empty() && table.spill.is_empty());
    }
}

#[test]
fn a_spilled_entry_is_added_found_and_removed_by_one_way_down_the_tree_each() {
    let arena = arena(1 << 20, 512);
    let same = collisions(&arena);
    let keys: Vec<_> = (0..20_000).map(|index| same.key(index)).collect();
    let mut table = table(&arena, 0);
    let each = |table: &mut Table, act: &dyn Fn(&mut Table, &[u8])| {
        let all = || keys.iter().for_each(|key| act(table, key));
        step_counters::steps_of(CountedStep::Descent, all) as f64 / keys.len() as f64
    };
    let find = |table: &mut Table, key: &[u8]| {
        assert!(table.find(arena.hasher().hash(key), key).is_some());
    };
    let remove = |table: &mut Table, key: &[u8]| remove(&arena, table, key);
    // The test build looks for each key that is added, and one that is removed is found before.
    // Buckets that split or merge, and entries that move to other pages, go down too.
    let added = each(&mut table, &|table, key| insert(&arena, table, key));
    let found = each(&mut table, &find);
    let removed = each(&mut table, &remove);
    println!("added {added:.2}, found {found:.2}, removed {removed:.2}");
    assert!(added <= 2.5 && found <= 1.0 && removed <= 2.5);
}

/// Random keys of one chain and few tags come and go, and some do not come because nobody gets
/// memory: that leaves buckets in the chain of which others have not all slots taken.
fn alike_are_bounded(seed: u64, steps: u64) {
    println!("seed {seed}");
    let arena = arena(1 << 16, 64);
    let mut table = table(&arena, 0);
    let mut random = Prng::new(seed);
    let tags: Vec<u8> = (0..5).map(|_| 1 + random.below(255) as u8).collect();
    let numbers = (0_u64..).map(|number| [seed, number].map(u64::to_le_bytes).concat());
    let of_chain = |key: &Vec<u8>| {
        let hash = arena.hasher().hash(key);
        hash % 16 == 5 && tags.contains(&tag_of(hash))
    };
    let keys: Vec<Vec<u8>> = numbers.filter(of_chain).take(70).collect();
    let home = table.home(arena.hasher().hash(&keys[0]));
    for step in 0..steps {
        let key = &keys[random.below(keys.len() as u64) as usize];
        let hash = arena.hasher().hash(key);
        match table.find(hash, key) {
            Some(_) if random.one_in(2) => remove(&arena, &mut table, key),
            Some(_) => {}
            None if random.one_in(4) => {
                arena.set_limit(1);
                let refused = table.insert(hash, key, &value(&[0; 5_000], None));
                assert!(refused.is_err(), "there is no memory for it");
                arena.set_limit(u64::MAX);
            }
            None => insert(&arena, &mut table, key),
        }
        let most = tags.iter().map(|&tag| table.alike_count(home, tag)).max();
        assert!(most <= Some(ALIKE_MAX), "step {step}: {most:?} entries of one tag");
    }
    assert!(table.tail(home).1 > 2, "the chain has some buckets");
}

#[test]
fn no_chain_ever_has_more_entries_of_one_tag_than_readers_compare() {
    (1..=20).for_each(|seed| alike_are_bounded(seed, 2_000));
}

#[test]
fn keys_that_nobody_has_chosen_are_never_spilled() {
    let arena = arena(1 << 22, 128);
    let mut table = table(&arena, 0);
    for number in 0..100_000_u64 {
        insert(&arena, &mut table, format!("{number:016}").as_bytes());
        assert!(table.spill.is_empty(), "at {number}");
    }
}

#[test]
fn chains_that_get_room_take_their_entries_back() {
    let arena = arena(1 << 20, 512);
    let mut table = table(&arena, 0);
    let close = alike(arena.hasher(), 7, 600);
    for key in &close {
        insert(&arena, &mut table, key);
    }
    assert!(table.spill.len() > 400, "{}", table.spill.len());
    // With more buckets more bits tell the keys apart.
    for number in 0..30_000_u64 {
        insert(&arena, &mut table, format!("{number:016}").as_bytes());
    }
    assert_eq!(table.spill.len(), 0);
    for number in 0..30_000_u64 {
        remove(&arena, &mut table, format!("{number:016}").as_bytes());
    }
    assert!(table.spill.len() > 400, "merges spill what one chain has no room for");
    for key in &close[..560] {
        remove(&arena, &mut table, key);
    }
    assert_eq!((table.len(), table.spill.len()), (40, 0));
    let home = table.home(arena.hasher().hash(&close[599]));
    assert_eq!(table.bucket(table.tail(home).0).next(), Next::End);
}

#[test]
fn scan_visits_what_stays_while_chains_spill_and_take_back() {
    let arena = arena(1 << 20, 256);
    let mut table = table(&arena, 0);
    let mut random = Prng::new(4);
    let same = collisions(&arena);
    let mut keys: Vec<Vec<u8>> = (0..600).map(|index| same.key(index).to_vec()).collect();
    keys.extend(alike(arena.hasher(), 8, 600));
    let mut others: Vec<Vec<u8>> = (600..1_200).map(|index| same.key(index).to_vec()).collect();
    others.extend((0..6_000).map(|number| format!("other {number}").into_bytes()));
    keys.iter().for_each(|key| insert(&arena, &mut table, key));
    for round in 0..40 {
        let (mut seen, mut cursor) = (HashSet::new(), 0);
        loop {
            cursor = table.scan(cursor, &mut |entry| {
                seen.insert(entry.key().to_vec());
            });
            if cursor == 0 {
                break;
            }
            for _ in 0..random.below(if round % 2 == 0 { 40 } else { 400 }) {
                let key = &others[random.below(others.len() as u64) as usize];
                match table.find(arena.hasher().hash(key), key) {
                    Some(id) if random.one_in(2) => {
                        table.remove(id);
                    }
                    Some(_) => {}
                    None => insert(&arena, &mut table, key),
                }
            }
        }
        assert!(keys.iter().all(|key| seen.contains(key)), "round {round}");
        let gone = others.iter().filter(|key| table.find(arena.hasher().hash(key), key).is_some());
        for key in gone.cloned().collect::<Vec<_>>() {
            if round % 3 == 0 {
                remove(&arena, &mut table, &key);
            }
        }
    }
}

#[test]
fn scan_takes_any_cursor_of_a_flooded_table() {
    let arena = arena(1 << 20, 64);
    let mut table = table(&arena, 0);
    let same = collisions(&arena);
    (0..1_000).for_each(|index| insert(&arena, &mut table, &same.key(index)));
    let mut random = Prng::new(5);
    for _ in 0..2_000 {
        let cursor = random.next() >> random.below(64);
        table.scan(cursor, &mut |_| {});
    }
    table.scan(u64::MAX, &mut |_| {});
}

#[test]
fn spilled_entries_are_sampled_and_go_with_their_table() {
    let arena = arena(1 << 20, 64);
    let (mut first, mut second) = (table(&arena, 0), table(&arena, 1));
    let same = collisions(&arena);
    (0..300).for_each(|index| insert(&arena, &mut first, &same.key(index)));
    let mut random = Prng::new(6);
    let mut met = HashSet::new();
    for _ in 0..20_000 {
        let id = first.sample(random.next()).expect("the table is full");
        met.insert(first.entry(id).key().to_vec());
    }
    assert!(met.len() > 250, "{} of 300 were met", met.len());
    met.clear();
    for _ in 0..4_000 {
        let mut found = Vec::new();
        first.sample_chain(random.next(), 5, |id| found.push(id));
        assert!((1..=5).contains(&found.len()));
        met.extend(found.into_iter().map(|id| first.entry(id).key().to_vec()));
    }
    assert!(met.len() > 250, "{} of 300 were met by chains", met.len());
    Table::swap(&mut first, &mut second);
    assert!(first.spill.is_empty());
    assert_eq!(scanned(&second).0.len(), 300);
    assert!(second.private_bytes() > first.private_bytes() + 290 * 56);
    second.clear();
    assert!(second.spill.is_empty() && scanned(&second).0.is_empty());
    let hash = arena.hasher().hash(&same.key(0));
    assert!(second.find(hash, &same.key(0)).is_none());
}

#[test]
fn pages_and_values_of_spilled_entries_move_as_all_do() {
    let arena = arena(1 << 20, 128);
    let mut table = table(&arena, 0);
    let same = collisions(&arena);
    let content = |index: u64, length: usize| vec![index as u8; length];
    for index in 0..900 {
        let key = same.key(index);
        let expiry = (index % 3 == 0).then_some(UnixMs(index as i64));
        let new = content(index, 300);
        table.insert(arena.hasher().hash(&key), &key, &value(&new, expiry)).expect("there is room");
    }
    for index in (0..900).filter(|index| index % 2 == 0) {
        remove(&arena, &mut table, &same.key(index));
    }
    while table.evacuate() {}
    for index in (0..900).filter(|index| index % 2 == 1) {
        let key = same.key(index);
        let hash = arena.hasher().hash(&key);
        let id = table.find(hash, &key).expect("it stayed");
        assert_eq!(table.entry(id).value(), content(index, 300));
        let id = table.replace(id, &key, &value(&content(index, 5000), None)).expect("room");
        let id = table.append(id, b"end", Encoding::Raw).expect("room");
        assert_eq!(table.entry(id).value().len(), 5003);
        assert_eq!(table.find(hash, &key), Some(id));
    }
    assert_eq!(table.volatile_len(), 0);
}
