//! The history thread's side of the feed: it answers what sessions ask, one step of each at a time,
//! so that a long search holds up nobody's short one for long.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Lsn;
use command::{FeedQuestion, FeedRead, FeedStart};
use effects::{Backlog, EncodedRecord, Lost, RecordError};
use resp::Reply;
use runtime::{GROUPS_MAX, Groups, SyncPolicy};
use wal::{LogError, Storage};

use super::Asked;
use super::cursor::{Cursor, Cursors};
use super::matching::Wanted;
use crate::durability::Durability;
use crate::durability::history::{first_time, segment_starts};
use crate::server_state::ServerState;

/// How many bytes of records one question looks at before another has its turn, but for the frame
/// or the record that it is in.
const STEP_BYTES: usize = 1 << 20;
/// Behind how many bytes of records without enough changes a question is answered with those that
/// there are, so that who asks goes on from there.
const LOOK_BYTES_MAX: usize = 64 << 20;
/// The bytes of a reply behind which it ends.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// How often it is looked whether there are new records in memory, which wakes nobody.
const MEMORY_INTERVAL: Duration = Duration::from_millis(10);
/// The bytes of all answers, of those that no session has taken and those that are not finished,
/// from which on no question is gone on with but those that hold a place in the log, or one.
const ANSWERS_BYTES_MAX: usize = 64 << 20;
/// How often it is looked then whether sessions have taken theirs, which wakes nobody.
const UNTAKEN_INTERVAL: Duration = Duration::from_millis(10);
/// How many places in memory are known to be between two records.
const KNOWN_PLACES_MAX: usize = 64;

/// How many questions may hold a place in the log from one of their steps to the next: as many
/// files are open, and as many frames in memory. The others get one step, and go on once one of
/// these has ended.
pub const HOLDERS_MAX: usize = 4;

const NO_LOG: &str = "no log is kept: appendonly is no";
const NO_CHANGES: &str = "no changes are kept: appendonly is no, and effect-backlog-size is 0";

/// What the thread has to do for sessions.
pub struct Answering {
    shared: Arc<ServerState>,
    reads: VecDeque<Read>,
    cursors: Cursors,
    /// How many of the questions hold a place in the log.
    holder_count: usize,
    places: Places,
}

/// Places in memory that are known to be between two records, the one that was noted last behind
/// the others.
#[derive(Default)]
struct Places(VecDeque<u64>);

impl Places {
    fn has(&self, position: u64) -> bool {
        self.0.contains(&position)
    }

    fn note(&mut self, position: u64) {
        self.0.retain(|known| *known != position);
        self.0.push_back(position);
        if self.0.len() > KNOWN_PLACES_MAX {
            self.0.pop_front();
        }
    }
}

/// A question for changes that is being answered.
struct Read {
    asked: Asked,
    question: FeedRead,
    wanted: Wanted,
    /// What it has looked at; none before it is known where it begins.
    position: Option<u64>,
    cursor: Option<Cursor>,
    /// It has had a step since it last waited.
    has_begun: bool,
    looked_bytes: usize,
    /// The changes so far, encoded.
    told: Vec<u8>,
    told_count: usize,
}

/// How a step of a question ends.
enum Step {
    /// It is answered.
    Done,
    /// There is more to look at.
    More,
    /// What it asks for has not happened yet.
    Waits,
}

/// How much memory the answers take.
struct AnswersSize {
    /// The bytes of those that are not finished.
    told: usize,
    /// A question holds a place in the log.
    has_holder: bool,
    /// A question has had its turn though there was no room.
    has_stepped: bool,
}

impl AnswersSize {
    /// Returns whether `read` may go on, where sessions have not taken so many bytes. Those that
    /// hold a place in the log may, or else one, so that some end.
    fn have_room_for(&mut self, read: &Read, untaken: usize) -> bool {
        if untaken >= ANSWERS_BYTES_MAX {
            return false;
        }
        if untaken + self.told < ANSWERS_BYTES_MAX || read.cursor.is_some() {
            return true;
        }
        let is_only = !self.has_holder && !self.has_stepped;
        self.has_stepped |= is_only;
        is_only
    }
}

