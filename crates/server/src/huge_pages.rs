//! Huge pages for the data: whether there are any, and the thread that puts full memory on them.
//!
//! The thread sleeps until the memory in use has changed, which the service thread tells it, so
//! that an idle server uses no processor time. docs/decisions/0016-huge-pages.md says why memory
//! moves to a huge page when it is full, and not before.
//!
//! *Not here*: how memory is put on huge pages (`sys::memfd_segments::huge_pages`).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sys::memfd_segments::OwnedSegments;
use sys::memfd_segments::huge_pages::{CollapseCursor, Collapsed, HUGE_PAGE_BYTES, SystemSetting};

use crate::config::kind::Named;

/// What the option `huge-pages` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePageMode {
    /// Where the system's setting allows them.
    Auto,
    /// Also where the setting is the default, `never`; a server that can have none does not start.
    Yes,
    /// None.
    No,
}

impl Named for HugePageMode {
    const ALL: &'static [HugePageMode] = &[HugePageMode::Auto, HugePageMode::Yes, HugePageMode::No];

    fn name(self) -> &'static str {
        match self {
            HugePageMode::Auto => "auto",
            HugePageMode::Yes => "yes",
            HugePageMode::No => "no",
        }
    }
}

/// Whether the data gets huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Availability {
    /// It does.
    Used,
    /// It does not, for a reason that is told with what can be done about it.
    Unused(Reason),
}

/// Why there are no huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    TurnedOff,
    SegmentsTooSmall { segment_bytes: u64 },
    Missing,
    Disabled,
    Denied,
    Never,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FILE: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
        match self {
            Reason::TurnedOff => write!(formatter, "huge-pages is no"),
            Reason::SegmentsTooSmall { segment_bytes } => write!(
                formatter,
                "segments of {segment_bytes} bytes are smaller than a huge page, which a \
                 segment-size of 2mb or a maxmemory above 256mb changes"
            ),
            Reason::Missing => {
                write!(formatter, "this kernel has none for shared memory, Linux 6.1 and later do")
            }
            Reason::Disabled => {
                write!(formatter, "they are turned off for this process (PR_SET_THP_DISABLE)")
            }
            Reason::Denied => {
                write!(formatter, "{FILE} is deny, 'echo advise > {FILE}' as root allows them")
            }
            Reason::Never => write!(
                formatter,
                "{FILE} is never, huge-pages yes or 'echo advise > {FILE}' as root allows them"
            ),
        }
    }
}

impl Availability {
    /// Returns what `mode` comes to under the system's setting, for segments of `segment_bytes`.
    ///
    /// # Errors
    /// Why there are none, where `mode` asks for them and the system has none.
    fn of(
        mode: HugePageMode,
        setting: SystemSetting,
        segment_bytes: u64,
    ) -> Result<Availability, Reason> {
        let reason = match (mode, setting) {
            (HugePageMode::No, _) => Reason::TurnedOff,
            (_, SystemSetting::Missing) => Reason::Missing,
            (_, SystemSetting::Disabled) => Reason::Disabled,
            (_, SystemSetting::Denied) => Reason::Denied,
            // It is small by the operator's own limit of memory, not by the system's.
            _ if segment_bytes < HUGE_PAGE_BYTES as u64 => {
                return Ok(Availability::Unused(Reason::SegmentsTooSmall { segment_bytes }));
            }
            (HugePageMode::Auto, SystemSetting::Never) => Reason::Never,
            (HugePageMode::Yes, SystemSetting::Never) | (_, SystemSetting::Allowed) => {
                return Ok(Availability::Used);
            }
        };
        match mode {
            HugePageMode::Yes => Err(reason),
            HugePageMode::Auto | HugePageMode::No => Ok(Availability::Unused(reason)),
        }
    }
}

/// How many huge pages are looked for at once; between that the thread sees whether it is to end.
const PAGES_PER_LOOK: usize = 64;
/// The least time between two looks at all memory.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The least time between them for each 2 MiB that the last one found not to be full: twenty times
/// of what it takes to find that.
const PAUSE_PER_PARTIAL: Duration = Duration::from_micros(100);
/// Each so many looks, the system is asked again for what it refused.
const LOOKS_PER_RETRY: u64 = 32;

/// The huge pages of one server.
pub struct HugePages {
    availability: Availability,
    state: Mutex<State>,
    changed: Condvar,
    /// How often the system had no huge page.
    refused_count: AtomicU64,
}

/// What the thread waits for.
#[derive(Default)]
struct State {
    /// The memory that the arena had touched when somebody told so last.
    touched_bytes: u64,
    has_changed: bool,
    is_over: bool,
}

impl HugePages {
    /// Returns what `mode` comes to on this system, for segments of `segment_bytes`, and logs it.
    ///
    /// # Errors
    /// A sentence for the log, where `mode` asks for huge pages and the system has none.
    pub fn open(mode: HugePageMode, segment_bytes: u64) -> Result<HugePages, String> {
        let availability = Availability::of(mode, SystemSetting::read(), segment_bytes)
            .map_err(|reason| format!("huge-pages is yes, and there are none: {reason}"))?;
        match availability {
            Availability::Used => {
                tracing::info!("Huge pages: the data lies on them as far as it fills them");
            }
            Availability::Unused(reason) if mode == HugePageMode::Yes => {
                tracing::warn!("WARNING No huge pages, although huge-pages is yes: {reason}");
            }
            Availability::Unused(reason) => tracing::info!("No huge pages: {reason}"),
        }
        Ok(HugePages {
            availability,
            state: Mutex::default(),
            changed: Condvar::new(),
            refused_count: AtomicU64::new(0),
        })
    }

