//! A hash: fields and their values, in one listpack while they are few and short, then in a table.
//! One whose fields expire has their times beside them (`hash/timed.rs`).

mod timed;

use base::UnixMs;
use base::number_text::{INTEGER_TEXT_BYTES_MAX, IntegerText};

use crate::compact::Compact;
use crate::compact_limits::Rules;
use crate::element::{Element, Needle};
use crate::heap_bytes;
use crate::listpack::{Listpack, SAFE_BYTES};
use crate::listpack_view::{At, ListpackView};
use crate::pairs::PairTable;
use crate::walk::Walked;
use timed::{TimedHash, TimedView};

pub use timed::{FIELD_TIME_MS_MAX, LiveIndexes, field_times_growth_bound};

/// Before all time: nothing has expired.
const NO_TIME: UnixMs = UnixMs(i64::MIN);

/// Fields, each with a value.
#[derive(Clone)]
pub struct Hash {
    body: Body,
}

#[derive(Clone)]
enum Body {
    /// Field, value, field, value.
    Small(Listpack),
    Large(Box<PairTable>),
    /// Some of the fields expire.
    Timed(Box<TimedHash>),
}

/// A hash to read, wherever it lies.
#[derive(Clone, Copy)]
pub struct HashView<'a> {
    body: BodyView<'a>,
}

