//! Requests drawn from the rows, for tests that want many of them: the walk through a row's
//! arguments, and one source of words for it.
//!
//! What a row's `args` say is all that is known here: a request follows them, so that its command
//! accepts its form, whatever the data then make of it.

use base::prng::Prng;
use rdb::{Stored, samples};

use crate::table::argument::{Arg, ArgKind};
use crate::table::row::{Command, Group};

/// Repetitions of an argument that may be repeated.
const REPEATS_MAX: u64 = 4;

/// Draws the words of requests; their order follows from the rows, in one walk for all who draw.
pub trait Draw {
    /// An argument that may be left out is there once in so many requests.
    const OPTION_ONE_IN: u64;

    /// Returns the randomness that decides which arguments a request has.
    fn random(&mut self) -> &mut Prng;

    /// Returns `word`, a name or a token of a row, in upper or lower case.
    fn word(&mut self, word: &'static str) -> Vec<u8>;

    /// Returns a value for `arg`, which is neither a token alone nor a group.
    fn value(&mut self, arg: &Arg) -> Vec<u8>;

    /// Returns whether requests may have `arg`.
    fn knows(&self, arg: &Arg) -> bool {
        let _ = arg;
        true
    }

    /// Is told which command the words that follow are for.
    fn begin(&mut self, _command: &Command) {}

    /// Returns a request of `command`: each option is there or not, repeated or not.
    fn request(&mut self, command: &Command) -> Vec<Vec<u8>> {
        self.begin(command);
        let mut request = names(self, command);
        append_all(self, command.args, &mut request);
        request
    }

    /// Returns a request of `command` without options and repetitions.
    fn shortest(&mut self, command: &Command) -> Vec<Vec<u8>> {
        self.begin(command);
        let mut request = names(self, command);
        for arg in command.args.iter().filter(|arg| !arg.optional) {
            request.extend(self.words(arg));
        }
        request
    }

    /// Returns the words of `arg`, once, as if it were required.
    fn words(&mut self, arg: &Arg) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        append_all(self, &[Arg { optional: false, multiple: false, ..*arg }], &mut words);
        words
    }
}

fn names<D: Draw + ?Sized>(draw: &mut D, command: &Command) -> Vec<Vec<u8>> {
    command.name.split('|').map(|name| draw.word(name)).collect()
}

fn append_all<D: Draw + ?Sized>(draw: &mut D, args: &[Arg], request: &mut Vec<Vec<u8>>) {
    // Where the number of the next argument stands, and which number stood there last.
    let (mut count_index, mut counted) = (None, 1);
    for arg in args {
        if arg.optional && (!draw.knows(arg) || !draw.random().one_in(D::OPTION_ONE_IN)) {
            continue;
        }
        let count = match (arg.repeats_count, arg.multiple) {
            (true, _) => counted,
            (false, true) => u64::from(arg.repeats_min) + draw.random().below(REPEATS_MAX),
            (false, false) => 1,
        };
        if let Some(index) = count_index.take() {
            request[index] = count.to_string().into();
            counted = count;
        }
        if arg.multiple && !arg.repeats_count {
            counted = count;
        }
        let token_count = usize::from(!arg.token.is_empty());
        count_index = arg.counts_next.then_some(request.len() + token_count);
        for index in 0..count {
            if !arg.token.is_empty() && (index == 0 || arg.token_each) {
                request.push(draw.word(arg.token));
            }
            append_value(draw, arg, request);
        }
    }
}

fn append_value<D: Draw + ?Sized>(draw: &mut D, arg: &Arg, request: &mut Vec<Vec<u8>>) {
    match arg.kind {
        ArgKind::PureToken => {}
        ArgKind::Block(args) => append_all(draw, args, request),
        ArgKind::OneOf(args) => {
            let known: Vec<&Arg> = args.iter().filter(|arg| draw.knows(arg)).collect();
            let index = draw.random().below(known.len() as u64) as usize;
            append_all(draw, std::slice::from_ref(known[index]), request);
        }
        _ => request.push(draw.value(arg)),
    }
}

/// What requests are like.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Keys are drawn from so many.
    pub key_count: u64,
    /// Values are at most so long.
    pub value_bytes_max: u64,
    /// An integer in so many is drawn from all, not from those that make sense; 0 is never.
    pub invalid_one_in: u64,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile { key_count: 20, value_bytes_max: 100, invalid_one_in: 0 }
    }
}

/// Draws words by the rows alone.
#[derive(Clone, Debug)]
pub struct Generator {
    profile: Profile,
    random: Prng,
    /// Which keys the command's group uses most.
    affinity: Option<u64>,
}

impl Draw for Generator {
    const OPTION_ONE_IN: u64 = 2;

    fn random(&mut self) -> &mut Prng {
        &mut self.random
    }

    fn begin(&mut self, command: &Command) {
        self.affinity = command.group.key_affinity();
    }

    fn word(&mut self, word: &'static str) -> Vec<u8> {
        if self.random.one_in(3) { word.to_ascii_lowercase().into() } else { word.into() }
    }

