//! Values written in place: the calls under `put` and `create`.
//!
//! A session's upload memory is made over its connection, and used over that or over any of its
//! lanes: the function that sends requests and returns as many replies is a parameter, such as
//! [`crate::Lane::pipeline`]. docs/internals/shm-uploads.md describes the protocol.

use std::iter;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use resp::Value as Reply;
use ring::{UploadBuffer, UploadMemory};

use crate::control_connection::{SharedControl, field};
use crate::error::{AttachError, accepted, unexpected};

/// How often the client asks whether its memory is sealed, and how long it waits between.
const OPEN_ATTEMPTS_MAX: u32 = 10_000;
const OPEN_INTERVAL: Duration = Duration::from_millis(1);

/// What becomes of the bytes of an upload that is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The server copies them, and the buffer is free at once.
    Copy,
    /// As with [`Mode::Copy`], but for what was copied ahead: [`crate::Lane::fill`].
    Copied,
    /// They stay where they are: nothing is copied. Only for processes of the server's own user,
    /// and readers trust this process not to change them any more.
    Adopt,
}

/// The upload memory of one session. All that a session has is one memory, whoever had it made.
pub struct Uploads {
    control: Arc<SharedControl>,
}

/// What a session keeps of its upload memory.
#[derive(Default)]
pub struct Runs {
    mapped: Vec<Arc<UploadMemory>>,
    may_adopt: bool,
}

/// A buffer that becomes a value: what is asked of the server, and what its replies mean.
pub struct Commit {
    offset: u64,
    buffer_bytes: usize,
    mode: Mode,
    /// Offset and length, as words.
    words: [String; 2],
    along: BufferRequests,
}

/// What is asked of a session's upload memory along with other requests: buffers are given back,
/// and others asked for.
pub struct BufferRequests {
    /// Where those begin that are given back, as words.
    freed: Vec<String>,
    bytes: usize,
    count: usize,
    /// The bytes of each that is asked for, as a word.
    size: String,
}

/// What a commit came to.
pub struct Committed {
    /// What SET would reply, or the refusal: the buffer is open then, as it was.
    pub stored: Result<Reply, AttachError>,
    /// The buffers that were asked for along with it.
    pub next: Vec<UploadBuffer>,
}

impl Uploads {
    /// Returns the memory of the session of `control`.
    pub(crate) fn of(control: &Arc<SharedControl>) -> Uploads {
        Uploads { control: Arc::clone(control) }
    }

    /// Returns the memory of the session of `control`, at least `bytes` more than it had.
    pub(crate) fn open(control: &Arc<SharedControl>, bytes: u64) -> Result<Uploads, AttachError> {
        let uploads = Uploads::of(control);
        uploads.extend(bytes)?;
        Ok(uploads)
    }

    /// Makes more of it, at least `bytes`. It lasts as long as the session.
    ///
    /// # Errors
    /// When the server does not answer, or the session may have no more.
    pub fn extend(&self, bytes: u64) -> Result<(), AttachError> {
        let (run, may_adopt) = map_run(&self.control, bytes)?;
        let run = Arc::new(run);
        run.touch();
        // Before it is open: from then on the server gives any thread a buffer in it.
        let mut runs = self.control.runs();
        runs.may_adopt = may_adopt;
        runs.mapped.push(Arc::clone(&run));
        drop(runs);
        open_run(&self.control, run.offset()).inspect_err(|_| {
            self.control.runs().mapped.retain(|other| !Arc::ptr_eq(other, &run));
        })
    }

    /// Returns whether values may be committed by [`Mode::Adopt`].
    pub fn may_adopt(&self) -> bool {
        self.control.runs().may_adopt
    }

    /// Returns the size of all of it in bytes.
    pub fn bytes(&self) -> u64 {
        self.control.runs().mapped.iter().map(|run| run.bytes()).sum()
    }

