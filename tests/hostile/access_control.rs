//! Who may connect: protected mode, the mode of the socket file, passwords.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use harness::{Connection, Kind, Launch, Server};
use resp::Value;

use super::many_clients::outside_address;

fn mode(server: &Server) -> u32 {
    let file = fs::metadata(server.socket()).expect("the socket file is there");
    assert!(file.file_type().is_socket());
    file.permissions().mode() & 0o777
}

#[test]
fn the_socket_file_is_its_owners_alone() {
    assert_eq!(mode(&Server::start(Kind::Forebay)), 0o600);
}

#[test]
fn the_socket_file_takes_the_mode_it_is_told() {
    let server = Launch::new(Kind::Forebay).option("unixsocketperm", "770").start();
    assert_eq!(mode(&server), 0o770);
}

/// What a client from another machine hears first, from the address of this machine that is not
/// the loopback's. Nothing where the machine has none.
fn first_words(options: &[(&str, &str)], request: &[u8]) -> Option<[Vec<u8>; 2]> {
    let address = outside_address()?;
    Some([Kind::Forebay, Kind::Redis].map(|kind| {
        let launch = Launch::new(kind).option("bind", "0.0.0.0");
        let launch =
            options.iter().fold(launch, |launch, (name, value)| launch.option(name, value));
        let server = launch.start();
        let outside = SocketAddr::new(address, server.address().port());
        let mut connection = Connection::tcp(outside).expect("the server accepts");
        let _ = connection.send(request); // It fails once the server has closed.
        connection.end_requests();
        connection.read_to_end().expect("the server closes")
    }))
}

#[test]
fn strangers_from_outside_are_refused_in_redis_words() {
    let Some([found, expected]) = first_words(&[], b"") else { return };
    assert!(expected.starts_with(b"-DENIED"), "{}", expected.escape_ascii());
    assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn outside_is_let_in_without_protected_mode_or_with_a_password() {
    for option in [("protected-mode", "no"), ("requirepass", "secret")] {
        let Some([found, expected]) = first_words(&[option], b"PING\r\n") else { return };
        assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}

#[test]
fn the_unix_socket_is_never_protected_from() {
    let server = Launch::new(Kind::Forebay).option("bind", "0.0.0.0").start();
    assert_eq!(server.unix().call("PING"), Value::Simple(b"PONG".to_vec()));
    assert_eq!(server.tcp().call("PING"), Value::Simple(b"PONG".to_vec()));
}
