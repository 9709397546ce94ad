//! A transport in the memory of this process, for tests: it does at will what sockets do by chance.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use resp::Output;
use sys::descriptors::SharedDescriptor;
use sys::poll::{Poller, Waker};

use super::{Endpoint, OpenContext, Sent, Transport, TransportEnd};
use crate::registry::ClientOrigin;
use crate::server_state::ServerState;
use crate::statistics::WorkerCounters;

/// The server's end.
pub struct Memory(Arc<Wire>);

/// What both ends have.
pub struct Wire {
    state: Mutex<State>,
    has_changed: Condvar,
    wakeup: Waker,
}

#[derive(Default)]
struct State {
    requests: VecDeque<u8>,
    replies: Vec<u8>,
    /// The client has closed: behind its requests is the end.
    is_closed: bool,
    /// The server has dropped its end.
    is_dropped: bool,
    /// Bytes of one receive at most.
    receive_bytes_max: usize,
    /// Bytes of one send at most.
    send_bytes_max: usize,
    /// Once so many bytes of replies have been taken, a send fails.
    reply_bytes_max: usize,
    /// The worker polls it no more, and is told of what comes.
    is_armed: bool,
    /// A receive fails, once.
    fails_once: bool,
    /// How many bytes each receive has brought.
    received: Vec<usize>,
}

impl Transport for Memory {
    type Pending = Arc<Wire>;

    const IS_POLLED: bool = true;
    const RECEIVES_HEAD_FIRST: bool = true;

    fn open(wire: Arc<Wire>, context: &OpenContext<'_>) -> Option<(Memory, Endpoint)> {
        let endpoint = Endpoint {
            id: context.shared.clients.next_id(),
            parent: None,
            origin: ClientOrigin::Local,
            is_unix: false,
            address: "memory:0".to_owned(),
            local_address: "memory:0".to_owned(),
        };
        Some((Memory(wire), endpoint))
    }

    fn receive(&mut self, buffer: &mut [u8], _: &WorkerCounters) -> Result<usize, TransportEnd> {
        let mut state = self.0.state();
        if std::mem::take(&mut state.fails_once) {
            return Err(TransportEnd::Broken);
        }
        let count = state.requests.len().min(buffer.len()).min(state.receive_bytes_max);
        for (target, byte) in buffer.iter_mut().zip(state.requests.drain(..count)) {
            *target = byte;
        }
        state.received.push(count);
        if count == 0 && state.is_closed { Err(TransportEnd::Closed) } else { Ok(count) }
    }

    fn receive_appending(
        &mut self,
        buffer: &mut Vec<u8>,
        counters: &WorkerCounters,
    ) -> Result<usize, TransportEnd> {
        let (before, after) = (buffer.len(), buffer.capacity());
        buffer.resize(after, 0);
        let received = self.receive(&mut buffer[before..], counters);
        buffer.truncate(before + received.unwrap_or(0));
        received
    }

    fn send(
        &mut self,
        output: &mut Output,
        _: &[SharedDescriptor],
        _: &WorkerCounters,
    ) -> Result<Sent, TransportEnd> {
        let mut state = self.0.state();
        if state.replies.len() >= state.reply_bytes_max {
            return Err(TransportEnd::Broken);
        }
        let mut pieces = [IoSlice::new(&[]); 4];
        let count = output.pieces(&mut pieces);
        let offered = pieces[..count].iter().flat_map(|piece| piece.iter());
        let before = state.replies.len();
        let most = state.send_bytes_max.min(state.reply_bytes_max - before);
        state.replies.extend(offered.take(most));
        let bytes = state.replies.len() - before;
        output.consume(bytes);
        self.0.has_changed.notify_all();
        Ok(if output.is_empty() { Sent::All(bytes) } else { Sent::Partly(bytes) })
    }

    fn has_requests(&self) -> bool {
        let state = self.0.state();
        !state.requests.is_empty() || state.is_closed
    }

    fn has_room(&mut self) -> bool {
        self.0.state().send_bytes_max > 0
    }

