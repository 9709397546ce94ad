//! The line of CLIENT INFO and CLIENT LIST.

use std::fmt;

use base::DatabaseIndex;
use resp::Protocol;

/// What CLIENT LIST tells of one session, in the order of the line.
#[derive(Clone, Debug, Default)]
pub struct ClientInfo {
    /// The session's number.
    pub id: u64,
    /// The session that this one lives with, where its connection is a lane.
    pub parent: Option<u64>,
    /// The peer: `ip:port`, or `path:0` for a unix socket.
    pub address: String,
    /// The server's end, in the same form.
    pub local_address: String,
    /// The socket's file descriptor.
    pub descriptor: i32,
    /// The name; empty is none.
    pub name: Box<[u8]>,
    /// Seconds since the session began.
    pub age_s: i64,
    /// Seconds since its last request.
    pub idle_s: i64,
    /// Whether it came through a unix socket.
    pub is_unix: bool,
    /// Whether it is to be closed once its replies are sent.
    pub is_closing: bool,
    /// Whether it is shown each command that runs.
    pub is_monitor: bool,
    /// Whether it waits: for what a blocking command asks, or for the end of a pause.
    pub is_blocked: bool,
    /// Whether it is kept when clients take too much memory.
    pub no_evict: bool,
    /// Whether what it reads does not count as used.
    pub no_touch: bool,
    /// The database.
    pub database: DatabaseIndex,
    /// Whether a key that it watches is known to have changed.
    pub has_changed_watch: bool,
    /// The requests queued since MULTI; inside EXEC those that it runs.
    pub queued: Option<usize>,
    /// Bytes in the query buffer.
    pub query_bytes: usize,
    /// Free bytes of the query buffer.
    pub query_bytes_free: usize,
    /// Bytes of the request that asks, or what an unfinished one takes beside the query buffer.
    pub argument_bytes: usize,
    /// Bytes of the requests queued since MULTI.
    pub queued_bytes: usize,
    /// Size of the output buffer, 0 while there is none.
    pub reply_buffer_bytes: usize,
    /// The most bytes that were to be sent at once since the session began.
    pub reply_buffer_bytes_max: usize,
    /// Bytes of the replies that wait until the server can write to the socket, as far as a reply
    /// buffer of Redis holds them.
    pub output_buffer_bytes: usize,
    /// The pieces of those beyond it.
    pub output_list_len: usize,
    /// The bytes of these.
    pub output_list_bytes: usize,
    /// All memory of the session.
    pub total_bytes: usize,
    /// The last command, `NULL` before the first.
    pub last_command: &'static str,
    /// The protocol.
    pub protocol: Protocol,
    /// The client library; empty is none.
    pub library_name: Box<[u8]>,
    /// Its version; empty is none.
    pub library_version: Box<[u8]>,
}

impl ClientInfo {
    fn write_flags(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [
            (self.is_monitor, "O"),
            (self.queued.is_some(), "x"),
            (self.is_blocked, "b"),
            (self.has_changed_watch, "d"),
            (self.is_closing, "c"),
            (self.is_unix, "U"),
            (self.no_evict, "e"),
            (self.no_touch, "T"),
        ];
        if flags.iter().all(|(on, _)| !on) {
            return formatter.write_str("N");
        }
        flags.iter().filter(|(on, _)| *on).try_for_each(|(_, letter)| formatter.write_str(letter))
    }
}

/// Writes the line without its line end. Names hold printable ASCII only, see CLIENT SETNAME.
impl fmt::Display for ClientInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        write!(
            formatter,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags=",
            self.id,
            self.address,
            self.local_address,
            self.descriptor,
            text(&self.name),
            self.age_s,
            self.idle_s,
        )?;
        self.write_flags(formatter)?;
        write!(
            formatter,
            " db={} sub=0 psub=0 ssub=0 multi={} qbuf={} qbuf-free={} argv-mem={} multi-mem={} \
             rbs={} rbp={} obl={} oll={} omem={} tot-mem={} events={} cmd={} user=default redir=-1 \
             resp={} lib-name={} lib-ver={}",
            self.database.0,
            self.queued.map_or(-1, |count| count as i64),
            self.query_bytes,
            self.query_bytes_free,
            self.argument_bytes,
            self.queued_bytes,
            self.reply_buffer_bytes,
            self.reply_buffer_bytes_max,
            self.output_buffer_bytes,
            self.output_list_len,
            self.output_list_bytes,
            self.total_bytes,
            if self.output_buffer_bytes + self.output_list_bytes > 0 { "rw" } else { "r" },
            self.last_command,
            self.protocol.version(),
            text(&self.library_name),
            text(&self.library_version),
        )
    }
}
