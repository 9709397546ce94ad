//! Leases: of all clients that miss a key, one loads its value.

use std::fmt;
use std::mem;
use std::time::Duration;

use resp::Value as Reply;

use crate::answers::{TimeToLive, accepted, integer, unexpected};
use crate::client::Client;
use crate::error::ClientError;
use crate::value_view::View;

/// How long [`Client::get_or_load`] waits for another client's value before it loads one itself.
const WAIT_DEFAULT: Duration = Duration::from_secs(3);
/// The longest lease, wait and refresh time that a server takes.
const LEASE_MAX: Duration = Duration::from_secs(3_600);
/// The longest time for which a server keeps a stale value.
const STALE_MAX: Duration = Duration::from_secs(365 * 86_400);
/// Half of the milliseconds of an expiry, the other half of which is more than it will ever be.
const LIFETIME_MAX: Duration = Duration::from_millis(i64::MAX as u64 / 2);

/// What is wanted of a value that may not be there, and what becomes of one that is loaded.
///
/// ```
/// use std::time::Duration;
/// use client::LoadOptions;
///
/// let minute = LoadOptions::new().expires_in(Duration::from_secs(60));
/// let forgiving = minute.clone().stale_for(Duration::from_secs(600));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    lifetime: Option<Duration>,
    stale: Option<Duration>,
    refresh: Option<Duration>,
    lease: Option<Duration>,
    wait: Duration,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions { lifetime: None, stale: None, refresh: None, lease: None, wait: WAIT_DEFAULT }
    }
}

impl LoadOptions {
    /// Returns options by which values live for ever, and another client's is waited for up to
    /// three seconds.
    pub fn new() -> LoadOptions {
        LoadOptions::default()
    }

    /// A value that is stored lives for `duration`, in whole milliseconds, rounded up.
    pub fn expires_in(self, duration: Duration) -> LoadOptions {
        LoadOptions { lifetime: Some(duration), ..self }
    }

    /// A value that has expired is returned for `duration` more while one client loads it anew; it
    /// needs [`LoadOptions::expires_in`].
    pub fn stale_for(self, duration: Duration) -> LoadOptions {
        LoadOptions { stale: Some(duration), ..self }
    }

    /// A value that expires within `duration` is loaded anew by one client; others get it
    /// meanwhile.
    pub fn refresh_within(self, duration: Duration) -> LoadOptions {
        LoadOptions { refresh: Some(duration), ..self }
    }

    /// Who loads has `duration` for it, and three seconds without this; then another one does.
    pub fn lease_for(self, duration: Duration) -> LoadOptions {
        LoadOptions { lease: Some(duration), ..self }
    }

    /// What another client loads is waited for so long, and not at all where this is zero.
    pub fn waits_for(self, duration: Duration) -> LoadOptions {
        LoadOptions { wait: duration, ..self }
    }

    fn request(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let mut words = vec![b"LGET".to_vec(), key.to_vec()];
        let options = [
            ("TTL", self.lease),
            ("WAIT", Some(self.wait).filter(|wait| !wait.is_zero())),
            ("REFRESH", self.refresh),
        ];
        for (name, duration) in options {
            if let Some(duration) = duration {
                words.extend([name.into(), milliseconds(duration).into_bytes()]);
            }
        }
        if self.stale.is_some() {
            words.push(b"STALE".to_vec());
        }
        words
    }

    /// Refuses what no server would give a lease or store a value by.
    fn check(&self) -> Result<(), ClientError> {
        let unsupported = |text: &str| Err(ClientError::Unsupported(text.to_owned()));
        if self.stale.is_some() && self.lifetime.is_none() {
            return unsupported("stale values without a time to live (LoadOptions::expires_in)");
        }
        let zero = Duration::ZERO;
        for (duration, may_be_zero, most, text) in [
            (self.lifetime, false, LIFETIME_MAX, "a time to live that is zero or too long"),
            (self.stale, true, STALE_MAX, "stale values that are kept for more than a year"),
            (self.refresh, true, LEASE_MAX, "a refresh more than an hour before the expiry"),
            (self.lease, false, LEASE_MAX, "a lease of no time or of more than an hour"),
            (Some(self.wait), true, LEASE_MAX, "a wait of more than an hour"),
        ] {
            if duration.is_some_and(|it| it > most || it == zero && !may_be_zero) {
                return unsupported(text);
            }
        }
        Ok(())
    }

