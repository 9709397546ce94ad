//! The command line of a server, in Redis's form: `[file] [-] [--name value ...] [-]`.

use std::io;
use std::path::PathBuf;

use super::file::{ConfigError, Found, Place, directive, read_text};
use super::text::{quoted, words};

/// What a command line names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// Whether standard input holds configuration, which follows that of the file.
    pub reads_input: bool,
    /// The options, which follow both.
    options: Vec<String>,
}

impl CommandLine {
    /// Divides `arguments`. The first is a file unless it starts with `-`; a lone `-` stands for
    /// standard input where it is the first argument or the last.
    pub fn parse(arguments: &[String]) -> CommandLine {
        let mut line = CommandLine::default();
        let mut rest = arguments;
        if let Some((first, after)) = rest.split_first()
            && (first == "-" || !first.starts_with('-'))
        {
            rest = after;
            match first.as_str() {
                "-" => line.reads_input = true,
                path => line.file = Some(PathBuf::from(path)),
            }
        }
        if let Some((last, before)) = rest.split_last()
            && last == "-"
        {
            line.reads_input = true;
            rest = before;
        }
        line.options = rest.to_vec();
        line
    }

    /// Returns the directives of the file, of standard input and of the options. What a file
    /// includes is not looked at.
    ///
    /// # Errors
    /// When the file or standard input cannot be read.
    pub fn read(
        &self,
        standard_input: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> Result<Vec<Found>, ConfigError> {
        let mut text = Vec::new();
        if let Some(file) = &self.file {
            text = std::fs::read(file).map_err(|error| ConfigError::unopened(file, &error))?;
            text.push(b'\n');
        }
        if self.reads_input {
            let unread = |error| ConfigError::File(format!("Can't read standard input: {error}"));
            text.extend(standard_input().map_err(unread)?);
        }
        let line_count = text.split(|&byte| byte == b'\n').count();
        let mut found = read_text(&text, None, 1);
        found.extend(read_options(&self.options, line_count + 1));
        Ok(found)
    }
}

/// Returns the directives of `options`: `--name value ...`, repeated, the first at `first_line`.
///
/// By the rules of Redis 7: what follows a name is its first value even if it starts with `--`,
/// except after `--save`, which may stand alone; an option with its value may be one argument.
pub fn read_options(options: &[String], first_line: usize) -> Vec<Found> {
    let mut lines: Vec<String> = Vec::new();
    let mut wants_value = false;
    for (index, option) in options.iter().enumerate() {
        let Some(name) = option.strip_prefix("--").filter(|_| !wants_value) else {
            match lines.last_mut() {
                Some(line) => *line += &format!(" {}", quoted(option)),
                None => lines.push(quoted(option)),
            }
            wants_value = false;
            continue;
        };
        let is_last = options.get(index + 1).is_none_or(|next| next.starts_with("--"));
        if is_last && name.eq_ignore_ascii_case("save") {
            lines.push("save \"\"".to_owned());
            continue;
        }
        lines.push(name.to_owned());
        // Without values of its own, it takes the next argument whatever that is.
        wants_value = words(name.as_bytes()).is_none_or(|words| words.len() < 2);
    }
    let place = |index: usize, text: &String| Place {
        file: None,
        line: first_line + index,
        text: text.trim().to_owned(),
    };
    let read = |(index, line): (usize, &String)| {
        directive(line.as_bytes(), place(index, line)).transpose()
    };
    lines.iter().enumerate().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn check(options: &[&str], expected: &[&[&str]]) {
        let found: Vec<Vec<String>> = read_options(&strings(options), 2)
            .into_iter()
            .map(|found| found.expect("nothing is wrong with it"))
            .map(|directive| [vec![directive.name], directive.arguments].concat())
            .collect();
        assert_eq!(found, expected, "{options:?}");
    }

    #[test]
    fn options_take_all_words_up_to_the_next_option() {
        let options = ["--save", "", "--bind", "127.0.0.1", "::1", "--PORT", "1"];
        check(&options, &[&["save", ""], &["bind", "127.0.0.1", "::1"], &["port", "1"]]);
        check(&["--save", "3600", "1", "60", "10"], &[&["save", "3600", "1", "60", "10"]]);
        check(&["--port 7000", "--timeout", "1"], &[&["port", "7000"], &["timeout", "1"]]);
        check(&["--requirepass", "a \"b\\", "c"], &[&["requirepass", "a \"b\\", "c"]]);
    }

    #[test]
    fn a_name_takes_what_follows_but_save_may_stand_alone() {
        check(&["--port", "--save", ""], &[&["port", "--save", ""]]);
        check(&["--bind", "--port", "1"], &[&["bind", "--port", "1"]]);
        check(&["--port"], &[&["port"]]);
        check(&["--save", "--port", "1"], &[&["save", ""], &["port", "1"]]);
        check(&["--port", "1", "--SAVE"], &[&["port", "1"], &["save", ""]]);
        check(&["--", "--save", ""], &[&["--save", ""]]);
        check(&["port", "1"], &[&["port", "1"]]);
        check(&[], &[]);
    }

    #[test]
    fn a_fault_is_shown_as_redis_shows_it() {
        let found = read_options(&strings(&["--timeout", "1", "--port", "--save", ""]), 2);
        let place = found[1].clone().expect("it can be read").place;
        assert_eq!((place.line, place.text.as_str()), (3, "port \"--save\" \"\""));
        assert!(read_options(&strings(&["--requirepass \"half"]), 2)[0].is_err());
    }

    #[test]
    fn the_file_and_the_lone_dash_are_told_from_options() {
        let check = |arguments: &[&str], file: Option<&str>, reads_input, options: &[&str]| {
            let found = CommandLine::parse(&strings(arguments));
            let (file, options) = (file.map(PathBuf::from), strings(options));
            assert_eq!(found, CommandLine { file, reads_input, options }, "{arguments:?}");
        };
        check(&[], None, false, &[]);
        check(&["-"], None, true, &[]);
        check(&["a.conf"], Some("a.conf"), false, &[]);
        check(&["a.conf", "-"], Some("a.conf"), true, &[]);
        check(&["a.conf", "--port", "1", "-"], Some("a.conf"), true, &["--port", "1"]);
        check(&["-", "--port", "1"], None, true, &["--port", "1"]);
        check(&["a.conf", "-", "--port", "1"], Some("a.conf"), false, &["-", "--port", "1"]);
        check(&["--port", "1", "-"], None, true, &["--port", "1"]);
    }
}
