//! The decoder's promises: pieces do not matter, what is put back decodes alike, nothing panics.

use base::prng::Prng;
use resp::{Batch, Next};

use super::*;

const LIMITS: Limits = Limits { item_bytes_max: 1024, is_authenticated: true };

/// What a request is, as text.
fn shown(requests: Requests<'_>, index: usize) -> String {
    let known = requests.foreign(index).unwrap();
    let words: Vec<_> = requests.at(index).iter().map(|it| it.escape_ascii().to_string()).collect();
    let name = match Fault::of_verb(known.verb) {
        Some(fault) if known.verb > Verb::Refused as u8 || fault == Fault::Unknown => {
            format!("{fault:?}")
        }
        _ => format!("{:?} {}", Verb::ALL[usize::from(known.verb)], words.join("|")),
    };
    format!("{name}{}", if known.is_silent { " silent" } else { "" })
}

/// Decodes `input`, of which `piece` more bytes come each time.
fn decode(input: &[u8], mut piece: impl FnMut() -> usize, limits: &Limits) -> Vec<String> {
    let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
    let (mut kept, mut given, mut found) = (Vec::new(), 0, Vec::new());
    loop {
        let decoded = decoder.decode(&mut kept, &mut batch, 4, limits);
        let requests = batch.view(&kept);
        found.extend((0..requests.len()).map(|index| shown(requests, index)));
        if let Some(end) = found.iter().position(|it| it == "Attack" || it == "Binary") {
            found.truncate(end + 1);
            return found;
        }
        kept.drain(..decoded.consumed);
        if matches!(decoded.next, Next::Full) {
            continue;
        }
        if given == input.len() {
            return found;
        }
        let end = (given + piece().max(1)).min(input.len());
        kept.extend_from_slice(&input[given..end]);
        given = end;
    }
}

fn whole(input: &str) -> Vec<String> {
    decode(input.as_bytes(), || usize::MAX / 2, &LIMITS)
}

#[test]
fn lines_become_requests() {
    for (input, expected) in [
        ("get a\r\n", vec!["Get get|a"]),
        ("get a  bb c\n", vec!["GetLast get|a|bb|c"]),
        ("gats 10 a b\r\n", vec!["Gats gats|a|10", "GatsLast gats|b|10"]),
        ("gat x a\r\n", vec!["Exptime"]),
        ("set a 1 0 2\r\nxy\r\n", vec!["Set set|a|1|0|xy"]),
        ("set a 1 0 2 noreply\r\nxy\r\n", vec!["Set set|a|1|0|xy silent"]),
        ("set a 1 0 2\r\nxyz\r\nget a\r\n", vec!["DataChunk", "Unknown", "Get get|a"]),
        ("set a b 0 2\r\nxy\r\n", vec!["Format", "Unknown"]),
        ("cas a 1 0 1 77\r\nx\r\n", vec!["Cas cas|a|1|0|x|77"]),
        ("set a 0 0 2000\r\n", vec!["TooLarge set|a"]),
        ("incr a 1 noreply\r\n", vec!["Incr incr|a|1 silent"]),
        ("delete a 0\r\ndelete a 1\r\n", vec!["Delete delete|a", "DeleteFormat"]),
        ("mg a v\r\nmg a T30\r\n", vec!["MetaGet mg|a|v", "MetaGetChanging mg|a|T30"]),
        ("mg a N30 T9\r\n", vec!["MetaGetVivifying mg|a|N30|T9"]),
        ("mg Zm9v b v k\r\n", vec!["MetaGet mg|foo|b|v|k"]),
        ("ms a 2 T0\r\nbb\r\n", vec!["MetaSet ms|a|bb|T0"]),
        ("ms a 2 MX\r\nbb\r\nmn\r\n", vec!["SetMode", "MetaNoop mn"]),
        ("mg a v v\r\nmg a !\r\n", vec!["DuplicateFlag", "InvalidFlag"]),
        (
            "flush_all\r\nflush_all 0 noreply\r\n",
            vec!["FlushAll flush_all", "FlushAll flush_all silent"],
        ),
        ("bogus\r\n\r\n", vec!["Unknown", "Unknown"]),
        ("GET / HTTP/1.1\r\n", vec!["Attack"]),
        ("\u{80}", vec!["Unknown"]),
        (
            "mg a c f h k l s t v N1 O q R1 T1 b C1 E1 I D1\r\n\
             md a c f h k l s t v N1 O q R1 T1 b C1 E1 I D1\r\n",
            vec!["TooManyFlags", "TooManySetFlags"],
        ),
    ] {
        if input == "\u{80}" {
            assert_eq!(decode(&[0x80, 0, 1], || 3, &LIMITS), ["Binary"]);
            continue;
        }
        assert_eq!(whole(input), expected, "{input:?}");
    }
}

