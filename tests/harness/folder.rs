//! Temporary folders that are removed when the test ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own under the system's folder for temporary files.
#[derive(Debug)]
pub struct TempFolder {
    path: PathBuf,
}

impl TempFolder {
    /// Makes a folder. Its path is short, as the path of a unix socket has to be.
    ///
    /// # Panics
    /// When the system's folder for temporary files cannot be written.
    pub fn new() -> TempFolder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("forebay-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path); // What an earlier process of the same id left.
        fs::create_dir_all(&path).expect("the system's temporary folder can be written");
        TempFolder { path }
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of `name` in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Default for TempFolder {
    fn default() -> TempFolder {
        TempFolder::new()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
