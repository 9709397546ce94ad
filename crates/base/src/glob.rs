//! Glob patterns as Redis matches them: KEYS, SCAN MATCH, CONFIG GET, ACL, PSUBSCRIBE.
//!
//! `*` is any bytes, `?` one byte, `[a-z]` and `[^a-z]` a byte in a class or outside it, and a
//! backslash takes the next byte literally. The quirks are Redis's too: a class without its end
//! ends with the pattern, a range may be written backwards, bytes of a range compare as signed, an
//! escaped byte in a class keeps its case, and the empty text matches the empty pattern only, not
//! even `*`.
//!
//! Source: Redis 7.2, `stringmatchlen` in `util.c`, on x86.

/// Returns whether `pattern` matches the whole of `text`; `ignore_case` for ASCII letters.
///
/// Takes time in the product of the lengths at worst, and no memory: the last `*` is the only one
/// that is ever tried again, because what an earlier one could give, the last one can too.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut at, mut position) = (0, 0);
    let mut retry = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += pattern[at..].iter().take_while(|&&byte| byte == b'*').count();
            if at == pattern.len() {
                return true;
            }
            retry = Some((at, position));
        }
        if position == text.len() {
            return at == pattern.len();
        }
        match step(pattern, at, text[position], ignore_case) {
            Some(next) => (at, position) = (next, position + 1),
            None => match retry {
                Some((star, from)) if from + 1 < text.len() => {
                    (at, position) = (star, from + 1);
                    retry = Some((at, position));
                }
                _ => return false,
            },
        }
    }
}

/// Matches the part of `pattern` at `at`, which is no star, against `byte`; returns where the next
/// part begins.
fn step(pattern: &[u8], at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    match pattern[at..] {
        [] => None,
        [b'?', ..] => Some(at + 1),
        [b'[', ..] => {
            let (found, next) = class(pattern, at + 1, byte, ignore_case);
            found.then_some(next)
        }
        [b'\\', literal, ..] => same(literal, byte, ignore_case).then_some(at + 2),
        [literal, ..] => same(literal, byte, ignore_case).then_some(at + 1),
    }
}

/// Returns whether `byte` is in the class that begins at `at`, behind its bracket, and where the
/// next part of the pattern begins.
fn class(pattern: &[u8], mut at: usize, byte: u8, ignore_case: bool) -> (bool, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match pattern[at..] {
            [] => return (found != negated, at),
            [b'\\', literal, ..] => {
                found |= literal == byte;
                at += 2;
            }
            [b']', ..] => return (found != negated, at + 1),
            [start, b'-', end, ..] => {
                found |= in_range(start, end, byte, ignore_case);
                at += 3;
            }
            [literal, ..] => {
                found |= same(literal, byte, ignore_case);
                at += 1;
            }
        }
    }
}

fn same(literal: u8, byte: u8, ignore_case: bool) -> bool {
    if ignore_case { literal.eq_ignore_ascii_case(&byte) } else { literal == byte }
}

/// Redis orders the ends first and makes them small letters after, so that `[Z-a]` without case is
/// the empty range from `z` to `a`.
fn in_range(start: u8, end: u8, byte: u8, ignore_case: bool) -> bool {
    let signed = |byte: u8| byte as i8;
    let (low, high) = if signed(start) > signed(end) { (end, start) } else { (start, end) };
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
    (signed(fold(low))..=signed(fold(high))).contains(&signed(fold(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: bool) {
        check_bytes(pattern.as_bytes(), text.as_bytes(), expected);
    }

    #[track_caller]
    fn check_bytes(pattern: &[u8], text: &[u8], expected: bool) {
        let found = matches(pattern, text, false);
        let [pattern, text] = [pattern, text].map(|bytes| bytes.escape_ascii().to_string());
        assert_eq!(found, expected, "pattern {pattern} text {text}");
    }

    #[test]
    fn stars_match_any_bytes() {
        check("*", "a", true);
        check("a*", "a", true);
        check("*a", "a", true);
        check("a*c", "abbbc", true);
        check("a*c", "abbb", false);
        check("a**c", "ac", true);
        check("*a*b*c*", "xxaxxbxxcxx", true);
        check("*a*b*c*", "xxaxxcxxbxx", false);
        check("*ab", "aab", true);
        check("*aab", "aaab", true);
        check("a*ba", "abab", false);
    }

    #[test]
    fn question_mark_is_one_byte() {
        check("h?llo", "hello", true);
        check("h?llo", "hllo", false);
        check("???", "ab", false);
    }

    #[test]
    fn classes_hold_bytes_and_ranges() {
        check("h[ae]llo", "hallo", true);
        check("h[ae]llo", "hillo", false);
        check("h[^e]llo", "hallo", true);
        check("h[^e]llo", "hello", false);
        check("[a-c]", "b", true);
        check("[c-a]", "b", true);
        check("[a-c]", "d", false);
        check("[]", "a", false);
        check("[^]", "a", true);
        check("[a\\]]", "]", true);
        check("[a\\-z]", "-", true);
        check("[a\\-z]", "b", false);
        check_bytes(b"[\x80-\xff]", b"\x90", true);
        check_bytes(b"[a-\xff]", b"b", false);
        check_bytes(b"[a-\xff]", b"A", true);
    }

    #[test]
    fn class_without_end_ends_with_the_pattern() {
        check("[", "a", false);
        check("[^", "a", true);
        check("[ab", "b", true);
        check("[a-", "-", true);
        check("[a-]", "]", true);
        check("[a-]", "b", false);
        check("[\\", "\\", true);
    }

    #[test]
    fn backslash_takes_the_next_byte() {
        check("\\*", "*", true);
        check("\\*", "a", false);
        check("a\\?", "a?", true);
        check("\\", "\\", true);
        check("a\\", "a\\", true);
    }

    #[test]
    fn empty_text_matches_the_empty_pattern_only() {
        check("", "", true);
        check("*", "", false);
        check("", "a", false);
    }

    #[test]
    fn case_is_ignored_where_asked() {
        for (pattern, text, expected) in [
            ("MAX*", "maxmemory", true),
            ("[A-C]x", "bX", true),
            ("[\\A]", "a", false),
            ("[\\a]", "a", true),
            ("[Z-a]", "z", false),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes(), true);
            assert_eq!(found, expected, "pattern {pattern} text {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = b"a*".repeat(50);
        let text = [&b"a".repeat(100_000)[..], b"b"].concat();
        assert!(matches(&pattern, &text, false));
        assert!(!matches(&[&pattern[..], b"c"].concat(), &text, false));
    }
}
