//! The sequence and the pin protocol under every interleaving and every allowed reordering.
//!
//! The code that runs is `arena::sequence` and `arena::pins` themselves, over loom's atomics. Each
//! promise is followed by the same model with one ordering, fence or check left out, which loom
//! must find: a model that cannot fail proves nothing.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p forebay-arena --release --test loom`
#![cfg(loom)]

use std::cell::Cell;
use std::sync::atomic::Ordering;

use arena::atomic_word::AtomicWord;
use arena::pins::{before_scan, for_each_pinned, mark_pinned, publish, release};
use arena::sequence::{LOW_HALF, WHOLE, before_reuse, begin, end, end_with, enter, settle, still};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;

/// Nothing is left out.
const SOUND: u8 = 0;
/// Acquire loads are relaxed.
const NO_ACQUIRE_LOAD: u8 = 1;
/// Release stores are relaxed.
const NO_RELEASE_STORE: u8 = 2;
/// Acquire fences do nothing.
const NO_ACQUIRE_FENCE: u8 = 3;
/// Release fences do nothing.
const NO_RELEASE_FENCE: u8 = 4;
/// Sequentially consistent fences only acquire and release.
const NO_SEQ_CST_FENCE: u8 = 5;

/// A word as one side uses it, with one kind of ordering left out.
///
/// A side that is the only one to store remembers what it stored and does not load it again:
/// it would read the same, and loom, which follows only the last access to a word, would take its
/// load for the one that the next store could pass, and miss orders.
struct Word<const FAULT: u8> {
    word: Arc<AtomicU64>,
    stored: Option<Cell<u64>>,
}

impl<const FAULT: u8> Word<FAULT> {
    /// Returns a new word that only this side stores.
    fn owned(value: u64) -> Word<FAULT> {
        Word { word: Arc::new(AtomicU64::new(value)), stored: Some(Cell::new(value)) }
    }

    /// Returns the same word for the other side, which only loads it.
    fn share<const OTHER: u8>(&self) -> Word<OTHER> {
        Word { word: self.word.clone(), stored: None }
    }
}

impl<const FAULT: u8> AtomicWord for Word<FAULT> {
    fn load(&self, order: Ordering) -> u64 {
        if let Some(stored) = &self.stored {
            return stored.get();
        }
        let weak = FAULT == NO_ACQUIRE_LOAD && order == Ordering::Acquire;
        self.word.load(if weak { Ordering::Relaxed } else { order })
    }

    fn store(&self, value: u64, order: Ordering) {
        self.stored.as_ref().expect("only the owner stores").set(value);
        let weak = FAULT == NO_RELEASE_STORE && order == Ordering::Release;
        self.word.store(value, if weak { Ordering::Relaxed } else { order });
    }

    fn raise(&self, value: u64, order: Ordering) {
        self.store(value.max(self.load(Ordering::Relaxed)), order);
    }

    fn fence(order: Ordering) {
        match (FAULT, order) {
            (NO_ACQUIRE_FENCE, Ordering::Acquire) | (NO_RELEASE_FENCE, Ordering::Release) => {}
            (NO_SEQ_CST_FENCE, Ordering::SeqCst) => fence(Ordering::AcqRel),
            _ => fence(order),
        }
    }
}

/// What a side of the sequence model leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    Nothing,
    /// The writer changes the words while the sequence is even, and counts afterwards.
    Odd,
    /// The reader enters although the sequence is odd.
    OddCheck,
    /// The reader believes what it copied.
    Check,
}

fn change<const FAULT: u8>(cell: &Word<FAULT>, data: &[Word<FAULT>; 2], value: u64, left: Left) {
    if left != Left::Odd {
        begin(cell);
    }
    data[0].store(value, Ordering::Relaxed);
    data[1].store(value, Ordering::Relaxed);
    if left == Left::Odd {
        begin(cell);
    }
}

