//! MIGRATE: keys to another server.
//!
//! The keys are sent in parcels of about a mebibyte: each is gathered here, key by key under the
//! lock of its shard, and handed to the host, which sends it from a thread of its own. The session
//! waits meanwhile and holds nothing. When the host knows what the other server has replied, the
//! request is run again: it removes the keys that the other server has, and sends the next parcel.
//!
//! Others may change a key while it is underway, where Redis lets nobody in. Each key is watched
//! from the moment at which it is gathered, and one that has changed is not removed.

use std::time::Duration;

use base::{Lsn, UnixMs};
use keyspace::{ExportVersion, Keyspace, Object, Scratch, Watches};
use rdb::Stored;
use resp::RequestView;

use crate::host::other_servers::{Delivery, Parcel, SentValue, Target, Transfer, TransferFailure};
use crate::prelude::*;
use crate::table::key_spec::{Extent, KeyList};

/// A parcel that has so many bytes takes no further key.
const PARCEL_BYTES_MAX: u64 = 1 << 20;
/// Nor does one of so many keys.
const PARCEL_KEYS_MAX: usize = 1024;
/// How long each step may take where the request does not say.
const TIMEOUT_MS_DEFAULT: i64 = 1000;
/// The longest that a step may take: longer times count as this.
const TIMEOUT_MS_MAX: i64 = 3_600_000;

const KEY_AND_KEYS: CommandError = CommandError::Fixed(
    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
);
const IN_TRANSACTION: CommandError =
    CommandError::Fixed("ERR MIGRATE waits for another server and cannot run inside a transaction");
const CHANGED: CommandError = CommandError::Fixed(
    "ERR a key was changed while it was sent: the target has what it was before, and what it is \
     now stays here",
);

const LIST: KeyList = KeyList { word: "KEYS", options: 6, passed: &[("AUTH", 1), ("AUTH2", 2)] };
const USE: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);
const ONE_KEY: KeySpec = KeySpec { extent: Extent::OneWithout(LIST), ..KeySpec::at(3, USE) };
const ALL_KEYS: KeySpec =
    KeySpec { extent: Extent::All(LIST), ..KeySpec::at(3, USE.with(KeyFlags::INCOMPLETE)) };

pub(super) static MIGRATE: Command = Command {
    name: "migrate",
    summary: "Sends keys to another server and removes them here.",
    since: "2.6.0",
    complexity: "O(N), N being the bytes of the values; as RESTORE on the other server",
    arity: Arity::at_least(6),
    flags: Flags::WRITE,
    categories: Categories::DANGEROUS,
    keys: &[ONE_KEY, ALL_KEYS],
    args: &[
        Arg::string("host").among(&["127.0.0.1"]),
        Arg::integer("port").only_within(1, 1),
        Arg::one_of("key-selector", &[Arg::key("key"), Arg::word("empty-string", "\"\"")]),
        Arg::integer("destination-db").within(0, 15),
        Arg::integer("timeout").only_within(1, 10),
        Arg::word("copy", "COPY").optional().since("3.0.0"),
        Arg::word("replace", "REPLACE").optional().since("3.0.0"),
        Arg::one_of(
            "authentication",
            &[
                Arg::string("auth").token("AUTH").since("4.0.7"),
                Arg::block("auth2", &[Arg::string("username"), Arg::string("password")])
                    .token("AUTH2")
                    .since("6.0.0"),
            ],
        )
        .optional(),
        Arg::key("keys").spec(1).token("KEYS").optional().multiple().since("3.0.6"),
    ],
    secrets: Some(is_secret),
    tips: &["nondeterministic_output"],
    history: &[
        ("3.0.0", "Added the `COPY` and `REPLACE` options."),
        ("3.0.6", "Added the `KEYS` option."),
        ("4.0.7", "Added the `AUTH` option."),
        ("6.0.0", "Added the `AUTH2` option."),
    ],
    note: "Other clients are served meanwhile: a key that one of them changes while it is sent \
           stays, and the reply is an error. Inside a transaction it is refused. A client that \
           leaves gives up what is not yet done. At most 64 run at once. A step takes an hour at \
           most. `AUTH` and `SELECT` have their replies before a value is sent. The option \
           `rdb-export-version` says which servers can read the values.",
    example: "> MIGRATE 127.0.0.1 6380 lake 0 1000\nNOKEY",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

/// The state of a MIGRATE that waits for the other server.
#[derive(Debug)]
pub struct Migration {
    options: Options,
    transfer: Option<Box<dyn Transfer>>,
    /// The position of the first key that has not been looked at.
    next: usize,
    /// The keys of the parcel that is underway, in its order.
    sent: Vec<SentKey>,
    /// The bytes of that parcel.
    parcel_bytes: u64,
    /// Whether any key was there.
    has_sent: bool,
    /// The first error of the other server.
    refusal: Option<Box<[u8]>>,
    failure: Option<TransferFailure>,
    /// Keys that were sent have been changed meanwhile.
    has_changed: bool,
    /// The last record of what was removed.
    lsn: Lsn,
}

/// A key that is underway.
#[derive(Debug)]
struct SentKey {
    /// Its position in the request.
    position: usize,
    /// Tells whether it changes; empty where it stays in any case.
    watches: Watches,
    expires_at: Option<UnixMs>,
}

#[derive(Debug)]
struct Options {
    copies: bool,
    replaces: bool,
    credentials: Vec<Box<[u8]>>,
    database: i64,
    timeout: Duration,
    /// Where the keys begin and end.
    first_key: usize,
    end: usize,
}

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let mut migration = match cx.session.migration.take() {
        Some(migration) => migration,
        None => Box::new(Migration::begin(cx, args)?),
    };
    if !migration.sent.is_empty() {
        let delivery = migration.transfer.as_mut().and_then(|transfer| transfer.take_delivery());
        let Some(delivery) = delivery else { return Err(wait(cx, migration)) };
        migration.settle(delivery, cx, args);
    }
    cx.lsn = cx.lsn.max(migration.lsn);
    let parcel = match migration.gather(cx, args) {
        Ok(parcel) => parcel,
        Err(unfinished) => {
            cx.session.migration = Some(migration);
            return Err(unfinished);
        }
    };
    if parcel.values.is_empty() {
        return migration.answer(reply);
    }
    migration.send(parcel, cx, args)?;
    Err(wait(cx, migration))
}

