//! The asynchronous client over each of its transports: the answers of the blocking one, tasks that
//! share a connection and are dropped at any time, and what happens when the server is silent or
//! ends.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use base::prng::Prng;
use client::{
    AsyncClient, Client, ClientError, Elements, Reply, SetOptions, SortedSetRange, TimeToLive,
    Transport, View,
};
use harness::{Kind, Launch, Server, TempFolder, bytes, free_port, kernel, poll_until};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use super::urls;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads")
}

fn run<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

async fn connect(url: &str) -> AsyncClient {
    let connected = AsyncClient::connect(url).await;
    connected.unwrap_or_else(|error| panic!("{url}: {error}"))
}

#[test]
fn created_values_of_some_size_stay_where_they_are_once_many_were_sent() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let mut socket = server.unix();
    run(async {
        let client = connect(&urls(&server, "")[0]).await;
        for number in 0..130 {
            let key = format!("key {number}");
            let creation = client.create(key.as_bytes(), 8 * 1024).await.unwrap();
            creation.seal().await.unwrap();
        }
        assert_eq!(socket.info("shm_upload_runs"), 1, "a mebibyte of them has passed");
    });
}

#[test]
fn created_value_stays_where_it_was_written_and_a_put_one_is_copied_once() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    run(async {
        let client = connect(&urls(&server, "")[0]).await;
        for round in 0..30 {
            let value = bytes(round, 100_000 + 30_000 * (round % 7));
            let mut creation = client.create(b"key", value.len()).await.unwrap();
            creation.copy_from_slice(&value);
            creation.seal().await.unwrap();
            assert_eq!(server.info("shm_commits_adopted"), round as u64 + 1);
            let view = client.take(b"key").await.unwrap().expect("it is sealed");
            assert!(view.is_pinned() && *view == value[..]);
            let minute = SetOptions::new().expires_in(Duration::from_secs(60));
            assert!(client.put_with(b"put", &value, &minute).await.unwrap());
            assert_eq!(server.info("shm_commits_copied"), round as u64 + 1);
            assert!(*client.get(b"put").await.unwrap().expect("it was put") == value[..]);
            assert!(matches!(client.ttl(b"put").await.unwrap(), TimeToLive::Left(_)));
        }
        let zero = SetOptions::new().expires_in(Duration::ZERO);
        let refusal = client.put_with(b"put", &bytes(1, 100_000), &zero).await.unwrap_err();
        assert_eq!(refusal.code(), Some("ERR"));
    });
}

/// In the memory where they are small, else by the server.
#[test]
fn collections_are_read_over_each_transport() {
    let server = Server::start(Kind::Forebay);
    let mut writer = server.unix();
    for size in [3, 2000] {
        for index in 0..size {
            writer.call(&format!("HSET hash:{size} f{index} {index}"));
            writer.call(&format!("SADD set:{size} m{index}"));
            writer.call(&format!("ZADD sorted:{size} {index} m{index}"));
            writer.call(&format!("RPUSH list:{size} e{index}"));
        }
    }
    let read_all = async |client: AsyncClient, size: u64| {
        let key = |name: &str| format!("{name}:{size}").into_bytes();
        let (mut parts, mut scores) = (Elements::new(), Vec::new());
        client.hmget(&key("hash"), &[b"f1", b"none", b"f2"], &mut parts).await.unwrap();
        let all = [parts.get(0), parts.get(1), parts.get(2)];
        assert_eq!(all, [Some(b"1".as_slice()), None, Some(b"2")]);
        assert_eq!(client.hget(&key("hash"), b"f0").await.unwrap(), Some(b"0".to_vec()));
        assert_eq!(client.hlen(&key("hash")).await.unwrap(), size);
        assert!(client.sismember(&key("set"), b"m2").await.unwrap());
        client.smembers(&key("set"), &mut parts).await.unwrap();
        assert_eq!(parts.len() as u64, size);
        assert_eq!(client.zscore(&key("sorted"), b"m2").await.unwrap(), Some(2.0));
        let range = SortedSetRange::ranks(0, 1).reversed();
        let sorted = key("sorted");
        client.zrange_with_scores(&sorted, &range, &mut parts, &mut scores).await.unwrap();
        assert_eq!(scores, [size as f64 - 1.0, size as f64 - 2.0]);
        client.lrange(&key("list"), -2, -1, &mut parts).await.unwrap();
        assert_eq!(parts.get(1), Some(format!("e{}", size - 1).as_bytes()));
        let refusal = client.llen(&key("hash")).await.unwrap_err();
        assert_eq!(refusal.code(), Some("WRONGTYPE"));
    };
    run(async {
        for url in urls(&server, "") {
            let client = connect(&url).await;
            for size in [3, 2000] {
                // Other tasks may run it on their threads.
                tokio::spawn(read_all(client.clone(), size)).await.expect("it agrees");
            }
        }
    });
}

