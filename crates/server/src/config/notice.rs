//! What the log says of options that are set and do nothing.

use super::Config;

/// Logs each option without effect that is set in `after` and was not in `before`.
pub fn log(before: &Config, after: &Config) {
    let is_new = |name: &&&str| !before.noticed().contains(name);
    let names: Vec<&str> = after.noticed().iter().filter(is_new).copied().collect();
    if !names.is_empty() {
        let names = names.join(",");
        tracing::info!(%names, "These options are known and have no effect here");
    }
}
