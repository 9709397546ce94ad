//! Changes of a collection, drawn from bytes: it has what a model of std's collections has, in its
//! compact form as in its large one, across the conversions between both, and is written and read
//! again as itself.
//!
//! The first byte is the type and how long it stays compact. Then each change is a byte, and the
//! elements that it needs: a byte below 64 is a small integer, any from 128 on an integer that the
//! next byte shifts, and one between a text of twice as many letters as it is above 64, or of three
//! times as many if it is odd.
#![no_main]

#[path = "../step.rs"]
mod step;

use std::collections::{BTreeMap, BTreeSet};

use collections::{
    Collection, CollectionView, Direction, End, Hash, HashView, List, ListLimit, ListView, Place,
    Rules, Set, SetView, SortedSet, SortedSetView,
};
use libfuzzer_sys::fuzz_target;
use rdb::samples::{default_rules, parts};
use rdb::{DecodeOptions, Stored, Value};

use step::Step;

/// Changes of one input: more teach nothing.
const CHANGES_MAX: usize = 400;

fuzz_target!(|input: &[u8]| {
    let _step = Step::begin(input);
    let Some((&choice, rest)) = input.split_first() else { return };
    let (rules, mut words) = (rules(choice), Words(rest));
    let collection = match choice & 3 {
        0 => list(&mut words, &rules),
        1 => hash(&mut words, &rules),
        2 => set(&mut words, &rules),
        _ => sorted_set(&mut words, &rules),
    };
    if let Some(collection) = collection {
        comes_back(&collection, &rules);
    }
});

fn rules(choice: u8) -> Rules {
    let mut rules = default_rules();
    let few = [2, 5, 20, 512][usize::from(choice >> 2 & 3)];
    rules.limits.list = ListLimit([-2, 2, 8, -1][usize::from(choice >> 4 & 3)]);
    rules.limits.hash_entries = few;
    rules.limits.set_entries = few;
    rules.limits.sorted_set_entries = few;
    rules.limits.set_integers = [3, 512][usize::from(choice >> 6 & 1)];
    rules
}

/// The rest of the input.
struct Words<'i>(&'i [u8]);

impl Words<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn element(&mut self) -> Option<Vec<u8>> {
        Some(match self.byte()? {
            small @ 0..64 => (i64::from(small) - 20).to_string().into_bytes(),
            length @ 64..128 => vec![b'e'; usize::from(length - 64) * usize::from(length & 1 | 2)],
            large => {
                let shift = u32::from(self.byte()?) % 58;
                (i64::from(large as i8) << shift).to_string().into_bytes()
            }
        })
    }

    fn score(&mut self) -> Option<f64> {
        let byte = self.byte()?;
        Some(match byte {
            255 => f64::INFINITY,
            254 => f64::NEG_INFINITY,
            _ => (f64::from(byte) - 100.0) / 4.0,
        })
    }
}

fn list(words: &mut Words<'_>, rules: &Rules) -> Option<Collection> {
    let limit = rules.limits.list;
    let (mut list, mut model) = (List::empty_in(Vec::new()), Vec::<Vec<u8>>::new());
    for _ in 0..CHANGES_MAX {
        let Some(change) = words.byte() else { break };
        let end = if change & 1 == 0 { End::Head } else { End::Tail };
        let index = usize::from(change >> 3) % (model.len() + 1);
        match change & 7 {
            0..=3 => {
                let Some(element) = words.element() else { break };
                list.prepare([&element[..]].into_iter(), limit);
                list.push(end, &element, limit);
                model.insert(if change & 1 == 0 { 0 } else { model.len() }, element);
            }
            4 => {
                let count = index.min(3).min(model.len());
                list.remove_end(End::Head, count, limit);
                model.drain(..count);
            }
            5 => {
                let Some(element) = words.element() else { break };
                list.prepare([&element[..]].into_iter(), limit);
                let is_there = list.set(index, &element, limit);
                assert_eq!(is_there, index < model.len());
                if is_there {
                    model[index] = element;
                }
            }
            6 => {
                let Some(pivot) = words.element() else { break };
                let Some(element) = words.element() else { break };
                list.prepare([&element[..]].into_iter(), limit);
                let place = if change & 8 == 0 { Place::Before } else { Place::After };
                let found = model.iter().position(|it| *it == pivot);
                assert_eq!(list.insert(place, &pivot, &element, limit), found.is_some());
                if let Some(found) = found {
                    model.insert(found + usize::from(change & 8 != 0), element);
                }
            }
            _ => {
                let Some(element) = words.element() else { break };
                let removed = list.remove(End::Head, &element, usize::MAX, limit);
                let before = model.len();
                model.retain(|it| *it != element);
                assert_eq!(removed, before - model.len());
            }
        }
        let view = list.view();
        let compact = view.compact().map(ListView::of_compact);
        for view in [Some(view), compact].into_iter().flatten() {
            assert_eq!(view.len(), model.len());
            assert!(view.iter().map(|element| element.to_vec()).eq(model.iter().cloned()));
            assert_eq!(view.get(index).map(|it| it.to_vec()).as_ref(), model.get(index));
        }
    }
    (!model.is_empty()).then_some(Collection::List(list))
}