    fn arm(&mut self, wants_requests: bool, wants_room: bool) -> bool {
        let is_there = wants_requests && self.has_requests() || wants_room && self.has_room();
        self.0.state().is_armed = !is_there;
        self.0.has_changed.notify_all();
        is_there
    }

    fn forget(&self, _: u64, poller: &Poller, _: &ServerState) {
        // The client's share of the eventfd would keep it in the set.
        let _ = poller.remove(self);
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wakeup.as_fd()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.0.state().is_dropped = true;
        self.0.has_changed.notify_all();
    }
}

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the wire panics")
    }
}

#[cfg(test)]
mod tests {
    use std::thread::JoinHandle;
    use std::time::Instant;

    use command::ShutdownRequest;

    use super::*;
    use crate::config::{Config, read_text};
    use crate::log::LogControl;
    use crate::mailbox::Message;
    use crate::server_state;
    use crate::tests::PATIENCE;
    use crate::transport::Pending;
    use crate::worker::Worker;

    /// A worker that nothing but the memory of this process leads to.
    struct TestWorker {
        shared: Arc<ServerState>,
        thread: Option<JoinHandle<()>>,
    }

    impl TestWorker {
        fn start() -> TestWorker {
            let mut worker = TestWorker::new();
            worker.begin();
            worker
        }

        /// Returns one that does nothing yet. What its clients say before it begins comes to it in
        /// one round.
        fn new() -> TestWorker {
            TestWorker::with("")
        }

        /// As [`TestWorker::new`], with further lines of a configuration.
        fn with(lines: &str) -> TestWorker {
            let mut config = Config::default();
            let text = format!("port 0\nworkers 1\nsegment-size 1mb\n{lines}\n");
            config.load(read_text(text.as_bytes(), None, 1)).unwrap();
            let origin = server_state::Origin::default();
            let shared =
                Arc::new(ServerState::new(config, origin, LogControl::detached()).unwrap());
            shared.load(false).unwrap();
            TestWorker { shared, thread: None }
        }

        fn begin(&mut self) {
            let served = Arc::clone(&self.shared);
            let run = move || Worker::new(0, &served, None).unwrap().run().unwrap();
            self.thread = Some(std::thread::spawn(run));
        }

        /// Connects a client, whose transport `limits` has set.
        fn client(&self, limits: impl FnOnce(&mut State)) -> Client {
            let most = usize::MAX;
            let mut state = State {
                receive_bytes_max: most,
                send_bytes_max: most,
                reply_bytes_max: most,
                ..State::default()
            };
            limits(&mut state);
            let (state, has_changed) = (Mutex::new(state), Condvar::new());
            let wire = Arc::new(Wire { state, has_changed, wakeup: Waker::new().unwrap() });
            assert!(self.shared.clients.enter(usize::MAX));
            let pending = Pending::Memory(Arc::clone(&wire));
            self.shared.mailboxes[0].post(Message::Serve(pending));
            Client(wire)
        }
    }

    impl Drop for TestWorker {
        fn drop(&mut self) {
            self.shared.begin_shutdown(ShutdownRequest::default()).unwrap();
            self.thread.take().unwrap().join().unwrap();
        }
    }

    struct Client(Arc<Wire>);

    impl Client {
        fn say(&self, requests: &[u8]) {
            self.change(|state| state.requests.extend(requests));
        }

        /// Does something that the worker is told of.
        fn change(&self, change: impl FnOnce(&mut State)) {
            let mut state = self.0.state();
            change(&mut state);
            state.is_armed = false;
            drop(state);
            self.0.wakeup.wake();
        }

        fn close(&self) {
            self.change(|state| state.is_closed = true);
        }

        fn wait_until(&self, holds: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
            let not_yet = |state: &mut State| !holds(state);
            let state = self.0.state();
            let waited = self.0.has_changed.wait_timeout_while(state, PATIENCE, not_yet).unwrap();
            assert!(holds(&waited.0), "{} bytes of replies", waited.0.replies.len());
            waited.0
        }

