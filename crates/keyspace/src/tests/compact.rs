//! Collections in their entries and in private memory: they hold what models say, their home
//! follows their size, and taking parts away never lacks room.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::prng::Prng;
use collections::{CollectionView, Direction, End, Hash, Limits, List, Set};

use super::accounting::assert_slot_counts_of;
use super::*;
use crate::{
    Access, Encoding, EvictionPolicy, NeedRoom, Refusal, SweepContext, WhenAbsent, WriteView,
};

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
enum Model {
    List(VecDeque<Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Sorted(BTreeMap<Vec<u8>, i64>),
}

impl Model {
    fn is_empty(&self) -> bool {
        match self {
            Model::List(all) => all.is_empty(),
            Model::Set(all) => all.is_empty(),
            Model::Hash(all) => all.is_empty(),
            Model::Sorted(all) => all.is_empty(),
        }
    }

    fn of(collection: CollectionView<'_>) -> Model {
        match collection {
            CollectionView::List(list) => {
                Model::List(list.iter().map(|element| element.to_vec()).collect())
            }
            CollectionView::Set(set) => {
                let mut all = BTreeSet::new();
                set.for_each(|member| assert!(all.insert(member.to_vec())));
                Model::Set(all)
            }
            CollectionView::Hash(hash) => {
                let mut all = BTreeMap::new();
                hash.for_each(|field, value| drop(all.insert(field.to_vec(), value.to_vec())));
                Model::Hash(all)
            }
            CollectionView::SortedSet(set) => {
                let mut all = BTreeMap::new();
                set.for_each(0, usize::MAX, Direction::Up, |member, score| {
                    all.insert(member.to_vec(), score as i64);
                });
                Model::Sorted(all)
            }
            CollectionView::Stream(_) => unreachable!("a stream has no compact form"),
        }
    }
}

type Models = BTreeMap<String, Model>;

/// Returns the name of key `number`; its type follows from it, and how long it is.
fn name(number: u64) -> String {
    let length = [0, 0, 0, 300, 3900, 4500][number as usize / 4 % 6];
    format!("{number}:{}", "k".repeat(length))
}

/// A change of a key, to be made in the keyspace and in the model alike.
struct Step {
    parts: Vec<Vec<u8>>,
    grows: bool,
    end: End,
    score: i64,
}

impl Step {
    fn draw(random: &mut Prng) -> Step {
        let count = [1, 1, 3, 60][random.below(4) as usize];
        let part = |random: &mut Prng| match random.below(8) {
            0 => vec![b'p'; random.below(60) as usize],
            1 => format!("part {}", random.below(300)).into_bytes(),
            _ => random.below(300).to_string().into_bytes(),
        };
        let parts = (0..count).map(|_| part(random)).collect();
        let (grows, score) = (random.one_in(2), random.below(50) as i64);
        let end = if random.one_in(2) { End::Head } else { End::Tail };
        Step { parts, grows, end, score }
    }

    /// Makes the change of the key, whose type follows from `number`; a refused one is none.
    fn make(&self, view: &mut WriteView<'_>, key: &Key<'_>, number: u64) -> Result<(), Refusal> {
        let slices = self.parts.iter().map(Vec::as_slice);
        let create = WhenAbsent::Create;
        match (number % 4, self.grows) {
            (0, true) => drop(view.push(key, self.end, slices, create)?),
            (0, false) => drop(view.pop(key, self.end, self.parts.len(), |_, _| ())?),
            (1, true) => drop(view.add_members(key, slices)?),
            (1, false) => drop(view.remove_members(key, slices)?),
            (2, true) => {
                let pairs = slices.flat_map(|part| [part, &b"value"[..]]);
                view.set_fields(key, pairs)?;
            }
            (2, false) => {
                view.change(key, "HDEL", slices.clone(), |hash: &mut Hash, rules| {
                    let removed = slices.filter(|field| hash.remove(field, rules)).count();
                    ((), removed > 0)
                })?;
            }
            (_, true) => {
                let score = self.score as f64;
                let pairs: Vec<(f64, &[u8])> = slices.map(|part| (score, part)).collect();
                view.score_members(key, &pairs, create, |_, score| Some(score))?;
            }
            (_, false) => drop(view.remove_scored(key, slices)?),
        }
        Ok(())
    }