fn hash(words: &mut Words<'_>, rules: &Rules) -> Option<Collection> {
    let (mut hash, mut model) = (Hash::empty_in(Vec::new()), BTreeMap::<Vec<u8>, Vec<u8>>::new());
    for _ in 0..CHANGES_MAX {
        let (Some(change), Some(field)) = (words.byte(), words.element()) else { break };
        if change % 3 == 0 {
            assert_eq!(hash.remove(&field, rules), model.remove(&field).is_some());
        } else {
            let Some(value) = words.element() else { break };
            hash.prepare([&field[..], &value].into_iter(), rules);
            let is_new = hash.set(&field, &value, rules);
            assert_eq!(is_new, model.insert(field.clone(), value).is_none());
        }
        let view = hash.view();
        let compact = view.compact().map(HashView::of_compact);
        for view in [Some(view), compact].into_iter().flatten() {
            assert_eq!(view.len(), model.len());
            let found = view.get(&field, rules).map(|value| value.to_vec());
            assert_eq!(found.as_ref(), model.get(&field));
            let mut pairs = BTreeMap::new();
            view.for_each(|field, value| drop(pairs.insert(field.to_vec(), value.to_vec())));
            assert_eq!(pairs, model);
        }
    }
    (!model.is_empty()).then_some(Collection::Hash(hash))
}

fn set(words: &mut Words<'_>, rules: &Rules) -> Option<Collection> {
    let mut model = BTreeSet::<Vec<u8>>::new();
    let mut set: Option<Set> = None;
    for _ in 0..CHANGES_MAX {
        let (Some(change), Some(member)) = (words.byte(), words.element()) else { break };
        let set = set.get_or_insert_with(|| Set::for_members(&member, 1, rules));
        match change % 3 {
            0 => assert_eq!(set.remove(&member, rules), model.remove(&member)),
            _ => assert_eq!(set.insert(&member, rules), model.insert(member.clone())),
        }
        let view = set.view();
        let compact = view.compact().map(SetView::of_compact);
        for view in [Some(view), compact].into_iter().flatten() {
            assert_eq!(view.len(), model.len());
            assert_eq!(view.contains(&member, rules), model.contains(&member));
            let mut members = BTreeSet::new();
            view.for_each(|member| {
                members.insert(member.to_vec());
            });
            assert_eq!(members, model);
        }
    }
    set.filter(|_| !model.is_empty()).map(Collection::Set)
}

fn sorted_set(words: &mut Words<'_>, rules: &Rules) -> Option<Collection> {
    let mut set = SortedSet::for_members(1, 1, rules);
    let mut model = BTreeMap::<Vec<u8>, f64>::new();
    for _ in 0..CHANGES_MAX {
        let (Some(change), Some(member)) = (words.byte(), words.element()) else { break };
        match change % 4 {
            0 => assert_eq!(set.remove(&member, rules), model.remove(&member)),
            1 => {
                let start = usize::from(change >> 2) % (model.len() + 1);
                let count = (model.len() - start).min(2);
                let order = ordered(&model);
                set.remove_range(start, count);
                for (member, _) in &order[start..start + count] {
                    model.remove(member);
                }
            }
            _ => {
                let Some(score) = words.score() else { break };
                let old = set.insert(&member, score, rules);
                assert_eq!(old, model.insert(member.clone(), score));
            }
        }
        let order = ordered(&model);
        let view = set.view();
        let compact = view.compact().map(SortedSetView::of_compact);
        for view in [Some(view), compact].into_iter().flatten() {
            assert_eq!(view.len(), model.len());
            assert_eq!(view.score(&member, rules), model.get(&member).copied());
            let rank = order.iter().position(|(other, _)| *other == member);
            assert_eq!(view.rank(&member, rules).map(|(rank, _)| rank), rank);
            let mut found = Vec::new();
            view.for_each(0, usize::MAX, Direction::Up, |member, score| {
                found.push((member.to_vec(), score));
            });
            assert_eq!(found, order);
        }
    }
    (!model.is_empty()).then_some(Collection::SortedSet(set))
}

/// Returns the members of `model` by score, and by name where scores are equal.
fn ordered(model: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut all: Vec<_> = model.iter().map(|(member, score)| (member.clone(), *score)).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all
}

/// Asserts that `collection` is read as it was written.
fn comes_back(collection: &Collection, rules: &Rules) {
    let view: CollectionView<'_> = collection.view();
    let mut payload = Vec::new();
    rdb::encode(Stored::Collection(view), &mut payload);
    let value = rdb::open(&payload).expect("it was sealed");
    let options = DecodeOptions { rules, encoding: None, string_bytes_max: 1 << 30 };
    let read = rdb::decode(value, &options, &mut |_| Ok::<(), ()>(()));
    let Ok(Value::Collection(read)) = read else { panic!("what is written can be read") };
    assert!(parts(&read) == parts(collection));
}
