//! DEBUG SLEEP: nothing, for a while.

use std::time::Duration;

use crate::prelude::*;

/// The longest sleep.
const SECONDS_MAX: f64 = 86_400.0;

pub(super) static SLEEP: Command = Command {
    name: "debug|sleep",
    summary: "Makes the worker that serves the session sleep.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(3),
    args: &[Arg::double("seconds").among(&["0", "0.001"])],
    example: "> DEBUG SLEEP 0\nOK",
    handler: Handler::Control(|cx, args, reply| {
        cx.host.sleep(duration(args.at(2)));
        reply.ok();
        Ok(())
    }),
    ..Command::DEFAULT
};

/// Returns the duration that `text` tells in seconds; what is no number, or a negative one, is no
/// time at all, and more than a day is a day.
fn duration(text: &[u8]) -> Duration {
    let seconds = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| *seconds > 0.0).unwrap_or(0.0);
    Duration::from_secs_f64(seconds.min(SECONDS_MAX))
}
