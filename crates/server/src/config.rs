//! The configuration: one table of rows, filled from a redis.conf, standard input, the command
//! line and CONFIG SET, and shown by CONFIG GET.

mod accepted;
pub mod effective;
mod file;
pub mod notice;
pub mod row;
mod settings;

use std::collections::BTreeMap;
use std::path::Path;

pub use file::{ConfigError, Directive, Place, read_arguments, read_file, read_text};
pub use settings::Settings;

use command::ConfigError as SetError;
use row::{Effect, Kind, Row, When};

/// Returns every option there is.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    effective::ROWS.iter().copied().chain(accepted::ROWS)
}

/// Returns the option that `name` means, in any case.
pub fn find(name: &str) -> Option<&'static Row> {
    rows().find(|row| row.is_named(name))
}

/// Returns the effective options as text, two lines each: name and default, then the meaning, and
/// whether CONFIG SET cannot change it.
pub fn describe() -> String {
    let lines = |row: &&Row| {
        let default = if row.default.is_empty() { "''" } else { row.default };
        let when = if row.when == When::Start { " (at start)" } else { "" };
        format!("{} {default}\n    {}{when}\n", row.name, row.doc)
    };
    effective::ROWS.iter().map(lines).collect()
}

/// The value of every option.
#[derive(Clone, Debug)]
pub struct Config {
    /// Canonical texts by the option's name.
    values: BTreeMap<&'static str, String>,
    /// The options without effect that somebody set, in the order in which they were first.
    noticed: Vec<&'static str>,
}

impl Default for Config {
    fn default() -> Config {
        let values = rows().map(|row| (row.name, row.default.to_owned())).collect();
        Config { values, noticed: Vec::new() }
    }
}

impl Config {
    /// Applies `directives` in order; a later one replaces an earlier one, except where an option
    /// gathers (`save`, `client-output-buffer-limit`).
    ///
    /// # Errors
    /// The first directive that is unknown or has a wrong value; then the first that stands at the
    /// end and asks for what is not possible.
    pub fn load(&mut self, directives: &[Directive]) -> Result<(), ConfigError> {
        let mut impossible = Impossible::default();
        self.merge(directives, &mut impossible)?;
        impossible.into_result()
    }

    /// Applies `directives`, leaving those that are not possible in `impossible`: a later one may
    /// take their place.
    fn merge(
        &mut self,
        directives: &[Directive],
        impossible: &mut Impossible,
    ) -> Result<(), ConfigError> {
        let mut save_seen = false;
        for directive in directives {
            let Directive { name, arguments, place } = directive;
            if accepted::IGNORED.contains(&name.as_str()) {
                continue;
            }
            let Some(row) = find(name) else { return Err(unknown(name, place)) };
            if arguments.is_empty() && !matches!(row.kind, Kind::Words | Kind::SaveSchedule) {
                return Err(ConfigError::at(place, "wrong number of arguments"));
            }
            let canonical = row.kind.canonical(arguments, self.text(row));
            let canonical = canonical.map_err(|message| ConfigError::at(place, message));
            if row.kind.may_be_impossible() {
                // What is possible is the default, which has not been replaced.
                impossible.replace(row, canonical.err());
                continue;
            }
            let mut value = canonical?;
            if matches!(row.kind, Kind::SaveSchedule) {
                value = gathered_schedule(self.text(row), &value, save_seen);
                save_seen = true;
            }
            self.values.insert(row.name, value);
            self.notice(row);
        }
        Ok(())
    }

    /// Returns the canonical value of `row`.
    pub fn text(&self, row: &Row) -> &str {
        self.values.get(row.name).expect("every row has a value from the start")
    }

    /// Returns the typed values.
    pub fn settings(&self) -> Settings {
        Settings::read(|row| self.text(row).to_owned())
    }

    /// Shows `directory`, absolute, as the working directory: Redis's CONFIG GET answers with the
    /// process's own, whatever path led there.
    pub fn show_directory(&mut self, directory: &Path) {
        self.values.insert(effective::DIRECTORY.name, directory.display().to_string());
    }

