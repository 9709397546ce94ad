//! A redis.conf and the command line as directives: one option with its arguments each.

use std::path::{Path, PathBuf};

use resp::{Batch, Decoder, Limits};

/// Files that may include each other in depth.
const INCLUDE_DEPTH_MAX: usize = 16;

/// One option with its arguments, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The option's name, lower case.
    pub name: String,
    /// Its arguments, unquoted.
    pub arguments: Vec<String>,
    /// The file and line, or the command line.
    pub place: Place,
}

/// Where a directive stands, for the message about what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line, counted from 1; 0 on the command line.
    pub line: usize,
    /// The text as it was written.
    pub text: String,
}

/// Why the configuration cannot be used; printed as Redis prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Where the fault is; none when a file cannot be read.
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = command::REDIS_VERSION;
        writeln!(formatter, "\n*** FATAL CONFIG FILE ERROR (Redis {version}) ***")?;
        if let Some(Place { line, text }) = &self.place {
            writeln!(formatter, "Reading the configuration file, at line {line}")?;
            writeln!(formatter, ">>> '{text}'")?;
        }
        write!(formatter, "{}", self.message)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// Returns an error about `place`.
    pub fn at(place: &Place, message: impl Into<String>) -> ConfigError {
        ConfigError { place: Some(place.clone()), message: message.into() }
    }
}

/// Reads the directives of the file `path`, those of the files that it includes in their place.
///
/// # Errors
/// When a file cannot be read or a line's quotes do not match.
pub fn read_file(path: &Path) -> Result<Vec<Directive>, ConfigError> {
    read_nested(path, 0)
}

fn read_nested(path: &Path, depth: usize) -> Result<Vec<Directive>, ConfigError> {
    let text = std::fs::read(path).map_err(|error| ConfigError {
        place: None,
        message: format!("Can't open config file '{}': {error}", path.display()),
    })?;
    let mut directives = Vec::new();
    for directive in read_text(&text)? {
        if directive.name != "include" {
            directives.push(directive);
            continue;
        }
        let [file] = directive.arguments.as_slice() else {
            return Err(ConfigError::at(&directive.place, "wrong number of arguments"));
        };
        if depth == INCLUDE_DEPTH_MAX {
            return Err(ConfigError::at(&directive.place, "files include each other too deeply"));
        }
        directives.extend(read_nested(&PathBuf::from(file), depth + 1)?);
    }
    Ok(directives)
}

/// Reads the directives of `text`, one a line; empty lines and those after `#` say nothing.
///
/// # Errors
/// When a line's quotes do not match or it is not UTF-8.
pub fn read_text(text: &[u8]) -> Result<Vec<Directive>, ConfigError> {
    let mut directives = Vec::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let place = Place {
            line: index + 1,
            text: String::from_utf8_lossy(line.trim_ascii()).into_owned(),
        };
        if place.text.is_empty() || place.text.starts_with('#') {
            continue;
        }
        let words = words(line.trim_ascii())
            .ok_or_else(|| ConfigError::at(&place, "Unbalanced quotes in configuration line"))?;
        if let Some((name, arguments)) = words.split_first() {
            let name = name.to_ascii_lowercase();
            directives.push(Directive { name, arguments: arguments.to_vec(), place });
        }
    }
    Ok(directives)
}

/// Splits `line` by the rules of inline requests; none when quotes do not match, the line is
/// longer than such a request may be, or a word is not UTF-8.
pub fn words(line: &[u8]) -> Option<Vec<String>> {
    // A leading space keeps a line that starts with '*' an inline request.
    let mut buffer = [b" ", line, b"\n"].concat();
    let mut batch = Batch::new();
    let decoded = Decoder::new().decode(&mut buffer, &mut batch, 1, &Limits::REDIS);
    if let resp::Next::Failed(_) = decoded.next {
        return None;
    }
    let Some(request) = batch.view(&buffer).iter().next() else { return Some(Vec::new()) };
    request.iter().map(|word| String::from_utf8(word.to_vec()).ok()).collect()
}

/// Reads directives from command-line `arguments`: `--name value ...`, repeated.
///
/// # Errors
/// When the first argument is not an option.
pub fn read_arguments(arguments: &[String]) -> Result<Vec<Directive>, ConfigError> {
    let mut directives: Vec<Directive> = Vec::new();
    for argument in arguments {
        let place = Place { line: 0, text: argument.clone() };
        if let Some(name) = argument.strip_prefix("--").filter(|name| !name.is_empty()) {
            let name = name.to_ascii_lowercase();
            directives.push(Directive { name, arguments: Vec::new(), place });
            continue;
        }
        let Some(directive) = directives.last_mut() else {
            return Err(ConfigError::at(&place, "Bad directive or wrong number of arguments"));
        };
        directive.place.text.push(' ');
        directive.place.text.push_str(argument);
        directive.arguments.push(argument.clone());
    }
    Ok(directives)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &[&str])]) {
        let found = read_text(text.as_bytes()).unwrap();
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
    fn unbalanced_quotes_are_refused_with_their_line() {
        let error = read_text(b"port 1\nrequirepass \"half\n").unwrap_err();
        assert_eq!(error.place.as_ref().unwrap().line, 2);
        let text = error.to_string();
        assert!(text.contains("*** FATAL CONFIG FILE ERROR (Redis 7.2.4) ***"), "{text}");
        assert!(text.contains(">>> 'requirepass \"half'"), "{text}");
    }

    #[test]
    fn command_line_options_take_all_words_up_to_the_next_option() {
        let arguments = ["--save", "", "--bind", "127.0.0.1", "::1", "--PORT", "1"];
        let arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
        let found = read_arguments(&arguments).unwrap();
        let names: Vec<&str> = found.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["save", "bind", "port"]);
        assert_eq!(found[0].arguments, [""]);
        assert_eq!(found[1].arguments, ["127.0.0.1", "::1"]);
        assert!(read_arguments(&["port".to_owned()]).is_err());
    }

    /// Any bytes are either refused or split; nothing panics and no word gains a line end that
    /// was not escaped.
    #[test]
    fn any_bytes_are_split_or_refused() {
        for seed in 0..2_000 {
            let mut random = base::prng::Prng::new(seed);
            let alphabet = b"a \"'\\x41\n\r\t#*$\0\xff";
            let length = random.below(40) as usize;
            let text: Vec<u8> = (0..length)
                .map(|_| alphabet[random.below(alphabet.len() as u64) as usize])
                .collect();
            if let Ok(directives) = read_text(&text) {
                assert!(directives.len() <= 40, "seed {seed}");
            }
        }
    }
}
