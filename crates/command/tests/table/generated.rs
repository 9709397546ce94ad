//! Requests drawn from the rows.

use command::generate::{Draw, Generator, Profile};
use command::{Arg, ArgKind, Command, Flags, Handler, rows};

use crate::support::{World, render};

const REQUESTS_PER_ROW: usize = 50;

/// What a reply says that refuses the form of a request.
const REFUSALS: [&str; 9] = [
    "(error) ERR syntax error",
    "(error) ERR wrong number of arguments",
    "(error) ERR unknown",
    "(error) ERR Unsupported option",
    "(error) ERR Syntax error",
    "(error) ERR Unrecognized option",
    "(error) ERR invalid numkeys value",
    "(error) ERR wrong number of key-value pairs",
    "(error) ERR The `numfields` parameter must match the number of arguments",
];

fn runnable() -> impl Iterator<Item = &'static Command> {
    rows().filter(|command| !matches!(command.handler, Handler::Container))
}

fn ask(world: &mut World, request: &[Vec<u8>]) -> String {
    let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    match world.raw(&words) {
        // SHUTDOWN says nothing.
        silent if silent.is_empty() => String::new(),
        reply => render(&resp::Value::from_bytes(&reply).unwrap().expect("one reply")),
    }
}

fn shown(request: &[Vec<u8>]) -> String {
    let words: Vec<String> = request.iter().map(|word| word.escape_ascii().to_string()).collect();
    words.join(" ")
}

fn is_refused(reply: &str) -> bool {
    // What follows a comma is about options that do not go together.
    if reply.starts_with("(error) ERR syntax error,") {
        return false;
    }
    REFUSALS.iter().any(|refusal| reply.starts_with(refusal))
}

#[test]
fn requests_that_follow_the_arguments_are_accepted() {
    for (index, command) in runnable().enumerate() {
        let mut generator = Generator::new(Profile::default(), index as u64);
        let mut world = World::new();
        for _ in 0..REQUESTS_PER_ROW {
            let request = generator.request(command);
            if has_apart(&request) {
                continue;
            }
            let reply = ask(&mut world, &request);
            assert!(!is_refused(&reply), "{}: {reply}", shown(&request));
        }
    }
}

/// Options that Redis's documentation lists side by side, and that do not go together.
const APART: [(&str, [&str; 2]); 2] =
    [("increx", ["PERSIST", "ENX"]), ("restore", ["IDLETIME", "FREQ"])];

fn has_apart(request: &[Vec<u8>]) -> bool {
    let has = |word: &str| request.iter().any(|it| it.eq_ignore_ascii_case(word.as_bytes()));
    APART.iter().any(|(name, words)| {
        request[0].eq_ignore_ascii_case(name.as_bytes()) && words.iter().all(|word| has(word))
    })
}

#[test]
fn one_argument_too_few_is_refused() {
    let mut cut_options = 0;
    // Some of DEBUG's subcommands take one argument less.
    for (index, command) in runnable().filter(|row| row.name != "debug").enumerate() {
        let mut generator = Generator::new(Profile::default(), index as u64);
        let shortest = generator.shortest(command);
        let names = command.name.split('|').count();
        if shortest.len() > names {
            check_cut(&shortest, command);
        }
        for arg in with_values(command.args) {
            cut_options += 1;
            let mut request = shortest.clone();
            request.extend(generator.words(arg));
            check_cut(&request, command);
        }
    }
    assert!(cut_options >= 15, "{cut_options} options have values");
}

/// Returns the options that consist of a word and something behind it.
fn with_values(args: &'static [Arg]) -> Vec<&'static Arg> {
    let options = args.iter().filter(|arg| arg.optional);
    options
        .flat_map(|arg| match arg.kind {
            ArgKind::OneOf(args) if arg.token.is_empty() => args.iter().collect(),
            _ => vec![arg],
        })
        .filter(|arg| !arg.token.is_empty() && Arg { optional: false, ..**arg }.count_min() > 1)
        .collect()
}

fn check_cut(request: &[Vec<u8>], command: &Command) {
    // LOLWUT ignores a word without its number, as anything that it does not know; MIGRATE takes no
    // keys for some that are not there; XREAD takes options behind its keys for identities, XTRIM
    // the word before its number for that; the others read no options where there is no such key.
    const LENIENT: [&str; 9] =
        ["lolwut", "migrate", "sscan", "hscan", "zscan", "xclaim", "xread", "xreadgroup", "xtrim"];
    if LENIENT.contains(&command.name) && request.len() > command.arity.count_min() {
        return;
    }
    let cut = &request[..request.len() - 1];
    let reply = ask(&mut World::new(), cut);
    assert!(is_refused(&reply), "{}: {} gives {reply}", command.name, shown(cut));
}

#[test]
fn invalid_requests_get_a_reply_and_break_nothing() {
    let profile = Profile { invalid_one_in: 2, ..Profile::default() };
    let mut generator = Generator::new(profile, 1);
    let mut world = World::new();
    let commands: Vec<&Command> = runnable().collect();
    let mut sent = 0;
    for round in 0..4_000 {
        let command = commands[round % commands.len()];
        if command.is(Flags::UNQUEUED) || command.name == "debug" {
            continue;
        }
        sent += 1;
        let request = generator.request(command);
        ask(&mut world, &request);
    }
    assert!(sent > 2_000);
}

#[test]
fn readers_have_no_effects() {
    let mut generator = Generator::new(Profile::default(), 1);
    let mut world = World::new();
    for command in runnable().filter(|command| command.name == "mset") {
        (0..20).for_each(|_| drop(ask(&mut world, &generator.request(command))));
    }
    assert!(!world.effects().is_empty(), "the sink listens");
    let is_writer = |command: &Command| command.is(Flags::WRITE);
    for command in runnable().filter(|command| !is_writer(command) && command.name != "debug") {
        for _ in 0..REQUESTS_PER_ROW {
            let request = generator.request(command);
            ask(&mut world, &request);
            // What a transaction queues may write once it runs.
            world.session.transaction = None;
            assert_eq!(world.effects(), "", "{}", shown(&request));
        }
    }
}