/// Where changes are read, and how far they reach.
struct Stream {
    source: Source,
    /// Up to where they can be read.
    end: u64,
    /// What the last change has come to, whether it can be read or not.
    latest: u64,
}

enum Source {
    Log(Arc<dyn Storage>),
    Memory(Arc<Backlog>),
}

impl Stream {
    /// Returns behind which place the first change comes. Lists the folder of a log.
    ///
    /// # Errors
    /// A sentence that says why nobody knows.
    fn first(&self) -> Result<u64, String> {
        match &self.source {
            Source::Log(storage) => {
                Ok(wal::first_lsn(&**storage).map_err(unreadable)?.unwrap_or(self.end))
            }
            Source::Memory(backlog) => Ok(backlog.extent().start.0),
        }
    }
}

impl Answering {
    /// Returns one that has nothing to do, for `shared`.
    pub fn new(shared: Arc<ServerState>) -> Answering {
        let (cursors, places) = (Cursors::default(), Places::default());
        Answering { shared, reads: VecDeque::new(), cursors, holder_count: 0, places }
    }

    /// Goes on with all that was asked; returns how long nothing is to be done unless the thread is
    /// woken, for ever if none.
    pub fn step(&mut self) -> Option<Duration> {
        let shared = Arc::clone(&self.shared);
        let desk = &shared.durability.history.desk;
        self.close_removed();
        self.take_questions();
        // SYNC POINT: counted before a look at how far the log is, so that the log thread, which
        // moves that on first, wakes this one. Pairs with the load in `note_progress`.
        desk.followers.store(self.reads.len(), Ordering::SeqCst);
        let stream = if self.reads.is_empty() { None } else { self.stream() };
        let mut answers = AnswersSize {
            told: self.reads.iter().map(|read| read.told.len()).sum(),
            has_holder: self.holder_count > 0,
            has_stepped: false,
        };
        let (mut is_busy, mut is_held_up, mut waits) = (false, false, 0);
        for _ in 0..self.reads.len() {
            let mut read = self.reads.pop_front().expect("as many are there");
            if read.asked.is_given_up() {
                self.holder_count -= usize::from(read.cursor.is_some());
                continue;
            }
            if !answers.have_room_for(&read, desk.untaken_bytes()) {
                is_held_up = true;
                self.reads.push_back(read);
                continue;
            }
            // Counted again where it holds its place on.
            self.holder_count -= usize::from(read.cursor.is_some());
            let told_before = read.told.len();
            let step = self.step_of(&mut read, stream.as_ref());
            answers.told += read.told.len() - told_before;
            match step {
                Ok(Step::Done) => {
                    answers.told -= read.told.len();
                    read.answer(stream.as_ref().map_or(0, |it| it.end));
                }
                Ok(Step::More) => {
                    is_busy = true;
                    self.holder_count += usize::from(read.cursor.is_some());
                    self.reads.push_back(read);
                }
                Ok(Step::Waits) => {
                    waits += 1;
                    self.reads.push_back(read);
                }
                Err(reason) => {
                    answers.told -= read.told.len();
                    read.asked.refuse(&reason);
                }
            }
        }
        if is_busy {
            return Some(Duration::ZERO);
        }
        if is_held_up {
            return Some(UNTAKEN_INTERVAL);
        }
        let is_log = shared.durability.is_on();
        (waits > 0 && !is_log).then_some(MEMORY_INTERVAL)
    }

