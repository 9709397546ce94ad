//! Rules about words in Rust code: a table of token patterns, where each is banned, and what to
//! write instead. Comments and string literals never match.

use super::Finding;
use super::imports::PURE_CRATES;
use super::rust::{RustFile, Token};

/// The word of the first rule, kept out of the samples so that a search finds code alone.
const UNSAFE: &str = "unsafe";
/// The crates that may hold unsafe code, and the files of others that may.
const UNSAFE_PLACES: &[&str] = &[
    "arena",
    "ring",
    "sys",
    "clients/python/src/buffer.rs",
    "clients/python/src/creation.rs",
    "clients/python/src/view.rs",
    "clients/python/src/writable.rs",
];
/// The crates between an instance and the system, and the file of theirs where the two meet.
const INSTANCE_CRATES: &[&str] = &["engine", "runtime"];
const SYSTEM_FILE: &str = "crates/runtime/src/system.rs";

enum RuleScope {
    Everywhere,
    /// Outside of these crates and files.
    OutsideOf(&'static [&'static str]),
    /// In these crates.
    In(&'static [&'static str]),
    /// In these crates, without this file.
    InBut(&'static [&'static str], &'static str),
}

struct TokenRule {
    /// The tokens in a row, with one space between two.
    pattern: &'static str,
    scope: RuleScope,
    in_tests: bool,
    instead: &'static str,
}

const RULES: &[TokenRule] = &[
    TokenRule {
        pattern: UNSAFE,
        scope: RuleScope::OutsideOf(UNSAFE_PLACES),
        in_tests: true,
        instead: "unsafe code lives in arena, ring, sys and the files that the rule names only",
    },
    TokenRule {
        pattern: ". unwrap ( )",
        scope: RuleScope::Everywhere,
        in_tests: false,
        instead: "say why it cannot fail: expect(\"the invariant\")",
    },
    everywhere("dbg !", "remove the debugging aid"),
    everywhere("todo !", "finish it, or leave it out"),
    everywhere("unimplemented !", "finish it, or leave it out"),
    everywhere("# [ ignore", "a test runs or does not exist"),
    pure("Instant :: now", "the time is a parameter"),
    pure("SystemTime :: now", "the time is a parameter"),
    pure("std :: net", "sockets belong to server and client"),
    pure("std :: fs", "files belong to server; storage is a trait"),
    pure("thread :: spawn", "the caller brings the threads"),
    pure("thread :: scope", "the caller brings the threads"),
    pure("thread :: Builder", "the caller brings the threads"),
    pure("thread :: sleep", "nothing here may wait for time"),
    pure("rand ::", "randomness is a parameter: base::prng::Prng"),
    pure("RandomState", "a hasher takes its seed from the caller"),
    instance("sys :: clock", "an instance has its time by the trait Clock"),
    instance("sys :: tsc_clock", "an instance has its time by the trait Clock"),
    instance("sys :: random", "an instance has its randomness by the trait Randomness"),
];

const fn everywhere(pattern: &'static str, instead: &'static str) -> TokenRule {
    TokenRule { pattern, scope: RuleScope::Everywhere, in_tests: true, instead }
}

const fn pure(pattern: &'static str, instead: &'static str) -> TokenRule {
    TokenRule { pattern, scope: RuleScope::In(&PURE_CRATES), in_tests: false, instead }
}

const fn instance(pattern: &'static str, instead: &'static str) -> TokenRule {
    let scope = RuleScope::InBut(INSTANCE_CRATES, SYSTEM_FILE);
    TokenRule { pattern, scope, in_tests: true, instead }
}

/// Returns every place in `file` that matches a rule.
pub fn check(file: &RustFile<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in RULES.iter().filter(|rule| applies(&rule.scope, file)) {
        let pattern: Vec<&str> = rule.pattern.split(' ').collect();
        for tokens in file.imports.iter().chain([&file.tokens]) {
            let lines = matches_in(tokens, &pattern);
            let lines = lines.filter(|&line| rule.in_tests || !file.is_test_line(line));
            findings.extend(lines.map(|line| file.source.finding(line, message(rule))));
        }
    }
    findings
}

fn applies(scope: &RuleScope, file: &RustFile<'_>) -> bool {
    let crate_name = file.source.crate_name().unwrap_or_default();
    let is_among = |places: &[&str]| {
        places.contains(&crate_name) || places.contains(&file.source.path.as_str())
    };
    match scope {
        RuleScope::Everywhere => true,
        RuleScope::OutsideOf(places) => !is_among(places),
        RuleScope::In(crates) => is_among(crates),
        RuleScope::InBut(crates, path) => is_among(crates) && file.source.path != *path,
    }
}

