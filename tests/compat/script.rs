//! Scripts: requests and the replies that they must get, as text.
//!
//! ```text
//! # A comment.
//! == a case: the keyspace is empty and the connections are new
//! SET key "a value\n"
//!   +OK
//! 2: GET key
//!   "a value\n"
//! CLIENT SETINFO lib-name x
//!   +OK
//!   redis 7.0: -ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.
//!   source: Redis 7.2 release notes, "CLIENT SETINFO"
//! ```
//!
//! A request goes over connection 1 unless a number precedes it. Words are quoted as in redis-cli;
//! `repeat(x,100)` is a word of a hundred `x`. A reply is written as `render.rs` prints it, with
//! `{int}` for any number, `{near 10000}` for one within 5 % of that and `{any}` for anything.
//! `unordered` before an array lets its elements come in any order; `closed` says that the server
//! closes the connection. A reply of redis-server 7.0 that Forebay, which follows 7.2, does not
//! share has a line of its own, and a line for the source.

use std::collections::BTreeMap;

use harness::{Connection, Kind, Launch, Request, Server};

use super::render::render;

/// A parsed script.
#[derive(Debug)]
pub struct Script {
    cases: Vec<Case>,
}

#[derive(Debug)]
struct Case {
    name: String,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    line: usize,
    text: String,
    session: u32,
    request: Request,
    expected: Option<String>,
    expected_of_redis: Option<String>,
    source: Option<String>,
}

/// A reply that differs from the script.
#[derive(Debug)]
pub struct Mismatch {
    /// The line of the request.
    pub line: usize,
    /// The whole story.
    pub message: String,
    /// What came.
    pub found: String,
}

impl Script {
    /// Parses `text`.
    ///
    /// # Panics
    /// When it is no script; the line is in the message.
    pub fn parse(text: &str) -> Script {
        let mut cases = Vec::new();
        for (index, line) in text.lines().enumerate() {
            parse_line(index + 1, line, &mut cases);
        }
        let script = Script { cases };
        for step in script.cases.iter().flat_map(|case| &case.steps) {
            let is_sourced = step.expected_of_redis.is_none() || step.source.is_some();
            assert!(is_sourced, "line {}: a difference to Redis 7.0 has a source", step.line);
        }
        script
    }

    /// Returns how many requests it has.
    pub fn step_count(&self) -> usize {
        self.cases.iter().map(|case| case.steps.len()).sum()
    }

    /// Runs every case on a server of `kind` and returns what differs.
    pub fn run(&self, kind: Kind) -> Vec<Mismatch> {
        self.run_over(kind, Server::tcp)
    }

    /// As [`Script::run`], over connections that `connect` makes.
    pub fn run_over(&self, kind: Kind, connect: fn(&Server) -> Connection) -> Vec<Mismatch> {
        let start = || Launch::new(kind).start();
        let mut server = start();
        let mut mismatches = Vec::new();
        for case in &self.cases {
            let found = run_case(case, &server, connect);
            if !found.is_empty() {
                mismatches.extend(found);
                server = start(); // The case may have left settings behind.
            }
        }
        mismatches
    }
}

fn parse_line(number: usize, line: &str, cases: &mut Vec<Case>) {
    if line.trim().is_empty() || line.starts_with('#') {
        return;
    }
    if let Some(name) = line.strip_prefix("== ") {
        cases.push(Case { name: name.to_owned(), steps: Vec::new() });
        return;
    }
    let case = cases.last_mut().unwrap_or_else(|| panic!("line {number}: stands in no case"));
    let Some(reply) = line.strip_prefix("  ") else {
        case.steps.push(parse_request(number, line));
        return;
    };
    let step = case.steps.last_mut().unwrap_or_else(|| panic!("line {number}: answers no request"));
    let (place, text) = match reply.split_once(": ") {
        Some(("redis 7.0", text)) => (&mut step.expected_of_redis, text),
        Some(("source", text)) => (&mut step.source, text),
        _ => (&mut step.expected, reply),
    };
    assert!(place.is_none(), "line {number}: says what a line above says");
    *place = Some(text.to_owned());
}

fn parse_request(line: usize, text: &str) -> Step {
    let (session, words) = match text.split_once(": ") {
        Some((number, words)) if number.parse::<u32>().is_ok() => {
            (number.parse().expect("it was just parsed"), words)
        }
        _ => (1, text),
    };
    let request = split(words).unwrap_or_else(|| panic!("line {line}: unbalanced quotes"));
    Step {
        line,
        text: text.to_owned(),
        session,
        request,
        expected: None,
        expected_of_redis: None,
        source: None,
    }
}

fn run_case(case: &Case, server: &Server, connect: fn(&Server) -> Connection) -> Vec<Mismatch> {
    server.tcp().call("FLUSHALL");
    let mut sessions: BTreeMap<u32, Connection> = BTreeMap::new();
    let mut mismatches = Vec::new();
    for step in &case.steps {
        let session = sessions.entry(step.session).or_insert_with(|| connect(server));
        let found = answer(session, step);
        let expected = match (server.kind(), &step.expected_of_redis) {
            (Kind::Redis, Some(expected)) => expected.as_str(),
            _ => step.expected.as_deref().unwrap_or("(no reply written)"),
        };
        if found.ends_with("closed") {
            sessions.remove(&step.session);
        }
        if !agrees(expected, &found) {
            let place = format!("{:?}, line {}, case '{}'", server.kind(), step.line, case.name);
            let text = &step.text;
            let message = format!("{place}\n  {text}\n  expected {expected}\n  found    {found}");
            mismatches.push(Mismatch { line: step.line, message, found });
        }
    }
    mismatches
}

