//! MEMORY DOCTOR: what is unusual about memory, in words.

use std::fmt::Write;

use crate::host::observe::{MemoryReport, ratio};
use crate::prelude::*;

/// Below this nothing can be told: fixed costs outweigh everything else.
const USED_BYTES_MIN: u64 = 5 << 20;
/// The peak, or the process, may be so many times what is in use.
const PEAK_RATIO_MAX: f64 = 1.5;
const RESIDENT_RATIO_MAX: f64 = 1.4;
/// Resident memory beyond what is in use that is not worth a word.
const RESIDENT_EXCESS_MIN: u64 = 10 << 20;
/// What a client may take on average.
const CLIENT_BYTES_MAX: u64 = 200 << 10;

pub(super) static DOCTOR: Command = Command {
    name: "memory|doctor",
    summary: "Tells in words what is unusual about memory.",
    since: "4.0.0",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::UNGUARDED,
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    example: "> MEMORY DOCTOR\n...",
    handler: Handler::Session(|cx, _, reply| {
        reply.verbatim(*b"txt", text(&cx.host.memory_report()));
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};

fn text(report: &MemoryReport) -> String {
    if report.used < USED_BYTES_MIN {
        return "There is too little data to tell anything: fixed costs outweigh it.\n".to_owned();
    }
    let findings = findings(report);
    if findings.is_empty() {
        return "No memory problem was found.\n".to_owned();
    }
    let mut text = String::from("What is unusual about memory:\n\n");
    for finding in findings {
        writeln!(text, " * {finding}").expect("a String takes any text");
    }
    text
}

fn findings(report: &MemoryReport) -> Vec<String> {
    let mut findings = Vec::new();
    let peak = ratio(report.used_max, report.used);
    if peak > PEAK_RATIO_MAX {
        findings.push(format!(
            "Peak: {peak:.1} times as much was in use before. What it took may still be with the \
             process; MEMORY PURGE gives back what is free in whole segments."
        ));
    }
    let resident = ratio(report.resident, report.used);
    let excess = report.resident.saturating_sub(report.used);
    if resident > RESIDENT_RATIO_MAX && excess > RESIDENT_EXCESS_MIN && peak <= PEAK_RATIO_MAX {
        findings.push(format!(
            "Fragmentation: the process has {resident:.1} times what is in use. Free room lies \
             between values; it is used before more is taken from the system."
        ));
    }
    let average = report.clients.checked_div(report.client_count).unwrap_or(0);
    if average > CLIENT_BYTES_MAX {
        findings.push(format!(
            "Clients: {average} bytes on average for each of {}. They send large requests or do \
             not read their replies: see CLIENT LIST, qbuf and omem.",
            report.client_count
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl Fn(&mut MemoryReport), expected: &str) {
        const MB: u64 = 1 << 20;
        let mut report = MemoryReport {
            used: 100 * MB,
            used_max: 100 * MB,
            resident: 110 * MB,
            client_count: 10,
            ..MemoryReport::default()
        };
        change(&mut report);
        let text = text(&report);
        assert!(text.contains(expected), "{text}");
        let findings = ["Peak:", "Fragmentation:", "Clients:"];
        let count = findings.iter().filter(|finding| text.contains(**finding)).count();
        assert_eq!(count, usize::from(findings.contains(&expected)), "{text}");
    }

    #[test]
    fn each_finding_has_its_cause() {
        check(|_| (), "No memory problem");
        check(|report| report.used = 1, "too little");
        check(|report| report.used_max *= 2, "Peak:");
        check(|report| report.resident *= 2, "Fragmentation:");
        check(|report| report.clients = 10 << 20, "Clients:");
    }
}
