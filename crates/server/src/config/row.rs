//! One configuration option as a row.

use super::kind::{Kind, Text};

/// One option of the configuration.
#[derive(Debug)]
pub struct Row {
    /// The name, lower case.
    pub name: &'static str,
    /// An older name that means the same.
    pub alias: Option<&'static str>,
    /// Which values it takes.
    pub kind: &'static dyn Kind,
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
        kind: &Text,
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
