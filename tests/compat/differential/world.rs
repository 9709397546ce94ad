//! Both servers, and an epoch run on both.

use std::fmt;
use std::io;
use std::time::Duration;

use command::Group;
use harness::{Connection, Kind, Launch, Raw, Request, Server, poll, request, words};
use resp::Value;

use super::super::render::{quoted, render};
use super::compare::Comparison;
use super::sequence::{Epoch, Profile, SESSION_COUNT, Step, Theme, may_wait};

/// The server under test and the oracle.
#[derive(Debug)]
pub struct World {
    ours: Server,
    oracle: Server,
}

/// Where the servers differ.
#[derive(Debug)]
pub struct Failure {
    /// How many steps lie before it; all of them when the data differ in the end.
    pub steps_before: usize,
    /// A server is gone or hangs: nothing more can be learned from it.
    pub is_broken: bool,
    message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// One session on both servers.
struct Pair {
    ours: Connection,
    oracle: Connection,
    comparison: Comparison,
    /// The ids of both connections, where it may wait.
    ids: Option<[i64; 2]>,
    /// What it waits for, on both servers.
    waiting: Option<Request>,
    /// The servers have parted for a known reason: see [`is_executed_anew`].
    has_parted: bool,
}

impl World {
    /// Starts `ours` and redis-server.
    pub fn new(ours: Launch) -> World {
        // A request with something wrong with it may ask which commands were slow.
        let quiet = |launch: Launch| launch.option("slowlog-log-slower-than", "-1").start();
        World { ours: quiet(ours), oracle: quiet(Launch::new(Kind::Redis)) }
    }

    /// Runs `epoch` on empty servers, to its end or until they part for a known reason.
    ///
    /// # Errors
    /// When replies or data differ.
    pub fn run(&self, epoch: &Epoch) -> Result<(), Failure> {
        let mut pairs: Vec<Pair> = (0..SESSION_COUNT).map(|session| self.pair(session)).collect();
        let mut auditor = self.pair(0);
        let ended = run_steps(epoch, &mut pairs, &mut auditor);
        if ended.as_ref().is_err_and(|failure| !failure.is_broken) {
            for pair in &mut pairs {
                // What it finds is a consequence of what has been found: only why is looked for.
                drop(pair.end_wait(&mut auditor));
            }
        }
        if pairs.iter().any(|pair| pair.has_parted) { Ok(()) } else { ended }
    }

    fn pair(&self, session: usize) -> Pair {
        let connect = |server: &Server| match session {
            1 => server.unix(),
            _ => server.tcp(),
        };
        let (ours, oracle) = (connect(&self.ours), connect(&self.oracle));
        let comparison = Comparison::default();
        Pair { ours, oracle, comparison, ids: None, waiting: None, has_parted: false }
    }

    /// Returns the log of the server under test.
    pub fn log(&self) -> String {
        self.ours.log()
    }
}

fn run_steps(epoch: &Epoch, pairs: &mut [Pair], auditor: &mut Pair) -> Result<(), Failure> {
    // What has expired goes with the commands that meet it, at no time of a server's own.
    let mut first = vec![words("FLUSHALL"), words("DEBUG SET-ACTIVE-EXPIRE 0")];
    first.extend(epoch.settings.iter().cloned());
    auditor.same(&first).map_err(|message| failure(0, message))?;
    if epoch.theme != Theme::All {
        pairs.iter_mut().for_each(|pair| pair.ids = Some(pair.both("CLIENT ID").map(integer)));
    }
    let mut done = 0;
    for batch in epoch
        .steps
        .chunk_by(|a, b| a.session == b.session && !may_wait(&a.request) && !may_wait(&b.request))
    {
        let pair = &mut pairs[batch[0].session];
        pair.end_wait(auditor).map_err(|message| failure(done, message))?;
        match batch {
            [step] if pair.ids.is_some() && may_wait(&step.request) => {
                pair.run_waiting(auditor, epoch.profile, step)
                    .map_err(|message| failure(done, message))?;
            }
            _ => run_batch(pair, epoch.profile, batch, done)?,
        }
        done += batch.len();
    }
    for pair in pairs.iter_mut() {
        pair.end_wait(auditor).map_err(|message| failure(done, message))?;
    }
    audit(auditor, epoch).map_err(|message| failure(done, message))
}

fn run_batch(
    pair: &mut Pair,
    profile: Profile,
    batch: &[Step],
    done: usize,
) -> Result<(), Failure> {
    let requests: Vec<Request> = batch.iter().map(|step| step.request.clone()).collect();
    let broken = |error: io::Error| Failure {
        steps_before: done,
        is_broken: true,
        message: format!("{error} after\n{}", lines(batch)),
    };
    let bytes = harness::encode(&requests);
    pair.ours.send(&bytes).and_then(|()| pair.oracle.send(&bytes)).map_err(broken)?;
    for (index, step) in batch.iter().enumerate() {
        let ours = pair.ours.read().map_err(broken)?;
        let oracle = pair.oracle.read().map_err(broken)?;
        let checked = pair.comparison.check(profile, &step.request, &ours, &oracle);
        if let Err(reason) = checked {
            let message = describe(step, reason, &ours, &oracle);
            // The other replies are on their way; these connections are of no further use.
            return Err(failure(done + index, message));
        }
    }
    Ok(())
}

impl Pair {
    /// Returns what each server replies to `line`.
    fn both(&mut self, line: &str) -> [Value; 2] {
        [self.ours.call(line), self.oracle.call(line)]
    }

