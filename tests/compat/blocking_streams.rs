//! XREAD and XREADGROUP that wait, on Forebay over every transport and with two workers, and on
//! redis-server: who gets an entry, and what else ends a wait.

use harness::{Connection, Kind};
use resp::Value;

use super::blocking_pops::{on_each_transport, waiting};
use super::sessions::{info, poll_blocked, read, send};

/// The reply with entry `id` of `k`, whose field `f` is `v`.
fn entry(id: &str) -> String {
    format!(
        "*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n${}\r\n{id}\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n",
        id.len()
    )
}

fn add(connection: &mut Connection, id: &str) {
    let reply = connection.call(&format!("XADD k {id} f v"));
    assert_eq!(reply, Value::Bulk(id.as_bytes().to_vec()));
}

#[test]
fn an_entry_serves_all_who_read_and_one_of_a_group() {
    on_each_transport(|server, connect| {
        let mut other = server.tcp();
        other.call("XGROUP CREATE k g 0 MKSTREAM");
        let mut readers = waiting(server, connect, 2, "XREAD BLOCK 0 STREAMS none k 0 $");
        let group = "XREADGROUP GROUP g ada BLOCK 0 STREAMS k >";
        let mut consumers = waiting(server, connect, 2, group);
        add(&mut other, "1-1");
        for reader in &mut readers {
            assert_eq!(read(reader), entry("1-1"));
        }
        assert_eq!(read(&mut consumers[0]), entry("1-1"));
        poll_blocked(&mut other, 1);
        add(&mut other, "1-2");
        assert_eq!(read(&mut consumers[1]), entry("1-2"));
        assert_eq!(other.call("XACK k g 1-1 1-2"), Value::Integer(2));
        let mut reader = connect(server);
        assert_eq!(reader.call("XREAD BLOCK 20 STREAMS k $"), Value::NullArray);
        assert_eq!(info(&mut other, "blocked_clients"), "0");
    });
}

#[test]
fn entries_reach_a_reader_one_after_the_other() {
    on_each_transport(|server, connect| {
        let (mut other, mut reader) = (server.tcp(), connect(server));
        for number in 1..=20 {
            let (last, id) = (format!("1-{}", number - 1), format!("1-{number}"));
            let request = format!("XREAD BLOCK 0 STREAMS k {last}");
            send(&mut reader, &[&request]);
            add(&mut other, &id);
            assert_eq!(read(&mut reader), entry(&id));
        }
    });
}

/// redis-server 7.0 has another error for some of these.
#[test]
fn the_end_of_a_group_or_of_its_stream_ends_the_wait() {
    on_each_transport(|server, connect| {
        let ends = ["XGROUP DESTROY k g", "DEL k", "FLUSHALL", "PEXPIRE k 20", "SET k v"];
        for end in ends {
            let mut other = server.tcp();
            other.call("DEL k");
            other.call("XGROUP CREATE k g 0 MKSTREAM");
            let group = "XREADGROUP GROUP g ada BLOCK 0 STREAMS k >";
            let mut consumers = waiting(server, connect, 1, group);
            other.call(end);
            let reply = read(&mut consumers[0]);
            assert!(reply.starts_with('-'), "{end}: {reply}");
            if server.kind() == Kind::Forebay {
                let expected = if end == "SET k v" { "-WRONGTYPE " } else { "-NOGROUP " };
                assert!(reply.starts_with(expected), "{end}: {reply}");
            }
        }
    });
}