#[derive(Clone, Copy)]
enum BodyView<'a> {
    Small(ListpackView<'a>),
    Large(&'a PairTable),
    Timed(TimedView<'a>),
}

impl Default for Hash {
    fn default() -> Hash {
        Hash { body: Body::Small(Listpack::new()) }
    }
}

impl Hash {
    /// Returns an empty hash in a table.
    pub fn large() -> Hash {
        Hash { body: Body::Large(Box::default()) }
    }

    /// Returns the hash of `pack`: a field, its value, a field, its value. `None` where the last
    /// field has no value, or one is there twice.
    pub fn from_pack(pack: Listpack) -> Option<Hash> {
        let is_whole = pack.count().is_multiple_of(2) && !pack.view().has_twice(2);
        is_whole.then_some(Hash { body: Body::Small(pack) })
    }

    /// Returns an empty hash in the memory of `buffer`, whose bytes go.
    #[inline]
    pub fn empty_in(buffer: Vec<u8>) -> Hash {
        Hash { body: Body::Small(Listpack::empty_in(buffer)) }
    }

    /// Returns the hash of `compact`, copied to the memory of `buffer`, whose bytes go.
    #[inline]
    pub fn copy_in(compact: Compact<'_>, buffer: Vec<u8>) -> Hash {
        Hash { body: Body::Small(Listpack::copy_in(compact.pack(), buffer)) }
    }

    /// Returns the memory of the listpack; none where it is another form.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        match self.body {
            Body::Small(pack) => pack.into_buffer(),
            Body::Large(_) | Body::Timed(_) => Vec::new(),
        }
    }

    /// Returns it, to read, with all fields that are stored: those that have expired too.
    #[inline]
    pub fn view(&self) -> HashView<'_> {
        self.view_at(NO_TIME)
    }

    /// Returns what a walk leads through, unless the hash is compact.
    pub(crate) fn walked(&mut self) -> Option<&mut dyn Walked> {
        match &mut self.body {
            Body::Small(_) => None,
            Body::Large(table) => Some(&mut **table),
            Body::Timed(timed) => timed.walked(),
        }
    }

    /// Returns it, to read, without the fields that have expired by `now`.
    #[inline]
    pub fn view_at(&self, now: UnixMs) -> HashView<'_> {
        let body = match &self.body {
            Body::Small(pack) => BodyView::Small(pack.view()),
            Body::Large(table) => BodyView::Large(table),
            Body::Timed(timed) => BodyView::Timed(timed.view_at(now)),
        };
        HashView { body }
    }

    /// Returns the number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the fields are one listpack.
    pub fn is_small(&self) -> bool {
        self.view().is_small()
    }

    /// Returns the bytes of memory that it takes beside itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        match &self.body {
            Body::Small(pack) => pack.memory_bytes(),
            Body::Large(table) => table_bytes(table),
            Body::Timed(timed) => timed.memory_bytes(),
        }
    }

    /// Gives memory back when half of a listpack is unused: removing fields does not.
    #[inline]
    pub fn give_back(&mut self) {
        match &mut self.body {
            Body::Small(pack) => pack.give_back(),
            Body::Large(_) => {}
            Body::Timed(timed) => timed.give_back(),
        }
    }

    /// Makes ready for fields and values that will be set together: a long one among them makes a
    /// table of a listpack first, as in Redis.
    ///
    /// Source: Redis 7.2, `hashTypeTryConversion`.
    #[inline]
    pub fn prepare<'e>(&mut self, parts: impl Iterator<Item = &'e [u8]>, rules: &Rules) {
        let pack = match &mut self.body {
            Body::Small(pack) => pack,
            Body::Large(_) => return,
            Body::Timed(timed) => return timed.prepare(parts, rules),
        };
        let longest = rules.limits.hash_value_bytes;
        let mut total = pack.bytes().len();
        for part in parts {
            total += part.len();
            if part.len() as u64 > longest || total > SAFE_BYTES {
                return self.enlarge(rules);
            }
        }
    }

    /// Makes `value` the value of `field`, which expires no more; returns whether the field is new.
    #[inline]
    pub fn set(&mut self, field: &[u8], value: &[u8], rules: &Rules) -> bool {
        let is_new = match &mut self.body {
            Body::Small(pack) => set_in_pack(pack, field, value),
            Body::Large(table) => return set_in_table(table, field, value, rules),
            Body::Timed(_) => return self.set_timed(field, value, rules),
        };
        if is_new && self.len() as u64 > rules.limits.hash_entries {
            self.enlarge(rules);
        }
        is_new
    }

    /// Makes the value of `field` the integer that `rule` returns for the value that it has; a time
    /// that it has stays. Returns that, or the rule's error, and nothing has changed.
    pub fn update_number<E>(
        &mut self,
        field: &[u8],
        rules: &Rules,
        rule: impl FnOnce(Option<Element<'_>>) -> Result<i64, E>,
    ) -> Result<i64, E> {
        let number = match &mut self.body {
            Body::Small(pack) => {
                let view = pack.view();
                let found = find(view, field).map(|at| view.next(at).expect("a field has a value"));
                let number = rule(found.map(|at| view.get(at)))?;
                // The text of a number is at most that long.
                let longest = field.len().max(INTEGER_TEXT_BYTES_MAX) as u64;
                if let Some(at) = found
                    && longest <= rules.limits.hash_value_bytes
                    && pack.bytes().len() < SAFE_BYTES / 2
                {
                    pack.replace_integer(at, number);
                    return Ok(number);
                }
                number
            }
            _ => rule(self.view().get(field, rules))?,
        };
        let text = IntegerText::new(number);
        self.prepare([field, text.as_bytes()].into_iter(), rules);
        self.set_keeping_time(field, text.as_bytes(), rules);
        Ok(number)
    }

    /// Takes `field` out; returns whether it was there.
    pub fn remove(&mut self, field: &[u8], rules: &Rules) -> bool {
        match &mut self.body {
            Body::Small(pack) => {
                let Some(at) = find(pack.view(), field) else { return false };
                pack.remove(at, 2);
                true
            }
            Body::Large(table) => {
                let Some(position) = table.find(rules.hasher.hash(field), field) else {
                    return false;
                };
                table.remove(position);
                true
            }
            Body::Timed(_) => self.remove_timed(field, rules),
        }
    }

    /// Becomes `pack`, which has its fields with their values in an order of its own.
    ///
    /// # Panics
    /// When fields have times, which they get afterwards, or the pack has another number of parts.
    pub fn become_pack(&mut self, mut pack: Listpack) {
        assert!(!self.is_timed(), "fields have no times before they are stored");
        assert_eq!(pack.count(), 2 * self.len(), "the pack has the fields of the hash");
        pack.shrink();
        self.body = Body::Small(pack);
    }

    /// Becomes a table.
    fn enlarge(&mut self, rules: &Rules) {
        let Body::Small(pack) = &self.body else { return };
        let mut table = PairTable::default();
        let mut parts = pack.iter();
        while let (Some(field), Some(value)) = (parts.next(), parts.next()) {
            field.with_bytes(|field| {
                value.with_bytes(|value| table.insert(rules.hasher.hash(field), field, value));
            });
        }
        self.body = Body::Large(Box::new(table));
    }
}