    /// Returns the options without effect that were set, in the order in which they were first.
    pub fn noticed(&self) -> &[&'static str] {
        &self.noticed
    }

    /// Remembers that `row` was set, where that has no effect.
    fn notice(&mut self, row: &Row) {
        // A value that asks for nothing is kept to the letter: there is nothing to note.
        let asks = row.effect == Effect::Accepted && !row.kind.may_be_impossible();
        if asks && !self.noticed.contains(&row.name) {
            self.noticed.push(row.name);
        }
    }

    /// Returns name and value of each option whose name or alias `wanted` accepts, which also
    /// learns whether the option is hidden.
    pub fn matching(&self, wanted: &dyn Fn(&str, bool) -> bool) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for row in rows() {
            for name in [Some(row.name), row.alias].into_iter().flatten() {
                if wanted(name, row.is_hidden) {
                    found.push((name.to_owned(), self.text(row).to_owned()));
                }
            }
        }
        found
    }

    /// Returns the configuration with `pairs` of name and value changed: all of them or none.
    ///
    /// # Errors
    /// The first pair that cannot be applied.
    pub fn changed(&self, pairs: &[(&[u8], &[u8])]) -> Result<Config, SetError> {
        let mut next = self.clone();
        let mut seen: Vec<&str> = Vec::new();
        for (name, value) in pairs {
            let row = std::str::from_utf8(name).ok().and_then(find);
            let Some(row) = row else { return Err(SetError::Unknown { name: name.to_vec() }) };
            let refused = |why: &str| refused(row, why);
            match row.when {
                When::Always => {}
                When::Start => return Err(refused("can't set immutable config")),
                // Nobody may, as long as no row takes effect so.
                When::Protected => return Err(refused("can't set protected config")),
            }
            if seen.contains(&row.name) {
                return Err(refused("duplicate parameter"));
            }
            seen.push(row.name);
            let value =
                std::str::from_utf8(value).map_err(|_| refused("argument must be UTF-8"))?;
            let canonical = row.kind.canonical(&arguments_of(row, value), self.text(row));
            next.values.insert(row.name, canonical.map_err(|why| refused(&why))?);
            next.notice(row);
        }
        Ok(next)
    }
}

