//! The row of a command: all that is known of it, in one place.

use keyspace::ReadView;
use resp::{Reply, RequestView};

use crate::handler::context::{ControlContext, Next, ReadContext, SessionContext, WriteContext};
use crate::handler::outcome::Unfinished;
use crate::handler::request::Args;
use crate::table::argument::Arg;
use crate::table::arity::Arity;
use crate::table::categories::Categories;
use crate::table::flags::Flags;
use crate::table::key_spec::{Extent, KeyFlags, KeySpec, KeyUse};

/// A command, or a subcommand. Everything else is derived from these rows: lookup, COMMAND and its
/// documentation, key positions, ACL categories, arity errors, generated requests.
#[derive(Debug)]
pub struct Command {
    /// The name in lower case; a subcommand's is `container|name`.
    pub name: &'static str,
    /// What it does, in one sentence of at most 80 columns.
    pub summary: &'static str,
    /// The version of Redis that has it first.
    pub since: &'static str,
    /// The cost.
    pub complexity: &'static str,
    /// The chapter of the documentation.
    pub group: Group,
    /// How many arguments it takes.
    pub arity: Arity,
    /// Properties that do not follow from the handler.
    pub flags: Flags,
    /// ACL categories that follow neither from the group nor from the flags.
    pub categories: Categories,
    /// Which arguments are keys.
    pub keys: &'static [KeySpec],
    /// Computes what a request does with its keys, if that depends on its arguments: the key
    /// specification then has `variable_flags`.
    pub key_flags: Option<fn(RequestView<'_>) -> KeyFlags>,
    /// The reply has data of the keys (flag ACCESS) that are only their times to live, so that no
    /// value is read.
    pub returns_times: bool,
    /// The position of the argument that is stored unchanged as the whole value of the one key, if
    /// there is one: a long one is received straight into its block.
    pub value_at: Option<usize>,
    /// Tells whether the argument at a position is a secret, which logs replace by a word.
    pub secrets: Option<fn(RequestView<'_>, usize) -> bool>,
    /// The arguments after the name or names.
    pub args: &'static [Arg],
    /// Its time may grow with what is at its key, however few its arguments are, so that it never
    /// shares its time with others.
    pub is_timed_alone: bool,
    /// It takes a constant time, however many keys it has, unless it asks for
    /// [`crate::Need::TimeAlone`].
    pub asks_for_time: bool,
    /// The subcommands of a container.
    pub subcommands: &'static [&'static Command],
    /// What changed since its first version: (version, what).
    pub history: &'static [(&'static str, &'static str)],
    /// What Redis does and Forebay does not, in sentences for the documentation.
    pub note: &'static str,
    /// Hints for clients and proxies, in Redis's words.
    pub tips: &'static [&'static str],
    /// What to use instead, and since which version: (version, what).
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Requests after `> ` and the replies that follow them, as redis-cli would show them. A test
    /// runs it.
    pub example: &'static str,
    /// What runs.
    pub handler: Handler,
    /// Returns the request as it is kept while it waits, where its words mean something else later:
    /// XREAD's `$`.
    pub at_wait: Option<WaitingRequest>,
}

/// Makes the request that is kept while a command waits.
pub type WaitingRequest = fn(&ReadView<'_>, Args<'_>) -> Vec<Vec<u8>>;

/// The chapters of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Keys whatever their type.
    Generic,
    /// Strings.
    String,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Hashes.
    Hash,
    /// Places in sorted sets.
    Geo,
    /// Streams.
    Stream,
    /// Strings as bits.
    Bitmap,
    /// Strings that count different elements.
    HyperLogLog,
    /// The session.
    Connection,
    /// The server.
    Server,
    /// MULTI and what belongs to it.
    Transactions,
}

