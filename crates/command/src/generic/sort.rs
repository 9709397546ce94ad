//! SORT and SORT_RO: the elements of a list, a set or a sorted set in order, by themselves or by
//! what other keys hold, which `sort_values.rs` looks up.
//!
//! The elements are copied, as bytes or as the integers that they are stored as, and sorted by
//! numbers that are computed once. Ties are broken as in Redis, so that the result does not depend
//! on how the elements are stored: by the bytes of the elements, or, where values of other keys
//! are compared as text, by the order in which the elements were.

use std::cmp::Ordering;
use std::ops::Range;

use base::Key;
use base::step_counters::{CountedStep, count_step};
use collections::{CollectionView, Direction, Element, List, ListLimit};
use keyspace::{Content, ReadView, Scratch};

use super::sort_values::{Found, Pattern, Values, score_of};
use crate::handler::element::reply_element;
use crate::prelude::*;
use crate::string::reply::{REFERENCED_BYTES_MIN, reply_part};
use crate::table::key_spec::Extent;

const NOT_SCORES: CommandError =
    CommandError::Fixed("ERR One or more scores can't be converted into double");

const SOURCE: KeySpec = KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS));
const OTHERS: KeySpec = KeySpec { extent: Extent::Unknown, ..SOURCE }.note(
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the \
     content of the key we sort",
);
const TARGET: KeySpec = KeySpec {
    extent: Extent::BehindWord {
        word: "STORE",
        passed: &[("LIMIT", 2), ("BY", 1), ("GET", 1)],
        is_shown: false,
    },
    ..KeySpec::at(1, KeyFlags::OW.with(KeyFlags::UPDATE))
}
.note(
    "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear \
     anywhere in the argument array",
);

const BY: Arg = Arg::key_pattern("by-pattern", 1).token("BY").among(PATTERNS).optional();
const LIMIT: Arg = Arg::block(
    "limit",
    &[Arg::integer("offset").within(-1, 5), Arg::integer("count").within(-1, 10)],
)
.token("LIMIT")
.optional();
const GET: Arg = Arg::key_pattern("get-pattern", 1)
    .token("GET")
    .among(PATTERNS)
    .optional()
    .multiple()
    .token_each();
const ORDER: Arg =
    Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional();
const SORTING: Arg = Arg::word("sorting", "ALPHA").optional();

/// Patterns that requests are drawn with.
const PATTERNS: &[&str] = &["key:*", "*", "#", "nosort", "key:*->a", "*->1", "key:*->"];

pub(super) static SORT: Command = Command {
    name: "sort",
    summary: "Sorts the elements of a list, a set or a sorted set, and may store the result.",
    since: "1.0.0",
    complexity: "O(N+M*log(M)), N being the elements, M those that are sorted",
    group: Group::Generic,
    arity: Arity::at_least(2),
    flags: Flags::DENYOOM,
    categories: Categories::SET
        .with(Categories::SORTED_SET)
        .with(Categories::LIST)
        .with(Categories::DANGEROUS),
    keys: &[SOURCE, OTHERS, TARGET],
    args: &[
        Arg::key("key"),
        BY,
        LIMIT,
        GET,
        ORDER,
        SORTING,
        Arg::key("destination").token("STORE").spec(2).optional(),
    ],
    example: "> RPUSH depths 40 7 120\n(integer) 3\n\
        > SORT depths\n1) \"7\"\n2) \"40\"\n3) \"120\"\n\
        > SORT depths DESC LIMIT 0 1\n1) \"120\"\n\
        > SORT depths ALPHA STORE sorted\n(integer) 3\n\
        > LRANGE sorted 0 -1\n1) \"120\"\n2) \"40\"\n3) \"7\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

pub(super) static SORT_RO: Command = Command {
    name: "sort_ro",
    summary: "Returns the elements of a list, a set or a sorted set in order.",
    since: "7.0.0",
    flags: Flags::NONE,
    keys: &[SOURCE, OTHERS],
    args: &[Arg::key("key"), BY, LIMIT, GET, ORDER, SORTING],
    example: "> RPUSH depths 40 7 120\n(integer) 3\n\
        > SORT_RO depths\n1) \"7\"\n2) \"40\"\n3) \"120\"",
    handler: Handler::Read(|cx, args, reply| {
        let options = Options::parse(args, false)?;
        let key = args.key(0);
        let sorted = sorted(cx.view, key, &options, &|bytes| cx.scratch(key, bytes))?;
        sorted.reply(cx.view, key, &options, reply);
        Ok(())
    }),
    ..SORT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let options = Options::parse(args, true)?;
    let key = args.key(0);
    let target = args.keys().last().expect("it has a key");
    let limit = options.stores.then(|| cx.view.current_rules(target).limits.list);
    let ask = |bytes| cx.scratch(key, bytes, 0);
    let sorted = sorted(cx.view.as_read(), key, &options, &ask)?;
    let Some(limit) = limit else {
        sorted.reply(cx.view.as_read(), key, &options, reply);
        return Ok(());
    };
    let (list, scratch) = sorted.to_list(limit, &ask)?;
    // What was asked for is the list's from here on.
    drop((sorted, scratch));
    let length = list.len();
    cx.view.name_event("sortstore");
    cx.view.store_collection(target, list)?;
    reply.integer(length as i64);
    Ok(())
}

/// What a request asks for.
struct Options<'a> {
    /// BY: what the elements are sorted by, instead of themselves.
    by: Option<Pattern<'a>>,
    /// BY without an asterisk: they stay as they are.
    stays: bool,
    /// LIMIT: the first, and how many; all if negative.
    limit: (i64, i64),
    /// GET: what is returned for each instead of it.
    get: Vec<Pattern<'a>>,
    is_descending: bool,
    /// ALPHA: as text, not as numbers.
    is_text: bool,
    /// STORE: the last key of the request is to hold the result.
    stores: bool,
}