/// One writer changes two words from equal to equal, `changes` times; a reader never accepts two
/// that differ. `mask` says which form the sequence has.
fn sequence_model<const WRITER: u8, const READER: u8>(mask: u64, changes: u64, left: Left) {
    loom::model(move || {
        let cell = Word::<WRITER>::owned(!mask);
        let data = [Word::<WRITER>::owned(0), Word::<WRITER>::owned(0)];
        let shared = cell.share::<READER>();
        let copies = [data[0].share::<READER>(), data[1].share::<READER>()];
        let writer = thread::spawn(move || {
            for value in 1..=changes {
                change(&cell, &data, value, left);
                end(&cell, mask);
            }
        });
        let entered = match left {
            Left::OddCheck => Some(shared.load(Ordering::Acquire)),
            _ => enter(&shared),
        };
        if let Some(seen) = entered {
            let copy = [copies[0].load(Ordering::Relaxed), copies[1].load(Ordering::Relaxed)];
            settle::<Word<READER>>();
            if left == Left::Check || still(&shared, seen, mask) {
                assert_eq!(copy[0], copy[1], "a torn value was accepted");
            }
        }
        writer.join().expect("the writer ends");
    });
}

#[test]
fn reader_of_a_table_header_accepts_no_torn_value() {
    sequence_model::<SOUND, SOUND>(WHOLE, 2, Left::Nothing);
}

#[test]
fn reader_of_a_bucket_accepts_no_torn_value() {
    sequence_model::<SOUND, SOUND>(LOW_HALF, 2, Left::Nothing);
}

#[test]
#[should_panic(expected = "a torn value was accepted")]
fn sequence_without_release_fence_in_begin_fails() {
    sequence_model::<NO_RELEASE_FENCE, SOUND>(WHOLE, 1, Left::Nothing);
}

#[test]
#[should_panic(expected = "a torn value was accepted")]
fn sequence_without_release_in_end_fails() {
    sequence_model::<NO_RELEASE_STORE, SOUND>(WHOLE, 1, Left::Nothing);
}

#[test]
#[should_panic(expected = "a torn value was accepted")]
fn sequence_without_acquire_in_enter_fails() {
    sequence_model::<SOUND, NO_ACQUIRE_LOAD>(WHOLE, 1, Left::Nothing);
}

#[test]
#[should_panic(expected = "a torn value was accepted")]
fn sequence_without_acquire_fence_in_settle_fails() {
    sequence_model::<SOUND, NO_ACQUIRE_FENCE>(WHOLE, 1, Left::Nothing);
}

#[test]
#[should_panic(expected = "a torn value was accepted")]
fn sequence_that_is_even_during_the_change_fails() {
    sequence_model::<SOUND, SOUND>(WHOLE, 1, Left::Odd);
}

#[test]
#[should_panic(expected = "a torn value was accepted")]
fn reader_that_enters_while_odd_fails() {
    sequence_model::<SOUND, SOUND>(WHOLE, 1, Left::OddCheck);
}

#[test]
#[should_panic(expected = "a torn value was accepted")]
fn reader_that_does_not_check_again_fails() {
    sequence_model::<SOUND, SOUND>(WHOLE, 1, Left::Check);
}

/// One thread unlinks an entry; another, which the allocator's lock orders behind it, fills the
/// memory anew. A reader that still finds the link never accepts the new content.
fn reuse_model(fenced: bool) {
    loom::model(move || {
        let cell = Word::<SOUND>::owned(0);
        let (link, content) = (Word::<SOUND>::owned(1), Word::<SOUND>::owned(7));
        let signal = Word::<SOUND>::owned(0);
        let seen_cell = cell.share::<SOUND>();
        let (seen_link, seen_content) = (link.share::<SOUND>(), content.share::<SOUND>());
        let handed_over = signal.share::<SOUND>();
        let unlinking = thread::spawn(move || {
            begin(&cell);
            link.store(0, Ordering::Relaxed);
            end(&cell, WHOLE);
            signal.store(1, Ordering::Release);
        });
        let filling = thread::spawn(move || {
            if handed_over.load(Ordering::Acquire) == 1 {
                if fenced {
                    before_reuse::<Word<SOUND>>();
                }
                content.store(8, Ordering::Relaxed);
            }
        });
        if let Some(seen) = enter(&seen_cell) {
            let found = seen_link.load(Ordering::Relaxed) == 1;
            let copy = seen_content.load(Ordering::Relaxed);
            settle::<Word<SOUND>>();
            if found && still(&seen_cell, seen, WHOLE) {
                assert_eq!(copy, 7, "a foreign value was accepted");
            }
        }
        unlinking.join().expect("it ends");
        filling.join().expect("it ends");
    });
}

