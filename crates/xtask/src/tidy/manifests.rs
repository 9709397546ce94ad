//! Each dependency from outside has its reason as a comment above it in the Cargo.toml.

use super::Finding;
use super::source::SourceFile;

/// Returns the dependencies in `file` that stand there without a reason.
pub fn check(file: &SourceFile) -> Vec<Finding> {
    if file.path.rsplit('/').next() != Some("Cargo.toml") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut in_table = false;
    let mut previous = "";
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim();
        let mut dependency = in_table.then(|| outside_dependency(line)).flatten();
        if let Some(table) = table_name(line) {
            in_table = table.ends_with("dependencies");
            dependency = table.rsplit_once("dependencies.").map(|(_, name)| name);
        }
        if let Some(name) = dependency.filter(|_| !previous.starts_with('#')) {
            let message = format!("dependency '{name}' has no reason in a comment above it");
            findings.push(file.finding(index + 1, message));
        }
        previous = line;
    }
    findings
}

fn table_name(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.strip_suffix(']')
}

/// Returns the package that a line of a dependency table brings in from outside of the workspace.
/// A line that inherits (`name.workspace = true`) has its reason where it inherits from.
fn outside_dependency(line: &str) -> Option<&str> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let is_inside = value.contains("path =") || value.contains("workspace = true");
    (is_name && !is_inside && !name.ends_with(".workspace")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&SourceFile::new("crates/a/Cargo.toml", text)).len()
    }

    #[test]
    fn a_dependency_without_reason_is_caught_in_every_kind_of_table() {
        assert_eq!(count("[dependencies]\nlibc = \"0.2\"\n"), 1);
        assert_eq!(count("[dev-dependencies]\nlibc = { version = \"0.2\" }\n"), 1);
        assert_eq!(count("[target.'cfg(loom)'.dependencies]\nloom = \"0.7\"\n"), 1);
        assert_eq!(count("[workspace.dependencies]\nloom = \"0.7\"\n"), 1);
        assert_eq!(count("[dependencies.libc]\nversion = \"0.2\"\n"), 1);
        assert_eq!(count("[dependencies]\n# For a.\na = \"1\"\nb = \"1\"\n"), 1);
    }

    #[test]
    fn reasons_members_and_other_tables_pass() {
        assert_eq!(count("[dependencies]\n# The system calls.\nlibc = \"0.2\"\n"), 0);
        assert_eq!(count("[dependencies]\nbase.workspace = true\n"), 0);
        assert_eq!(count("[dependencies]\nbase = { path = \"../base\" }\n"), 0);
        assert_eq!(count("[package]\nname = \"a\"\n"), 0);
    }
}
