//! The coding rules, checked over every file that git tracks.
//!
//! A rule is a row of a table or one short function, and each has a test that shows it a violating
//! sample. `size_baseline.txt` lists the functions and files that are longer than the rule of sizes
//! allows, and that list only shrinks.

mod dependencies;
mod headers;
mod imports;
mod manifests;
mod pages;
mod rust;
mod sizes;
mod source;
mod text;
mod tokens;

use std::fmt;

use crate::process::output_of;
use crate::workspace::Workspace;
use rust::RustFile;
use source::SourceFile;

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the workspace root.
    pub path: String,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong and what to do instead.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(formatter, "{}: {}", self.path, self.message),
            line => write!(formatter, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Checks every rule and prints what breaks one. With `--bless`, first lowers the exceptions in
/// `size_baseline.txt` to what the source needs today.
///
/// # Errors
/// When a rule is broken, and when git, cargo or a file cannot be read.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let bless = match arguments {
        [] => false,
        [only] if only == "--bless" => true,
        _ => return Err("tidy takes no argument but --bless".to_owned()),
    };
    let workspace = Workspace::load()?;
    let files = tracked_files(&workspace)?;
    let (rust_files, mut findings) = parse_all(&files);
    findings.extend(imports::check(&workspace.packages));
    findings.extend(files.iter().flat_map(check_text));
    findings.extend(pages::check(&files));
    findings.extend(rust_files.iter().flat_map(tokens::check));
    findings.extend(rust::check_reached(&rust_files));
    findings.extend(dependencies::check(&workspace)?);
    findings.extend(sizes::check(&workspace, &rust_files, bless)?);
    findings.sort();
    findings.dedup();
    report(&findings, files.len())
}

/// Returns the files of the modules that a macro declares, relative to the workspace root.
///
/// # Errors
/// When git or a file cannot be read.
pub fn files_declared_by_macros(workspace: &Workspace) -> Result<Vec<String>, String> {
    let files = tracked_files(workspace)?;
    let (rust_files, _) = parse_all(&files);
    Ok(rust::declared_by_macros(&rust_files).into_iter().map(str::to_owned).collect())
}

fn report(findings: &[Finding], file_count: usize) -> Result<(), String> {
    for finding in findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {file_count} files keep the rules");
        return Ok(());
    }
    Err(format!("tidy found {} places that break a rule", findings.len()))
}

/// Returns the files in git's index that exist and hold text.
fn tracked_files(workspace: &Workspace) -> Result<Vec<SourceFile>, String> {
    let root = workspace.root.to_string_lossy();
    let listing = output_of("git", &["-C", &root, "ls-files", "-z"])?;
    let mut files = Vec::new();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        let full_path = workspace.root.join(path);
        if !full_path.is_file() {
            continue; // Deleted in the work tree; the next commit drops it.
        }
        let bytes = std::fs::read(&full_path).map_err(|error| format!("{path}: {error}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(SourceFile::new(path, text));
        }
    }
    Ok(files)
}

fn parse_all(files: &[SourceFile]) -> (Vec<RustFile<'_>>, Vec<Finding>) {
    let mut parsed = Vec::new();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        match RustFile::parse(file) {
            Ok(rust_file) => parsed.push(rust_file),
            Err(error) => findings.push(file.finding(
                error.span().start().line,
                format!("is not Rust that tidy can read: {error}"),
            )),
        }
    }
    rust::mark_test_modules(&mut parsed);
    (parsed, findings)
}

fn check_text(file: &SourceFile) -> Vec<Finding> {
    let mut findings = text::check(file);
    findings.extend(headers::check(file));
    findings.extend(manifests::check(file));
    findings
}
