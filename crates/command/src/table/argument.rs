//! The arguments of a command as data: what COMMAND DOCS prints and generators draw from.

/// One argument, or a group of them.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// The name in the syntax line.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgKind,
    /// The word that stands before the value; for [`ArgKind::PureToken`] all there is. Empty: none.
    pub token: &'static str,
    /// It may be left out.
    pub optional: bool,
    /// It may be repeated.
    pub multiple: bool,
    /// Where it may be repeated, it is there so many times at least.
    pub repeats_min: u8,
    /// Where it is repeated, its token is too.
    pub token_each: bool,
    /// The version of Redis that added it; empty where that is the command's own.
    pub since: &'static str,
    /// It is the number of times that the next argument is there.
    pub counts_next: bool,
    /// It is there as often as the argument that was counted last.
    pub repeats_count: bool,
    /// The numbers that make sense, both included: generators draw from them. Not a check.
    pub range: (i64, i64),
    /// Generators never leave the range: a command may do as much work as the number says.
    pub is_bounded: bool,
    /// Generators draw other strings than the words at times.
    pub is_open: bool,
    /// Words that make sense for a string: generators draw from them. Not a check.
    pub words: &'static [&'static str],
}

/// Parts of collections: integers of every width, words, and one that no compact form takes.
const PARTS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "10",
    "-1",
    "100",
    "-4096",
    "4095",
    "70000",
    "-70000",
    "5000000000",
    "a",
    "b",
    "c",
    "d",
    "alpha",
    "beta",
    "007",
    "1.5",
    "",
    "a part of some thirty bytes or so",
    "a part that is longer than what the compact forms take as they are configured by default",
];

/// The kind of an [`Arg`].
#[derive(Clone, Copy, Debug)]
pub enum ArgKind {
    /// A key of the key specification with this index.
    Key(u8),
    /// Any bytes.
    String,
    /// A 64-bit integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A glob pattern.
    Pattern,
    /// Names of keys of the key specification with this index, as a pattern.
    KeyPattern(u8),
    /// A time as seconds or milliseconds since the Unix epoch.
    UnixTime,
    /// A fixed word: [`Arg::token`].
    PureToken,
    /// One of these.
    OneOf(&'static [Arg]),
    /// All of these, in this order.
    Block(&'static [Arg]),
}

impl ArgKind {
    /// Returns the name of the kind in COMMAND DOCS.
    pub const fn name(self) -> &'static str {
        match self {
            ArgKind::Key(_) => "key",
            ArgKind::String => "string",
            ArgKind::Integer => "integer",
            ArgKind::Double => "double",
            ArgKind::Pattern | ArgKind::KeyPattern(_) => "pattern",
            ArgKind::UnixTime => "unix-time",
            ArgKind::PureToken => "pure-token",
            ArgKind::OneOf(_) => "oneof",
            ArgKind::Block(_) => "block",
        }
    }
}

impl Arg {
    /// An argument of `kind`, required, once.
    pub const fn new(name: &'static str, kind: ArgKind) -> Arg {
        Arg {
            name,
            kind,
            token: "",
            optional: false,
            multiple: false,
            repeats_min: 1,
            token_each: false,
            since: "",
            counts_next: false,
            repeats_count: false,
            range: (i64::MIN, i64::MAX),
            is_bounded: false,
            is_open: false,
            words: &[],
        }
    }

    /// A key of the first key specification.
    pub const fn key(name: &'static str) -> Arg {
        Arg::new(name, ArgKind::Key(0))
    }

    /// As it is, a key of the key specification `index`.
    pub const fn spec(self, index: u8) -> Arg {
        Arg { kind: ArgKind::Key(index), ..self }
    }

    /// Any bytes.
    pub const fn string(name: &'static str) -> Arg {
        Arg::new(name, ArgKind::String)
    }

    /// An integer.
    pub const fn integer(name: &'static str) -> Arg {
        Arg::new(name, ArgKind::Integer)
    }