/// What is dropped is stored or not, and no memory stays taken for it.
#[test]
fn futures_of_large_values_that_are_dropped_anywhere_leave_no_memory_taken() {
    const LENGTH: usize = 40_000;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    run(async {
        let client = connect(&urls(&server, "")[0]).await;
        client.create(b"key", LENGTH).await.unwrap().seal().await.unwrap();
        let value = bytes(1, LENGTH);
        for round in 0..1500 {
            let looks = round % 6;
            let created = async {
                let mut creation = client.create(b"key", LENGTH).await.unwrap();
                creation.copy_from_slice(&value);
                creation.seal().await.unwrap();
            };
            give_up_after(looks, created).await;
            give_up_after(looks, async { client.put(b"key", &value).await.unwrap() }).await;
        }
        // What is done late is given back when the next room is asked for.
        let mut left = u64::MAX;
        for _ in 0..1000 {
            client.put(b"key", &value).await.unwrap();
            left = server.info("shm_uploads_open");
            if left < 10 {
                break;
            }
        }
        assert!(left < 10, "{left} uploads are open");
        assert!(*client.get(b"key").await.unwrap().expect("it was put") == value[..]);
    });
}

/// Looks at `future` `looks` times, and drops it.
async fn give_up_after(looks: usize, future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    for _ in 0..looks {
        let look = poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if look.await.is_ready() {
            return;
        }
        yield_now().await;
    }
}

#[test]
fn every_operation_answers_as_that_of_the_blocking_client() {
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    let blocking = Client::connect(&urls(&server, "")[2]).unwrap();
    let lengths = [0, 64, 65, 4000, 4100, 3 << 20];
    let mut keys: Vec<String> = lengths.map(|length| format!("length:{length}")).into();
    let transports = [Transport::SharedMemory, Transport::Unix, Transport::Tcp];
    for (url, transport) in urls(&server, "").iter().zip(transports) {
        blocking.call(&[b"FLUSHALL"]).unwrap();
        let client = run(async {
            let client = connect(url).await;
            assert_eq!(client.transport().await.unwrap(), transport);
            for (key, length) in keys.iter().zip(lengths) {
                client.put(key.as_bytes(), &bytes(1, length)).await.unwrap();
            }
            client.call(&[b"RPUSH", b"list", b"a"]).await.unwrap();
            client
        });
        keys.extend(["list".to_owned(), "absent".to_owned()]);
        // On another runtime: that of the first connection has ended.
        run(async {
            for key in &keys {
                let key = key.as_bytes();
                let text = |value: String| value.replace("pinned: true", "pinned: false");
                let same = |found: String, expected: String| {
                    assert_eq!(text(found), text(expected), "{} over {url}", key.escape_ascii());
                };
                let got = client.get(key).await;
                if let (Ok(Some(view)), Ok(Some(expected))) = (&got, blocking.get(key)) {
                    assert!(**view == *expected && view.len() == expected.len());
                }
                same(
                    format!("{:?}", got.map(|it| it.map(|view| view.len()))),
                    format!("{:?}", blocking.get(key).map(|it| it.map(|view| view.len()))),
                );
                let (mut value, mut expected) = (vec![1], vec![2]);
                let found = client.get_into(key, &mut value).await;
                same(format!("{found:?}"), format!("{:?}", blocking.get_into(key, &mut expected)));
                assert!(found.is_err() || value == expected);
                let names: [&[u8]; 3] = [key, b"absent", b"length:64"];
                same(
                    format!("{:?}", client.mget(&names).await),
                    format!("{:?}", blocking.mget(&names)),
                );
                same(
                    format!("{:?}", client.exists(key).await),
                    format!("{:?}", blocking.exists(key)),
                );
                same(
                    format!("{:?}", client.strlen(key).await),
                    format!("{:?}", blocking.strlen(key)),
                );
                same(format!("{:?}", client.ttl(key).await), format!("{:?}", blocking.ttl(key)));
                same(
                    format!("{:?}", client.getrange(key, -90, -2).await),
                    format!("{:?}", blocking.getrange(key, -90, -2)),
                );
            }
        });
    }
}

