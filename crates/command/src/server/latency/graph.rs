//! LATENCY GRAPH: the spikes of one event as a picture.

use super::series_of;
use crate::host::observe::LatencySeries;
use crate::prelude::*;

/// Spikes in one row of the picture.
const COLUMNS: usize = 80;
/// Lines of a row.
const LINES: u64 = 4;
/// What stands at the top of a column: a line has a low, a middle and a high one.
const TOPS: [char; 3] = ['_', 'o', '#'];

pub(super) static GRAPH: Command = Command {
    name: "latency|graph",
    summary: "Draws the spikes of an event.",
    since: "2.8.13",
    group: Group::Server,
    arity: Arity::exactly(3),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::string("event").among(&["command", "expire-cycle"])],
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    example: "> LATENCY GRAPH nothing\n(error) ERR No samples available for event 'nothing'",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let Some(series) = series_of(cx, args.at(2)) else {
        let parts: [&[u8]; 3] = [b"ERR No samples available for event '", args.at(2), b"'"];
        return Err(CommandError::text_of(&parts).into());
    };
    reply.verbatim(*b"txt", picture(&series, cx.now.0 / 1000));
    Ok(Next::Done)
}

fn picture(series: &LatencySeries, now_s: i64) -> String {
    let values = || series.samples.iter().map(|(_, milliseconds)| *milliseconds);
    let (low, high) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
    let mut text = format!(
        "{} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        series.event.name(),
        series.milliseconds_max,
        "-".repeat(80)
    );
    let steps = TOPS.len() as u64 * LINES;
    for (index, samples) in series.samples.chunks(COLUMNS).enumerate() {
        if index > 0 {
            text.push('\n');
        }
        for line in (0..LINES).rev() {
            let column = |(_, value): &(i64, u64)| {
                let step = ((value - low) * steps / (high - low).max(1)).min(steps - 1);
                cell(step, line)
            };
            text.extend(samples.iter().map(column));
            text.push('\n');
        }
        append_ages(&mut text, samples, now_s);
    }
    text
}

/// Returns what a column of height `step` shows in `line`, counted from the bottom.
fn cell(step: u64, line: u64) -> char {
    match step.checked_sub(line * TOPS.len() as u64) {
        None => ' ',
        Some(over) => TOPS.get(over as usize).copied().unwrap_or('|'),
    }
}

/// Appends how long ago each spike was, top-down below its column.
fn append_ages(text: &mut String, samples: &[(i64, u64)], now_s: i64) {
    let ages: Vec<Vec<char>> =
        samples.iter().map(|(time_s, _)| age(now_s - time_s).chars().collect()).collect();
    let height = ages.iter().map(Vec::len).max().unwrap_or(0);
    text.extend(std::iter::repeat_n(' ', samples.len()));
    text.push('\n');
    for line in 0..height {
        text.extend(ages.iter().map(|age| age.get(line).copied().unwrap_or(' ')));
        text.push('\n');
    }
}

fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{}s", seconds.max(0)),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::observe::LatencyEvent;

    #[test]
    fn columns_are_as_high_as_their_spikes() {
        let samples = vec![(0, 100), (3600, 400), (7190, 300), (7200, 700)];
        let series = LatencySeries { event: LatencyEvent::Command, samples, milliseconds_max: 900 };
        let text = picture(&series, 7200);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command - high 700 ms, low 100 ms (all time high 900 ms)");
        assert_eq!(lines[1], "-".repeat(80));
        assert_eq!(&lines[2..], ["   #", " _ |", " |o|", "_|||", "    ", "2110", "hh0s", "  s "]);
    }
}
