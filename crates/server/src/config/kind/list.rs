//! Several words, as arguments of their own or within one.

use command::ShutdownRequest;

use super::{Kind, Typed, lenient_integer, one_of, split};

/// Any number of words.
#[derive(Clone, Copy, Debug)]
pub struct Words;

impl Kind for Words {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        Ok(arguments.join(" "))
    }

    fn values(&self) -> String {
        "words".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["\"\"", "a", "a b", "\"a'b\" c"])
    }

    fn takes_several(&self) -> bool {
        true
    }

    fn arguments(&self, text: &str) -> Vec<String> {
        words(text)
    }
}

/// User ids: words that are no numbers are nobody's.
impl Typed<Vec<u32>> for Words {
    fn value(&self, canonical: &str) -> Vec<u32> {
        canonical.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    }
}

/// Addresses to listen on, as `bind` takes them.
#[derive(Clone, Copy, Debug)]
pub struct Addresses;

/// Addresses in one `bind`, as in Redis.
const ADDRESSES_MAX: usize = 16;

impl Kind for Addresses {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let words = split(arguments);
        if words.len() > ADDRESSES_MAX {
            return Err("Too many bind addresses specified.".to_owned());
        }
        Ok(words.join(" "))
    }

    fn values(&self) -> String {
        "addresses".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["\"\"", "127.0.0.1", "* -::*", "127.0.0.1 -::1"])
    }

    fn takes_several(&self) -> bool {
        true
    }

    fn arguments(&self, text: &str) -> Vec<String> {
        words(text)
    }
}

impl Typed<Vec<String>> for Addresses {
    fn value(&self, canonical: &str) -> Vec<String> {
        words(canonical)
    }
}

/// Numbers from 0 to 100.
#[derive(Clone, Copy, Debug)]
pub struct Percentiles;

impl Kind for Percentiles {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let mut texts = Vec::new();
        for word in split(arguments) {
            let Ok(value) = word.parse::<f64>() else {
                return Err("Invalid latency-tracking-info-percentiles parameters".to_owned());
            };
            if !(0.0..=100.0).contains(&value) {
                let fault = "latency-tracking-info-percentiles parameters should sit between \
                             [0.0,100.0]";
                return Err(fault.to_owned());
            }
            texts.push(value.to_string());
        }
        Ok(texts.join(" "))
    }

    fn values(&self) -> String {
        "numbers, 0 to 100".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["\"\"", "50 99 99.9", "1"])
    }

    fn takes_several(&self) -> bool {
        true
    }
}

impl Typed<Vec<f64>> for Percentiles {
    fn value(&self, canonical: &str) -> Vec<f64> {
        let parse = |word: &str| word.parse().expect("it was checked to be a number");
        canonical.split_whitespace().map(parse).collect()
    }
}

/// How a signal shuts down: `default`, or some of `save`, `nosave`, `now` and `force`.
#[derive(Clone, Copy, Debug)]
pub struct ShutdownModes;

/// What a signal may ask of a shutdown, in the order in which CONFIG GET shows it.
const SHUTDOWN_MODES: [&str; 5] = ["default", "save", "nosave", "now", "force"];

impl Kind for ShutdownModes {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
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

    fn values(&self) -> String {
        "default, or some of save, nosave, now, force".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["default", "save now", "\"nosave force\""])
    }

    fn takes_several(&self) -> bool {
        true
    }
}

impl Typed<ShutdownRequest> for ShutdownModes {
    fn value(&self, canonical: &str) -> ShutdownRequest {
        let has = |mode: &str| canonical.split(' ').any(|word| word == mode);
        let save = has("save").then_some(true).or(has("nosave").then_some(false));
        // `now` would not wait for replicas, of which there are none.
        ShutdownRequest { save, force: has("force") }
    }
}

/// Three scores for the kernel's choice of a process to kill.
#[derive(Clone, Copy, Debug)]
pub struct OomScores;

impl Kind for OomScores {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let words = split(arguments);
        if words.len() != 3 {
            return Err("wrong number of arguments".to_owned());
        }
        let score = |word: &&str| lenient_integer(word).filter(|it| (-2000..=2000).contains(it));
        let scores: Option<Vec<i64>> = words.iter().map(score).collect();
        scores.map(|scores| joined(&scores)).ok_or_else(|| {
            "Invalid oom-score-adj-values, elements must be between -2000 and 2000.".to_owned()
        })
    }

    fn values(&self) -> String {
        "three numbers, -2000 to 2000".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["0 200 800", "-1 0 1"])
    }

    fn takes_several(&self) -> bool {
        true
    }
}

impl Typed<[i32; 3]> for OomScores {
    fn value(&self, canonical: &str) -> [i32; 3] {
        let mut scores = [0; 3];
        for (score, word) in scores.iter_mut().zip(canonical.split(' ')) {
            *score = word.parse().expect("it was checked to be a number");
        }
        scores
    }
}

/// Pairs of seconds and changes, as `save` takes them.
#[derive(Clone, Copy, Debug)]
pub struct SaveSchedule;

impl Kind for SaveSchedule {
    fn canonical(&self, arguments: &[String], _: &str) -> Result<String, String> {
        let words = split(arguments);
        let minimum = |index: usize| 1 - (index % 2) as i64;
        let number = |(index, word): (usize, &&str)| {
            lenient_integer(word).filter(|number| *number >= minimum(index))
        };
        let numbers: Option<Vec<i64>> = words.iter().enumerate().map(number).collect();
        match numbers {
            Some(numbers) if numbers.len().is_multiple_of(2) => Ok(joined(&numbers)),
            _ => Err("Invalid save parameters".to_owned()),
        }
    }

    fn values(&self) -> String {
        "pairs of seconds and changes".to_owned()
    }

    #[cfg(test)]
    fn samples(&self) -> Vec<String> {
        super::sampled(&["\"\"", "1 1", "3600 1 300 100"])
    }

    fn takes_several(&self) -> bool {
        true
    }

    /// Further schedules add to it, none at all leaves it, and an empty one clears it.
    fn gathered(&self, current: &str, arguments: &[String], value: String) -> String {
        match arguments.is_empty() || !value.is_empty() {
            true => format!("{current} {value}").trim().to_owned(),
            false => value,
        }
    }

    fn written(&self, value: &str, _: Option<&str>) -> Vec<String> {
        if value.is_empty() {
            return vec!["\"\"".to_owned()];
        }
        let words: Vec<&str> = value.split(' ').collect();
        words.chunks(2).map(|pair| pair.join(" ")).collect()
    }
}

impl Typed<String> for SaveSchedule {
    fn value(&self, canonical: &str) -> String {
        canonical.to_owned()
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn joined(numbers: &[i64]) -> String {
    let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    texts.join(" ")
}