    /// Returns what a key is after the change that was `before`.
    fn apply(self, number: u64, before: Option<Model>) -> Option<Model> {
        let mut model = before.unwrap_or_else(|| match number % 4 {
            0 => Model::List(VecDeque::new()),
            1 => Model::Set(BTreeSet::new()),
            2 => Model::Hash(BTreeMap::new()),
            _ => Model::Sorted(BTreeMap::new()),
        });
        for part in self.parts {
            match (&mut model, self.grows) {
                (Model::List(all), true) if self.end == End::Head => all.push_front(part),
                (Model::List(all), true) => all.push_back(part),
                (Model::List(all), false) if self.end == End::Head => drop(all.pop_front()),
                (Model::List(all), false) => drop(all.pop_back()),
                (Model::Set(all), true) => drop(all.insert(part)),
                (Model::Set(all), false) => drop(all.remove(&part)),
                (Model::Hash(all), true) => drop(all.insert(part, b"value".to_vec())),
                (Model::Hash(all), false) => drop(all.remove(&part)),
                (Model::Sorted(all), true) => drop(all.insert(part, self.score)),
                (Model::Sorted(all), false) => drop(all.remove(&part)),
            }
        }
        (!model.is_empty()).then_some(model)
    }
}

/// Gives the key of `number` and its model another name or database, or a copy.
fn move_on(fixture: &Fixture, number: u64, other: u64, copies: bool, models: &mut Models) {
    let (source, target) = (name(number), name(other));
    if source == target {
        return;
    }
    let keys = [fixture.key(&source), fixture.key(&target)];
    let mut guard = fixture.keyspace.lock_keys(&keys);
    guard.begin_atomic();
    let mut view = guard.write(DB0, NOW);
    let moved = match copies {
        true => view.copy_to(&keys[0], &keys[1], DB0),
        false => view.rename(&keys[0], &keys[1]),
    };
    if moved == Ok(true) {
        let model = models[&source].clone();
        models.insert(target, model);
        if !copies {
            models.remove(&source);
        }
    }
    guard.finish();
}

fn check(fixture: &Fixture, models: &mut Models) {
    let mut found = Models::new();
    let [mut small, mut private] = [0; 2];
    Access::free(&fixture.keyspace).for_each_entry(DB0, &mut |object| {
        let name = String::from_utf8(object.key().to_vec()).unwrap();
        let collection = object.collection().expect("every key has one");
        match object.encoding() {
            Encoding::Handle => private += 1,
            _ => small += 1,
        }
        if object.encoding() == Encoding::Handle && !object.header().is_large() {
            let value = object.value();
            let count = value.get(8..16).map(|count| u64::from_le_bytes(count.try_into().unwrap()));
            assert!(count.is_none_or(|count| count == collection.len() as u64));
        }
        found.insert(name, Model::of(collection));
    });
    // Others were evicted.
    models.retain(|name, _| found.contains_key(name));
    assert_eq!(found, *models);
    assert!(small > 0 && private > 0, "{small} in their entries, {private} in private memory");
    assert_slot_counts_of(fixture, &(0..64).map(name).collect::<Vec<_>>());
}

fn run(seed: u64, maxmemory: u64, is_atomic: bool) {
    let fixture = Fixture::with_segments(1 << 16, 256);
    // Compact forms are longer than an entry takes.
    let limits = Limits { set_entries: 512, sorted_set_entries: 512, ..Limits::default() };
    fixture.keyspace.set_collection_limits(limits);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    fixture.keyspace.set_maxmemory(maxmemory);
    let (mut random, mut models, mut refused) = (Prng::new(seed), Models::new(), 0);
    for step in 0..12_000_u64 {
        let number = random.below(64);
        if random.one_in(10) {
            // Types stay with the names.
            let other = (random.below(64) & !3) | number & 3;
            move_on(&fixture, number, other, random.one_in(2), &mut models);
            continue;
        }
        let name = name(number);
        let key = fixture.key(&name);
        let mut guard = fixture.keyspace.lock(key.shard);
        if is_atomic {
            guard.begin_atomic();
        }
        let mut view = guard.write(DB0, NOW);
        if random.one_in(30) {
            let _ = view.set_expiry(&key, later(1 << 40));
            let _ = view.persist(&key);
        }
        if !view.contains(&key) {
            models.remove(&name);
        }
        let change = Step::draw(&mut random);
        let changed = change.make(&mut view, &key, number);
        guard.finish();
        match changed {
            Ok(()) => {
                let model = change.apply(number, models.remove(&name));
                models.extend(model.map(|model| (name, model)));
            }
            Err(Refusal::NeedRoom(need)) => {
                refused += 1;
                let mut context = SweepContext::new(NOW, &mut random);
                let _ = fixture.keyspace.reserve(need, key.shard, &mut context);
            }
            Err(Refusal::WrongType) => panic!("types stay with the names"),
        }
        if step % 500 == 499 {
            check(&fixture, &mut models);
        }
    }
    assert_eq!(refused > 0, maxmemory > 0 && !is_atomic, "{refused} refused");
}

#[test]
fn collections_hold_what_models_say_wherever_they_lie() {
    run(1, 0, false);
    run(2, 0, true);
}

#[test]
fn collections_hold_what_models_say_while_keys_are_evicted() {
    let empty = Fixture::with_segments(1 << 16, 256).keyspace.used_memory();
    run(3, empty + 400_000, false);
    run(4, empty + 400_000, true);
}

fn encoding(fixture: &Fixture, name: &str) -> Encoding {
    let key = fixture.key(name);
    let guard = fixture.keyspace.lock(key.shard);
    guard.read(DB0, NOW).peek(&key).expect("it is there").encoding()
}

#[test]
fn home_follows_the_size() {
    let fixture = Fixture::new();
    let push = |count: usize| {
        let element = [b'x'; 98];
        let elements = std::iter::repeat_n(&element[..], count);
        let create = WhenAbsent::Create;
        fixture.write("k", NOW, |view, key| view.push(key, End::Tail, elements, create)).unwrap()
    };
    push(8);
    assert_eq!(encoding(&fixture, "k"), Encoding::Listpack);
    push(20);
    assert_eq!(encoding(&fixture, "k"), Encoding::Handle);
    let pop = |count| {
        fixture.write("k", NOW, |view, key| view.pop(key, End::Head, count, |_, _| ())).unwrap();
    };
    pop(20 - 2);
    assert_eq!(encoding(&fixture, "k"), Encoding::Handle, "it does not go to and fro");
    pop(5);
    assert_eq!(encoding(&fixture, "k"), Encoding::Listpack);
    fixture.write("k", NOW, |view, key| {
        let list = view.collection::<List>(key).unwrap().unwrap();
        assert_eq!(list.len(), 5);
    });
    fixture.write("s", NOW, |view, key| {
        view.add_members(key, [&b"1"[..], b"2"].into_iter()).unwrap();
        assert!(view.collection::<Set>(key).unwrap().unwrap().contains(b"2", view.rules(key)));
    });
    assert_eq!(encoding(&fixture, "s"), Encoding::Intset);
}

#[test]
fn refused_change_of_a_small_collection_has_changed_nothing() {
    let fixture = Fixture::new();
    let set = |value: &[u8]| {
        let parts = [&b"field"[..], value];
        fixture.write("k", NOW, |view, key| view.set_fields(key, parts.into_iter()))
    };
    set(b"before").unwrap();
    fixture.records();
    fixture.keyspace.set_maxmemory(1);
    assert!(matches!(set(&[b'v'; 3000]), Err(Refusal::NeedRoom(NeedRoom { .. }))));
    assert_eq!(fixture.records(), Vec::<String>::new());
    fixture.write("k", NOW, |view, key| {
        let hash = view.collection::<Hash>(key).unwrap().unwrap();
        assert_eq!(hash.get(b"field", view.rules(key)).unwrap().to_vec(), b"before");
    });
    // What takes parts away is not.
    let delete = |view: &mut WriteView<'_>, key: &Key<'_>| {
        let fields = std::iter::once(&b"field"[..]);
        view.change(key, "HDEL", fields, |hash: &mut Hash, rules| {
            ((), hash.remove(b"field", rules))
        })
    };
    assert_eq!(fixture.write("k", NOW, delete), Ok(Some(())));
    assert!(!fixture.write("k", NOW, |view, key| view.contains(key)));
}