impl<'a> HashView<'a> {
    /// Returns the hash whose compact form this is.
    #[inline]
    pub fn of_compact(compact: Compact<'a>) -> HashView<'a> {
        HashView { body: BodyView::Small(compact.pack()) }
    }

    /// Returns the compact form, where it has one.
    #[inline]
    pub fn compact(self) -> Option<Compact<'a>> {
        self.pack().map(Compact::Listpack)
    }

    /// Returns the listpack, where it is one and nothing else.
    #[inline]
    pub fn pack(self) -> Option<ListpackView<'a>> {
        match self.body {
            BodyView::Small(pack) => Some(pack),
            BodyView::Large(_) | BodyView::Timed(_) => None,
        }
    }

    #[inline]
    fn timed(self) -> Option<TimedView<'a>> {
        match self.body {
            BodyView::Timed(timed) => Some(timed),
            BodyView::Small(_) | BodyView::Large(_) => None,
        }
    }

    /// Returns the number of fields, those included that have expired and were not removed yet.
    #[inline]
    pub fn len(self) -> usize {
        match self.body {
            BodyView::Small(pack) => pack.count() / 2,
            BodyView::Large(table) => table.len(),
            BodyView::Timed(timed) => timed.fields().len(),
        }
    }

    /// Returns whether there are no fields.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns whether the fields are one listpack.
    pub fn is_small(self) -> bool {
        match self.body {
            BodyView::Small(_) => true,
            BodyView::Large(_) => false,
            BodyView::Timed(timed) => timed.fields().is_small(),
        }
    }

    /// Returns the bytes that its parts take: of a listpack, those of the listpack alone.
    pub fn memory_bytes(self) -> u64 {
        match self.body {
            BodyView::Small(pack) => pack.bytes().len() as u64,
            BodyView::Large(table) => table_bytes(table),
            BodyView::Timed(timed) => timed.memory_bytes(),
        }
    }

    /// Returns the value of `field`.
    #[inline]
    pub fn get(self, field: &[u8], rules: &Rules) -> Option<Element<'a>> {
        match self.body {
            BodyView::Small(pack) => {
                let at = find(pack, field)?;
                Some(pack.get(pack.next(at)?))
            }
            BodyView::Large(table) => {
                let position = table.find(rules.hasher.hash(field), field)?;
                Some(Element::Bytes(table.pair(position).1))
            }
            BodyView::Timed(timed) => timed.get(field, rules),
        }
    }

    /// Visits all fields that have not expired, with their values.
    pub fn for_each(self, mut visit: impl FnMut(Element<'_>, Element<'_>)) {
        match self.body {
            BodyView::Small(pack) => {
                let mut parts = pack.iter();
                while let (Some(field), Some(value)) = (parts.next(), parts.next()) {
                    visit(field, value);
                }
            }
            BodyView::Large(table) => table.iter().for_each(|(field, value)| {
                visit(Element::Bytes(field), Element::Bytes(value));
            }),
            BodyView::Timed(timed) => timed.for_each(&mut visit),
        }
    }

    /// Returns field `index` with its value, in no order, expired or not: all indexes below the
    /// length are all fields.
    pub fn at(self, index: usize) -> Option<(Element<'a>, Element<'a>)> {
        match self.body {
            BodyView::Small(pack) => {
                let at = pack.seek(2 * index, pack.count())?;
                Some((pack.get(at), pack.get(pack.next(at)?)))
            }
            BodyView::Large(table) => {
                let (field, value) = table.at(index)?;
                Some((Element::Bytes(field), Element::Bytes(value)))
            }
            BodyView::Timed(timed) => timed.fields().at(index),
        }
    }

    /// Returns the fields of a listpack by their indexes, for who wants many: [`HashView::at`]
    /// walks to each. Returns none of a table, where it takes one step.
    pub fn listpack_fields(self) -> Vec<(Element<'a>, Element<'a>)> {
        let fields = self.timed().map_or(self, TimedView::fields);
        let BodyView::Small(pack) = fields.body else { return Vec::new() };
        let mut parts = pack.iter();
        std::iter::from_fn(|| Some((parts.next()?, parts.next()?))).collect()
    }

    /// Visits some fields that have not expired, with their values, and returns the cursor to go on
    /// with; see HSCAN.
    pub fn scan(self, cursor: u64, mut visit: impl FnMut(Element<'_>, Element<'_>)) -> u64 {
        match self.body {
            BodyView::Small(_) => {
                self.for_each(visit);
                0
            }
            BodyView::Large(table) => table.scan(cursor, &mut |field, value| {
                visit(Element::Bytes(field), Element::Bytes(value));
            }),
            BodyView::Timed(timed) => timed.scan(cursor, &mut visit),
        }
    }
}

