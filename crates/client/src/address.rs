//! Parses a URL: where a server is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use base::DatabaseIndex;

use crate::error::ClientError;

/// The port of a URL that names none.
const PORT_DEFAULT: u16 = 6379;

/// How to reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Through shared memory, by the unix socket at a path.
    SharedMemory(PathBuf),
    /// The unix socket at a path.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String, u16),
}

/// Where a server is, who asks, and for which database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub place: Place,
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    pub database: DatabaseIndex,
}

impl Address {
    /// Returns what `url` says: `shm:///path`, `unix:///path` or `redis://host:port/database`, with
    /// `user:password@` before the host or path, and `?user=`, `password=`, `db=` after it. Octets
    /// may be written as `%41`.
    ///
    /// # Errors
    /// When it is something else; the message names the part, and no password.
    pub fn parse(url: &str) -> Result<Address, ClientError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| fault("it has no scheme"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (who, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (place, database) = place(scheme, host, path)?;
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        let mut address = Address { place, user: None, password: None, database };
        address.set("user", user)?;
        address.set("password", password)?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            address.set(name, value)?;
        }
        Ok(address)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), ClientError> {
        let decoded = decode(value)?;
        let given = (!decoded.is_empty()).then_some(decoded);
        match name {
            "user" => self.user = given,
            "password" => self.password = given,
            "db" => self.database = database(value)?,
            _ => return Err(fault(&format!("nothing is called {name}"))),
        }
        Ok(())
    }
}

fn place(scheme: &str, host: &str, path: &str) -> Result<(Place, DatabaseIndex), ClientError> {
    let file = || match (host, path) {
        ("", path) if path.len() > 1 => Ok(PathBuf::from(OsString::from_vec(decode(path)?))),
        _ => Err(fault("three slashes begin the path of a socket")),
    };
    match scheme {
        "shm" => Ok((Place::SharedMemory(file()?), DatabaseIndex(0))),
        "unix" => Ok((Place::Unix(file()?), DatabaseIndex(0))),
        "redis" => {
            let number = path.trim_start_matches('/');
            let database = if number.is_empty() { DatabaseIndex(0) } else { database(number)? };
            let (host, port) = host_and_port(host)?;
            Ok((Place::Tcp(host.to_owned(), port), database))
        }
        _ => Err(fault(&format!("{scheme} is none of shm, unix and redis"))),
    }
}

/// Returns the parts of `host:port`, where the host may be an IPv6 address in brackets.
fn host_and_port(text: &str) -> Result<(&str, u16), ClientError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(|| fault("a bracket is open"))?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| fault(&format!("{port} is no port")))?,
        None if port.is_empty() => PORT_DEFAULT,
        None => return Err(fault(&format!("{port} follows the host"))),
    };
    Ok((if host.is_empty() { "localhost" } else { host }, port))
}

fn database(text: &str) -> Result<DatabaseIndex, ClientError> {
    text.parse().map(DatabaseIndex).map_err(|_| fault(&format!("{text} is no database")))
}

/// Returns the octets that `text` spells.
fn decode(text: &str) -> Result<Vec<u8>, ClientError> {
    let mut parts = text.split('%');
    let mut octets = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        let octet = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        octets.push(octet.ok_or_else(|| fault("two hexadecimal digits follow a %"))?);
        octets.extend_from_slice(&part.as_bytes()[2..]);
    }
    Ok(octets)
}

fn fault(text: &str) -> ClientError {
    ClientError::Url(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Address {
        Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn every_form_of_place_is_understood() {
        let tcp = |host: &str, port| Place::Tcp(host.to_owned(), port);
        for (url, place, database) in [
            ("redis://example.org", tcp("example.org", 6379), 0),
            ("redis://example.org:7000/3", tcp("example.org", 7000), 3),
            ("redis://[::1]:7000/", tcp("::1", 7000), 0),
            ("redis://[::1]?db=5", tcp("::1", 6379), 5),
            ("redis://", tcp("localhost", 6379), 0),
            ("unix:///run/a%20b.sock?db=2", Place::Unix("/run/a b.sock".into()), 2),
            ("shm:///run/forebay.sock", Place::SharedMemory("/run/forebay.sock".into()), 0),
        ] {
            let address = parsed(url);
            assert_eq!((address.place, address.database.0), (place, database), "{url}");
            assert_eq!((address.user, address.password), (None, None), "{url}");
        }
    }

    #[test]
    fn names_and_passwords_come_before_the_host_or_after_the_path() {
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        for (url, user, password) in [
            ("redis://:secret@h/1", None, bytes("secret")),
            ("redis://ann:p%40ss%2f@h", bytes("ann"), bytes("p@ss/")),
            ("unix://ann:secret@/run/s", bytes("ann"), bytes("secret")),
            ("shm:///run/s?password=a%26b&user=ann", bytes("ann"), bytes("a&b")),
        ] {
            let address = parsed(url);
            assert_eq!((address.user, address.password), (user, password), "{url}");
        }
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused_without_its_password() {
        for url in [
            "",
            "/run/s",
            "http://h",
            "redis://h:port",
            "redis://h:70000",
            "redis://h/x",
            "redis://h/300",
            "redis://[::1",
            "redis://[::1]x",
            "unix://run/s",
            "shm://",
            "shm:///",
            "redis://h?timeout=1",
            "redis://:secret%2@h",
            "redis://:secret%+1@h:x",
        ] {
            let error = Address::parse(url).expect_err(url);
            assert!(matches!(error, ClientError::Url(_)), "{url}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
