//! From the name in a request to the row of the command.

use std::sync::OnceLock;

use resp::RequestView;

use crate::handler::error::CommandError;
use crate::table::row::Command;
use crate::table::table;

/// Returns the command called `name`, in any case; a container, not its subcommands.
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| Index::new(table())).find(name)
}

/// Returns the row of `name`, which is `container|subcommand` for a subcommand, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|&byte| byte == b'|') {
        Some(bar) => lookup(&name[..bar])?.subcommand(&name[bar + 1..]),
        None => lookup(name),
    }
}

/// Returns the row that would run `request`, whatever the number of its arguments.
#[inline]
pub fn find_for(request: RequestView<'_>) -> Option<&'static Command> {
    let command = lookup(request.at(0))?;
    if command.subcommands.is_empty() || request.len() == 1 {
        return Some(command);
    }
    command.subcommand(request.at(1))
}

/// Returns the row that runs `request`, the subcommand's where it names one, once its number of
/// arguments is right.
///
/// # Errors
/// With Redis's text where there is no such command or subcommand, or its arity is wrong.
pub fn resolve(request: RequestView<'_>) -> Result<&'static Command, CommandError> {
    resolve_quietly(request).ok_or_else(|| match (lookup(request.at(0)), find_for(request)) {
        (None, _) => CommandError::unknown_command(request),
        (Some(container), None) => CommandError::unknown_subcommand(container, request.at(1)),
        (_, Some(command)) => CommandError::WrongArity(command),
    })
}

/// As [`resolve`], for one who leaves the error to another: what makes no error needs no room for
/// one.
#[inline]
pub fn resolve_quietly(request: RequestView<'_>) -> Option<&'static Command> {
    find_for(request).filter(|command| command.arity.accepts(request.len()))
}

/// The first and the last eight bytes of a name in lower case (four, or one and the middle one, of
/// a short name; they may overlap): with the length they tell any two names of up to 16 bytes
/// apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fold {
    head: u64,
    tail: u64,
}

/// A hash table without collisions: a seed was searched for that gives every name its own place.
struct Index {
    seed: u64,
    shift: u32,
    places: Box<[Option<Place>]>,
}

#[derive(Clone, Copy)]
struct Place {
    fold: Fold,
    command: &'static Command,
}

impl Index {
    /// The seeds that are tried before the table doubles.
    const SEEDS_PER_SIZE: u64 = 4096;

    fn new(commands: &[&'static Command]) -> Index {
        let mut places_log2 = (commands.len() * 4).next_power_of_two().ilog2();
        loop {
            for seed in 1..=Index::SEEDS_PER_SIZE {
                let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                if let Some(index) = Index::with_seed(commands, seed, places_log2) {
                    return index;
                }
            }
            places_log2 += 1;
        }
    }

    fn with_seed(commands: &[&'static Command], seed: u64, places_log2: u32) -> Option<Index> {
        let mut places = vec![None; 1 << places_log2].into_boxed_slice();
        let shift = u64::BITS - places_log2;
        for command in commands {
            let name = command.name.as_bytes();
            let fold = Fold::new(name);
            let place = &mut places[fold.place(name.len(), seed, shift)];
            if place.is_some() {
                return None;
            }
            *place = Some(Place { fold, command });
        }
        Some(Index { seed, shift, places })
    }

    #[inline]
    fn find(&self, name: &[u8]) -> Option<&'static Command> {
        let fold = Fold::new(name);
        let place = self.places[fold.place(name.len(), self.seed, self.shift)]?;
        let known = place.command.name.as_bytes();
        let is_same = place.fold == fold
            && known.len() == name.len()
            && (name.len() <= 16 || known.eq_ignore_ascii_case(name));
        is_same.then_some(place.command)
    }
}

impl Fold {
    #[inline]
    fn new(name: &[u8]) -> Fold {
        let (head, tail) = if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk())
        {
            (u64::from_le_bytes(*head), u64::from_le_bytes(*tail))
        } else if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk()) {
            (u64::from(u32::from_le_bytes(*head)), u64::from(u32::from_le_bytes(*tail)))
        } else if let (Some(&first), Some(&last)) = (name.first(), name.last()) {
            (u64::from(first), u64::from(last) << 8 | u64::from(name[name.len() / 2]))
        } else {
            (0, 0)
        };
        Fold { head: lower_case(head), tail: lower_case(tail) }
    }

    #[inline]
    fn place(self, length: usize, seed: u64, shift: u32) -> usize {
        let mixed = self.head ^ self.tail.rotate_left(29) ^ length as u64;
        (mixed.wrapping_mul(seed) >> shift) as usize
    }
}

/// Returns the eight bytes of `word` with ASCII capitals made small, all at once: a byte's top bit
/// in the two sums says whether it is at least `A`, and above `Z`.
#[inline]
const fn lower_case(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOP: u64 = 0x80 * EACH;
    let low = word & !TOP;
    let at_least_a = low + (0x80 - b'A' as u64) * EACH;
    let above_z = low + (0x80 - b'Z' as u64 - 1) * EACH;
    let capitals = at_least_a & !above_z & !word & TOP;
    word | (capitals >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        for command in table() {
            let upper = command.name.to_ascii_uppercase();
            for name in [command.name, upper.as_str()] {
                let found = lookup(name.as_bytes()).expect("every row is found");
                assert!(std::ptr::eq(found, *command), "{name}");
            }
        }
    }

    #[test]
    fn other_names_are_not_found() {
        for command in table() {
            let name = command.name.as_bytes();
            let mut longer = name.to_vec();
            longer.push(0);
            assert!(lookup(&longer).is_none(), "{} and a zero byte", command.name);
            for position in 0..name.len() {
                for flip in [0x80, 0x40, 0x60] {
                    let mut other = name.to_vec();
                    other[position] ^= flip;
                    assert!(lookup(&other).is_none(), "{}", other.escape_ascii());
                }
            }
        }
        assert!(lookup(b"").is_none());
        assert!(lookup(&[b'g'; 1000]).is_none());
    }

    #[test]
    fn names_that_fold_alike_are_told_apart_by_their_length() {
        let name = b"incrbyfloat";
        let longer = [&name[..8], &name[name.len() - 8..]].concat();
        assert!(Fold::new(&longer) == Fold::new(name));
        let command = lookup(name).expect("it is a command");
        let mut meeting_count = 0;
        for seed in (1..200).step_by(2) {
            let index = Index::with_seed(&[command], seed << 40 | 1, 1).expect("one name fits");
            let place = |name: &[u8]| Fold::new(name).place(name.len(), index.seed, index.shift);
            meeting_count += u32::from(place(&longer) == place(name));
            assert!(index.find(name).is_some() && index.find(&longer).is_none(), "seed {seed}");
        }
        assert!(meeting_count > 0, "some seed gives both one place");
    }

    #[test]
    fn lower_case_changes_letters_only() {
        for byte in 0..=u8::MAX {
            let word = u64::from_le_bytes([byte, b'Z', byte, 0xff, 0, b'@', b'[', byte]);
            let expected = word.to_le_bytes().map(|byte| byte.to_ascii_lowercase());
            assert_eq!(lower_case(word).to_le_bytes(), expected, "byte {byte}");
        }
    }

    /// The number of arguments gives the error its place before the handler: no handler runs.
    fn error_of(request: &[&str]) -> String {
        let request = resp::OwnedRequest::new(request.iter().map(|argument| argument.as_bytes()));
        let error = resolve(request.view()).expect_err("the request is wrong");
        String::from_utf8_lossy(&error.text()).into_owned()
    }

    #[test]
    fn refusals_have_the_texts_of_redis() {
        for (request, expected) in [
            (&["foo"][..], "ERR unknown command 'foo', with args beginning with: "),
            (&["foo", "a", "b"], "ERR unknown command 'foo', with args beginning with: 'a' 'b' "),
            (&["GET"], "ERR wrong number of arguments for 'get' command"),
            (&["get", "a", "b"], "ERR wrong number of arguments for 'get' command"),
            (&["client"], "ERR wrong number of arguments for 'client' command"),
            (&["client", "id", "x"], "ERR wrong number of arguments for 'client|id' command"),
            (&["cLient", "nOpe"], "ERR unknown subcommand 'nOpe'. Try CLIENT HELP."),
        ] {
            assert_eq!(error_of(request), expected, "{request:?}");
        }
    }

    #[test]
    fn unknown_command_quotes_no_more_than_redis_does() {
        let long = "x".repeat(200);
        let text = error_of(&[&long, &long, "never"]);
        let quoted = "x".repeat(128);
        let expected =
            format!("ERR unknown command '{quoted}', with args beginning with: '{quoted}' ");
        assert_eq!(text, expected);
    }
}
