//! A request as a handler sees it.

use base::Key;
use base::number::parse_i64;
use resp::RequestView;

use crate::handler::error::CommandError;

/// The arguments of one request, borrowed from the receive buffer, and its keys, hashed already.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    /// By reference: a copy is read in wider pieces than it was just written in, which waits until
    /// the store buffer is empty.
    request: &'a RequestView<'a>,
    keys: &'a [Key<'a>],
}

impl<'a> Args<'a> {
    /// Returns `request` with `keys`: those at
    /// [`Command::key_positions`](crate::Command::key_positions), in that order.
    #[inline]
    pub fn new(request: &'a RequestView<'a>, keys: &'a [Key<'a>]) -> Args<'a> {
        Args { request, keys }
    }

    /// Returns the number of arguments, the names included; at least 1.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a request has at least its command name")]
    pub fn len(&self) -> usize {
        self.request.len()
    }

    /// Returns argument `index`; 0 is the command's name.
    ///
    /// # Panics
    /// When `index` is not below [`Args::len`]; the arity was checked before the handler ran.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.request.at(index)
    }

    /// Returns whether argument `index` is `word`, in any case.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Returns argument `index` as an integer.
    ///
    /// # Errors
    /// When it is none.
    #[inline]
    pub fn integer(&self, index: usize) -> Result<i64, CommandError> {
        parse_i64(self.at(index)).ok_or(CommandError::NotInteger)
    }

    /// Returns argument `index` as a number of things.
    ///
    /// # Errors
    /// When it is none, or negative.
    ///
    /// Source: Redis 7.2, `getPositiveLongFromObjectOrReply`.
    pub fn count(&self, index: usize) -> Result<usize, CommandError> {
        let count = parse_i64(self.at(index)).and_then(|count| usize::try_from(count).ok());
        count.ok_or(CommandError::NOT_POSITIVE)
    }

    /// Returns argument `index` as an integer from `min` to `max`.
    ///
    /// # Errors
    /// When it is none, or another.
    ///
    /// Source: Redis 7.2, `getRangeLongFromObjectOrReply`.
    pub fn integer_in(&self, index: usize, min: i64, max: i64) -> Result<i64, CommandError> {
        let integer = self.integer(index)?;
        if (min..=max).contains(&integer) {
            return Ok(integer);
        }
        let text = format!("ERR value is out of range, value must between {min} and {max}");
        Err(CommandError::text_of(&[text.as_bytes()]))
    }

    /// Returns the arguments from `first` on.
    pub fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let request = self.request;
        (first.min(request.len())..request.len()).map(move |index| request.at(index))
    }

    /// Returns key `index`, counted among the keys.
    ///
    /// # Panics
    /// When there are not so many keys.
    #[inline]
    pub fn key(&self, index: usize) -> &'a Key<'a> {
        &self.keys[index]
    }

    /// Returns all keys.
    #[inline]
    pub fn keys(&self) -> &'a [Key<'a>] {
        self.keys
    }

    /// Returns the request itself.
    #[inline]
    pub fn request(&self) -> RequestView<'a> {
        *self.request
    }
}
