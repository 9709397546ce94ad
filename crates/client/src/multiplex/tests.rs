//! Callers that come and go at random over a connection that moves a few bytes at a time, on an
//! executor that polls nothing that was not woken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use base::prng::Prng;

use super::*;

/// A task's waker.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flag {
    fn woken() -> Arc<Flag> {
        Arc::new(Flag(AtomicBool::new(true)))
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// A connection whose other end is the test.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<PipeState>>);

#[derive(Default)]
struct PipeState {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// Bytes that the server has not taken and that the pipe holds.
    room: usize,
    is_cut: bool,
    client: Option<Waker>,
}

impl Duplex for Pipe {
    fn poll_exchange(
        &mut self,
        context: &mut Context<'_>,
        out: &[u8],
        received: &mut Vec<u8>,
    ) -> Poll<io::Result<Moved>> {
        let mut pipe = lock(&self.0);
        if pipe.is_cut {
            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
        }
        let sent = out.len().min(pipe.room);
        pipe.room -= sent;
        pipe.to_server.extend_from_slice(&out[..sent]);
        let moved = Moved { sent, received: pipe.to_client.len() };
        received.append(&mut pipe.to_client);
        if moved == Moved::default() {
            pipe.client = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(moved))
    }
}

impl Pipe {
    fn change<T>(&self, change: impl FnOnce(&mut PipeState) -> T) -> T {
        let mut pipe = lock(&self.0);
        let changed = change(&mut pipe);
        let waker = pipe.client.take();
        drop(pipe);
        waker.into_iter().for_each(Waker::wake);
        changed
    }
}

/// A caller and what it has to get: the words it had echoed.
struct Caller {
    flag: Arc<Flag>,
    response: Response,
    expected: Vec<Reply>,
}

struct Fixture {
    random: Prng,
    pipe: Pipe,
    multiplexer: Multiplexer,
    driver: Driver<Pipe>,
    driver_flag: Arc<Flag>,
    callers: Vec<Caller>,
    next_word: u64,
    answered: usize,
}

impl Fixture {
    fn new(seed: u64) -> Fixture {
        let pipe = Pipe::default();
        let (multiplexer, driver) = Multiplexer::new(pipe.clone());
        Fixture {
            random: Prng::new(seed),
            pipe,
            multiplexer,
            driver,
            driver_flag: Flag::woken(),
            callers: Vec::new(),
            next_word: 0,
            answered: 0,
        }
    }

    fn below(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    fn step(&mut self) {
        match self.below(10) {
            0..=2 => self.ask(),
            3 if !self.callers.is_empty() => {
                let index = self.below(self.callers.len());
                self.callers.swap_remove(index);
            }
            3..=5 => self.poll_all(),
            6 | 7 => {
                let room = self.below(40);
                self.pipe.change(|pipe| pipe.room = room);
            }
            _ => {
                let bytes_max = self.below(60);
                self.serve(bytes_max);
            }
        }
    }

    fn ask(&mut self) {
        let words: Vec<String> = (0..self.below(4))
            .map(|_| {
                self.next_word += 1;
                format!("word {}", self.next_word)
            })
            .collect();
        let requests: Vec<[&[u8]; 2]> =
            words.iter().map(|word| [b"ECHO".as_slice(), word.as_bytes()]).collect();
        let requests: Vec<&[&[u8]]> = requests.iter().map(|request| &request[..]).collect();
        let response = self.multiplexer.send(&requests).expect("it is connected");
        let expected = words.into_iter().map(|word| Reply::Bulk(word.into_bytes())).collect();
        self.callers.push(Caller { flag: Flag::woken(), response, expected });
    }

    /// Polls who was woken.
    fn poll_all(&mut self) {
        if self.driver_flag.take() {
            let waker = Arc::clone(&self.driver_flag).into();
            let polled = Pin::new(&mut self.driver).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending(), "it ends with the connection");
        }
        let before = self.callers.len();
        self.callers.retain_mut(|caller| {
            if !caller.flag.take() {
                return true;
            }
            let waker = Arc::clone(&caller.flag).into();
            match Pin::new(&mut caller.response).poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => true,
                Poll::Ready(replies) => {
                    assert_eq!(replies.expect("the connection lives"), caller.expected);
                    false
                }
            }
        });
        self.answered += before - self.callers.len();
    }

    /// Answers whole requests of the first `bytes_max` bytes, a push before some.
    fn serve(&mut self, bytes_max: usize) {
        let pushes = self.below(2) == 0;
        self.pipe.change(|pipe| {
            let mut taken = 0;
            while let Some((count, request)) = next_request(&pipe.to_server[taken..]) {
                if taken + count > bytes_max {
                    break;
                }
                taken += count;
                if pushes {
                    pipe.to_client.extend_from_slice(b">1\r\n+news\r\n");
                }
                pipe.to_client.extend_from_slice(&request);
            }
            pipe.to_server.drain(..taken);
        });
    }
}

