//! Options of which only the default is possible, because what other values ask for does not exist
//! here; the text says so.

use super::{Kind, only, split};

/// Only the default.
#[derive(Clone, Copy, Debug)]
pub struct Only(pub &'static str);

impl Kind for Only {
    fn canonical(&self, arguments: &[String], current: &str) -> Result<String, String> {
        match only(arguments)?.eq_ignore_ascii_case(current) {
            true => Ok(current.to_owned()),
            false => Err(self.0.to_owned()),
        }
    }

    fn values(&self) -> String {
        "the default".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        Vec::new()
    }

    fn refusal(&self) -> Option<&'static str> {
        Some(self.0)
    }
}

/// No primary to follow: `no one` or nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoPrimary(pub &'static str);

impl Kind for NoPrimary {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        match split(arguments).as_slice() {
            [] => Ok(String::new()),
            [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => {
                Ok(String::new())
            }
            _ => Err(self.0.to_owned()),
        }
    }

    fn values(&self) -> String {
        "the default".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        Vec::new()
    }

    fn refusal(&self) -> Option<&'static str> {
        Some(self.0)
    }
}
