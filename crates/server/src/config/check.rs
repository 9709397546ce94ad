//! `forebay config check`: all that is wrong with a configuration, and what in it does nothing.

use std::io;

use super::file::{ConfigError, Found, Place, with_includes};
use super::row::{Effect, Row};
use super::{CommandLine, Config, Impossible, find};

/// What there is to say of a configuration.
#[derive(Debug, Default)]
pub struct Findings {
    /// Each fault, in the order in which they stand.
    pub faults: Vec<ConfigError>,
    /// The options without effect, where they stand.
    pub without_effect: Vec<(Place, &'static Row)>,
}

/// Looks at all that `line` names.
pub fn check(line: &CommandLine, standard_input: impl FnOnce() -> io::Result<Vec<u8>>) -> Findings {
    match line.read(standard_input) {
        Ok(found) => Findings::of(with_includes(found)),
        Err(error) => Findings { faults: vec![error], ..Findings::default() },
    }
}

impl Findings {
    /// Looks at what was `found`, whose includes are those of others.
    pub fn of(found: Vec<Found>) -> Findings {
        let mut config = Config::default();
        let mut impossible = Impossible::default();
        let mut findings = Findings::default();
        for found in found {
            let directive = match found {
                Ok(directive) => directive,
                Err(error) => {
                    findings.faults.push(error);
                    continue;
                }
            };
            findings.faults.extend(config.apply(&directive, &mut impossible).err());
            if let Some(row) = find(&directive.name)
                && row.effect == Effect::Accepted
                && row.kind.refusal().is_none()
            {
                findings.without_effect.push((directive.place, row));
            }
        }
        findings.faults.extend(impossible.into_errors());
        findings
    }

    /// Returns whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty() && self.without_effect.is_empty()
    }

    /// Returns a line for each finding, under the name `file`, as compilers write them:
    /// `file:line: error: what (the text)`.
    pub fn describe(&self, file: &str) -> String {
        let fault = |error: &ConfigError| match error {
            ConfigError::File(message) => format!("{file}: error: {message}\n"),
            ConfigError::Directive { place, message } => line(file, place, "error", message),
        };
        let notice = |(place, row): &(Place, &Row)| {
            line(file, place, "note", &format!("'{}' has no effect here", row.name))
        };
        let faults: String = self.faults.iter().map(fault).collect();
        faults + &self.without_effect.iter().map(notice).collect::<String>()
    }
}

fn line(file: &str, place: &Place, kind: &str, message: &str) -> String {
    let Place { file: included, line, text } = place;
    let file = included.as_ref().map_or(file.to_owned(), |path| path.display().to_string());
    format!("{file}:{line}: {kind}: {message} ({text})\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_text;

    #[test]
    fn every_fault_is_told_and_every_option_without_effect() {
        let text = "port x\nio-threads 4\ntls-cluster yes\nnope 1\nrequirepass \"half\n\
                    maxmemory 1gb\ntls-cluster no\ncluster-enabled yes\nuser default on";
        let findings = Findings::of(read_text(text.as_bytes(), None, 1));
        let told = findings.describe("a.conf");
        let lines: Vec<&str> = told.lines().collect();
        let expected = [
            "a.conf:1: error: argument couldn't be parsed into an integer (port x)",
            "a.conf:4: error: Bad directive or wrong number of arguments (nope 1)",
            "a.conf:5: error: Unbalanced quotes in configuration line (requirepass \"half)",
            "a.conf:9: error: 'user' is not possible: Forebay has no access control lists \
             (user default on)",
            "a.conf:8: error: Forebay does not run as a cluster: only 'no' is possible \
             (cluster-enabled yes)",
            "a.conf:2: note: 'io-threads' has no effect here (io-threads 4)",
        ];
        assert_eq!(lines, expected);
        assert!(Findings::of(read_text(b"port 1", None, 1)).describe("a.conf").is_empty());
    }
}
