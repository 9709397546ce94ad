//! The doorbell protocol: a side that sleeps says what for, and the other side wakes it once.
//!
//! Each side has one state word in the header. Zero says that it is awake and polls by itself.
//!
//! ```text
//! sleeper                               waker
//! state = reasons     (relaxed)         put, or take        (release on the index)
//! fence               (seq_cst)         fence               (seq_cst)
//! anything there?     (acquire)         state & reason?     (relaxed)
//! yes: state = 0, go on                 swap(state, 0)      (relaxed)
//! no: sleep until woken                 it was not 0: wake
//! ```
//! Of the two fences one is first: either the sleeper sees what was put or the waker sees the
//! state. The swap makes it one wake for one sleep, however much is put meanwhile.
//!
//! How a side is woken is not here: the server waits for an eventfd among others, the client for a
//! futex on the low half of its state word, or for a byte on a socket.

use std::sync::atomic::Ordering;

use super::lane_memory::SwapWord;

/// Wake me when there is something to read.
pub const NEWS: u64 = 1;
/// Wake me when there is room to write.
pub const ROOM: u64 = 2;
/// I wait for a byte on the lane's socket, not for the futex. Clients only.
pub const BY_SOCKET: u64 = 4;

/// Says that this side is about to sleep and what for. The caller then looks whether it has come
/// already, and sleeps only if not.
#[inline]
pub fn arm<W: SwapWord>(state: &W, reasons: u64) {
    debug_assert!(reasons & (NEWS | ROOM) != 0, "who sleeps for nothing is never woken");
    state.store(reasons, Ordering::Relaxed);
    // SYNC POINT: asleep or seen what came. Pairs with the fence in `claim`.
    W::fence(Ordering::SeqCst);
}

/// Says that this side is awake.
#[inline]
pub fn disarm<W: SwapWord>(state: &W) {
    state.store(0, Ordering::Relaxed);
}

/// Returns whether the other side sleeps for one of `reasons`. Called after an index was stored.
#[inline]
pub fn sleeps_for<W: SwapWord>(state: &W, reasons: u64) -> bool {
    // SYNC POINT: asleep or seen what came. Pairs with the fence in `arm`.
    W::fence(Ordering::SeqCst);
    state.load(Ordering::Relaxed) & reasons != 0
}

/// Returns the reasons of the other side if it sleeps for one in `reasons`; the caller then wakes
/// it, for nobody else will. Called after an index was stored.
#[inline]
pub fn claim<W: SwapWord>(state: &W, reasons: u64) -> Option<u64> {
    if !sleeps_for(state, reasons) {
        return None;
    }
    // The state may have become 0 since, when the sleeper found by itself what it wanted.
    Some(state.swap(0, Ordering::Relaxed)).filter(|found| *found != 0)
}