/// Has the session wait for the other server.
fn wait(cx: &mut ControlContext<'_>, migration: Box<Migration>) -> Unfinished {
    cx.session.migration = Some(migration);
    Wait::for_host(|reply| IN_TRANSACTION.write(reply)).into()
}

impl Migration {
    /// Reads the request.
    ///
    /// # Errors
    /// It is none, or cannot run here.
    fn begin(cx: &ControlContext<'_>, args: Args<'_>) -> Result<Migration, Unfinished> {
        let options = Options::parse(args)?;
        if cx.session.executing.is_some() {
            return Err(IN_TRANSACTION.into());
        }
        // While the session waits it keeps a copy of the request.
        let request_bytes = args.from(0).map(<[u8]>::len).sum::<usize>() as u64;
        drop(cx.access.keyspace().scratch(request_bytes, 0)?);
        let next = options.first_key;
        Ok(Migration {
            options,
            transfer: None,
            next,
            sent: Vec::new(),
            parcel_bytes: 0,
            has_sent: false,
            refusal: None,
            failure: None,
            has_changed: false,
            lsn: Lsn(0),
        })
    }

    /// Returns the bytes that are underway, and those of the watches.
    pub fn bytes(&self) -> u64 {
        self.parcel_bytes + self.sent.iter().map(|sent| sent.watches.bytes()).sum::<u64>()
    }

    /// Gives up what is underway: no key is removed. The caller holds no guard.
    pub fn abandon(&mut self, keyspace: &Keyspace) {
        self.transfer = None;
        self.sent.drain(..).for_each(|mut sent| keyspace.unwatch(&mut sent.watches));
    }

    /// Takes the next keys that are there into a parcel; it has none where there are no more, or
    /// where the other server takes none.
    ///
    /// # Errors
    /// There is no room for the first of them.
    fn gather(&mut self, cx: &ControlContext<'_>, args: Args<'_>) -> Result<Parcel, Unfinished> {
        let keyspace = cx.access.keyspace();
        let mut gathering = Gathering::default();
        let is_over = self.failure.is_some();
        while !is_over
            && self.next < self.options.end
            && self.sent.len() < PARCEL_KEYS_MAX
            && gathering.bytes < PARCEL_BYTES_MAX
        {
            match self.take(keyspace, &mut gathering, cx, args) {
                Ok(()) => self.next += 1,
                Err(_) if !self.sent.is_empty() => break,
                Err(unfinished) => return Err(unfinished),
            }
        }
        self.has_sent |= !self.sent.is_empty();
        self.parcel_bytes = gathering.bytes;
        let Gathering { scratch, values, .. } = gathering;
        Ok(Parcel { values, replaces: self.options.replaces, scratch })
    }

