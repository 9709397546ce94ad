//! Who may authenticate by memcached's text protocol: a file of `user:password` lines, as that of
//! memcached's `-Y`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::command_host::is_same_secret;

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Returns whether the file at `path` has a line with the name and the password of `credentials`,
/// between which is a blank. Nobody is admitted where it cannot be read; the log tells why.
pub fn admit(path: &Path, credentials: &[u8]) -> bool {
    match read(path) {
        Ok(text) => names(&text, credentials),
        Err(error) => {
            let path = path.display();
            tracing::warn!(%path, %error, "The users of memcached cannot be read");
            false
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it is longer than 64 KiB"));
    }
    Ok(text)
}

fn names(text: &[u8], credentials: &[u8]) -> bool {
    let Some(blank) = credentials.iter().position(|byte| *byte == b' ') else { return false };
    let (user, password) = (&credentials[..blank], &credentials[blank + 1..]);
    let lines = text.split(|byte| *byte == b'\n');
    let users = lines.filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], &line[colon + 1..]))
    });
    // All of them are looked at, so that the time does not tell which one it is.
    users.fold(false, |is_right, (name, secret)| {
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
        assert!(!admit(Path::new("/nowhere/users"), b"ann x"));
    }
}
