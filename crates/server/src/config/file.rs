//! A redis.conf as directives: one option with its arguments each.

use std::io;
use std::path::{Path, PathBuf};

use sys::error_text::base_text;

use super::text::words;

/// Files that may include each other in depth.
const INCLUDE_DEPTH_MAX: usize = 16;
/// Files that are included in all: patterns that match the including file multiply.
const INCLUDE_FILES_MAX: usize = 1000;

/// One option with its arguments, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The option's name, lower case.
    pub name: String,
    /// Its arguments, unquoted.
    pub arguments: Vec<String>,
    /// Where it stands.
    pub place: Place,
}

/// Where a directive stands, for the message about what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The included file; none in the main one, on standard input and on the command line.
    pub file: Option<PathBuf>,
    /// The line, counted from 1. As in Redis, standard input and the command line go on counting
    /// where the file ends, one line for each option.
    pub line: usize,
    /// The text as it was written.
    pub text: String,
}

/// Why the configuration cannot be used; printed as Redis prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A directive is at fault.
    Directive {
        /// Where it stands.
        place: Place,
        /// What is wrong with it.
        message: String,
    },
    /// A file cannot be read; a sentence that names it.
    File(String),
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Place { file, line, text }, message) = match self {
            ConfigError::File(message) => return write!(formatter, "{message}"),
            ConfigError::Directive { place, message } => (place, message),
        };
        writeln!(formatter, "{}", heading())?;
        write!(formatter, "Reading the configuration file, at line {line}")?;
        match file {
            Some(file) => writeln!(formatter, " of {}", file.display())?,
            None => writeln!(formatter)?,
        }
        writeln!(formatter, ">>> '{text}'")?;
        write!(formatter, "{message}")
    }
}

impl std::error::Error for ConfigError {}

/// Returns `message` about a value that the system refuses, under the heading that tools look for.
pub fn file_error(message: &str) -> String {
    format!("{}\n{message}", heading())
}

fn heading() -> String {
    format!("\n*** FATAL CONFIG FILE ERROR (Redis {}) ***", command::REDIS_VERSION)
}

impl ConfigError {
    /// Returns an error about `place`.
    pub fn at(place: &Place, message: impl Into<String>) -> ConfigError {
        ConfigError::Directive { place: place.clone(), message: message.into() }
    }

    /// Returns the error of a file that cannot be opened, in Redis's words.
    pub fn unopened(file: &Path, error: &io::Error) -> ConfigError {
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let reason = base_text(error);
        let path = path.display();
        ConfigError::File(format!("Fatal error, can't open config file '{path}': {reason}"))
    }
}

/// A directive, or what is wrong at its place.
pub type Found = Result<Directive, ConfigError>;

/// Returns the directives of `text`, one a line, which starts at `first_line` of `file`; empty
/// lines and those after `#` say nothing.
pub fn read_text(text: &[u8], file: Option<&Path>, first_line: usize) -> Vec<Found> {
    let lines = text.split(|&byte| byte == b'\n').enumerate();
    lines.filter_map(|(index, line)| read_line(line, file, first_line + index)).collect()
}

fn read_line(line: &[u8], file: Option<&Path>, number: usize) -> Option<Found> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return None;
    }
    let text = String::from_utf8_lossy(line).into_owned();
    directive(line, Place { file: file.map(Path::to_owned), line: number, text }).transpose()
}

/// Returns the directive that `line` is, or none if it has no word.
///
/// # Errors
/// When its quotes do not match or it is not UTF-8.
pub fn directive(line: &[u8], place: Place) -> Result<Option<Directive>, ConfigError> {
    let Some(words) = words(line) else {
        let is_text = std::str::from_utf8(line).is_ok();
        let fault = if is_text { "Unbalanced quotes in configuration line" } else { NOT_TEXT };
        return Err(ConfigError::at(&place, fault));
    };
    let Some((name, arguments)) = words.split_first() else { return Ok(None) };
    let (name, arguments) = (name.to_ascii_lowercase(), arguments.to_vec());
    Ok(Some(Directive { name, arguments, place }))
}

const NOT_TEXT: &str = "Not UTF-8, which names, values and paths have to be";

/// Returns `found` with each `include` replaced by what the files that it names hold, in the order
/// of their names where it is a pattern. A pattern that matches no file says nothing.
pub fn with_includes(found: Vec<Found>) -> Vec<Found> {
    let mut includer = Includer { file_count: 0, expanded: Vec::new() };
    includer.expand(found, 0);
    includer.expanded
}

struct Includer {
    file_count: usize,
    expanded: Vec<Found>,
}