#[test]
fn only_an_authentication_is_read_before_one() {
    let limits = Limits { is_authenticated: false, ..LIMITS };
    let input = b"get a\r\nset x 0 0 3\r\na b\r\nset x 0 0 3\r\na bcd\r\n";
    let found = decode(input, || usize::MAX / 2, &limits);
    assert_eq!(found, ["Unauthenticated", "Auth set|a b", "AuthTermination", "Unauthenticated"]);
}

/// Returns lines as clients and others write them.
fn random_input(random: &mut Prng) -> Vec<u8> {
    let words: [&[u8]; 46] = [
        b"get",
        b"gets",
        b"gat",
        b"gats",
        b"set",
        b"add",
        b"replace",
        b"append",
        b"prepend",
        b"cas",
        b"incr",
        b"decr",
        b"touch",
        b"delete",
        b"flush_all",
        b"verbosity",
        b"stats",
        b"version",
        b"mg",
        b"ms",
        b"md",
        b"ma",
        b"mn",
        b"me",
        b"noreply",
        b"k",
        b"key2",
        b"0",
        b"1",
        b"5",
        b"-1",
        b"99999999999",
        b"2000",
        b"v",
        b"q",
        b"b",
        b"Zm9v",
        b"YWI=",
        b"T10",
        b"N3",
        b"MA",
        b"Oabc",
        b"\0",
        b"\r",
        b"S",
        b"HTTP/1.1",
    ];
    let mut input = Vec::new();
    for _ in 0..random.below(6) + 1 {
        for _ in 0..random.below(8) {
            input.extend_from_slice(words[random.below(words.len() as u64) as usize]);
            input.push(b' ');
        }
        input.extend_from_slice(
            [b"\r\n".as_slice(), b"\n", b"\r\nabcde\r\n", b""][random.below(4) as usize],
        );
    }
    input
}

#[test]
fn pieces_do_not_change_the_result() {
    let mut random = Prng::new(7);
    for round in 0..20_000 {
        let input = random_input(&mut random);
        let expected = decode(&input, || usize::MAX / 2, &LIMITS);
        let found = decode(&input, || random.below(9) as usize, &LIMITS);
        assert_eq!(found, expected, "round {round}: {}", input.escape_ascii());
    }
}

#[test]
fn a_refused_set_is_put_back_with_its_key_as_it_came() {
    let input = b"ms YQphIGI= 2 b\r\nabcd\r\nmn\r\n".to_vec();
    let mut buffer = input.clone();
    let mut batch = Batch::new();
    let _ = Decoder::new().decode(&mut buffer, &mut batch, 64, &LIMITS);
    let mut again = Vec::new();
    put_back(batch.view(&buffer), 0, &mut again);
    assert!(again.starts_with(b"ms YQphIGI= "), "{}", again.escape_ascii());
}

#[test]
fn what_is_put_back_decodes_alike() {
    let mut random = Prng::new(8);
    for round in 0..20_000 {
        let input = random_input(&mut random);
        let mut buffer = input.clone();
        let mut batch = Batch::new();
        let _ = Decoder::new().decode(&mut buffer, &mut batch, 64, &LIMITS);
        let requests = batch.view(&buffer);
        for first in 0..requests.len() {
            let expected: Vec<_> = (first..requests.len()).map(|at| shown(requests, at)).collect();
            let mut again = Vec::new();
            put_back(requests, first, &mut again);
            // Only the first bytes of a session tell the binary protocol.
            let mut decoder = Decoder { has_begun: true, ..Decoder::default() };
            let mut other = Batch::new();
            let _ = decoder.decode(&mut again, &mut other, 64, &LIMITS);
            let found = other.view(&again);
            let found: Vec<_> = (0..found.len()).map(|at| shown(found, at)).collect();
            assert_eq!(found, expected, "round {round}: {}", input.escape_ascii());
        }
    }
}

#[test]
fn the_keys_of_a_long_line_are_several_requests() {
    let keys: Vec<String> = (0..2 * KEYS_PER_REQUEST_MAX + 2).map(|it| format!("k{it}")).collect();
    let request = |verb: &str, part: &[String]| format!("{verb} gets|{}", part.join("|"));
    for count in 1..=keys.len() {
        let keys = &keys[..count];
        let mut expected: Vec<_> =
            keys.chunks(KEYS_PER_REQUEST_MAX).map(|part| request("GetsSome", part)).collect();
        let last = expected.pop().unwrap();
        let is_alone = count % KEYS_PER_REQUEST_MAX == 1;
        let last = last.replace("GetsSome", if is_alone { "Gets" } else { "GetsLast" });
        expected.push(last.clone());
        let line = format!("gets {}\r\n", keys.join(" "));
        assert_eq!(whole(&line), expected);
        let (mut buffer, mut batch, mut again) = (line.into_bytes(), Batch::new(), Vec::new());
        let _ = Decoder::new().decode(&mut buffer, &mut batch, 64, &LIMITS);
        put_back(batch.view(&buffer), batch.len() - 1, &mut again);
        let left = keys.chunks(KEYS_PER_REQUEST_MAX).next_back().unwrap();
        assert_eq!(again, format!("gets {}\r\n", left.join(" ")).into_bytes());
        assert_eq!(whole(&String::from_utf8(again).unwrap()), [last]);
    }
}