    /// Takes what was asked, and answers all that is not asked for changes.
    fn take_questions(&mut self) {
        let mut changes = Vec::new();
        for (question, asked) in self.durability().history.desk.take() {
            match question {
                FeedQuestion::Read(read) => self.reads.push_back(Read::new(asked, read)),
                FeedQuestion::Acknowledge { .. }
                | FeedQuestion::Create { .. }
                | FeedQuestion::Drop { .. } => changes.push((question, asked)),
                FeedQuestion::Groups => self.tell_groups(&asked),
                FeedQuestion::Info => self.tell_info(&asked),
                FeedQuestion::Logs => self.tell_logs(&asked),
                FeedQuestion::Purge { name } => self.purge(&asked, &name),
            }
        }
        self.change_groups(changes);
    }

    /// Closes the files of the log that are removed.
    fn close_removed(&mut self) {
        let has_removed = self.durability().history.has_removed.swap(false, Ordering::SeqCst);
        match self.durability().storage() {
            None => self.cursors.clear(),
            Some(storage) if has_removed => match wal::first_lsn(&*storage) {
                Ok(Some(first)) => self.cursors.forget_before(first),
                // They are looked for anew.
                Ok(None) | Err(_) => self.cursors.clear(),
            },
            Some(_) => {}
        }
    }

    fn durability(&self) -> &Durability {
        &self.shared.durability
    }

    /// Returns where changes are read now, if any are kept.
    fn stream(&self) -> Option<Stream> {
        let backlog = self.shared.runtime.kept_backlog();
        let latest = backlog.map_or(0, |backlog| backlog.latest().0);
        if let Some(storage) = self.durability().storage() {
            // A change that a power cut takes back was never told, as far as the policy goes.
            let report = self.durability().report();
            let end = match self.shared.settings().persistence.sync_policy {
                SyncPolicy::Always | SyncPolicy::EverySecond => report.durable,
                SyncPolicy::Never => report.written,
            };
            return Some(Stream { source: Source::Log(storage), end, latest });
        }
        if self.shared.settings().instance.effect_backlog_bytes < effects::BACKLOG_BYTES_MIN {
            return None;
        }
        let backlog = Arc::clone(self.shared.runtime.kept_backlog()?);
        Some(Stream { source: Source::Memory(backlog), end: latest, latest })
    }

    fn step_of(&mut self, read: &mut Read, stream: Option<&Stream>) -> Result<Step, String> {
        let stream = stream.ok_or(NO_CHANGES)?;
        let position = match read.position {
            Some(position) => position,
            None => self.place_of(&read.question.from, stream)?,
        };
        read.position = Some(position);
        let may_hold = self.holder_count < HOLDERS_MAX;
        if position < stream.end {
            if read.has_begun && read.cursor.is_none() && !may_hold {
                return Ok(Step::More);
            }
            read.has_begun = true;
            match &stream.source {
                Source::Log(storage) => self.read_log(read, storage, stream)?,
                Source::Memory(backlog) => self.read_memory(read, backlog, stream)?,
            }
        }
        let is_enough = read.told_count >= read.question.count
            || read.told.len() >= REPLY_BYTES_MAX
            || read.looked_bytes >= LOOK_BYTES_MAX;
        let is_at_end = read.position.is_some_and(|position| position >= stream.end);
        let has_more = !is_enough && !is_at_end;
        if has_more && may_hold {
            return Ok(Step::More);
        }
        if let Some(cursor) = read.cursor.take() {
            self.cursors.keep(cursor);
        }
        if has_more {
            return Ok(Step::More);
        }
        match !is_enough && read.told_count == 0 && read.question.waits {
            true => {
                read.has_begun = false;
                Ok(Step::Waits)
            }
            false => Ok(Step::Done),
        }
    }

    /// Returns the position behind which `start` reads.
    fn place_of(&self, start: &FeedStart, stream: &Stream) -> Result<u64, String> {
        let position = match start {
            FeedStart::First => return stream.first(),
            FeedStart::Latest => return Ok(stream.latest),
            FeedStart::Lsn(lsn) => *lsn,
            FeedStart::Group(name) => {
                let lsn = self.durability().groups().lsns.get(name).copied();
                lsn.ok_or_else(|| no_group(name))?
            }
        };
        let first = stream.first()?;
        if position < first {
            return Err(purged(position, first));
        }
        if position > stream.latest {
            let latest = stream.latest;
            return Err(format!("LSN {position} has not happened: the last is {latest}"));
        }
        Ok(position)
    }