    /// Sends the request of `step`, which may wait, and looks that it does so on both servers or is
    /// answered alike.
    fn run_waiting(
        &mut self,
        auditor: &mut Pair,
        profile: Profile,
        step: &Step,
    ) -> Result<(), String> {
        let ids = self.ids.expect("the caller looked");
        let bytes = harness::encode(std::slice::from_ref(&step.request));
        for connection in [&mut self.ours, &mut self.oracle] {
            connection.send(&bytes).map_err(|error| error.to_string())?;
        }
        let ours = reply_or_wait(&mut self.ours, &mut auditor.ours, ids[0])?;
        let oracle = reply_or_wait(&mut self.oracle, &mut auditor.oracle, ids[1])?;
        match (ours, oracle) {
            (Some(ours), Some(oracle)) => self
                .comparison
                .check(profile, &step.request, &ours, &oracle)
                .map_err(|reason| describe(step, reason, &ours, &oracle)),
            (None, None) => {
                self.waiting = Some(step.request.clone());
                Ok(())
            }
            (ours, oracle) => {
                let line = lines(std::slice::from_ref(step));
                Err(format!(
                    "{line}: forebay {ours:?}, redis {oracle:?}; one waits (None), the other has \
                     answered"
                ))
            }
        }
    }

    /// Ends the wait of this session, if it waits, by another one: both were served, or neither.
    fn end_wait(&mut self, auditor: &mut Pair) -> Result<(), String> {
        let (Some(request), Some([ours, oracle])) = (self.waiting.take(), self.ids) else {
            return Ok(());
        };
        let ended = [
            auditor.ours.call(&format!("CLIENT UNBLOCK {ours}")),
            auditor.oracle.call(&format!("CLIENT UNBLOCK {oracle}")),
        ];
        let step = Step { session: 0, request };
        if ended[0] != ended[1] {
            let found = "CLIENT UNBLOCK found it waiting (1) on one server only";
            return Err(format!("{}: {found}: {ended:?}", lines(&[step])));
        }
        let ours = self.ours.read().map_err(|error| error.to_string())?;
        let oracle = self.oracle.read().map_err(|error| error.to_string())?;
        self.has_parted |= is_executed_anew(&ours, &oracle);
        // How a wait ends for lack of its group or its stream, 7.0 says in other words.
        if [&ours, &oracle].iter().all(|raw| matches!(raw.value, Value::Error(_)))
            && step.request[0].eq_ignore_ascii_case(b"xreadgroup")
        {
            return Ok(());
        }
        let checked = self.comparison.check(Profile::Lasting, &step.request, &ours, &oracle);
        checked.map_err(|reason| describe(&step, reason, &ours, &oracle))
    }

