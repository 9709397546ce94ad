//! The options of SET, for `put_with` and `seal_with`.

use std::time::{Duration, SystemTime};

/// How a value is put: until when it lives, and under which condition it is put at all. Without
/// options it is put in any case, for ever, as SET does.
///
/// ```
/// use std::time::Duration;
/// use client::SetOptions;
///
/// let lock = SetOptions::new().if_absent().expires_in(Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    lifetime: Lifetime,
    condition: Condition,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Lifetime {
    #[default]
    Endless,
    Milliseconds(u64),
    UntilMs(u64),
    Kept,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    None,
    Absent,
    Present,
    Equal(Vec<u8>),
}

impl SetOptions {
    /// Returns no options.
    pub fn new() -> SetOptions {
        SetOptions::default()
    }

    /// The key lives for `duration` from now, in whole milliseconds, rounded up (PX). The server
    /// refuses zero.
    pub fn expires_in(self, duration: Duration) -> SetOptions {
        SetOptions { lifetime: Lifetime::Milliseconds(milliseconds(duration)), ..self }
    }

    /// The key lives until `time`, in whole milliseconds (PXAT). A time that is over deletes it.
    pub fn expires_at(self, time: SystemTime) -> SetOptions {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        // The server takes no time before the epoch's first millisecond.
        SetOptions { lifetime: Lifetime::UntilMs(milliseconds(since).max(1)), ..self }
    }

    /// The key lives for as long as it would have without this (KEEPTTL).
    pub fn keeps_time_to_live(self) -> SetOptions {
        SetOptions { lifetime: Lifetime::Kept, ..self }
    }

    /// Puts only where the key does not exist (NX).
    pub fn if_absent(self) -> SetOptions {
        SetOptions { condition: Condition::Absent, ..self }
    }

    /// Puts only where the key exists (XX).
    pub fn if_present(self) -> SetOptions {
        SetOptions { condition: Condition::Present, ..self }
    }

    /// Puts only where the key holds exactly `value` (IFEQ, which Redis does not have).
    pub fn if_equal(self, value: &[u8]) -> SetOptions {
        SetOptions { condition: Condition::Equal(value.to_vec()), ..self }
    }

    /// Returns for how long what is put now does not run out; `None` where that is never. Whether
    /// it is put at all, their condition says.
    pub(crate) fn lifetime(&self) -> Option<Duration> {
        match self.lifetime {
            Lifetime::Endless => None,
            Lifetime::Milliseconds(number) => Some(Duration::from_millis(number)),
            Lifetime::UntilMs(end) => {
                let now = u64::try_from(sys::clock::realtime().0).unwrap_or(0);
                Some(Duration::from_millis(end.saturating_sub(now)))
            }
            // That of what was there before, which only the server knows.
            Lifetime::Kept => Some(Duration::ZERO),
        }
    }

    /// Returns the words of a request that follow the value.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        let mut add = |word: &[u8]| words.push(word.to_vec());
        match &self.condition {
            Condition::None => {}
            Condition::Absent => add(b"NX"),
            Condition::Present => add(b"XX"),
            Condition::Equal(value) => {
                add(b"IFEQ");
                add(value);
            }
        }
        match &self.lifetime {
            Lifetime::Endless => {}
            Lifetime::Milliseconds(number) => {
                add(b"PX");
                add(number.to_string().as_bytes());
            }
            Lifetime::UntilMs(number) => {
                add(b"PXAT");
                add(number.to_string().as_bytes());
            }
            Lifetime::Kept => add(b"KEEPTTL"),
        }
        words
    }
}

/// Returns the SET of `key` to `value` with options that are `words`.
pub fn set_request<'a>(key: &'a [u8], value: &'a [u8], words: &'a [Vec<u8>]) -> Vec<&'a [u8]> {
    let mut request: Vec<&[u8]> = vec![b"SET", key, value];
    request.extend(words.iter().map(Vec::as_slice));
    request
}

/// Returns `duration` in milliseconds, rounded up: a time that is not zero stays so.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_does_not_run_out_before_its_lifetime_has() {
        let check = |options: SetOptions, from: Option<u64>, to: Option<u64>| {
            let [from, to] = [from, to].map(|seconds| seconds.map(Duration::from_secs));
            let found = options.lifetime();
            assert!(from <= found && found <= to, "{options:?}: {found:?}");
        };
        let hour = Duration::from_secs(3600);
        check(SetOptions::new(), None, None);
        check(SetOptions::new().expires_in(hour).if_absent(), Some(3600), Some(3600));
        check(SetOptions::new().expires_in(Duration::from_nanos(1)), Some(0), Some(1));
        check(SetOptions::new().expires_at(SystemTime::now() + hour), Some(3590), Some(3601));
        check(SetOptions::new().expires_at(SystemTime::now() - hour), Some(0), Some(0));
        check(SetOptions::new().if_present().keeps_time_to_live(), Some(0), Some(0));
    }

    #[test]
    fn options_are_the_words_of_set() {
        let check = |options: SetOptions, expected: &str| {
            let words = options.words();
            let text: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(text.join(" "), expected, "{options:?}");
        };
        check(SetOptions::new(), "");
        check(SetOptions::new().expires_in(Duration::from_micros(1500)).if_absent(), "NX PX 2");
        check(SetOptions::new().if_present().keeps_time_to_live(), "XX KEEPTTL");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(4_102_444_800);
        check(SetOptions::new().expires_at(time), "PXAT 4102444800000");
        check(SetOptions::new().expires_at(SystemTime::UNIX_EPOCH), "PXAT 1");
        check(SetOptions::new().if_absent().if_equal(b"old"), "IFEQ old");
    }
}