    /// Looks at the records of the log from the position of `read` on, for one step.
    fn read_log(
        &mut self,
        read: &mut Read,
        storage: &Arc<dyn Storage>,
        stream: &Stream,
    ) -> Result<(), String> {
        let from = read.position.expect("it is known where it begins");
        let told = |error: LogError| match error {
            // It has been removed meanwhile.
            LogError::Gap { begins, .. } => purged(from, begins),
            error => unreadable(error),
        };
        let mut cursor = match read.cursor.take() {
            Some(cursor) => cursor,
            None => match self.cursors.find(storage, from).map_err(told)? {
                Some(cursor) => cursor,
                None => return Err(purged(from, stream.first()?)),
            },
        };
        let mut step_bytes = 0;
        while step_bytes < STEP_BYTES && !read.is_full() {
            if cursor.rest().is_empty() && cursor.read_on(stream.end).map_err(told)? == 0 {
                break;
            }
            let record = effects::records(cursor.rest()).next().expect("it has bytes");
            let (bytes, lsn) = read.look_at(record)?;
            cursor.pass(bytes, lsn);
            step_bytes += bytes;
        }
        read.cursor = Some(cursor);
        Ok(())
    }

    /// Looks at the records in memory from the position of `read` on, for one step. A position that
    /// a client names may be within a record: what is not known to be between two is looked for
    /// from the start.
    fn read_memory(
        &mut self,
        read: &mut Read,
        backlog: &Arc<Backlog>,
        stream: &Stream,
    ) -> Result<(), String> {
        let from = read.position.expect("it is known where it begins");
        let begin = if self.places.has(from) { from } else { stream.first()? };
        if begin > from {
            return Err(purged(from, begin));
        }
        let lost = |Lost { oldest }| purged(from, oldest.0);
        let mut consumer = backlog.consumer_from(Lsn(begin)).map_err(lost)?;
        while !read.is_full() {
            let mut records = Vec::new();
            if consumer.read(STEP_BYTES, &mut records).map_err(lost)? == 0 {
                break;
            }
            for record in effects::records(&records) {
                if read.is_full() {
                    break;
                }
                read.look_at(record)?;
            }
            if read.position > Some(from) {
                // What was looked at is between two records.
                break;
            }
        }
        self.places.note(read.position.expect("it is known where it begins"));
        Ok(())
    }

    /// Carries out all of `changes` of groups, which are durable together, and answers.
    fn change_groups(&self, changes: Vec<(FeedQuestion, Asked)>) {
        if changes.is_empty() {
            return;
        }
        // What a new group has to read is not removed before it is known to be one.
        let _removal = self.durability().history.removal();
        let Some((storage, stream)) = self.durability().storage().zip(self.stream()) else {
            return changes.iter().for_each(|(_, asked)| asked.refuse(NO_LOG));
        };
        let before = self.durability().groups().clone();
        let mut groups = before.clone();
        let apply = |(question, asked): (FeedQuestion, Asked)| {
            let result = self.change_group(&question, &mut groups, &stream);
            (asked, result)
        };
        let results: Vec<(Asked, Result<GroupReply, String>)> =
            changes.into_iter().map(apply).collect();
        let saved = match groups == before {
            true => Ok(()),
            false => groups.save(&*storage),
        };
        if saved.is_ok() {
            *self.durability().groups() = groups;
        }
        for (asked, result) in results {
            match (result, &saved) {
                (Err(reason), _) => asked.refuse(&reason),
                (Ok(_), Err(error)) => {
                    asked.refuse(&format!("the groups cannot be written: {error}"));
                }
                (Ok(GroupReply::Ok), Ok(())) => asked.answer(|reply| reply.ok()),
                (Ok(GroupReply::Count(count)), Ok(())) => {
                    asked.answer(|reply| reply.integer(count));
                }
            }
        }
    }

