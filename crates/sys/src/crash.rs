//! The report of a crash: what is written to the log before a fatal signal or a failed assertion
//! ends the process.
//!
//! A report has two parts. The first is written by system calls and plain memory alone, into a
//! descriptor, from a stack of its own: the signal, the registers, what the thread was doing, and
//! the addresses on its stack. The second is what the program adds: [`Section`]s, which may
//! allocate and lock, though the crash may have come in the middle of either. Each is aborted when
//! it faults, panics, waits or takes too long, and the next one begins where it was interrupted,
//! further down the same stack. Then the process dies of the signal that it was going to die of, so
//! that the system writes a core file if it is configured to.
//!
//! *Not here*: what the sections say. A process has one report; the first thread that crashes
//! writes it, and further ones wait for its end.

mod frames;
mod output;
mod signals;
mod stack;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

pub use frames::{place_of, return_addresses};
pub use output::{Log, Output};
use signals::Fault;
pub use stack::AlternateStack;

use crate::clock::{monotonic_ns, thread_cpu};

/// How long one section may do nothing: it waits for what the crash has locked, or for a log that
/// nobody reads.
const IDLE_SECONDS_MAX: u64 = 2;
/// The processor time below which that is nothing, in nanoseconds.
const IDLE_CPU_NS: u64 = 5_000_000;
/// When the section at hand is given up whatever it does, and no further one begins.
const REPORT_SECONDS_MAX: u64 = 30;
const SECOND_NS: u64 = 1_000_000_000;

/// What a process says of its crash.
pub struct Report {
    /// The name and version that stand before "crashed by signal".
    pub name: String,
    /// More of the version, for a line of its own.
    pub version: String,
    /// Where it is written.
    pub log: Log,
    /// The second part.
    pub sections: Vec<Section>,
    /// The last lines, behind the line that ends the report.
    pub farewell: &'static str,
}

/// A piece of the second part.
pub type Section = Box<dyn Fn(&mut Output) + Send + Sync>;

/// What a thread is doing, for the first part of a report.
pub trait Underway {
    /// Writes it. This runs within a signal handler, on the thread whose work it is: it may neither
    /// allocate nor lock, and everything that it reads has to be there from before the crash.
    fn describe(&self, part: Part, output: &mut Output);
}

/// Which part of a report asks what a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first one, of a signal.
    Signal,
    /// The first one, of a failed assertion.
    Assertion,
    /// A section, which nothing keeps from allocating.
    Section,
}

static REPORT: OnceLock<Report> = OnceLock::new();
/// Whether reports are complete, and signals lead to one.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);
/// Nothing is shown that the data may be part of.
static HIDES_DATA: AtomicBool = AtomicBool::new(false);
/// The thread that reports; 0 before.
static REPORTER: AtomicI32 = AtomicI32::new(0);
/// The signal that ends the process.
static LAST_SIGNAL: AtomicI32 = AtomicI32::new(libc::SIGABRT);
static BEGAN_NS: AtomicU64 = AtomicU64::new(0);
static NEXT_SECTION: AtomicUsize = AtomicUsize::new(0);
/// The processor time of the thread that reports when it was looked at last.
static LOOK_CPU_NS: AtomicU64 = AtomicU64::new(0);
/// It is being told that a section is given up.
static IS_GIVING_UP: AtomicBool = AtomicBool::new(false);
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static UNDERWAY: Cell<Option<*const dyn Underway>> = const { Cell::new(None) };
}

/// Sets what the process will report, and has fatal signals lead to it. The first call decides.
///
/// # Errors
/// When descriptors are short, by which memory is read that may not be there.
pub fn install(report: Report) -> std::io::Result<()> {
    frames::prepare()?;
    output::prepare();
    if REPORT.set(report).is_ok() {
        set_enabled(true);
    }
    Ok(())
}

/// Has reports be without registers and the top of the stack, which hold pieces of the data; what
/// the program adds is for it to leave out.
pub fn hide_data(is_hidden: bool) {
    HIDES_DATA.store(is_hidden, Ordering::Relaxed);
}