#[test]
fn reader_accepts_no_content_of_reused_memory() {
    reuse_model(true);
}

#[test]
#[should_panic(expected = "a foreign value was accepted")]
fn reuse_without_its_fence_fails() {
    reuse_model(false);
}

/// Where the block of the pin model lies.
const BLOCK: u64 = 64;
/// Words of a pin table with one slot.
const PIN_WORDS: usize = 9;

/// What a side of the pin model leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Omitted {
    Nothing,
    /// The reader uses the block without a second look at the location.
    SecondLook,
    /// The writer looks for pins before it marks the block as changing.
    MarkFirst,
    /// The writer does not look for pins.
    Scan,
}

/// Returns whether the block may be changed; it is marked as changing afterwards.
fn mark_and_scan<const FAULT: u8>(
    location: &Word<FAULT>,
    pins: &[Word<FAULT>],
    omitted: Omitted,
) -> bool {
    let is_free = || {
        let mut pinned = false;
        before_scan::<Word<FAULT>>();
        for_each_pinned(pins, |offset| pinned |= offset == BLOCK);
        !pinned
    };
    let early = omitted == Omitted::MarkFirst && is_free();
    begin(location);
    match omitted {
        Omitted::Scan => true,
        Omitted::MarkFirst => early,
        _ => is_free(),
    }
}

/// The writer changes a block in place, `attempts` times, and leaves it alone while pinned; the
/// reader pins it and uses it as plain memory, which loom checks for races.
fn pin_model<const WRITER: u8, const READER: u8>(omitted: Omitted, attempts: u64) {
    loom::model(move || {
        let location = Word::<WRITER>::owned(BLOCK);
        let own_pins: Vec<Word<READER>> = (0..PIN_WORDS).map(|_| Word::owned(0)).collect();
        let block = Arc::new(UnsafeCell::new(0_u64));
        let shared = location.share::<READER>();
        let pins: Vec<Word<WRITER>> = own_pins.iter().map(Word::share).collect();
        let used = block.clone();
        let writer = thread::spawn(move || {
            for version in 1..=attempts {
                if mark_and_scan(&location, &pins, omitted) {
                    // SAFETY: loom checks that nobody else uses it.
                    block.with_mut(|content| unsafe { *content = version });
                }
                end_with(&location, BLOCK | version << 48);
            }
        });
        if let Some(seen) = enter(&shared) {
            publish(&own_pins, 0, BLOCK);
            if omitted == Omitted::SecondLook || still(&shared, seen, WHOLE) {
                // SAFETY: loom checks that nobody writes it meanwhile.
                used.with(|content| unsafe { *content });
            }
            release(&own_pins, 0);
        }
        writer.join().expect("the writer ends");
    });
}