    fn value(&mut self, arg: &Arg) -> Vec<u8> {
        match arg.kind {
            _ if !(arg.words.is_empty() || arg.is_open && self.random.one_in(3)) => {
                self.random.pick(arg.words).into()
            }
            ArgKind::Key(_) => format!("key:{}", self.key_number()).into(),
            ArgKind::Integer | ArgKind::UnixTime => self.integer_of(arg).to_string().into(),
            ArgKind::Double => match coordinate(&mut self.random, arg) {
                Some(coordinate) => coordinate.into(),
                None => self.double().into(),
            },
            ArgKind::Pattern | ArgKind::KeyPattern(_) => self.pattern(),
            ArgKind::String if arg.name == PAYLOAD_NAME => self.payload(),
            ArgKind::String => self.string(),
            ArgKind::PureToken | ArgKind::Block(_) | ArgKind::OneOf(_) => {
                unreachable!("the walk takes groups apart")
            }
        }
    }
}

/// Returns a longitude or a latitude where `arg` is one: half of them near each other, so that
/// searches find what was added, others anywhere or near the ends of the map.
pub fn coordinate(random: &mut Prng, arg: &Arg) -> Option<String> {
    let (middle, end) = match arg.name {
        "longitude" => (13.4, 180.0),
        "latitude" => (52.5, 85.05112878),
        _ => return None,
    };
    let part = random.below(1 << 40) as f64 / (1_u64 << 40) as f64 * 2.0 - 1.0;
    let degrees: f64 = match random.below(40) {
        0 => end,
        1 => -end,
        2..6 => end - part.abs(),
        6..9 => part.abs() - end,
        9..20 => part * end,
        20..30 => middle + part * 4.0,
        _ => middle + part * 0.05,
    };
    Some(if random.one_in(2) { degrees.to_string() } else { format!("{degrees:.4}") })
}

/// The name of an argument that is a value as bytes.
pub const PAYLOAD_NAME: &str = "serialized-value";

/// Returns the payload of a value of any type, drawn from `random`, whose parts are at most so
/// long.
pub fn payload(random: &mut Prng, part_bytes_max: u64) -> Vec<u8> {
    let most = [4, 40, 200][random.below(3) as usize];
    let are_integers = random.one_in(3);
    let part = |random: &mut Prng| match are_integers {
        true => random.below(1000).to_string().into_bytes(),
        false => vec![b'a' + random.below(26) as u8; random.below(part_bytes_max + 1) as usize],
    };
    let parts: Vec<Vec<u8>> = (0..=random.below(most)).map(|_| part(random)).collect();
    let mut payload = Vec::new();
    match random.one_in(5) {
        true => rdb::encode(Stored::String(&parts[0]), &mut payload),
        false => {
            let collection = samples::collection(random, &parts);
            rdb::encode(Stored::Collection(collection.view()), &mut payload);
        }
    }
    payload
}

impl Generator {
    /// Returns the requests of `seed`.
    pub fn new(profile: Profile, seed: u64) -> Generator {
        Generator { profile, random: Prng::new(seed), affinity: None }
    }

    fn key_number(&mut self) -> u64 {
        let number = self.random.below(self.profile.key_count);
        match self.affinity {
            Some(rest) if number >= rest && !self.random.one_in(8) => {
                number - (number - rest) % Group::KEY_AFFINITIES
            }
            _ => number,
        }
    }

    fn integer_of(&mut self, arg: &Arg) -> i64 {
        let invalid = self.profile.invalid_one_in;
        if invalid > 0 && !arg.is_bounded && self.random.one_in(invalid) {
            return self.random.next() as i64 >> self.random.below(64);
        }
        self.integer(arg.range)
    }

    fn integer(&mut self, (low, high): (i64, i64)) -> i64 {
        let span = high.abs_diff(low);
        let offset =
            if span == u64::MAX { self.random.next() } else { self.random.below(span + 1) };
        low.wrapping_add_unsigned(offset)
    }

    fn double(&mut self) -> String {
        let whole = self.integer((-1000, 1000));
        match self.random.below(3) {
            0 => whole.to_string(),
            1 => format!("{whole}.{}", self.random.below(100_000)),
            _ => format!("{whole}e{}", self.integer((-10, 10))),
        }
    }

    fn pattern(&mut self) -> Vec<u8> {
        self.random.pick(&["*", "key:*", "key:?", "*[0-4]", "*[^0-4]", "key:\\1", "nothing"]).into()
    }

    /// Integers, numbers, words and bytes: what the commands tell apart.
    fn string(&mut self) -> Vec<u8> {
        match self.random.below(5) {
            0 => self.integer((-1000, 1000)).to_string().into(),
            1 => (self.random.next() as i64).to_string().into(),
            2 => self.double().into(),
            3 => vec![b'x'; self.random.below(self.profile.value_bytes_max + 1) as usize],
            _ => {
                let mut bytes =
                    vec![0; self.random.below(self.profile.value_bytes_max + 1) as usize];
                self.random.fill(&mut bytes);
                bytes
            }
        }
    }

    /// Returns a payload; one in some is none.
    fn payload(&mut self) -> Vec<u8> {
        let mut payload = payload(&mut self.random, self.profile.value_bytes_max);
        if self.random.one_in(20) {
            let index = self.random.below(payload.len() as u64) as usize;
            payload[index] ^= 1;
        }
        payload
    }
}