impl<'a> Options<'a> {
    /// Reads the options; of one that is there twice the later counts.
    fn parse(args: Args<'a>, may_store: bool) -> Result<Options<'a>, CommandError> {
        let mut options = Options {
            by: None,
            stays: false,
            limit: (0, -1),
            get: Vec::new(),
            is_descending: false,
            is_text: false,
            stores: false,
        };
        let mut index = 2;
        while index < args.len() {
            let left = args.len() - index - 1;
            index += match () {
                () if args.is(index, "ASC") => {
                    options.is_descending = false;
                    1
                }
                () if args.is(index, "DESC") => {
                    options.is_descending = true;
                    1
                }
                () if args.is(index, "ALPHA") => {
                    options.is_text = true;
                    1
                }
                () if args.is(index, "LIMIT") && left >= 2 => {
                    options.limit = (args.integer(index + 1)?, args.integer(index + 2)?);
                    3
                }
                () if may_store && args.is(index, "STORE") && left >= 1 => {
                    options.stores = true;
                    2
                }
                () if args.is(index, "BY") && left >= 1 => {
                    let pattern = Pattern::parse(args.at(index + 1));
                    // Once said, it stays said, whatever other pattern follows.
                    options.stays |= !pattern.has_asterisk();
                    options.by = Some(pattern);
                    2
                }
                () if args.is(index, "GET") && left >= 1 => {
                    options.get.push(Pattern::parse(args.at(index + 1)));
                    2
                }
                () => return Err(CommandError::Syntax),
            };
        }
        Ok(options)
    }

    fn directed(&self, order: Ordering) -> Ordering {
        if self.is_descending { order.reverse() } else { order }
    }

    /// Returns which of `count` elements are wanted, once they are in order.
    fn range(&self, count: usize) -> Range<usize> {
        let (first, most) = self.limit;
        let start = usize::try_from(first.max(0)).unwrap_or(usize::MAX).min(count);
        match usize::try_from(most) {
            Ok(most) => start..start.saturating_add(most).min(count),
            Err(_) => start..count,
        }
    }
}

/// What is returned or stored.
struct Sorted<'v> {
    parts: Parts,
    /// What GET asks for, for one part after the other.
    found: Vec<Option<Found<'v>>>,
    /// How many values are asked for of each part; 0 is the part itself.
    get_count: usize,
    /// The right to the memory of all that.
    _scratches: Vec<Scratch>,
}

/// Asks for private memory.
type Ask<'a> = dyn Fn(u64) -> Result<Scratch, Unfinished> + 'a;

