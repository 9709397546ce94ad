//! The score by which the kernel chooses a process to kill when memory is short.

use std::fs;
use std::io;

use crate::config::OomScore;

const PATH: &str = "/proc/self/oom_score_adj";
/// The bounds of a score.
const MIN: i32 = -1000;
const MAX: i32 = 1000;

/// This process's score.
#[derive(Debug)]
pub struct OomScoreFile {
    /// What was found at start.
    base: i32,
}

impl OomScoreFile {
    /// Returns the score of this process, unchanged.
    pub fn open() -> OomScoreFile {
        let text = fs::read_to_string(PATH).unwrap_or_default();
        OomScoreFile { base: text.trim().parse().unwrap_or(0) }
    }

    /// Sets the score; writes nothing that is there already.
    ///
    /// # Errors
    /// When the kernel refuses: a score below that of the start needs a privilege.
    pub fn set(&self, wanted: OomScore) -> io::Result<()> {
        let score = self.score(wanted).to_string();
        if fs::read_to_string(PATH).is_ok_and(|current| current.trim() == score) {
            return Ok(());
        }
        fs::write(PATH, score)
    }

    fn score(&self, wanted: OomScore) -> i32 {
        match wanted {
            OomScore::Unchanged => self.base,
            OomScore::Relative(value) => (self.base + value).clamp(MIN, MAX),
            OomScore::Absolute(value) => value.clamp(MIN, MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_stay_within_what_the_kernel_takes() {
        let file = OomScoreFile { base: 300 };
        assert_eq!(file.score(OomScore::Unchanged), 300);
        assert_eq!(file.score(OomScore::Relative(200)), 500);
        assert_eq!(file.score(OomScore::Relative(2000)), 1000);
        assert_eq!(file.score(OomScore::Absolute(-2000)), -1000);
    }
}
