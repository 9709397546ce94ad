//! Configuration of any text, as a file and as a command line: it is refused or it is loaded, all
//! faults are found if there is one, what CONFIG REWRITE writes is read back as the same
//! configuration, and nothing panics.
//!
//! The input is text. Up to a line `==` it is the file; each line after that is an argument of the
//! command line. So that the fuzzer finds options, `@7` means the name of the table's row 7, at the
//! start of a line and after `--`, and a value `~` in its line that row's default.
#![no_main]

#[path = "../step.rs"]
mod step;

use libfuzzer_sys::fuzz_target;
use server::config::check::Findings;
use server::config::rewrite::rewritten;
use server::config::row::Row;
use server::config::{Config, Found, read_options, read_text, rows};

use step::Step;

/// Returns the row that `line` names by its number, and the rest of the line.
fn numbered(line: &[u8]) -> Option<(&'static Row, &[u8])> {
    let rest = line.strip_prefix(b"@")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).take(3).count();
    let number: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    Some((rows().nth(number % rows().count())?, &rest[digits..]))
}

fn expand(line: &[u8], text: &mut Vec<u8>) {
    let Some((row, rest)) = numbered(line) else { return text.extend_from_slice(line) };
    text.extend_from_slice(row.name.as_bytes());
    if rest == b" ~" {
        text.extend_from_slice(format!(" \"{}\"", row.default).as_bytes());
    } else {
        text.extend_from_slice(rest);
    }
}

fn load(found: Vec<Found>) -> Option<Config> {
    let findings = Findings::of(found.clone());
    // No description of a fault panics.
    assert_eq!(findings.describe("file").is_empty(), findings.is_empty());
    let mut config = Config::default();
    let loaded = config.load(found);
    assert_eq!(loaded.is_ok(), findings.faults.is_empty(), "{loaded:?}, {findings:?}");
    loaded.ok()?;
    config.settings();
    Some(config)
}

fn assert_same(found: &Config, expected: &Config, text: &[u8]) {
    for row in rows() {
        let (found, expected) = (found.text(row), expected.text(row));
        assert_eq!(found, expected, "{}:\n{}", row.name, String::from_utf8_lossy(text));
    }
}

fuzz_target!(|input: &[u8]| {
    let _step = Step::begin(input);
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut file = Vec::new();
    for line in lines.by_ref().take_while(|line| *line != b"==") {
        expand(line, &mut file);
        file.push(b'\n');
    }
    let arguments: Vec<String> = lines
        .map(|line| {
            let mut argument = Vec::new();
            match line.strip_prefix(b"--") {
                Some(rest) => {
                    argument.extend_from_slice(b"--");
                    expand(rest, &mut argument);
                }
                None => argument.extend_from_slice(line),
            }
            String::from_utf8_lossy(&argument).into_owned()
        })
        .collect();
    let in_file = read_text(&file, None, 1);
    let found = [in_file.clone(), read_options(&arguments, 1)].concat();
    let Some(config) = load(found) else { return };
    // A file may be wrong where the command line makes up for it.
    let text = rewritten(&config, &file, false);
    let read = load(read_text(&text, None, 1)).expect("what is written can be read");
    assert_same(&read, &config, &text);
    assert_eq!(rewritten(&read, &text, false), text);
    let whole = rewritten(&config, &file, true);
    let read = load(read_text(&whole, None, 1)).expect("what is written whole can be read");
    assert_same(&read, &config, &whole);
});