/// Returns the elements at `key` that `options` asks for, in order.
fn sorted<'v>(
    view: ReadView<'v>,
    key: &Key<'_>,
    options: &Options<'_>,
    ask: &Ask<'_>,
) -> Result<Sorted<'v>, Unfinished> {
    let collection = match view.content(key) {
        None => None,
        Some(
            Content::Collection(CollectionView::Hash(_) | CollectionView::Stream(_))
            | Content::String(_),
        ) => {
            return Err(CommandError::WrongType.into());
        }
        Some(Content::Collection(collection)) => Some(collection),
    };
    // A set has no order of its own, and what is stored does not depend on how it is kept.
    let is_set = matches!(collection, Some(CollectionView::Set(_)));
    let is_forced = options.stays && options.stores && is_set;
    let stays = options.stays && !is_forced;
    let is_text = options.is_text || is_forced;
    let by = options.by.as_ref().filter(|_| !options.stays);
    let count = collection.map_or(0, count_of);
    let range = options.range(count);
    let taken = if stays { range.clone() } else { 0..count };
    let each = PART_BYTES + if is_text && by.is_some() { TEXT_BYTES } else { 0 };
    let mut scratches = vec![ask((taken.len() * each) as u64)?];
    let mut parts = Parts::default();
    if let Some(collection) = collection {
        let is_reversed = options.is_descending && stays;
        let keeps_integers = by.is_some() || !is_text;
        scratches.push(parts.load(collection, taken, is_reversed, keeps_integers, ask)?);
    }
    let mut values = Values::new(view, key, ask, &mut scratches);
    match (by, is_text) {
        _ if stays => {}
        (Some(pattern), true) => parts.sort_by_texts(pattern, &mut values, options, range)?,
        (None, true) => parts.sort_by_bytes(options, range),
        (by, false) => parts.sort_by_scores(by, &mut values, options, range)?,
    }
    let get_count = options.get.len();
    values.ask((parts.order.len() * get_count * size_of::<Option<Found<'_>>>()) as u64)?;
    let mut found = Vec::with_capacity(parts.order.len() * get_count);
    for part in parts.order.iter().filter(|_| get_count > 0) {
        for pattern in &options.get {
            found.push(values.find(pattern, parts.element(*part))?);
        }
    }
    values.check()?;
    Ok(Sorted { parts, found, get_count, _scratches: scratches })
}

impl Sorted<'_> {
    fn reply(
        &self,
        view: ReadView<'_>,
        key: &Key<'_>,
        options: &Options<'_>,
        reply: &mut Reply<'_>,
    ) {
        let Sorted { parts, found, get_count, .. } = self;
        reply.array(parts.order.len() * (*get_count).max(1));
        if *get_count == 0 {
            parts.order.iter().for_each(|part| reply_element(parts.element(*part), reply));
            return;
        }
        for (part, found) in parts.order.iter().zip(found.chunks(*get_count)) {
            if reply.is_cut() {
                return;
            }
            for (pattern, found) in options.get.iter().zip(found) {
                let element = parts.element(*part);
                match found {
                    Some(Found::Text(text)) if text.len() >= REFERENCED_BYTES_MIN => {
                        let mut name = Vec::new();
                        pattern.name(element, &mut name);
                        let key = view.hasher(key).key(&name);
                        reply_part(view, &key, text, 0..text.len(), reply);
                    }
                    Some(found) => reply_element(found.element(element), reply),
                    None => reply.null(),
                }
            }
        }
    }

    /// Returns the same as a list, in which a value that is not there is empty.
    fn to_list(&self, limit: ListLimit, ask: &Ask<'_>) -> Result<(List, Scratch), Unfinished> {
        // What an element takes beside its bytes, the frame of a listpack and its place included.
        const ELEMENT_BYTES: u64 = 32;
        let mut bytes = 0;
        self.for_each(&mut |element| bytes += element.len() as u64 * 5 / 4 + ELEMENT_BYTES);
        let scratch = ask(bytes)?;
        let mut list = List::default();
        self.for_each(&mut |element| list.append(element, limit));
        Ok((list, scratch))
    }

    fn for_each(&self, visit: &mut dyn FnMut(&[u8])) {
        let Sorted { parts, found, get_count, .. } = self;
        if *get_count == 0 {
            parts.order.iter().for_each(|part| parts.element(*part).with_bytes(&mut *visit));
            return;
        }
        for (part, found) in parts.order.iter().zip(found.chunks(*get_count)) {
            for found in found {
                match found {
                    None => visit(&[]),
                    Some(found) => found.element(parts.element(*part)).with_bytes(&mut *visit),
                }
            }
        }
    }
}

