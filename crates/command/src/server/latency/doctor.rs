//! LATENCY DOCTOR: the spikes in words.

use std::fmt::Write;

use crate::host::observe::{LatencyEvent, LatencySeries};
use crate::prelude::*;

pub(super) static DOCTOR: Command = Command {
    name: "latency|doctor",
    summary: "Tells about the spikes in words, and what may help.",
    since: "2.8.13",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    example: "> LATENCY DOCTOR\n...",
    handler: Handler::Session(|cx, _, reply| {
        let text = report(cx.host.latency_threshold_ms(), &cx.host.latency_series());
        reply.verbatim(*b"txt", text);
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};

fn report(threshold_ms: u64, all: &[LatencySeries]) -> String {
    if all.is_empty() && threshold_ms == 0 {
        return "Latency is not being watched. CONFIG SET latency-monitor-threshold <milliseconds> \
                starts it: choose what is too long for your clients, 100 for a beginning.\n"
            .to_owned();
    }
    if all.is_empty() {
        return format!("No event took {threshold_ms} ms or more since it is being watched.\n");
    }
    let mut text = String::from("Latency spikes were observed:\n\n");
    for (number, series) in (1..).zip(all) {
        writeln!(text, "{number}. {}", sentence(series)).expect("a String takes any text");
    }
    text.push_str("\nWhat may help:\n\n");
    for advice in advices(threshold_ms, all) {
        writeln!(text, "- {advice}").expect("a String takes any text");
    }
    text
}

fn sentence(series: &LatencySeries) -> String {
    let values = || series.samples.iter().map(|(_, milliseconds)| *milliseconds);
    let count = series.samples.len() as u64;
    let average = values().sum::<u64>() / count;
    let deviation = values().map(|value| value.abs_diff(average)).sum::<u64>() / count;
    let (Some(first), Some(last)) = (series.samples.first(), series.samples.last()) else {
        return String::new();
    };
    let period = (last.0 - first.0) as f64 / (count.saturating_sub(1)).max(1) as f64;
    format!(
        "{}: {count} latency spikes (average {average}ms, mean deviation {deviation}ms, period \
         {period:.2} sec). Worst all time event {}ms.",
        series.event.name(),
        series.milliseconds_max
    )
}

fn advices(threshold_ms: u64, all: &[LatencySeries]) -> Vec<&'static str> {
    let has = |event| all.iter().any(|series: &LatencySeries| series.event == event);
    let mut advices = Vec::new();
    if threshold_ms == 0 {
        advices.push(
            "These spikes are old: latency-monitor-threshold is 0 now, so that none are added.",
        );
    }
    if has(LatencyEvent::Command) {
        advices.push(
            "SLOWLOG GET tells which commands were slow, where slowlog-log-slower-than is not \
             above the spikes.",
        );
        advices.push(
            "Commands whose cost grows with the number of keys (KEYS, FLUSHALL, a long MGET or \
             DEL) hold up what needs the same shards. SCAN and UNLINK work in small steps.",
        );
    }
    if has(LatencyEvent::FastCommand) {
        advices.push(
            "A fast command that is slow waited: for a shard that another command held, for \
             memory, or for a processor. Look at the load of this host, and whether it swaps.",
        );
    }
    if has(LatencyEvent::ExpireCycle) {
        advices.push(
            "Many keys expire at the same moment: spread their times to live, or raise hz so that \
             each round has less to remove.",
        );
    }
    if has(LatencyEvent::EvictionCycle) {
        advices.push(
            "Memory is at its limit, and writes wait until something is evicted: raise maxmemory, \
             lower it in small steps only, or lower maxmemory-samples.",
        );
    }
    advices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_events_and_fits_them() {
        assert!(report(0, &[]).contains("latency-monitor-threshold"));
        assert!(report(7, &[]).contains("No event took 7 ms"));
        let samples = vec![(10, 100), (20, 300)];
        let series =
            LatencySeries { event: LatencyEvent::ExpireCycle, samples, milliseconds_max: 500 };
        let text = report(7, &[series]);
        let expected = "1. expire-cycle: 2 latency spikes (average 200ms, mean deviation 100ms, \
                        period 10.00 sec). Worst all time event 500ms.\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("times to live") && !text.contains("SLOWLOG"), "{text}");
    }
}
