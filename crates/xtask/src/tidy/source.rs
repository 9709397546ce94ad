//! A tracked file and what its path says about it.

use super::Finding;

/// A text file of the repository.
#[derive(Debug)]
pub struct SourceFile {
    /// The path relative to the workspace root, with `/` between its parts.
    pub path: String,
    /// The whole content.
    pub text: String,
}

impl SourceFile {
    /// Returns the file at `path` with `text` in it.
    pub fn new(path: &str, text: impl Into<String>) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.into() }
    }

    /// Returns whether the file is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether people write the file as code: the rules for lines and words hold in it.
    /// Prose, recorded results and test data are not code.
    pub fn is_code(&self) -> bool {
        const ENDINGS: [&str; 6] = [".rs", ".toml", ".py", ".sh", "Makefile", ".ci/run"];
        ENDINGS.iter().any(|ending| self.path.ends_with(ending))
    }

    /// Returns the folder under `crates/` that the file belongs to.
    pub fn crate_name(&self) -> Option<&str> {
        Some(self.path.strip_prefix("crates/")?.split_once('/')?.0)
    }

    /// Returns whether the file holds tests only, by its place: the crate `tests`, a folder `tests`
    /// or `fuzz`, or a file called `tests.rs`.
    pub fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| ["tests", "fuzz", "tests.rs"].contains(&part))
    }

    /// Returns the path without `.rs`; modules below the file lie in the folder of that name.
    pub fn module_path(&self) -> &str {
        let path = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        match path.rsplit_once('/') {
            Some((folder, "mod" | "lib" | "main")) => folder,
            _ => path,
        }
    }

    /// Returns a finding in this file.
    pub fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_tell_crate_kind_and_module() {
        let file = |path| SourceFile::new(path, "");
        assert_eq!(file("crates/arena/src/slab.rs").crate_name(), Some("arena"));
        assert_eq!(file("tests/tests.rs").crate_name(), None);
        assert!(file("crates/arena/tests/reader.rs").is_test());
        assert!(file("crates/arena/src/slab/tests.rs").is_test());
        assert!(!file("crates/arena/src/latests.rs").is_test());
        assert!(file(".ci/run").is_code() && !file("docs/start.md").is_code());
        assert_eq!(file("crates/arena/src/slab/mod.rs").module_path(), "crates/arena/src/slab");
        assert_eq!(file("crates/arena/src/slab.rs").module_path(), "crates/arena/src/slab");
        assert_eq!(file("crates/arena/src/lib.rs").module_path(), "crates/arena/src");
    }
}