    /// Returns the words behind the value that say for how long it is kept.
    fn lifetime_words(&self) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        for (name, duration) in [("PX", self.lifetime), ("STALE", self.stale)] {
            if let Some(duration) = duration {
                words.extend([name.into(), milliseconds(duration).into_bytes()]);
            }
        }
        words
    }
}

fn milliseconds(duration: Duration) -> String {
    duration.as_nanos().div_ceil(1_000_000).to_string()
}

/// What there is of a key.
#[derive(Debug)]
pub enum Leased {
    /// Its value.
    Hit(View),
    /// Nothing, and the caller is to load it.
    Win(Lease),
    /// A value that has expired, or is about to, and the caller is to load it anew.
    StaleWin(View, Lease),
    /// A value that has expired, and another client loads it anew.
    Stale(View),
    /// Nothing, and another client loads it: for so long more it has the right to.
    Busy(Duration),
}

/// The right to fill a key. It belongs to the thread's connection, and ends with it; dropped, it is
/// given up.
pub struct Lease {
    client: Client,
    key: Vec<u8>,
    token: Option<i64>,
}

impl Lease {
    /// Stores `value` as `options` say, and returns whether it did: not where the lease has ended,
    /// as its time has passed, or as the key was written or removed since. What was loaded may be
    /// older than that.
    ///
    /// # Errors
    /// As [`Client::call`], and the lease is given up; [`ClientError::Unsupported`] inside a MULTI
    /// of this thread, and where the options ask for what no server does.
    pub fn fill(mut self, value: &[u8], options: &LoadOptions) -> Result<bool, ClientError> {
        options.check()?;
        let Some(token) = self.token else { return Ok(false) };
        let (token, words) = (token.to_string(), options.lifetime_words());
        let mut request: Vec<&[u8]> = vec![b"LFILL", &self.key, value, token.as_bytes()];
        request.extend(words.iter().map(Vec::as_slice));
        let reply = self.call("to fill a key", &request)?;
        self.token = None;
        Ok(integer(&reply)? == 1)
    }

    /// Returns its token, by which the caller ends it: by LFILL or LFREE, in whatever way.
    pub fn into_token(mut self) -> i64 {
        self.token.take().expect("it is taken when the lease ends")
    }

    /// Gives it up: the next one who waits gets it. Returns whether it went on.
    ///
    /// # Errors
    /// As [`Client::call`]; [`ClientError::Unsupported`] inside a MULTI of this thread.
    pub fn free(mut self) -> Result<bool, ClientError> {
        self.give_up()
    }

    fn give_up(&mut self) -> Result<bool, ClientError> {
        let Some(token) = self.token.take() else { return Ok(false) };
        let token = token.to_string();
        let request: [&[u8]; 3] = [b"LFREE", &self.key, token.as_bytes()];
        Ok(integer(&self.call("to free a lease", &request)?)? == 1)
    }

    /// Sends `request`, which is no part of a transaction.
    fn call(&self, operation: &str, request: &[&[u8]]) -> Result<Reply, ClientError> {
        accepted(self.client.with_connection(|connection| {
            connection.check_outside_transaction(operation)?;
            connection.call(request)
        })?)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A server that does not answer, or a thread inside MULTI, which would queue the request,
        // leaves it to end with the connection, or once its time has passed.
        let _ended = self.give_up();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Lease({})", self.key.escape_ascii())
    }
}

impl Client {
    /// Returns what there is of `key`, and lets one client at a time fill it (LGET). Over shared
    /// memory a value that is there is read where it lies, without asking the server.
    ///
    /// The wait of [`LoadOptions::waits_for`] is the thread's: others use the client meanwhile.
    ///
    /// # Errors
    /// As [`Client::get`]; [`ClientError::Refused`] where the server has no leases, or has too
    /// many.
    pub fn lget(&self, key: &[u8], options: &LoadOptions) -> Result<Leased, ClientError> {
        self.settle()?;
        if let Some(Some(view)) = self.get_at_once(key)?
            && self.is_young(key, options)?
        {
            return Ok(Leased::Hit(view));
        }
        let words = options.request(key);
        let request: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.answered(key, accepted(self.call_for(&request, options.wait)?)?)
    }