/// Copies of elements, in order.
#[derive(Default)]
struct Parts {
    order: Vec<Part>,
    text: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Part {
    Integer(i64),
    /// Bytes of the text.
    Text {
        start: usize,
        length: usize,
    },
}

/// What a part takes, and what it is sorted with.
const PART_BYTES: usize = size_of::<Part>() + size_of::<(i64, Part)>();

/// What the text takes that a part is sorted by: what is found, where it lies and its rank.
const TEXT_BYTES: usize = size_of::<Option<Found<'_>>>()
    + size_of::<Option<Element<'_>>>()
    + size_of::<(Place, usize)>()
    + size_of::<(u32, usize)>()
    + size_of::<usize>()
    + size_of::<u32>();

impl Parts {
    /// Copies the elements of `collection` in the range `taken`, in the other direction where that
    /// is so; those that are integers as text, unless they are to be kept. Returns the right to the
    /// memory of the text.
    fn load(
        &mut self,
        collection: CollectionView<'_>,
        taken: Range<usize>,
        is_reversed: bool,
        keeps_integers: bool,
        ask: &Ask<'_>,
    ) -> Result<Scratch, Unfinished> {
        let is_text =
            |element: &Element<'_>| !(keeps_integers && matches!(element, Element::Integer(_)));
        let mut bytes = 0;
        for_each(collection, taken.clone(), is_reversed, &mut |element| {
            bytes += if is_text(&element) { element.byte_count() } else { 0 };
        });
        let scratch = ask(bytes as u64)?;
        self.text.reserve_exact(bytes);
        self.order.reserve_exact(taken.len());
        let Parts { order, text } = self;
        for_each(collection, taken, is_reversed, &mut |element| {
            order.push(match element {
                Element::Integer(integer) if keeps_integers => Part::Integer(integer),
                _ => element.with_bytes(|bytes| {
                    text.extend_from_slice(bytes);
                    Part::Text { start: text.len() - bytes.len(), length: bytes.len() }
                }),
            });
        });
        // A list is visited from its head on.
        if is_reversed && matches!(collection, CollectionView::List(_)) {
            order.reverse();
        }
        Ok(scratch)
    }

    fn element(&self, part: Part) -> Element<'_> {
        match part {
            Part::Integer(integer) => Element::Integer(integer),
            Part::Text { start, length } => Element::Bytes(&self.text[start..start + length]),
        }
    }

    fn compare(&self, one: Part, other: Part) -> Ordering {
        let (one, other) = (self.element(one), self.element(other));
        other.with_bytes(|other| one.order(other))
    }

    /// Sorts by numbers: those of the elements, or of the values that `by` finds for them.
    fn sort_by_scores(
        &mut self,
        by: Option<&Pattern<'_>>,
        values: &mut Values<'_, '_>,
        options: &Options<'_>,
        range: Range<usize>,
    ) -> Result<(), Unfinished> {
        let order = std::mem::take(&mut self.order);
        let mut is_refused = false;
        let mut scored = Vec::with_capacity(order.len());
        for part in &order {
            let element = self.element(*part);
            let score = match by {
                None => score_of(element),
                // What is not there counts as zero.
                Some(pattern) => match values.find(pattern, element)? {
                    None => Some(0.0),
                    Some(found) => score_of(found.element(element)),
                },
            };
            is_refused |= score.is_none();
            scored.push((rank_of(score.unwrap_or(0.0), options.is_descending), *part));
        }
        values.check()?;
        if is_refused {
            return Err(NOT_SCORES.into());
        }
        arrange(&mut scored, &range, |one: &(i64, Part), other: &(i64, Part)| {
            let by_bytes = || options.directed(self.compare(one.1, other.1));
            one.0.cmp(&other.0).then_with(by_bytes)
        });
        self.order = order;
        self.order.clear();
        self.order.extend(scored[range].iter().map(|(_, part)| *part));
        Ok(())
    }

    fn sort_by_bytes(&mut self, options: &Options<'_>, range: Range<usize>) {
        let mut order = std::mem::take(&mut self.order);
        let compare = |one: &Part, other: &Part| options.directed(self.compare(*one, *other));
        arrange(&mut order, &range, compare);
        order.truncate(range.end);
        order.drain(..range.start);
        self.order = order;
    }

    /// Sorts by the bytes of the values that `by` finds: what is not there comes first, and what is
    /// equal stays in its order.
    fn sort_by_texts(
        &mut self,
        by: &Pattern<'_>,
        values: &mut Values<'_, '_>,
        options: &Options<'_>,
        range: Range<usize>,
    ) -> Result<(), Unfinished> {
        let order = std::mem::take(&mut self.order);
        let mut texts = Vec::with_capacity(order.len());
        for part in &order {
            texts.push(values.find(by, self.element(*part))?);
        }
        values.check()?;
        let texts: Vec<Option<Element<'_>>> = texts
            .iter()
            .zip(&order)
            .map(|(text, part)| text.as_ref().map(|text| text.element(self.element(*part))))
            .collect();
        let mut ranked = ranks_of(&texts);
        let compare = |one: &(u32, usize), other: &(u32, usize)| {
            options.directed(one.0.cmp(&other.0)).then_with(|| one.1.cmp(&other.1))
        };
        arrange(&mut ranked, &range, compare);
        self.order = ranked[range].iter().map(|(_, index)| order[*index]).collect();
        Ok(())
    }
}