#[test]
fn writer_leaves_a_validated_pin_alone() {
    pin_model::<SOUND, SOUND>(Omitted::Nothing, 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn pin_without_fence_in_publish_fails() {
    pin_model::<SOUND, NO_SEQ_CST_FENCE>(Omitted::Nothing, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn pin_without_fence_before_the_scan_fails() {
    pin_model::<NO_SEQ_CST_FENCE, SOUND>(Omitted::Nothing, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn pin_without_release_fails() {
    pin_model::<SOUND, NO_RELEASE_STORE>(Omitted::Nothing, 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn scan_without_acquire_fails() {
    pin_model::<NO_ACQUIRE_LOAD, SOUND>(Omitted::Nothing, 2);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn pin_without_second_look_fails() {
    pin_model::<SOUND, SOUND>(Omitted::SecondLook, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn scan_before_the_mark_fails() {
    pin_model::<SOUND, SOUND>(Omitted::MarkFirst, 1);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn change_without_scan_fails() {
    pin_model::<SOUND, SOUND>(Omitted::Scan, 1);
}

/// The block that the batch model reuses besides.
const OTHER_BLOCK: u64 = 128;

/// One thread unlinks two blocks and puts their release off; another, which takes the list over,
/// looks at the pins once for both and reuses those that nobody holds. A reader that has pinned one
/// of them uses it as plain memory, which loom checks for races.
fn batch_model<const LOOKING: u8, const READER: u8>(looks_before_it_takes_over: bool) {
    loom::model(move || {
        let location = Word::<SOUND>::owned(BLOCK);
        let list = Word::<SOUND>::owned(0);
        let own_pins: Vec<Word<READER>> = (0..PIN_WORDS).map(|_| Word::owned(0)).collect();
        let blocks = Arc::new([UnsafeCell::new(0_u64), UnsafeCell::new(0_u64)]);
        let shared = location.share::<READER>();
        let taken_over = list.share::<SOUND>();
        let pins: Vec<Word<LOOKING>> = own_pins.iter().map(Word::share).collect();
        let used = blocks.clone();
        let unlinking = thread::spawn(move || {
            begin(&location);
            end_with(&location, 1 << 48);
            list.store(1, Ordering::Release);
        });
        let looking = thread::spawn(move || {
            let look = || {
                let mut pinned = [false; 2];
                before_scan::<Word<LOOKING>>();
                mark_pinned([&pins[..]].into_iter(), &[BLOCK, OTHER_BLOCK], |index| {
                    pinned[index] = true;
                });
                pinned
            };
            let early = looks_before_it_takes_over.then(look);
            if taken_over.load(Ordering::Acquire) == 1 {
                let pinned = early.unwrap_or_else(look);
                for (block, _) in blocks.iter().zip(pinned).filter(|(_, is_pinned)| !is_pinned) {
                    // SAFETY: loom checks that nobody else uses it.
                    block.with_mut(|content| unsafe { *content = 1 });
                }
            }
        });
        if let Some(seen) = enter(&shared) {
            publish(&own_pins, 0, BLOCK);
            if seen == BLOCK && still(&shared, seen, WHOLE) {
                // SAFETY: loom checks that nobody writes it meanwhile.
                used[0].with(|content| unsafe { *content });
            }
            release(&own_pins, 0);
        }
        unlinking.join().expect("it ends");
        looking.join().expect("it ends");
    });
}

#[test]
fn one_look_for_a_batch_leaves_a_validated_pin_alone() {
    batch_model::<SOUND, SOUND>(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn look_before_the_batch_is_complete_fails() {
    batch_model::<SOUND, SOUND>(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn look_for_a_batch_without_its_fence_fails() {
    batch_model::<NO_SEQ_CST_FENCE, SOUND>(false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn look_for_a_batch_without_acquire_fails() {
    batch_model::<NO_ACQUIRE_LOAD, SOUND>(false);
}

/// A word whose [`AtomicWord::raise`] is a load and a store.
struct RaisedInTwoSteps(AtomicU64);

impl AtomicWord for RaisedInTwoSteps {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }

    fn raise(&self, value: u64, order: Ordering) {
        if self.0.load(order) < value {
            self.0.store(value, order);
        }
    }

    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Two threads of one session pin side by side; then the writer looks.
fn two_pins_model<W: AtomicWord + Send + Sync + 'static>(word: fn() -> W) {
    loom::model(move || {
        let words: Arc<Vec<W>> = Arc::new((0..10).map(|_| word()).collect());
        let other = words.clone();
        let thread = thread::spawn(move || publish(&other, 1, 128));
        publish(&words, 0, 64);
        thread.join().unwrap();
        before_scan::<W>();
        let mut seen = 0;
        for_each_pinned(&words, |offset| seen += offset);
        assert_eq!(seen, 64 + 128, "both pins are seen");
    });
}

#[test]
fn pins_of_two_threads_are_both_seen() {
    two_pins_model(|| AtomicU64::new(0));
}

#[test]
#[should_panic(expected = "both pins are seen")]
fn limit_raised_in_two_steps_fails() {
    two_pins_model(|| RaisedInTwoSteps(AtomicU64::new(0)));
}