/// The options whose latest directive asks for what is not possible, in the order in which these
/// stand.
#[derive(Default)]
struct Impossible(Vec<(&'static str, ConfigError)>);

impl Impossible {
    /// Replaces what is known of `row` with `error`, the fault of its latest directive.
    fn replace(&mut self, row: &'static Row, error: Option<ConfigError>) {
        self.0.retain(|(name, _)| *name != row.name);
        self.0.extend(error.map(|error| (row.name, error)));
    }

    fn into_result(self) -> Result<(), ConfigError> {
        self.0.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// Returns why `row` was not set.
pub fn refused(row: &Row, why: &str) -> SetError {
    SetError::Refused { name: row.name.to_owned(), reason: why.to_owned() }
}

/// CONFIG SET passes one text, which options of several words split themselves.
fn arguments_of(row: &Row, value: &str) -> Vec<String> {
    match row.kind {
        Kind::Words => value.split_whitespace().map(str::to_owned).collect(),
        _ => vec![value.to_owned()],
    }
}

fn unknown(name: &str, place: &Place) -> ConfigError {
    let refused = accepted::REFUSED.iter().find(|(known, _)| *known == name);
    match refused {
        Some((_, reason)) => ConfigError::at(place, format!("'{name}' is not possible: {reason}")),
        None => ConfigError::at(place, "Bad directive or wrong number of arguments"),
    }
}

/// The first `save` of a configuration replaces the default, further ones add to it, and an empty
/// one clears what was gathered.
fn gathered_schedule(current: &str, value: &str, seen: bool) -> String {
    if value.is_empty() || !seen || current.is_empty() {
        return value.to_owned();
    }
    format!("{current} {value}")
}

/// Returns the configuration of a command line: `[file | -] [--name value ...]`, the options
/// winning over the file; `standard_input` is read when the file is `-`.
///
/// # Errors
/// What is wrong with a directive or a file. An option that the command line sets back to what is
/// possible is not at fault, whatever the file says of it.
pub fn from_command_line(
    arguments: &[String],
    standard_input: impl FnOnce() -> std::io::Result<Vec<u8>>,
) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    let mut impossible = Impossible::default();
    let mut options = arguments;
    if let Some((file, rest)) = arguments.split_first()
        && !file.starts_with("--")
    {
        options = rest;
        let directives = if file == "-" {
            let text = standard_input().map_err(|error| ConfigError {
                place: None,
                message: format!("Can't read standard input: {error}"),
            })?;
            read_text(&text)?
        } else {
            read_file(Path::new(file))?
        };
        config.merge(&directives, &mut impossible)?;
    }
    config.merge(&read_arguments(options)?, &mut impossible)?;
    impossible.into_result()?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        config.load(&read_text(text.as_bytes())?)?;
        Ok(config)
    }

    fn get(config: &Config, name: &str) -> String {
        config.text(find(name).unwrap()).to_owned()
    }

    fn change(config: &Config, pairs: &[(&str, &str)]) -> Result<Config, SetError> {
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        config.changed(&pairs)
    }

    #[test]
    fn names_are_unique_and_defaults_canonical() {
        let mut names: Vec<&str> =
            rows().flat_map(|row| [Some(row.name), row.alias]).flatten().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        let config = Config::default();
        for row in rows() {
            assert!(row.name.chars().all(|c| !c.is_ascii_uppercase()), "{}", row.name);
            assert!(!row.doc.is_empty(), "{}", row.name);
            let arguments = arguments_of(row, row.default);
            let canonical = row.kind.canonical(&arguments, config.text(row));
            assert_eq!(canonical.as_deref(), Ok(row.default), "{}", row.name);
        }
        let settings = config.settings();
        assert_eq!((settings.port, settings.max_clients), (6379, 10_000));
        assert_eq!(settings.unix_socket_mode, 0o600);
    }

    #[test]
    fn directives_set_values_and_those_without_effect_are_noticed_once() {
        let config = load(
            "port 7000\nmaxmemory 100mb\nio-threads 4\nio-threads 8\nslave-priority 5\n\
             appendonly no\nsave 3600 1\nsave 300 100\n",
        )
        .unwrap();
        assert_eq!(get(&config, "port"), "7000");
        assert_eq!(get(&config, "MAXMEMORY"), "104857600");
        assert_eq!(get(&config, "replica-priority"), "5");
        assert_eq!(get(&config, "save"), "3600 1 300 100");
        assert_eq!(config.noticed(), ["io-threads", "replica-priority"]);
        assert_eq!(get(&load("save 3600 1\nsave \"\"").unwrap(), "save"), "");
    }

    #[test]
    fn wrong_directives_are_refused_with_their_place_and_reason() {
        for (text, message) in [
            ("prot 1", "Bad directive or wrong number of arguments"),
            ("port", "wrong number of arguments"),
            ("port 1 2", "wrong number of arguments"),
            ("port many", "argument couldn't be parsed into an integer"),
            ("appendonly yes", "append-only file"),
            ("replicaof 127.0.0.1 6379", "does not replicate"),
            ("min-replicas-to-write 1", "does not replicate"),
            ("tls-port 6380", "TLS"),
            ("cluster-enabled yes", "cluster"),
            ("user default on", "'user' is not possible"),
            (
                "maxmemory-policy oldest",
                "must be one of the following: volatile-lru, volatile-lfu, ",
            ),
        ] {
            let error = load(&format!("\n{text}\n")).unwrap_err();
            assert_eq!(error.place.as_ref().map(|place| place.line), Some(2), "{text}");
            assert!(error.message.contains(message), "{text}: {}", error.message);
        }
    }

    #[test]
    fn value_that_is_not_possible_is_refused_only_where_it_stands_at_the_end() {
        let check = |text: &'static str, options: &[&str], line: Option<usize>| {
            let options = options.iter().map(|&word| word.to_owned());
            let arguments: Vec<String> = std::iter::once("-".to_owned()).chain(options).collect();
            let loaded = from_command_line(&arguments, || Ok(text.as_bytes().to_vec()));
            let found = loaded.err().map(|error| error.place.expect("it stands somewhere").line);
            assert_eq!(found, line, "{text} {arguments:?}");
        };
        let file = "port 1\ndaemonize yes\nappendonly yes\n";
        check(file, &[], Some(2));
        check(file, &["--daemonize", "no"], Some(3));
        check(file, &["--daemonize", "no", "--appendonly", "no"], None);
        check(file, &["--appendonly", "no", "--daemonize", "no", "--daemonize", "yes"], Some(0));
        check("daemonize yes\ndaemonize no", &[], None);
        check("daemonize no\ndaemonize yes", &[], Some(2));
        check("slaveof 127.0.0.1 6379", &["--replicaof", ""], None);
        check("slaveof 127.0.0.1 6379", &["--replicaof", "no", "one"], None);
        check("lua-replicate-commands yes", &[], None);
    }

    #[test]
    fn config_set_changes_all_or_nothing() {
        let config = Config::default();
        let next = change(&config, &[("maxmemory", "1gb"), ("Timeout", "5")]).unwrap();
        assert_eq!(get(&next, "maxmemory"), "1073741824");
        assert_eq!(get(&next, "timeout"), "5");
        let refusal = |name: &str, reason: &str| SetError::Refused {
            name: name.to_owned(),
            reason: reason.to_owned(),
        };
        let unknown = change(&config, &[("maxmemory", "1gb"), ("nope", "1")]).unwrap_err();
        assert_eq!(unknown, SetError::Unknown { name: b"nope".to_vec() });
        for (name, value, reason) in [
            ("maxmemory", "x", "argument must be a memory value"),
            ("port", "1", "can't set immutable config"),
            (
                "client-query-buffer-limit",
                "3221225473",
                "argument must be between 1048576 and 3221225472 inclusive",
            ),
            (
                "appendonly",
                "yes",
                "Forebay does not write an append-only file: only 'no' is possible",
            ),
        ] {
            assert_eq!(change(&config, &[(name, value)]).unwrap_err(), refusal(name, reason));
        }
        let twice = change(&config, &[("timeout", "1"), ("timeout", "2")]).unwrap_err();
        assert_eq!(twice, refusal("timeout", "duplicate parameter"));
    }

    #[test]
    fn config_set_of_options_without_effect_is_noticed_once() {
        let config = load("io-threads 4").unwrap();
        let pairs = [("activerehashing", "no"), ("timeout", "5"), ("appendonly", "no")];
        let next = change(&config, &pairs).unwrap();
        assert_eq!(next.noticed(), ["io-threads", "activerehashing"]);
        let again = change(&next, &pairs).unwrap();
        assert_eq!(again.noticed(), next.noticed());
    }

    #[test]
    fn config_get_shows_names_and_aliases() {
        let config = Config::default();
        let names = |wanted: fn(&str, bool) -> bool| -> Vec<String> {
            config.matching(&wanted).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(|name, _| name == "maxmemory"), ["maxmemory"]);
        assert_eq!(names(|name, _| name == "slaveof"), ["slaveof"]);
        assert!(names(|_, _| true).len() > 180);
        assert!(names(|_, is_hidden| is_hidden).contains(&"watchdog-period".to_owned()));
    }

    #[test]
    fn command_line_wins_over_the_file_on_standard_input() {
        let arguments = ["-", "--port", "1", "--save", ""].map(str::to_owned);
        let text = || Ok(b"port 2\ntimeout 3\nsave 1 1\n".to_vec());
        let config = from_command_line(&arguments, text).unwrap();
        assert_eq!(get(&config, "port"), "1");
        assert_eq!(get(&config, "timeout"), "3");
        assert_eq!(get(&config, "save"), "");
        let missing = ["/nonexistent/redis.conf".to_owned()];
        let error = from_command_line(&missing, || Ok(Vec::new())).unwrap_err();
        assert!(error.message.contains("Can't open config file"), "{error}");
    }
}