    fn change_group(
        &self,
        question: &FeedQuestion,
        groups: &mut Groups,
        stream: &Stream,
    ) -> Result<GroupReply, String> {
        match question {
            FeedQuestion::Acknowledge { name, lsn } => {
                let known = groups.lsns.get_mut(name).ok_or_else(|| no_group(name))?;
                if *lsn > stream.end {
                    let end = stream.end;
                    return Err(format!("LSN {lsn} cannot have been read: the feed ends at {end}"));
                }
                *known = (*known).max(*lsn);
                Ok(GroupReply::Ok)
            }
            FeedQuestion::Create { name, from } => {
                if groups.lsns.contains_key(name) {
                    return Err("there is a group of this name".to_owned());
                }
                if groups.lsns.len() >= GROUPS_MAX {
                    return Err(format!("there are {GROUPS_MAX} groups, and no more can be"));
                }
                // Behind what is not durable yet nobody may be after a power cut.
                let lsn = self.place_of(from, stream)?.min(stream.end);
                groups.lsns.insert(name.clone(), lsn);
                Ok(GroupReply::Ok)
            }
            FeedQuestion::Drop { name } => {
                Ok(GroupReply::Count(i64::from(groups.lsns.remove(name).is_some())))
            }
            _ => unreachable!("only changes of groups are carried out here"),
        }
    }

    fn tell_groups(&self, asked: &Asked) {
        let groups = self.durability().groups().clone();
        let stream = self.stream();
        let first = match stream.as_ref().map_or(Ok(0), Stream::first) {
            Ok(first) => first,
            Err(reason) => return asked.refuse(&reason),
        };
        let latest = stream.map_or(0, |stream| stream.latest);
        let lag_max = self.shared.settings().persistence.feed_lag_max;
        asked.answer(|reply| {
            reply.array(groups.lsns.len());
            for (name, lsn) in &groups.lsns {
                reply.map(5);
                reply.bulk("name");
                reply.bulk(name);
                put_number(reply, "lsn", *lsn);
                put_number(reply, "lag", latest.saturating_sub(*lsn));
                put_number(reply, "held", u64::from(Groups::is_held(*lsn, latest, lag_max)));
                put_number(reply, "lost", u64::from(*lsn < first));
            }
        });
    }

    fn tell_info(&self, asked: &Asked) {
        let stream = self.stream();
        let source = match stream.as_ref().map(|stream| &stream.source) {
            Some(Source::Log(_)) => "log",
            Some(Source::Memory(_)) => "memory",
            None => "none",
        };
        let first = match stream.as_ref().map_or(Ok(0), Stream::first) {
            Ok(first) => first,
            Err(reason) => return asked.refuse(&reason),
        };
        let (end, latest) = stream.map_or((0, 0), |stream| (stream.end, stream.latest));
        let groups = self.durability().groups().lsns.len() as u64;
        let waiting = self.durability().history.desk.asker_count() as u64;
        asked.answer(|reply| {
            reply.map(6);
            reply.bulk("source");
            reply.bulk(source);
            put_number(reply, "first", first);
            put_number(reply, "end", end);
            put_number(reply, "latest", latest);
            put_number(reply, "groups", groups);
            put_number(reply, "waiting", waiting);
        });
    }

