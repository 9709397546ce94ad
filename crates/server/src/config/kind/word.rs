//! One word or text.

use std::marker::PhantomData;
use std::path::PathBuf;

use super::super::text::quoted;
use super::{Kind, Typed, one_of, only};

/// `yes` or `no`.
#[derive(Clone, Copy, Debug)]
pub struct Flag;

impl Kind for Flag {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let word = chosen(only(arguments)?, &["yes", "no"]);
        word.ok_or_else(|| "argument must be 'yes' or 'no'".to_owned())
    }

    fn values(&self) -> String {
        "yes or no".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["yes", "no", "YES"])
    }
}

impl Typed<bool> for Flag {
    fn value(&self, canonical: &str) -> bool {
        canonical == "yes"
    }
}

/// One word out of a list.
#[derive(Clone, Copy, Debug)]
pub struct OneOf(pub &'static [&'static str]);

impl Kind for OneOf {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        chosen(only(arguments)?, self.0).ok_or_else(|| one_of(self.0))
    }

    fn values(&self) -> String {
        self.0.join(", ")
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(self.0)
    }
}

impl Typed<&'static str> for OneOf {
    fn value(&self, canonical: &str) -> &'static str {
        let word = self.0.iter().find(|&&word| word == canonical);
        word.expect("it was checked to be in the list")
    }
}

/// What has some values with a name each.
pub trait Named: Copy + std::fmt::Debug + Sync + 'static {
    /// The values, in the order in which they are told.
    const ALL: &'static [Self];

    /// Returns its name.
    fn name(self) -> &'static str;
}

/// The name of one of the values of `T`.
#[derive(Clone, Copy, Debug)]
pub struct Choice<T>(PhantomData<T>);

impl<T: Named> Choice<T> {
    /// Returns the choice of any of them.
    pub const fn of_all() -> Choice<T> {
        Choice(PhantomData)
    }

    fn names() -> Vec<&'static str> {
        T::ALL.iter().map(|value| value.name()).collect()
    }
}

impl<T: Named> Kind for Choice<T> {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let names = Self::names();
        chosen(only(arguments)?, &names).ok_or_else(|| one_of(&names))
    }

    fn values(&self) -> String {
        Self::names().join(", ")
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&Self::names())
    }
}

impl<T: Named> Typed<T> for Choice<T> {
    fn value(&self, canonical: &str) -> T {
        let value = T::ALL.iter().find(|value| value.name() == canonical);
        *value.expect("it was checked to be the name of one")
    }
}

/// Any one text.
#[derive(Clone, Copy, Debug)]
pub struct Text;

impl Kind for Text {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        only(arguments).map(str::to_owned)
    }

    fn values(&self) -> String {
        "a text".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["\"\"", "plain", "\"a b\\\"c\\\\ \\n\\x01\"", "'it\\'s'"])
    }

    fn written(&self, value: &str, _: Option<&str>) -> Vec<String> {
        vec![quoted(value)]
    }
}

impl Typed<String> for Text {
    fn value(&self, canonical: &str) -> String {
        canonical.to_owned()
    }
}

impl Typed<PathBuf> for Text {
    fn value(&self, canonical: &str) -> PathBuf {
        PathBuf::from(canonical)
    }
}

impl Typed<Option<PathBuf>> for Text {
    fn value(&self, canonical: &str) -> Option<PathBuf> {
        (!canonical.is_empty()).then(|| PathBuf::from(canonical))
    }
}

/// A version: three numbers.
#[derive(Clone, Copy, Debug)]
pub struct Version;

impl Kind for Version {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let argument = only(arguments)?;
        let parts: Vec<&str> = argument.split('.').collect();
        let is_number = |part: &&str| {
            part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok()
        };
        if parts.len() != 3 || !parts.iter().all(is_number) {
            let fault = "argument must be a version: three numbers below 256, as in 7.2.4";
            return Err(fault.to_owned());
        }
        Ok(argument.to_owned())
    }

    fn values(&self) -> String {
        "three numbers, as in 7.2.4".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["7.2.4", "6.0.0"])
    }
}

impl Typed<String> for Version {
    fn value(&self, canonical: &str) -> String {
        canonical.to_owned()
    }
}

/// Classes of keyspace events, a letter each.
///
/// Source: Redis 7.2, `keyspaceEventsStringToFlags` and `keyspaceEventsFlagsToString`.
#[derive(Clone, Copy, Debug)]
pub struct EventClasses;

/// The classes of keyspace events that `A` stands for, in the order in which CONFIG GET shows them;
/// `n` comes with them where they are not all.
const EVENT_CLASSES: &str = "g$lshzxetd";

impl Kind for EventClasses {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let argument = only(arguments)?;
        let is_class = |class: char| "AnKEm".contains(class) || EVENT_CLASSES.contains(class);
        if !argument.chars().all(is_class) {
            return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned());
        }
        let has = |class: &char| argument.contains(*class);
        let some: String = EVENT_CLASSES.chars().filter(|class| has(&'A') || has(class)).collect();
        let mut shown = match some.as_str() {
            EVENT_CLASSES => "A".to_owned(),
            some => some.chars().chain(['n'].into_iter().filter(has)).collect(),
        };
        shown.extend(['K', 'E', 'm'].iter().filter(|class| has(class)));
        Ok(shown)
    }

    fn values(&self) -> String {
        "letters out of Ag$lshzxeKEtmdn".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["\"\"", "KEA", "xE", "Kn$l"])
    }

    fn written(&self, value: &str, _: Option<&str>) -> Vec<String> {
        vec![quoted(value)]
    }

    fn asks_for_nothing(&self, value: &str) -> bool {
        value.is_empty()
    }
}

fn chosen(argument: &str, words: &[&'static str]) -> Option<String> {
    let word = words.iter().find(|word| word.eq_ignore_ascii_case(argument))?;
    Some((*word).to_owned())
}
