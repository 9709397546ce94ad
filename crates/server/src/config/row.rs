//! One configuration option as a row, and the kinds of values that rows take.
//!
//! A value is kept as its canonical text, the one that CONFIG GET shows. Error texts are Redis's.

/// One option of the configuration.
#[derive(Debug)]
pub struct Row {
    /// The name, lower case.
    pub name: &'static str,
    /// An older name that means the same.
    pub alias: Option<&'static str>,
    /// Which values it takes.
    pub kind: Kind,
    /// The value when nobody sets it, canonical.
    pub default: &'static str,
    /// When it can be set.
    pub when: When,
    /// Whether setting it changes anything.
    pub effect: Effect,
    /// Whether CONFIG GET shows it only to who asks by its name: Redis's own, for its tests.
    pub is_hidden: bool,
    /// What it does, in a sentence, with its unit.
    pub doc: &'static str,
}

/// When an option can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At start and by CONFIG SET.
    Always,
    /// At start only.
    Start,
    /// At start, and by CONFIG SET where `enable-protected-configs` lets it.
    Protected,
}

/// Whether an option changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It does what its documentation says.
    Effective,
    /// It is known from Redis and has no meaning here: accepted, shown, and noted in the log.
    Accepted,
}

impl Row {
    /// The parts that most effective rows share.
    pub const EFFECTIVE: Row = Row {
        name: "",
        alias: None,
        kind: Kind::Text,
        default: "",
        when: When::Always,
        effect: Effect::Effective,
        is_hidden: false,
        doc: "",
    };

    /// The parts that all rows without meaning here share.
    pub const ACCEPTED: Row = Row {
        effect: Effect::Accepted,
        doc: "Known from Redis, without effect here.",
        ..Row::EFFECTIVE
    };
}

