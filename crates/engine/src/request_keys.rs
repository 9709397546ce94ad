//! The keys of a request that may have any number of them.

use std::ops::Deref;

use base::{Key, KeyHasher, ShardIndex, Slot};
use command::Command;
use resp::RequestView;

/// How many keys need no memory of their own: those of most requests on several keys.
const FEW_MAX: usize = 4;

/// What is in the place of a key that is not there.
const NO_KEY: Key<'_> = Key { bytes: b"", hash: 0, slot: Slot(0), shard: ShardIndex(0) };

/// The keys of a request, in the order of its arguments.
pub(crate) struct Keys<'a> {
    few: [Key<'a>; FEW_MAX],
    few_count: usize,
    /// All keys, once they are more than a few.
    many: Vec<Key<'a>>,
}

impl<'a> Keys<'a> {
    /// Returns the keys of `request`, which is one of `command`.
    pub fn of(command: &Command, request: RequestView<'a>, hasher: &KeyHasher) -> Keys<'a> {
        if let Some(positions) = command.only_pair() {
            // They are there: the request has as many arguments as its command asks for.
            let [one, other] = positions.map(|position| hasher.key(request.at(position)));
            return Keys { few: [one, other, NO_KEY, NO_KEY], few_count: 2, many: Vec::new() };
        }
        let mut keys = Keys { few: [NO_KEY; FEW_MAX], few_count: 0, many: Vec::new() };
        for position in command.key_positions(request) {
            keys.push(hasher.key(request.at(position)), request.len());
        }
        keys
    }

    /// Adds a key of a request that has fewer than `count_max` of them.
    fn push(&mut self, key: Key<'a>, count_max: usize) {
        if self.few_count < FEW_MAX {
            self.few[self.few_count] = key;
            self.few_count += 1;
            return;
        }
        if self.many.is_empty() {
            self.many.reserve_exact(count_max);
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(key);
    }
}

impl<'a> Deref for Keys<'a> {
    type Target = [Key<'a>];

    fn deref(&self) -> &[Key<'a>] {
        if self.many.is_empty() { &self.few[..self.few_count] } else { &self.many }
    }
}

#[cfg(test)]
mod tests {
    use resp::OwnedRequest;

    use super::*;

    #[test]
    fn keys_come_in_the_order_of_the_arguments_however_many() {
        let hasher = KeyHasher::new([7; 4], 64);
        let command = command::lookup(b"del").unwrap();
        for count in 1..3 * FEW_MAX {
            let names: Vec<String> = (0..count).map(|number| format!("key:{number}")).collect();
            let words = std::iter::once("del").chain(names.iter().map(String::as_str));
            let request = OwnedRequest::new(words.map(str::as_bytes));
            let keys = Keys::of(command, request.view(), &hasher);
            let bytes: Vec<&[u8]> = keys.iter().map(|key| key.bytes).collect();
            assert_eq!(bytes, names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn two_keys_that_every_request_has_are_those_of_the_positions() {
        let hasher = KeyHasher::new([7; 4], 64);
        let mut count = 0;
        for command in command::rows().filter(|command| command.only_pair().is_some()) {
            let words = (0..command.arity.count_min()).map(|word| format!("word:{word}"));
            let words: Vec<String> = words.collect();
            let request = OwnedRequest::new(words.iter().map(|word| word.as_bytes()));
            let keys = Keys::of(command, request.view(), &hasher);
            let bytes: Vec<&[u8]> = keys.iter().map(|key| key.bytes).collect();
            let positions = command.key_positions(request.view());
            let expected: Vec<&[u8]> = positions.map(|at| words[at].as_bytes()).collect();
            assert_eq!((bytes, expected.len()), (expected, 2), "{}", command.name);
            count += 1;
        }
        assert!(count >= 5, "RENAME, RENAMENX, COPY, LMOVE and SMOVE are such");
    }
}
