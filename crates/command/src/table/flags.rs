//! What a command is allowed to do and when, beyond what its kind of handler says.

/// A set of properties of a command. `write` and `readonly` of a `Handler::Write` and a
/// `Handler::Read` follow from the handler and are not repeated here; see
/// [`Command::effective_flags`](crate::Command::effective_flags).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// No property.
    pub const NONE: Flags = Flags(0);
    /// Changes the dataset.
    pub const WRITE: Flags = Flags(1 << 0);
    /// Reads keys and changes nothing.
    pub const READONLY: Flags = Flags(1 << 1);
    /// May need memory: refused when `maxmemory` is reached and nothing can be evicted.
    pub const DENYOOM: Flags = Flags(1 << 2);
    /// Administrates the server.
    pub const ADMIN: Flags = Flags(1 << 3);
    /// Belongs to publish/subscribe.
    pub const PUBSUB: Flags = Flags(1 << 4);
    /// Not for scripts.
    pub const NOSCRIPT: Flags = Flags(1 << 5);
    /// May wait for another session.
    pub const BLOCKING: Flags = Flags(1 << 6);
    /// Allowed while the dataset is loaded.
    pub const LOADING: Flags = Flags(1 << 7);
    /// Allowed on a replica whose data may be old.
    pub const STALE: Flags = Flags(1 << 8);
    /// Not kept in the slow log.
    pub const SKIP_SLOWLOG: Flags = Flags(1 << 10);
    /// Takes constant or logarithmic time.
    pub const FAST: Flags = Flags(1 << 11);
    /// Allowed before authentication.
    pub const NO_AUTH: Flags = Flags(1 << 12);
    /// Needs an option of the configuration before it may run.
    pub const PROTECTED: Flags = Flags(1 << 14);
    /// Not allowed while another dataset is loaded beside this one.
    pub const NO_ASYNC_LOADING: Flags = Flags(1 << 15);
    /// Not allowed inside MULTI.
    pub const NO_MULTI: Flags = Flags(1 << 16);
    /// Has keys that only the request itself tells the place of. Follows from the key
    /// specifications; see [`Command::shown_flags`](crate::Command::shown_flags).
    pub const MOVABLEKEYS: Flags = Flags(1 << 17);
    /// Allowed while a script runs too long.
    pub const ALLOW_BUSY: Flags = Flags(1 << 18);
    /// Runs at once inside MULTI, where others are queued. Forebay's own, not shown.
    pub const UNQUEUED: Flags = Flags(1 << 24);
    /// Writes without naming keys: FLUSHALL and its like. Forebay's own, not shown.
    pub const KEYLESS: Flags = Flags(1 << 25);
    /// Concerns the session, and has its ACL category, though it is documented with others: WAIT.
    /// Forebay's own, not shown.
    pub const OF_SESSION: Flags = Flags(1 << 26);
    /// Asks the host for what may wait for the system or take long, so that it never runs while a
    /// shard is held: within EXEC it runs before or behind those that need one. Forebay's own, not
    /// shown.
    pub const UNGUARDED: Flags = Flags(1 << 27);

    /// A command that reads, though it may keep what it has worked out: PFCOUNT. It runs where no
    /// write is admitted, and waits for the end of a pause of writes. Redis has the flag, and does
    /// not show it.
    pub const MAY_REPLICATE: Flags = Flags(1 << 29);
    /// May give its session leases of its keys, which end with the session. Forebay's own, not
    /// shown.
    pub const LEASES: Flags = Flags(1 << 30);
    /// Asks the cache for its keys itself as it comes to them (`ReadView::ahead`), so that only the
    /// first ones are asked for before it runs. Forebay's own, not shown.
    pub const PREFETCHES: Flags = Flags(1 << 31);
    /// Its requests are effects as they are, where they name one key: they ask neither time nor
    /// chance. Records have them, and are replayed by running the command. Forebay's own, not
    /// shown.
    pub const EFFECT: Flags = Flags(1 << 28);

    /// The names that COMMAND INFO prints, in its order. PROTECTED is hidden there as in Redis.
    const NAMES: [(Flags, &'static str); 16] = [
        (Flags::WRITE, "write"),
        (Flags::READONLY, "readonly"),
        (Flags::DENYOOM, "denyoom"),
        (Flags::ADMIN, "admin"),
        (Flags::PUBSUB, "pubsub"),
        (Flags::NOSCRIPT, "noscript"),
        (Flags::BLOCKING, "blocking"),
        (Flags::LOADING, "loading"),
        (Flags::STALE, "stale"),
        (Flags::SKIP_SLOWLOG, "skip_slowlog"),
        (Flags::FAST, "fast"),
        (Flags::NO_AUTH, "no_auth"),
        (Flags::NO_ASYNC_LOADING, "no_async_loading"),
        (Flags::NO_MULTI, "no_multi"),
        (Flags::MOVABLEKEYS, "movablekeys"),
        (Flags::ALLOW_BUSY, "allow_busy"),
    ];

    /// Returns the properties of both.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns whether every property of `other` is here.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the names that users see.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        Flags::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }
}
