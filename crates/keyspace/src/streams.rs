//! Changing streams. What a change is, its handler says: it changes the stream and names the
//! effects, each a request of a command whose row says that its requests are effects.

use std::borrow::Cow;

use arena::NeedRoom;
use base::{Key, UnixMs};
use collections::{Limits, Stream};
use effects::{Arguments, Effect, EventClass};

use crate::lists::WhenAbsent;
use crate::view::WrongType;
use crate::write::{KeyWriter, Refusal, WriteView};

/// The class of the keyspace events.
const CLASS: EventClass = EventClass::Stream;

/// The effects of one change of a stream.
pub struct StreamEffects<'e> {
    is_heard: bool,
    count: u64,
    /// Those who watch the key are told.
    touches: bool,
    /// Those who wait for the key are to look at it.
    wakes: bool,
    heard: Vec<StreamEffect<'e>>,
}

/// Effects that differ in their arguments.
struct StreamEffect<'e> {
    name: &'static str,
    event: &'static str,
    arguments: Box<dyn Iterator<Item = Vec<Cow<'e, [u8]>>> + 'e>,
}

impl<'e> StreamEffects<'e> {
    fn new(is_heard: bool) -> StreamEffects<'e> {
        StreamEffects { is_heard, count: 0, touches: false, wakes: false, heard: Vec::new() }
    }

    /// Adds the command `name`, in upper case, of a subcommand with `|` between its names, whose
    /// keyspace event is `event`, or the one that follows from the name where that is empty. Nobody
    /// asks for the `arguments` behind the key where no sink listens.
    #[inline]
    pub fn add(
        &mut self,
        (name, event): (&'static str, &'static str),
        arguments: impl FnOnce() -> Vec<Cow<'e, [u8]>>,
    ) {
        self.count += 1;
        if self.is_heard {
            let arguments = Box::new(std::iter::once(arguments()));
            self.heard.push(StreamEffect { name, event, arguments });
        }
    }

    /// As [`StreamEffects::add`], for `count` effects, each of which becomes bytes by itself, when
    /// the sink gets it.
    pub fn add_each(
        &mut self,
        (name, event): (&'static str, &'static str),
        count: u64,
        arguments: impl Iterator<Item = Vec<Cow<'e, [u8]>>> + 'e,
    ) {
        self.count += count;
        if self.is_heard {
            self.heard.push(StreamEffect { name, event, arguments: Box::new(arguments) });
        }
    }

    /// Has those who watch the key told. As in Redis, they are not told of what concerns the
    /// consumers of a group alone.
    #[inline]
    pub fn touch(&mut self) {
        self.touches = true;
    }

    /// Has those who wait for the key look at it.
    #[inline]
    pub fn wake(&mut self) {
        self.wakes = true;
    }

    /// Returns whether a sink listens.
    pub fn is_heard(&self) -> bool {
        self.is_heard
    }
}

