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
    /// Those that the refusal of another value names: as in Redis, where Redis has the option.
    const TOLD: &'static [Self] = Self::ALL;

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
        let told = || T::TOLD.iter().map(|value| value.name()).collect::<Vec<_>>();
        chosen(only(arguments)?, &names).ok_or_else(|| one_of(&told()))
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

/// One text that a check finds nothing wrong with.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    /// Returns what is wrong with a text, if anything is.
    pub fault: fn(text: &str) -> Option<&'static str>,
    /// Which texts there are, for people.
    pub values: &'static str,
}

impl Typed<String> for Checked {
    fn value(&self, canonical: &str) -> String {
        canonical.to_owned()
    }
}

impl Checked {
    /// The name of a file, without a folder, or none.
    pub const FILE_NAME: Checked = Checked {
        fault: |text| {
            let is_path = text.contains(['/', '\\']);
            is_path.then_some("dbfilename can't be a path, just a filename")
        },
        values: "the name of a file",
    };
    /// The name of a folder, without one above it.
    pub const FOLDER_NAME: Checked = Checked {
        fault: |text| {
            let is_path = text.contains(['/', '\\']);
            match text {
                "" => Some("appenddirname can't be empty"),
                _ => is_path.then_some("appenddirname can't be a path, just a dirname"),
            }
        },
        values: "the name of a folder",
    };
    /// The name of a host, or none.
    pub const HOST_NAME: Checked = Checked {
        fault: host_name_fault,
        values: "letters, digits, hyphens and dots, 255 at most",
    };
    /// The name of a node of a cluster, or none.
    pub const NODE_NAME: Checked = Checked {
        fault: |text| {
            let is_wrong = |byte: u8| b"!#$%&()*+:;<>?@[]^{|}~".contains(&byte);
            let fault = "Announced human node name contained invalid character";
            text.bytes().any(is_wrong).then_some(fault)
        },
        values: "a text without !#$%&()*+:;<>?@[]^{|}~",
    };
    /// The title that the process has in lists of the system's.
    pub const TITLE_TEMPLATE: Checked = Checked {
        fault: |text| {
            let fault = "template format is invalid or contains unknown variables";
            (!is_title_template(text)).then_some(fault)
        },
        values: "a text with variables in braces",
    };
}

/// Bytes of the name of a host, and the one that ends it.
const HOST_NAME_BYTES: usize = 256;

fn host_name_fault(text: &str) -> Option<&'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    if text.len() >= HOST_NAME_BYTES {
        return Some("Hostnames must be less than 256 characters");
    }
    let fault = "Hostnames may only contain alphanumeric characters, hyphens or dots";
    (!text.bytes().all(is_allowed)).then_some(fault)
}

/// Returns whether `text` is more than blanks where each variable in it is replaced: those that may
/// be empty are taken to be so.
///
/// Source: Redis 7.2, `validateProcTitleTemplate` and `sdstemplate`.
fn is_title_template(text: &str) -> bool {
    const FULL: [&str; 3] = ["listen-addr", "port", "tls-port"];
    const EMPTY: [&str; 4] = ["title", "server-mode", "unixsocket", "config-file"];
    let (mut shows_something, mut rest) = (false, text);
    while let Some((before, behind)) = rest.split_once('{') {
        shows_something |= before.contains(|character| character != ' ');
        if let Some(behind) = behind.strip_prefix('{') {
            // Two stand for one that is shown.
            (shows_something, rest) = (true, behind);
            continue;
        }
        let Some((name, behind)) = behind.split_once('}') else { return false };
        if !FULL.contains(&name) && !EMPTY.contains(&name) {
            return false;
        }
        shows_something |= FULL.contains(&name);
        rest = behind;
    }
    shows_something || rest.contains(|character| character != ' ')
}

impl Kind for Checked {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let argument = only(arguments)?;
        match (self.fault)(argument) {
            None => Ok(argument.to_owned()),
            Some(fault) => Err(fault.to_owned()),
        }
    }

    fn values(&self) -> String {
        self.values.to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["plain", "a-b.c9"])
    }

    fn written(&self, value: &str, _: Option<&str>) -> Vec<String> {
        vec![quoted(value)]
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
