//! Rules about the text of a file, line by line: length, characters, words and paths.

use super::Finding;
use super::source::SourceFile;

/// The longest line that code may have.
const COLUMNS_MAX: usize = 100;

/// Words that mark unfinished work. Spelled in halves, so that this file keeps its own rule.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("st", "ub"),
    concat!("not supported", " yet"),
];

/// Folders of the machine where the code was written; no other machine has them.
const MACHINE_PATHS: [&str; 2] = [concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// Hosts of package registries: which one a machine uses is the machine's business.
const REGISTRY_HOSTS: [&str; 8] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npmjs", ".org"),
    concat!("deb.", "debian.org"),
    concat!("proxy.", "golang.org"),
    concat!("maven", ".org"),
    concat!("maven.", "apache.org"),
];

/// Returns every line of `file` that breaks a rule of text.
pub fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut add = |message: String| findings.push(file.finding(index + 1, message));
        if file.is_code() {
            check_code_line(line, &mut add);
        }
        check_any_line(file, line, &mut add);
    }
    findings
}

fn check_code_line(line: &str, add: &mut dyn FnMut(String)) {
    let columns = line.chars().count();
    if columns > COLUMNS_MAX {
        add(format!("line of {columns} columns; at most {COLUMNS_MAX}"));
    }
    if let Some(character) = line.chars().find(|character| !character.is_ascii()) {
        add(format!("source is ASCII; found {character:?}: use an escape"));
    }
    if line.ends_with([' ', '\t']) {
        add("space at the end of the line".to_owned());
    }
    for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
        add(format!("'{word}': finish it, or leave it out"));
    }
}

fn check_any_line(file: &SourceFile, line: &str, add: &mut dyn FnMut(String)) {
    for path in MACHINE_PATHS.iter().filter(|path| line.contains(**path)) {
        add(format!("'{path}' exists on one machine only"));
    }
    // Cargo writes the lock file itself, with the registry's name in it.
    let is_lock = file.path.ends_with("Cargo.lock");
    for host in REGISTRY_HOSTS.iter().filter(|host| !is_lock && line.contains(**host)) {
        add(format!("'{host}' names a package registry's host"));
    }
}

/// Returns whether `word` stands in `line` with no letter, digit or underscore beside it.
fn has_word(line: &str, word: &str) -> bool {
    let joins = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(joins) && !after.is_some_and(joins)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&SourceFile::new(path, text)).len()
    }

    #[test]
    fn long_lines_are_caught_at_the_first_column_too_many() {
        assert_eq!(count("a.rs", &"x".repeat(101)), 1);
        assert_eq!(count("a.rs", &"x".repeat(100)), 0);
        assert_eq!(count("a.md", &"x".repeat(101)), 0);
    }

    #[test]
    fn non_ascii_source_and_trailing_space_are_caught() {
        assert_eq!(count("a.rs", "// caf\u{e9}"), 1);
        assert_eq!(count("a.rs", "let a = 1; "), 1);
        assert_eq!(count("a.rs", "// cafe"), 0);
    }

    #[test]
    fn each_word_for_unfinished_work_is_caught() {
        for word in UNFINISHED {
            assert_eq!(count("a.rs", &format!("// {word}: later")), 1, "{word}");
            assert_eq!(count("a.rs", &format!("// a{word}b")), 0, "{word}");
        }
    }

    #[test]
    fn each_machine_path_is_caught_in_any_file() {
        for path in MACHINE_PATHS {
            assert_eq!(count("notes/a.md", &format!("see {path}x")), 1, "{path}");
        }
        assert_eq!(count("notes/a.md", "see crates/arena/src/lib.rs"), 0);
    }

    #[test]
    fn each_registry_host_is_caught_but_in_the_lock_file() {
        for host in REGISTRY_HOSTS {
            assert_eq!(count("notes/a.md", &format!("from {host}")), 1, "{host}");
            assert_eq!(count("Cargo.lock", &format!("from {host}")), 0, "{host}");
        }
    }
}