impl WriteView<'_> {
    /// Returns the time at which what happens now is said to happen: where effects are replayed,
    /// that of their record.
    #[inline]
    pub fn stamp(&self) -> UnixMs {
        self.recorder.replayed_at.unwrap_or(self.now())
    }

    /// Refuses that collections, that at `key` among them, become as many bytes larger in all as
    /// `bound` returns, which the request does not bring: within an atomic record they pass the
    /// memory limit by no more than the record may. Without a limit nobody asks `bound`.
    ///
    /// # Errors
    /// NeedRoom of private memory.
    pub fn admit_growth(&self, key: &Key<'_>, bound: impl FnOnce() -> u64) -> Result<(), NeedRoom> {
        let shard = self.shards.as_ref().shard(key.shard);
        if !shard.account().is_limited() {
            return Ok(());
        }
        match (bound(), self.recorder.is_atomic()) {
            (0, _) => Ok(()),
            (bytes, true) => shard.admit_beyond(bytes, self.recorder.overshoot_bytes_max()),
            (bytes, false) => shard.admit(self.database(), bytes),
        }
    }

    /// Runs `change` on the stream at `key`, which becomes as much larger as `growth` says at most.
    /// Where there is none it runs on an empty one if `when_absent` says so, which is the key's
    /// value from then on if that has effects; else it does not run, and there is no result.
    ///
    /// # Errors
    /// [`Refusal`].
    #[inline]
    pub fn change_stream<'e, R>(
        &mut self,
        key: &Key<'_>,
        when_absent: WhenAbsent,
        growth: impl FnOnce() -> u64,
        change: impl FnOnce(&mut Stream, &Limits, &mut StreamEffects<'e>) -> R,
    ) -> Result<Option<R>, Refusal> {
        let mut writer = self.writer(key);
        let found = writer.find::<Stream>(key)?;
        if found.is_none() && when_absent == WhenAbsent::Skip {
            return Ok(None);
        }
        writer.admit(found, growth)?;
        let mut effects = StreamEffects::new(writer.shard.sink.is_some());
        let result = match found {
            Some(id) => {
                let changed = |stream: &mut Stream, rules: &collections::Rules| {
                    change(stream, &rules.limits, &mut effects)
                };
                let (result, _) = writer.change_collection(key, id, changed)?;
                if effects.wakes {
                    writer.appear(key);
                }
                result
            }
            None => {
                let mut stream = Stream::default();
                let limits = writer.shard.rules.limits;
                let result = change(&mut stream, &limits, &mut effects);
                if effects.count > 0 {
                    writer.insert_collection(key, stream, None)?;
                }
                result
            }
        };
        writer.tell_stream_effects(key, effects);
        Ok(Some(result))
    }

    /// As [`WriteView::change_stream`], for a change that needs no memory.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn shrink_stream<'e, R>(
        &mut self,
        key: &Key<'_>,
        change: impl FnOnce(&mut Stream, &mut StreamEffects<'e>) -> R,
    ) -> Result<Option<R>, WrongType> {
        self.change_admitted_stream(key, change)
    }

    /// As [`WriteView::change_stream`], for a change of which [`WriteView::admit_growth`] knows.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn change_admitted_stream<'e, R>(
        &mut self,
        key: &Key<'_>,
        change: impl FnOnce(&mut Stream, &mut StreamEffects<'e>) -> R,
    ) -> Result<Option<R>, WrongType> {
        let mut writer = self.writer(key);
        let Some(id) = writer.find::<Stream>(key)? else { return Ok(None) };
        let mut effects = StreamEffects::new(writer.shard.sink.is_some());
        let (result, _) = writer
            .shrink_collection(key, id, |stream: &mut Stream, _| change(stream, &mut effects));
        if effects.wakes {
            writer.appear(key);
        }
        writer.tell_stream_effects(key, effects);
        Ok(Some(result))
    }
}

impl KeyWriter<'_> {
    /// Tells the sink and the watchers of `effects` on the stream at `key`.
    #[inline]
    fn tell_stream_effects(&mut self, key: &Key<'_>, effects: StreamEffects<'_>) {
        self.shard.published.changes.add(effects.count);
        if effects.is_heard {
            self.record_stream_effects(key, effects.heard);
        }
        if effects.touches {
            self.notify_watchers(key, true);
        }
    }

    #[cold]
    fn record_stream_effects(&mut self, key: &Key<'_>, effects: Vec<StreamEffect<'_>>) {
        let before = self.event;
        for StreamEffect { name, event, arguments } in effects {
            self.event = event;
            for arguments in arguments {
                let arguments: Vec<&[u8]> = arguments.iter().map(|it| &**it).collect();
                let arguments = Arguments::Slices(&arguments);
                let command = Effect::Command { name, key: key.bytes, arguments };
                self.record(CLASS, command, |change| change);
            }
        }
        self.event = before;
    }
}
