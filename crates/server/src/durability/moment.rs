//! Times as people write them, in UTC: `2026-11-25T19:47:11.250Z`, or seconds since the Unix epoch.

use base::UnixMs;
use sys::clock::date_of_day;

const DAY_MS: i64 = 86_400_000;

/// Returns the time that `text` says; none where it says none.
pub fn parse(text: &str) -> Option<UnixMs> {
    match text.strip_suffix('Z') {
        Some(text) => parse_date(text),
        None => seconds(text).map(UnixMs),
    }
}

/// Returns `time` as [`parse`] reads it.
pub fn format(time: UnixMs) -> String {
    let (year, month, day) = date_of_day(time.0.div_euclid(DAY_MS));
    let rest = time.0.rem_euclid(DAY_MS);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, millisecond) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

fn parse_date(text: &str) -> Option<UnixMs> {
    let (date, time) = text.split_once('T')?;
    let mut numbers = date.split('-').map(digits);
    let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let mut parts = time.split(':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let second = seconds(parts.next()?)?;
    let is_time = hour < 24 && minute < 60 && (0..60_000).contains(&second);
    let is_over = numbers.next().is_none() && parts.next().is_none();
    let is_date =
        (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_time || !is_over || !is_date {
        return None;
    }
    let days = days_to(year, month, day);
    if date_of_day(days) != (year, month as u8, day as u8) {
        // The month has not so many days.
        return None;
    }
    Some(UnixMs(days * DAY_MS + hour * 3_600_000 + minute * 60_000 + second))
}

/// Returns the milliseconds in a number of seconds that may have a fraction.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty() || fraction.len() > 3 {
        return None;
    }
    let fraction = digits(&format!("{fraction:0<3}"))?;
    digits(whole)?.checked_mul(1000)?.checked_add(fraction)
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Returns the days from the Unix epoch to a date of the Gregorian calendar. Years begin in March
/// here, so that the day which not each has is their last.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written_alike() {
        for (text, time) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("1967-12-31T00:00:00.000Z", -63_244_800_000),
            ("0001-01-01T00:00:00.000Z", -62_135_596_800_000),
            ("2000-02-29T23:59:59.999Z", 951_868_799_999),
            ("2026-11-25T19:47:11.250Z", 1_795_636_031_250),
            ("2100-03-01T00:00:00.000Z", 4_107_542_400_000),
        ] {
            assert_eq!(parse(text), Some(UnixMs(time)), "{text}");
            assert_eq!(format(UnixMs(time)), text);
        }
        for day in -200_000..200_000 {
            let (year, month, date) = date_of_day(day);
            assert_eq!(days_to(year, month.into(), date.into()), day);
        }
        assert_eq!(parse("2026-11-25T19:47:11Z"), Some(UnixMs(1_795_636_031_000)));
        assert_eq!(parse("1795636031.25"), Some(UnixMs(1_795_636_031_250)));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "Z",
            "now",
            "-1",
            "1.",
            ".5",
            "1.2345",
            "+1",
            "2026-02-29T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-32T00:00:00Z",
            "2026-01-9223372036854775807T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00Z",
            "99999999999999999999",
            "2026-1-1-1T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
