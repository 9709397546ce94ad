//! The conditions of SET and DELEX on the string that a key holds.

use super::digest::{DIGEST_BYTES, digest};
use crate::handler::error::CommandError;
use crate::table::argument::Arg;

const NOT_DIGEST: CommandError =
    CommandError::Fixed("ERR must be exactly 16 hexadecimal characters");

/// Only where the string is this one, as an argument.
pub(super) const IFEQ: Arg = Arg::string("ifeq-value").token("IFEQ");
/// Only where it is not.
pub(super) const IFNE: Arg = Arg::string("ifne-value").token("IFNE");
/// Only where the digest of the string is this one.
pub(super) const IFDEQ: Arg = Arg::string("ifdeq-digest").token("IFDEQ").among(DIGESTS);
/// Only where it is not.
pub(super) const IFDNE: Arg = Arg::string("ifdne-digest").token("IFDNE").among(DIGESTS);

/// Digests that requests are drawn with: those of an empty string and of a short one.
const DIGESTS: &[&str] = &["2d06800538d394c2", "404a763b3f4c8c9a"];

/// What a string is compared with, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison<'a> {
    form: Form,
    operand: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// IFEQ.
    Equal,
    /// IFNE.
    NotEqual,
    /// IFDEQ.
    DigestEqual,
    /// IFDNE.
    DigestNotEqual,
}

impl<'a> Comparison<'a> {
    /// Returns the comparison that the option `word` asks for with the argument behind it.
    pub fn named(word: &[u8], operand: &'a [u8]) -> Option<Comparison<'a>> {
        Form::named(word).map(|form| Comparison { form, operand })
    }

    /// Returns whether the option `word` is one of these.
    pub fn is_option(word: &[u8]) -> bool {
        Form::named(word).is_some()
    }

    /// Returns whether both ask for the same, of whatever.
    pub fn has_form_of(&self, other: &Comparison<'_>) -> bool {
        self.form == other.form
    }

    /// Returns what is said of a key that is not there.
    pub fn holds_without_value(&self) -> bool {
        matches!(self.form, Form::NotEqual | Form::DigestNotEqual)
    }

    /// Returns whether `value` is what was asked for.
    ///
    /// # Errors
    /// When it is to be compared with a digest that has another length. Redis looks at nothing else
    /// of it.
    pub fn holds(&self, value: &[u8]) -> Result<bool, CommandError> {
        let is_equal = match self.form {
            Form::Equal | Form::NotEqual => value == self.operand,
            Form::DigestEqual | Form::DigestNotEqual if self.operand.len() != DIGEST_BYTES => {
                return Err(NOT_DIGEST);
            }
            Form::DigestEqual | Form::DigestNotEqual => {
                digest(value).eq_ignore_ascii_case(self.operand)
            }
        };
        Ok(is_equal != self.holds_without_value())
    }
}

impl Form {
    fn named(word: &[u8]) -> Option<Form> {
        let forms = [
            ("IFEQ", Form::Equal),
            ("IFNE", Form::NotEqual),
            ("IFDEQ", Form::DigestEqual),
            ("IFDNE", Form::DigestNotEqual),
        ];
        let named = forms.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word));
        named.map(|(_, form)| *form)
    }
}
