//! Files in folders to which other users may write: links are not followed, and no other process
//! reads an unfinished file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Creates the file at `path`, which only this user may read and write.
///
/// # Errors
/// When something is there already, be it a link to nowhere, or the folder cannot be written.
pub fn create_private(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Returns the file at `path`, emptied, to be written; one that is not there is created, with
/// `mode` as far as the umask allows.
///
/// # Errors
/// When it cannot be written or created, or is not a file of its own: a link to another, by either
/// kind of link, a pipe, a device. What is there is as it was then.
pub fn overwrite(path: &Path, mode: u32) -> io::Result<File> {
    // A pipe without a reader is an error instead of a wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(mode);
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    let known = file.metadata()?;
    if !known.is_file() || known.nlink() != 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file of one name"));
    }
    file.set_len(0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("sys-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn private_file_is_so_from_the_start_and_new() {
        let folder = Folder::new("private");
        let path = folder.0.join("file");
        let file = create_private(&path).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(create_private(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let link = folder.0.join("link");
        symlink(folder.0.join("none"), &link).unwrap();
        assert_eq!(create_private(&link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn file_is_overwritten_and_nothing_that_it_leads_to() {
        let folder = Folder::new("overwrite");
        let [path, link, other] = ["file", "link", "other"].map(|name| folder.0.join(name));
        for text in ["first, long", "second"] {
            overwrite(&path, 0o644).unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        symlink(&path, &link).unwrap();
        fs::hard_link(&path, &other).unwrap();
        for name in [&link, &other, &folder.0] {
            assert!(overwrite(name, 0o644).is_err(), "{}", name.display());
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    }
}
