//! How long functions and files may be, and the baseline: the list of those that are longer.
//!
//! The list only shrinks. An entry higher than what the source has today is a finding, as is an
//! entry that the list's previous revision in git did not have; `--bless` lowers and drops entries
//! and never adds one.

use std::collections::BTreeMap;
use std::fs;

use super::Finding;
use super::rust::RustFile;
use crate::process::output_of;
use crate::workspace::Workspace;

/// The most lines of a function, from `fn` to the closing brace, in tests too.
const FUNCTION_LINES_MAX: usize = 70;
/// The most lines of a Rust file, its tests excluded.
const FILE_LINES_MAX: usize = 1000;

const BASELINE_PATH: &str = "crates/xtask/size_baseline.txt";
const BASELINE_HEADER: &str = "\
# Longer than the house rules allow, and by how much at most: `path[ function] = lines`.
# This list only shrinks: `cargo xtask tidy --bless` lowers and drops entries, nothing adds one.
";

/// The exceptions, or what the source has: lines by `path` for a file, by `path function` for a
/// function.
type Sizes = BTreeMap<String, usize>;

/// Compares the sizes in `files` with the limits and the baseline; with `bless`, first lowers
/// the list to what `files` need.
///
/// # Errors
/// When the list or its history cannot be read or written.
pub fn check(
    workspace: &Workspace,
    files: &[RustFile<'_>],
    bless: bool,
) -> Result<Vec<Finding>, String> {
    let path = workspace.root.join(BASELINE_PATH);
    let text = fs::read_to_string(&path).map_err(|error| format!("{BASELINE_PATH}: {error}"))?;
    let mut allowed = parse(&text)?;
    let found = over_limits(files);
    if bless {
        allowed = lowered(&allowed, &found);
        fs::write(&path, print(&allowed)).map_err(|error| format!("{BASELINE_PATH}: {error}"))?;
    }
    let mut findings = compare(&found, &allowed);
    if let Some(previous) = previous_revision(workspace, &print(&allowed))? {
        findings.extend(growth(&parse(&previous)?, &allowed));
    }
    Ok(findings)
}

/// Returns the size of every file and function that is over its limit.
fn over_limits(files: &[RustFile<'_>]) -> Sizes {
    let mut sizes = Sizes::new();
    for file in files {
        let path = &file.source.path;
        if file.line_count() > FILE_LINES_MAX {
            sizes.insert(path.clone(), file.line_count());
        }
        for function in &file.functions {
            let lines = function.lines.clone().count();
            if lines > FUNCTION_LINES_MAX {
                let longest = sizes.entry(format!("{path} {}", function.name)).or_default();
                *longest = lines.max(*longest);
            }
        }
    }
    sizes
}

fn compare(found: &Sizes, allowed: &Sizes) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, &lines) in found {
        match allowed.get(key) {
            None => findings.push(finding(key, format!("{lines} lines; at most {}", limit(key)))),
            Some(&most) if lines > most => {
                findings
                    .push(finding(key, format!("grew to {lines} lines; the baseline is {most}")));
            }
            Some(_) => {}
        }
    }
    for (key, &most) in allowed {
        if found.get(key).is_none_or(|&lines| lines < most) {
            let message = "shrank: lower its entry with `cargo xtask tidy --bless`".to_owned();
            findings.push(finding(key, message));
        }
    }
    findings
}

/// Returns what the list has that its previous revision did not allow.
fn growth(previous: &Sizes, allowed: &Sizes) -> Vec<Finding> {
    let grew = |key: &String, most: usize| previous.get(key).is_none_or(|&before| most > before);
    let entries = allowed.iter().filter(|(key, most)| grew(key, **most));
    entries.map(|(key, _)| finding(key, "was added to the baseline".to_owned())).collect()
}

fn lowered(allowed: &Sizes, found: &Sizes) -> Sizes {
    let entries = allowed.iter().filter_map(|(key, &most)| Some((key, most, *found.get(key)?)));
    entries.map(|(key, most, lines)| (key.clone(), most.min(lines))).collect()
}

fn limit(key: &str) -> usize {
    if key.contains(' ') { FUNCTION_LINES_MAX } else { FILE_LINES_MAX }
}

