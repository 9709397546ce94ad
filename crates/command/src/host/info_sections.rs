//! The text of INFO: its sections, their fields, and which of them are asked for.

use std::fmt::{Display, Write};

/// The sections that one INFO names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoSections {
    default: bool,
    all: bool,
    everything: bool,
    named: Vec<Box<str>>,
}

impl InfoSections {
    /// Returns the sections that `names`, in any case, ask for; without names, the default ones.
    pub fn new<'a>(names: impl Iterator<Item = &'a [u8]>) -> InfoSections {
        let mut sections =
            InfoSections { default: false, all: false, everything: false, named: Vec::new() };
        let mut is_bare = true;
        for name in names {
            is_bare = false;
            match String::from_utf8_lossy(name).to_ascii_lowercase().as_str() {
                "default" => sections.default = true,
                "all" => sections.all = true,
                "everything" => sections.everything = true,
                name => sections.named.push(name.into()),
            }
        }
        sections.default |= is_bare;
        sections
    }

    /// Returns whether `section`, lower-case, is asked for; `kind` tells which group words name
    /// it too.
    pub fn include(&self, section: &str, kind: InfoKind) -> bool {
        let by_group = match kind {
            InfoKind::Default => self.default || self.all || self.everything,
            InfoKind::All => self.all || self.everything,
            InfoKind::Everything => self.everything,
        };
        by_group || self.named.iter().any(|name| **name == *section)
    }
}

/// The smallest group of sections that a section of INFO belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoKind {
    /// Shown by a bare INFO.
    Default,
    /// Shown by `INFO all`.
    All,
    /// Shown by `INFO everything`.
    Everything,
}

/// A section of the INFO of a host of type `H`.
#[derive(Clone, Copy, Debug)]
pub struct InfoSection<H> {
    /// Its name, as its heading shows it.
    pub name: &'static str,
    /// Which group it belongs to.
    pub kind: InfoKind,
    /// Adds its fields.
    pub fields: fn(&H, &mut InfoText),
}

impl<H> InfoSection<H> {
    /// Appends the section of `host`, its heading first, to `text`.
    pub fn write(&self, host: &H, text: &mut InfoText) {
        write!(text.0, "# {}\r\n", self.name).expect("a String takes any text");
        (self.fields)(host, text);
    }
}

/// The text of INFO: lines of a name, a colon and a value.
#[derive(Debug, Default)]
pub struct InfoText(String);

impl InfoText {
    /// Returns those of `sections` of `host` that are `wanted`, with a blank line between them.
    pub fn of<H>(host: &H, sections: &[InfoSection<H>], wanted: &InfoSections) -> String {
        let mut text = InfoText::default();
        for section in sections {
            if !wanted.include(&section.name.to_ascii_lowercase(), section.kind) {
                continue;
            }
            if !text.0.is_empty() {
                text.0.push_str("\r\n");
            }
            section.write(host, &mut text);
        }
        text.0
    }

    /// Adds a field.
    pub fn add(&mut self, name: &str, value: impl Display) {
        write!(self.0, "{name}:{value}\r\n").expect("a String takes any text");
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], expected: [bool; 3]) {
        let sections = InfoSections::new(names.iter().map(|name| name.as_bytes()));
        let found = [
            sections.include("server", InfoKind::Default),
            sections.include("commandstats", InfoKind::All),
            sections.include("modules", InfoKind::Everything),
        ];
        assert_eq!(found, expected, "INFO {names:?}");
    }

    #[test]
    fn names_choose_sections() {
        check(&[], [true, false, false]);
        check(&["default"], [true, false, false]);
        check(&["ALL"], [true, true, false]);
        check(&["everything"], [true, true, true]);
        check(&["Server"], [true, false, false]);
        check(&["commandstats", "server"], [true, true, false]);
        check(&["nonsense"], [false, false, false]);
    }
}
