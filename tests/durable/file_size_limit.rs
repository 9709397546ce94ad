//! A limit on the size of files (`ulimit -f`): what does not fit is an error of the log or of the
//! snapshot, as on a full disk, and not the end of the server.

use std::thread;

use harness::{Connection, Kind, Launch, Request, Server, TempFolder, poll_until, request};
use resp::Value;

use super::durable;

/// Less than the files become.
const FILE_BYTES_MAX: &str = "1500000";
/// Values that are more than a file may have, all together.
const VALUES: usize = 300;
const VALUE_BYTES: usize = 10_000;

fn limit_files(server: &Server, limit: &str) {
    let mut prlimit = harness::command("prlimit");
    prlimit.arg(format!("--pid={}", server.process_id())).arg(format!("--fsize={limit}:"));
    let finished = harness::run(prlimit, b"");
    assert!(finished.status.success(), "{}", finished.errors);
}

fn sets() -> Vec<Request> {
    let value = "v".repeat(VALUE_BYTES);
    (0..VALUES).map(|number| request(&["SET", &format!("key:{number}"), &value])).collect()
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn error(value: Value) -> String {
    let Value::Error(text) = value else { panic!("an error was due, not {value:?}") };
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn log_that_may_not_grow_refuses_writes_until_it_may() {
    let folder = TempFolder::new();
    let mut server = durable(folder.path()).start();
    let (mut writer, mut reader) = (server.unix(), server.unix());
    // The segments of memory are files to the system: those that take part are made before.
    writer.pipeline(&sets()[..1]);
    limit_files(&server, FILE_BYTES_MAX);
    let has_status = |connection: &mut Connection, status: &str| {
        connection.info_text("persistence").contains(&format!("aof_last_write_status:{status}"))
    };
    thread::scope(|scope| {
        // The reply to the write that did not fit waits, and with it all that follows.
        let written = scope.spawn(move || writer.pipeline(&sets()));
        poll_until("the log to be full", || has_status(&mut reader, "err"));
        let refusal = error(reader.call("SET other 1"));
        assert_eq!(refusal, "MISCONF Errors writing to the AOF file: File too large");
        let Value::Bulk(value) = reader.call("GET key:0") else { panic!("it was acknowledged") };
        assert_eq!(value.len(), VALUE_BYTES);
        limit_files(&server, "unlimited");
        let replies = written.join().expect("each is answered");
        assert!(replies.iter().all(|reply| reply.bytes == b"+OK\r\n"), "once there is room");
    });
    assert!(has_status(&mut reader, "ok"));
    assert_eq!(reader.call("SET other 1"), ok());
    server.signal("KILL");
    server.wait();
    let server = durable(folder.path()).start();
    assert_eq!(server.unix().call("DBSIZE"), Value::Integer(VALUES as i64 + 1));
}

#[test]
fn snapshot_that_is_larger_than_a_file_may_be_fails_and_the_server_goes_on() {
    let server = Launch::new(Kind::Forebay).option("rdbcompression", "no").start();
    let mut client = server.unix();
    for reply in client.pipeline(&sets()) {
        assert_eq!(reply.bytes, b"+OK\r\n");
    }
    limit_files(&server, FILE_BYTES_MAX);
    error(client.call("SAVE"));
    assert_eq!(client.call("PING"), Value::Simple(b"PONG".to_vec()));
    limit_files(&server, "unlimited");
    assert_eq!(client.call("SAVE"), ok());
}
