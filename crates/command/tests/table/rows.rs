//! Every row is whole, and true to its file and its arguments.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use command::{Arg, ArgKind, Command, Extent, Flags, Handler, rows, table};

fn is_container(command: &Command) -> bool {
    matches!(command.handler, Handler::Container)
}

/// The names before the arguments: two for a subcommand.
fn name_count(command: &Command) -> usize {
    command.name.split('|').count()
}

#[test]
fn names_are_unique_and_lower_case() {
    let mut names = BTreeSet::new();
    for command in rows() {
        assert!(names.insert(command.name), "{} has two rows", command.name);
        assert_eq!(command.name, command.name.to_ascii_lowercase());
    }
    assert!(names.len() > 80, "the table has its rows");
}

#[test]
fn subcommands_bear_the_name_of_their_container() {
    for container in table() {
        for command in container.subcommands {
            let (prefix, _) = command.name.split_once('|').expect("a bar divides the names");
            assert_eq!(prefix, container.name);
            assert!(command.subcommands.is_empty(), "{} is no container", command.name);
        }
        assert!(!is_container(container) || !container.subcommands.is_empty());
    }
}

#[test]
fn summaries_are_one_short_sentence() {
    for command in rows() {
        let (name, summary) = (command.name, command.summary);
        assert!(summary.len() <= 80, "{name}: {} columns", summary.len());
        assert!(summary.ends_with('.') && !summary[..summary.len() - 1].contains(". "), "{name}");
        assert!(summary.starts_with(|first: char| first.is_ascii_uppercase()), "{name}");
    }
}

#[test]
fn notes_are_sentences() {
    for command in rows().filter(|command| !command.note.is_empty()) {
        let (name, note) = (command.name, command.note);
        assert!(note.ends_with('.') && !note.contains("  "), "{name}: {note}");
    }
}

#[test]
fn arity_is_the_minimum_of_the_arguments() {
    for command in rows().filter(|command| !is_container(command)) {
        let count: usize = command.args.iter().map(Arg::count_min).sum();
        assert_eq!(command.arity.count_min(), name_count(command) + count, "{}", command.name);
    }
}

#[test]
fn arity_is_exact_where_the_arguments_are() {
    // COMMAND takes its subcommands' arguments, QUIT takes and ignores any.
    let exceptions = ["command", "quit"];
    for command in rows().filter(|command| !is_container(command)) {
        let is_exact = command.args.iter().all(has_one_length);
        let is_excepted = exceptions.contains(&command.name);
        assert_eq!(command.arity.is_exact(), is_exact && !is_excepted, "{}", command.name);
    }
}

fn has_one_length(arg: &Arg) -> bool {
    let inside = match arg.kind {
        ArgKind::Block(args) => args.iter().all(has_one_length),
        ArgKind::OneOf(args) => {
            let counts: BTreeSet<usize> = args.iter().map(Arg::count_min).collect();
            args.iter().all(has_one_length) && counts.len() == 1
        }
        _ => true,
    };
    inside && !arg.optional && !arg.multiple
}

#[test]
fn keys_lie_within_the_arity_and_are_arguments() {
    for command in rows() {
        for (index, spec) in command.keys.iter().enumerate() {
            let name = command.name;
            // PFMERGE may have no sources.
            let is_within = usize::from(spec.first) < command.arity.count_min();
            assert!(is_within || (name, index) == ("pfmerge", 1), "{name}");
            assert!(usize::from(spec.first) >= name_count(command), "{name}");
            let is_counted = spec.extent == Extent::Counted;
            assert!(!is_counted || counts(command.args), "{name}: its generators count keys");
            assert!(names_key(command.args, index as u8), "{name}: no argument is key {index}");
        }
        assert_eq!(names_key(command.args, 0), !command.keys.is_empty(), "{}", command.name);
    }
}

fn counts(args: &[Arg]) -> bool {
    args.iter().any(|arg| arg.counts_next)
}

fn names_key(args: &[Arg], spec: u8) -> bool {
    args.iter().any(|arg| match arg.kind {
        ArgKind::Key(index) | ArgKind::KeyPattern(index) => index == spec,
        ArgKind::OneOf(args) | ArgKind::Block(args) => names_key(args, spec),
        _ => false,
    })
}

#[test]
fn handlers_and_flags_agree() {
    for command in rows() {
        let name = command.name;
        let (write, readonly) = (command.is(Flags::WRITE), command.is(Flags::READONLY));
        assert!(!(write && readonly), "{name} reads or writes");
        match command.handler {
            Handler::Write(_) => {
                // Redis says of it that it reads keys: the entries stay.
                let is_excepted = name == "xreadgroup";
                let has_keys = command.writes_keys() || command.is(Flags::KEYLESS);
                assert!(has_keys || is_excepted, "{name}");
                assert!(!command.flags.contains(Flags::WRITE), "{name} says what is known");
                assert_eq!(write, !command.is(Flags::MAY_REPLICATE), "{name}");
            }
            Handler::Read(_) => {
                assert!(!command.keys.is_empty() && !command.writes_keys(), "{name}");
                assert!(!command.flags.contains(Flags::READONLY), "{name} says what is known");
            }
            Handler::Session(_) => assert!(!write && !readonly, "{name}"),
            Handler::Control(_) => {
                assert!(!write || command.writes_keys() || command.is(Flags::KEYLESS), "{name}");
            }
            Handler::Container => assert!(command.keys.is_empty(), "{name}"),
        }
    }
}

/// Rows that DEBUG keeps to itself.
const HIDDEN: [&str; 23] = [
    "debug|assert",
    "debug|client-eviction",
    "debug|config-rewrite-force-all",
    "debug|digest",
    "debug|digest-value",
    "debug|error",
    "debug|help",
    "debug|htstats",
    "debug|htstats-key",
    "debug|listpack",
    "debug|log",
    "debug|object",
    "debug|oom",
    "debug|panic",
    "debug|pause-cron",
    "debug|populate",
    "debug|protocol",
    "debug|reload",
    "debug|sdslen",
    "debug|segfault",
    "debug|set-active-expire",
    "debug|sleep",
    "debug|stringmatch-len",
];

#[test]
fn each_row_in_the_files_of_a_family_is_in_the_table_and_the_other_way_round() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut written = BTreeSet::new();
    for family in [
        "bitmap",
        "connection",
        "generic",
        "geo",
        "hash",
        "hyperloglog",
        "list",
        "server",
        "set",
        "sorted_set",
        "stream",
        "string",
        "transactions",
    ] {
        collect(&source.join(family), "", &mut written);
    }
    let names = rows().map(|command| command.name).chain(HIDDEN).map(str::to_owned);
    let names: BTreeSet<String> = names.collect();
    let differing: Vec<_> = written.symmetric_difference(&names).collect();
    assert!(differing.is_empty(), "{differing:?}");
}

/// Adds the commands whose rows stand in the files below `folder`: a folder in it is a container.
/// A file has one, or a few that share a row and differ in a word or two, or what several files of
/// its folder share.
fn collect(folder: &Path, container: &str, written: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the sources are here") {
        let path: PathBuf = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            collect(&path, &stem, written);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // A short row stands on one line.
        let named = text.lines().filter_map(|line| {
            let row = line.strip_prefix("    ")?;
            let row = row.strip_prefix("Command { ").unwrap_or(row);
            row.strip_prefix("name: \"")?.split_once("\",")
        });
        for (name, _) in named {
            let is_placed = name.split_once('|').map_or("", |(first, _)| first) == container;
            assert!(is_placed || name == container, "{name} stands in {}", path.display());
            written.insert(name.to_owned());
        }
    }
}