    /// Returns the value of `key`. Where it is not there, one client at a time calls `load` and
    /// stores what that returns, while the others wait for it. What was loaded before the key was
    /// removed or written by somebody else is returned and not stored; so it is while the server
    /// gives no lease or stores nothing, as it has no memory or too many leases, is a replica, or
    /// cannot write its files.
    ///
    /// With [`LoadOptions::stale_for`] and [`LoadOptions::refresh_within`] nobody waits but the one
    /// who loads. One who has waited in vain calls `load` for himself, and stores nothing. A server
    /// without leases, such as redis-server, has the value stored by SET, by all who miss it.
    ///
    /// # Errors
    /// Those of `load`; and as [`Client::get`]. [`ClientError::Unsupported`] before anything is
    /// loaded where the options ask for what no server does: stale values and no time to live, one
    /// of zero, stale values for more than a year, and leases, waits and refreshes of more than an
    /// hour.
    pub fn get_or_load<E: From<ClientError>>(
        &self,
        key: &[u8],
        options: &LoadOptions,
        load: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<View, E> {
        options.check()?;
        let lease = match self.lget(key, options) {
            Ok(Leased::Hit(view) | Leased::Stale(view)) => return Ok(view),
            Ok(Leased::Win(lease) | Leased::StaleWin(_, lease)) => lease,
            Ok(Leased::Busy(_)) => return Ok(View::from(load()?)),
            Err(error) if is_unknown(&error) || stores_nothing(&error) => {
                if let Some(view) = self.get(key)? {
                    return Ok(view);
                }
                let value = load()?;
                if is_unknown(&error) {
                    stored_or_not(self.set_loaded(key, &value, options))?;
                }
                return Ok(View::from(value));
            }
            Err(error) => return Err(error.into()),
        };
        // Where it fails or panics the lease is given up.
        let value = load()?;
        stored_or_not(lease.fill(&value, options).map(drop))?;
        Ok(View::from(value))
    }

    /// Stores what was loaded at a server that has no leases.
    fn set_loaded(
        &self,
        key: &[u8],
        value: &[u8],
        options: &LoadOptions,
    ) -> Result<(), ClientError> {
        let words = LoadOptions { stale: None, ..options.clone() }.lifetime_words();
        let mut request: Vec<&[u8]> = vec![b"SET", key, value];
        request.extend(words.iter().map(Vec::as_slice));
        self.call(&request).map(drop)
    }

    /// Removes `key`, which is no longer true, and takes the right to fill it from whoever has it;
    /// its value stays one that has expired for `stale`, for those who take such (LDEL). Returns
    /// whether the key was there.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn ldel(&self, key: &[u8], stale: Duration) -> Result<bool, ClientError> {
        let stale = milliseconds(stale);
        Ok(integer(&self.call(&[b"LDEL", key, b"STALE", stale.as_bytes()])?)? == 1)
    }

    /// Returns whether `key`, which was there, is not to be loaded anew as yet.
    fn is_young(&self, key: &[u8], options: &LoadOptions) -> Result<bool, ClientError> {
        let Some(refresh) = options.refresh else { return Ok(true) };
        Ok(match self.ttl(key)? {
            TimeToLive::Left(left) => left >= refresh,
            TimeToLive::Endless => true,
            TimeToLive::Absent => false,
        })
    }