    /// Takes the next key into a parcel, where it is there.
    fn take(
        &mut self,
        keyspace: &Keyspace,
        gathering: &mut Gathering,
        cx: &ControlContext<'_>,
        args: Args<'_>,
    ) -> Result<(), Unfinished> {
        let (database, now) = (cx.session.database, cx.now);
        let key = keyspace.hasher().key(args.at(self.next));
        let mut guard = keyspace.lock(key.shard);
        let view = guard.read(database, now);
        let view = if cx.session.no_touch { view.without_touch() } else { view };
        if view.entry(&key).is_none() {
            if guard.has_met_expired() && cx.access.removes_expired() {
                guard.remove_expired(&[key], database, now);
                self.lsn = self.lsn.max(guard.finish());
            } else {
                guard.leave_expired();
            }
            return Ok(());
        }
        let object = view.inspect(&key).expect("it has an entry");
        let expires_at = object.expiry();
        gathering.add(&object, keyspace)?;
        let mut watches = Watches::default();
        if !self.options.copies {
            guard.watch(&mut watches, database, &key, now);
        }
        self.sent.push(SentKey { position: self.next, watches, expires_at });
        Ok(())
    }

    /// Hands `parcel` to the host.
    ///
    /// # Errors
    /// The host reaches no other servers, or too many at once already.
    fn send(
        &mut self,
        parcel: Parcel,
        cx: &ControlContext<'_>,
        args: Args<'_>,
    ) -> Result<(), Unfinished> {
        let transfer = match &mut self.transfer {
            Some(transfer) => transfer,
            None => {
                let target = Target {
                    host: args.at(1).into(),
                    port: args.at(2).into(),
                    credentials: std::mem::take(&mut self.options.credentials),
                    database: self.options.database,
                    timeout: self.options.timeout,
                };
                let begun = cx.host.other_servers().map_err(CommandError::from);
                let begun = begun.and_then(|it| it.begin_transfer(cx.session.id, target));
                if begun.is_err() {
                    self.abandon(cx.access.keyspace());
                }
                self.transfer.insert(begun?)
            }
        };
        transfer.send(parcel);
        Ok(())
    }

    /// Removes the keys that the other server has, and that are what they were when they were
    /// sent.
    fn settle(&mut self, delivery: Delivery, cx: &ControlContext<'_>, args: Args<'_>) {
        let Delivery { are_done, refusal, failure } = delivery;
        if are_done.len() < self.sent.len() {
            // The others have no replies, and what is left will have none.
            self.next = self.options.end;
        }
        self.failure = failure;
        self.refusal = self.refusal.take().or(refusal);
        self.parcel_bytes = 0;
        let (database, now) = (cx.session.database, cx.now);
        let (keyspace, options) = (cx.access.keyspace(), &self.options);
        let mut removed: Vec<usize> = Vec::new();
        for (index, mut sent) in self.sent.drain(..).enumerate() {
            let is_done = are_done.get(index).is_some_and(|is_done| *is_done);
            let key = keyspace.hasher().key(args.at(sent.position));
            let mut guard = keyspace.lock(key.shard);
            let is_unchanged = guard.watches_hold(&sent.watches, now);
            guard.unwatch(&mut sent.watches);
            if is_done && !options.copies {
                if is_unchanged {
                    guard.write(database, now).remove(&key);
                    removed.push(sent.position);
                } else {
                    let is_absent = guard
                        .read(database, now)
                        .inspect(&key)
                        .is_none_or(|object| object.expiry().is_some_and(|at| at <= now));
                    let has_expired = sent.expires_at.is_some_and(|at| at <= now);
                    // A request may name a key twice.
                    let is_gone = || removed.iter().any(|&position| args.at(position) == key.bytes);
                    self.has_changed |= !(is_absent && (has_expired || is_gone()));
                }
            }
            self.lsn = self.lsn.max(guard.finish());
        }
    }

    /// Replies with what became of it all.
    fn answer(&self, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
        if let Some(refusal) = &self.refusal {
            let parts: [&[u8]; 2] = [b"ERR Target instance replied with error: ", refusal];
            return Err(CommandError::text_of(&parts).into());
        }
        if let Some(failure) = self.failure {
            let text = match failure {
                TransferFailure::Connecting => "IOERR error or timeout connecting to the client",
                TransferFailure::Writing => "IOERR error or timeout writing to target instance",
                TransferFailure::Reading => "IOERR error or timeout reading to target instance",
            };
            return Err(CommandError::Fixed(text).into());
        }
        if self.has_changed {
            return Err(CHANGED.into());
        }
        match self.has_sent {
            true => reply.ok(),
            false => reply.simple("NOKEY"),
        }
        Ok(())
    }
}

