//! Replies as a client reads them: whole values, decoded as their bytes arrive.

use std::fmt;

use base::number::parse_i64;

/// A reply of any type of RESP2 or RESP3.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+`: a line of text.
    Simple(Vec<u8>),
    /// `-` or `!`: an error, its code first.
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`: any bytes.
    Bulk(Vec<u8>),
    /// `$-1` or `_`: no value.
    Null,
    /// `*-1`: no array; RESP2 tells it from no value.
    NullArray,
    /// `*`
    Array(Vec<Value>),
    /// `%`, in the order of arrival.
    Map(Vec<(Value, Value)>),
    /// `~`, in the order of arrival.
    Set(Vec<Value>),
    /// `>`: a message that answers no request.
    Push(Vec<Value>),
    /// `,`
    Double(f64),
    /// `#`
    Boolean(bool),
    /// `(`: the decimal text of a whole number of any size.
    BigNumber(Vec<u8>),
    /// `=`: text with its format.
    Verbatim {
        /// `txt` or `mkd`.
        format: [u8; 3],
        /// The text alone.
        text: Vec<u8>,
    },
    /// `|`: a value with attributes before it.
    Attribute {
        /// The attributes, in the order of arrival.
        pairs: Vec<(Value, Value)>,
        /// What they belong to.
        value: Box<Value>,
    },
}

impl Value {
    /// Decodes the value that `bytes` consists of; none when it is incomplete or more follows.
    ///
    /// # Errors
    /// When the bytes are not RESP.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<Value>, ValueError> {
        let (consumed, value) = ValueDecoder::default().decode(bytes)?;
        Ok(value.filter(|_| consumed == bytes.len()))
    }

    /// Returns the bytes of a text, whichever way it was sent.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Simple(bytes) | Value::Bulk(bytes) | Value::BigNumber(bytes) => Some(bytes),
            Value::Verbatim { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// What a server may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLimits {
    /// Aggregates within aggregates.
    pub depth_max: usize,
    /// Bytes of a bulk.
    pub bulk_bytes_max: u32,
    /// Bytes of a line.
    pub line_bytes_max: usize,
}

impl Default for ValueLimits {
    fn default() -> ValueLimits {
        let bulk_bytes_max = 1024 * 1024 * 1024;
        ValueLimits { depth_max: 128, bulk_bytes_max, line_bytes_max: 1024 * 1024 }
    }
}

/// Bytes that are not RESP, or more than the limits allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueError {
    /// No type begins with this byte.
    UnknownType {
        /// The byte.
        found: u8,
    },
    /// A line of this type does not say what it has to.
    Malformed {
        /// The type's first byte.
        kind: u8,
    },
    /// A bulk does not end with `\r\n`.
    MissingLineEnd,
    /// A line is longer than `line_bytes_max`.
    LineTooLong,
    /// A bulk is longer than `bulk_bytes_max`.
    BulkTooLong,
    /// Aggregates nest deeper than `depth_max`.
    TooDeep,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::UnknownType { found } => {
                write!(f, "no reply type begins with '{}'", found.escape_ascii())
            }
            ValueError::Malformed { kind } => {
                write!(f, "a malformed reply of type '{}'", kind.escape_ascii())
            }
            ValueError::MissingLineEnd => f.write_str("a bulk reply without its line end"),
            ValueError::LineTooLong => f.write_str("a reply line beyond the limit"),
            ValueError::BulkTooLong => f.write_str("a bulk reply beyond the limit"),
            ValueError::TooDeep => f.write_str("a reply nested beyond the limit"),
        }
    }
}

impl std::error::Error for ValueError {}

/// Decodes replies as their bytes arrive.
#[derive(Debug, Default)]
pub struct ValueDecoder {
    limits: ValueLimits,
    /// Aggregates underway, the outermost first.
    frames: Vec<Frame>,
    /// Bytes of the next line that are known to hold no line end.
    scanned: usize,
    /// A bulk whose length line has been consumed.
    bulk: Option<PendingBulk>,
}

