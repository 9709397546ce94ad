//! The rules that keep a reader in another process safe, by name, and a way to break one.
//!
//! The test that shows that readers never see a torn or a foreign value proves something only if it
//! fails when a rule is broken. With the feature `protocol-mutations`, which only that test
//! enables, `break_rule` breaks one for the whole process; without it every rule is kept and the
//! check costs nothing.

/// A rule of the protocol between the writer and readers in other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// A bucket is odd while an entry of its chain is unlinked.
    OddWhileUnlinking = 1,
    /// A bucket is odd while a slot of its chain comes to refer to other memory: a new entry, a
    /// value that changes size, an evacuation.
    OddWhileRelinking,
    /// A bucket is odd while what it refers to is overwritten in place.
    OddWhileOverwriting,
    /// A bucket is odd while a small entry is moved up on its page, over its own old place.
    OddWhileCompacting,
    /// A location says "changing" while its block is overwritten or moved.
    MarkedWhileChanging,
    /// Header and buckets are odd while entries go to another bucket, the header too while buckets
    /// or the directory move.
    OddWhileSplitting,
    /// The header is odd while a table begins, ends or is cleared.
    OddWhileClearing,
    /// The header is odd while two tables exchange their contents.
    OddWhileSwapping,
    /// The header is odd while MULTI holds the shard.
    OddWhileFrozen,
    /// A block is unlinked before its memory is free.
    UnlinkedBeforeFreed,
    /// The segment epoch grows when a segment appears or goes.
    EpochGrows,
    /// A pinned block is not slid.
    PinnedStays,
    /// A pinned block is not changed in place.
    PinnedUnchanged,
    /// A pinned block is not freed.
    PinnedKept,
    /// A reader publishes its pin.
    ReaderPins,
    /// A reader looks at the location again.
    ReaderChecksLocation,
    /// A reader looks at the bucket's sequence again.
    ReaderChecksBucket,
    /// A reader looks at the header's sequence again.
    ReaderChecksHeader,
    /// A reader looks at the segment epoch again.
    ReaderChecksEpoch,
    /// A reader goes away while a sequence is odd.
    ReaderMindsOdd,
}

#[cfg(feature = "protocol-mutations")]
impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 20] = [
        Rule::OddWhileUnlinking,
        Rule::OddWhileRelinking,
        Rule::OddWhileOverwriting,
        Rule::OddWhileCompacting,
        Rule::MarkedWhileChanging,
        Rule::OddWhileSplitting,
        Rule::OddWhileClearing,
        Rule::OddWhileSwapping,
        Rule::OddWhileFrozen,
        Rule::UnlinkedBeforeFreed,
        Rule::EpochGrows,
        Rule::PinnedStays,
        Rule::PinnedUnchanged,
        Rule::PinnedKept,
        Rule::ReaderPins,
        Rule::ReaderChecksLocation,
        Rule::ReaderChecksBucket,
        Rule::ReaderChecksHeader,
        Rule::ReaderChecksEpoch,
        Rule::ReaderMindsOdd,
    ];
}

#[cfg(feature = "protocol-mutations")]
static BROKEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Breaks `rule`, and no other, from now on in this process.
#[cfg(feature = "protocol-mutations")]
pub fn break_rule(rule: Rule) {
    BROKEN.store(rule as u8, std::sync::atomic::Ordering::SeqCst);
}

/// Returns whether `rule` holds: always, outside of the one test that breaks rules.
#[cfg(feature = "protocol-mutations")]
#[inline(always)]
pub(crate) fn holds(rule: Rule) -> bool {
    BROKEN.load(std::sync::atomic::Ordering::Relaxed) != rule as u8
}

/// Returns whether `rule` holds: always, outside of the one test that breaks rules.
#[cfg(not(feature = "protocol-mutations"))]
#[inline(always)]
pub(crate) fn holds(_rule: Rule) -> bool {
    true
}

/// Lingers for a moment where a change or a read is half done that `rule` protects: seldom while
/// the rule holds, so that the test that breaks rules meets rare orders, often while it is broken,
/// or while another one is whose breach shows there. Does nothing outside of that test.
#[cfg(feature = "protocol-mutations")]
#[inline(always)]
pub(crate) fn linger(rule: Rule) {
    use std::cell::Cell;
    thread_local!(static RANDOM: Cell<u64> = const { Cell::new(0x9E37_79B9_7F4A_7C15) });
    let random = RANDOM.get();
    let random = random ^ random << 13;
    let random = random ^ random >> 7;
    let random = random ^ random << 17;
    RANDOM.set(random);
    // That a table was cleared shows only to a reader who has found an entry and not yet read it.
    let breach_shows_here = rule == Rule::ReaderChecksLocation && !holds(Rule::OddWhileClearing);
    let often = if holds(rule) && !breach_shows_here { 8 } else { 128 };
    match random >> 56 {
        0 => std::thread::yield_now(),
        chance if chance < often => {
            (0..random >> 40 & 0x3FF).for_each(|_| std::hint::spin_loop());
        }
        _ => {}
    }
}

/// Does nothing outside of the one test that breaks rules.
#[cfg(not(feature = "protocol-mutations"))]
#[inline(always)]
pub(crate) fn linger(_rule: Rule) {}
