//! A page of the documentation that a file names exists.

use std::collections::BTreeSet;

use super::Finding;
use super::source::SourceFile;

const FOLDER: &str = "docs/";
const ENDING: &str = ".md";

/// Returns each place in `files` that names a page in the folder of the documentation that is not
/// one of `files`.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let paths: BTreeSet<&str> = files.iter().map(|file| &*file.path).collect();
    let mut findings = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            for page in pages(line).filter(|page| !paths.contains(page)) {
                findings.push(file.finding(index + 1, format!("'{page}' does not exist")));
            }
        }
    }
    findings
}

/// Returns the paths of pages in `line`, counted from the workspace root.
fn pages(line: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    line.split(move |c| !is_of_path(c)).filter_map(|word| {
        // The full stop of a sentence, and the way up from a page in a folder.
        let word = word.trim_end_matches('.').trim_start_matches("../").trim_start_matches("./");
        (word.starts_with(FOLDER) && word.ends_with(ENDING)).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spelled in halves, so that this file keeps its own rule.
    const PRESENT: &str = concat!("docs", "/inner/present.md");
    const ABSENT: &str = concat!("docs", "/inner/absent.md");

    fn lines(text: &str) -> Vec<usize> {
        let files = [SourceFile::new("crates/a/src/b.rs", text), SourceFile::new(PRESENT, "")];
        check(&files).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_page_that_does_not_exist_is_caught_wherever_it_is_named() {
        assert_eq!(lines(&format!("//! See {ABSENT}.")), [1]);
        assert_eq!(lines(&format!("\n[a](../{ABSENT}#part), `{ABSENT}`")), [2, 2]);
    }

    #[test]
    fn pages_that_exist_and_other_words_are_left_alone() {
        assert_eq!(lines(&format!("//! {PRESENT}. [a]({PRESENT}#part)")), [0; 0]);
        assert_eq!(lines("docs/ docs/inner/ docs/<name>.md other/docs/inner/absent.md"), [0; 0]);
    }
}
