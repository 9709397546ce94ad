//! Rows as replies: the shapes of COMMAND INFO and COMMAND DOCS.

use resp::Reply;

use crate::table::argument::{Arg, ArgKind};
use crate::table::key_spec::{Extent, KeySpec};
use crate::table::row::Command;

/// Replies with what COMMAND INFO tells of `command`, or null where there is none.
pub(crate) fn reply_row(command: Option<&'static Command>, reply: &mut Reply<'_>) {
    let Some(command) = command else { return reply.null() };
    let (first, last, step) = command.key_range();
    reply.array(10);
    reply.bulk(command.name);
    reply.integer(command.arity.number());
    reply_words(command.shown_flags().names(), reply);
    reply.integer(first);
    reply.integer(last);
    reply.integer(step);
    let categories = command.acl_categories().names();
    reply.set(categories.clone().count());
    categories.for_each(|name| reply.simple(format!("@{name}")));
    reply.set(command.tips.len());
    command.tips.iter().for_each(|tip| reply.bulk(tip));
    reply.set(command.keys.len());
    command.keys.iter().for_each(|spec| reply_key_spec(spec, reply));
    // Redis says "none" with a set and lists those that exist in an array.
    match command.subcommands.len() {
        0 => reply.set(0),
        count => reply.array(count),
    }
    command.subcommands.iter().for_each(|row| reply_row(Some(row), reply));
}

/// Replies with a set of words.
pub(crate) fn reply_words(
    words: impl Iterator<Item = &'static str> + Clone,
    reply: &mut Reply<'_>,
) {
    reply.set(words.clone().count());
    words.for_each(|word| reply.simple(word));
}

fn reply_key_spec(spec: &KeySpec, reply: &mut Reply<'_>) {
    reply.map(3 + usize::from(!spec.notes.is_empty()));
    if !spec.notes.is_empty() {
        reply.bulk("notes");
        reply.bulk(spec.notes);
    }
    reply.bulk("flags");
    reply_words(spec.flags.names(), reply);
    if matches!(spec.extent, Extent::BehindWord { is_shown: false, .. } | Extent::Unknown) {
        reply_part("begin_search", "unknown", &[], reply);
        return reply_part("find_keys", "unknown", &[], reply);
    }
    match spec.extent {
        Extent::All(list) => reply_keyword((list.word, -2), reply),
        Extent::BehindWord { word, .. } => reply_keyword((word, i64::from(spec.first) + 1), reply),
        Extent::FirstHalf(list) => reply_keyword((list.word, i64::from(spec.first)), reply),
        _ => reply_part("begin_search", "index", &[("index", i64::from(spec.first))], reply),
    }
    let step = ("keystep", i64::from(spec.step));
    let range = |last: i8, reply: &mut Reply<'_>| {
        let range = [("lastkey", i64::from(last)), step, ("limit", 0)];
        reply_part("find_keys", "range", &range, reply);
    };
    match spec.extent {
        Extent::To(last) => range(last, reply),
        Extent::OneWithout(_) | Extent::BehindWord { is_shown: true, .. } => range(0, reply),
        Extent::All(_) => range(-1, reply),
        Extent::Counted => {
            // Both positions count from where the search begins.
            reply_part("find_keys", "keynum", &[("keynumidx", 0), ("firstkey", 1), step], reply);
        }
        Extent::FirstHalf(_) => {
            let range = [("lastkey", -1), step, ("limit", 2)];
            reply_part("find_keys", "range", &range, reply);
        }
        Extent::BehindWord { .. } | Extent::Unknown => {}
    }
}

/// Replies that keys are behind `word`, which is looked for from `start` on, or where that is
/// negative from the end.
fn reply_keyword((word, start): (&str, i64), reply: &mut Reply<'_>) {
    reply.bulk("begin_search");
    reply.map(2);
    reply.bulk("type");
    reply.bulk("keyword");
    reply.bulk("spec");
    reply.map(2);
    reply.bulk("keyword");
    reply.bulk(word);
    reply.bulk("startfrom");
    reply.integer(start);
}