/// What a command may do is the kind of its handler, so that the compiler keeps a reader from
/// writing. What a handler that is not done has written of its reply is taken back.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// Reads keys under their shards' locks.
    Read(fn(&ReadContext<'_>, Args<'_>, &mut Reply<'_>) -> Result<(), Unfinished>),
    /// Reads and writes keys under their shards' locks. Whatever it answers but `Ok`, it answers
    /// before it changes anything; XREADGROUP alone makes its consumer before it waits, as Redis
    /// does, and finds it when it is run again.
    Write(fn(&mut WriteContext<'_>, Args<'_>, &mut Reply<'_>) -> Result<(), Unfinished>),
    /// Reads and changes the session, asks the host; asks no shard for anything. Within EXEC
    /// shards may be held, unless it is [`Flags::UNGUARDED`].
    Session(fn(&mut SessionContext<'_>, Args<'_>, &mut Reply<'_>) -> Result<Next, Unfinished>),
    /// Works on the whole keyspace; outside of EXEC it starts without a lock.
    Control(fn(&mut ControlContext<'_>, Args<'_>, &mut Reply<'_>) -> Result<(), Unfinished>),
    /// Has subcommands and runs nothing itself.
    Container,
}

impl Command {
    /// What a row need not say.
    pub const DEFAULT: Command = Command {
        name: "",
        summary: "",
        since: "1.0.0",
        complexity: "O(1)",
        group: Group::Generic,
        arity: Arity::exactly(1),
        flags: Flags::NONE,
        categories: Categories::NONE,
        keys: &[],
        key_flags: None,
        returns_times: false,
        value_at: None,
        secrets: None,
        args: &[],
        is_timed_alone: false,
        asks_for_time: false,
        subcommands: &[],
        history: &[],
        note: "",
        tips: &[],
        deprecated: None,
        example: "",
        handler: Handler::Container,
        at_wait: None,
    };

    /// Returns the flags together with what the kind of handler says.
    #[inline]
    pub const fn effective_flags(&self) -> Flags {
        match self.handler {
            Handler::Read(_) => self.flags.with(Flags::READONLY),
            Handler::Write(_) if self.flags.contains(Flags::MAY_REPLICATE) => {
                self.flags.with(Flags::READONLY)
            }
            Handler::Write(_) => self.flags.with(Flags::WRITE),
            _ => self.flags,
        }
    }

    /// Returns the flags that users see: those, and whether one has to read a request to know where
    /// its keys are.
    pub fn shown_flags(&self) -> Flags {
        let is_fixed = self.keys.iter().all(|spec| matches!(spec.extent, Extent::To(_)));
        self.effective_flags().with(if is_fixed { Flags::NONE } else { Flags::MOVABLEKEYS })
    }

    /// Returns whether the command has every property of `flags`.
    #[inline]
    pub const fn is(&self, flags: Flags) -> bool {
        self.effective_flags().contains(flags)
    }

    /// Returns the ACL categories: those of the row, the group, the flags and the handler. A
    /// container has only its speed.
    pub fn acl_categories(&self) -> Categories {
        let of_speed = match self.is(Flags::FAST) {
            true => Categories::FAST,
            false => Categories::SLOW,
        };
        if matches!(self.handler, Handler::Container) {
            return of_speed;
        }
        let admin = Categories::ADMIN.with(Categories::DANGEROUS);
        of_speed
            .with(self.categories)
            .with(match self.group {
                _ if self.is(Flags::OF_SESSION) => Categories::CONNECTION,
                // SORT is documented with the commands of any type, and has three.
                Group::Generic if self.categories.contains(Categories::LIST) => Categories::NONE,
                group => group.categories(),
            })
            .with_if(self.is(Flags::READONLY), Categories::READ)
            .with_if(self.is(Flags::WRITE), Categories::WRITE)
            .with_if(self.is(Flags::ADMIN), admin)
            .with_if(self.is(Flags::PUBSUB), Categories::PUBSUB)
            .with_if(self.is(Flags::BLOCKING), Categories::BLOCKING)
    }

    /// Returns whether argument `index` of `request` is a secret.
    pub fn is_secret(&self, request: RequestView<'_>, index: usize) -> bool {
        self.secrets.is_some_and(|secrets| secrets(request, index))
    }

    /// Returns the part of the name after the container's.
    pub fn own_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, own)| own)
    }

    /// Returns the subcommand called `name`, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        // Their names begin with this one and a bar.
        let prefix_bytes = self.name.len() + 1;
        let named =
            |row: &&&Command| row.name.as_bytes()[prefix_bytes..].eq_ignore_ascii_case(name);
        self.subcommands.iter().find(named).copied()
    }

    /// Returns the positions of all keys in `request`, without those whose count makes no sense:
    /// the handler refuses it.
    #[inline]
    pub fn key_positions<'r>(
        &self,
        request: RequestView<'r>,
    ) -> impl Iterator<Item = usize> + use<'r> {
        let keys: &'static [KeySpec] = self.keys;
        keys.iter().flat_map(move |spec| spec.positions(request))
    }

    /// Returns the position of the key, where every request has that one key and no other: the
    /// quick way for the most frequent commands.
    #[inline]
    pub fn only_key(&self) -> Option<usize> {
        match self.keys {
            [KeySpec { first, extent: Extent::To(0), .. }] => Some(usize::from(*first)),
            _ => None,
        }
    }

    /// Returns the positions of the two keys, where every request has these two and no others: the
    /// quick way for commands such as RENAME.
    #[inline]
    pub fn only_pair(&self) -> Option<[usize; 2]> {
        match self.keys {
            [
                KeySpec { first: one, extent: Extent::To(0), .. },
                KeySpec { first: other, extent: Extent::To(0), .. },
            ] => Some([*one, *other].map(usize::from)),
            _ => None,
        }
    }

    /// Returns whether `request` may use keys whose names are not in it.
    pub fn uses_unknown_keys(&self, request: RequestView<'_>) -> bool {
        let has_unknown = self.keys.iter().any(|spec| spec.extent == Extent::Unknown);
        // All that is known of them is a pattern.
        has_unknown && request.iter().skip(2).any(|argument| argument.contains(&b'*'))
    }

    /// Returns whether `request` may use the bytes of its keys' values, and not only lengths, types
    /// and times: what the generic commands change are those.
    pub fn uses_values(&self, request: RequestView<'_>) -> bool {
        let is_used = |flags: KeyFlags| {
            let changes = flags.contains(KeyFlags::RW) && self.group != Group::Generic;
            changes || flags.contains(KeyFlags::ACCESS) && !self.returns_times
        };
        match self.key_flags {
            Some(key_flags) => is_used(key_flags(request)),
            None => self.keys.iter().any(|spec| is_used(spec.flags)),
        }
    }

    /// Returns for each key of `request`, in the order of [`Command::key_positions`], whether its
    /// value is replaced without having been read.
    pub fn overwrites<'r>(&self, request: RequestView<'r>) -> impl Iterator<Item = bool> + use<'r> {
        let (keys, of_request) = (self.keys, self.key_flags);
        keys.iter().flat_map(move |spec| {
            let flags = of_request.map_or(spec.flags, |flags| flags(request));
            spec.positions(request).map(move |_| flags.contains(KeyFlags::OW))
        })
    }

    /// Returns how many bytes of `request` the command may store: none where it is one that needs
    /// no memory, and no names of keys that it only reads.
    pub fn stored_bytes(&self, request: RequestView<'_>) -> usize {
        if !self.is(Flags::DENYOOM) {
            return 0;
        }
        let sources = self.keys.iter().filter(|spec| spec.flags.contains(KeyFlags::RO));
        let names = sources.flat_map(|spec| spec.positions(request));
        let named: usize = names.map(|position| request.at(position).len()).sum();
        let brought: usize = request.iter().skip(1).map(<[u8]>::len).sum();
        brought - named
    }

    /// Returns whether a key is used for anything but reading.
    pub fn writes_keys(&self) -> bool {
        self.keys.iter().any(|spec| spec.key_use() != KeyUse::Read)
    }

    /// Returns the first key, the last and the step of COMMAND INFO's older fields, which know
    /// nothing of counted keys; zeroes where there is no other.
    pub fn key_range(&self) -> (i64, i64, i64) {
        let mut ranges = self.keys.iter().filter_map(|spec| match spec.extent {
            Extent::To(last) => Some((spec, last)),
            Extent::OneWithout(_) => Some((spec, 0)),
            Extent::Counted
            | Extent::BehindWord { .. }
            | Extent::All(_)
            | Extent::FirstHalf(_)
            | Extent::Unknown => None,
        });
        // The keys of several specifications follow each other.
        let Some((first, _)) = ranges.clone().next() else { return (0, 0, 0) };
        let (end, last) = ranges.next_back().expect("the first is the last where it is alone");
        let last = match last {
            0.. => i64::from(end.first) + i64::from(last),
            _ => i64::from(last),
        };
        (i64::from(first.first), last, i64::from(first.step))
    }
}

