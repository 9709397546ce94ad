//! Bytes to values.
//!
//! A value is read twice. The first time its lengths are added up, nothing is kept, and whoever
//! asked is told how much memory the value may take; then it is made.

use std::borrow::Cow;
use std::fmt;

use base::number_text::IntegerText;
use collections::{Collection, CollectionEncoding, ELEMENT_BYTES_MAX, Rules};

use crate::blobs::{self, Blob};
use crate::reader::{Reader, Text};
use crate::{container, kind, streams, strings};

/// What a part may take beside its bytes, growth of what holds it included.
pub(crate) const PART_BYTES: u64 = 128;

/// How a value is stored that was read.
#[derive(Clone, Copy, Debug)]
pub struct DecodeOptions<'r> {
    /// How long each type stays compact.
    pub rules: &'r Rules,
    /// The encoding of a collection, where it is not for the rules to say.
    pub encoding: Option<CollectionEncoding>,
    /// The longest string, in bytes.
    pub string_bytes_max: u64,
}

/// A value that was read.
pub enum Value<'a> {
    /// A string: a part of the payload, unless it was compressed there.
    String(Cow<'a, [u8]>),
    /// A value of many parts, never without any unless it is a stream.
    Collection(Collection),
}

/// Why bytes have not become a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError<E> {
    /// They are none, or one that cannot be stored in the encoding that was asked for.
    Malformed,
    /// There is no memory for it, says who was asked.
    NoRoom(E),
}

impl<E: fmt::Display> fmt::Display for DecodeError<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Malformed => formatter.write_str("the bytes are no value"),
            DecodeError::NoRoom(error) => error.fmt(formatter),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for DecodeError<E> {}

/// Returns whether `bytes`, a payload without its footer, say that they are a string.
pub fn is_string(bytes: &[u8]) -> bool {
    bytes.first() == Some(&kind::STRING)
}

/// Returns the value that `bytes` are, a payload without its footer, all of them.
///
/// Before memory is taken `ask` is told of how much in all; it is asked again where more turns out
/// to be needed, each time for the whole. A string that is a part of the payload takes none.
///
/// # Errors
/// [`DecodeError`].
pub fn decode<'a, E>(
    bytes: &'a [u8],
    options: &DecodeOptions<'_>,
    ask: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<Value<'a>, DecodeError<E>> {
    let mut reader = Reader::new(bytes, options.string_bytes_max);
    let kind = reader.byte().ok_or(DecodeError::Malformed)?;
    if kind == kind::STRING {
        return decode_string(reader, ask);
    }
    let string_bytes_max = options.string_bytes_max.min(ELEMENT_BYTES_MAX as u64);
    let mut reader = Reader::new(&bytes[1..], string_bytes_max);
    let bytes = measure(kind, reader).ok_or(DecodeError::Malformed)?;
    let mut budget = Budget::granted(bytes, ask)?;
    let (reader, budget) = (&mut reader, &mut budget);
    let collection = match kind {
        kind::LIST => strings::list(reader, options).ok_or(DecodeError::Malformed),
        kind::SET => strings::set(reader, options, budget),
        kind::HASH => strings::hash(reader, options, budget),
        kind::HASH_METADATA => strings::timed_hash(reader, options, budget),
        kind::HASH_LISTPACK_EX => blobs::timed_hash(reader, options, budget),
        kind::SORTED_SET => strings::sorted_set(reader, Reader::double, options, budget),
        kind::SORTED_SET_IN_TEXT => {
            strings::sorted_set(reader, Reader::double_in_text, options, budget)
        }
        kind::LIST_ZIPLISTS | kind::LIST_LISTPACKS => blobs::list(reader, kind, options, budget),
        kind::STREAM_LISTPACKS | kind::STREAM_LISTPACKS_2 | kind::STREAM_LISTPACKS_3 => {
            let is_wanted = options.encoding.is_none_or(|it| it == CollectionEncoding::Stream);
            let stream = is_wanted.then(|| streams::stream(kind, reader)).flatten();
            stream.ok_or(DecodeError::Malformed)
        }
        _ => Blob::of(kind).ok_or(DecodeError::Malformed)?.read(reader, options, budget),
    };
    collection.map(Value::Collection)
}

fn decode_string<'a, E>(
    mut reader: Reader<'a>,
    ask: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<Value<'a>, DecodeError<E>> {
    let text = reader.text().filter(|_| reader.is_at_end()).ok_or(DecodeError::Malformed)?;
    Ok(Value::String(match text {
        Text::Plain(bytes) => Cow::Borrowed(bytes),
        Text::Integer(text) => Cow::Owned(IntegerText::as_bytes(&text).to_vec()),
        Text::Compressed { length, .. } => {
            ask(length as u64).map_err(DecodeError::NoRoom)?;
            Cow::Owned(text.expand().ok_or(DecodeError::Malformed)?)
        }
    }))
}