fn reply_part(name: &str, kind: &str, fields: &[(&str, i64)], reply: &mut Reply<'_>) {
    reply.bulk(name);
    reply.map(2);
    reply.bulk("type");
    reply.bulk(kind);
    reply.bulk("spec");
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name);
        reply.integer(*value);
    }
}

/// Replies with what COMMAND DOCS tells of `command`.
pub(crate) fn reply_docs(command: &'static Command, reply: &mut Reply<'_>) {
    let mut map = Map::open(reply);
    map.text("summary", command.summary);
    map.text("since", command.since);
    map.text("group", command.group.name());
    map.text("complexity", command.complexity);
    if let Some((since, instead)) = command.deprecated {
        map.words("doc_flags", &["deprecated"]);
        map.text("deprecated_since", since);
        map.text("replaced_by", instead);
    }
    if !command.history.is_empty() {
        let reply = map.key("history");
        reply.set(command.history.len());
        for (version, change) in command.history {
            reply.array(2);
            reply.bulk(version);
            reply.bulk(change);
        }
    }
    if !command.args.is_empty() {
        reply_args(command.args, map.key("arguments"));
    }
    if !command.subcommands.is_empty() {
        let reply = map.key("subcommands");
        reply.map(command.subcommands.len());
        for row in command.subcommands {
            reply.bulk(row.name);
            reply_docs(row, reply);
        }
    }
    map.close();
}

fn reply_args(args: &[Arg], reply: &mut Reply<'_>) {
    reply.array(args.len());
    args.iter().for_each(|arg| reply_arg(arg, reply));
}

fn reply_arg(arg: &Arg, reply: &mut Reply<'_>) {
    let mut map = Map::open(reply);
    map.text("name", arg.name);
    map.text("type", arg.kind.name());
    let is_group = matches!(arg.kind, ArgKind::OneOf(_) | ArgKind::Block(_));
    if !is_group {
        map.text("display_text", arg.name);
    }
    if let ArgKind::Key(spec) | ArgKind::KeyPattern(spec) = arg.kind {
        map.key("key_spec_index").integer(i64::from(spec));
    }
    if !arg.token.is_empty() {
        map.text("token", arg.token);
    }
    if !arg.since.is_empty() {
        map.text("since", arg.since);
    }
    let all = [
        (arg.optional, "optional"),
        (arg.multiple, "multiple"),
        (arg.token_each, "multiple_token"),
    ];
    let flags: Vec<&str> = all.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    if !flags.is_empty() {
        map.words("flags", &flags);
    }
    if let ArgKind::OneOf(args) | ArgKind::Block(args) = arg.kind {
        reply_args(args, map.key("arguments"));
    }
    map.close();
}

/// A map whose pairs are counted as they are written.
struct Map<'m, 'r> {
    reply: &'m mut Reply<'r>,
    header: resp::Deferred,
    count: usize,
}

impl<'m, 'r> Map<'m, 'r> {
    fn open(reply: &'m mut Reply<'r>) -> Map<'m, 'r> {
        let header = reply.deferred();
        Map { reply, header, count: 0 }
    }

    /// Writes a key; the caller writes the value.
    fn key(&mut self, name: &str) -> &mut Reply<'r> {
        self.count += 1;
        self.reply.bulk(name);
        self.reply
    }

    fn text(&mut self, name: &str, text: &str) {
        self.key(name).bulk(text);
    }

    fn words(&mut self, name: &str, words: &[&str]) {
        let reply = self.key(name);
        reply.set(words.len());
        words.iter().for_each(|word| reply.simple(word));
    }

    fn close(self) {
        let count = self.count;
        self.reply.finish(self.header, |reply| reply.map(count));
    }
}