#[test]
fn tasks_share_one_connection_and_each_gets_its_own_replies() {
    const TASKS: usize = 200;
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        run(async {
            let client = connect(&url).await;
            let before = server.info("connected_clients");
            let tasks: Vec<_> = (0..TASKS)
                .map(|index| {
                    let client = client.clone();
                    tokio::spawn(async move {
                        for round in 0..20 {
                            let text = format!("{index}:{round}");
                            let long = bytes(index, 1000 * (index % 90));
                            let requests: [&[&[u8]]; 3] =
                                [&[b"ECHO", text.as_bytes()], &[b"ECHO", &long], &[b"NOSUCH"]];
                            let replies = client.pipeline(&requests).await.unwrap();
                            assert_eq!(replies[0], Reply::Bulk(text.into_bytes()));
                            assert!(replies[1] == Reply::Bulk(long));
                            assert!(matches!(replies[2], Reply::Error(_)));
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("it does not panic");
            }
            assert_eq!(server.info("connected_clients"), before, "no connection was made");
            assert!(client.pipeline(&[]).await.unwrap().is_empty());
        });
    }
    poll_until("all connections to end", || server.info("connected_clients") == 1);
}

#[test]
fn futures_that_are_dropped_anywhere_leave_the_others_their_replies() {
    const ROUNDS: usize = 150;
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        run(async {
            let client = connect(&url).await;
            let mut random = Prng::new(7);
            for round in 0..ROUNDS {
                let tasks: Vec<_> = (0..20)
                    .map(|index| {
                        let length = if random.one_in(3) { random.below(200_000) } else { 20 };
                        let value = bytes(round + index, length as usize);
                        let polls = random.below(12);
                        let polls = (polls < 6).then_some(polls);
                        tokio::spawn(echo_twice(client.clone(), value, polls))
                    })
                    .collect();
                for task in tasks {
                    task.await.expect("no reply is another's");
                }
            }
            assert_eq!(client.call(&[b"PING"]).await.unwrap(), Reply::Simple(b"PONG".to_vec()));
        });
    }
}

/// Has `value` echoed, and goes away once it has looked for the replies `polls` times, if that is
/// said.
async fn echo_twice(client: AsyncClient, value: Vec<u8>, polls: Option<u64>) {
    let words: [&[u8]; 2] = [b"ECHO", &value];
    let requests = [&words[..]; 2];
    let mut call = pin!(client.pipeline(&requests));
    let mut left = polls;
    let replies = loop {
        match left.as_mut() {
            None => break call.await,
            Some(0) => return,
            Some(left) => *left -= 1,
        }
        let look = poll_fn(|context| Poll::Ready(call.as_mut().poll(context)));
        match look.await {
            Poll::Ready(replies) => break replies,
            Poll::Pending => yield_now().await,
        }
    };
    let expected = Reply::Bulk(value.clone());
    assert!(replies.expect("the server lives").iter().all(|reply| *reply == expected));
}

#[test]
fn server_that_goes_ends_what_waits_and_the_next_call_connects_anew() {
    for signal in ["TERM", "KILL"] {
        let folder = TempFolder::new();
        let (path, port) = (folder.path().join("forebay.sock"), free_port());
        let launch = || Launch::new(Kind::Forebay).socket(&path).port(port).start();
        let mut server = launch();
        let urls = urls(&server, "");
        run(async {
            let mut clients = Vec::new();
            for url in &urls {
                let client = connect(url).await;
                client.put(b"key", &bytes(1, 5000)).await.unwrap();
                clients.push(client);
            }
            // Somebody waits over each while it goes.
            let waiting: Vec<_> = clients
                .iter()
                .map(|client| {
                    let client = client.clone();
                    let call = async move {
                        client.connection().await?.call(&[b"WAIT", b"1", b"0"]).await
                    };
                    tokio::spawn(call)
                })
                .collect();
            poll_until("waits to begin", || server.info("connected_clients") == 8);
            server.signal(signal);
            server.wait();
            for (waiter, url) in waiting.into_iter().zip(&urls) {
                let error = waiter.await.expect("it ends").unwrap_err();
                assert!(matches!(error, ClientError::Broken(_)), "{url}: {error}");
            }
            for client in &clients {
                let error = client.call(&[b"PING"]).await.unwrap_err();
                assert!(matches!(error, ClientError::Broken(_)), "{client:?}: {error}");
            }
            let _server = launch();
            for client in &clients {
                assert!(client.get(b"key").await.unwrap().is_none(), "{client:?}");
                client.put(b"other", b"value").await.unwrap();
                assert!(client.get(b"other").await.unwrap().is_some());
            }
            assert_eq!(clients[0].transport().await.unwrap(), Transport::SharedMemory);
        });
    }
}

#[test]
fn silent_server_is_given_up_and_its_late_replies_are_nobodys() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        run(async {
            let client = AsyncClient::connect_within(&url, Duration::from_millis(500)).await;
            let client = client.unwrap();
            server.signal("STOP");
            poll_until("the server to stop", || kernel::is_stopped(server.process_id()));
            let error = client.call(&[b"ECHO", b"one"]).await.unwrap_err();
            assert!(matches!(error, ClientError::TimedOut), "{url}: {error}");
            server.signal("CONT");
            let echo = loop {
                match client.call(&[b"ECHO", b"two"]).await {
                    Err(ClientError::TimedOut) => {}
                    reply => break reply.unwrap(),
                }
            };
            assert_eq!(echo, Reply::Bulk(b"two".to_vec()));
        });
    }
}