#[derive(Debug)]
struct Frame {
    kind: u8,
    values_left: u64,
    values: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
struct PendingBulk {
    kind: u8,
    bytes: usize,
}

/// What the next bytes are.
enum Token {
    Value(Value),
    /// An aggregate or a bulk was opened.
    Opened,
    Incomplete,
}

impl ValueDecoder {
    /// Returns a decoder for one connection.
    pub fn new(limits: ValueLimits) -> ValueDecoder {
        ValueDecoder { limits, ..ValueDecoder::default() }
    }

    /// Reads up to one value from `bytes`, which begins where the last call stopped consuming.
    ///
    /// Returns how many bytes it consumed, also of a value that is still incomplete, and the value
    /// when it is complete. After an error the connection is of no further use.
    ///
    /// # Errors
    /// When the bytes are not RESP or exceed the limits.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<(usize, Option<Value>), ValueError> {
        let mut consumed = 0;
        loop {
            let (token_bytes, token) = self.token(&bytes[consumed..])?;
            consumed += token_bytes;
            match token {
                Token::Incomplete => return Ok((consumed, None)),
                Token::Opened => {}
                Token::Value(value) => {
                    if let Some(value) = self.settle(value) {
                        return Ok((consumed, Some(value)));
                    }
                }
            }
        }
    }

    /// Returns how many bytes the next call needs at least, 1 or more.
    pub fn wanted(&self) -> usize {
        self.bulk.map_or(1, |bulk| bulk.bytes + 2)
    }

    fn token(&mut self, bytes: &[u8]) -> Result<(usize, Token), ValueError> {
        if let Some(bulk) = self.bulk {
            let total = bulk.bytes + 2;
            if bytes.len() < total {
                return Ok((0, Token::Incomplete));
            }
            if &bytes[bulk.bytes..total] != b"\r\n" {
                return Err(ValueError::MissingLineEnd);
            }
            self.bulk = None;
            return Ok((total, Token::Value(bulk_value(bulk.kind, &bytes[..bulk.bytes])?)));
        }
        let Some(end) = self.line_end(bytes)? else { return Ok((0, Token::Incomplete)) };
        let (&kind, text) =
            bytes[..end].split_first().ok_or(ValueError::UnknownType { found: b'\r' })?;
        Ok((end + 2, self.line_token(kind, text)?))
    }

    /// Returns where the `\r\n` of the first line is.
    fn line_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, ValueError> {
        let from = self.scanned.saturating_sub(1);
        let found = bytes[from..].windows(2).position(|pair| pair == b"\r\n");
        let end = found.map(|offset| from + offset);
        // Without an end in sight, the last byte may be the first of the two that end the line.
        if end.unwrap_or(bytes.len().saturating_sub(1)) > self.limits.line_bytes_max {
            return Err(ValueError::LineTooLong);
        }
        self.scanned = if end.is_some() { 0 } else { bytes.len() };
        Ok(end)
    }

    fn line_token(&mut self, kind: u8, text: &[u8]) -> Result<Token, ValueError> {
        let malformed = ValueError::Malformed { kind };
        let value = match kind {
            b'+' => Value::Simple(text.to_vec()),
            b'-' => Value::Error(text.to_vec()),
            b':' => Value::Integer(parse_i64(text).ok_or(malformed)?),
            b'_' if text.is_empty() => Value::Null,
            b'#' if text == b"t" => Value::Boolean(true),
            b'#' if text == b"f" => Value::Boolean(false),
            b',' => Value::Double(parse_double(text).ok_or(malformed)?),
            b'(' if is_whole_number(text) => Value::BigNumber(text.to_vec()),
            b'$' if text == b"-1" => Value::Null,
            b'*' if text == b"-1" => Value::NullArray,
            b'$' | b'=' | b'!' => {
                let bytes = parse_i64(text).and_then(|bytes| u32::try_from(bytes).ok());
                let bytes = bytes.ok_or(malformed)?;
                if bytes > self.limits.bulk_bytes_max {
                    return Err(ValueError::BulkTooLong);
                }
                self.bulk = Some(PendingBulk { kind, bytes: bytes as usize });
                return Ok(Token::Opened);
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let count = parse_i64(text).and_then(|count| u32::try_from(count).ok());
                return self.open(kind, u64::from(count.ok_or(malformed)?));
            }
            b'_' | b'#' | b'(' => return Err(malformed),
            _ => return Err(ValueError::UnknownType { found: kind }),
        };
        Ok(Token::Value(value))
    }