impl Includer {
    fn expand(&mut self, found: Vec<Found>, depth: usize) {
        for found in found {
            match found {
                Ok(directive) if directive.name == "include" => {
                    if let Err(error) = self.include(&directive, depth) {
                        self.expanded.push(Err(error));
                    }
                }
                found => self.expanded.push(found),
            }
        }
    }

    fn include(&mut self, directive: &Directive, depth: usize) -> Result<(), ConfigError> {
        let [pattern] = directive.arguments.as_slice() else {
            return Err(ConfigError::at(&directive.place, "wrong number of arguments"));
        };
        for path in files(pattern).map_err(|why| ConfigError::at(&directive.place, why))? {
            self.file_count += 1;
            if depth == INCLUDE_DEPTH_MAX || self.file_count > INCLUDE_FILES_MAX {
                let fault = "files include each other too deeply, or too many of them";
                return Err(ConfigError::at(&directive.place, fault));
            }
            let text = std::fs::read(&path).map_err(|error| ConfigError::unopened(&path, &error));
            self.expand(read_text(&text?, Some(&path), 1), depth + 1);
        }
        Ok(())
    }
}

/// Returns the files that `pattern` means, which need not exist if it is no pattern.
fn files(pattern: &str) -> Result<Vec<PathBuf>, String> {
    if !pattern.contains(['*', '?', '[']) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let paths = glob::glob(pattern).map_err(|error| format!("wrong pattern: {error}"))?;
    Ok(paths.filter_map(Result::ok).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Vec<Directive>, ConfigError> {
        read_text(text, None, 1).into_iter().collect()
    }

    fn check(text: &str, expected: &[(&str, &[&str])]) {
        let found = read(text.as_bytes()).unwrap();
        let found: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|d| (d.name.as_str(), d.arguments.iter().map(String::as_str).collect()))
            .collect();
        let expected: Vec<(&str, Vec<&str>)> =
            expected.iter().map(|(name, arguments)| (*name, arguments.to_vec())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn lines_are_split_as_redis_splits_them() {
        check("", &[]);
        check("# a comment\n\n   \n", &[]);
        check(
            "port 6380\r\nBIND 127.0.0.1 -::1\n",
            &[("port", &["6380"]), ("bind", &["127.0.0.1", "-::1"])],
        );
        check("save \"\"", &[("save", &[""])]);
        check("requirepass \"a b\\n\\x41\"", &[("requirepass", &["a b\nA"])]);
        check("requirepass 'it\\'s'", &[("requirepass", &["it's"])]);
        check("*odd 1", &[("*odd", &["1"])]);
    }

    #[test]
    fn unbalanced_quotes_and_foreign_bytes_are_refused_with_their_line() {
        let error = read(b"port 1\nrequirepass \"half\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("*** FATAL CONFIG FILE ERROR (Redis 7.2.4) ***"), "{text}");
        assert!(text.contains("Reading the configuration file, at line 2\n"), "{text}");
        assert!(text.contains(">>> 'requirepass \"half'\nUnbalanced quotes"), "{text}");
        let text = read(b"requirepass \xff").unwrap_err().to_string();
        assert!(text.ends_with(NOT_TEXT), "{text}");
    }

    #[test]
    fn included_files_stand_in_the_place_of_their_directive() {
        let folder = std::env::temp_dir().join(format!("forebay-include-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("parts")).unwrap();
        let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
        let inside = |name: &str| folder.join(name).display().to_string();
        write("parts/b.conf", "timeout 2\nnope \"half".to_owned());
        write("parts/a.conf", format!("include {}", inside("deep")));
        write("deep", "timeout 3".to_owned());
        write("self", format!("include {}", inside("sel?")));
        let expand = |text: String| with_includes(read_text(text.as_bytes(), None, 1));
        let lines = ["port 1", "include {}/parts/*.conf", "include {}/none/*", "port 4"];
        let text = lines.join("\n").replace("{}", &folder.display().to_string());
        let expanded = expand(text);
        let names: Vec<&str> =
            expanded.iter().map(|found| found.as_ref().map_or("?", |d| &d.arguments[0])).collect();
        assert_eq!(names, ["1", "3", "2", "?", "4"]);
        let text = expanded[3].clone().unwrap_err().to_string();
        assert!(text.contains(&format!("at line 2 of {}\n", inside("parts/b.conf"))), "{text}");
        let text = expand(format!("include {}", inside("none")))[0].clone().unwrap_err();
        assert!(text.to_string().starts_with("Fatal error, can't open config file '"), "{text}");
        let text = expand(format!("include {}", inside("self")))[0].clone().unwrap_err();
        assert!(text.to_string().contains("too deeply"), "{text}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