/// Returns the rendered reply to `step`; with `closed` behind it if the script expects a close and
/// the server does close.
fn answer(session: &mut Connection, step: &Step) -> String {
    let sent = session.send(&harness::encode(std::slice::from_ref(&step.request)));
    let reply = match sent.and_then(|()| session.read()) {
        Ok(raw) => render(&raw.bytes),
        Err(error) => return format!("({error}) closed"),
    };
    let ends = step.expected.as_ref().is_some_and(|expected| expected.ends_with("closed"));
    match ends.then(|| session.read()) {
        None => reply,
        Some(Err(_)) => format!("{reply} closed"),
        Some(Ok(more)) => format!("{reply} and then {}", render(&more.bytes)),
    }
}

/// Returns whether `found` is what the script calls `expected`.
fn agrees(expected: &str, found: &str) -> bool {
    match expected.strip_prefix("unordered ") {
        Some(expected) => sorted_elements(expected) == sorted_elements(found),
        None => matches(expected, found),
    }
}

fn sorted_elements(text: &str) -> Vec<&str> {
    let mut elements: Vec<&str> = text.split([' ', '[', ']']).collect();
    elements.sort_unstable();
    elements
}

/// Returns whether `text` is `pattern`, in which words in braces stand for what they say.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((literal, rest)) = pattern.split_once('{') else { return pattern == text };
    let (Some(text), Some((word, pattern))) = (text.strip_prefix(literal), rest.split_once('}'))
    else {
        return false;
    };
    (0..=text.len())
        .rev()
        .filter(|&end| text.is_char_boundary(end) && fits(word, &text[..end]))
        .any(|end| matches(pattern, &text[end..]))
}

/// Returns whether `part` is what the word in braces stands for.
fn fits(word: &str, part: &str) -> bool {
    match word.strip_prefix("near ") {
        Some(number) => {
            let number: f64 = number.parse().expect("'near' is followed by a number");
            part.parse::<i64>().is_ok_and(|part| (part as f64 - number).abs() < number / 20.0)
        }
        None if word == "int" => part.parse::<i128>().is_ok(),
        None => {
            assert_eq!(word, "any", "a word in braces is 'any', 'int' or 'near' and a number");
            true
        }
    }
}

/// Returns the words of a line as redis-cli divides it; none when a quote is not closed.
fn split(line: &str) -> Option<Request> {
    let mut words = Vec::new();
    let mut bytes = line.bytes().peekable();
    loop {
        while bytes.next_if(u8::is_ascii_whitespace).is_some() {}
        let Some(&first) = bytes.peek() else { return Some(words) };
        let mut word = Vec::new();
        if first == b'"' {
            bytes.next();
            quoted_word(&mut bytes, &mut word)?;
        } else {
            word.extend(std::iter::from_fn(|| bytes.next_if(|byte| !byte.is_ascii_whitespace())));
            word = repeated(&word).unwrap_or(word);
        }
        words.push(word);
    }
}

fn quoted_word(bytes: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> Option<()> {
    loop {
        match bytes.next()? {
            b'"' => return Some(()),
            b'\\' => word.push(match bytes.next()? {
                b'x' => {
                    let digits = [bytes.next()?, bytes.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                other => other,
            }),
            byte => word.push(byte),
        }
    }
}

/// Returns what a word of the form `repeat(x,100)` stands for.
fn repeated(word: &[u8]) -> Option<Vec<u8>> {
    let inner = std::str::from_utf8(word).ok()?.strip_prefix("repeat(")?.strip_suffix(')')?;
    let (part, count) = inner.rsplit_once(',')?;
    Some(part.as_bytes().repeat(count.parse().ok()?))
}

/// Returns `text` with the reply of each mismatch written where it belongs.
pub fn corrected(text: &str, mismatches: &[Mismatch]) -> String {
    let found: BTreeMap<usize, &str> =
        mismatches.iter().map(|mismatch| (mismatch.line, mismatch.found.as_str())).collect();
    let mut lines: Vec<String> = Vec::new();
    let mut is_replaced = false;
    for (index, line) in text.lines().enumerate() {
        let is_old_reply = line.starts_with("  ") && is_replaced;
        is_replaced &= is_old_reply;
        if is_old_reply {
            continue;
        }
        lines.push(line.to_owned());
        if let Some(found) = found.get(&(index + 1)) {
            lines.push(format!("  {found}"));
            is_replaced = true;
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_what_they_say_and_no_more() {
        assert!(matches("[:{int} \"a\"]", "[:-12 \"a\"]"));
        assert!(!matches("[:{int} \"a\"]", "[:x \"a\"]"));
        assert!(!matches(":{int}", ":1 2"));
        assert!(matches(":{near 100}", ":96") && !matches(":{near 100}", ":94"));
        assert!(matches("-ERR {any} end", "-ERR a b end"));
        assert!(!matches("-ERR {any} end", "-ERR a b"));
    }

    #[test]
    fn elements_in_any_order_agree_and_others_do_not() {
        assert!(agrees("unordered [\"a\" \"b\"]", "[\"b\" \"a\"]"));
        assert!(!agrees("unordered [\"a\" \"b\"]", "[\"b\" \"b\"]"));
        assert!(!agrees("[\"a\" \"b\"]", "[\"b\" \"a\"]"));
    }

    #[test]
    fn words_are_divided_as_in_redis_cli() {
        let words = split("SET \"a \\x00\\\"\" '' repeat(ab,2)").expect("the quotes are balanced");
        assert_eq!(words, [&b"SET"[..], b"a \0\"", b"''", b"abab"]);
        assert_eq!(split("GET \"a"), None);
    }

    #[test]
    #[should_panic(expected = "has a source")]
    fn a_difference_without_a_source_is_refused() {
        Script::parse("== a\nPING\n  +PONG\n  redis 7.0: -ERR\n");
    }
}