    fn open(&mut self, kind: u8, count: u64) -> Result<Token, ValueError> {
        let values_left = match kind {
            b'%' => 2 * count,
            b'|' => 2 * count + 1,
            _ => count,
        };
        let frame = Frame { kind, values_left, values: Vec::new() };
        if values_left == 0 {
            return Ok(Token::Value(frame.close()));
        }
        if self.frames.len() == self.limits.depth_max {
            return Err(ValueError::TooDeep);
        }
        self.frames.push(frame);
        Ok(Token::Opened)
    }

    /// Puts `value` where it belongs; returns it when it belongs to nothing, and the outermost
    /// aggregate when that is complete with it.
    fn settle(&mut self, mut value: Value) -> Option<Value> {
        while let Some(frame) = self.frames.last_mut() {
            frame.values.push(value);
            frame.values_left -= 1;
            if frame.values_left > 0 {
                return None;
            }
            value = self.frames.pop().expect("the frame was just looked at").close();
        }
        Some(value)
    }
}

impl Frame {
    fn close(mut self) -> Value {
        match self.kind {
            b'*' => Value::Array(self.values),
            b'~' => Value::Set(self.values),
            b'>' => Value::Push(self.values),
            b'%' => Value::Map(pairs(self.values)),
            kind => {
                assert!(kind == b'|', "a frame is of an aggregate type");
                let value = self.values.pop().expect("attributes have a value after them");
                Value::Attribute { pairs: pairs(self.values), value: Box::new(value) }
            }
        }
    }
}

fn pairs(values: Vec<Value>) -> Vec<(Value, Value)> {
    let mut pairs = Vec::with_capacity(values.len() / 2);
    let mut values = values.into_iter();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        pairs.push((key, value));
    }
    pairs
}

fn bulk_value(kind: u8, bytes: &[u8]) -> Result<Value, ValueError> {
    match (kind, bytes) {
        (b'$', _) => Ok(Value::Bulk(bytes.to_vec())),
        (b'!', _) => Ok(Value::Error(bytes.to_vec())),
        (_, &[a, b, c, b':', ref text @ ..]) => {
            Ok(Value::Verbatim { format: [a, b, c], text: text.to_vec() })
        }
        _ => Err(ValueError::Malformed { kind }),
    }
}

