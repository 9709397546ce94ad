//! The score by which the kernel chooses a process to kill when memory is short.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::config::OomScore;

const PATH: &str = "/proc/self/oom_score_adj";
/// The bounds of a score.
const MIN: i32 = -1000;
const MAX: i32 = 1000;

/// This process's score.
#[derive(Debug)]
pub struct OomScoreFile {
    path: PathBuf,
    /// What was found when the server began to set the score; none while others do.
    ///
    /// Source: Redis, setOOMScoreAdj.
    base: Mutex<Option<i32>>,
}

impl OomScoreFile {
    /// Returns the score of this process, which is left to others.
    pub fn open() -> OomScoreFile {
        OomScoreFile::at(PATH.into())
    }

    fn at(path: PathBuf) -> OomScoreFile {
        OomScoreFile { path, base: Mutex::default() }
    }

    /// Sets the score, or leaves it to others as they had it. Does nothing where it is theirs
    /// already.
    ///
    /// # Errors
    /// When the kernel refuses: a score below that of the start needs a privilege.
    pub fn set(&self, wanted: OomScore) -> io::Result<()> {
        // One assignment: it is whole even if its thread panicked.
        let mut base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match (wanted, *base) {
            (OomScore::Unchanged, None) => return Ok(()),
            (_, Some(found)) => found,
            (_, None) => self.read()?,
        };
        *base = Some(found).filter(|_| wanted != OomScore::Unchanged);
        let score = match wanted {
            OomScore::Unchanged => found,
            OomScore::Relative(value) => (found + value).clamp(MIN, MAX),
            OomScore::Absolute(value) => value.clamp(MIN, MAX),
        };
        fs::write(&self.path, format!("{score}\n"))
    }

    fn read(&self) -> io::Result<i32> {
        let text = fs::read_to_string(&self.path)?;
        Ok(text.trim().parse().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_begin_with_the_present_one_and_stay_within_what_the_kernel_takes() {
        let path = std::env::temp_dir().join(format!("forebay-oom-{}", std::process::id()));
        let file = OomScoreFile::at(path.clone());
        let by_others = |score: &str| fs::write(&path, score).unwrap();
        let check = |wanted: OomScore, expected: i32| {
            file.set(wanted).unwrap();
            assert_eq!(file.read().unwrap(), expected, "{wanted:?}");
        };
        by_others("300");
        check(OomScore::Unchanged, 300);
        check(OomScore::Relative(200), 500);
        check(OomScore::Relative(2000), 1000);
        check(OomScore::Absolute(-2000), -1000);
        check(OomScore::Unchanged, 300);
        by_others("22");
        check(OomScore::Unchanged, 22);
        check(OomScore::Relative(9), 31);
        by_others("700");
        check(OomScore::Relative(10), 32);
        check(OomScore::Unchanged, 22);
        fs::remove_file(&path).unwrap();
        let file = OomScoreFile::at(path);
        assert!(file.set(OomScore::Relative(1)).is_err(), "nothing tells the present score");
    }
}