    /// Sends `requests` to both and demands equal replies.
    fn same(&mut self, requests: &[Request]) -> Result<(), String> {
        let (ours, oracle) = (self.ours.pipeline(requests), self.oracle.pipeline(requests));
        for (request, (ours, oracle)) in requests.iter().zip(ours.iter().zip(&oracle)) {
            let checked = self.comparison.check(Profile::Lasting, request, ours, oracle);
            let step = Step { session: 0, request: request.clone() };
            checked.map_err(|reason| describe(&step, reason, ours, oracle))?;
        }
        Ok(())
    }
}

/// Returns whether a request that waited got these replies because Redis 7.2 executes it anew, from
/// its first key on, where it may meet a value of another type that has come to be meanwhile. 7.0
/// serves it from the key at which an element has arrived.
///
/// Source: Redis 7.2, `blockingPopGenericCommand`.
fn is_executed_anew(ours: &Raw, oracle: &Raw) -> bool {
    ours.error().is_some_and(|error| error.starts_with(b"WRONGTYPE")) && oracle.error().is_none()
}

/// Returns the reply that comes to a request which was sent, or nothing once `watcher` sees that
/// the session `id` waits.
fn reply_or_wait(
    connection: &mut Connection,
    watcher: &mut Connection,
    id: i64,
) -> Result<Option<Raw>, String> {
    poll("a request to be answered or to wait", || {
        let list = watcher.call(&format!("CLIENT LIST ID {id}"));
        let line = String::from_utf8_lossy(list.as_bytes().unwrap_or_default()).into_owned();
        let mut fields = line.split(' ').filter_map(|field| field.strip_prefix("flags="));
        if fields.next().is_some_and(|flags| flags.contains('b')) {
            return Some(Ok(None));
        }
        let read = connection.read_within(SHORT_WAIT).transpose()?;
        Some(read.map(Some).map_err(|error| error.to_string()))
    })
}

/// How long a reply is waited for before a look whether the session waits.
const SHORT_WAIT: Duration = Duration::from_millis(1);

fn integer(value: Value) -> i64 {
    let Value::Integer(number) = value else { panic!("no number: {value:?}") };
    number
}

/// The databases that are compared key by key; the digest covers all.
const AUDITED: [u8; 4] = [0, 1, 2, 15];
const DATABASE_COUNT: u8 = 16;

/// Compares the data.
fn audit(pair: &mut Pair, epoch: &Epoch) -> Result<(), String> {
    let named = |name: &[&str]| -> Request {
        let name = name.iter().map(|word| word.as_bytes().to_vec());
        name.chain(epoch.keys.iter().cloned()).collect()
    };
    for database in 0..DATABASE_COUNT {
        let select = request(&["SELECT".to_owned(), database.to_string()]);
        // The look at them removes all that have expired.
        pair.same(&[select, named(&["EXISTS"]), words("DBSIZE")])?;
        if !AUDITED.contains(&database) {
            continue;
        }
        let mut requests = vec![named(&["DEBUG", "DIGEST-VALUE"]), words("KEYS *")];
        for key in &epoch.keys {
            requests.push(request(&[b"PEXPIRETIME".as_slice(), key]));
            requests.push(request(&[b"OBJECT".as_slice(), b"ENCODING", key]));
            if epoch.theme != Theme::All {
                requests.push(request(&[b"DUMP".as_slice(), key]));
            }
            if matches!(epoch.theme, Theme::Groups(groups) if groups.has(Group::Stream)) {
                requests.extend(reads_of_stream(key));
            }
        }
        pair.same(&requests)?;
        scan_agrees(pair)?;
    }
    pair.same(&[words("DEBUG DIGEST")])
}

/// Returns requests that show the stream at `key`, if it is one: its entries from both ends, and
/// what is pending.
fn reads_of_stream(key: &[u8]) -> Vec<Request> {
    const LINES: [&str; 6] = [
        "XRANGE KEY - +",
        "XREVRANGE KEY + - COUNT 30",
        "XINFO STREAM KEY",
        "XINFO GROUPS KEY",
        "XPENDING KEY g - + 100000",
        "XPENDING KEY h - + 100000 bob",
    ];
    let with_key = |line: &&str| -> Request {
        let words = line.split(' ').map(str::as_bytes);
        words.map(|word| if word == b"KEY" { key.to_vec() } else { word.to_vec() }).collect()
    };
    LINES.iter().map(with_key).collect()
}

/// A scan in small steps finds what KEYS finds.
fn scan_agrees(pair: &mut Pair) -> Result<(), String> {
    let mut found = Vec::new();
    let mut cursor = b"0".to_vec();
    loop {
        let reply = pair.ours.ask(&request(&[b"SCAN".as_slice(), &cursor, b"COUNT", b"3"]));
        let Value::Array(parts) = &reply.value else { return Err(format!("SCAN: {reply:?}")) };
        let [Value::Bulk(next), Value::Array(keys)] = parts.as_slice() else {
            return Err(format!("SCAN: {reply:?}"));
        };
        found.extend(keys.iter().filter_map(|key| key.as_bytes().map(<[u8]>::to_vec)));
        cursor.clone_from(next);
        if cursor == b"0" {
            break;
        }
    }
    found.sort();
    found.dedup();
    let Value::Array(keys) = pair.ours.call("KEYS *") else { return Err("KEYS: no array".into()) };
    let mut expected: Vec<_> =
        keys.iter().filter_map(|key| key.as_bytes().map(<[u8]>::to_vec)).collect();
    expected.sort();
    if found == expected { Ok(()) } else { Err(format!("SCAN {found:?}, KEYS {expected:?}")) }
}

fn failure(steps_before: usize, message: String) -> Failure {
    Failure { steps_before, is_broken: false, message }
}

fn describe(step: &Step, reason: &str, ours: &Raw, oracle: &Raw) -> String {
    let line = lines(std::slice::from_ref(step));
    format!("{line}\n  forebay: {}\n  redis:   {}\n  ({reason})", show(ours), show(oracle))
}

fn show(raw: &Raw) -> String {
    let mut text = render(&raw.bytes);
    let end = (0..=2000.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    text.truncate(end.unwrap_or(0));
    text
}

/// Returns `steps` as lines of a script.
pub fn lines(steps: &[Step]) -> String {
    let line = |step: &Step| {
        let words: Vec<String> = step.request.iter().map(|word| quoted(word)).collect();
        format!("{}: {}", step.session + 1, words.join(" "))
    };
    steps.iter().map(line).collect::<Vec<_>>().join("\n")
}