impl Options {
    /// Reads what stands behind the name, in the order in which Redis does.
    fn parse(args: Args<'_>) -> Result<Options, CommandError> {
        let (mut copies, mut replaces, mut credentials) = (false, false, Vec::new());
        let (mut first_key, mut end) = (3, 4);
        let mut index = usize::from(LIST.options);
        while index < args.len() {
            let words = credential_count(args, index);
            if args.is(index, "COPY") {
                copies = true;
            } else if args.is(index, "REPLACE") {
                replaces = true;
            } else if words > 0 && index + words < args.len() {
                let given = args.from(index + 1).take(words);
                // A password without a user is that of whoever was named before.
                let user = if words == 1 && credentials.len() == 2 { 1 } else { 0 };
                credentials.truncate(user);
                credentials.extend(given.map(Box::from));
                index += words;
            } else if args.is(index, LIST.word) {
                if !args.at(3).is_empty() {
                    return Err(KEY_AND_KEYS);
                }
                (first_key, end) = (index + 1, args.len());
                break;
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        let timeout = match args.integer(5)? {
            ..=0 => TIMEOUT_MS_DEFAULT,
            timeout => timeout.min(TIMEOUT_MS_MAX),
        };
        let timeout = Duration::from_millis(timeout.unsigned_abs());
        let database = args.integer(4)?;
        Ok(Options { copies, replaces, credentials, database, timeout, first_key, end })
    }
}

/// Returns how many words the option at `index` takes to authenticate with; 0 where it is another.
fn credential_count(args: Args<'_>, index: usize) -> usize {
    let option = args.at(index);
    let passed = LIST.passed.iter().find(|(word, _)| option.eq_ignore_ascii_case(word.as_bytes()));
    passed.map_or(0, |(_, count)| *count)
}

fn is_secret(request: RequestView<'_>, index: usize) -> bool {
    let mut option = usize::from(LIST.options);
    while option < index {
        let word = request.at(option);
        if word.eq_ignore_ascii_case(LIST.word.as_bytes()) {
            return false;
        }
        let passed = LIST.passed.iter().find(|(it, _)| word.eq_ignore_ascii_case(it.as_bytes()));
        let count = passed.map_or(0, |(_, count)| *count);
        if index <= option + count {
            return true;
        }
        option += 1 + count;
    }
    false
}

/// A parcel that is being made.
#[derive(Default)]
struct Gathering {
    bytes: u64,
    /// The right to these bytes.
    scratch: Option<Scratch>,
    values: Vec<SentValue>,
}

impl Gathering {
    /// Adds `object`.
    ///
    /// # Errors
    /// There is no room; nothing has been added.
    fn add(&mut self, object: &Object<'_>, keyspace: &Keyspace) -> Result<(), Unfinished> {
        /// What a value takes beside the name of the key and the payload.
        const FRAME_BYTES_MAX: u64 = 128;
        let version = keyspace.export_version();
        let bytes_max =
            payload_bytes_max(object, version) + object.key().len() as u64 + FRAME_BYTES_MAX;
        // The right to all of it, so that many small ones are asked for as well.
        let mut scratch = keyspace.scratch(self.bytes.saturating_add(bytes_max), 0)?;
        let mut payload = Vec::new();
        rdb::encode_as(version, object.content().stored(), &mut payload);
        payload.shrink_to_fit();
        let value = SentValue { key: object.key().into(), payload, expires_at: object.expiry() };
        self.bytes += value.memory_bytes();
        self.values.push(value);
        scratch.shrink(self.bytes);
        self.scratch = Some(scratch);
        Ok(())
    }
}

/// Returns a bound of the payload of `object`, and of the copy of its value that is made for it.
fn payload_bytes_max(object: &Object<'_>, version: ExportVersion) -> u64 {
    match object.collection() {
        Some(collection) => rdb::encoded_bytes_max_as(version, Stored::Collection(collection)),
        None => {
            let copies = if object.is_adopted() { 2 } else { 1 };
            rdb::encoded_bytes_max_as(version, Stored::String(&[])) + copies * object.value_length()
        }
    }
}
