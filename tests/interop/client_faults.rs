//! Our own client when the server is silent, has ended, or refuses: what a failed call leaves in
//! the server and in the client.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use client::{Client, ClientError, Reply, Transport};
use harness::{Kind, Launch, Server, TempFolder, free_port, kernel, poll_until};

use super::urls;

/// Silence after which the clients of these tests give up.
const TIMEOUT: Duration = Duration::from_millis(300);

/// Stops the server, every thread of it.
fn stop(server: &Server) {
    server.signal("STOP");
    poll_until("the server to stop", || kernel::is_stopped(server.process_id()));
}

/// Waits until nobody waits in the server.
fn wait_until_unblocked(server: &Server) {
    poll_until("the wait to end", || server.info("blocked_clients") == 0);
}

#[test]
fn several_values_are_refused_as_one_is() {
    let folder = TempFolder::new();
    let (path, port) = (folder.path().join("forebay.sock"), free_port());
    let launch = |password: &str| {
        let launch = Launch::new(Kind::Forebay).option("requirepass", password);
        launch.socket(&path).port(port)
    };
    let url = format!("shm://{}?password=old", path.display());
    let mut server = launch("old").start();
    let client = Client::connect(&url).unwrap();
    assert_eq!(client.mget(&[b"key"]).unwrap().len(), 1);
    server.signal("TERM");
    server.wait();
    let _server = launch("new").start();
    poll_until("the new password to be asked for", || {
        let read = client.get(b"key").map(drop);
        read.is_err_and(|error| error.code() == Some("WRONGPASS"))
    });
    assert_eq!(client.mget(&[b"key"]).unwrap_err().code(), Some("WRONGPASS"));
}

#[test]
fn wait_that_is_given_up_ends_in_the_server_too() {
    let server = Server::start(Kind::Forebay);
    for url in urls(&server, "") {
        let client = Client::connect_within(&url, TIMEOUT).unwrap();
        let error = client.call(&[b"AWAIT", b"absent", b"0"]).unwrap_err();
        assert!(matches!(error, ClientError::TimedOut), "{url}: {error}");
        wait_until_unblocked(&server);
        assert_eq!(client.call(&[b"PING"]).unwrap(), Reply::Simple(b"PONG".to_vec()));
    }
}

#[test]
fn wait_for_a_key_is_given_up_without_a_limit_of_the_client() {
    let server = Server::start(Kind::Forebay);
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        let waits = urls(&server, "").map(|url| {
            let barrier = &barrier;
            scope.spawn(move || {
                let client = Client::connect(&url).unwrap();
                barrier.wait();
                barrier.wait();
                client.get_blocking(b"absent", Duration::from_millis(10))
            })
        });
        barrier.wait();
        stop(&server);
        barrier.wait();
        for wait in waits {
            let error = wait.join().expect("it ends").unwrap_err();
            assert!(matches!(error, ClientError::TimedOut), "{error}");
        }
    });
}

#[test]
fn wait_for_a_key_is_refused_inside_a_transaction() {
    let server = Server::start(Kind::Forebay);
    for url in &urls(&server, "") {
        let client = Client::connect(url).unwrap();
        client.call(&[b"MULTI"]).unwrap();
        let error = client.get_blocking(b"absent", None).unwrap_err();
        assert!(matches!(error, ClientError::Unsupported(_)), "{url}: {error}");
        assert_eq!(client.call(&[b"EXEC"]).unwrap(), Reply::Array(Vec::new()));
    }
}

#[test]
fn creation_that_is_sealed_inside_a_transaction_is_a_part_of_it() {
    let server = Server::start(Kind::Forebay);
    for url in &urls(&server, "") {
        let client = Client::connect(url).unwrap();
        let mut creation = client.create(b"created", 100_000).unwrap();
        creation.fill(7);
        client.call(&[b"MULTI"]).unwrap();
        // As `put`, which cannot say what will become of it.
        assert!(matches!(creation.seal(), Err(ClientError::Unexpected(_))));
        let done = client.call(&[b"EXEC"]).unwrap();
        assert_eq!(done, Reply::Array(vec![Reply::Simple(b"OK".to_vec())]));
        assert!(client.take(b"created").unwrap().is_some_and(|view| *view == [7; 100_000]));
    }
}

#[test]
fn session_is_made_anew_after_the_server_was_silent() {
    let server = Server::start(Kind::Forebay);
    let client = Client::connect_within(&urls(&server, "")[0], TIMEOUT).unwrap();
    stop(&server);
    for _ in 0..2 {
        let error = client.call(&[b"PING"]).unwrap_err();
        assert!(matches!(error, ClientError::TimedOut), "{error}");
    }
    server.signal("CONT");
    poll_until("an answer", || client.call(&[b"PING"]).is_ok());
    assert_eq!(client.transport().unwrap(), Transport::SharedMemory);
    // Segments that are made from now on are mapped, and threads have lanes.
    let created = client.create(b"created", 1 << 20).unwrap();
    created.seal().unwrap();
    assert!(client.get(b"created").unwrap().is_some_and(|view| view.is_pinned()));
    let other = thread::scope(|scope| scope.spawn(|| client.call(&[b"CLIENT", b"INFO"])).join());
    assert!(matches!(other.expect("it ends").unwrap(), Reply::Bulk(_)));
}

#[test]
fn making_a_connection_is_given_up_without_a_limit_of_the_client() {
    let server = Server::start(Kind::Forebay);
    let [shm, unix, tcp] = urls(&server, "");
    // A socket is made by the kernel alone; what is asked over it first is a part of the making.
    let urls = [shm, format!("{unix}?db=1"), format!("{tcp}?db=1")];
    let clients = urls.map(|url| Client::connect(&url).unwrap());
    stop(&server);
    thread::scope(|scope| {
        let calls = clients.each_ref().map(|client| scope.spawn(|| client.call(&[b"PING"])));
        for call in calls {
            let error = call.join().expect("it ends").unwrap_err();
            assert!(matches!(error, ClientError::TimedOut), "{error}");
        }
    });
}

#[test]
fn tcp_peer_that_says_nothing_is_probed() {
    let server = Server::start(Kind::Forebay);
    let client = Client::connect(&urls(&server, "")[2]).unwrap();
    let Reply::Bulk(text) = client.call(&[b"CLIENT", b"INFO"]).unwrap() else {
        panic!("it is text")
    };
    let text = String::from_utf8(text).expect("it is text");
    let port = text.split([' ', ':']).skip_while(|word| *word != "addr=127.0.0.1").nth(1);
    let port = port.and_then(|port| port.parse().ok()).expect("the port of this end");
    poll_until("the connection to be idle", || kernel::is_kept_alive(port));
}