/// Returns whether reports are without the data. May be called while one is written.
pub fn hides_data() -> bool {
    HIDES_DATA.load(Ordering::Relaxed)
}

/// Has fatal signals lead to a report, or to nothing but the end, as before [`install`]. Does
/// nothing before that.
pub fn set_enabled(is_enabled: bool) {
    if REPORT.get().is_some() && IS_ENABLED.swap(is_enabled, Ordering::SeqCst) != is_enabled {
        match is_enabled {
            true => signals::take(),
            false => signals::give_back(),
        }
    }
}

/// Returns whether a thread of this process has crashed: the process is about to end, and what
/// crashed may be at odds with itself.
#[inline]
pub fn has_begun() -> bool {
    REPORTER.load(Ordering::Relaxed) != 0
}

/// Keeps the calling thread from doing any more, while another one reports.
pub fn wait_for_the_end() -> ! {
    loop {
        // SAFETY: it has no arguments; it returns after a signal, whose handler runs first.
        unsafe { libc::pause() };
    }
}

/// Runs `work`, which `underway` describes should it crash.
#[inline]
pub fn describe_while<R>(underway: &dyn Underway, work: impl FnOnce() -> R) -> R {
    struct Scope(Option<*const dyn Underway>);
    impl Drop for Scope {
        #[inline]
        fn drop(&mut self) {
            UNDERWAY.set(self.0);
        }
    }
    // SAFETY: only the lifetime changes, and nobody follows the pointer once this call is over:
    // the scope takes it back however that is left, and other threads do not see it.
    let pointer: *const dyn Underway =
        unsafe { std::mem::transmute::<&dyn Underway, &'static dyn Underway>(underway) };
    let _scope = Scope(UNDERWAY.replace(Some(pointer)));
    work()
}

/// Describes what the calling thread is doing, if it said so.
pub fn describe_underway(part: Part, output: &mut Output) {
    if let Some(underway) = UNDERWAY.get() {
        // SAFETY: `describe_while` has set it on this thread and is not over, or it would have
        // taken it back: so what it points to is still borrowed.
        unsafe { &*underway }.describe(part, output);
    }
}

/// Reports that the statement `text` at `file`:`line` does not hold, and ends the process.
pub fn assertion_failed(file: &str, line: u32, text: &str) -> ! {
    fail(|output, is_first| {
        let again = if is_first { "" } else { "RECURSIVE " };
        if is_first {
            describe_underway(Part::Assertion, output);
        }
        output.line(format_args!("=== {again}ASSERTION FAILED ==="));
        output.line(format_args!("==> {file}:{line} '{text}' is not true"));
    })
}

/// Reports the failure `text`, which the program at `file`:`line` found to leave no way to go on,
/// and ends the process.
pub fn software_failed(file: &str, line: u32, text: &str) -> ! {
    fail(|output, _| {
        output.line(format_args!("------------------------------------------------"));
        output.line(format_args!("!!! Software Failure. Press left mouse button to continue"));
        output.line(format_args!("Guru Meditation: {text} #{file}:{line}"));
    })
}

fn fail(head: impl FnOnce(&mut Output, bool)) -> ! {
    let is_enabled = IS_ENABLED.load(Ordering::SeqCst);
    match claim() {
        Claim::Taken => wait_for_the_end(),
        Claim::First => {
            begin(libc::SIGABRT);
            let mut output = Output::open(REPORT.get());
            head(&mut output, true);
            describe_process(&mut output);
            if is_enabled {
                output.raw("\n------ STACK TRACE ------\n");
            }
        }
        Claim::Again => head(&mut Output::open(REPORT.get()), false),
    }
    if is_enabled {
        run_sections();
    }
    end();
    signals::die(LAST_SIGNAL.load(Ordering::SeqCst))
}

fn describe_process(output: &mut Output) {
    let version = REPORT.get().map_or("", |report| &report.version);
    let (mut buffer, thread) = ([0; signals::NAME_BYTES], signals::thread_id());
    let name = signals::thread_name(&mut buffer);
    output.line(format_args!("{version}, thread {thread} ({name})"));
}

/// Begins or goes on with the report of a fatal signal. Returns once it is time to die.
fn report_fault(fault: &Fault) {
    match claim() {
        Claim::Taken => wait_for_the_end(),
        Claim::First => {
            begin(fault.signal);
            let mut output = Output::open(REPORT.get());
            let name = REPORT.get().map_or("", |report| &report.name);
            fault.describe(name, &mut output);
            describe_process(&mut output);
            if !hides_data() {
                frames::describe_registers(fault, &mut output);
            }
            describe_underway(Part::Signal, &mut output);
            frames::describe_stack(fault, &mut output);
        }
        Claim::Again => give_up_section(format_args!(
            "signal {} at {:#x}",
            fault.signal,
            fault.address.unwrap_or(0)
        )),
    }
    run_sections();
    end();
}

/// Goes on behind the section at hand if that does nothing, or all time has passed; called from
/// time to time on the thread that reports. Returns whether the section may go on.
fn look_at_section() -> bool {
    let cpu_ns = thread_cpu().as_nanos() as u64;
    let used = cpu_ns - LOOK_CPU_NS.swap(cpu_ns, Ordering::SeqCst);
    signals::limit_time(IDLE_SECONDS_MAX);
    if used >= IDLE_CPU_NS && !is_over() {
        return true;
    }
    // Where not even a line can be written, nothing can.
    if !IS_GIVING_UP.swap(true, Ordering::SeqCst) {
        give_up_section(format_args!("it does nothing, or takes too long"));
        IS_GIVING_UP.store(false, Ordering::SeqCst);
        run_sections();
        end();
    }
    false
}

/// Lets the section that begins do nothing for a while at most.
fn limit_idleness() {
    LOOK_CPU_NS.store(thread_cpu().as_nanos() as u64, Ordering::SeqCst);
    signals::limit_time(IDLE_SECONDS_MAX);
}

fn give_up_section(why: std::fmt::Arguments<'_>) {
    Output::open(REPORT.get()).line(format_args!("This part of the report is given up: {why}"));
}

/// Whose the report is.
enum Claim {
    /// This thread's, from now on.
    First,
    /// This thread's, which has crashed once more.
    Again,
    /// Another thread's.
    Taken,
}

fn claim() -> Claim {
    let this = signals::thread_id();
    match REPORTER.compare_exchange(0, this, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => Claim::First,
        Err(reporter) if reporter == this => Claim::Again,
        Err(_) => Claim::Taken,
    }
}

fn begin(signal: i32) {
    LAST_SIGNAL.store(signal, Ordering::SeqCst);
    BEGAN_NS.store(monotonic_ns(), Ordering::SeqCst);
    limit_idleness();
    Output::open(REPORT.get())
        .raw("\n\n=== REDIS BUG REPORT START: Cut & paste starting from here ===\n");
}

/// Runs the sections that no call of this has begun.
fn run_sections() {
    let Some(report) = REPORT.get() else { return };
    while !is_over() {
        let index = NEXT_SECTION.fetch_add(1, Ordering::SeqCst);
        let Some(section) = report.sections.get(index) else { return };
        limit_idleness();
        section(&mut Output::open(Some(report)));
    }
    give_up_section(format_args!("the report took longer than {REPORT_SECONDS_MAX} s"));
}

/// Returns whether all the time of the report has passed.
fn is_over() -> bool {
    monotonic_ns() - BEGAN_NS.load(Ordering::SeqCst) >= REPORT_SECONDS_MAX * SECOND_NS
}

fn end() {
    if HAS_ENDED.swap(true, Ordering::SeqCst) {
        return;
    }
    limit_idleness();
    let mut output = Output::open(REPORT.get());
    output.raw("\n=== REDIS BUG REPORT END. Make sure to include from START to END. ===\n\n");
    output.raw(REPORT.get().map_or("", |report| report.farewell));
}

/// Writes to memory that is read-only, which the system answers with SIGSEGV. For tests of the
/// report.
///
/// # Panics
/// When there is no such memory.
pub fn fault() -> ! {
    signals::write_to_read_only_memory()
}
