//! Rules about how a Rust file opens: what it is, and for a crate what holds in it.

use super::Finding;
use super::source::SourceFile;

/// What the header of a crate speaks of.
const CRATE_TOPICS: [&str; 3] = ["Layout", "Invariants", "Not here"];

/// Returns what is missing from the header of `file`.
pub fn check(file: &SourceFile) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let header: Vec<&str> = file.text.lines().take_while(|line| line.starts_with("//!")).collect();
    if header.is_empty() {
        return vec![file.finding(1, "opens without a `//!` line that says what it is")];
    }
    if !is_crate_root(&file.path) {
        return Vec::new();
    }
    let header = header.join("\n");
    let missing = CRATE_TOPICS.iter().filter(|topic| !header.contains(**topic));
    missing.map(|topic| file.finding(1, format!("the crate's header lacks '{topic}'"))).collect()
}

/// Returns whether `path` is the root of a crate in `crates/`; of a crate with a library and a
/// program, the library is the one that explains.
fn is_crate_root(path: &str) -> bool {
    let Some((_, file)) = path.strip_prefix("crates/").and_then(|path| path.split_once('/')) else {
        return false;
    };
    file == "src/lib.rs" || path == "crates/xtask/src/main.rs"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&SourceFile::new(path, text)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_file_without_header_is_caught() {
        assert_eq!(messages("crates/a/src/b.rs", "use std::io;\n").len(), 1);
        assert_eq!(messages("crates/a/src/b.rs", "// plain\n").len(), 1);
        assert_eq!(messages("crates/a/src/b.rs", "//! What it is.\n").len(), 0);
        assert_eq!(messages("a.py", "import os\n").len(), 0);
    }

    #[test]
    fn a_crate_header_lacking_a_topic_is_caught() {
        let whole = "//! A.\n//! *Layout*: b. *Invariants*: c.\n//! *Not here*: d.\n";
        assert_eq!(messages("crates/a/src/lib.rs", whole).len(), 0);
        for topic in CRATE_TOPICS {
            let lacking = whole.replace(topic, "");
            assert_eq!(messages("crates/a/src/lib.rs", &lacking).len(), 1, "{topic}");
            assert_eq!(messages("crates/a/src/part.rs", &lacking).len(), 0, "{topic}");
        }
    }
}