        /// Waits for as many bytes as `expected` has, which are to be these.
        fn hear(&self, expected: &[u8]) {
            let mut state = self.wait_until(|state| state.replies.len() >= expected.len());
            let found = std::mem::take(&mut state.replies);
            assert!(found == expected, "{}", found.escape_ascii());
        }
    }

    fn set(value_bytes: usize) -> Vec<u8> {
        let value = "v".repeat(value_bytes);
        format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n${value_bytes}\r\n{value}\r\n").into()
    }

    fn bulk(value_bytes: usize) -> Vec<u8> {
        format!("${value_bytes}\r\n{}\r\n", "v".repeat(value_bytes)).into()
    }

    #[test]
    fn requests_and_long_values_may_be_received_one_byte_at_a_time() {
        let worker = TestWorker::start();
        let slow = worker.client(|state| state.receive_bytes_max = 1);
        for value_bytes in [5, 40_000] {
            slow.say(&[set(value_bytes), b"GET key\r\n".to_vec()].concat());
            slow.hear(&[b"+OK\r\n".to_vec(), bulk(value_bytes)].concat());
        }
        let totals = worker.shared.totals_since_start();
        assert!(totals.reads >= 40_000 && totals.direct_values == 1, "{totals:?}");
        assert_eq!(totals.connections, 1, "counted by whoever serves it");
    }

    #[test]
    fn replies_are_held_and_released_and_the_worker_sleeps_meanwhile() {
        let worker = TestWorker::start();
        let shared = &worker.shared;
        let end = || shared.runtime.backlog().extent().end;
        shared.release_replies(|_| end());
        let [first, second, reader] = [(); 3].map(|()| worker.client(|_| {}));
        let await_changes = |count| {
            let start = Instant::now();
            while shared.keyspace().counters().changes < count {
                assert!(start.elapsed() < PATIENCE, "it should have been executed");
                reader.say(b"PING\r\n");
                reader.hear(b"+PONG\r\n");
            }
        };
        first.say(b"SET a 1\r\n");
        await_changes(1);
        let after_first = end();
        // There is room for nothing when its first reply is to leave, and then it is held.
        second.change(|state| state.send_bytes_max = 0);
        second.say(b"PING\r\n");
        drop(second.wait_until(|state| state.is_armed && state.requests.is_empty()));
        second.say(b"APPEND b 22\r\nGET b\r\n");
        await_changes(2);
        second.change(|state| state.send_bytes_max = usize::MAX);
        first.say(b"GET a\r\nSET a 3\r\n");
        for client in [&first, &second] {
            let state = client.wait_until(|state| state.is_armed);
            assert!(state.replies.is_empty(), "{}", state.replies.escape_ascii());
        }
        shared.release_replies(|_| after_first);
        first.hear(b"+OK\r\n");
        // What came meanwhile is executed now, and held in its turn.
        await_changes(3);
        assert!(second.0.state().replies.is_empty());
        shared.release_replies(|_| engine::ReleaseGate::ALL);
        first.hear(b"$1\r\n1\r\n+OK\r\n");
        second.hear(b"+PONG\r\n:2\r\n$2\r\n22\r\n");
        first.say(b"SET a 4\r\n");
        first.hear(b"+OK\r\n");
    }

    #[test]
    fn replies_that_are_taken_in_small_parts_arrive_whole_and_in_order() {
        let worker = TestWorker::start();
        let slow = worker.client(|state| state.send_bytes_max = 7);
        for value_bytes in [100, 20_000] {
            slow.say(&set(value_bytes));
            slow.hear(b"+OK\r\n");
            slow.say(b"GET key\r\nPING\r\nGET key\r\n");
            let expected = [bulk(value_bytes), b"+PONG\r\n".to_vec(), bulk(value_bytes)];
            slow.hear(&expected.concat());
        }
    }

