//! The support matrix: each command and subcommand of Redis 7.2, and what becomes of it here.
//!
//! `redis72.txt` has a line for each: group, the version that has it first, name. These are facts
//! of Redis's documentation (`COMMAND DOCS` of 7.0.15, and what 7.2 added). SENTINEL is not among
//! them: it is a command of another program.

use command::Command;

const REDIS: &str = include_str!("redis72.txt");

/// What a command that is not here waits for: names, or the beginnings of names that end in a
/// space, and the feature; the first that fits counts. Groups follow in [`GROUPS`].
const WAITS: &[(&[&str], &str)] = &[
    (&["ACL", "ACL "], "users and their rights"),
    (&["MODULE", "MODULE "], "modules, which are not planned"),
    (&["BGREWRITEAOF", "BGSAVE", "LASTSAVE", "SAVE"], "persistence"),
    (&["RESTORE-ASKING"], "cluster"),
    (&["FAILOVER", "PSYNC", "REPLCONF", "REPLICAOF", "SLAVEOF", "SYNC", "ROLE"], "replication"),
    (&["OBJECT ", "COPY", "MOVE", "RENAME", "RENAMENX"], "renaming, moving and copying"),
    (
        &["SLOWLOG", "SLOWLOG ", "LATENCY", "LATENCY ", "MEMORY ", "COMMAND ", "CONFIG ", "LOLWUT"],
        "insight into the server",
    ),
];

/// The groups of Redis: the name there, the title here, and what its commands wait for.
const GROUPS: &[(&str, &str, &str)] = &[
    ("connection", "Connection", ""),
    ("server", "Server", ""),
    ("generic", "Keys", ""),
    ("string", "Strings", ""),
    ("bitmap", "Bits of strings", ""),
    ("transactions", "Transactions", ""),
    ("list", "Lists", "collections"),
    ("set", "Sets", "collections"),
    ("hash", "Hashes", "collections"),
    ("sorted-set", "Sorted sets", "collections"),
    ("hyperloglog", "HyperLogLog", "HyperLogLog"),
    ("geo", "Places", "places in sorted sets"),
    ("stream", "Streams", "streams"),
    ("pubsub", "Publish and subscribe", "publish and subscribe"),
    ("scripting", "Scripts and functions", "scripts"),
    ("cluster", "Cluster", "cluster"),
];

/// Commands that Redis 7.2 does not have or not document, and where they come from; a name that
/// ends in a space stands for all subcommands.
const OURS: &[(&str, &str)] = &[
    ("AWAIT", "waiting for a key"),
    ("BACKUP", "copies of the data while the server serves"),
    ("BACKUP ", "copies of the data while the server serves"),
    ("CACHE", "what other memory would bring to a cache"),
    ("CACHE ", "what other memory would bring to a cache"),
    ("FEED", "reading the stream of changes"),
    ("FEED ", "reading the stream of changes"),
    ("PURGELOGSTO", "removing files of the log, as in Pika"),
    ("LDEL", "leases"),
    ("LEXTEND", "leases"),
    ("LFILL", "leases"),
    ("LFREE", "leases"),
    ("LGET", "leases"),
    ("MLGET", "leases"),
    ("OBJECT COST", "what a value costs to have back"),
    ("SHM", "working through shared memory"),
    ("SHM ", "working through shared memory"),
    ("DEBUG ", "Redis has it and does not document it"),
    ("HEXPIRE", "Redis 7.4"),
    ("HEXPIREAT", "Redis 7.4"),
    ("HEXPIRETIME", "Redis 7.4"),
    ("HGETDEL", "Redis 8"),
    ("HGETEX", "Redis 8"),
    ("HPERSIST", "Redis 7.4"),
    ("HPEXPIRE", "Redis 7.4"),
    ("HPEXPIREAT", "Redis 7.4"),
    ("HPEXPIRETIME", "Redis 7.4"),
    ("HPTTL", "Redis 7.4"),
    ("HSETEX", "Redis 8"),
    ("HTTL", "Redis 7.4"),
    ("MSETEX", "Redis 8.4"),
    ("DELEX", "Redis 8.4"),
    ("DIGEST", "Redis 8.4"),
    ("INCREX", "Redis 8.8"),
    ("ITEMSET", "items of memcached"),
    ("DELIFEQ", "Valkey 9.0"),
    ("XACKDEL", "Redis 8.2"),
    ("XCFGSET", "Redis 8.6"),
    ("XDELEX", "Redis 8.2"),
    ("XIDMPRECORD", "Redis 8.8"),
    ("XNACK", "Redis 8.8"),
];

/// A line of `redis72.txt`.
#[derive(Clone, Copy)]
struct Known {
    group: &'static str,
    since: &'static str,
    name: &'static str,
}