/// The memory that may be taken, and whoever is asked for more.
pub(crate) struct Budget<'r, E> {
    bytes: u64,
    ask: &'r mut dyn FnMut(u64) -> Result<(), E>,
}

impl<'r, E> Budget<'r, E> {
    /// Asks for `bytes`, and returns the right to them.
    fn granted(
        bytes: u64,
        ask: &'r mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<Budget<'r, E>, DecodeError<E>> {
        ask(bytes).map_err(DecodeError::NoRoom)?;
        Ok(Budget { bytes, ask })
    }

    /// Asks for `more` bytes beside what was asked for.
    pub fn ask_for(&mut self, more: u64) -> Result<(), DecodeError<E>> {
        self.bytes += more;
        (self.ask)(self.bytes).map_err(DecodeError::NoRoom)
    }
}

/// Returns a bound of the memory that the collection of `kind` takes, and what is needed while it
/// is made; `None` where the bytes end too early or go on behind it, and where a length is not
/// possible. What stands in one block is counted as it is there.
fn measure(kind: u8, mut reader: Reader<'_>) -> Option<u64> {
    let mut sum = Sum::default();
    match kind {
        kind::LIST | kind::SET => {
            for _ in 0..reader.count()? {
                sum.add(&reader.text()?);
            }
        }
        kind::HASH => sum.add_fields(&mut reader, false)?,
        kind::HASH_METADATA => {
            reader.word()?;
            sum.add_fields(&mut reader, true)?;
        }
        kind::HASH_LISTPACK_EX => {
            reader.word()?;
            sum.add_block(kind, &reader.text()?);
        }
        kind::SORTED_SET | kind::SORTED_SET_IN_TEXT => {
            for _ in 0..reader.count()? {
                sum.add(&reader.text()?);
                let score = match kind {
                    kind::SORTED_SET => reader.double()?,
                    _ => reader.double_in_text()?,
                };
                if score.is_nan() {
                    return None;
                }
            }
        }
        kind::LIST_ZIPLISTS | kind::LIST_LISTPACKS => {
            for _ in 0..reader.count()? {
                let container = match kind {
                    kind::LIST_LISTPACKS => reader.number()?,
                    _ => container::PACKED,
                };
                let text = reader.text()?;
                if !matches!(container, container::PLAIN | container::PACKED) || text.len() == 0 {
                    return None;
                }
                sum.add_block(kind, &text);
                if container == container::PLAIN {
                    sum.add_buffer(&text);
                }
            }
        }
        kind::STREAM_LISTPACKS | kind::STREAM_LISTPACKS_2 | kind::STREAM_LISTPACKS_3 => {
            sum.bytes += streams::measure(kind, &mut reader)?;
        }
        _ => {
            Blob::of(kind)?;
            sum.add_block(kind, &reader.text()?);
        }
    }
    reader.is_at_end().then(|| sum.bytes + sum.buffer_bytes)
}

/// The memory that strings take.
#[derive(Default)]
struct Sum {
    bytes: u64,
    /// The longest that has to be expanded before it is stored.
    buffer_bytes: u64,
}

impl Sum {
    fn add(&mut self, text: &Text<'_>) {
        let bytes = text.len() as u64;
        self.bytes += bytes + bytes / 4 + PART_BYTES;
        self.add_buffer(text);
    }

    /// Adds the fields and values that `reader` has; where they `have_times`, each field has one
    /// before it.
    fn add_fields(&mut self, reader: &mut Reader<'_>, have_times: bool) -> Option<()> {
        // A field is expanded beside its value, each into a buffer of its own.
        let mut values = Sum::default();
        for _ in 0..reader.count()? {
            let expires = have_times && reader.number()? != 0;
            let field = reader.text()?;
            self.add(&field);
            if expires {
                // It is in the order of times too.
                self.add(&field);
            }
            values.add(&reader.text()?);
        }
        self.bytes += values.bytes + values.buffer_bytes;
        self.bytes += if have_times { 2 * PART_BYTES } else { 0 };
        Some(())
    }

    /// Adds what expanding `text` takes, before it is stored elsewhere.
    fn add_buffer(&mut self, text: &Text<'_>) {
        if let Text::Compressed { length, .. } = text {
            self.buffer_bytes = self.buffer_bytes.max(*length as u64);
        }
    }

    /// Adds a block of a value of `kind`, which is not expanded elsewhere first.
    fn add_block(&mut self, kind: u8, text: &Text<'_>) {
        let bytes = text.len() as u64;
        self.bytes += bytes + PART_BYTES + blobs::extra_bytes(kind, bytes);
    }
}