/// Returns for each of `texts` its place among the different ones, with its index; what is not
/// there comes first. Many elements may have one text, and texts that are equal may be long: those
/// at one place in memory are compared once for all elements that share it, so that there are as
/// many comparisons as places, times their logarithm.
fn ranks_of(texts: &[Option<Element<'_>>]) -> Vec<(u32, usize)> {
    let mut places: Vec<(Place, usize)> = texts
        .iter()
        .enumerate()
        .filter_map(|(index, text)| text.map(|text| (place_of(text), index)))
        .collect();
    places.sort_unstable();
    places.dedup_by_key(|(place, _)| *place);
    let text = |index: usize| texts[index].expect("it has a place");
    let compare = |one: usize, other: usize| {
        count_step(CountedStep::Text);
        text(other).with_bytes(|bytes| text(one).order(bytes))
    };
    let mut in_order: Vec<usize> = (0..places.len()).collect();
    in_order.sort_unstable_by(|one, other| compare(places[*one].1, places[*other].1));
    let mut ranks = vec![0; places.len()];
    let (mut rank, mut before) = (0, None);
    for position in in_order {
        let index = places[position].1;
        let is_new = before.is_none_or(|before| compare(before, index).is_ne());
        rank += u32::from(is_new);
        ranks[position] = rank;
        before = Some(index);
    }
    let rank_of = |text: Element<'_>| {
        let place = place_of(text);
        let position = places.binary_search_by_key(&place, |(place, _)| *place);
        ranks[position.expect("every text has a place")]
    };
    let ranked = |(index, text): (usize, &Option<Element<'_>>)| (text.map_or(0, rank_of), index);
    texts.iter().enumerate().map(ranked).collect()
}

/// Where a text lies, and its length; of an integer, which lies nowhere, what it is.
type Place = (usize, u64);

fn place_of(text: Element<'_>) -> Place {
    match text {
        Element::Bytes(bytes) => (bytes.as_ptr() as usize, bytes.len() as u64),
        Element::Integer(integer) => (0, integer as u64),
    }
}

/// Puts those of `items` that `range` will have in the order of `compare`, where no two are equal
/// that can be told apart, into their places.
fn arrange<T>(items: &mut [T], range: &Range<usize>, mut compare: impl FnMut(&T, &T) -> Ordering) {
    let end = range.end.min(items.len());
    if end < items.len() && end > 0 {
        items.select_nth_unstable_by(end - 1, &mut compare);
    }
    items[..end].sort_unstable_by(compare);
}

/// Returns an integer that is in the order of the numbers, or in the other one.
fn rank_of(score: f64, is_descending: bool) -> i64 {
    // Both zeroes are equal.
    let bits = (score + 0.0).to_bits() as i64;
    let rank = bits ^ (bits >> 63 & i64::MAX);
    if is_descending { !rank } else { rank }
}

fn count_of(collection: CollectionView<'_>) -> usize {
    match collection {
        CollectionView::List(list) => list.len(),
        CollectionView::Set(set) => set.len(),
        CollectionView::SortedSet(set) => set.len(),
        CollectionView::Hash(_) | CollectionView::Stream(_) => {
            unreachable!("neither hashes nor streams are sorted")
        }
    }
}

/// Visits the elements of `collection` in the range `taken`, which counts from the other end where
/// `is_reversed`, which a set has not. A list is visited from its head on all the same.
fn for_each(
    collection: CollectionView<'_>,
    taken: Range<usize>,
    is_reversed: bool,
    visit: &mut dyn FnMut(Element<'_>),
) {
    let (start, count) = (taken.start, taken.len());
    match collection {
        CollectionView::List(list) if is_reversed => {
            list.for_each(list.len() - taken.end, count, visit)
        }
        CollectionView::List(list) => list.for_each(start, count, visit),
        CollectionView::SortedSet(set) => {
            let direction = if is_reversed { Direction::Down } else { Direction::Up };
            let length = set.len();
            let rank = if is_reversed && count > 0 { length - 1 - start } else { start };
            set.for_each(rank, count, direction, |member, _| visit(member));
        }
        CollectionView::Set(set) => {
            let mut index = 0;
            set.for_each(|member| {
                if taken.contains(&index) {
                    visit(member);
                }
                index += 1;
            });
        }
        CollectionView::Hash(_) | CollectionView::Stream(_) => {
            unreachable!("neither hashes nor streams are sorted")
        }
    }
}