    /// Returns whether the thread is to run.
    pub fn is_used(&self) -> bool {
        self.availability == Availability::Used
    }

    /// Returns whether there are huge pages, and if not why and what changes that.
    pub fn availability(&self) -> String {
        match self.availability {
            Availability::Used => "yes".to_owned(),
            Availability::Unused(reason) => format!("no ({reason})"),
        }
    }

    /// Returns how often the system had no huge page.
    pub fn refused_count(&self) -> u64 {
        self.refused_count.load(Ordering::Relaxed)
    }

    /// Tells that the arena has touched `touched_bytes` by now.
    pub fn note_memory(&self, touched_bytes: u64) {
        if !self.is_used() {
            return;
        }
        let mut state = self.lock();
        if state.touched_bytes != touched_bytes {
            (state.touched_bytes, state.has_changed) = (touched_bytes, true);
            self.changed.notify_one();
        }
    }

    /// Tells that memory has been filled that [`HugePages::note_memory`] does not count.
    pub fn note_filled(&self) {
        if self.is_used() {
            self.lock().has_changed = true;
            self.changed.notify_one();
        }
    }

    /// Has the thread end.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_one();
    }

    /// Puts memory of `segments` on huge pages as it fills, until [`HugePages::end`].
    pub fn run(&self, segments: &OwnedSegments) {
        let mut looks = 0;
        let mut pause = Duration::ZERO;
        while self.wait(pause) {
            let collapsed = self.look(segments, looks % LOOKS_PER_RETRY == 0);
            self.refused_count.fetch_add(collapsed.refused, Ordering::Relaxed);
            looks += 1;
            let partial = u32::try_from(collapsed.partial).unwrap_or(u32::MAX);
            pause = PAUSE_MIN.max(PAUSE_PER_PARTIAL * partial);
        }
    }

    /// Looks at all memory once.
    fn look(&self, segments: &OwnedSegments, tries_refused: bool) -> Collapsed {
        let (mut cursor, mut collapsed) = (CollapseCursor::default(), Collapsed::default());
        loop {
            collapsed += segments.collapse_full(&mut cursor, PAGES_PER_LOOK, tries_refused);
            if cursor == CollapseCursor::default() || self.lock().is_over {
                return collapsed;
            }
        }
    }

    /// Waits for `pause`, and then until memory has changed; returns whether the thread goes on.
    fn wait(&self, pause: Duration) -> bool {
        let state = self.changed.wait_timeout_while(self.lock(), pause, |it| !it.is_over);
        let (state, _) = state.unwrap_or_else(PoisonError::into_inner);
        let state = self.changed.wait_while(state, |it| !it.is_over && !it.has_changed);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.has_changed = false;
        !state.is_over
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is an assignment of words, whole even if its thread panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: u64 = 64 << 20;

    fn of(mode: HugePageMode, setting: SystemSetting) -> Result<Availability, Reason> {
        Availability::of(mode, setting, LARGE)
    }

    #[test]
    fn memory_that_the_arena_does_not_count_is_looked_at_once_it_is_filled() {
        let pages = |availability| HugePages {
            availability,
            state: Mutex::default(),
            changed: Condvar::new(),
            refused_count: AtomicU64::new(0),
        };
        let used = pages(Availability::Used);
        used.note_filled();
        assert!(used.wait(Duration::ZERO), "there is something to look at");
        assert!(!used.lock().has_changed);
        let unused = pages(Availability::Unused(Reason::Never));
        unused.note_filled();
        assert!(!unused.lock().has_changed);
    }

    #[test]
    fn auto_follows_the_setting_of_the_system() {
        let unused = |reason| Ok(Availability::Unused(reason));
        let auto = |setting| of(HugePageMode::Auto, setting);
        assert_eq!(auto(SystemSetting::Allowed), Ok(Availability::Used));
        assert_eq!(auto(SystemSetting::Never), unused(Reason::Never));
        assert_eq!(auto(SystemSetting::Denied), unused(Reason::Denied));
        assert_eq!(auto(SystemSetting::Disabled), unused(Reason::Disabled));
        assert_eq!(auto(SystemSetting::Missing), unused(Reason::Missing));
    }

    #[test]
    fn yes_is_refused_where_the_system_has_none() {
        let yes = |setting| of(HugePageMode::Yes, setting);
        assert_eq!(yes(SystemSetting::Allowed), Ok(Availability::Used));
        assert_eq!(yes(SystemSetting::Never), Ok(Availability::Used));
        assert_eq!(yes(SystemSetting::Denied), Err(Reason::Denied));
        assert_eq!(yes(SystemSetting::Disabled), Err(Reason::Disabled));
        assert_eq!(yes(SystemSetting::Missing), Err(Reason::Missing));
    }

    #[test]
    fn no_means_none_whatever_the_system_has() {
        let no = of(HugePageMode::No, SystemSetting::Allowed);
        assert_eq!(no, Ok(Availability::Unused(Reason::TurnedOff)));
    }

    #[test]
    fn small_segments_have_none_and_are_no_reason_to_refuse() {
        let segment_bytes = 1 << 20;
        let unused = Ok(Availability::Unused(Reason::SegmentsTooSmall { segment_bytes }));
        for mode in [HugePageMode::Auto, HugePageMode::Yes] {
            assert_eq!(Availability::of(mode, SystemSetting::Allowed, segment_bytes), unused);
        }
    }
}
