//! The kinds of values that options take. What there is to say of a kind stands in one place: which
//! texts it takes, the one of them that is kept, how a file holds that, and the typed value.
//!
//! A value is kept as its canonical text, the one that CONFIG GET shows. Error texts are Redis's.

mod bytes;
mod limit;
mod list;
mod number;
mod refused;
mod word;

use std::fmt::Debug;

pub use bytes::{Bytes, BytesOrPercent, PowerOfTwo, Share};
pub use limit::{OutputLimit, OutputLimits};
pub use list::{Addresses, OomScores, Percentiles, SaveSchedule, ShutdownModes, Words};
pub use number::{Clamped, Integer, Permissions, Time};
pub use refused::{NoPrimary, Only};
pub use word::{Checked, Choice, EventClasses, Flag, Named, OneOf, Text, Version};

use super::text::quoted_if_needed;

/// Which values an option takes.
pub trait Kind: Debug + Sync {
    /// Returns the canonical text of `arguments`; `current` is the value they change.
    ///
    /// # Errors
    /// Redis's words for what is wrong with the arguments.
    fn canonical(&self, arguments: &[String], current: &str) -> Result<String, String>;

    /// Returns which values there are, for people.
    fn values(&self) -> String;

    /// Returns arguments that tests try.
    #[cfg(test)]
    fn samples(&self) -> Vec<String>;

    /// Returns whether a line may give it any number of words, none included. Whether none mean
    /// something is for [`Kind::canonical`] to say.
    fn takes_several(&self) -> bool {
        false
    }

    /// Returns the arguments in the one text that CONFIG SET passes.
    fn arguments(&self, text: &str) -> Vec<String> {
        vec![text.to_owned()]
    }

    /// Returns what a line of a file makes of the current value, where its arguments alone would
    /// make `value`.
    fn gathered(&self, _current: &str, _arguments: &[String], value: String) -> String {
        value
    }

    /// Returns what stands behind the name in each of a file's lines that set it to `value`, which
    /// is not the default, the value without any; with no default, all of it has to stand.
    fn written(&self, value: &str, _default: Option<&str>) -> Vec<String> {
        let words: Vec<String> = value.split(' ').map(quoted_if_needed).collect();
        vec![words.join(" ")]
    }

    /// Returns why another value than the default is refused, where it asks for what does not exist
    /// here.
    fn refusal(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether `value` asks for nothing, so that there is nothing to note where the option
    /// has no effect.
    fn asks_for_nothing(&self, _value: &str) -> bool {
        false
    }
}

/// A kind whose values a setting of type `T` can hold.
pub trait Typed<T>: Kind {
    /// Returns the value of `canonical`, which [`Kind::canonical`] has made.
    fn value(&self, canonical: &str) -> T;
}

/// Returns the one argument that most kinds take.
fn only(arguments: &[String]) -> Result<&str, String> {
    match arguments {
        [argument] => Ok(argument),
        _ => Err("wrong number of arguments".to_owned()),
    }
}

/// Returns all words, whichever of them an argument holds.
fn split(arguments: &[String]) -> Vec<&str> {
    arguments.iter().flat_map(|text| text.split_whitespace()).collect()
}

/// Returns the number that `text` is to `strtoll` of C, by which Redis reads the numbers within
/// some options: it may have a sign and zeroes before it, and one beyond 64 bits is the nearest.
fn lenient_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let nearest = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    is_number.then(|| text.parse().unwrap_or(nearest))
}

fn one_of(words: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", words.join(", "))
}

fn in_bounds<N: PartialOrd + std::fmt::Display>(value: N, min: N, max: N) -> Result<N, String> {
    if value < min || value > max {
        return Err(format!("argument must be between {min} and {max} inclusive"));
    }
    Ok(value)
}

