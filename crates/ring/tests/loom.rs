//! The ring and the doorbell of a lane under every interleaving and every allowed reordering.
//!
//! The code that runs is `ring::lane` itself, over loom's atomics. Each promise is followed by the
//! same model with one ordering, fence or check left out, which loom must find: a model that cannot
//! fail proves nothing.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p forebay-ring --release --test loom`
#![cfg(loom)]

use std::sync::atomic::Ordering;

use arena::atomic_word::AtomicWord;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, fence};
use loom::thread;
use ring::lane::{
    Cell, LaneEnd, LaneMemory, NEWS, ROOM, Reader, Ring, Side, SwapWord, Writer, arm, claim,
};

/// Nothing is left out.
const SOUND: u8 = 0;
/// Acquire loads are relaxed.
const NO_ACQUIRE_LOAD: u8 = 1;
/// Release stores are relaxed.
const NO_RELEASE_STORE: u8 = 2;
/// Sequentially consistent fences only acquire and release.
const NO_SEQ_CST_FENCE: u8 = 3;

/// A word of the header as one side uses it, with one kind of ordering left out.
#[derive(Clone)]
struct Word<const FAULT: u8>(Arc<AtomicU64>);

impl<const FAULT: u8> Word<FAULT> {
    fn new(value: u64) -> Word<FAULT> {
        Word(Arc::new(AtomicU64::new(value)))
    }

    /// Returns the same word for the other side.
    fn share<const OTHER: u8>(&self) -> Word<OTHER> {
        Word(self.0.clone())
    }
}

impl<const FAULT: u8> AtomicWord for Word<FAULT> {
    fn load(&self, order: Ordering) -> u64 {
        let weak = FAULT == NO_ACQUIRE_LOAD && order == Ordering::Acquire;
        self.0.load(if weak { Ordering::Relaxed } else { order })
    }

    fn store(&self, value: u64, order: Ordering) {
        let weak = FAULT == NO_RELEASE_STORE && order == Ordering::Release;
        self.0.store(value, if weak { Ordering::Relaxed } else { order });
    }

    fn raise(&self, _: u64, _: Ordering) {
        unreachable!("a lane raises nothing");
    }

    fn fence(order: Ordering) {
        fence(if FAULT == NO_SEQ_CST_FENCE { Ordering::AcqRel } else { order });
    }
}

impl<const FAULT: u8> SwapWord for Word<FAULT> {
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.0.swap(value, order)
    }
}

/// A word of a ring as plain memory, so that loom finds every access that the indices do not order.
struct Plain(UnsafeCell<u64>);

impl Cell for Plain {
    fn get(&self) -> u64 {
        // SAFETY: loom checks that nobody writes it meanwhile.
        self.0.with(|word| unsafe { *word })
    }

    fn set(&self, value: u64) {
        // SAFETY: loom checks that nobody else uses it meanwhile.
        self.0.with_mut(|word| unsafe { *word = value });
    }
}

fn cells(count: usize) -> Arc<Vec<Plain>> {
    Arc::new((0..count).map(|_| Plain(UnsafeCell::new(0))).collect())
}

/// A writer puts two frames of one word into a ring that holds one at a time; the reader gets them
/// in order and whole. Each side tries twice.
fn stream_model<const WRITER: u8, const READER: u8>() {
    loom::model(|| {
        let (tail, head) = (Word::<WRITER>::new(0), Word::<WRITER>::new(0));
        let (seen_tail, own_head) = (tail.share::<READER>(), head.share::<READER>());
        let cells = cells(2);
        let shared = cells.clone();
        let writing = thread::spawn(move || {
            let ring = Ring { tail: &tail, head: &head, cells: &shared };
            let mut writer = Writer::default();
            let mut sent = 0_u8;
            for _ in 0..2 {
                let count = writer.write(&ring, &[[sent + 1; 8]]).expect("the head is sound");
                sent += (count / 8) as u8;
            }
        });
        let ring = Ring { tail: &seen_tail, head: &own_head, cells: &cells };
        let mut reader = Reader::default();
        let mut taken = 0;
        for _ in 0..2 {
            let mut target = [0; 8];
            if reader.read(&ring, &mut target).expect("the tail is sound") > 0 {
                taken += 1;
                assert_eq!(target, [taken; 8], "a frame came wrong");
            }
        }
        writing.join().expect("the writer ends");
    });
}