/// Returns the length of the first request, and the bulk that is its last word.
fn next_request(bytes: &[u8]) -> Option<(usize, Vec<u8>)> {
    let (count, request) = resp::ValueDecoder::default().decode(bytes).expect("it is RESP");
    let Reply::Array(words) = request? else { panic!("a request is an array") };
    let Some(Reply::Bulk(word)) = words.last() else { panic!("of bulks") };
    let mut bulk = format!("${}\r\n", word.len()).into_bytes();
    bulk.extend_from_slice(word);
    bulk.extend_from_slice(b"\r\n");
    Some((count, bulk))
}

#[test]
fn callers_that_come_and_go_each_get_their_own_replies() {
    let mut answered = 0;
    for seed in 0..300 {
        let mut fixture = Fixture::new(seed);
        for _ in 0..200 {
            fixture.step();
        }
        // Whoever has not gone is answered, by wakes alone.
        for _ in 0..2000 {
            if fixture.callers.is_empty() {
                break;
            }
            fixture.pipe.change(|pipe| pipe.room = 64);
            fixture.serve(usize::MAX);
            fixture.poll_all();
        }
        assert!(fixture.callers.is_empty(), "seed {seed}: {} wait for ever", fixture.callers.len());
        answered += fixture.answered;
    }
    assert!(answered > 5000, "{answered}");
}

#[test]
fn all_that_wait_are_told_of_the_end_and_so_are_later_ones() {
    let mut fixture = Fixture::new(1);
    for _ in 0..3 {
        let response = fixture.multiplexer.send(&[&[b"PING"]]).expect("it is connected");
        fixture.callers.push(Caller { flag: Flag::woken(), response, expected: Vec::new() });
    }
    fixture.poll_all();
    fixture.pipe.change(|pipe| pipe.is_cut = true);
    assert!(fixture.driver_flag.take());
    let waker = Waker::noop();
    let mut context = Context::from_waker(waker);
    assert!(Pin::new(&mut fixture.driver).poll(&mut context).is_ready());
    for caller in &mut fixture.callers {
        assert!(caller.flag.take(), "it is woken");
        let polled = Pin::new(&mut caller.response).poll(&mut context);
        assert!(matches!(polled, Poll::Ready(Err(ClientError::Broken(_)))), "{polled:?}");
    }
    assert!(fixture.multiplexer.is_over());
    assert!(matches!(fixture.multiplexer.send(&[&[b"PING"]]), Err(ClientError::Broken(_))));
}

#[test]
fn connection_ends_with_its_last_caller_and_with_its_driver() {
    let mut fixture = Fixture::new(1);
    let other = fixture.multiplexer.clone();
    fixture.poll_all();
    fixture.multiplexer = Multiplexer::new(Pipe::default()).0;
    assert!(!fixture.driver_flag.take(), "a clone is left");
    drop(other);
    assert!(fixture.driver_flag.take());
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut fixture.driver).poll(&mut context).is_ready());

    let (multiplexer, driver) = Multiplexer::new(Pipe::default());
    let mut response = multiplexer.send(&[&[b"PING"]]).expect("it is connected");
    drop(driver);
    let polled = Pin::new(&mut response).poll(&mut context);
    assert!(matches!(polled, Poll::Ready(Err(ClientError::Broken(_)))), "{polled:?}");
}

