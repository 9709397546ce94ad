//! The command table: the rows of all commands, what a row says, and what is made of the rows.

pub(crate) mod argument;
pub(crate) mod arity;
pub(crate) mod categories;
pub(crate) mod describe;
pub(crate) mod flags;
pub mod generate;
pub(crate) mod help;
pub(crate) mod key_spec;
pub(crate) mod lookup;
pub(crate) mod row;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::table::argument::{Arg, ArgKind};
use crate::table::row::Command;
use crate::{
    bitmap, connection, generic, hash, hyperloglog, list, server, set, sorted_set, string,
    transactions,
};

/// Returns the rows of all commands: containers stand for their subcommands.
pub fn table() -> &'static [&'static Command] {
    static TABLE: OnceLock<Box<[&'static Command]>> = OnceLock::new();
    TABLE.get_or_init(|| FAMILIES.concat().into_boxed_slice())
}

/// Returns every row that runs something: commands without subcommands, subcommands, and
/// containers that have a handler of their own.
pub fn rows() -> impl Iterator<Item = &'static Command> {
    table()
        .iter()
        .copied()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands.iter().copied()))
}

/// Returns every fixed word that a request may have: names, tokens, and the words that make sense
/// as values.
pub fn vocabulary() -> BTreeSet<&'static str> {
    let mut words = BTreeSet::new();
    for row in rows() {
        words.extend(row.name.split('|'));
        collect_words(row.args, &mut words);
    }
    words.remove("");
    words
}

fn collect_words(args: &'static [Arg], words: &mut BTreeSet<&'static str>) {
    for arg in args {
        words.insert(arg.token);
        words.extend(arg.words);
        if let ArgKind::OneOf(args) | ArgKind::Block(args) = arg.kind {
            collect_words(args, words);
        }
    }
}

static FAMILIES: [&[&Command]; 13] = [
    connection::CONNECTION,
    string::STRING,
    bitmap::BITMAP,
    hyperloglog::HYPERLOGLOG,
    generic::GENERIC,
    hash::HASH,
    list::LIST,
    set::SETS,
    sorted_set::SORTED_SET,
    crate::geo::GEO,
    crate::stream::STREAM,
    transactions::TRANSACTIONS,
    server::SERVER,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vocabulary_has_names_and_tokens_at_every_depth() {
        let words = vocabulary();
        for word in ["set", "client", "setname", "KEEPTTL", "PXAT", "maxmemory"] {
            assert!(words.contains(word), "{word}");
        }
        assert!(!words.contains("") && !words.contains("client|setname"));
    }
}