    #[test]
    fn end_in_the_middle_of_a_request_leaves_what_came_before_it() {
        let worker = TestWorker::start();
        for value_bytes in [5, 40_000] {
            let client = worker.client(|_| {});
            client.say(b"SET other 1\r\n");
            client.say(&set(value_bytes)[..value_bytes]);
            client.hear(b"+OK\r\n");
            client.close();
            drop(client.wait_until(|state| state.is_dropped));
        }
        let other = worker.client(|_| {});
        other.say(b"EXISTS other\r\nEXISTS key\r\n");
        other.hear(b":1\r\n:0\r\n");
        assert_eq!(worker.shared.clients.len(), 1, "both have been counted out");
    }

    #[test]
    fn error_while_sending_ends_the_session_and_no_other() {
        let worker = TestWorker::start();
        for send_bytes_max in [usize::MAX, 3] {
            let broken = worker.client(|state| {
                state.send_bytes_max = send_bytes_max;
                state.reply_bytes_max = 10;
            });
            broken.say(&[set(100), b"GET key\r\nSET key 1\r\n".to_vec()].concat());
            drop(broken.wait_until(|state| state.is_dropped && state.replies == b"+OK\r\n$100\r"));
        }
        let other = worker.client(|_| {});
        other.say(b"GET key\r\n");
        other.hear(b"$1\r\n1\r\n");
        assert_eq!(worker.shared.clients.len(), 1, "both have been counted out");
    }

    /// As many connections as are received from together, and some more.
    const MANY: usize = 20;

    #[test]
    fn eight_ready_connections_are_received_from_before_the_first_has_its_turn() {
        let mut worker = TestWorker::new();
        let clients: Vec<Client> = (0..MANY).map(|_| worker.client(|_| {})).collect();
        clients.iter().for_each(|client| client.say(b"INFO stats\r\n"));
        worker.begin();
        for (index, client) in clients.iter().enumerate() {
            let state = client.wait_until(|state| state.replies.ends_with(b"\r\n\r\n"));
            let text = String::from_utf8_lossy(&state.replies).into_owned();
            let line = text.lines().find(|line| line.starts_with("total_net_input_bytes:"));
            let received = (index / 8 * 8 + 8).min(MANY) * b"INFO stats\r\n".len();
            assert_eq!(line, Some(&*format!("total_net_input_bytes:{received}")), "of {index}");
        }
    }

    #[test]
    fn failure_that_is_told_once_and_ahead_of_a_turn_ends_the_connection() {
        let mut worker = TestWorker::new();
        let other = worker.client(|_| {});
        let broken = worker.client(|state| state.fails_once = true);
        other.say(b"PING\r\n");
        broken.say(b"PING\r\n");
        let closed = worker.client(|_| {});
        closed.say(b"PING\r\n");
        closed.close();
        worker.begin();
        other.hear(b"+PONG\r\n");
        closed.hear(b"+PONG\r\n");
        for client in [broken, closed] {
            let state = client.wait_until(|state| state.is_dropped);
            assert!(state.replies.is_empty(), "{}", state.replies.escape_ascii());
        }
    }

    #[test]
    fn connection_that_is_killed_between_its_receive_and_its_turn_runs_nothing() {
        let mut worker = TestWorker::new();
        let [killer, killed] = [(); 2].map(|()| worker.client(|_| {}));
        killer.say(b"CLIENT KILL TYPE normal\r\n");
        killed.say(b"SET key 1\r\n");
        worker.begin();
        killer.hear(b":1\r\n");
        drop(killed.wait_until(|state| state.is_dropped && state.replies.is_empty()));
        assert_eq!(killed.0.state().received, [b"SET key 1\r\n".len()], "it had been received");
        killer.say(b"EXISTS key\r\n");
        killer.hear(b":0\r\n");
    }