/// Which values an option takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Flag,
    /// A whole number within bounds, both included.
    Integer {
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
    },
    /// A whole number within bounds, of which what is kept is the nearest within others.
    Clamped {
        /// The least and the greatest value that are accepted.
        accepted: (i64, i64),
        /// The least and the greatest value that have a meaning.
        kept: (i64, i64),
    },
    /// A number of bytes with an optional unit, within bounds, both included.
    Memory {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// Bytes as in `Memory`, or a percentage.
    MemoryOrPercent,
    /// File permissions in octal.
    Permissions,
    /// One word out of a list.
    Choice(&'static [&'static str]),
    /// Any one text.
    Text,
    /// Any number of words.
    Words,
    /// Classes of keyspace events, a letter each.
    EventClasses,
    /// Numbers from 0 to 100.
    Percentiles,
    /// Addresses to listen on, as `bind` takes them.
    Addresses,
    /// How a signal shuts down: `default`, or some of `save`, `nosave`, `now` and `force`.
    ShutdownModes,
    /// Three scores for the kernel's choice of a process to kill.
    OomScores,
    /// A version: three numbers.
    Version,
    /// Only the default, because what other values ask for does not exist here; the text says so.
    Only(&'static str),
    /// No primary to follow: `no one` or nothing; the text says why.
    NoPrimary(&'static str),
    /// A power of two of bytes within bounds, or 0.
    PowerOfTwo {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// Pairs of seconds and changes, as `save` takes them.
    SaveSchedule,
    /// Groups of class, hard limit, soft limit and seconds, as `client-output-buffer-limit`.
    OutputLimits,
}

impl Kind {
    /// Returns whether a value that asks for what does not exist here is refused.
    pub fn may_be_impossible(&self) -> bool {
        matches!(self, Kind::Only(_) | Kind::NoPrimary(_))
    }

    /// Returns whether a line may give it any number of words, none included. Whether none mean
    /// something is for [`Kind::canonical`] to say.
    pub fn takes_several(&self) -> bool {
        matches!(
            self,
            Kind::Words
                | Kind::Addresses
                | Kind::ShutdownModes
                | Kind::OomScores
                | Kind::SaveSchedule
                | Kind::Percentiles
                | Kind::OutputLimits
        )
    }

    /// Returns the canonical text of `arguments`; `current` is the value they change.
    ///
    /// # Errors
    /// Redis's words for what is wrong with the arguments.
    pub fn canonical(&self, arguments: &[String], current: &str) -> Result<String, String> {
        match self {
            Kind::Words => return Ok(arguments.join(" ")),
            Kind::Addresses => return addresses(arguments),
            Kind::ShutdownModes => return shutdown_modes(arguments),
            Kind::OomScores => return oom_scores(arguments),
            Kind::SaveSchedule => return save_schedule(arguments),
            Kind::Percentiles => return percentiles(arguments),
            Kind::OutputLimits => return OutputLimits::parse(current).changed(arguments),
            Kind::Only(_) if arguments.len() != 1 => {
                return Err("wrong number of arguments".to_owned());
            }
            Kind::Only(reason) => {
                let same = arguments.join(" ").eq_ignore_ascii_case(current);
                return if same { Ok(current.to_owned()) } else { Err((*reason).to_owned()) };
            }
            Kind::NoPrimary(reason) => return no_primary(arguments, reason),
            _ => {}
        }
        let [argument] = arguments else {
            return Err("wrong number of arguments".to_owned());
        };
        match self {
            Kind::Flag => choice(argument, &["yes", "no"])
                .ok_or_else(|| "argument must be 'yes' or 'no'".to_owned()),
            Kind::Integer { min, max } => Ok(integer(argument, *min, *max)?.to_string()),
            Kind::Clamped { accepted: (min, max), kept: (least, most) } => {
                Ok(integer(argument, *min, *max)?.clamp(*least, *most).to_string())
            }
            Kind::Memory { min, max } => Ok(memory(argument, *min, *max)?.to_string()),
            Kind::PowerOfTwo { min, max } => power_of_two(argument, *min, *max),
            Kind::MemoryOrPercent => memory_or_percent(argument),
            Kind::Permissions => permissions(argument),
            Kind::Version => version(argument),
            Kind::EventClasses => event_classes(argument),
            Kind::Choice(words) => choice(argument, words).ok_or_else(|| one_of(words)),
            _ => Ok(argument.clone()),
        }
    }
}

/// Addresses in one `bind`, as in Redis.
const ADDRESSES_MAX: usize = 16;

fn addresses(arguments: &[String]) -> Result<String, String> {
    let words = split(arguments);
    if words.len() > ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".to_owned());
    }
    Ok(words.join(" "))
}

/// What a signal may ask of a shutdown, in the order in which CONFIG GET shows it.
const SHUTDOWN_MODES: [&str; 5] = ["default", "save", "nosave", "now", "force"];

fn shutdown_modes(arguments: &[String]) -> Result<String, String> {
    let mut wanted = [false; SHUTDOWN_MODES.len()];
    let words = split(arguments);
    for word in &words {
        let index = SHUTDOWN_MODES.iter().position(|mode| mode.eq_ignore_ascii_case(word));
        wanted[index.ok_or_else(|| one_of(&SHUTDOWN_MODES))?] = true;
    }
    if words.is_empty() {
        return Err(one_of(&SHUTDOWN_MODES));
    }
    if wanted[1] && wanted[2] {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".to_owned());
    }
    // What is wanted beside the default is told alone.
    wanted[0] = !wanted[1..].contains(&true);
    let modes = SHUTDOWN_MODES.iter().zip(wanted).filter(|(_, wanted)| *wanted);
    Ok(modes.map(|(mode, _)| *mode).collect::<Vec<_>>().join(" "))
}

fn oom_scores(arguments: &[String]) -> Result<String, String> {
    let words = split(arguments);
    if words.len() != 3 {
        return Err("wrong number of arguments".to_owned());
    }
    let is_score =
        |word: &&str| word.parse().is_ok_and(|score: i32| (-2000..=2000).contains(&score));
    if !words.iter().all(is_score) {
        let fault = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
        return Err(fault.to_owned());
    }
    Ok(words.join(" "))
}

fn version(argument: &str) -> Result<String, String> {
    let parts: Vec<&str> = argument.split('.').collect();
    let is_number =
        |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok();
    match parts.len() == 3 && parts.iter().all(is_number) {
        true => Ok(argument.to_owned()),
        false => Err("argument must be a version: three numbers below 256, as in 7.2.4".to_owned()),
    }
}

/// The classes of keyspace events that `A` stands for, in the order in which CONFIG GET shows them;
/// `n` comes with them where they are not all.
const EVENT_CLASSES: &str = "g$lshzxetd";

/// Source: Redis 7.2, `keyspaceEventsStringToFlags` and `keyspaceEventsFlagsToString`.
fn event_classes(argument: &str) -> Result<String, String> {
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

fn split(arguments: &[String]) -> Vec<&str> {
    arguments.iter().flat_map(|text| text.split_whitespace()).collect()
}

fn one_of(words: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", words.join(", "))
}

fn no_primary(arguments: &[String], reason: &str) -> Result<String, String> {
    match split(arguments).as_slice() {
        [] => Ok(String::new()),
        [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => {
            Ok(String::new())
        }
        _ => Err(reason.to_owned()),
    }
}

fn choice(argument: &str, words: &[&'static str]) -> Option<String> {
    let word = words.iter().find(|word| word.eq_ignore_ascii_case(argument))?;
    Some((*word).to_owned())
}

fn integer(argument: &str, min: i64, max: i64) -> Result<i64, String> {
    // As in Redis, `+5` and `05` are no numbers.
    let value = argument.parse::<i64>().ok().filter(|value| value.to_string() == argument);
    let Some(value) = value else {
        return Err("argument couldn't be parsed into an integer".to_owned());
    };
    in_bounds(value, min, max)
}

fn in_bounds<N: PartialOrd + std::fmt::Display>(value: N, min: N, max: N) -> Result<N, String> {
    if value < min || value > max {
        return Err(format!("argument must be between {min} and {max} inclusive"));
    }
    Ok(value)
}

fn memory(argument: &str, min: u64, max: u64) -> Result<u64, String> {
    let value =
        parse_memory(argument).ok_or_else(|| "argument must be a memory value".to_owned())?;
    in_bounds(value, min, max)
}

/// Returns the bytes that `text` means, as `100`, `1k` (1000), `1kb` (1024), `5GB`; none if it
/// means none or more than 64 bits hold.
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
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

fn power_of_two(argument: &str, min: u64, max: u64) -> Result<String, String> {
    if memory(argument, 0, max)? == 0 {
        return Ok("0".to_owned());
    }
    let value = memory(argument, min, max)?;
    if !value.is_power_of_two() {
        return Err("argument must be 0 or a power of two of bytes".to_owned());
    }
    Ok(value.to_string())
}

const NO_MEMORY_OR_PERCENT: &str = "argument must be a memory or percent value";

fn memory_or_percent(argument: &str) -> Result<String, String> {
    if let Some(percent) = argument.strip_suffix('%') {
        return match percent.parse::<u8>() {
            Ok(value) if value <= 100 => Ok(format!("{value}%")),
            _ if percent.starts_with('-') => Err(NO_MEMORY_OR_PERCENT.to_owned()),
            _ => Err("percentage argument must be less or equal to 100".to_owned()),
        };
    }
    match parse_memory(argument) {
        Some(value) => Ok(value.to_string()),
        None => Err(NO_MEMORY_OR_PERCENT.to_owned()),
    }
}

fn permissions(argument: &str) -> Result<String, String> {
    let Ok(value) = u32::from_str_radix(argument, 8) else {
        return Err("argument couldn't be parsed as an octal number".to_owned());
    };
    if value > 0o777 {
        return Err("argument must be between 0 and 777 inclusive".to_owned());
    }
    Ok(format!("{value:o}"))
}

/// Accepts numbers from 0 to 100, as words of their own or within one word.
fn percentiles(arguments: &[String]) -> Result<String, String> {
    let mut texts = Vec::new();
    for word in arguments.iter().flat_map(|text| text.split_whitespace()) {
        let Ok(value) = word.parse::<f64>() else {
            return Err("Invalid latency-tracking-info-percentiles parameters".to_owned());
        };
        if !(0.0..=100.0).contains(&value) {
            return Err("latency-tracking-info-percentiles parameters should sit between \
                        [0.0,100.0]"
                .to_owned());
        }
        texts.push(value.to_string());
    }
    Ok(texts.join(" "))
}

/// Accepts pairs of seconds and changes, as words of their own or within one word.
fn save_schedule(arguments: &[String]) -> Result<String, String> {
    let words = split(arguments);
    if !words.len().is_multiple_of(2) {
        return Err("Invalid save parameters".to_owned());
    }
    for pair in words.chunks_exact(2) {
        let (seconds, changes) = (pair[0].parse::<i64>(), pair[1].parse::<i64>());
        let valid = matches!((seconds, changes), (Ok(1..), Ok(0..)));
        if !valid {
            return Err("Invalid save parameters".to_owned());
        }
    }
    Ok(words.join(" "))
}

/// How much unsent output a client may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// At this many bytes the client is closed at once; 0 for no limit.
    pub hard_bytes: u64,
    /// Above this many bytes for `soft_seconds` the client is closed; 0 for no limit.
    pub soft_bytes: u64,
    /// How long the soft limit may be exceeded.
    pub soft_seconds: u64,
}

/// The output limits of the classes of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    classes: [OutputLimit; 3],
}

/// The names of the classes, in the order in which CONFIG GET shows them.
pub const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

impl OutputLimits {
    /// Reads the canonical text.
    pub fn parse(canonical: &str) -> OutputLimits {
        let mut limits = OutputLimits {
            classes: [OutputLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 }; 3],
        };
        let words: Vec<&str> = canonical.split_whitespace().collect();
        for group in words.chunks_exact(4) {
            limits.change(group).expect("a canonical text was checked when it was made");
        }
        limits
    }

    /// Returns the limits in the order of [`CLASSES`].
    pub fn classes(&self) -> [OutputLimit; 3] {
        self.classes
    }

    /// Returns the limit of ordinary clients.
    pub fn normal(&self) -> OutputLimit {
        self.classes[0]
    }

    fn changed(mut self, arguments: &[String]) -> Result<String, String> {
        let words = split(arguments);
        let is_empty_word = words.is_empty() && !arguments.is_empty();
        if is_empty_word || !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
        }
        for group in words.chunks_exact(4) {
            self.change(group)?;
        }
        let show = |(name, limit): (&str, OutputLimit)| {
            let OutputLimit { hard_bytes, soft_bytes, soft_seconds } = limit;
            format!("{name} {hard_bytes} {soft_bytes} {soft_seconds}")
        };
        let groups: Vec<String> = CLASSES.into_iter().zip(self.classes).map(show).collect();
        Ok(groups.join(" "))
    }

    fn change(&mut self, group: &[&str]) -> Result<(), String> {
        let class = if group[0].eq_ignore_ascii_case("replica") { "slave" } else { group[0] };
        let Some(index) = CLASSES.iter().position(|name| name.eq_ignore_ascii_case(class)) else {
            return Err("Invalid client class specified in buffer limit configuration.".to_owned());
        };
        let values = (parse_memory(group[1]), parse_memory(group[2]), group[3].parse::<u64>());
        let (Some(hard_bytes), Some(soft_bytes), Ok(soft_seconds)) = values else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit \
                        configuration."
                .to_owned());
        };
        self.classes[index] = OutputLimit { hard_bytes, soft_bytes, soft_seconds };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, arguments: &[&str], expected: Result<&str, &str>) {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        let found = kind.canonical(&arguments, "normal 0 0 0 slave 1 2 3 pubsub 4 5 6");
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{kind:?} {arguments:?}");
    }

    #[test]
    fn values_become_canonical_or_are_refused_in_the_words_of_redis() {
        let integer = Kind::Integer { min: 1, max: 10 };
        let memory = Kind::Memory { min: 0, max: u64::MAX };
        check(Kind::Flag, &["YES"], Ok("yes"));
        check(Kind::Flag, &["on"], Err("argument must be 'yes' or 'no'"));
        check(integer, &["7"], Ok("7"));
        check(integer, &["11"], Err("argument must be between 1 and 10 inclusive"));
        check(integer, &["7x"], Err("argument couldn't be parsed into an integer"));
        check(integer, &["1", "2"], Err("wrong number of arguments"));
        for wrong in ["+7", "07", " 7", "", "1.5"] {
            check(integer, &[wrong], Err("argument couldn't be parsed into an integer"));
        }
        let clamped = Kind::Clamped { accepted: (0, 9), kept: (1, 5) };
        check(clamped, &["0"], Ok("1"));
        check(clamped, &["3"], Ok("3"));
        check(clamped, &["9"], Ok("5"));
        check(clamped, &["10"], Err("argument must be between 0 and 9 inclusive"));
        check(memory, &["100"], Ok("100"));
        check(memory, &["1kB"], Ok("1024"));
        check(memory, &["2g"], Ok("2000000000"));
        check(memory, &["2gb"], Ok("2147483648"));
        check(memory, &["-1"], Err("argument must be a memory value"));
        check(memory, &["1tb"], Err("argument must be a memory value"));
        check(memory, &["99999999999999gb"], Err("argument must be a memory value"));
        check(Kind::Permissions, &["770"], Ok("770"));
        check(Kind::Permissions, &["779"], Err("argument couldn't be parsed as an octal number"));
        check(Kind::Permissions, &["7770"], Err("argument must be between 0 and 777 inclusive"));
        let words = Kind::Choice(&["noeviction", "allkeys-lru"]);
        check(words, &["Allkeys-LRU"], Ok("allkeys-lru"));
        let text = "argument(s) must be one of the following: noeviction, allkeys-lru";
        check(words, &["random"], Err(text));
        check(Kind::Only("no such thing here"), &["yes"], Err("no such thing here"));
        check(Kind::Only("no such thing here"), &["no", "no"], Err("wrong number of arguments"));
        let primary = Kind::NoPrimary("no primary");
        check(primary, &["NO", "one"], Ok(""));
        check(primary, &["no one"], Ok(""));
        check(primary, &[""], Ok(""));
        check(primary, &["127.0.0.1", "6379"], Err("no primary"));
        check(Kind::MemoryOrPercent, &["5%"], Ok("5%"));
        let percent = "percentage argument must be less or equal to 100";
        check(Kind::MemoryOrPercent, &["101%"], Err(percent));
        check(Kind::MemoryOrPercent, &["-5%"], Err("argument must be a memory or percent value"));
        check(Kind::Addresses, &["127.0.0.1", "-::1"], Ok("127.0.0.1 -::1"));
        check(Kind::Addresses, &["a"; 17], Err("Too many bind addresses specified."));
        check(Kind::Version, &["6.2.14"], Ok("6.2.14"));
        for wrong in ["7", "7.2", "7.2.x", "7.2.4.1", "7.2.256", "7.2.+4", ""] {
            let text = "argument must be a version: three numbers below 256, as in 7.2.4";
            check(Kind::Version, &[wrong], Err(text));
        }
        let size = Kind::PowerOfTwo { min: 1024, max: 4096 };
        check(size, &["2kb"], Ok("2048"));
        check(size, &["3kb"], Err("argument must be 0 or a power of two of bytes"));
    }

    #[test]
    fn modes_of_a_shutdown_are_words_of_the_list_in_its_order() {
        let modes = Kind::ShutdownModes;
        check(modes, &["NOW", "save"], Ok("save now"));
        check(modes, &["nosave force"], Ok("nosave force"));
        check(modes, &["default", "save"], Ok("save"));
        check(modes, &["default"], Ok("default"));
        let both = "shutdown options SAVE and NOSAVE can't be used simultaneously";
        check(modes, &["save", "nosave"], Err(both));
        let list = "argument(s) must be one of the following: default, save, nosave, now, force";
        check(modes, &["later"], Err(list));
        check(modes, &[""], Err(list));
    }

    #[test]
    fn three_scores_are_within_the_kernels_bounds_twice() {
        check(Kind::OomScores, &["0", "200", "800"], Ok("0 200 800"));
        check(Kind::OomScores, &["-2000 0 2000"], Ok("-2000 0 2000"));
        check(Kind::OomScores, &["0", "200"], Err("wrong number of arguments"));
        let bounds = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
        check(Kind::OomScores, &["0", "200", "2001"], Err(bounds));
        check(Kind::OomScores, &["0", "200", "x"], Err(bounds));
    }

    #[test]
    fn save_schedule_takes_pairs_in_any_grouping() {
        check(Kind::SaveSchedule, &[""], Ok(""));
        check(Kind::SaveSchedule, &["3600 1 300 100"], Ok("3600 1 300 100"));
        check(Kind::SaveSchedule, &["3600", "1"], Ok("3600 1"));
        check(Kind::SaveSchedule, &["3600"], Err("Invalid save parameters"));
        check(Kind::SaveSchedule, &["0", "1"], Err("Invalid save parameters"));
    }

    #[test]
    fn output_limits_change_the_named_classes_only() {
        let changed = "normal 0 0 0 slave 1 2 3 pubsub 33554432 8388608 60";
        check(Kind::OutputLimits, &["pubsub", "32mb", "8mb", "60"], Ok(changed));
        check(
            Kind::OutputLimits,
            &["normal 1 2 3 replica 4 5 6"],
            Ok("normal 1 2 3 slave 4 5 6 pubsub 4 5 6"),
        );
        let class = "Invalid client class specified in buffer limit configuration.";
        check(Kind::OutputLimits, &["master", "1", "1", "1"], Err(class));
        let count = "Wrong number of arguments in buffer limit configuration.";
        check(Kind::OutputLimits, &["normal", "1", "1"], Err(count));
    }
}
