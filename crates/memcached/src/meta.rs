//! The flags of meta commands.
//!
//! Source: memcached 1.6.18, `_meta_flag_preparse` of `proto_text.c`; `E` is of a later one, and as
//! in 1.6.18 no flag of `mg`.

use crate::number::{parse_delta, parse_flags, parse_i32};
use crate::verb::Fault;

/// The longest opaque token with its letter.
const OPAQUE_BYTES_MAX: usize = 32;

/// What the flags of a meta command ask for. Those that only ask for something to be returned are
/// looked up in the request, as their order is that of the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaFlags {
    /// `v`: the value is wanted.
    pub value: bool,
    /// `q`: what is nominal is not replied.
    pub quiet: bool,
    /// `b`: the key is base64.
    pub key_is_binary: bool,
    /// `k`: the key is wanted.
    pub key: bool,
    /// `N`: what is not there is made, with this time to live.
    pub vivify: Option<i32>,
    /// `T`: the time to live from now on.
    pub ttl: Option<i32>,
    /// `R`: one client makes the value anew when less than this is left.
    pub recache: Option<i32>,
    /// `F`: the flags to store.
    pub flags: u32,
    /// `C`: the unique number that the item must have.
    pub unique: Option<u64>,
    /// `E`: the unique number that the item gets.
    pub new_unique: Option<u64>,
    /// `I`: marks as stale, or admits an older unique number.
    pub invalidate: bool,
    /// `D`: by how much.
    pub delta: Option<u64>,
    /// `J`: what is stored where nothing is.
    pub initial: u64,
    /// `M`: how.
    pub mode: MetaMode,
}

/// What the mode of a set or of arithmetic is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetaMode {
    /// None is given: to set, or to add.
    #[default]
    None,
    /// The letter.
    Letter(u8),
}

impl MetaFlags {
    /// Returns what `tokens` ask for, which a decoder has read with their key.
    ///
    /// # Errors
    /// The fault, as memcached tells it.
    #[inline]
    pub fn parse<'t>(tokens: impl Iterator<Item = &'t [u8]> + Clone) -> Result<MetaFlags, Fault> {
        MetaFlags::read(tokens, true, || false)
    }

    /// As [`MetaFlags::parse`]. `E` is a fault unless the request `admits_new_unique`, and `b` is
    /// one where `is_key_broken` says that the key is no base64.
    ///
    /// # Errors
    /// The fault, as memcached tells it.
    #[inline]
    pub fn read<'t>(
        tokens: impl Iterator<Item = &'t [u8]> + Clone,
        admits_new_unique: bool,
        is_key_broken: impl Fn() -> bool,
    ) -> Result<MetaFlags, Fault> {
        match MetaFlags::of_letters(tokens.clone()) {
            Some(flags) if !flags.key_is_binary || !is_key_broken() => Ok(flags),
            _ => MetaFlags::read_all(tokens, admits_new_unique, is_key_broken),
        }
    }

    /// Returns what `tokens` ask for where all are letters of flags that have nothing behind them,
    /// as most requests' are.
    #[inline]
    fn of_letters<'t>(tokens: impl Iterator<Item = &'t [u8]>) -> Option<MetaFlags> {
        const fn bit(letter: u8) -> u32 {
            1 << (letter - b'a')
        }
        const ASKED: u32 = bit(b'c') | bit(b'f') | bit(b'h') | bit(b'l') | bit(b's') | bit(b't');
        const KNOWN: u32 = bit(b'v') | bit(b'q') | bit(b'b') | bit(b'k') | ASKED;
        let mut seen = 0;
        for token in tokens {
            let [letter @ b'a'..=b'z'] = token else { return None };
            let letter = bit(*letter);
            if seen & letter != 0 || KNOWN & letter == 0 {
                return None;
            }
            seen |= letter;
        }
        let has = |letter| seen & bit(letter) != 0;
        Some(MetaFlags {
            value: has(b'v'),
            quiet: has(b'q'),
            key_is_binary: has(b'b'),
            key: has(b'k'),
            ..MetaFlags::default()
        })
    }

    #[inline(never)]
    fn read_all<'t>(
        tokens: impl Iterator<Item = &'t [u8]>,
        admits_new_unique: bool,
        is_key_broken: impl Fn() -> bool,
    ) -> Result<MetaFlags, Fault> {
        let mut flags = MetaFlags::default();
        let mut seen = 0_u128;
        let (mut fault, mut is_opaque_long) = (None, false);
        for token in tokens {
            let letter = token[0];
            if letter >= 127 || seen & 1 << letter != 0 {
                return Err(Fault::DuplicateFlag);
            }
            seen |= 1 << letter;
            let taken = match letter {
                b'E' if !admits_new_unique => Err(Fault::InvalidFlag),
                // Memcached decodes the key where it finds the flag.
                b'b' if is_key_broken() => Err(Fault::Base64),
                _ => flags.take(letter, &token[1..]),
            };
            match taken {
                Ok(()) => {}
                Err(Fault::InvalidFlag) => return Err(Fault::InvalidFlag),
                Err(Fault::Opaque) => is_opaque_long = true,
                // Of the flags to store it is not told what is wrong with them.
                Err(Fault::Format) => fault = fault.or(Some(Fault::Format)),
                Err(one) => fault = Some(one),
            }
        }
        match fault {
            Some(fault) => Err(fault),
            None if is_opaque_long => Err(Fault::Opaque),
            None => Ok(flags),
        }
    }

    fn take(&mut self, letter: u8, rest: &[u8]) -> Result<(), Fault> {
        let exptime = || parse_i32(rest).ok_or(Fault::FlagToken).map(Some);
        let number = |fault| parse_delta(rest).ok_or(fault);
        match letter {
            b'v' => self.value = true,
            b'q' => self.quiet = true,
            b'b' => self.key_is_binary = true,
            b'k' => self.key = true,
            b'N' => self.vivify = exptime()?,
            b'T' => self.ttl = exptime()?,
            b'R' => self.recache = exptime()?,
            b'F' => self.flags = parse_flags(rest).ok_or(Fault::Format)?,
            b'C' => self.unique = Some(number(Fault::FlagToken)?),
            b'E' => self.new_unique = Some(number(Fault::FlagToken)?),
            b'I' => self.invalidate = true,
            b'D' => self.delta = Some(number(Fault::Delta)?),
            b'J' => self.initial = number(Fault::Initial)?,
            b'M' => match rest {
                [mode] => self.mode = MetaMode::Letter(*mode),
                _ => return Err(Fault::ModeLength),
            },
            b'O' if rest.len() >= OPAQUE_BYTES_MAX => return Err(Fault::Opaque),
            b'O' | b'c' | b'f' | b'h' | b'l' | b's' | b't' => {}
            _ => return Err(Fault::InvalidFlag),
        }
        Ok(())
    }
}
