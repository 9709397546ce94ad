//! The Rust client's leases: many threads miss one key, over every way to a server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use client::{Client, ClientError, Leased, LoadOptions};
use harness::{Kind, Server, poll_until};
use resp::Value;

use super::urls;

const THREADS: usize = 20;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn blocked(server: &Server) -> u64 {
    server.info("blocked_clients")
}

#[test]
fn many_threads_miss_a_key_and_one_loads_it() {
    let server = Server::start(Kind::Forebay);
    for (url, length) in urls(&server, "").into_iter().zip([10, 100_000, 3_000]) {
        let client = Client::connect(&url).unwrap();
        let loads = AtomicUsize::new(0);
        let options = LoadOptions::new().waits_for(seconds(60)).lease_for(seconds(60));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let value = client.get_or_load::<ClientError>(b"missed", &options, || {
                        loads.fetch_add(1, Ordering::SeqCst);
                        poll_until("the others to wait", || blocked(&server) == THREADS as u64 - 1);
                        Ok(vec![7; length])
                    });
                    assert_eq!(*value.unwrap(), vec![7; length][..]);
                });
            }
        });
        assert_eq!(loads.load(Ordering::SeqCst), 1);
        client.call(&[b"DEL", b"missed"]).unwrap();
    }
}

#[test]
fn who_fails_or_dies_leaves_the_loading_to_the_next() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        let client = Client::connect(&url).unwrap();
        let options = LoadOptions::new().waits_for(seconds(60)).lease_for(seconds(60));
        let failed = client.get_or_load(b"k", &options, || {
            Err(ClientError::Unsupported("the source is away".to_owned()))
        });
        assert!(matches!(failed, Err(ClientError::Unsupported(_))), "{failed:?}");
        // A thread that ends without a word, while another one waits.
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let Ok(Leased::Win(lease)) = client.lget(b"k", &options) else {
                    panic!("no lease")
                };
                lease.into_token();
                sender.send(()).unwrap();
                poll_until("another to wait", || blocked(&server) == 1);
            });
            receiver.recv().unwrap();
            let value = client.get_or_load::<ClientError>(b"k", &options, || Ok(b"v".to_vec()));
            assert_eq!(&*value.unwrap(), b"v");
        });
        client.call(&[b"DEL", b"k"]).unwrap();
    }
}

#[test]
fn what_the_server_refuses_to_store_is_returned_and_leaves_no_lease() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        let client = Client::connect(&url).unwrap();
        let options = LoadOptions::new().lease_for(seconds(60));
        let value = client.get_or_load::<ClientError>(b"k", &options, || {
            client.call(&[b"CONFIG", b"SET", b"maxmemory", b"1"])?;
            Ok(vec![7; 100_000])
        });
        assert_eq!(*value.unwrap(), [7; 100_000]);
        client.call(&[b"CONFIG", b"SET", b"maxmemory", b"0"]).unwrap();
        assert_eq!((server.info("leases"), client.get(b"k").unwrap().is_none()), (0, true));
        // What no server stores is not even loaded.
        let wrong = LoadOptions::new().stale_for(seconds(1));
        let refused = client.get_or_load::<ClientError>(b"k", &wrong, || panic!("it is loaded"));
        assert!(matches!(refused, Err(ClientError::Unsupported(_))), "{refused:?}");
        // A lease that is dropped within a transaction is no part of it.
        let Ok(Leased::Win(lease)) = client.lget(b"k", &options) else { panic!("no lease") };
        client.call(&[b"MULTI"]).unwrap();
        drop(lease);
        assert_eq!(client.call(&[b"EXEC"]).unwrap(), Value::Array(Vec::new()));
        client.call(&[b"DEL", b"k"]).unwrap();
    }
}

#[test]
fn who_gets_no_lease_loads_for_himself() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        let client = Client::connect(&url).unwrap();
        let options = LoadOptions::new().expires_in(seconds(100));
        client.call(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).unwrap();
        let value = client.get_or_load::<ClientError>(b"k", &options, || Ok(b"v".to_vec()));
        assert_eq!(&*value.unwrap(), b"v");
        client.call(&[b"CONFIG", b"SET", b"maxmemory", b"0"]).unwrap();
        assert!(client.get(b"k").unwrap().is_none());
        client.call(&[b"RPUSH", b"k", b"a"]).unwrap();
        let refused = client.get_or_load::<ClientError>(b"k", &options, || panic!("it is loaded"));
        assert_eq!(refused.unwrap_err().code(), Some("WRONGTYPE"));
        client.call(&[b"DEL", b"k"]).unwrap();
    }
}

#[test]
fn what_is_loaded_before_a_removal_is_not_stored() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        let client = Client::connect(&url).unwrap();
        let options = LoadOptions::new();
        let old = client.get_or_load::<ClientError>(b"k", &options, || {
            assert!(!client.ldel(b"k", Duration::ZERO)?);
            Ok(b"old".to_vec())
        });
        assert_eq!(&*old.unwrap(), b"old");
        assert!(client.get(b"k").unwrap().is_none());
    }
}

#[test]
fn stale_values_are_returned_while_one_loads() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        let client = Client::connect(&url).unwrap();
        let options = LoadOptions::new().expires_in(seconds(100)).stale_for(seconds(100));
        let load = |text: &'static str| {
            client.get_or_load::<ClientError>(b"k", &options, || Ok(text.into())).unwrap()
        };
        assert_eq!(&*load("one"), b"one");
        assert!(client.ldel(b"k", seconds(100)).unwrap());
        assert!(client.get(b"k").unwrap().is_none());
        let Leased::StaleWin(view, lease) = client.lget(b"k", &options).unwrap() else {
            panic!("it is loaded anew")
        };
        assert_eq!(&*view, b"one");
        assert_eq!(&*load("two"), b"one", "while it is loaded");
        assert!(lease.free().unwrap());
        assert_eq!(&*load("three"), b"three");
        let soon = options.clone().refresh_within(seconds(101));
        let refreshed = client.lget(b"k", &soon).unwrap();
        assert!(matches!(refreshed, Leased::StaleWin(..)), "{refreshed:?}");
        let others = client.lget(b"k", &soon).unwrap();
        assert!(matches!(others, Leased::Hit(_)), "{others:?}");
        drop(refreshed);
        client.call(&[b"DEL", b"k"]).unwrap();
    }
}

#[test]
fn a_server_without_leases_gets_what_is_loaded() {
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&format!("redis://{}", server.address())).unwrap();
    let options = LoadOptions::new().expires_in(seconds(100)).stale_for(seconds(100));
    for text in ["one", "two"] {
        let value = client.get_or_load::<ClientError>(b"k", &options, || Ok(text.into()));
        assert_eq!(&*value.unwrap(), b"one");
    }
}