#[test]
fn large_values_are_put_again_once_a_silent_server_goes_on() {
    const LENGTH: usize = 100_000;
    let server = Launch::new(Kind::Forebay).option("segment-size", "1mb").start();
    run(async {
        let url = &urls(&server, "")[0];
        let client = AsyncClient::connect_within(url, Duration::from_millis(300)).await.unwrap();
        client.create(b"key", LENGTH).await.unwrap().seal().await.unwrap();
        server.signal("STOP");
        poll_until("the server to stop", || kernel::is_stopped(server.process_id()));
        // There is memory, but none of this length: the server is asked for it, and is silent.
        let value = bytes(1, 2 * LENGTH);
        let error = client.put(b"key", &value).await.unwrap_err();
        assert!(matches!(error, ClientError::TimedOut), "{error}");
        server.signal("CONT");
        let mut put = Err(error);
        for _ in 0..100 {
            put = client.put(b"key", &value).await;
            if put.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        put.unwrap();
        assert!(*client.get(b"key").await.unwrap().expect("it was put") == value[..]);
    });
}

#[test]
fn call_that_is_given_up_ends_in_the_server_too() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        run(async {
            let client = AsyncClient::connect_within(&url, Duration::from_millis(300)).await;
            let client = client.unwrap();
            let own = client.connection().await.unwrap();
            let wait: [&[u8]; 3] = [b"AWAIT", b"absent", b"0"];
            for waited in [own.call(&wait).await, client.call(&wait).await] {
                let error = waited.unwrap_err();
                assert!(matches!(error, ClientError::TimedOut), "{url}: {error}");
            }
            poll_until("the waits to end", || server.info("blocked_clients") == 0);
            assert!(own.is_over());
            assert_eq!(client.call(&[b"PING"]).await.unwrap(), Reply::Simple(b"PONG".to_vec()));
        });
    }
}