    fn tell_logs(&self, asked: &Asked) {
        let Some(storage) = self.durability().storage() else { return asked.refuse(NO_LOG) };
        let starts = match segment_starts(&*storage) {
            Ok(starts) => starts,
            Err(error) => return asked.refuse(&unreadable(error)),
        };
        let needs = self.durability().needs(&self.shared.settings());
        asked.answer(|reply| {
            reply.array(starts.len());
            for (index, start) in starts.iter().enumerate() {
                let end = starts.get(index + 1).map(|next| next.lsn);
                let is_behind = |lsn: u64| end.is_none_or(|end| end > lsn);
                reply.map(5);
                reply.bulk("file");
                reply.bulk(&start.name);
                put_number(reply, "lsn", start.lsn);
                put_number(reply, "bytes", start.file_bytes);
                reply.bulk("time");
                match first_time(start) {
                    Some(time) => reply.integer(time.0),
                    None => reply.null(),
                }
                reply.bulk("needed-by");
                let needed_by = if is_behind(needs.restart) {
                    Some(b"restart".as_slice())
                } else {
                    needs.readers.filter(|lsn| is_behind(*lsn)).map(|_| b"group".as_slice())
                };
                reply.bulk_or_null(needed_by);
            }
        });
    }

    /// Removes the segments before the one called `name`.
    fn purge(&self, asked: &Asked, name: &[u8]) {
        match self.durability().purge_to(name, &self.shared.settings()) {
            Ok(()) => asked.answer(|reply| reply.ok()),
            Err(reason) => asked.refuse(&reason),
        }
    }
}

enum GroupReply {
    Ok,
    Count(i64),
}

impl Read {
    fn new(asked: Asked, question: FeedRead) -> Read {
        let wanted = Wanted::of(&question);
        Read {
            asked,
            question,
            wanted,
            position: None,
            cursor: None,
            has_begun: false,
            looked_bytes: 0,
            told: Vec::new(),
            told_count: 0,
        }
    }

    /// Returns whether the reply has as much as it may.
    fn is_full(&self) -> bool {
        self.told_count >= self.question.count || self.told.len() >= REPLY_BYTES_MAX
    }

    /// Looks at `record`, and tells of it what is wanted, unless it comes before the position.
    /// Returns its length and what the stream has come to behind it.
    fn look_at(
        &mut self,
        record: Result<EncodedRecord<'_>, RecordError>,
    ) -> Result<(usize, u64), String> {
        let broken = |error| format!("the stream has a broken record: {error}");
        let record = record.map_err(broken)?;
        let (length, lsn) = (record.bytes().len(), record.header().lsn.0);
        if self.position.is_some_and(|position| lsn <= position) {
            return Ok((length, lsn));
        }
        self.looked_bytes += length;
        if self.wanted.may_accept(record.header()) {
            let record = record.read().map_err(broken)?;
            let mut reply = Reply::new(&mut self.told, self.asked.protocol);
            self.told_count += self.wanted.tell(&record, &mut reply);
        }
        self.position = Some(lsn);
        Ok((length, lsn))
    }

    /// Answers with what there is, of a stream that can be read up to `end`.
    fn answer(self, end: u64) {
        let next = self.position.unwrap_or(0);
        self.asked.answer_with(self.told, |reply| {
            reply.map(3);
            put_number(reply, "next", next);
            put_number(reply, "end", end.max(next));
            reply.bulk("changes");
            reply.array(self.told_count);
        });
    }
}

fn put_number(reply: &mut Reply<'_>, name: &str, number: u64) {
    reply.bulk(name);
    reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

fn unreadable(error: impl std::fmt::Display) -> String {
    format!("the log cannot be read: {error}")
}

fn purged(position: u64, first: u64) -> String {
    format!("LSN {position} is not in the log any more: what there is begins behind LSN {first}")
}

fn no_group(name: &[u8]) -> String {
    format!("there is no group '{}'", name.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_at_one_place_leave_the_places_of_others_known() {
        let mut places = Places::default();
        places.note(1);
        (0..2 * KNOWN_PLACES_MAX).for_each(|_| places.note(2));
        assert!(places.has(1) && places.has(2));
        (0..KNOWN_PLACES_MAX as u64).for_each(|place| places.note(10 + place));
        assert!(!places.has(1) && !places.has(2) && places.has(10));
    }
}