    /// Returns a buffer of `bytes`, asked for by `send`; one round trip.
    ///
    /// # Errors
    /// When the server refuses, as where no buffer of that size is free, or `send` fails.
    pub fn allocate(
        &self,
        bytes: u64,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<UploadBuffer, AttachError> {
        let offset = self.allocate_range(bytes, &mut send)?;
        match self.buffer_at(offset, bytes) {
            Some(buffer) => Ok(buffer),
            None => {
                // The server would have it taken until the session ends.
                self.give_back(offset, send)?;
                Err(AttachError::Unexpected(format!("buffer at {offset}, which is not mapped")))
            }
        }
    }

    /// As [`Uploads::allocate`]; returns where the buffer begins.
    ///
    /// # Errors
    /// When the server refuses, or `send` fails.
    pub(crate) fn allocate_range(
        &self,
        bytes: u64,
        send: impl FnOnce(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<u64, AttachError> {
        let text = bytes.to_string();
        let mut replies = send(&[&[b"SHM", b"ALLOC", text.as_bytes()]])?.into_iter();
        offset(replies.next())
    }

    /// Makes `key` hold the first `length` bytes of `buffer`, with `options` of SET, and asks for
    /// a buffer of `next` bytes where that is more than 0; one round trip. Returns what SET would
    /// reply, and the new buffer, if there is one. After an error the buffer is as it was in the
    /// server, and can be given back by [`Uploads::give_back`] with its offset.
    ///
    /// # Errors
    /// When the server refuses the value, or `send` fails.
    pub fn commit(
        &self,
        (buffer, length): (UploadBuffer, u64),
        mode: Mode,
        (key, options): (&[u8], &[&[u8]]),
        next: u64,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<(Reply, Option<UploadBuffer>), AttachError> {
        let along = BufferRequests::new(Vec::new(), next as usize, usize::from(next > 0));
        let commit = Commit::new((&buffer, length), mode, along);
        // From here on the bytes are the server's.
        drop(buffer);
        let requests = commit.requests(key, options);
        let requests: Vec<&[&[u8]]> = requests.iter().map(Vec::as_slice).collect();
        let Committed { stored, mut next } = self.committed(&commit, send(&requests)?)?;
        let next = next.pop();
        match (stored, next) {
            (Ok(stored), next) => Ok((stored, next)),
            (Err(error), Some(next)) => {
                // It was given all the same, and the caller does not see it.
                let offset = next.offset();
                drop(next);
                self.give_back(offset, send)?;
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Returns what `replies` to the requests of `commit` say.
    ///
    /// # Errors
    /// When there are too few.
    pub(crate) fn committed(
        &self,
        commit: &Commit,
        replies: Vec<Reply>,
    ) -> Result<Committed, AttachError> {
        let mut replies = replies.into_iter();
        let stored = accepted(replies.next().ok_or_else(none)?);
        Ok(Committed { stored, next: self.given(&commit.along, replies) })
    }

    /// Returns the buffers that `replies` to `requests` give: none for those that were refused.
    pub(crate) fn given(
        &self,
        requests: &BufferRequests,
        replies: impl Iterator<Item = Reply>,
    ) -> Vec<UploadBuffer> {
        let offsets = replies.skip(requests.freed.len()).filter_map(|it| offset(Some(it)).ok());
        offsets.filter_map(|offset| self.buffer_at(offset, requests.bytes as u64)).collect()
    }

    /// Gives back the buffer at `offset` that was not committed.
    ///
    /// # Errors
    /// When there is none, or `send` fails.
    pub fn give_back(
        &self,
        offset: u64,
        send: impl FnOnce(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<(), AttachError> {
        let text = offset.to_string();
        let mut replies = send(&[&[b"SHM", b"FREE", text.as_bytes()]])?.into_iter();
        accepted(replies.next().ok_or_else(none)?).map(drop)
    }

    /// Returns the `bytes` at `offset`, which the server has given to this session; `None` while
    /// somebody in this process has some of them.
    pub(crate) fn buffer_at(&self, offset: u64, bytes: u64) -> Option<UploadBuffer> {
        self.control.runs().mapped.iter().find_map(|run| run.buffer(offset, bytes))
    }
}

impl Commit {
    /// Returns what makes a value of the first `length` bytes of `buffer`, which nobody changes
    /// from here on, and asks for what goes `along`.
    pub(crate) fn new(
        (buffer, length): (&UploadBuffer, u64),
        mode: Mode,
        along: BufferRequests,
    ) -> Commit {
        let (offset, buffer_bytes) = (buffer.offset(), buffer.len());
        let words = [offset, length].map(|number| number.to_string());
        Commit { offset, buffer_bytes, mode, words, along }
    }

    /// Returns where the buffer is and how large.
    pub(crate) fn place(&self) -> (u64, usize) {
        (self.offset, self.buffer_bytes)
    }

    /// Returns what is asked along with it.
    pub(crate) fn along(&self) -> &BufferRequests {
        &self.along
    }

    /// Returns the requests, to be sent together, that make it the value of `key` with `options`
    /// of SET.
    pub(crate) fn requests<'a>(
        &'a self,
        key: &'a [u8],
        options: &[&'a [u8]],
    ) -> Vec<Vec<&'a [u8]>> {
        let [offset, length] = self.words.each_ref().map(|word| word.as_bytes());
        let mode: &[u8] = match self.mode {
            Mode::Copy => b"COPY",
            Mode::Copied => b"COPIED",
            Mode::Adopt => b"ADOPT",
        };
        let mut commit: Vec<&[u8]> = vec![b"SHM", b"COMMIT", offset, length, mode, key];
        commit.extend_from_slice(options);
        iter::once(commit).chain(self.along.requests().map(Vec::from)).collect()
    }
}

impl BufferRequests {
    /// Returns what gives back the buffers that begin at `freed`, which nobody has any more, and
    /// asks for `count` of `bytes`.
    pub(crate) fn new(freed: Vec<u64>, bytes: usize, count: usize) -> BufferRequests {
        let freed = freed.iter().map(u64::to_string).collect();
        BufferRequests { freed, bytes, count, size: bytes.to_string() }
    }

    /// Returns the size of the buffers that are asked for, and how many those are.
    pub(crate) fn asked(&self) -> (usize, usize) {
        (self.bytes, self.count)
    }

    /// Returns the requests, in the order of their replies.
    pub(crate) fn requests(&self) -> impl Iterator<Item = [&[u8]; 3]> {
        let freed = self.freed.iter().map(|offset| [&b"SHM"[..], b"FREE", offset.as_bytes()]);
        freed.chain(iter::repeat_n([&b"SHM"[..], b"ALLOC", self.size.as_bytes()], self.count))
    }

    /// Sends the requests by `send`; returns the replies.
    pub(crate) fn send(
        &self,
        send: impl FnOnce(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Vec<Reply>, AttachError> {
        let words: Vec<_> = self.requests().collect();
        let requests: Vec<&[&[u8]]> = words.iter().map(|words| &words[..]).collect();
        send(&requests)
    }
}

fn none() -> AttachError {
    AttachError::Unexpected("fewer replies than requests".to_owned())
}

/// Returns the offset that `reply` to ALLOC names.
fn offset(reply: Option<Reply>) -> Result<u64, AttachError> {
    let reply = accepted(reply.ok_or_else(none)?)?;
    let Reply::Integer(offset) = reply else { return Err(unexpected(&reply)) };
    u64::try_from(offset).map_err(|_| unexpected(&reply))
}

/// Makes a run and maps it; returns it, and whether values may stay in it.
fn map_run(control: &SharedControl, bytes: u64) -> Result<(UploadMemory, bool), AttachError> {
    let mut control = control.lock();
    let reply = control.ask(&[b"SHM", b"UPLOAD", bytes.to_string().as_bytes()])?;
    let descriptors: Vec<OwnedFd> = std::mem::take(&mut control.descriptors);
    drop(control);
    let number = |name: &str| match field(&reply, name) {
        Some(Reply::Integer(number)) => u64::try_from(*number).map_err(|_| unexpected(&reply)),
        _ => Err(unexpected(&reply)),
    };
    let (offset, segment_bytes) = (number("offset")?, number("segment-bytes")?);
    let may_adopt = number("adopt")? == 1;
    if number("descriptors")? != descriptors.len() as u64 {
        return Err(unexpected(&reply));
    }
    Ok((UploadMemory::map(offset, segment_bytes, &descriptors)?, may_adopt))
}

/// Waits until the run at `offset` can be used. Others may use the connection between.
fn open_run(control: &SharedControl, offset: u64) -> Result<(), AttachError> {
    let text = offset.to_string();
    for _ in 0..OPEN_ATTEMPTS_MAX {
        let reply = control.lock().ask(&[b"SHM", b"OPEN", text.as_bytes()])?;
        match reply {
            Reply::Integer(0) => std::thread::sleep(OPEN_INTERVAL),
            Reply::Integer(1) => return Ok(()),
            other => return Err(unexpected(&other)),
        }
    }
    Err(AttachError::Unexpected("upload memory that is never sealed".to_owned()))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{IoSlice, Read, Write};
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use sys::descriptors::SharedDescriptor;
    use sys::memfd_segments::{Backing, OwnedSegments};
    use sys::socket::Stream;

    use super::*;
    use crate::control_connection::ControlConnection;

    const SEGMENT_BYTES: u64 = 64 * 1024;
    /// Where the run of these tests starts.
    pub(crate) const BASE: u64 = 4 * SEGMENT_BYTES;

    /// Returns a segment as the server offers it.
    fn segment() -> (OwnedSegments, SharedDescriptor) {
        let owner = OwnedSegments::reserve(SEGMENT_BYTES, 1, Backing::OnTouch).unwrap();
        owner.offer(0).unwrap();
        let descriptor = owner.descriptor(0).unwrap();
        (owner, descriptor)
    }

    /// Returns the memory of the session over `stream`.
    fn uploads_over(stream: UnixStream) -> Uploads {
        Uploads::of(&SharedControl::new(ControlConnection::over(stream, None).unwrap()))
    }

    /// Returns memory of one run, or of none, that nobody is asked for.
    pub(crate) fn uploads(is_mapped: bool) -> Uploads {
        let uploads = uploads_over(UnixStream::pair().unwrap().0);
        if is_mapped {
            let (_owner, descriptor) = segment();
            let run = UploadMemory::map(BASE, SEGMENT_BYTES, &[descriptor]).unwrap();
            uploads.control.runs().mapped.push(Arc::new(run));
        }
        uploads
    }

    /// A server that answers with what it is given, and notes what it is asked.
    struct Answers {
        replies: Vec<Vec<Reply>>,
        asked: Vec<String>,
    }

    impl Answers {
        fn send(&mut self, requests: &[&[&[u8]]]) -> Result<Vec<Reply>, AttachError> {
            let text = |request: &&[&[u8]]| String::from_utf8(request.join(&b' ')).unwrap();
            self.asked.extend(requests.iter().map(text));
            Ok(self.replies.remove(0))
        }
    }

    fn ok() -> Vec<Reply> {
        vec![Reply::Simple(b"OK".to_vec())]
    }

    #[test]
    fn buffer_that_is_in_no_known_run_is_given_back() {
        let replies = vec![vec![Reply::Integer(4096)], ok()];
        let mut server = Answers { replies, asked: Vec::new() };
        let found = uploads(false).allocate(100, |requests| server.send(requests));
        assert!(matches!(found, Err(AttachError::Unexpected(_))), "{found:?}");
        assert_eq!(server.asked, ["SHM ALLOC 100", "SHM FREE 4096"]);
    }

    #[test]
    fn buffer_that_was_asked_for_along_with_a_refused_value_is_given_back() {
        let uploads = uploads(true);
        let buffer = uploads.buffer_at(BASE, 100).unwrap();
        let next = BASE + 4096;
        let refused = Reply::Error(b"ERR syntax error".to_vec());
        let replies = vec![vec![refused, Reply::Integer(next as i64)], ok()];
        let mut server = Answers { replies, asked: Vec::new() };
        let target: (&[u8], &[&[u8]]) = (b"key", &[b"NONE"]);
        let send = |requests: &[&[&[u8]]]| server.send(requests);
        let found = uploads.commit((buffer, 7), Mode::Copy, target, 100, send);
        assert!(matches!(found, Err(AttachError::Refused(_))), "{found:?}");
        let asked = [
            format!("SHM COMMIT {BASE} 7 COPY key NONE"),
            "SHM ALLOC 100".to_owned(),
            format!("SHM FREE {next}"),
        ];
        assert_eq!(server.asked, asked);
        assert!(uploads.buffer_at(next, 100).is_some(), "nobody has it here");
    }

    /// Reads one request.
    fn request(server: &mut UnixStream) -> String {
        let mut bytes = [0; 128];
        let count = server.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    #[test]
    fn run_is_known_before_it_is_open_and_not_after_a_refusal() {
        for (answer, is_kept) in [(":1\r\n", true), ("-ERR no\r\n", false)] {
            // Another each time: whoever has mapped one seals it against the next.
            let (_owner, descriptor) = segment();
            let (ours, server) = UnixStream::pair().unwrap();
            let uploads = uploads_over(ours);
            thread::scope(|scope| {
                // Dropped where this fails, so that the thread ends.
                let mut server = server;
                let extended = scope.spawn(|| uploads.extend(1));
                assert!(request(&mut server).contains("UPLOAD"));
                let mut reply = b"*8\r\n".to_vec();
                let (offset, bytes) = (BASE as i64, SEGMENT_BYTES as i64);
                let fields = ["offset", "segment-bytes", "adopt", "descriptors"];
                for (name, number) in fields.iter().zip([offset, bytes, 1, 1]) {
                    let pair = format!("${}\r\n{name}\r\n:{number}\r\n", name.len());
                    reply.extend_from_slice(pair.as_bytes());
                }
                let stream = Stream::from(OwnedFd::from(server.try_clone().unwrap()));
                stream.send_pieces(&[IoSlice::new(&reply)], &[descriptor.as_fd()]).unwrap();
                assert!(request(&mut server).contains("OPEN"));
                assert_eq!(uploads.bytes(), SEGMENT_BYTES, "before the answer");
                server.write_all(answer.as_bytes()).unwrap();
                assert_eq!(extended.join().expect("it ends").is_ok(), is_kept);
            });
            assert_eq!(uploads.bytes() > 0, is_kept);
        }
    }
}
