//! The configuration: one table of rows, filled from a redis.conf, standard input, the command
//! line and CONFIG SET, shown by CONFIG GET and written back by CONFIG REWRITE.

mod accepted;
pub mod check;
mod command_line;
pub mod describe;
mod file;
pub mod kind;
pub mod notice;
pub mod options;
pub mod rewrite;
pub mod row;
mod settings;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::LazyLock;

pub use accepted::IGNORED;
pub use command_line::{CommandLine, read_options};
pub use file::{ConfigError, Directive, Found, Place, file_error, read_text, with_includes};
pub use options::Settings;
pub use settings::{Allowed, OomScore};

use command::ConfigError as SetError;
use options::Daemon;
use row::{Effect, Row, When};

/// Returns every option there is.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    options::ROWS.iter().copied().flatten().copied().chain(accepted::ROWS)
}

/// Returns the option that `name` means, in any case.
pub fn find(name: &str) -> Option<&'static Row> {
    static BY_NAME: LazyLock<HashMap<&str, &Row>> = LazyLock::new(|| {
        let names = |row: &'static Row| [Some(row.name), row.alias].into_iter().flatten();
        rows().flat_map(|row| names(row).map(move |name| (name, row))).collect()
    });
    BY_NAME.get(name.to_ascii_lowercase().as_str()).copied()
}

/// The value of every option.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Canonical texts by the option's name, of those that were set.
    values: BTreeMap<&'static str, String>,
    /// The same of those that are not as their rows say while nobody sets them.
    assumed: BTreeMap<&'static str, String>,
    /// The options without effect that somebody set, in the order in which they were first.
    noticed: Vec<&'static str>,
}

impl Config {
    /// Applies `found` in order; a later directive replaces an earlier one, except where an option
    /// gathers (`save`, `client-output-buffer-limit`).
    ///
    /// # Errors
    /// The first that is unknown or has a wrong value; then the first that stands at the end and
    /// asks for what is not possible.
    pub fn load(&mut self, found: impl IntoIterator<Item = Found>) -> Result<(), ConfigError> {
        let mut impossible = Impossible::default();
        for found in found {
            self.apply(&found?, &mut impossible)?;
        }
        impossible.into_errors().next().map_or(Ok(()), Err)
    }

    /// Applies `directive`, or leaves it in `impossible` if it asks for what is not possible: a
    /// later one may take its place.
    fn apply(
        &mut self,
        directive: &Directive,
        impossible: &mut Impossible,
    ) -> Result<(), ConfigError> {
        let Directive { name, arguments, place } = directive;
        if accepted::IGNORED.contains(&name.as_str()) {
            return Ok(());
        }
        let Some(row) = find(name) else { return Err(unknown(name, place)) };
        let takes_several = row.kind.takes_several();
        let arguments = match takes_several && is_blank(arguments) {
            true => &[],
            false => arguments.as_slice(),
        };
        if arguments.is_empty() && !takes_several {
            return Err(ConfigError::at(place, "wrong number of arguments"));
        }
        let canonical = row.kind.canonical(arguments, self.text(row));
        let canonical = canonical.map_err(|message| ConfigError::at(place, message));
        if row.kind.refusal().is_some() {
            // What is possible is the default, which has not been replaced.
            impossible.replace(row, canonical.err());
            return Ok(());
        }
        let value = row.kind.gathered(self.text(row), arguments, canonical?);
        self.values.insert(row.name, value);
        self.notice(row);
        Ok(())
    }

    /// Returns the canonical value of `row`.
    pub fn text(&self, row: &Row) -> &str {
        self.values.get(row.name).map_or_else(|| self.default_of(row), String::as_str)
    }

    /// Returns the canonical value of `row` while nobody sets it.
    pub fn default_of(&self, row: &Row) -> &str {
        self.assumed.get(row.name).map_or(row.default, String::as_str)
    }

    /// Has `row` be `value`, which is canonical, while nobody sets it.
    pub fn assume(&mut self, row: &Row, value: impl Into<String>) {
        self.assumed.insert(row.name, value.into());
    }

    /// Returns a configuration in which nobody has set anything, with the same defaults.
    pub fn unset(&self) -> Config {
        Config { assumed: self.assumed.clone(), ..Config::default() }
    }

    /// Returns the typed values.
    pub fn settings(&self) -> Settings {
        Settings::read(|row| self.text(row))
    }

    /// Shows `directory`, absolute, as the working directory: Redis's CONFIG GET answers with the
    /// process's own, whatever path led there.
    pub fn show_directory(&mut self, directory: &Path) {
        self.values.insert(Daemon::directory().name, directory.display().to_string());
    }

