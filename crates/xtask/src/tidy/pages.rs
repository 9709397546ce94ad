//! What a file names exists: a page of the documentation wherever it is named, a Rust file that the
//! header of another names.

use std::collections::BTreeSet;

use super::Finding;
use super::source::SourceFile;

const FOLDER: &str = "docs/";
const ENDING: &str = ".md";

/// Returns each place in `files` that names a page in the folder of the documentation, or in the
/// header of a Rust file another Rust file, that is not one of `files`.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let paths: BTreeSet<&str> = files.iter().map(|file| &*file.path).collect();
    let mut findings = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            for page in pages(line).filter(|page| !paths.contains(page)) {
                findings.push(file.finding(index + 1, format!("'{page}' does not exist")));
            }
        }
        for (index, line) in header(file).enumerate() {
            let is_there =
                |name: &str| candidates(file, name).iter().any(|path| paths.contains(&**path));
            for name in rust_files(line).filter(|name| !is_there(name)) {
                findings.push(file.finding(index + 1, format!("'{name}' does not exist")));
            }
        }
    }
    findings
}

/// Returns the paths of pages in `line`, counted from the workspace root.
fn pages(line: &str) -> impl Iterator<Item = &str> {
    words_of_paths(line).filter_map(|word| {
        // The way up from a page in a folder.
        let word = word.trim_start_matches("../").trim_start_matches("./");
        (word.starts_with(FOLDER) && word.ends_with(ENDING)).then_some(word)
    })
}

/// Returns the lines that say what `file` is; none where it is not Rust.
fn header(file: &SourceFile) -> impl Iterator<Item = &str> {
    file.text.lines().take_while(|line| file.is_rust() && line.starts_with("//!"))
}

/// Returns the names of Rust files in `line`.
fn rust_files(line: &str) -> impl Iterator<Item = &str> {
    words_of_paths(line).filter(|word| word.len() > ".rs".len() && word.ends_with(".rs"))
}

/// Returns where the Rust file that the header of `file` calls `name` may be: beside it, below it,
/// in its crate, in the crate that the name begins with, and counted from the workspace root.
fn candidates(file: &SourceFile, name: &str) -> Vec<String> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let own = match file.crate_name() {
        Some(name) => format!("crates/{name}/src"),
        None => "tests".to_owned(),
    };
    let mut found: Vec<String> =
        [folder, file.module_path(), &own].map(|folder| format!("{folder}/{name}")).into();
    found.extend(name.split_once('/').map(|(first, rest)| format!("crates/{first}/src/{rest}")));
    found.push(name.to_owned());
    found
}

fn words_of_paths(line: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    // The full stop of a sentence is no part of a path.
    line.split(move |c| !is_of_path(c)).map(|word| word.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spelled in halves, so that this file keeps its own rule.
    const PRESENT: &str = concat!("docs", "/inner/present.md");
    const ABSENT: &str = concat!("docs", "/inner/absent.md");

    fn lines(text: &str) -> Vec<usize> {
        let others = ["crates/a/src/b/part.rs", "crates/a/src/c.rs", "crates/d/src/e.rs", PRESENT];
        let mut files: Vec<_> = others.map(|path| SourceFile::new(path, "")).into();
        files.push(SourceFile::new("crates/a/src/b.rs", text));
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

    #[test]
    fn a_file_that_a_header_names_and_that_does_not_exist_is_caught() {
        assert_eq!(lines("//! See `absent.rs`.\n//! `e.rs`, d/c.rs, b/absent.rs."), [1, 2, 2, 2]);
    }

    #[test]
    fn files_that_exist_and_files_that_code_names_are_left_alone() {
        assert_eq!(lines("//! `part.rs`, b/part.rs, c.rs and b.rs;\n//! d/e.rs, any .rs"), [0; 0]);
        assert_eq!(
            lines("//! crates/d/src/e.rs\n// absent.rs\nconst A: &str = \"b.c.rs\";"),
            [0; 0]
        );
    }
}
