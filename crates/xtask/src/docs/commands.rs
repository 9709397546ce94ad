//! The page of commands, from the command table.

use command::{Arg, ArgKind, Command, Group};

use super::support::is_in_no_redis;

const GROUPS: [(Group, &str); 13] = [
    (Group::String, "Strings"),
    (Group::Bitmap, "Bits of strings"),
    (Group::HyperLogLog, "HyperLogLogs"),
    (Group::Hash, "Hashes"),
    (Group::List, "Lists"),
    (Group::Set, "Sets"),
    (Group::SortedSet, "Sorted sets"),
    (Group::Geo, "Places"),
    (Group::Stream, "Streams"),
    (Group::Generic, "Keys"),
    (Group::Transactions, "Transactions"),
    (Group::Connection, "Connection"),
    (Group::Server, "Server"),
];

/// Returns the page for the rows in `table`.
///
/// # Panics
/// When a row belongs to a group that has no chapter.
pub fn page(table: &[&'static Command]) -> String {
    let mut page = format!(
        "# Commands\n\n\
         Written by `cargo xtask docs` from the command table. Semantics, reply shapes and error\n\
         texts are those of Redis {}. There are {} commands.\n",
        command::REDIS_VERSION,
        table.len()
    );
    for row in table {
        assert!(GROUPS.iter().any(|(group, _)| *group == row.group), "{} has no chapter", row.name);
    }
    for (group, title) in GROUPS {
        let mut rows: Vec<&Command> = table.iter().copied().filter(|r| r.group == group).collect();
        rows.sort_by_key(|row| row.name);
        page.push_str(&format!("\n## {title}\n"));
        for row in rows {
            page.push_str(&chapter(row, "###"));
            for subcommand in row.subcommands {
                page.push_str(&chapter(subcommand, "####"));
            }
        }
    }
    page
}

fn chapter(row: &Command, heading: &str) -> String {
    let mut chapter = format!("\n{heading} {}\n\n{}\n", syntax(row), row.summary);
    if let Some((version, instead)) = row.deprecated {
        chapter.push_str(&format!("\nDeprecated since Redis {version}: use {instead}.\n"));
    }
    if !row.note.is_empty() {
        chapter.push_str(&format!("\n{}\n", row.note));
    }
    let since = if is_in_no_redis(row) { "" } else { row.since };
    let facts = [
        ("Cost", row.complexity.to_owned()),
        ("In Redis since", since.to_owned()),
        ("Flags", row.shown_flags().names().collect::<Vec<_>>().join(", ")),
        (
            "ACL",
            row.acl_categories()
                .names()
                .map(|name| format!("@{name}"))
                .collect::<Vec<_>>()
                .join(" "),
        ),
    ];
    chapter.push('\n');
    for (name, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
        chapter.push_str(&format!("- {name}: {text}\n"));
    }
    for (version, change) in row.history {
        chapter.push_str(&format!("- Redis {version}: {change}\n"));
    }
    if !row.example.is_empty() {
        chapter.push_str(&format!("\n```\n{}\n```\n", row.example));
    }
    chapter
}

/// Returns how one types the command, in the notation of Redis's documentation.
fn syntax(row: &Command) -> String {
    let name = row.name.to_uppercase().replace('|', " ");
    let args: String = row.args.iter().map(|arg| format!(" {}", syntax_of(arg))).collect();
    format!("{name}{args}")
}

fn syntax_of(arg: &Arg) -> String {
    let value = match arg.kind {
        ArgKind::PureToken => String::new(),
        ArgKind::OneOf(args) => alternatives(arg, args),
        ArgKind::Block(args) => args.iter().map(syntax_of).collect::<Vec<_>>().join(" "),
        _ => arg.name.to_owned(),
    };
    let one = [arg.token, &value].into_iter().filter(|part| !part.is_empty());
    let one = one.collect::<Vec<_>>().join(" ");
    let again = if arg.token_each { &one } else { &value };
    let all = if arg.multiple { format!("{one} [{again} ...]") } else { one };
    if arg.optional { format!("[{all}]") } else { all }
}

/// Returns the alternatives; in angle brackets where nothing else would hold them together.
fn alternatives(arg: &Arg, args: &[Arg]) -> String {
    let list = args.iter().map(syntax_of).collect::<Vec<_>>().join(" | ");
    if arg.optional && arg.token.is_empty() { list } else { format!("<{list}>") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_written_as_redis_writes_them() {
        const WHEN: &[Arg] = &[Arg::word("nx", "NX"), Arg::word("xx", "XX")];
        const PAIR: &[Arg] = &[Arg::key("key"), Arg::string("value")];
        let cases = [
            (Arg::key("key").multiple(), "key [key ...]"),
            (Arg::one_of("when", WHEN).optional(), "[NX | XX]"),
            (Arg::one_of("when", WHEN), "<NX | XX>"),
            (Arg::block("data", PAIR).multiple(), "key value [key value ...]"),
            (Arg::pattern("pattern").token("MATCH").optional(), "[MATCH pattern]"),
            (Arg::string("name").token("GET").multiple().token_each(), "GET name [GET name ...]"),
        ];
        for (arg, expected) in cases {
            assert_eq!(syntax_of(&arg), expected);
        }
    }

    #[test]
    fn every_row_has_its_chapter() {
        let page = page(command::table());
        for row in command::rows() {
            let heading = format!("# {}", syntax(row));
            assert!(page.lines().any(|line| line.ends_with(&heading)), "{}", row.name);
        }
    }
}
