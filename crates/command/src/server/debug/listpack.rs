//! DEBUG LISTPACK: what a value of one listpack holds.

use std::fmt::Write;

use collections::{CollectionView, Direction, Element};
use keyspace::Object;

use super::peek;
use crate::prelude::*;

const NO_LISTPACK: CommandError = CommandError::Fixed("ERR Not a listpack encoded object.");
/// Bytes of an entry that are shown, as in Redis.
const SHOWN_BYTES_MAX: usize = 40;

pub(super) static LISTPACK: Command = Command {
    name: "debug|listpack",
    summary: "Prints what a value that is one listpack holds.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(3),
    args: &[Arg::string("key")],
    note: "It prints to the standard output of the server, as Redis, but of each entry its text \
        alone.",
    example: "> DEBUG LISTPACK lake\n(error) ERR no such key",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let text = peek(cx, args.at(2), describe).ok_or(CommandError::NO_SUCH_KEY)??;
    cx.host.process()?.print(&text);
    reply.simple("Listpack structure printed on stdout");
    Ok(())
}

fn describe(entry: &Object<'_>) -> Result<String, CommandError> {
    let is_listpack = entry.encoding_name() == "listpack";
    let collection = entry.collection().filter(|_| is_listpack).ok_or(NO_LISTPACK)?;
    let (mut lines, mut count) = (String::new(), 0);
    let mut show = |element: Element<'_>| {
        element.with_bytes(|bytes| {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]);
            let more = if bytes.len() > SHOWN_BYTES_MAX { "..." } else { "" };
            write!(lines, "{{\n\tindex: {count:2},\n\t[str]{shown}{more}\n}}\n")
                .expect("a String takes any text");
        });
        count += 1;
    };
    match collection {
        CollectionView::List(list) => list.iter().for_each(show),
        CollectionView::Set(set) => set.for_each(show),
        CollectionView::Hash(hash) => hash.for_each(|field, value| {
            show(field);
            show(value);
        }),
        CollectionView::SortedSet(set) => {
            set.for_each(0, usize::MAX, Direction::Up, |member, score| {
                show(member);
                show(Element::Bytes(base::number_text::double_in_17_digits(score).as_bytes()));
            });
        }
        CollectionView::Stream(_) => unreachable!("a stream is not one listpack"),
    }
    let bytes = collection.memory_bytes();
    Ok(format!("{{total bytes {bytes}}} {{num entries {count}}}\n{lines}{{end}}\n\n"))
}
