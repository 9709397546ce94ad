//! How much unsent output the classes of clients may have.

use super::bytes::{parse_memory, with_unit};
use super::{Kind, Typed, lenient_integer, split};

/// Groups of class, hard limit, soft limit and seconds, as `client-output-buffer-limit`.
#[derive(Clone, Copy, Debug)]
pub struct OutputLimits;

impl Kind for OutputLimits {
    fn canonical(&self, arguments: &[String], current: &str) -> Result<String, String> {
        let words = split(arguments);
        let is_empty_word = words.is_empty() && !arguments.is_empty();
        if is_empty_word || !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
        }
        let mut limits = parse(current);
        for group in words.chunks_exact(4) {
            change(&mut limits, group)?;
        }
        let show = |(name, limit): (&str, OutputLimit)| {
            let OutputLimit { hard_bytes, soft_bytes, soft_seconds } = limit;
            format!("{name} {hard_bytes} {soft_bytes} {soft_seconds}")
        };
        let groups: Vec<String> = CLASSES.into_iter().zip(limits).map(show).collect();
        Ok(groups.join(" "))
    }

    fn values(&self) -> String {
        "class, hard bytes, soft bytes, seconds; repeated".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["normal 0 0 0", "pubsub 1kb 2kb 3 replica 1 2 3"])
    }

    fn takes_several(&self) -> bool {
        true
    }

    fn arguments(&self, text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// One line for each class that is not as it is by default.
    fn written(&self, value: &str, default: Option<&str>) -> Vec<String> {
        let usual = default.map(parse);
        let limits = CLASSES.into_iter().zip(parse(value)).enumerate();
        let changed =
            limits.filter(|(index, (_, limit))| usual.is_none_or(|usual| usual[*index] != *limit));
        let line = |(_, (class, limit)): (usize, (&str, OutputLimit))| {
            let bytes = |bytes: u64| with_unit(&bytes.to_string());
            let (hard, soft) = (bytes(limit.hard_bytes), bytes(limit.soft_bytes));
            format!("{class} {hard} {soft} {}", limit.soft_seconds)
        };
        changed.map(line).collect()
    }
}

/// How much unsent output a client may have beyond its reply buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// At this many bytes the client is closed at once; 0 for no limit.
    pub hard_bytes: u64,
    /// At this many bytes for `soft_seconds` the client is closed; 0 for no limit.
    pub soft_bytes: u64,
    /// How long the soft limit may be exceeded.
    pub soft_seconds: u32,
}

/// The limit of ordinary clients: there are none of the other classes.
impl Typed<OutputLimit> for OutputLimits {
    fn value(&self, canonical: &str) -> OutputLimit {
        parse(canonical)[0]
    }
}

/// The names of the classes, in the order in which CONFIG GET shows them.
const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// Returns the limits of `canonical` in the order of [`CLASSES`].
fn parse(canonical: &str) -> [OutputLimit; 3] {
    let mut limits = [OutputLimit::default(); 3];
    let words: Vec<&str> = canonical.split_whitespace().collect();
    for group in words.chunks_exact(4) {
        change(&mut limits, group).expect("a canonical text was checked when it was made");
    }
    limits
}

fn change(limits: &mut [OutputLimit; 3], group: &[&str]) -> Result<(), String> {
    let class = if group[0].eq_ignore_ascii_case("replica") { "slave" } else { group[0] };
    let Some(index) = CLASSES.iter().position(|name| name.eq_ignore_ascii_case(class)) else {
        return Err("Invalid client class specified in buffer limit configuration.".to_owned());
    };
    // As in Redis, an `int`.
    let seconds = lenient_integer(group[3]).and_then(|seconds| i32::try_from(seconds).ok());
    let soft_seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
    let values = (parse_memory(group[1]), parse_memory(group[2]), soft_seconds);
    let (Some(hard_bytes), Some(soft_bytes), Some(soft_seconds)) = values else {
        let fault = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        return Err(fault.to_owned());
    };
    limits[index] = OutputLimit { hard_bytes, soft_bytes, soft_seconds };
    Ok(())
}