    #[test]
    fn connection_with_much_input_has_its_second_turn_behind_the_first_of_others() {
        let mut worker = TestWorker::new();
        let clients: Vec<Client> = (0..MANY).map(|_| worker.client(|_| {})).collect();
        for (index, client) in clients.iter().enumerate() {
            client.say(format!("RPUSH list {index}\r\n").repeat(600).as_bytes());
        }
        worker.begin();
        for client in &clients {
            drop(client.wait_until(|state| {
                state.replies.iter().filter(|byte| **byte == b'\n').count() == 600
            }));
        }
        let reader = worker.client(|_| {});
        reader.say(b"LRANGE list 0 -1\r\n");
        let reply = |count: usize| {
            let turn = |count| (0..MANY).flat_map(move |index| std::iter::repeat_n(index, count));
            let text = |index: usize| format!("${}\r\n{index}\r\n", index.to_string().len());
            let all: Vec<String> = turn(512).chain(turn(count - 512)).map(text).collect();
            format!("*{}\r\n{}", all.len(), all.concat())
        };
        reader.hear(reply(600).as_bytes());
    }

    #[test]
    fn where_a_long_value_is_likely_no_more_than_its_head_is_received_ahead() {
        let worker = TestWorker::start();
        let clients = [(); 2].map(|()| worker.client(|_| {}));
        for _ in 0..3 {
            clients.iter().for_each(|client| client.say(&set(100_000)));
            clients.iter().for_each(|client| client.hear(b"+OK\r\n"));
        }
        for client in clients {
            let received = &client.0.state().received;
            let heads = received.iter().filter(|count| **count == 4096).count();
            assert!(heads >= 2, "all but the first: {received:?}");
        }
    }

