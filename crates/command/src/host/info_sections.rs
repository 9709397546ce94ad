//! Which sections of INFO are asked for.

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