#[test]
fn frames_arrive_whole_and_in_order() {
    stream_model::<SOUND, SOUND>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn tail_without_release_fails() {
    stream_model::<NO_RELEASE_STORE, SOUND>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn tail_without_acquire_fails() {
    stream_model::<SOUND, NO_ACQUIRE_LOAD>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn head_without_release_fails() {
    stream_model::<SOUND, NO_RELEASE_STORE>();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn head_without_acquire_fails() {
    stream_model::<NO_ACQUIRE_LOAD, SOUND>();
}

/// What the sleeper of the doorbell model leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    Nothing,
    /// It sleeps without a look at what has come since.
    SecondLook,
    /// It looks, and then says that it sleeps.
    ArmFirst,
}

/// One side puts something (a tail grows, or a head, which makes room) and wakes; the other
/// sleeps for it. It never sleeps when nobody will wake it.
fn doorbell_model<const WAKER: u8, const SLEEPER: u8>(reason: u64, left: Left) {
    loom::model(move || {
        let (index, state) = (Word::<WAKER>::new(0), Word::<WAKER>::new(0));
        let (seen, own_state) = (index.share::<SLEEPER>(), state.share::<SLEEPER>());
        let waking = thread::spawn(move || {
            index.store(8, Ordering::Release);
            claim(&state, reason).is_some()
        });
        let has_come = || seen.load(Ordering::Acquire) != 0;
        let sleeps = match left {
            Left::ArmFirst => {
                let has_come = has_come();
                arm(&own_state, reason);
                !has_come
            }
            _ => {
                arm(&own_state, reason);
                left == Left::SecondLook || !has_come()
            }
        };
        let is_woken = waking.join().expect("the waker ends");
        assert!(!sleeps || is_woken, "a wake was lost");
    });
}

#[test]
fn nobody_sleeps_while_there_is_something() {
    doorbell_model::<SOUND, SOUND>(NEWS, Left::Nothing);
    doorbell_model::<SOUND, SOUND>(ROOM, Left::Nothing);
}

#[test]
#[should_panic(expected = "a wake was lost")]
fn arm_without_its_fence_fails() {
    doorbell_model::<SOUND, NO_SEQ_CST_FENCE>(NEWS, Left::Nothing);
}

#[test]
#[should_panic(expected = "a wake was lost")]
fn claim_without_its_fence_fails() {
    doorbell_model::<NO_SEQ_CST_FENCE, SOUND>(NEWS, Left::Nothing);
}

#[test]
#[should_panic(expected = "a wake was lost")]
fn sleep_without_a_second_look_fails() {
    doorbell_model::<SOUND, SOUND>(NEWS, Left::SecondLook);
}

#[test]
#[should_panic(expected = "a wake was lost")]
fn look_before_the_state_fails() {
    doorbell_model::<SOUND, SOUND>(NEWS, Left::ArmFirst);
}

/// Words of the header that a lane uses.
const HEADER_WORDS: usize = 128;

/// A lane with rings of two words, as one side uses it.
struct Memory<const FAULT: u8> {
    header: Vec<Word<FAULT>>,
    requests: Arc<Vec<Plain>>,
    replies: Arc<Vec<Plain>>,
}

impl<const FAULT: u8> LaneMemory for Memory<FAULT> {
    type Word = Word<FAULT>;
    type Cell = Plain;

    fn header(&self) -> &[Word<FAULT>] {
        &self.header
    }

    fn requests(&self) -> &[Plain] {
        &self.requests
    }

    fn replies(&self) -> &[Plain] {
        &self.replies
    }
}

/// Returns both ends of a lane whose words that are not used stand for one.
fn lane<const SERVER: u8, const CLIENT: u8>() -> (LaneEnd<Memory<SERVER>>, LaneEnd<Memory<CLIENT>>)
{
    // Loom counts every atomic: those that no protocol uses are one and the same.
    let unused = Word::<SERVER>::new(0);
    let is_used = |at: usize| at >= 16 && at.is_multiple_of(16);
    let header: Vec<_> = (0..HEADER_WORDS)
        .map(|at| if is_used(at) { Word::new(0) } else { unused.clone() })
        .collect();
    let client = Memory {
        header: header.iter().map(Word::share).collect(),
        requests: cells(2),
        replies: cells(2),
    };
    let server =
        Memory { header, requests: client.requests.clone(), replies: client.replies.clone() };
    (LaneEnd::new(server, Side::Server), LaneEnd::new(client, Side::Client))
}

/// A round trip: the client puts a request and sleeps for the reply; the server, which sleeps for
/// the request, takes it and answers. Whoever sleeps at the end has been woken.
fn round_trip_model<const SERVER: u8, const CLIENT: u8>() {
    loom::model(|| {
        let (mut server, mut client) = lane::<SERVER, CLIENT>();
        let serving = thread::spawn(move || {
            let sleeps = !server.arm(NEWS).expect("sound");
            let mut target = [0; 8];
            // Asleep it would be woken and look again: that look is the one of the main thread.
            let taken = if sleeps { 0 } else { server.read(&mut target).expect("sound") };
            let has_woken = taken > 0 && {
                server.write(&[[2; 8]]).expect("sound");
                server.claim(NEWS).is_some()
            };
            (sleeps, taken > 0, has_woken)
        });
        client.write(&[[1; 8]]).expect("sound");
        let has_rung = client.claim(NEWS).is_some();
        let sleeps = !client.arm(NEWS).expect("sound");
        let (server_slept, is_answered, server_woke) = serving.join().expect("it ends");
        assert!(!server_slept || has_rung, "the server sleeps for ever");
        assert!(!(sleeps && is_answered) || server_woke, "the client sleeps for ever");
        if is_answered {
            let mut target = [0; 8];
            assert_eq!(client.read(&mut target), Ok(8));
            assert_eq!(target, [2; 8]);
        }
    });
}

#[test]
fn request_and_reply_wake_each_other() {
    round_trip_model::<SOUND, SOUND>();
}

#[test]
#[should_panic(expected = "sleeps for ever")]
fn round_trip_without_the_fences_of_the_server_fails() {
    round_trip_model::<NO_SEQ_CST_FENCE, SOUND>();
}

#[test]
#[should_panic(expected = "sleeps for ever")]
fn round_trip_without_the_fences_of_the_client_fails() {
    round_trip_model::<SOUND, NO_SEQ_CST_FENCE>();
}

/// The server ends a lane while the client goes to sleep: the client is woken or sees the end, and
/// what was written before the end is there.
fn end_model<const SERVER: u8, const CLIENT: u8>() {
    loom::model(|| {
        let (mut server, mut client) = lane::<SERVER, CLIENT>();
        let ending = thread::spawn(move || {
            server.write(&[[3; 8]]).expect("sound");
            server.close().is_some()
        });
        let sleeps = !client.arm(NEWS).expect("sound") && !client.is_closed();
        let is_woken = ending.join().expect("it ends");
        assert!(!sleeps || is_woken, "the client sleeps for ever");
    });
}

#[test]
fn client_of_a_lane_that_ends_never_sleeps() {
    end_model::<SOUND, SOUND>();
}

#[test]
#[should_panic(expected = "sleeps for ever")]
fn end_without_the_fence_of_the_server_fails() {
    end_model::<NO_SEQ_CST_FENCE, SOUND>();
}

/// What the server wrote before the end is there for a client that sees the end.
fn last_reply_model<const SERVER: u8, const CLIENT: u8>() {
    loom::model(|| {
        let (mut server, mut client) = lane::<SERVER, CLIENT>();
        let ending = thread::spawn(move || {
            server.write(&[[3; 8]]).expect("sound");
            server.close();
        });
        if client.is_closed() {
            assert_eq!(client.read(&mut [0; 8]), Ok(8), "the last reply is not there");
        }
        ending.join().expect("it ends");
    });
}

#[test]
fn last_reply_is_there_when_the_end_is_seen() {
    last_reply_model::<SOUND, SOUND>();
}

#[test]
#[should_panic]
fn end_without_release_fails() {
    last_reply_model::<NO_RELEASE_STORE, SOUND>();
}

#[test]
#[should_panic]
fn end_without_acquire_fails() {
    last_reply_model::<SOUND, NO_ACQUIRE_LOAD>();
}
