//! The options as text: for people, and as a table for the generated page.

use super::row::{Effect, Row, When};
use super::{accepted, find, rows};

/// Returns the effective options, two lines each: name and default, then the meaning, and whether
/// CONFIG SET cannot change it.
pub fn list() -> String {
    let lines = |row: &Row| {
        let when = if row.when == When::Start { " (at start)" } else { "" };
        format!("{} {}\n    {}{when}\n", row.name, shown(row.default), row.doc)
    };
    rows().filter(|row| row.effect == Effect::Effective).map(lines).collect()
}

/// Returns a line for each name that a configuration may or may not hold, with tabs between name,
/// alias, effect, values, default, when it can be set, and meaning. Effects are `effective`,
/// `accepted`, `refused` (but for the default) and `directive` (always refused).
pub fn table() -> String {
    let line = |row: &Row| {
        let cells = [
            row.name,
            row.alias.unwrap_or_default(),
            effect(row),
            &row.kind.values(),
            row.default,
            when(row),
            meaning(row),
        ];
        cells.join("\t") + "\n"
    };
    let options: String = rows().map(line).collect();
    let ignored = accepted::IGNORED.iter().map(|name| {
        format!("{name}\t\taccepted\t\t\tat start\tOf an earlier version of Redis, ignored.\n")
    });
    let refused = accepted::REFUSED
        .iter()
        .map(|(name, reason)| format!("{name}\t\tdirective\t\t\tnever\t{reason}.\n"));
    options + &ignored.collect::<String>() + &refused.collect::<String>()
}

/// Returns all there is to know of the option `name`, or none if there is no such option.
pub fn option(name: &str) -> Option<String> {
    let name = name.trim_start_matches("--").to_ascii_lowercase();
    if let Some((name, reason)) = accepted::REFUSED.iter().find(|(known, _)| *known == name) {
        return Some(format!("{name}\n  refused: {reason}\n"));
    }
    if let Some(name) = accepted::IGNORED.iter().find(|known| **known == name) {
        return Some(format!("{name}\n  accepted: of an earlier version of Redis, ignored\n"));
    }
    let row = find(&name)?;
    let alias = row.alias.map_or(String::new(), |alias| format!(" (also {alias})"));
    let effect = match effect(row) {
        "effective" => "",
        "accepted" => "\n  accepted without effect",
        _ => "\n  other values are refused",
    };
    Some(format!(
        "{}{alias}\n  {}\n  values:  {}\n  default: {}\n  set:     {}{effect}\n",
        row.name,
        meaning(row),
        row.kind.values(),
        shown(row.default),
        when(row),
    ))
}

fn effect(row: &Row) -> &'static str {
    match (row.effect, row.kind.refusal().is_some()) {
        (_, true) => "refused",
        (Effect::Effective, _) => "effective",
        (Effect::Accepted, _) => "accepted",
    }
}

fn meaning(row: &Row) -> &'static str {
    row.kind.refusal().unwrap_or(row.doc)
}

fn when(row: &Row) -> &'static str {
    match row.when {
        When::Always => "any time",
        When::Start => "at start",
        When::Protected => "at start; any time under enable-protected-configs",
    }
}

fn shown(default: &str) -> &str {
    if default.is_empty() { "''" } else { default }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_described_whole() {
        let text = option("--TIMEOUT").expect("it is an option");
        for part in ["timeout\n", "0 to 2147483647", "default: 0\n", "any time"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(option("slaveof").is_some_and(|text| text.contains("other values are refused")));
        assert!(option("io-threads").is_some_and(|text| text.contains("without effect")));
        assert!(option("loadmodule").is_some_and(|text| text.contains("refused: ")));
        assert_eq!(option("nope"), None);
    }

    #[test]
    fn the_table_has_seven_cells_a_line() {
        let table = table();
        assert!(table.lines().count() > 180);
        for line in table.lines() {
            assert_eq!(line.split('\t').count(), 7, "{line}");
        }
    }
}