#[test]
fn callers_wait_while_the_queue_is_full() {
    let mut fixture = Fixture::new(1);
    let large = vec![7; QUEUED_BYTES_MAX];
    let response = fixture.multiplexer.send(&[&[b"ECHO", &large]]).expect("it is connected");
    fixture.callers.push(Caller {
        flag: Flag::woken(),
        response,
        expected: vec![Reply::Bulk(large)],
    });
    let multiplexer = fixture.multiplexer.clone();
    let mut space = Box::pin(multiplexer.wait_for_space());
    let flag = Flag::woken();
    let waker = Arc::clone(&flag).into();
    assert!(flag.take() && space.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    fixture.poll_all();
    assert!(flag.take(), "the driver has taken what was queued");
    assert!(space.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

#[test]
fn what_has_no_reply_of_its_own_is_not_sent() {
    let fixture = Fixture::new(1);
    let refused: [&[&[u8]]; 5] = [
        &[],
        &[b"monitor"],
        &[b"SUBSCRIBE", b"news"],
        &[b"CLIENT", b"reply", b"OFF"],
        &[b"PSYNC", b"?", b"-1"],
    ];
    for request in refused {
        let sent = fixture.multiplexer.send(&[&[b"PING"], request]);
        assert!(matches!(sent, Err(ClientError::Unsupported(_))), "{request:?}");
    }
    assert!(lock(&fixture.multiplexer.handle.queue).out.is_empty());
    assert!(fixture.multiplexer.send(&[&[b"CLIENT", b"ID"]]).is_ok());
}

#[test]
fn callers_that_stop_waiting_for_room_leave_nothing_behind() {
    let fixture = Fixture::new(1);
    let large = vec![7; QUEUED_BYTES_MAX];
    let _response = fixture.multiplexer.send(&[&[b"ECHO", &large]]).expect("it is connected");
    let waiter_count = || lock(&fixture.multiplexer.handle.queue).space_waiters.len();
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut space = Box::pin(fixture.multiplexer.wait_for_space());
        for _ in 0..2 {
            let waker = Flag::woken().into();
            assert!(space.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        waiting.push(space);
    }
    assert_eq!(waiter_count(), 100, "each waits once");
    waiting.truncate(1);
    assert_eq!(waiter_count(), 1);
    drop(waiting);
    assert_eq!(waiter_count(), 0);
}

#[test]
fn connection_that_is_ended_fails_who_waits_and_releases_its_driver() {
    let mut fixture = Fixture::new(1);
    let mut response = fixture.multiplexer.send(&[&[b"PING"]]).expect("it is connected");
    fixture.poll_all();
    fixture.multiplexer.end(&ClientError::TimedOut);
    assert!(fixture.driver_flag.take(), "it is woken");
    let mut context = Context::from_waker(Waker::noop());
    let polled = Pin::new(&mut response).poll(&mut context);
    assert!(matches!(polled, Poll::Ready(Err(ClientError::TimedOut))), "{polled:?}");
    assert!(Pin::new(&mut fixture.driver).poll(&mut context).is_ready());
    assert!(matches!(fixture.multiplexer.send(&[&[b"PING"]]), Err(ClientError::TimedOut)));
}

#[test]
fn silence_is_told_from_slowness() {
    let mut fixture = Fixture::new(1);
    let _response = fixture.multiplexer.send(&[&[b"PING"]]).expect("it is connected");
    fixture.pipe.change(|pipe| pipe.room = 100);
    fixture.poll_all();
    assert_eq!(fixture.multiplexer.received_count(), 0);
    fixture.pipe.change(|pipe| pipe.to_client.extend_from_slice(b"+PO"));
    fixture.poll_all();
    assert_eq!(fixture.multiplexer.received_count(), 1, "a part of a reply is a word");
}