    /// The number of times that the next argument is there.
    pub const fn count_of_next(name: &'static str) -> Arg {
        Arg { counts_next: true, ..Arg::integer(name).only_within(1, 1) }
    }

    /// A floating-point number.
    pub const fn double(name: &'static str) -> Arg {
        Arg::new(name, ArgKind::Double)
    }

    /// A glob pattern.
    pub const fn pattern(name: &'static str) -> Arg {
        Arg::new(name, ArgKind::Pattern)
    }

    /// Names of keys of the key specification `index`, as a pattern.
    pub const fn key_pattern(name: &'static str, index: u8) -> Arg {
        Arg::new(name, ArgKind::KeyPattern(index))
    }

    /// A point in time.
    pub const fn unix_time(name: &'static str) -> Arg {
        Arg::new(name, ArgKind::UnixTime)
    }

    /// The word `token`.
    pub const fn word(name: &'static str, token: &'static str) -> Arg {
        Arg::new(name, ArgKind::PureToken).token(token)
    }

    /// One of `args`.
    pub const fn one_of(name: &'static str, args: &'static [Arg]) -> Arg {
        Arg::new(name, ArgKind::OneOf(args))
    }

    /// All of `args` in order.
    pub const fn block(name: &'static str, args: &'static [Arg]) -> Arg {
        Arg::new(name, ArgKind::Block(args))
    }

    /// As it is, after the word `token`.
    pub const fn token(self, token: &'static str) -> Arg {
        Arg { token, ..self }
    }

    /// As it is, and may be left out.
    pub const fn optional(self) -> Arg {
        Arg { optional: true, ..self }
    }

    /// As it is, and may be repeated.
    pub const fn multiple(self) -> Arg {
        Arg { multiple: true, ..self }
    }

    /// As it is, and is there `count` times or more.
    pub const fn at_least(self, count: u8) -> Arg {
        Arg { multiple: true, repeats_min: count, ..self }
    }

    /// As it is, and is there as often as the argument that was counted last.
    pub const fn as_often_as_counted(self) -> Arg {
        Arg { multiple: true, repeats_count: true, ..self }
    }

    /// As it is, and is there as often as the argument before it that may be repeated.
    pub const fn as_often_as_before(self) -> Arg {
        self.as_often_as_counted()
    }

    /// As it is, and each repetition begins with the token.
    pub const fn token_each(self) -> Arg {
        Arg { token_each: true, ..self }
    }

    /// As it is, added by Redis `version`.
    pub const fn since(self, version: &'static str) -> Arg {
        Arg { since: version, ..self }
    }

    /// As it is; numbers from `low` to `high` make sense.
    pub const fn within(self, low: i64, high: i64) -> Arg {
        Arg { range: (low, high), ..self }
    }

    /// As it is; numbers from `low` to `high` make sense, and generators draw no others.
    pub const fn only_within(self, low: i64, high: i64) -> Arg {
        Arg { range: (low, high), is_bounded: true, ..self }
    }

    /// An element, a member or a field: few, so that requests meet, and others at times.
    pub const fn part(name: &'static str) -> Arg {
        Arg { is_open: true, ..Arg::string(name).among(PARTS) }
    }

    /// As it is; these words make sense.
    pub const fn among(self, words: &'static [&'static str]) -> Arg {
        Arg { words, ..self }
    }

    /// Returns the fewest arguments that it takes in a request.
    pub fn count_min(&self) -> usize {
        if self.optional {
            return 0;
        }
        let value = match self.kind {
            ArgKind::PureToken => 0,
            ArgKind::OneOf(args) => args.iter().map(Arg::count_min).min().unwrap_or(0),
            ArgKind::Block(args) => args.iter().map(Arg::count_min).sum(),
            _ => 1,
        };
        value * usize::from(self.repeats_min) + usize::from(!self.token.is_empty())
    }
}
