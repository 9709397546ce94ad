//! What the log says of options that are set and do nothing.

use super::Config;
use super::options::Persistence;

/// Logs each option without effect that is set in `after` and was not in `before`, and a save
/// schedule that is another one.
pub fn log(before: &Config, after: &Config) {
    let is_new = |name: &&&str| !before.noticed().contains(name);
    let names: Vec<&str> = after.noticed().iter().filter(is_new).copied().collect();
    if !names.is_empty() {
        let names = names.join(",");
        tracing::info!(%names, "These options are known and have no effect here");
    }
    let schedule = after.text(Persistence::schedule());
    if !schedule.is_empty() && schedule != before.text(Persistence::schedule()) {
        tracing::warn!(
            schedule,
            "The save schedule is not acted on: nothing is written to disk, and the data is gone \
             when the server ends"
        );
    }
}