impl Group {
    /// Returns the name in COMMAND DOCS.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Hash => "hash",
            Group::Geo => "geo",
            Group::Stream => "stream",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Transactions => "transactions",
        }
    }

    /// How many groups have keys of a type of their own.
    pub const KEY_AFFINITIES: u64 = 8;

    /// Returns a number below [`Group::KEY_AFFINITIES`] for the type of key that the group works
    /// on: generators give each type keys of its own, most times.
    pub const fn key_affinity(self) -> Option<u64> {
        match self {
            Group::String | Group::Bitmap => Some(0),
            Group::List => Some(1),
            Group::Set => Some(2),
            Group::SortedSet => Some(3),
            Group::Hash => Some(4),
            Group::Stream => Some(5),
            // Sorted sets whose scores are places.
            Group::Geo => Some(6),
            Group::HyperLogLog => Some(7),
            _ => None,
        }
    }

    /// Returns the ACL category that all commands of the group have.
    const fn categories(self) -> Categories {
        match self {
            Group::Generic => Categories::KEYSPACE,
            Group::String => Categories::STRING,
            Group::List => Categories::LIST,
            Group::Set => Categories::SET,
            Group::SortedSet => Categories::SORTED_SET,
            Group::Hash => Categories::HASH,
            Group::Geo => Categories::GEO,
            Group::Stream => Categories::STREAM,
            Group::Bitmap => Categories::BITMAP,
            Group::HyperLogLog => Categories::HYPERLOGLOG,
            Group::Connection => Categories::CONNECTION,
            Group::Server => Categories::NONE,
            Group::Transactions => Categories::TRANSACTION,
        }
    }
}