fn matches_in<'a>(tokens: &'a [Token], pattern: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
    tokens
        .windows(pattern.len())
        .filter(|window| window.iter().map(|token| &token.text).eq(pattern.iter()))
        .map(|window| window[0].line)
}

fn message(rule: &TokenRule) -> String {
    format!("`{}` is banned here: {}", rule.pattern.replace(' ', ""), rule.instead)
}

#[cfg(test)]
mod tests {
    use super::super::source::SourceFile;
    use super::*;

    fn lines_found(path: &str, text: &str) -> Vec<usize> {
        let source = SourceFile::new(path, text);
        let file = RustFile::parse(&source).expect("the sample is Rust");
        let mut lines: Vec<usize> = check(&file).iter().map(|finding| finding.line).collect();
        lines.dedup();
        lines
    }

    /// Shows each rule a sample that breaks it, on line 2, in a crate where it holds. `@` in a
    /// sample is its pattern, without the blanks.
    #[test]
    fn each_rule_catches_its_sample() {
        let samples = [
            (UNSAFE, "@ impl A for B {}"),
            (". unwrap ( )", "assert!(a.unwrap() == 1)"),
            ("dbg !", "@(a)"),
            ("todo !", "@()"),
            ("unimplemented !", "@()"),
            ("# [ ignore", "@ = \"slow\"] fn t() {}"),
            ("Instant :: now", "std::time::Instant::now()"),
            ("SystemTime :: now", "SystemTime::now()"),
            ("std :: net", "use std::{io, net::TcpStream};"),
            ("std :: fs", "std::fs::read(path)"),
            ("thread :: spawn", "std::thread::spawn(f)"),
            ("thread :: scope", "thread::scope(f)"),
            ("thread :: Builder", "use std::thread::Builder;"),
            ("thread :: sleep", "thread::sleep(d)"),
            ("rand ::", "rand::random::<u8>()"),
            ("RandomState", "use std::hash::RandomState;"),
            ("sys :: clock", "sys::clock::realtime()"),
            ("sys :: tsc_clock", "use sys::tsc_clock::nanoseconds;"),
            ("sys :: random", "sys::random::seed()"),
        ];
        assert_eq!(samples.map(|sample| sample.0).to_vec(), patterns());
        for (pattern, sample) in samples {
            let sample = sample.replace('@', &pattern.replace(' ', ""));
            let text = format!("fn f() {{\n{sample}\n}}");
            assert_eq!(lines_found("crates/engine/src/a.rs", &text), [2], "{pattern}");
        }
    }

    fn patterns() -> Vec<&'static str> {
        RULES.iter().map(|rule| rule.pattern).collect()
    }

    #[test]
    fn rules_hold_only_where_they_say() {
        let clock = "fn f() {\n    Instant::now();\n}";
        assert!(lines_found("crates/server/src/a.rs", clock).is_empty());
        let system = "fn f() {\n    sys::clock::realtime();\n}";
        assert!(lines_found(SYSTEM_FILE, system).is_empty());
        assert_eq!(lines_found("crates/runtime/src/runtime.rs", system), [2]);
        assert!(lines_found("crates/server/src/a.rs", system).is_empty());
        let raw = format!("fn f() {{\n    {UNSAFE} {{ g() }}\n}}");
        assert!(lines_found("crates/sys/src/a.rs", &raw).is_empty());
        assert!(lines_found("clients/python/src/view.rs", &raw).is_empty());
        assert_eq!(lines_found("clients/python/src/client.rs", &raw), [2]);
        assert_eq!(lines_found("crates/collections/src/hyperloglog.rs", &raw), [2]);
        assert_eq!(lines_found("tests/tests.rs", &raw), [2]);
        assert_eq!(lines_found("crates/server/src/server_state.rs", &raw), [2]);
        let promise = format!("fn f() {{\n    {UNSAFE} impl Source for Memory {{}}\n}}");
        assert!(lines_found("crates/ring/src/a.rs", &promise).is_empty());
        assert_eq!(lines_found("crates/server/src/memory.rs", &promise), [2]);
        let tests = "#[cfg(test)]\nmod tests {\n    fn f() {\n        a.unwrap();\n    }\n}";
        assert!(lines_found("crates/engine/src/a.rs", tests).is_empty());
    }

    #[test]
    fn comments_strings_and_longer_names_do_not_match() {
        let text = format!(
            "// {UNSAFE} dbg!\nfn f() {{\n    g(\"{UNSAFE}\");\n    a.unwrap_or(1);\n}}\n\
             #[forbid(unsafe_code)]\nfn todo() {{}}"
        );
        assert!(lines_found("crates/engine/src/a.rs", &text).is_empty());
    }
}
