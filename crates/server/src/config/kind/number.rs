//! Numbers.

use std::time::Duration;

use super::{Kind, Typed, in_bounds, only};

/// A whole number within bounds, both included.
#[derive(Clone, Copy, Debug)]
pub struct Integer {
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
}

impl Kind for Integer {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        Ok(integer(only(arguments)?, self.min, self.max)?.to_string())
    }

    fn values(&self) -> String {
        format!("{} to {}", self.min, self.max)
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        vec![self.min.to_string(), self.max.to_string()]
    }
}

impl<T: TryFrom<i64>> Typed<T> for Integer {
    fn value(&self, canonical: &str) -> T {
        typed(canonical)
    }
}

/// A whole number within bounds, of which what is kept is the nearest within others.
#[derive(Clone, Copy, Debug)]
pub struct Clamped {
    /// The least and the greatest value that are accepted.
    pub accepted: (i64, i64),
    /// The least and the greatest value that have a meaning.
    pub kept: (i64, i64),
}

impl Kind for Clamped {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let ((min, max), (least, most)) = (self.accepted, self.kept);
        Ok(integer(only(arguments)?, min, max)?.clamp(least, most).to_string())
    }

    fn values(&self) -> String {
        let (least, most) = self.kept;
        format!("{least} to {most}; numbers beyond count as the nearest")
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        vec![self.accepted.0.to_string(), self.accepted.1.to_string()]
    }
}

impl<T: TryFrom<i64>> Typed<T> for Clamped {
    fn value(&self, canonical: &str) -> T {
        typed(canonical)
    }
}

/// A whole number of a unit of time. Where a setting may have no value, the least number is none.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// Makes a time of a number of the unit.
    pub of: fn(u64) -> Duration,
    /// The least number.
    pub min: i64,
    /// The greatest number.
    pub max: i64,
}

impl Time {
    const fn number(&self) -> Integer {
        Integer { min: self.min, max: self.max }
    }
}

impl Kind for Time {
    fn canonical(&self, arguments: &[String], current: &str) -> Result<String, String> {
        self.number().canonical(arguments, current)
    }

    fn values(&self) -> String {
        self.number().values()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        self.number().samples()
    }
}

impl Typed<Duration> for Time {
    fn value(&self, canonical: &str) -> Duration {
        (self.of)(typed(canonical))
    }
}

impl Typed<Option<Duration>> for Time {
    fn value(&self, canonical: &str) -> Option<Duration> {
        let number: i64 = typed(canonical);
        (number != self.min).then(|| (self.of)(typed(canonical)))
    }
}

/// File permissions in octal.
#[derive(Clone, Copy, Debug)]
pub struct Permissions;

impl Kind for Permissions {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let Ok(value) = u32::from_str_radix(only(arguments)?, 8) else {
            return Err("argument couldn't be parsed as an octal number".to_owned());
        };
        if value > 0o777 {
            return Err("argument must be between 0 and 777 inclusive".to_owned());
        }
        Ok(format!("{value:o}"))
    }

    fn values(&self) -> String {
        "0 to 777, octal".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["0", "700", "777"])
    }
}

impl Typed<u32> for Permissions {
    fn value(&self, canonical: &str) -> u32 {
        u32::from_str_radix(canonical, 8).expect("it was checked to be octal")
    }
}

fn integer(argument: &str, min: i64, max: i64) -> Result<i64, String> {
    // As in Redis, `+5` and `05` are no numbers.
    let value = argument.parse::<i64>().ok().filter(|value| value.to_string() == argument);
    let Some(value) = value else {
        return Err("argument couldn't be parsed into an integer".to_owned());
    };
    in_bounds(value, min, max)
}

fn typed<T: TryFrom<i64>>(canonical: &str) -> T {
    let number: i64 = canonical.parse().expect("it was checked to be a number");
    T::try_from(number).ok().expect("the row's bounds are within those of its type")
}