    /// Requests of all kinds, on keys of their own.
    fn requests_of(client: usize, generator: &mut base::prng::Prng) -> Vec<u8> {
        let mut all = Vec::new();
        let count = 1 + generator.below(12);
        for _ in 0..count {
            let key = format!("{client}:{}", generator.below(3));
            let request = match generator.below(22) {
                0..4 => format!("SET {key} {}\r\n", generator.below(1000)),
                4..8 => format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()),
                8 => format!("SET {key} \"a\\x41 {}\"\r\n", generator.below(1000)),
                9 => "MULTI\r\n".to_owned(),
                10 => "EXEC\r\n".to_owned(),
                11 => "CLIENT REPLY SKIP\r\n".to_owned(),
                12 => "\r\n".to_owned(),
                13 => format!("SELECT {}\r\n", generator.below(3)),
                14 => format!("WATCH {key}\r\n"),
                15 => format!("RPUSH {key} 1 2 3\r\n"),
                16 => format!("LRANGE {key} 0 -1\r\n"),
                17 => format!("BLPOP {key} 0.001\r\n"),
                18 => format!("DEL {key}\r\n"),
                19 => format!("MGET {key} {client}:0 {client}:1\r\n"),
                20 => format!("SETRANGE {key} {} x\r\nGET {key}\r\n", generator.below(20_000)),
                _ if generator.below(20) > 0 => "PING\r\n".to_owned(),
                _ => "*1\r\n$x\r\n".to_owned(),
            };
            all.extend_from_slice(request.as_bytes());
        }
        if generator.below(4) == 0 {
            let value_bytes = generator.below(40_000) as usize;
            let value = "v".repeat(value_bytes);
            all.extend(format!("*3\r\n$3\r\nSET\r\n$3\r\n{client}:0\r\n").into_bytes());
            all.extend(format!("${value_bytes}\r\n{value}\r\n").into_bytes());
        }
        all
    }

    #[test]
    fn clients_that_are_ready_together_get_the_replies_that_each_gets_alone() {
        for seed in 0..16 {
            let mut generator = base::prng::Prng::new(seed);
            let streams: Vec<Vec<u8>> = (0..MANY)
                .map(|index| {
                    [&requests_of(index, &mut generator)[..], b"EXEC\r\nQUIT\r\n"].concat()
                })
                .collect();
            let limits: Vec<usize> =
                (0..MANY).map(|_| generator.pick(&[usize::MAX, 1_000, 37])).collect();
            let open = |worker: &TestWorker, index: usize| {
                let client = worker.client(|state| state.receive_bytes_max = limits[index]);
                client.say(&streams[index]);
                client
            };
            let replies = |client: &Client| {
                std::mem::take(&mut client.wait_until(|state| state.is_dropped).replies)
            };
            let mut worker = TestWorker::new();
            let together: Vec<Client> = (0..MANY).map(|index| open(&worker, index)).collect();
            worker.begin();
            let together: Vec<Vec<u8>> = together.iter().map(replies).collect();
            drop(worker);
            let worker = TestWorker::start();
            for (index, found) in together.iter().enumerate() {
                let alone = replies(&open(&worker, index));
                let place = found.iter().zip(&alone).take_while(|(one, other)| one == other);
                assert!(
                    *found == alone,
                    "seed {seed}, client {index}: from byte {} of {} and {}",
                    place.count(),
                    found.len(),
                    alone.len(),
                );
            }
        }
    }

    /// Returns a request of `bytes` in all, whose value is its last argument.
    fn request_of(words: &[&str], bytes: usize) -> Vec<u8> {
        let head: String =
            words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let head = format!("*{}\r\n{head}", words.len() + 1);
        let value_bytes = bytes - head.len() - "$1234567\r\n\r\n".len();
        let request = format!("{head}${value_bytes}\r\n{}\r\n", "v".repeat(value_bytes));
        assert_eq!(request.len(), bytes, "its length has seven digits");
        request.into()
    }

    #[test]
    fn request_that_a_lowered_query_buffer_limit_overtakes_ends_its_client_alone() {
        const ROUNDS_MAX: usize = 100_000;
        let worker = TestWorker::start();
        let arguments = format!("$100\r\n{}\r\n", "v".repeat(100)).repeat(30_000);
        for stop in ["", "$10"] {
            let (other, client) = (worker.client(|_| {}), worker.client(|_| {}));
            other.say(b"CONFIG SET client-query-buffer-limit 100mb\r\n");
            other.hear(b"+OK\r\n");
            client.say(format!("*100000\r\n{arguments}{stop}").as_bytes());
            // All of it has been received once the other has been served often enough.
            let mut rounds = 0;
            while !client.0.state().requests.is_empty() {
                other.say(b"PING\r\n");
                other.hear(b"+PONG\r\n");
                rounds += 1;
                assert!(rounds < ROUNDS_MAX, "the worker receives");
            }
            other.say(b"CONFIG SET client-query-buffer-limit 1mb\r\n");
            other.hear(b"+OK\r\n");
            client.say(b"$");
            drop(client.wait_until(|state| state.is_dropped));
            other.say(b"PING\r\n");
            other.hear(b"+PONG\r\n");
        }
    }

    #[test]
    fn request_above_the_query_buffer_limit_is_refused_and_one_within_it_runs_however_it_comes() {
        const LIMIT: usize = 1_100_000;
        let mut worker = TestWorker::with(&format!("client-query-buffer-limit {LIMIT}"));
        worker.begin();
        for receive_bytes_max in [usize::MAX, 500_000, 65_536, LIMIT - 1, 10_007] {
            for words in [&["ECHO"][..], &["SET", "key"], &["SET", "key", "1", "PX"]] {
                let client = || worker.client(|state| state.receive_bytes_max = receive_bytes_max);
                let within = client();
                // What follows is no part of it.
                within.say(&[request_of(words, LIMIT), b"PING\r\n".to_vec()].concat());
                let pong = b"+PONG\r\n";
                let state =
                    within.wait_until(|state| state.replies.ends_with(pong) || state.is_dropped);
                assert!(!state.is_dropped, "{words:?} by {receive_bytes_max}");
                drop(state);
                for excess in [1, 2, 40, 3_000, 200_000] {
                    let beyond = client();
                    beyond.say(&request_of(words, LIMIT + excess));
                    let state =
                        beyond.wait_until(|state| state.is_dropped || !state.replies.is_empty());
                    assert!(state.is_dropped, "{words:?} and {excess} by {receive_bytes_max}");
                }
            }
        }
    }
}
