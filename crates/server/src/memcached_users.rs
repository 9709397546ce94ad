//! Who may authenticate by memcached's text protocol: a file of `user:password` lines, as that of
//! memcached's `-Y`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::command_host::is_same_secret;

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The lines of the file, as they were when the server started.
pub struct MemcachedUsers {
    text: Vec<u8>,
}

impl MemcachedUsers {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A sentence for the log, where it cannot be read, is too long, or has a line that is no
    /// `user:password`, with which memcached does not start either.
    pub fn read(path: &Path) -> Result<MemcachedUsers, String> {
        let file = File::open(path);
        let mut text = Vec::new();
        file.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)).map_err(
            |error| format!("memcached-auth-file {} is not read: {error}", path.display()),
        )?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("memcached-auth-file {} is longer than 64 KiB", path.display()));
        }
        match malformed_line(&text) {
            Some(number) => Err(format!(
                "memcached-auth-file {}: line {number} is malformed, it should be 'user:password'",
                path.display()
            )),
            None => Ok(MemcachedUsers { text }),
        }
    }

    /// Returns whether there is a line with the name and the password of `credentials`, between
    /// which is a blank.
    pub fn admit(&self, credentials: &[u8]) -> bool {
        names(&self.text, credentials)
    }
}

/// Returns the lines of `text`, without their ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns name and password, where `line` has a colon between them; both may be empty.
fn user_of(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((&line[..colon], &line[colon + 1..]))
}

/// Returns the number of the first line that names no user, from 1 on; empty ones may be there.
fn malformed_line(text: &[u8]) -> Option<usize> {
    let is_malformed = |line: &[u8]| !line.is_empty() && user_of(line).is_none();
    lines(text).position(is_malformed).map(|index| index + 1)
}

fn names(text: &[u8], credentials: &[u8]) -> bool {
    let Some(blank) = credentials.iter().position(|byte| *byte == b' ') else { return false };
    let (user, password) = (&credentials[..blank], &credentials[blank + 1..]);
    // All of them are looked at, so that the time does not tell which one it is.
    lines(text).filter_map(user_of).fold(false, |is_right, (name, secret)| {
        (name == user && !name.is_empty() && is_same_secret(secret, password)) | is_right
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_with_both_admits() {
        let text = b"ann:deep lake\nbob:\r\n:empty\nno colon\n";
        for (credentials, expected) in [
            ("ann deep lake", true),
            ("ann deep", false),
            ("bob ", true),
            ("bob", false),
            (" empty", false),
            ("no colon", false),
        ] {
            assert_eq!(names(text, credentials.as_bytes()), expected, "{credentials}");
        }
        assert!(MemcachedUsers::read(Path::new("/nowhere/users")).is_err());
    }

    #[test]
    fn line_that_names_no_user_is_told() {
        assert_eq!(malformed_line(b"ann:deep lake\n\nbob:\r\n"), None);
        assert_eq!(malformed_line(b"ann:deep lake\nbob\n"), Some(2));
        assert_eq!(malformed_line(b":secret"), None, "memcached takes it; nobody gets in by it");
    }
}