fn parse_double(text: &[u8]) -> Option<f64> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    match text {
        b"inf" => Some(f64::INFINITY),
        b"-inf" => Some(f64::NEG_INFINITY),
        b"nan" | b"-nan" => Some(f64::NAN),
        _ if text.iter().all(is_number) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

fn is_whole_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    /// Decodes whole and byte by byte.
    fn check(bytes: &[u8], expected: Value) {
        assert_eq!(Value::from_bytes(bytes), Ok(Some(expected.clone())));
        let mut decoder = ValueDecoder::default();
        let (mut start, mut found) = (0, None);
        for end in 1..=bytes.len() {
            assert_eq!(found, None, "nothing is complete before the last byte");
            let (consumed, value) = decoder.decode(&bytes[start..end]).unwrap();
            start += consumed;
            found = value;
        }
        assert_eq!(found, Some(expected));
    }

    fn check_error(bytes: &[u8], expected: ValueError) {
        assert_eq!(Value::from_bytes(bytes), Err(expected), "bytes {}", bytes.escape_ascii());
    }

    #[test]
    fn every_type_is_decoded() {
        check(b"+OK\r\n", Value::Simple(b"OK".into()));
        check(b"+a\rb\r\n", Value::Simple(b"a\rb".into()));
        check(b"-ERR x\r\n", Value::Error(b"ERR x".into()));
        check(b"!5\r\nERR\r\n\r\n", Value::Error(b"ERR\r\n".into()));
        check(b":-12\r\n", Value::Integer(-12));
        check(b"$5\r\na\r\nb \r\n", bulk("a\r\nb "));
        check(b"$0\r\n\r\n", bulk(""));
        check(b"$-1\r\n", Value::Null);
        check(b"_\r\n", Value::Null);
        check(b"*-1\r\n", Value::NullArray);
        check(b"*0\r\n", Value::Array(vec![]));
        check(b"*2\r\n:1\r\n$1\r\na\r\n", Value::Array(vec![Value::Integer(1), bulk("a")]));
        check(
            b"%1\r\n$1\r\nk\r\n*1\r\n#t\r\n",
            Value::Map(vec![(bulk("k"), Value::Array(vec![Value::Boolean(true)]))]),
        );
        check(b"~1\r\n#f\r\n", Value::Set(vec![Value::Boolean(false)]));
        check(b">1\r\n+x\r\n", Value::Push(vec![Value::Simple(b"x".into())]));
        check(b",-1.5e+3\r\n", Value::Double(-1500.0));
        check(b",inf\r\n", Value::Double(f64::INFINITY));
        check(b"(-123456789012345678901\r\n", Value::BigNumber(b"-123456789012345678901".into()));
        check(b"=6\r\ntxt:hi\r\n", Value::Verbatim { format: *b"txt", text: b"hi".into() });
        check(
            b"|1\r\n+ttl\r\n:5\r\n$1\r\nv\r\n",
            Value::Attribute {
                pairs: vec![(Value::Simple(b"ttl".into()), Value::Integer(5))],
                value: Box::new(bulk("v")),
            },
        );
    }

    #[test]
    fn what_is_not_resp_is_refused() {
        for (bytes, kind) in [
            (&b":x\r\n"[..], b':'),
            (b"$-2\r\n", b'$'),
            (b"$x\r\n", b'$'),
            (b"*-2\r\n", b'*'),
            (b"%-1\r\n", b'%'),
            (b"_x\r\n", b'_'),
            (b"#x\r\n", b'#'),
            (b",x\r\n", b','),
            (b",infinity\r\n", b','),
            (b"(1x\r\n", b'('),
            (b"(\r\n", b'('),
            (b"=3\r\ntxt\r\n", b'='),
        ] {
            check_error(bytes, ValueError::Malformed { kind });
        }
        check_error(b"?\r\n", ValueError::UnknownType { found: b'?' });
        check_error(b"\r\n", ValueError::UnknownType { found: b'\r' });
        check_error(b"$1\r\nabc", ValueError::MissingLineEnd);
    }

    #[test]
    fn limits_hold() {
        let limits = ValueLimits { depth_max: 2, bulk_bytes_max: 3, line_bytes_max: 8 };
        let decode = |bytes: &[u8]| ValueDecoder::new(limits).decode(bytes).map(|(_, value)| value);
        assert!(decode(b"*1\r\n*1\r\n$3\r\nabc\r\n").unwrap().is_some());
        assert!(decode(b"*1\r\n*1\r\n*0\r\n").unwrap().is_some());
        assert_eq!(decode(b"*1\r\n*1\r\n*1\r\n"), Err(ValueError::TooDeep));
        assert_eq!(decode(b"$4\r\n"), Err(ValueError::BulkTooLong));
        assert!(decode(b"+1234567\r\n").unwrap().is_some());
        assert_eq!(decode(b"+12345678\r\n"), Err(ValueError::LineTooLong));
        assert_eq!(decode(b"+1234567\r"), Ok(None), "the line may end here");
        assert_eq!(decode(b"+123456789"), Err(ValueError::LineTooLong));
    }

    #[test]
    fn several_values_come_one_by_one() {
        let mut decoder = ValueDecoder::default();
        let bytes = b":1\r\n:2\r\n:3";
        assert_eq!(decoder.decode(bytes), Ok((4, Some(Value::Integer(1)))));
        assert_eq!(decoder.decode(&bytes[4..]), Ok((4, Some(Value::Integer(2)))));
        assert_eq!(decoder.decode(&bytes[8..]), Ok((0, None)));
        assert_eq!(decoder.decode(b":3\r\n"), Ok((4, Some(Value::Integer(3)))));
    }

    #[test]
    fn wanted_is_the_rest_of_a_bulk() {
        let mut decoder = ValueDecoder::default();
        assert_eq!(decoder.wanted(), 1);
        assert_eq!(decoder.decode(b"$100\r\nabc"), Ok((6, None)));
        assert_eq!(decoder.wanted(), 102);
    }
}