#[test]
fn wait_over_a_connection_of_its_own_ends_with_its_future() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        run(async {
            let client = connect(&url).await;
            let own = client.connection().await.unwrap();
            let waiting = own.clone();
            let wait: [&[u8]; 3] = [b"AWAIT", b"absent", b"0"];
            let waiter = tokio::spawn(async move { waiting.call(&wait).await });
            poll_until("the wait to begin", || server.info("blocked_clients") == 1);
            waiter.abort();
            poll_until("the wait to end", || server.info("blocked_clients") == 0);
            assert!(own.is_over() && own.call(&[b"PING"]).await.is_err(), "{url}");
            assert!(client.call(&[b"PING"]).await.is_ok(), "the others go on");
        });
    }
}

#[test]
fn lane_of_a_silent_server_is_not_replaced_by_a_socket() {
    let server = Launch::new(Kind::Forebay).option("shm-reads", "no").start();
    run(async {
        let url = &urls(&server, "")[0];
        let client = AsyncClient::connect_within(url, Duration::from_millis(300)).await.unwrap();
        server.signal("STOP");
        poll_until("the server to stop", || kernel::is_stopped(server.process_id()));
        assert!(client.call(&[b"PING"]).await.is_err(), "the lane ends");
        for _ in 0..4 {
            let error = client.connection().await.map(drop).unwrap_err();
            assert!(matches!(error, ClientError::TimedOut), "{error}");
        }
        server.signal("CONT");
        let transport = loop {
            if let Ok(transport) = client.transport().await {
                break transport;
            }
        };
        assert_eq!(transport, Transport::Lane);
    });
}

#[test]
fn tasks_hand_values_over_and_waits_hold_nobody_up() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        run(async {
            let client = connect(&url).await;
            for length in [10, 100_000] {
                let waiters: Vec<_> = (0..20)
                    .map(|_| {
                        let client = client.clone();
                        tokio::spawn(async move { client.get_blocking(b"job", None).await })
                    })
                    .collect();
                let gives_up = client.clone();
                let gives_up = tokio::spawn(async move {
                    gives_up.get_blocking(b"absent", Duration::from_millis(20)).await
                });
                assert!(gives_up.await.expect("it ends").unwrap().is_none());
                waiters[0].abort();
                let value = bytes(1, length);
                let mut creation = client.create(b"job", length).await.unwrap();
                creation.copy_from_slice(&value);
                let minute = SetOptions::new().if_absent().expires_in(Duration::from_secs(60));
                assert!(creation.seal_with(&minute).await.unwrap());
                for waiter in waiters.into_iter().skip(1) {
                    let view = waiter.await.expect("it ends").unwrap().expect("it was put");
                    assert!(*view == value[..]);
                }
                let takers: Vec<_> = (0..10)
                    .map(|_| {
                        let client = client.clone();
                        tokio::spawn(async move { client.take(b"job").await })
                    })
                    .collect();
                let mut taken = Vec::new();
                for taker in takers {
                    taken.extend(taker.await.expect("it ends").unwrap());
                }
                assert_eq!(taken.len(), 1, "one gets it");
                assert!(*taken[0] == value[..]);
            }
        });
    }
    poll_until("all connections to end", || server.info("connected_clients") == 1);
}