#[test]
fn a_long_key_behind_others_refuses_all_of_its_line() {
    for before in [1, KEYS_PER_REQUEST_MAX, KEYS_PER_REQUEST_MAX + 1] {
        let (keys, long) = ("k ".repeat(before), "x".repeat(KEY_BYTES_MAX + 1));
        let found = whole(&format!("get a\r\nget {keys}{long}\r\nget b\r\n"));
        assert_eq!(found, ["Get get|a", "Format", "Get get|b"]);
    }
}

#[test]
fn a_get_of_the_value_alone_is_read_as_one_with_more_flags() {
    for length in [1, KEY_BYTES_MAX, KEY_BYTES_MAX + 1] {
        let key = "k".repeat(length);
        let of_more = whole(&format!("mg {key} v s\r\n"));
        let expected: Vec<_> = of_more.iter().map(|it| it.trim_end_matches("|s")).collect();
        assert_eq!(whole(&format!("mg {key} v\r\n")), expected, "{length}");
    }
}

#[test]
fn words_end_at_the_first_blank() {
    let mut random = Prng::new(9);
    for _ in 0..20_000 {
        // Bytes that differ from a blank by little, and in the high bit.
        let text: Vec<u8> = (0..random.below(30)).map(|_| random.pick(b" !\x1F\xA0\0x")).collect();
        let end = random.below(text.len() as u64 + 1) as usize;
        let start = random.below(end as u64 + 1) as usize;
        let blank = text[start..end].iter().position(|byte| *byte == b' ');
        let expected = blank.map_or(end, |at| start + at);
        assert_eq!(end_of_word(&text, start, end), expected, "{}", text.escape_ascii());
    }
}

#[test]
fn a_line_that_is_split_in_one_pass_has_the_words_that_it_has_step_by_step() {
    let mut random = Prng::new(10);
    let mut counts = [0; 2];
    for _ in 0..50_000 {
        // Bytes about a blank, with and without the high bit, and what ends words and lines.
        let most = if random.below(50) == 0 { 3_000 } else { 40 };
        let length = random.below(most);
        let rare = random.below(4) == 0;
        let mut text: Vec<u8> = (0..length)
            .map(|_| random.pick(if rare { b"ab !\x1F\xA0\x8A\r\0\t" } else { b"abcd  x\r!\xFF" }))
            .collect();
        text.extend_from_slice(random.pick(&[&b"\r\n"[..], b"\n", b" \r\nget a\r\n", b"\r", b""]));
        let start = random.below(text.len() as u64 + 1) as usize;
        let feed = text[start..].iter().position(|byte| *byte == b'\n').map(|at| start + at);
        let mut found = Words::default();
        let end = split_plain(&text, start, &mut found);
        counts[usize::from(end.is_some())] += 1;
        let Some(end) = end else {
            let is_plain = feed.is_some_and(|feed| {
                let line = &text[start..feed];
                let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
                !line.contains(&0) && line.len() < LINE_BYTES_MAX && words.count() <= WORDS_MAX
            });
            assert!(!is_plain || text.len() < 8, "{}", text.escape_ascii());
            continue;
        };
        let mut batch = Batch::new();
        let text_end = end_of_text(&text, start, end);
        let mut copy = text.clone();
        let mut expected = Words::default();
        let line = Line::new(&mut copy, start, text_end, &mut batch, &mut expected);
        let shown = text.escape_ascii();
        assert_eq!(Some(end), feed, "{shown}");
        let words = |words: &Words| words.spans[..words.count].to_vec();
        assert_eq!(line.rest.clone().count(), 0, "{shown}");
        assert_eq!(words(&found), words(&expected), "{shown}");
    }
    assert!(counts.iter().all(|count| *count > 5_000), "{counts:?}");
}

#[test]
fn a_get_of_one_key_is_the_same_whether_its_line_is_split_or_not() {
    let mut random = Prng::new(11);
    for _ in 0..20_000 {
        let about_the_most = random.below(20) == 0;
        let length = if about_the_most { 245 + random.below(10) } else { random.below(20) };
        let rare = random.below(4) == 0;
        let key: Vec<u8> = (0..length)
            .map(|_| random.pick(if rare { b"ab! \x1F\xA0\0\t" } else { b"abcdefx\xFF" }))
            .collect();
        for (verb, flag) in [("get ", ""), ("mg ", " v"), ("mg ", " k"), ("get ", " v")] {
            let line = |end: &[u8]| {
                let request = [verb.as_bytes(), &key, flag.as_bytes(), end].concat();
                decode(&[&request, &b"get next\r\n"[..]].concat(), || usize::MAX / 2, &LIMITS)
            };
            // A line whose end is a line feed alone is always split.
            assert_eq!(line(b"\r\n"), line(b"\n"), "{verb}{}{flag}", key.escape_ascii());
        }
    }
}