/// Returns `texts` as arguments that tests try.
#[cfg(test)]
fn sampled(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &dyn Kind, arguments: &[&str], expected: Result<&str, &str>) {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        let found = kind.canonical(&arguments, "normal 0 0 0 slave 1 2 3 pubsub 4 5 6");
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{kind:?} {arguments:?}");
    }

    #[test]
    fn values_become_canonical_or_are_refused_in_the_words_of_redis() {
        let integer = Integer { min: 1, max: 10 };
        let memory = Bytes { min: 0, max: u64::MAX };
        check(&Flag, &["YES"], Ok("yes"));
        check(&Flag, &["on"], Err("argument must be 'yes' or 'no'"));
        check(&integer, &["7"], Ok("7"));
        check(&integer, &["11"], Err("argument must be between 1 and 10 inclusive"));
        check(&integer, &["7x"], Err("argument couldn't be parsed into an integer"));
        check(&integer, &["1", "2"], Err("wrong number of arguments"));
        for wrong in ["+7", "07", " 7", "", "1.5"] {
            check(&integer, &[wrong], Err("argument couldn't be parsed into an integer"));
        }
        let clamped = Clamped { accepted: (0, 9), kept: (1, 5) };
        check(&clamped, &["0"], Ok("1"));
        check(&clamped, &["3"], Ok("3"));
        check(&clamped, &["9"], Ok("5"));
        check(&clamped, &["10"], Err("argument must be between 0 and 9 inclusive"));
        check(&memory, &["100"], Ok("100"));
        check(&memory, &["1kB"], Ok("1024"));
        check(&memory, &["2g"], Ok("2000000000"));
        check(&memory, &["2gb"], Ok("2147483648"));
        check(&memory, &["-1"], Err("argument must be a memory value"));
        check(&memory, &["1tb"], Err("argument must be a memory value"));
        check(&memory, &["99999999999999gb"], Err("argument must be a memory value"));
        check(&memory, &["18446744073709551616"], Ok("18446744073709551615"));
        check(&memory, &[""], Ok("0"));
        check(&memory, &["kb"], Ok("0"));
        check(&Permissions, &["770"], Ok("770"));
        check(&Permissions, &["779"], Err("argument couldn't be parsed as an octal number"));
        check(&Permissions, &["7770"], Err("argument must be between 0 and 777 inclusive"));
        let words = OneOf(&["noeviction", "allkeys-lru"]);
        check(&words, &["Allkeys-LRU"], Ok("allkeys-lru"));
        let text = "argument(s) must be one of the following: noeviction, allkeys-lru";
        check(&words, &["random"], Err(text));
        check(&Only("no such thing here"), &["yes"], Err("no such thing here"));
        check(&Only("no such thing here"), &["no", "no"], Err("wrong number of arguments"));
        let primary = NoPrimary("no primary");
        check(&primary, &["NO", "one"], Ok(""));
        check(&primary, &["no one"], Ok(""));
        check(&primary, &[""], Ok(""));
        check(&primary, &["127.0.0.1", "6379"], Err("no primary"));
        check(&BytesOrPercent, &["5%"], Ok("5%"));
        let percent = "percentage argument must be less or equal to 100";
        check(&BytesOrPercent, &["101%"], Err(percent));
        check(&BytesOrPercent, &["-5%"], Err("argument must be a memory or percent value"));
        check(&Addresses, &["127.0.0.1", "-::1"], Ok("127.0.0.1 -::1"));
        check(&Addresses, &["a"; 17], Err("Too many bind addresses specified."));
        check(&Version, &["6.2.14"], Ok("6.2.14"));
        for wrong in ["7", "7.2", "7.2.x", "7.2.4.1", "7.2.256", "7.2.+4", ""] {
            let text = "argument must be a version: three numbers below 256, as in 7.2.4";
            check(&Version, &[wrong], Err(text));
        }
        let size = PowerOfTwo { min: 1024, max: 4096 };
        check(&size, &["2kb"], Ok("2048"));
        check(&size, &["3kb"], Err("argument must be 0 or a power of two of bytes"));
    }

    #[test]
    fn modes_of_a_shutdown_are_words_of_the_list_in_its_order() {
        let modes = ShutdownModes;
        check(&modes, &["NOW", "save"], Ok("save now"));
        check(&modes, &["nosave force"], Ok("nosave force"));
        check(&modes, &["default", "save"], Ok("save"));
        check(&modes, &["default"], Ok("default"));
        let both = "shutdown options SAVE and NOSAVE can't be used simultaneously";
        check(&modes, &["save", "nosave"], Err(both));
        let list = "argument(s) must be one of the following: default, save, nosave, now, force";
        check(&modes, &["later"], Err(list));
        check(&modes, &[""], Err(list));
    }

    #[test]
    fn three_scores_are_within_the_kernels_bounds_twice() {
        check(&OomScores, &["0", "200", "800"], Ok("0 200 800"));
        check(&OomScores, &["-2000 0 2000"], Ok("-2000 0 2000"));
        check(&OomScores, &["+5 -0 0012"], Ok("5 0 12"));
        check(&OomScores, &["0", "200"], Err("wrong number of arguments"));
        let bounds = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
        check(&OomScores, &["0", "200", "2001"], Err(bounds));
        for wrong in ["x", "-", "1.5", "99999999999999999999"] {
            check(&OomScores, &["0", "200", wrong], Err(bounds));
        }
    }

    #[test]
    fn texts_that_stand_for_something_are_checked() {
        let title = Checked::TITLE_TEMPLATE;
        for right in ["plain", "{title} {port}", "{{", "} {tls-port}", "{{title} {config-file}"] {
            check(&title, &[right], Ok(right));
        }
        let fault = "template format is invalid or contains unknown variables";
        for wrong in ["", "  ", "{title}", "{title} {server-mode}", "{port", "{nope}", "a {", "{}"]
        {
            check(&title, &[wrong], Err(fault));
        }
        let longest = "a".repeat(255);
        for right in ["", "a.B-9", &longest] {
            check(&Checked::HOST_NAME, &[right], Ok(right));
        }
        let fault = "Hostnames may only contain alphanumeric characters, hyphens or dots";
        for wrong in ["a b", "a_b", "gr\u{fc}n"] {
            check(&Checked::HOST_NAME, &[wrong], Err(fault));
        }
        let fault = "Hostnames must be less than 256 characters";
        check(&Checked::HOST_NAME, &[&"a".repeat(256)], Err(fault));
        check(&Checked::NODE_NAME, &["a node_1"], Ok("a node_1"));
        let fault = "Announced human node name contained invalid character";
        check(&Checked::NODE_NAME, &["a#b"], Err(fault));
        check(&Checked::FILE_NAME, &["a.rdb"], Ok("a.rdb"));
        let fault = "dbfilename can't be a path, just a filename";
        check(&Checked::FILE_NAME, &["../a.rdb"], Err(fault));
    }

    #[test]
    fn save_schedule_takes_pairs_in_any_grouping() {
        check(&SaveSchedule, &[""], Ok(""));
        check(&SaveSchedule, &["3600 1 300 100"], Ok("3600 1 300 100"));
        check(&SaveSchedule, &["3600", "1"], Ok("3600 1"));
        check(&SaveSchedule, &["+3600", "01"], Ok("3600 1"));
        check(&SaveSchedule, &["3600"], Err("Invalid save parameters"));
        check(&SaveSchedule, &["0", "1"], Err("Invalid save parameters"));
    }

    #[test]
    fn output_limits_change_the_named_classes_only() {
        let changed = "normal 0 0 0 slave 1 2 3 pubsub 33554432 8388608 60";
        check(&OutputLimits, &["pubsub", "32mb", "8mb", "60"], Ok(changed));
        check(
            &OutputLimits,
            &["normal 1 2 3 replica 4 5 6"],
            Ok("normal 1 2 3 slave 4 5 6 pubsub 4 5 6"),
        );
        check(&OutputLimits, &["normal 10 0 +05"], Ok("normal 10 0 5 slave 1 2 3 pubsub 4 5 6"));
        let number = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        for wrong in ["2147483648", "4294967297", "-1", "1s", "18446744073709551615"] {
            check(&OutputLimits, &["normal", "0", "0", wrong], Err(number));
        }
        let class = "Invalid client class specified in buffer limit configuration.";
        check(&OutputLimits, &["master", "1", "1", "1"], Err(class));
        let count = "Wrong number of arguments in buffer limit configuration.";
        check(&OutputLimits, &["normal", "1", "1"], Err(count));
    }
}