/// How often a value is put where takers race the putter.
const PUTS: u64 = 600;

/// Takes what is under the key until there is nothing more and `is_put`.
async fn take_all(client: AsyncClient, is_put: Arc<AtomicBool>) -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    loop {
        // In this order: what is put after the last look remains.
        let is_last = is_put.load(Ordering::Acquire);
        match client.take(b"job").await.expect("the server answers") {
            Some(view) => taken.push(view.into_vec()),
            None if is_last => return taken,
            None => yield_now().await,
        }
    }
}

#[test]
fn takers_of_one_key_get_each_value_once_and_none_is_lost() {
    let server = Server::start(Kind::Forebay);
    let numbered = |index: u64| [&index.to_le_bytes(), &[b'x'; 5992][..]].concat();
    let mut taken = run(async {
        let urls = urls(&server, "");
        let [own, other, socket] =
            [connect(&urls[0]).await, connect(&urls[0]).await, connect(&urls[1]).await];
        let is_put = Arc::new(AtomicBool::new(false));
        let takers: Vec<_> = [&own, &own, &own, &other, &other, &socket]
            .map(|client| tokio::spawn(take_all(client.clone(), Arc::clone(&is_put))))
            .into();
        let absent = SetOptions::new().if_absent();
        for index in 0..PUTS {
            while !own.put_with(b"job", &numbered(index), &absent).await.unwrap() {}
        }
        is_put.store(true, Ordering::Release);
        let mut taken = Vec::new();
        for taker in takers {
            taken.extend(taker.await.expect("it ends"));
        }
        taken.extend(own.get(b"job").await.unwrap().map(View::into_vec));
        taken
    });
    let mut expected: Vec<Vec<u8>> = (0..PUTS).map(numbered).collect();
    taken.sort_unstable();
    expected.sort_unstable();
    assert_eq!(taken.len() as u64, PUTS, "none twice, and none lost");
    assert!(taken == expected, "each is whole");
}

#[test]
fn what_the_server_does_not_allow_is_done_another_way() {
    let redis = Server::start(Kind::Redis);
    let reads = Launch::new(Kind::Forebay).option("shm-reads", "no").start();
    let lanes = Launch::new(Kind::Forebay).option("shm-lanes-max", "0").start();
    let locked = Launch::new(Kind::Forebay).option("requirepass", "sec/ret").start();
    run(async {
        for (server, transport) in [
            (&reads, Transport::Lane),
            (&lanes, Transport::SharedMemory),
            (&redis, Transport::Unix),
        ] {
            let client = connect(&format!("{}?db=2", urls(server, "")[0])).await;
            assert_eq!(client.transport().await.unwrap(), transport);
            let value = bytes(1, 100_000);
            client.put(b"key", &value).await.unwrap();
            let taken = client.take(b"key").await.unwrap().expect("it is there");
            assert!(!taken.is_pinned() && *taken == value[..], "no session is asked");
        }
        for url in urls(&locked, "") {
            let code = |error: ClientError| error.code().map(str::to_owned);
            let with = |query: &str| format!("{url}{query}");
            let client = connect(&with("?password=sec%2fret&db=15")).await;
            assert!(client.get(b"key").await.unwrap().is_none());
            let refused = AsyncClient::connect(&with("?password=wrong")).await;
            assert_eq!(refused.err().and_then(code).as_deref(), Some("WRONGPASS"));
            let refused = AsyncClient::connect(&with("?password=sec/ret&db=99")).await;
            assert_eq!(refused.err().and_then(code).as_deref(), Some("ERR"));
        }
    });
}
