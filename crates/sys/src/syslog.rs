//! The system's log, of which a process has one connection.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// For those who look for a fault.
    Debug,
    /// What happens.
    Info,
    /// What should be known.
    Notice,
    /// What somebody should look at.
    Warning,
}

/// Opens the log under `name` and `facility`: `user`, or `local0` to `local7`; others are `user`.
/// The first call decides. It does not fail: what nobody receives is lost.
pub fn open(name: &str, facility: &str) {
    // The C library keeps the pointer for as long as the process lives.
    static NAME: OnceLock<CString> = OnceLock::new();
    let mut is_first = false;
    let name = NAME.get_or_init(|| {
        is_first = true;
        text(name)
    });
    if is_first {
        let options = libc::LOG_PID | libc::LOG_NDELAY | libc::LOG_NOWAIT;
        // SAFETY: the string is NUL-terminated and lives in a static.
        unsafe { libc::openlog(name.as_ptr(), options, facility_number(facility)) };
    }
}

/// Writes one line, without a line end.
pub fn write(priority: Priority, line: &str) {
    const ONE_TEXT: &CStr = c"%s";
    let priority = match priority {
        Priority::Debug => libc::LOG_DEBUG,
        Priority::Info => libc::LOG_INFO,
        Priority::Notice => libc::LOG_NOTICE,
        Priority::Warning => libc::LOG_WARNING,
    };
    let line = text(line);
    // SAFETY: the format takes one string, and both are NUL-terminated and outlive the call.
    unsafe { libc::syslog(priority, ONE_TEXT.as_ptr(), line.as_ptr()) };
}

fn facility_number(name: &str) -> libc::c_int {
    let local = [
        libc::LOG_LOCAL0,
        libc::LOG_LOCAL1,
        libc::LOG_LOCAL2,
        libc::LOG_LOCAL3,
        libc::LOG_LOCAL4,
        libc::LOG_LOCAL5,
        libc::LOG_LOCAL6,
        libc::LOG_LOCAL7,
    ];
    let number = name.strip_prefix("local").and_then(|digit| digit.parse::<usize>().ok());
    number.and_then(|number| local.get(number)).copied().unwrap_or(libc::LOG_USER)
}

/// Returns `text` as the C library takes it: up to a NUL.
fn text(text: &str) -> CString {
    let end = text.bytes().position(|byte| byte == 0).unwrap_or(text.len());
    CString::new(&text[..end]).expect("it ends before a NUL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facilities_have_their_numbers() {
        assert_eq!(facility_number("local0"), libc::LOG_LOCAL0);
        assert_eq!(facility_number("local7"), libc::LOG_LOCAL7);
        assert_eq!(facility_number("user"), libc::LOG_USER);
        assert_eq!(facility_number("local8"), libc::LOG_USER);
    }

    #[test]
    fn lines_of_any_text_are_taken() {
        open("forebay-test", "local0");
        open("another", "user");
        write(Priority::Debug, "100 %s %n \0 after");
        assert_eq!(text("a\0b").as_bytes(), b"a");
    }
}
