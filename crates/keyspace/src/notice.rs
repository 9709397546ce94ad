//! Who is told of a change of a key: the sink of effects, sessions that watch the key or wait for
//! it, and an eviction policy with memory of its own. Nobody who listens costs one branch each.

use arena::{AccessMark, EntryId, ValueType};
use base::Key;
use effects::{Arguments, Cause, Change, Effect, EventClass};

use crate::eviction::policy::{KeyEvent, Told};
use crate::write::KeyWriter;

impl KeyWriter<'_> {
    /// Tells the eviction policy, where it has memory of its own, that `key` is there now.
    #[inline]
    pub(crate) fn tell_inserted(&self, key: &Key<'_>, id: EntryId) {
        if self.shard.policy.observes {
            self.tell_inserted_size(key, id);
        }
    }

    #[inline(never)]
    fn tell_inserted_size(&self, key: &Key<'_>, id: EntryId) {
        let part = self.shard.database(self.database).expect("a table with an entry exists");
        let object = part.object(id);
        let event = KeyEvent::Inserted(object.memory_bytes());
        let told = Told::of(self.database, key.hash, object.mark());
        let own = self.shard.policy.tell_here(&told, event, self.shard.account());
        if let Some(mark) = own {
            part.table.touch(id, mark);
        }
    }

    /// Tells the eviction policy, where it has memory of its own, that `key`, whose entry had
    /// `mark`, has gone with so many `bytes`.
    #[inline]
    pub(crate) fn tell_removed(&self, key: &Key<'_>, mark: AccessMark, bytes: u64, cause: Cause) {
        if self.shard.policy.observes {
            self.tell_removed_to_policy(key.hash, mark, bytes, cause);
        }
    }

    #[inline(never)]
    fn tell_removed_to_policy(&self, hash: u64, mark: AccessMark, bytes: u64, cause: Cause) {
        let event = KeyEvent::Removed(bytes, cause);
        let told = Told::of(self.database, hash, mark);
        self.shard.policy.tell_here(&told, event, self.shard.account());
    }

    /// Tells the eviction policy, where it has memory of its own, that of what `key` takes a part
    /// of `before` bytes has become one of `after`.
    #[inline]
    pub(crate) fn tell_resized(&self, key: &Key<'_>, before: u64, after: u64) {
        let event = KeyEvent::Resized(before, after);
        self.shard.tell_policy(self.database, key.hash, AccessMark::default(), event);
    }

    /// Tells the sink and the watchers that `key` has changed and exists.
    #[inline]
    pub(crate) fn changed(&mut self, key: &Key<'_>, class: EventClass, effect: Effect<'_>) {
        self.shard.published.changes.add(1);
        if self.shard.sink.is_some() {
            let change = match effect {
                // The most frequent one: its only key is this one, whose slot is known.
                Effect::Set { .. } => Change::in_slot(self.database, class, effect, Some(key.slot)),
                _ => Change::new(self.database, class, effect),
            };
            self.record_heard(change);
        }
        self.notify_watchers(key, true);
    }

    /// Tells the watchers that `key` has changed, and whether it exists. All changes of one key
    /// pass here.
    #[inline]
    pub(crate) fn notify_watchers(&mut self, key: &Key<'_>, exists: bool) {
        if !self.shard.watches.is_empty() | !self.shard.leases.is_empty() {
            self.notify_watchers_and_holder(key.bytes, exists);
        }
    }

    #[cold]
    fn notify_watchers_and_holder(&mut self, key: &[u8], exists: bool) {
        let secret = self.shard.secret_of(key);
        if !self.shard.watches.is_empty() {
            self.shard.watches.touch(self.database, secret, key, exists);
        }
        if !self.shard.leases.is_empty() {
            self.void_lease_of(key, secret);
        }
    }

    /// As [`KeyWriter::notify_watchers`], where the value has gone without anybody having said that
    /// it is no longer true: it has expired, or was evicted. A lease of the key goes on.
    #[inline]
    pub(crate) fn notify_watchers_of_loss(&mut self, key: &Key<'_>) {
        if !self.shard.watches.is_empty() {
            self.notify_watchers_of_end(key.bytes);
        }
    }

    #[cold]
    fn notify_watchers_of_end(&mut self, key: &[u8]) {
        let secret = self.shard.secret_of(key);
        self.shard.watches.touch(self.database, secret, key, false);
    }

    /// Tells those who await `key` that it is there, where it was not before, or not for all.
    #[inline]
    pub(crate) fn appear(&mut self, key: &Key<'_>) {
        if !self.shard.waits.is_empty() {
            self.notify_waiters(key.bytes);
        }
    }

    #[cold]
    fn notify_waiters(&mut self, key: &[u8]) {
        self.notify_waiters_of(key, self.shard.secret_of(key));
    }

    /// As [`KeyWriter::appear`], of the key `name` with the secret hash `secret`.
    pub(crate) fn notify_waiters_of(&mut self, name: &[u8], secret: u64) {
        let shard = self.shard.index();
        if let Some(ready) = self.shard.waits.ready(self.database, shard, secret, name) {
            self.recorder.note_ready(ready);
        }
    }

    /// Tells those who await `key`, whose value was replaced, unless it was a string that does not
    /// expire and is one: `is_other` says that it was a collection, or began or ceased to expire.
    /// What may have expired was absent for those whose time is another.
    #[cold]
    pub(crate) fn reappear(&mut self, key: &Key<'_>, is_other: bool) {
        let table = &self.part().table;
        let id = table.find(key.hash, key.bytes).expect("its value was replaced just now");
        let entry = table.entry(id);
        if is_other || entry.value_type() != ValueType::String || entry.expiry().is_some() {
            self.appear(key);
        }
    }

    /// As [`KeyWriter::changed_by`], for a command that has changed how `key` is stored and nothing
    /// else.
    #[cold]
    pub fn reencoded_by<'e>(
        &mut self,
        key: &Key<'_>,
        (class, name): (EventClass, &str),
        arguments: impl Iterator<Item = &'e [u8]>,
    ) {
        let arguments: Vec<&[u8]> = arguments.collect();
        let arguments = Arguments::Slices(&arguments);
        self.record_encoding(class, Effect::Command { name, key: key.bytes, arguments });
    }

    /// Counts a change, and hands it to the sink where one listens.
    #[inline]
    pub fn emit(&mut self, class: EventClass, effect: Effect<'_>) {
        self.shard.published.changes.add(1);
        self.record(class, effect, |change| change);
    }

    /// Hands to the sink, where one listens, what changes how a value is stored; the dataset is as
    /// it was, so that it is not counted.
    pub(crate) fn record_encoding(&mut self, class: EventClass, effect: Effect<'_>) {
        self.record(class, effect, |change| Change { changes_encoding_only: true, ..change });
    }

    /// Hands `effect` to the sink, where one listens, with what `complete` says of it.
    #[inline]
    pub(crate) fn record<'e>(
        &mut self,
        class: EventClass,
        effect: Effect<'e>,
        complete: impl FnOnce(Change<'e>) -> Change<'e>,
    ) {
        if self.shard.sink.is_some() {
            let change = complete(Change::new(self.database, class, effect));
            self.record_heard(change);
        }
    }

    /// Hands `change` to the sink.
    #[inline(never)]
    fn record_heard(&mut self, mut change: Change<'_>) {
        let sink = self.shard.sink.as_deref().expect("the caller has looked");
        change.creates = std::mem::take(&mut self.recorder.has_added);
        // A key that goes because of what a command stores has no event but its own.
        let is_plain =
            matches!(change.effect, Effect::Delete { .. }) && change.class == EventClass::Generic;
        if change.cause == Cause::Command && !is_plain {
            change.event = self.event;
        }
        if let Some(lsn) = self.recorder.record(sink, self.now, &change) {
            self.shard.last_write_lsn = lsn;
        }
    }
}
