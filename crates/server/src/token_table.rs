//! A table whose entries keep their place, named by tokens that are never used twice.

/// Names an entry of a table: its place, and which of the entries that the place has held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    index: u32,
    generation: u32,
}

/// The bit of a token's number that says that it stands for the entry's process.
const PROCESS_BIT: u64 = 1 << 31;

impl Token {
    /// Returns the token as a number for a poller.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Returns another number of the same token, for the process behind the entry.
    pub fn to_process_bits(self) -> u64 {
        self.to_bits() | PROCESS_BIT
    }

    /// Returns the token of a number, and whether it is the number for the process.
    pub fn from_bits(bits: u64) -> (Token, bool) {
        let index = (bits & (PROCESS_BIT - 1)) as u32;
        (Token { index, generation: (bits >> 32) as u32 }, bits & PROCESS_BIT != 0)
    }
}

/// A table of entries.
pub struct TokenTable<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    /// Boxed: a place costs little when an entry has left, and entries are never moved.
    entry: Option<Box<T>>,
}

impl<T> Default for TokenTable<T> {
    fn default() -> TokenTable<T> {
        TokenTable { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> TokenTable<T> {
    /// Adds `entry` and returns its token.
    pub fn insert(&mut self, entry: T) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, entry: None });
            assert!(self.places.len() as u64 <= PROCESS_BIT, "a place has 31 bits");
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        assert!(place.entry.is_none(), "a free place is empty");
        place.entry = Some(Box::new(entry));
        Token { index, generation: place.generation }
    }

    /// Returns the entry that `token` names, unless it is gone.
    #[inline]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let place = self.places.get_mut(token.index as usize)?;
        let is_same = place.generation == token.generation;
        place.entry.as_deref_mut().filter(|_| is_same)
    }

    /// Takes the entry that `token` names out, unless it is gone.
    pub fn remove(&mut self, token: Token) -> Option<Box<T>> {
        let place = self.places.get_mut(token.index as usize)?;
        if place.generation != token.generation {
            return None;
        }
        let entry = place.entry.take()?;
        // The highest generation is left out: its tokens are the worker's own.
        place.generation = (place.generation + 1) % (u32::MAX - 1);
        self.free.push(token.index);
        Some(entry)
    }

    /// Returns the tokens of all entries.
    pub fn tokens(&self) -> Vec<Token> {
        let token = |(index, place): (usize, &Place<T>)| {
            place.entry.as_ref()?;
            Some(Token { index: index as u32, generation: place.generation })
        };
        self.places.iter().enumerate().filter_map(token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_of_a_removed_entry_never_names_another() {
        let mut table = TokenTable::default();
        let first = table.insert("first");
        assert_eq!(Token::from_bits(first.to_bits()), (first, false));
        assert_eq!(Token::from_bits(first.to_process_bits()), (first, true));
        assert_eq!(table.remove(first).as_deref(), Some(&"first"));
        let second = table.insert("second");
        assert!(table.get_mut(first).is_none());
        assert!(table.remove(first).is_none());
        assert_eq!(table.get_mut(second), Some(&mut "second"));
        assert_eq!(table.tokens(), [second]);
    }
}