    /// Sets `row` to `value`, which is canonical: for what the process finds out by itself.
    pub fn fix(&mut self, row: &Row, value: impl Into<String>) {
        self.values.insert(row.name, value.into());
    }

    /// Returns the options without effect that were set, in the order in which they were first.
    pub fn noticed(&self) -> &[&'static str] {
        &self.noticed
    }

    /// Remembers that `row` was set, where that has no effect.
    fn notice(&mut self, row: &Row) {
        // Of a value that asks for nothing there is nothing to note.
        let asks = row.effect == Effect::Accepted
            && row.kind.refusal().is_none()
            && !row.kind.asks_for_nothing(self.text(row));
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
    /// `may_change_protected` lets those change that `enable-protected-configs` guards.
    ///
    /// # Errors
    /// The first pair that cannot be applied.
    pub fn changed(
        &self,
        pairs: &[(&[u8], &[u8])],
        may_change_protected: bool,
    ) -> Result<Config, SetError> {
        let mut next = self.clone();
        let mut seen: Vec<&str> = Vec::new();
        for (name, value) in pairs {
            let named = std::str::from_utf8(name).ok().and_then(|name| Some((name, find(name)?)));
            let Some((given, row)) = named else {
                return Err(SetError::Unknown { name: name.to_vec() });
            };
            // As in Redis: as it was given where it cannot be set at all, else in lower case.
            let refused_name =
                |why: &str| SetError::Refused { name: given.to_owned(), reason: why.to_owned() };
            match row.when {
                When::Start => return Err(refused_name("can't set immutable config")),
                When::Protected if !may_change_protected => {
                    return Err(refused_name("can't set protected config"));
                }
                When::Always | When::Protected => {}
            }
            if seen.contains(&row.name) {
                return Err(refused_name("duplicate parameter"));
            }
            let refused = |why: &str| SetError::Refused {
                name: given.to_ascii_lowercase(),
                reason: why.to_owned(),
            };
            seen.push(row.name);
            let value =
                std::str::from_utf8(value).map_err(|_| refused("argument must be UTF-8"))?;
            let canonical = row.kind.canonical(&row.kind.arguments(value), self.text(row));
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

    fn into_errors(self) -> impl Iterator<Item = ConfigError> {
        self.0.into_iter().map(|(_, error)| error)
    }
}

/// Returns why `row` was not set.
pub fn refused(row: &Row, why: &str) -> SetError {
    SetError::Refused { name: row.name.to_owned(), reason: why.to_owned() }
}

/// Returns whether `arguments` are one word of blanks. Redis splits a single word once more where
/// an option takes several, and finds none in it.
fn is_blank(arguments: &[String]) -> bool {
    matches!(arguments, [only] if !only.is_empty() && only.trim().is_empty())
}

fn unknown(name: &str, place: &Place) -> ConfigError {
    let refused = accepted::REFUSED.iter().find(|(known, _)| *known == name);
    match refused {
        Some((_, reason)) => ConfigError::at(place, format!("'{name}' is not possible: {reason}")),
        None => ConfigError::at(place, "Bad directive or wrong number of arguments"),
    }
}

/// Adds to `config` what `line` names: a file and what it includes, standard input if it is asked
/// for, and the options, which win over both.
///
/// # Errors
/// What is wrong with a directive or a file. An option that the command line sets back to what is
/// possible is not at fault, whatever the file says of it.
pub fn from_command_line(
    mut config: Config,
    line: &CommandLine,
    standard_input: impl FnOnce() -> std::io::Result<Vec<u8>>,
) -> Result<Config, ConfigError> {
    config.load(with_includes(line.read(standard_input)?))?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn load(text: &str) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        config.load(read_text(text.as_bytes(), None, 1))?;
        Ok(config)
    }

    fn get(config: &Config, name: &str) -> String {
        config.text(find(name).unwrap()).to_owned()
    }

    fn change(config: &Config, pairs: &[(&str, &str)]) -> Result<Config, SetError> {
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        config.changed(&pairs, false)
    }

    fn command_line(first: &str, options: &[&str], text: &str) -> Result<Config, ConfigError> {
        let arguments = std::iter::once(&first).chain(options).map(|&word| word.to_owned());
        let line = CommandLine::parse(&arguments.collect::<Vec<_>>());
        from_command_line(Config::default(), &line, || Ok(text.as_bytes().to_vec()))
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
            let arguments = row.kind.arguments(row.default);
            let canonical = row.kind.canonical(&arguments, config.text(row));
            assert_eq!(canonical.as_deref(), Ok(row.default), "{}", row.name);
        }
        let settings = config.settings();
        assert_eq!((settings.network.port, settings.network.max_clients), (6379, 10_000));
    }

    /// The bounds of a row are those of its kind, and its type is chosen beside it.
    #[test]
    fn every_value_that_a_row_takes_has_its_type() {
        for row in rows() {
            for sample in row.kind.samples() {
                let config = load(&format!("{} {sample}", row.name));
                config.unwrap_or_else(|error| panic!("{error}")).settings();
            }
        }
    }

    #[test]
    fn settings_hold_typed_values_and_what_follows_from_several() {
        let settings = |text: &str| load(text).unwrap().settings();
        let times = settings("timeout 7\ntcp-keepalive 0\nslowlog-log-slower-than 0");
        assert_eq!(times.network.timeout, Some(Duration::from_secs(7)));
        assert_eq!(times.network.tcp_keepalive, None);
        assert_eq!(times.latency.slow_log_from, Some(Duration::ZERO));
        assert_eq!(settings("slowlog-log-slower-than -1").latency.slow_log_from, None);
        let clients = |text: &str| settings(text).derived.clients_bytes_max;
        assert_eq!(clients("maxmemory 1gb\nmaxmemory-clients 25%"), Some(256 << 20));
        assert_eq!(clients("maxmemory-clients 25%"), None);
        assert_eq!(clients("maxmemory-clients 1"), Some(128 << 10));
        let segment = |text: &str| settings(text).derived.segment_bytes;
        assert_eq!([segment(""), segment("maxmemory 1gb")], [64 << 20, 4 << 20]);
        assert_eq!(segment("maxmemory 1gb\nsegment-size 2mb"), 2 << 20);
        let score = |mode: &str| settings(&format!("{mode}\noom-score-adj-values 9 8 7")).derived;
        assert_eq!(score("oom-score-adj no").oom_score, OomScore::Unchanged);
        assert_eq!(score("oom-score-adj yes").oom_score, OomScore::Relative(9));
        assert_eq!(score("oom-score-adj absolute").oom_score, OomScore::Absolute(9));
        let signals = settings("shutdown-on-sigint nosave force").process.shutdown_on_interrupt;
        assert_eq!((signals.save, signals.force), (Some(false), true));
        let policy = settings("maxmemory-policy ALLKEYS-LFU").memory.policy;
        assert_eq!(policy, keyspace::EvictionPolicy::ALLKEYS_LFU);
        assert_eq!(settings("shm-read-uids 7 x 8").sharing.readers, [7, 8]);
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
    fn options_of_several_words_may_stand_without_one_as_in_redis() {
        let check = |text: &str, name: &str, expected: &str| {
            let config = load(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(get(&config, name), expected, "{text}");
        };
        for bare in ["", " ", "\t", " \" \"", " \"\\t \""] {
            check(&format!("save{bare}\n"), "save", "");
            check(&format!("save 3600 1\nsave{bare}\nsave 1 2"), "save", "3600 1 1 2");
            let name = "latency-tracking-info-percentiles";
            check(&format!("{name} 1 2\n{name}{bare}"), name, "");
            let (name, limits) = ("client-output-buffer-limit", "normal 1 2 3");
            let found = load(&format!("{name} {limits}\n{name}{bare}\n")).map(|it| get(&it, name));
            assert!(found.is_ok_and(|found| found.starts_with(limits)), "{bare:?}");
            check(&format!("bind{bare}"), "bind", "");
            let modes = load(&format!("shutdown-on-sigint{bare}")).unwrap_err().to_string();
            let expected = "argument(s) must be one of the following: default, save, nosave, now, \
                            force";
            assert!(modes.ends_with(expected), "{modes}");
            let scores = load(&format!("oom-score-adj-values{bare}")).unwrap_err().to_string();
            assert!(scores.ends_with("wrong number of arguments"), "{scores}");
            let text = load(&format!("requirepass{bare}")).map(|it| get(&it, "requirepass"));
            assert_eq!(text.is_ok(), bare.contains('"'), "{bare:?}: one word is a text");
        }
        check("save 3600 1\nsave \"\"", "save", "");
        let error = load("client-output-buffer-limit \"\"").unwrap_err().to_string();
        assert!(error.ends_with("Wrong number of arguments in buffer limit configuration."));
        let found = command_line("-", &["--client-output-buffer-limit"], "").is_ok();
        assert!(found && command_line("-", &["--shutdown-on-sigint"], "").is_err());
    }

    /// The order, and what `A` stands for, are those of redis-server.
    #[test]
    fn classes_of_events_are_remembered_as_redis_shows_them() {
        for (given, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("g$lshzxetdKE", "AKE"),
            ("Kg$n", "g$nK"),
            ("nm", "nm"),
            ("xE", "xE"),
            ("KEAmnx", "AKEm"),
            ("AA", "A"),
            ("edtxzhsl$g", "A"),
            ("edtxzhs$g", "g$shzxetd"),
        ] {
            let config = load(&format!("notify-keyspace-events \"{given}\"")).unwrap();
            assert_eq!(get(&config, "notify-keyspace-events"), shown, "{given}");
            let noticed = if given.is_empty() { None } else { Some("notify-keyspace-events") };
            assert_eq!(config.noticed().first().copied(), noticed, "{given}");
            let set = change(&Config::default(), &[("notify-keyspace-events", given)]).unwrap();
            assert_eq!(get(&set, "notify-keyspace-events"), shown, "{given}");
        }
        for wrong in ["Q", "K E", "KEa", " "] {
            let error = load(&format!("notify-keyspace-events \"{wrong}\"")).unwrap_err();
            let text = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
            assert!(error.to_string().ends_with(text), "{error}");
        }
        assert!(
            load("notify-keyspace-events").is_err() && load("notify-keyspace-events K E").is_err()
        );
    }

    #[test]
    fn wrong_directives_are_refused_with_their_place_and_reason() {
        for (text, message) in [
            ("prot 1", "Bad directive or wrong number of arguments"),
            ("port", "wrong number of arguments"),
            ("port 1 2", "wrong number of arguments"),
            ("port many", "argument couldn't be parsed into an integer"),
            ("appenddirname a/b", "just a dirname"),
            ("replicaof 127.0.0.1 6379", "does not replicate"),
            ("min-replicas-to-write 1", "does not replicate"),
            ("tls-port 6380", "TLS"),
            ("compatible-redis-version 7", "three numbers"),
            ("cluster-enabled yes", "cluster"),
            ("user default on", "'user' is not possible"),
            (
                "maxmemory-policy oldest",
                "must be one of the following: volatile-lru, volatile-lfu, ",
            ),
        ] {
            let error = load(&format!("\n{text}\n")).unwrap_err();
            let ConfigError::Directive { place, message: found } = error else {
                panic!("{text}: {error}");
            };
            assert_eq!(place.line, 2, "{text}");
            assert!(found.contains(message), "{text}: {found}");
        }
    }

    #[test]
    fn value_that_is_not_possible_is_refused_only_where_it_stands_at_the_end() {
        let check = |text: &'static str, options: &[&str], line: Option<usize>| {
            let found = command_line("-", options, text).err().map(|error| match error {
                ConfigError::Directive { place, .. } => place.line,
                ConfigError::File(message) => panic!("{message}"),
            });
            assert_eq!(found, line, "{text} {options:?}");
        };
        let file = "port 1\ncluster-enabled yes\ntls-cluster yes\n";
        let (alone, both) = ("--cluster-enabled", "--tls-cluster");
        check(file, &[], Some(2));
        check(file, &[alone, "no"], Some(3));
        check(file, &[alone, "no", both, "no"], None);
        check(file, &[both, "no", alone, "no", alone, "yes"], Some(7));
        check("tls-cluster yes\ntls-cluster no", &[], None);
        check("tls-cluster no\ntls-cluster yes", &[], Some(2));
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
            ("databases", "1", "can't set immutable config"),
            (
                "client-query-buffer-limit",
                "3221225473",
                "argument must be between 1048576 and 3221225472 inclusive",
            ),
            ("tls-cluster", "yes", "Forebay does not speak TLS: only 'no' is possible"),
        ] {
            assert_eq!(change(&config, &[(name, value)]).unwrap_err(), refusal(name, reason));
        }
        let twice = change(&config, &[("timeout", "1"), ("timeout", "2")]).unwrap_err();
        assert_eq!(twice, refusal("timeout", "duplicate parameter"));
        for (name, value, shown, reason) in [
            ("Databases", "1", "Databases", "can't set immutable config"),
            ("SlaveOf", "x 1", "SlaveOf", "can't set immutable config"),
            ("TimeOut", "x", "timeout", "argument couldn't be parsed into an integer"),
            (
                "Slave-Priority",
                "x",
                "slave-priority",
                "argument couldn't be parsed into an integer",
            ),
        ] {
            assert_eq!(change(&config, &[(name, value)]).unwrap_err(), refusal(shown, reason));
        }
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
        let options = ["--port", "1", "--save", "5 5"];
        let config = command_line("-", &options, "port 2\ntimeout 3\nsave 1 1\n").unwrap();
        assert_eq!(get(&config, "port"), "1");
        assert_eq!(get(&config, "timeout"), "3");
        assert_eq!(get(&config, "save"), "1 1 5 5");
        assert_eq!(get(&command_line("-", &["--save"], "save 1 1").unwrap(), "save"), "");
        let error = command_line("/nonexistent/redis.conf", &[], "").unwrap_err().to_string();
        let expected =
            "Fatal error, can't open config file '/nonexistent/redis.conf': No such file";
        assert!(error.starts_with(expected), "{error}");
    }
}
