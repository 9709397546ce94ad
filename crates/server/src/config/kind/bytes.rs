//! Numbers of bytes.

use super::super::text::quoted_if_needed;
use super::{Kind, Typed, in_bounds, only};

/// A number of bytes with an optional unit, within bounds, both included.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The least value.
    pub min: u64,
    /// The greatest value.
    pub max: u64,
}

impl Kind for Bytes {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        Ok(memory(only(arguments)?, self.min, self.max)?.to_string())
    }

    fn values(&self) -> String {
        format!("bytes, {} to {}, with kb, mb or gb", self.min, self.max)
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        [self.min, self.max, self.min + 1].iter().map(u64::to_string).collect()
    }

    fn written(&self, value: &str, _: Option<&str>) -> Vec<String> {
        vec![with_unit(value)]
    }
}

impl<T: TryFrom<u64>> Typed<T> for Bytes {
    fn value(&self, canonical: &str) -> T {
        let bytes = T::try_from(bytes(canonical)).ok();
        bytes.expect("the row's bounds are within those of its type")
    }
}

/// A power of two of bytes within bounds, or 0.
#[derive(Clone, Copy, Debug)]
pub struct PowerOfTwo {
    /// The least value.
    pub min: u64,
    /// The greatest value.
    pub max: u64,
}

impl Kind for PowerOfTwo {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let argument = only(arguments)?;
        if memory(argument, 0, self.max)? == 0 {
            return Ok("0".to_owned());
        }
        let value = memory(argument, self.min, self.max)?;
        if !value.is_power_of_two() {
            return Err("argument must be 0 or a power of two of bytes".to_owned());
        }
        Ok(value.to_string())
    }

    fn values(&self) -> String {
        format!("0, or a power of two, {} to {}", self.min, self.max)
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        [0, self.min, self.max].iter().map(u64::to_string).collect()
    }

    fn written(&self, value: &str, _: Option<&str>) -> Vec<String> {
        vec![with_unit(value)]
    }
}

impl Typed<u64> for PowerOfTwo {
    fn value(&self, canonical: &str) -> u64 {
        bytes(canonical)
    }
}

/// Bytes as in [`Bytes`], or a percentage.
#[derive(Clone, Copy, Debug)]
pub struct BytesOrPercent;

const NO_MEMORY_OR_PERCENT: &str = "argument must be a memory or percent value";

impl Kind for BytesOrPercent {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let argument = only(arguments)?;
        if let Some(percent) = argument.strip_suffix('%') {
            return match percent.parse::<u8>() {
                Ok(value) if value <= 100 => Ok(format!("{value}%")),
                _ if percent.starts_with('-') => Err(NO_MEMORY_OR_PERCENT.to_owned()),
                _ => Err("percentage argument must be less or equal to 100".to_owned()),
            };
        }
        match parse_memory(argument) {
            Some(value) => Ok(in_bounds(value, 0, i64::MAX as u64)?.to_string()),
            None => Err(NO_MEMORY_OR_PERCENT.to_owned()),
        }
    }

    fn values(&self) -> String {
        "bytes, with kb, mb or gb, or a percentage".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["0", "5%", "1kb", "1000"])
    }

    fn written(&self, value: &str, _: Option<&str>) -> Vec<String> {
        vec![if value.ends_with('%') { quoted_if_needed(value) } else { with_unit(value) }]
    }
}

/// So many bytes, or a part of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// These.
    Bytes(u64),
    /// So much of a hundred, at most all.
    Percent(u8),
}

impl Share {
    /// Returns the bytes that it means where there are `total`.
    pub fn of(self, total: u64) -> u64 {
        match self {
            Share::Bytes(bytes) => bytes,
            Share::Percent(percent) => (u128::from(total) * u128::from(percent) / 100) as u64,
        }
    }
}

impl Typed<Share> for BytesOrPercent {
    fn value(&self, canonical: &str) -> Share {
        match canonical.strip_suffix('%') {
            Some(percent) => {
                Share::Percent(percent.parse().expect("it was checked to be a number"))
            }
            None => Share::Bytes(bytes(canonical)),
        }
    }
}

/// Returns the bytes that `text` means, as `100`, `1k` (1000), `1kb` (1024), `5GB`; as in Redis, no
/// number is 0, and one beyond 64 bits is the nearest. None if it means none, or with its unit more
/// than 64 bits hold: what Redis keeps of that has nothing to do with the text.
pub fn parse_memory(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unit: u64 = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    if digits == 0 {
        return Some(0);
    }
    text[..digits].parse::<u64>().unwrap_or(u64::MAX).checked_mul(unit)
}

/// Returns the bytes of `value`, which is canonical, in the largest unit that holds them without
/// rest.
pub fn with_unit(value: &str) -> String {
    let bytes = bytes(value);
    let units = [(30, "gb"), (20, "mb"), (10, "kb")];
    match units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

fn memory(argument: &str, min: u64, max: u64) -> Result<u64, String> {
    let value =
        parse_memory(argument).ok_or_else(|| "argument must be a memory value".to_owned())?;
    in_bounds(value, min, max)
}

fn bytes(canonical: &str) -> u64 {
    canonical.parse().expect("it was checked to be a number of bytes")
}