fn finding(key: &str, message: String) -> Finding {
    let (path, message) = match key.split_once(' ') {
        Some((path, function)) => (path, format!("fn {function}: {message}")),
        None => (key, message),
    };
    Finding { path: path.to_owned(), line: 0, message }
}

/// Returns the newest committed revision of the list that differs from `current`.
fn previous_revision(workspace: &Workspace, current: &str) -> Result<Option<String>, String> {
    let root = workspace.root.to_string_lossy();
    let log = ["-C", &root, "log", "-n", "2", "--format=%H", "--", BASELINE_PATH];
    for commit in output_of("git", &log)?.lines() {
        let revision = format!("{commit}:{BASELINE_PATH}");
        let text = output_of("git", &["-C", &root, "show", &revision])?;
        if parse(&text)? != parse(current)? {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

fn parse(text: &str) -> Result<Sizes, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let (key, lines) = line.split_once(" = ")?;
            Some((key.to_owned(), lines.parse().ok()?))
        })
        .collect::<Option<Sizes>>()
        .ok_or_else(|| format!("{BASELINE_PATH} has a line that is not `path[ function] = lines`"))
}

fn print(sizes: &Sizes) -> String {
    let entries: String = sizes.iter().map(|(key, lines)| format!("{key} = {lines}\n")).collect();
    format!("{BASELINE_HEADER}{entries}")
}

#[cfg(test)]
mod tests {
    use super::super::source::SourceFile;
    use super::*;

    fn sizes_of(text: &str) -> Sizes {
        let source = SourceFile::new("crates/a/src/b.rs", text);
        over_limits(&[RustFile::parse(&source).expect("the sample is Rust")])
    }

    fn sizes(entries: &[(&str, usize)]) -> Sizes {
        entries.iter().map(|(key, lines)| ((*key).to_owned(), *lines)).collect()
    }

    #[test]
    fn a_function_is_caught_at_its_first_line_too_many() {
        let function = |lines: usize| format!("fn f() {{{}}}\n", "\n".repeat(lines - 1));
        assert_eq!(sizes_of(&function(70)), sizes(&[]));
        assert_eq!(sizes_of(&function(71)), sizes(&[("crates/a/src/b.rs f", 71)]));
    }

    #[test]
    fn a_file_is_caught_at_its_first_line_too_many_and_tests_do_not_count() {
        let constants = |count: usize| "const _: () = ();\n".repeat(count);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", constants(50));
        assert_eq!(sizes_of(&(constants(1000) + &tests)), sizes(&[]));
        assert_eq!(sizes_of(&constants(1001)), sizes(&[("crates/a/src/b.rs", 1001)]));
    }

    #[test]
    fn what_the_list_does_not_allow_is_caught() {
        assert_eq!(compare(&sizes(&[("a.rs f", 80)]), &sizes(&[])).len(), 1);
        assert_eq!(compare(&sizes(&[("a.rs f", 80)]), &sizes(&[("a.rs f", 79)])).len(), 1);
        assert_eq!(compare(&sizes(&[("a.rs f", 80)]), &sizes(&[("a.rs f", 80)])).len(), 0);
    }

    #[test]
    fn an_entry_that_is_too_high_is_caught_and_blessing_lowers_it() {
        let allowed = sizes(&[("a.rs f", 90), ("gone.rs", 1200)]);
        let found = sizes(&[("a.rs f", 80), ("new.rs", 1100)]);
        assert_eq!(compare(&found, &allowed).len(), 3);
        assert_eq!(lowered(&allowed, &found), sizes(&[("a.rs f", 80)]));
    }

    #[test]
    fn an_entry_that_was_added_or_raised_is_caught() {
        let previous = sizes(&[("a.rs f", 80)]);
        assert_eq!(growth(&previous, &sizes(&[("a.rs f", 81)])).len(), 1);
        assert_eq!(growth(&previous, &sizes(&[("a.rs f", 80), ("b.rs", 1001)])).len(), 1);
        assert_eq!(growth(&previous, &sizes(&[("a.rs f", 75)])).len(), 0);
    }

    #[test]
    fn the_list_reads_back_as_it_was_printed() {
        let list = sizes(&[("a.rs", 1001), ("a.rs A::f", 80)]);
        assert_eq!(parse(&print(&list)), Ok(list));
        assert!(parse("a.rs 1001").is_err());
    }
}