enum State {
    Works,
    Differs(&'static str),
    NotYet(&'static str),
}

/// Returns the page for the rows in `table`.
///
/// # Errors
/// When a row is neither a command of Redis nor listed as ours, or one that is absent waits for
/// nothing.
pub fn page(table: &[&'static Command]) -> Result<String, String> {
    let rows: Vec<&'static Command> = with_subcommands(table).collect();
    let known: Vec<Known> = REDIS.lines().filter_map(parse).collect();
    let ours = ours(&rows, &known)?;
    let mut chapters = String::new();
    let mut summary = String::new();
    for (group, title, waits_for) in GROUPS {
        let mut counts = [0; 3];
        chapters.push_str(&format!(
            "\n## {title}\n\n| command | since | here |\n| --- | --- | --- |\n"
        ));
        for command in known.iter().filter(|known| known.group == *group) {
            let state = state(command, &rows, waits_for)?;
            counts[state.index()] += 1;
            let (name, since) = (command.name, command.since);
            chapters.push_str(&format!("| {name} | {since} | {} |\n", state.text()));
        }
        let [works, differs, absent] = counts;
        summary.push_str(&format!("| {title} | {works} | {differs} | {absent} |\n"));
    }
    let mut page = head();
    page.push_str(&summary);
    page.push_str(&chapters);
    page.push_str("\n## Beyond Redis 7.2\n\n| command | from |\n| --- | --- |\n");
    for (name, origin) in ours {
        page.push_str(&format!("| {name} | {origin} |\n"));
    }
    Ok(page)
}

fn with_subcommands(table: &[&'static Command]) -> impl Iterator<Item = &'static Command> {
    table.iter().flat_map(|row| std::iter::once(*row).chain(row.subcommands.iter().copied()))
}

fn head() -> String {
    "# What works\n\n\
     Written by `cargo xtask docs` from the command table and the list of the commands of Redis\n\
     7.2, without SENTINEL, which is a command of another program. *Works* means: replies, errors\n\
     and data are those of Redis, which the tests hold against redis-server. *Differs* says how.\n\
     *Not yet* names what the command waits for; a request for it is refused as unknown.\n\
     [Commands](commands.md) tells what each does.\n\n\
     | group | work | differ | not yet |\n| --- | --- | --- | --- |\n"
        .to_owned()
}

fn parse(line: &'static str) -> Option<Known> {
    let (group, rest) = line.split_once(' ')?;
    let (since, name) = rest.split_once(' ')?;
    Some(Known { group, since, name })
}

/// Returns the name of a row as one types it.
fn typed(row: &Command) -> String {
    row.name.to_uppercase().replace('|', " ")
}

fn state(
    known: &Known,
    rows: &[&'static Command],
    waits_for: &'static str,
) -> Result<State, String> {
    if let Some(row) = rows.iter().find(|row| typed(row) == known.name) {
        return Ok(if row.note.is_empty() { State::Works } else { State::Differs(row.note) });
    }
    let named = WAITS.iter().find(|(names, _)| names.iter().any(|name| fits(name, known.name)));
    match named.map_or(waits_for, |(_, feature)| feature) {
        "" => Err(format!("support.rs does not say what {} waits for", known.name)),
        feature => Ok(State::NotYet(feature)),
    }
}

/// Returns whether `name` is meant by `pattern`: itself, or all that begins with it where it ends
/// in a space.
fn fits(pattern: &str, name: &str) -> bool {
    if pattern.ends_with(' ') { name.starts_with(pattern) } else { name == pattern }
}

/// Returns the names of the rows that Redis 7.2 does not have, each with where it comes from.
fn ours(rows: &[&'static Command], known: &[Known]) -> Result<Vec<(String, &'static str)>, String> {
    let names = rows.iter().map(|row| typed(row));
    let others = names.filter(|name| known.iter().all(|known| known.name != name));
    let origin = |name: String| match OURS.iter().find(|(pattern, _)| fits(pattern, &name)) {
        Some((_, origin)) => Ok((name, *origin)),
        None => Err(format!("{name} is no command of Redis 7.2 and not listed in support.rs")),
    };
    others.map(origin).collect()
}

/// Returns whether no Redis has the command in `row`, of 7.2 or later.
pub(super) fn is_in_no_redis(row: &Command) -> bool {
    let name = typed(row);
    let listed = OURS.iter().find(|(pattern, _)| fits(pattern, &name));
    listed.is_some_and(|(_, origin)| !origin.starts_with("Redis"))
}

impl State {
    fn index(&self) -> usize {
        match self {
            State::Works => 0,
            State::Differs(_) => 1,
            State::NotYet(_) => 2,
        }
    }

    fn text(&self) -> String {
        match self {
            State::Works => "works".to_owned(),
            State::Differs(how) => format!("differs: {}", how.replace('|', "\\|")),
            State::NotYet(feature) => format!("not yet: {feature}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_complete_and_names_each_command_once() {
        let mut names: Vec<&str> =
            REDIS.lines().map(|line| parse(line).expect("three words").name).collect();
        let is_known = |known: Known| GROUPS.iter().any(|(group, ..)| *group == known.group);
        assert!(REDIS.lines().filter_map(parse).all(is_known));
        assert_eq!(names.iter().filter(|name| !name.contains(' ')).count(), 241);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), REDIS.lines().count());
    }

    #[test]
    fn nothing_works_that_the_table_lacks() {
        let page = page(command::table()).expect("every row is listed");
        for line in page.lines().filter(|line| line.contains("| works |")) {
            let name = line.split('|').nth(1).expect("a cell").trim();
            assert!(command::rows().any(|row| typed(row) == name), "{line}");
        }
        for row in command::rows() {
            assert!(page.contains(&format!("\n| {} |", typed(row))), "{}", row.name);
        }
        // A command of a finished group that is absent is no page but an error.
        let fewer: Vec<_> =
            command::table().iter().copied().filter(|row| row.name != "mget").collect();
        assert!(support_of(&fewer, "MGET").is_err(), "MGET waits for nothing");
    }

    fn support_of(table: &[&'static Command], name: &str) -> Result<String, String> {
        page(table).map(|page| page.lines().find(|line| line.contains(name)).unwrap_or("").into())
    }
}
