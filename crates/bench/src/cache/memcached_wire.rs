//! A blocking connection that speaks memcached's text protocol, as far as a cache's user needs it.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::target::{Stream, Target};

/// A reply that stays away longer is an error.
const REPLY_WAIT_MAX: Duration = Duration::from_secs(60);

/// A connection.
pub struct MemcachedWire {
    stream: BufReader<Stream>,
    out: Vec<u8>,
    value: Vec<u8>,
}

impl MemcachedWire {
    /// Connects to `target`.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(target: &Target) -> anyhow::Result<MemcachedWire> {
        let stream = target.connect(None).with_context(|| format!("connecting to {target}"))?;
        let mut stream = stream;
        stream.set_read_timeout(Some(REPLY_WAIT_MAX))?;
        Ok(MemcachedWire {
            stream: BufReader::with_capacity(64 << 10, stream),
            out: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Returns the server's version.
    ///
    /// # Errors
    /// When it is no memcached.
    pub fn version(&mut self) -> anyhow::Result<String> {
        self.out.extend_from_slice(b"version\r\n");
        self.send()?;
        let line = self.line()?;
        let version = line.strip_prefix("VERSION ").map(str::to_owned);
        version.with_context(|| format!("version answered '{line}'"))
    }

    /// Returns which of the keys have a value.
    pub(super) fn get(&mut self, keys: &[String]) -> anyhow::Result<Vec<bool>> {
        for key in keys {
            self.out.extend_from_slice(b"get ");
            self.out.extend_from_slice(key.as_bytes());
            self.out.extend_from_slice(b"\r\n");
        }
        self.send()?;
        keys.iter().map(|key| self.take_value(key)).collect()
    }

    /// Stores the values, and returns how many were refused.
    pub(super) fn set(&mut self, values: &[(&str, &[u8])]) -> anyhow::Result<u64> {
        for (key, value) in values {
            write!(self.out, "set {key} 0 0 {}\r\n", value.len())?;
            self.out.extend_from_slice(value);
            self.out.extend_from_slice(b"\r\n");
        }
        self.send()?;
        let mut refused = 0;
        for _ in values {
            let line = self.line()?;
            match line.as_str() {
                "STORED" => {}
                line if line.starts_with("SERVER_ERROR") => refused += 1,
                line => bail!("set answered '{line}'"),
            }
        }
        Ok(refused)
    }

    /// Returns the bytes of the values of `keys` that are there.
    pub(super) fn value_bytes(&mut self, keys: &[String]) -> anyhow::Result<u64> {
        for key in keys {
            write!(self.out, "mg {key} s\r\n")?;
        }
        self.send()?;
        let mut sum = 0;
        for _ in keys {
            let line = self.line()?;
            match line.strip_prefix("HD s") {
                Some(size) => sum += size.parse::<u64>()?,
                None => ensure!(line == "EN", "mg answered '{line}'"),
            }
        }
        Ok(sum)
    }

    fn take_value(&mut self, key: &str) -> anyhow::Result<bool> {
        let line = self.line()?;
        if line == "END" {
            return Ok(false);
        }
        let rest = line.strip_prefix("VALUE ").and_then(|rest| rest.strip_prefix(key));
        let length = rest.and_then(|rest| rest.trim().split(' ').nth(1));
        let length = length.with_context(|| format!("get answered '{line}'"))?;
        self.value.resize(length.parse::<usize>()? + 2, 0);
        self.stream.read_exact(&mut self.value)?;
        let end = self.line()?;
        ensure!(end == "END", "get ended with '{end}'");
        Ok(true)
    }

    fn send(&mut self) -> anyhow::Result<()> {
        self.stream.get_mut().write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line)? > 0, "the server is gone");
        Ok(line.trim_end().to_owned())
    }
}