    /// Returns what a reply of LGET says of `key`.
    fn answered(&self, key: &[u8], mut reply: Reply) -> Result<Leased, ClientError> {
        let Reply::Array(parts) = &mut reply else { return Err(unexpected(&reply)) };
        let [Reply::Simple(state), value, token, Reply::Integer(ms)] = &mut parts[..] else {
            return Err(unexpected(&reply));
        };
        let token = integer(token).unwrap_or(-1);
        let lease = || Lease { client: self.clone(), key: key.to_vec(), token: Some(token) };
        let left = Duration::from_millis(u64::try_from(*ms).unwrap_or(0));
        let value = match value {
            Reply::Bulk(bytes) => Some(View::from(mem::take(bytes))),
            _ => None,
        };
        match (&state[..], value) {
            (b"HIT", Some(value)) => Ok(Leased::Hit(value)),
            (b"WIN", None) => Ok(Leased::Win(lease())),
            (b"STALE-WIN", Some(value)) => Ok(Leased::StaleWin(value, lease())),
            (b"STALE", Some(value)) => Ok(Leased::Stale(value)),
            (b"BUSY", None) => Ok(Leased::Busy(left)),
            _ => Err(unexpected(&reply)),
        }
    }
}

fn is_unknown(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(text) if text.starts_with("ERR unknown command"))
}

/// Returns whether the server says that it has no leases or stores nothing at present, whatever is
/// asked of it: what was loaded is as good without.
fn stores_nothing(error: &ClientError) -> bool {
    matches!(error.code(), Some("OOM" | "MISCONF" | "READONLY"))
        || matches!(error, ClientError::Refused(text) if text == "ERR too many leases are held")
}

/// Returns the error of `stored`, unless the server stores nothing at present.
fn stored_or_not(stored: Result<(), ClientError>) -> Result<(), ClientError> {
    stored.or_else(|error| if stores_nothing(&error) { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_by_which_no_server_stores_a_value_are_refused() {
        let check = |options: LoadOptions, is_taken: bool| {
            assert_eq!(options.check().is_ok(), is_taken, "{options:?}");
        };
        let (seconds, year) = (Duration::from_secs, 365 * 86_400);
        let new = LoadOptions::new;
        check(new().waits_for(Duration::ZERO).refresh_within(Duration::ZERO), true);
        check(new().expires_in(Duration::from_nanos(1)).stale_for(seconds(year)), true);
        check(new().expires_in(seconds(1)).stale_for(seconds(year + 1)), false);
        check(new().stale_for(seconds(1)), false);
        check(new().expires_in(Duration::ZERO), false);
        check(new().expires_in(Duration::MAX), false);
        for hours in [1, 2] {
            check(new().lease_for(seconds(hours * 3_600)), hours == 1);
            check(new().refresh_within(seconds(hours * 3_600)), hours == 1);
            check(new().waits_for(seconds(hours * 3_600)), hours == 1);
        }
        check(new().lease_for(Duration::ZERO), false);
    }

    #[test]
    fn only_refusals_of_the_whole_server_are_passed_over() {
        let check = |text: &str, is_passed_over: bool| {
            let refused = Err(ClientError::Refused(text.to_owned()));
            assert_eq!(stored_or_not(refused).is_ok(), is_passed_over, "{text}");
        };
        check("OOM command not allowed when used memory > 'maxmemory'.", true);
        check("READONLY You can't write against a read only replica.", true);
        check("MISCONF Errors writing to the AOF file: No space left on device", true);
        check("ERR too many leases are held", true);
        check("NOPERM this user has no permissions to run the 'lfill' command", false);
        check("ERR invalid expire time in 'lfill' command", false);
        check("WRONGTYPE Operation against a key holding the wrong kind of value", false);
    }

    #[test]
    fn options_are_the_words_of_lget_and_lfill() {
        let check = |options: LoadOptions, request: &str, lifetime: &str| {
            let text = |words: Vec<Vec<u8>>| String::from_utf8(words.join(&b' ')).unwrap();
            assert_eq!(text(options.request(b"k")), request);
            assert_eq!(text(options.lifetime_words()), lifetime);
        };
        check(LoadOptions::new(), "LGET k WAIT 3000", "");
        let seconds = Duration::from_secs;
        let all = LoadOptions::new().expires_in(Duration::from_micros(1500)).stale_for(seconds(9));
        let all = all.refresh_within(seconds(1)).lease_for(seconds(2)).waits_for(Duration::ZERO);
        check(all, "LGET k TTL 2000 REFRESH 1000 STALE", "PX 2 STALE 9000");
    }
}