/// Returns the bytes that a table takes.
#[inline]
fn table_bytes(table: &PairTable) -> u64 {
    heap_bytes(size_of::<PairTable>()) + table.memory_bytes()
}

#[inline]
fn find(pack: ListpackView<'_>, field: &[u8]) -> Option<At> {
    pack.find(pack.first(), &Needle::new(field), 2)
}

fn set_in_pack(pack: &mut Listpack, field: &[u8], value: &[u8]) -> bool {
    match find(pack.view(), field) {
        Some(at) => {
            let at = pack.view().next(at).expect("a field has a value");
            pack.replace(at, value);
            false
        }
        None => {
            pack.push_back_pair(field, value);
            true
        }
    }
}

fn set_in_table(table: &mut PairTable, field: &[u8], value: &[u8], rules: &Rules) -> bool {
    let hash = rules.hasher.hash(field);
    match table.find(hash, field) {
        Some(position) => {
            table.set_value(position, value);
            false
        }
        None => {
            table.insert(hash, field, value);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use base::SecretHasher;
    use base::prng::Prng;

    use super::*;
    use crate::Limits;

    fn rules() -> Rules {
        Rules { limits: Limits::default(), hasher: SecretHasher::new([1, 1]) }
    }

    fn check(hash: &Hash, model: &HashMap<Vec<u8>, Vec<u8>>) {
        assert_eq!(hash.len(), model.len());
        let mut found = HashMap::new();
        hash.view().for_each(|field, value| {
            assert!(found.insert(field.to_vec(), value.to_vec()).is_none());
        });
        assert_eq!(found, *model);
        let by_index = (0..=hash.len()).map_while(|index| hash.view().at(index));
        assert!(by_index.map(|(field, value)| (field.to_vec(), value.to_vec())).eq(found_in(hash)));
        let listed = hash.view().listpack_fields();
        assert_eq!(listed.len(), if hash.is_small() { hash.len() } else { 0 });
        assert!((0..).map_while(|index| hash.view().at(index)).take(listed.len()).eq(listed));
    }

    fn found_in(hash: &Hash) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        hash.view().for_each(|field, value| found.push((field.to_vec(), value.to_vec())));
        found
    }

    #[test]
    fn numbers_are_updated_wherever_they_are() {
        let rules = rules();
        let mut random = Prng::new(5);
        for bound in [5, 2000] {
            let (mut hash, mut model) = (Hash::default(), HashMap::new());
            hash.set(b"text", b"none", &rules);
            for _ in 0..4000 {
                let field = format!("field {}", random.below(bound)).into_bytes();
                let more = random.next() as i64 >> random.below(64);
                let expected = model.get(&field).copied();
                let updated = hash.update_number(&field, &rules, |value| {
                    let old = value.map(|value| match value {
                        Element::Integer(integer) => integer,
                        Element::Bytes(bytes) => {
                            std::str::from_utf8(bytes).unwrap().parse().unwrap()
                        }
                    });
                    assert_eq!(old, expected);
                    old.unwrap_or(0).checked_add(more).ok_or(())
                });
                if let Ok(number) = updated {
                    model.insert(field, number);
                }
                assert_eq!(updated, expected.unwrap_or(0).checked_add(more).ok_or(()));
            }
            assert_eq!(hash.update_number(b"text", &rules, |_| Err(7)), Err(7));
            let mut model: HashMap<Vec<u8>, Vec<u8>> = model
                .into_iter()
                .map(|(field, number)| (field, number.to_string().into_bytes()))
                .collect();
            model.insert(b"text".to_vec(), b"none".to_vec());
            check(&hash, &model);
            assert_eq!(hash.is_small(), bound == 5);
        }
    }

    #[test]
    fn any_history_leaves_what_a_map_would_have() {
        let (rules, mut random) = (rules(), Prng::new(1));
        for (bound, value_bytes) in [(20, 30), (300, 30), (300, 5000), (3000, 10)] {
            let (mut hash, mut model) = (Hash::default(), HashMap::new());
            for step in 0..3000 {
                let number = random.below(bound);
                let field = match number % 7 {
                    0 => format!("{number}").into_bytes(),
                    1 => vec![b'f'; number as usize * 2],
                    _ => format!("field {number}").into_bytes(),
                };
                let value = vec![b'v'; random.below(value_bytes) as usize];
                if random.one_in(3) {
                    assert_eq!(hash.remove(&field, &rules), model.remove(&field).is_some());
                } else {
                    hash.prepare([&*field, &value].into_iter(), &rules);
                    let is_new = model.insert(field.clone(), value.clone()).is_none();
                    assert_eq!(hash.set(&field, &value, &rules), is_new);
                }
                let found = hash.view().get(&field, &rules).map(|value| value.to_vec());
                assert_eq!(found, model.get(&field).cloned());
                if step % 50 == 0 {
                    check(&hash, &model);
                }
            }
        }
    }

    #[test]
    fn bounds_of_the_compact_form_are_those_of_the_options() {
        let rules = rules();
        let mut hash = Hash::default();
        for number in 0..512 {
            hash.set(format!("{number}").as_bytes(), &[b'v'; 64], &rules);
        }
        assert!(hash.is_small());
        hash.set(b"0", b"w", &rules);
        assert!(hash.is_small());
        hash.set(b"one more", b"w", &rules);
        assert!(!hash.is_small() && hash.len() == 513);
        let mut hash = Hash::default();
        hash.prepare([b"f".as_slice(), &[b'v'; 65]].into_iter(), &rules);
        assert!(!hash.is_small());
    }

    #[test]
    fn a_listpack_of_pairs_is_a_hash_and_a_table_becomes_one() {
        let rules = rules();
        let mut hash = Hash::large();
        for number in 0..300 {
            assert!(hash.set(format!("f{number}").as_bytes(), b"value", &rules));
        }
        let all = found_in(&hash);
        let mut pack = Listpack::new();
        for number in (0..300).rev() {
            pack.push_back(format!("f{number}").as_bytes());
            pack.push_back(b"value");
        }
        hash.become_pack(pack);
        assert!(hash.is_small());
        assert!(found_in(&hash).iter().rev().eq(&all), "the fields of the table, in another order");
        let pack = Listpack::copy_in(hash.view().pack().unwrap(), Vec::new());
        let mut again = Hash::from_pack(pack.clone()).unwrap();
        assert!(!again.set(b"f7", b"other", &rules) && again.len() == 300);
        let mut odd = pack.clone();
        odd.push_back(b"f300");
        assert!(Hash::from_pack(odd.clone()).is_none());
        odd.push_back(b"value");
        assert!(Hash::from_pack(odd.clone()).is_some());
        odd.push_back(b"f9");
        odd.push_back(b"value");
        assert!(Hash::from_pack(odd).is_none());
    }
}
