//! What commands ask of the server.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Lsn;
use command::{
    ClientInfo, Clients, ConfigError, Crash, Feed, Host, InfoSections, LaneOffer, MemoryGeometry,
    MemoryRefusal, MemorySegments, OtherServers, Pause, Persistence, Process, RewriteError,
    SessionState, SharedMemory, ShutdownError, ShutdownRequest, Unavailable, UploadOffer, Wake,
};
use keyspace::SessionWakeup;

use crate::config::Allowed;
use crate::connection::CloseReason;
use crate::mailbox::Message;
use crate::server_state::ServerState;

#[deny(clippy::missing_trait_methods)]
impl Host for ServerState {
    fn database_count(&self) -> usize {
        self.keyspace().database_count()
    }

    fn requires_password(&self) -> bool {
        !self.settings().access.password.is_empty()
    }

    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        let settings = self.settings();
        let is_right = settings.access.password.is_empty()
            || is_same_secret(settings.access.password.as_bytes(), password);
        is_right && user == b"default"
    }

    fn authenticate_memcached(&self, credentials: &[u8]) -> bool {
        let Some(users) = &self.memcached_users else {
            let mut words = credentials.splitn(2, |byte| *byte == b' ');
            let (user, password) = (words.next(), words.next());
            return user.zip(password).is_some_and(|(user, it)| self.authenticate(user, it));
        };
        users.admit(credentials)
    }

    fn allows_debug(&self, session: &SessionState) -> bool {
        self.allows(self.settings().process.debug_command, session)
    }

    fn config_values(&self, wanted: &dyn Fn(&str, bool) -> bool) -> Vec<(String, String)> {
        self.config().matching(wanted)
    }

    fn config_value(&self, name: &str) -> Option<String> {
        let row = crate::config::find(name)?;
        Some(self.config().text(row).to_owned())
    }

    fn config_set(
        &self,
        session: &SessionState,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<(), ConfigError> {
        let settings = self.settings();
        self.change_config(pairs, self.allows(settings.process.protected_configs, session))
    }

    fn redis_version(&self) -> String {
        self.settings().process.compatible_version.clone()
    }

    fn reset_statistics(&self) {
        self.reset_counters();
    }

    fn info(&self, sections: &InfoSections) -> String {
        crate::info_text::text(self, sections)
    }

    fn durable_lsn(&self) -> Option<Lsn> {
        self.durability.durable_lsn()
    }

    fn notify_served(&self, served: SessionWakeup) {
        self.mailboxes[served.place].post(Message::Served(served));
    }

    fn set_active_expire(&self, is_on: bool) {
        self.switches.leaves_expired.store(!is_on, Ordering::Relaxed);
        self.service_waker.wake();
    }

    fn sleep(&self, duration: Duration) {
        self.runtime.clock().sleep(duration);
    }

    fn clients(&self) -> Result<&dyn Clients, Unavailable> {
        Ok(self)
    }

    fn other_servers(&self) -> Result<&dyn OtherServers, Unavailable> {
        Ok(self)
    }

    fn process(&self) -> Result<&dyn Process, Unavailable> {
        Ok(self)
    }

    fn persistence(&self) -> Result<&dyn Persistence, Unavailable> {
        Ok(self)
    }

    fn feed(&self) -> Result<&dyn Feed, Unavailable> {
        Ok(self)
    }

    fn shared_memory(&self) -> Result<&dyn SharedMemory, Unavailable> {
        Ok(self)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Clients for ServerState {
    fn all(&self) -> Vec<ClientInfo> {
        self.clients.all(self.runtime.clock().wall())
    }

    fn one(&self, id: u64) -> Option<ClientInfo> {
        self.clients.one(id, self.runtime.clock().wall())
    }

    fn end(&self, ids: &[u64]) -> usize {
        ServerState::end_clients(self, ids, CloseReason::Killed)
    }

    fn unblock(&self, id: u64, wake: Wake) -> bool {
        let worker = self.clients.claim(id);
        worker.inspect(|&worker| self.mailboxes[worker].post(Message::Wake(id, wake))).is_some()
    }

    fn pause(&self, pause: Pause, span: Duration) {
        self.pause.begin(pause, span, sys::clock::monotonic());
        self.service_waker.wake();
    }

    fn resume(&self) {
        if self.pause.end() {
            self.post_all(|| Message::Resume);
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Process for ServerState {
    fn config_rewrite(&self) -> Result<(), RewriteError> {
        self.rewrite_config(false)
    }

    fn config_rewrite_all(&self) -> Result<(), RewriteError> {
        self.rewrite_config(true)
    }

    fn print(&self, text: &str) {
        // What nobody takes is lost, as in Redis.
        let _ = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
    }

    fn pause_service(&self, is_paused: bool) {
        self.shutdown.hold(is_paused);
        self.switches.is_service_paused.store(is_paused, Ordering::Relaxed);
        self.service_waker.wake();
    }

    fn log(&self, text: &[u8]) {
        tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(text));
    }

    fn crash(&self, crash: Crash) -> ! {
        match crash {
            Crash::Fault => sys::crash::fault(),
            Crash::Failure => {
                let now = self.runtime.clock().wall().0 / 1000;
                let text = format!("DEBUG PANIC called at Unix time {now}");
                sys::crash::software_failed(file!(), line!(), &text)
            }
        }
    }

    fn shutdown(&self, request: ShutdownRequest) -> Result<(), ShutdownError> {
        tracing::warn!("User requested shutdown...");
        self.begin_shutdown(request)
    }

    fn abort_shutdown(&self) -> bool {
        // One that has begun closes connections at once, so that none could abort it.
        let is_aborted = self.shutdown.abort();
        if is_aborted {
            tracing::info!("Shutdown manually aborted.");
        }
        is_aborted
    }
}

#[deny(clippy::missing_trait_methods)]
impl SharedMemory for ServerState {
    fn attach_memory(&self, id: u64) -> Result<MemoryGeometry, MemoryRefusal> {
        let client = self.clients.peer(id).zip(self.clients.no_touch(id));
        let (settings, segments) = (self.settings(), &self.segments);
        self.attachments.begin(id, client, &settings, segments, &self.in_flight)
    }

    fn memory_segments(&self, id: u64, known: u64) -> Result<MemorySegments, MemoryRefusal> {
        let arena = self.keyspace().arena();
        self.attachments.seal(id, arena, &self.page_population, &self.in_flight)?;
        self.attachments.segments(id, known, arena, &self.segments, &self.in_flight)
    }

    fn open_lane(
        &self,
        id: u64,
        request_bytes: u64,
        reply_bytes: u64,
    ) -> Result<LaneOffer, MemoryRefusal> {
        self.offer_lane(id, request_bytes, reply_bytes)
    }

    fn seal_lane(&self, id: u64, lane: u64) -> Result<(), MemoryRefusal> {
        self.serve_lane(id, lane)
    }

    fn close_lane(&self, id: u64, lane: u64) -> Result<(), MemoryRefusal> {
        self.end_lane(id, lane)
    }

    fn open_upload(&self, id: u64, bytes: u64) -> Result<UploadOffer, MemoryRefusal> {
        self.offer_upload(id, bytes)
    }

    fn seal_upload(&self, id: u64, offset: u64) -> Result<bool, MemoryRefusal> {
        self.open_offered(id, offset)
    }

    fn allocate_upload(&self, id: u64, bytes: u64) -> Result<u64, MemoryRefusal> {
        // A value that was taken stays until its reader looks at it no more, and then leaves room
        // that is in the cache.
        self.keyspace().arena().reclaim_few();
        Ok(self.uploader(id).allocate(bytes)?)
    }

    fn free_upload(&self, id: u64, offset: u64) -> Result<(), MemoryRefusal> {
        Ok(self.uploader(id).give_back(offset)?)
    }
}

impl ServerState {
    /// Returns whether an option of the values `yes`, `local` and `no` lets `session` in.
    pub(crate) fn allows(&self, option: Allowed, session: &SessionState) -> bool {
        match option {
            Allowed::Nobody => false,
            Allowed::Everybody => true,
            Allowed::Local => self.clients.is_local(session.id),
        }
    }
}

/// Compares without ending at the first difference, so that the time tells nothing about where it
/// is. The length of the secret may show.
pub fn is_same_secret(secret: &[u8], given: &[u8]) -> bool {
    let differences = secret.iter().zip(given).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(differences) == 0 && secret.len() == given.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_equal_byte_for_byte() {
        assert!(is_same_secret(b"secret", b"secret"));
        for wrong in [&b"secreT"[..], b"Secret", b"secre", b"secrets", b""] {
            assert!(!is_same_secret(b"secret", wrong), "{wrong:?}");
        }
    }
}
