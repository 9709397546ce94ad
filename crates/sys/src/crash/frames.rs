//! Where a thread was: registers, and what its stack says of who called whom.
//!
//! The program is built without frame pointers, and to follow the tables of unwinding takes locks.
//! So the first part of a report shows each word of the stack that points after a call instruction:
//! the return addresses are among them, with some that earlier calls left. Memory that may not be
//! mapped is read through a pipe: the kernel returns an error where it is not.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::pipe::PipeFlags;

use super::Output;
use super::signals::Fault;

/// How much of a stack is looked at.
const STACK_BYTES_MAX: usize = 64 * 1024;
/// How much of it is read at once.
const CHUNK_BYTES: usize = 512;
const WORD_BYTES: usize = size_of::<usize>();
/// Return addresses that are shown.
const ADDRESSES_MAX: usize = 64;
/// Words on top of the stack that are shown, as in Redis.
const TOP_WORDS: usize = 16;
/// The longest call instruction on x86-64 that compilers make.
const CALL_BYTES_MAX: usize = 7;

/// What cannot be found out once a thread has crashed.
struct Prepared {
    modules: Vec<Module>,
    reader: OwnedFd,
    writer: OwnedFd,
}

/// Code of one file.
struct Module {
    start: usize,
    end: usize,
    /// Where the file begins in memory.
    base: usize,
    name: String,
}

static PREPARED: OnceLock<Prepared> = OnceLock::new();

/// Finds out where code lies, and opens the pipe.
///
/// # Errors
/// When descriptors are short.
pub(super) fn prepare() -> io::Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // Of two at a time the first one's will do.
    let _ = PREPARED.set(Prepared { modules: modules(&maps), reader, writer });
    Ok(())
}

/// Returns the code in `maps`, of /proc/self/maps.
fn modules(maps: &str) -> Vec<Module> {
    let mut found: Vec<Module> = Vec::new();
    let mut bases: Vec<(&str, usize)> = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(access)) = (words.next(), words.next()) else { continue };
        let Some(name) = words.nth(3) else { continue };
        let Some((start, end)) = range.split_once('-') else { continue };
        let hexadecimal = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        let (start, end) = (hexadecimal(start), hexadecimal(end));
        if bases.last().is_none_or(|(known, _)| *known != name) {
            bases.push((name, start));
        }
        if access.contains('x') {
            let base = bases.last().map_or(start, |(_, base)| *base);
            found.push(Module { start, end, base, name: name.to_owned() });
        }
    }
    found
}

impl Prepared {
    fn module(&self, address: usize) -> Option<&Module> {
        self.modules.iter().find(|module| (module.start..module.end).contains(&address))
    }

    /// Copies the memory at `address`; returns how much of it is there.
    fn read(&self, address: usize, target: &mut [u8]) -> usize {
        let writer = self.writer.as_raw_fd();
        // SAFETY: the kernel reads the memory, or says that it is not there: this process does not
        // touch it. The length is below what a pipe takes at once.
        let written = unsafe { libc::write(writer, address as *const _, target.len()) };
        let Ok(written @ 1..) = usize::try_from(written) else { return 0 };
        let reader = self.reader.as_raw_fd();
        // SAFETY: the target is a live buffer of at least that length.
        let count = unsafe { libc::read(reader, target.as_mut_ptr().cast(), written) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Returns whether `address` follows a call.
    fn is_behind_call(&self, address: usize) -> bool {
        let mut code = [0; CALL_BYTES_MAX];
        if self.module(address).is_none() {
            return false;
        }
        let count = self.read(address.wrapping_sub(CALL_BYTES_MAX), &mut code);
        count == CALL_BYTES_MAX && ends_with_call(&code)
    }

    /// Calls `found` with each address from `stack` on that follows a call, the innermost first,
    /// until it returns false.
    fn each_return_address(&self, stack: usize, mut found: impl FnMut(usize) -> bool) {
        let mut chunk = [0; CHUNK_BYTES];
        let mut address = stack & !(WORD_BYTES - 1);
        while address < stack.saturating_add(STACK_BYTES_MAX) {
            // Up to the next boundary: a page that is there is followed by one that may not be.
            let wanted = CHUNK_BYTES - address % CHUNK_BYTES;
            let count = self.read(address, &mut chunk[..wanted]);
            for word in chunk[..count].chunks_exact(WORD_BYTES) {
                let word = usize::from_le_bytes(word.try_into().expect("it is a word long"));
                if self.is_behind_call(word) && !found(word) {
                    return;
                }
            }
            if count < wanted {
                return;
            }
            address += wanted;
        }
    }
}

/// Returns whether `code` ends with a call, of a fixed address or of one in a register or memory.
#[cfg(target_arch = "x86_64")]
fn ends_with_call(code: &[u8; CALL_BYTES_MAX]) -> bool {
    const NEAR: u8 = 0xe8;
    const INDIRECT: u8 = 0xff;
    let is_indirect = |bytes: usize| {
        let at = CALL_BYTES_MAX - bytes;
        code[at] == INDIRECT && code[at + 1] >> 3 & 7 == 2
    };
    code[CALL_BYTES_MAX - 5] == NEAR || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
}

/// Returns whether `code` ends with a call.
#[cfg(target_arch = "aarch64")]
fn ends_with_call(code: &[u8; CALL_BYTES_MAX]) -> bool {
    let last = u32::from_le_bytes([code[3], code[4], code[5], code[6]]);
    let (is_near, is_indirect) = (last >> 26 == 0x25, last & 0xffff_fc1f == 0xd63f_0000);
    is_near || is_indirect
}

/// Returns whether `code` ends with a call, which is not known of this machine.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ends_with_call(_: &[u8; CALL_BYTES_MAX]) -> bool {
    true
}

/// The address of a crash and the return addresses above it, once there are any.
static ADDRESSES: OnceLock<([usize; ADDRESSES_MAX], usize)> = OnceLock::new();

/// Returns what the first part of the report showed: the instruction that crashed, and the
/// addresses on the stack that follow a call. Empty where no signal has come.
pub fn return_addresses() -> &'static [usize] {
    ADDRESSES.get().map_or(&[], |(addresses, count)| &addresses[..*count])
}

/// Writes the stack's part of a report.
pub(super) fn describe_stack(fault: &Fault, output: &mut Output) {
    output.raw("\n------ STACK TRACE ------\n");
    let Some(prepared) = PREPARED.get() else { return };
    let (mut addresses, mut count) = ([0; ADDRESSES_MAX], 0);
    if let Some(instruction) = fault.instruction() {
        output.raw("EIP:\n");
        describe_address(instruction, output);
        (addresses[0], count) = (instruction, 1);
    }
    output.raw("\nAddresses on the stack that follow a call:\n");
    if let Some(stack) = fault.stack() {
        prepared.each_return_address(stack, |address| {
            describe_address(address, output);
            addresses[count] = address;
            count += 1;
            count < ADDRESSES_MAX
        });
    }
    // A process has one report.
    let _ = ADDRESSES.set((addresses, count));
}

/// Returns the file that has the code at `address`, and where in the file it is.
pub fn place_of(address: usize) -> Option<(&'static str, usize)> {
    let Module { name, base, .. } = PREPARED.get()?.module(address)?;
    Some((name, address - base))
}

/// Writes `address` with its place in its file, which tools such as addr2line take.
fn describe_address(address: usize, output: &mut Output) {
    match place_of(address) {
        Some((name, offset)) => {
            output.formatted(format_args!("{name}(+{offset:#x})[{address:#x}]\n"));
        }
        None => output.formatted(format_args!("[{address:#x}]\n")),
    }
}

/// Writes the registers' part of a report, and the top of the stack.
pub(super) fn describe_registers(fault: &Fault, output: &mut Output) {
    output.raw("\n------ REGISTERS ------\n");
    fault.each_register(|index, name, value| {
        let separator = if index % 2 == 1 { '\n' } else { ' ' };
        output.formatted(format_args!("{name:<3}:{value:016x}{separator}"));
    });
    output.raw("\n");
    let (Some(prepared), Some(stack)) = (PREPARED.get(), fault.stack()) else { return };
    for index in (0..TOP_WORDS).rev() {
        let (address, mut word) = (stack.wrapping_add(index * WORD_BYTES), [0; WORD_BYTES]);
        if prepared.read(address, &mut word) == WORD_BYTES {
            let word = usize::from_le_bytes(word);
            output.line(format_args!("({address:016x}) -> {word:016x}"));
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Fault {
    /// Returns the address of the instruction that crashed.
    pub(super) fn instruction(&self) -> Option<usize> {
        Some(self.register(libc::REG_RIP))
    }

    /// Returns the top of the stack.
    fn stack(&self) -> Option<usize> {
        Some(self.register(libc::REG_RSP))
    }

    fn each_register(&self, mut show: impl FnMut(usize, &str, usize)) {
        let registers = [
            ("RAX", libc::REG_RAX),
            ("RBX", libc::REG_RBX),
            ("RCX", libc::REG_RCX),
            ("RDX", libc::REG_RDX),
            ("RDI", libc::REG_RDI),
            ("RSI", libc::REG_RSI),
            ("RBP", libc::REG_RBP),
            ("RSP", libc::REG_RSP),
            ("R8", libc::REG_R8),
            ("R9", libc::REG_R9),
            ("R10", libc::REG_R10),
            ("R11", libc::REG_R11),
            ("R12", libc::REG_R12),
            ("R13", libc::REG_R13),
            ("R14", libc::REG_R14),
            ("R15", libc::REG_R15),
            ("RIP", libc::REG_RIP),
            ("EFL", libc::REG_EFL),
            ("CSGSFS", libc::REG_CSGSFS),
        ];
        for (index, (name, register)) in registers.into_iter().enumerate() {
            show(index, name, self.register(register));
        }
    }

    fn register(&self, register: libc::c_int) -> usize {
        // SAFETY: the context is the kernel's, and its handler still runs.
        unsafe { (*self.context).uc_mcontext.gregs[register as usize] as usize }
    }
}

#[cfg(target_arch = "aarch64")]
impl Fault {
    /// Returns the address of the instruction that crashed.
    pub(super) fn instruction(&self) -> Option<usize> {
        // SAFETY: the context is the kernel's, and its handler still runs.
        Some(unsafe { (*self.context).uc_mcontext.pc as usize })
    }

    /// Returns the top of the stack.
    fn stack(&self) -> Option<usize> {
        // SAFETY: the context is the kernel's, and its handler still runs.
        Some(unsafe { (*self.context).uc_mcontext.sp as usize })
    }

    fn each_register(&self, mut show: impl FnMut(usize, &str, usize)) {
        const NAMES: [&str; 31] = [
            "X0", "X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8", "X9", "X10", "X11", "X12", "X13",
            "X14", "X15", "X16", "X17", "X18", "X19", "X20", "X21", "X22", "X23", "X24", "X25",
            "X26", "X27", "X28", "X29", "LR",
        ];
        // SAFETY: the context is the kernel's, and its handler still runs.
        let registers = unsafe { &(*self.context).uc_mcontext.regs };
        for (index, (name, value)) in NAMES.into_iter().zip(registers).enumerate() {
            show(index, name, *value as usize);
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Fault {
    /// Returns the address of the instruction that crashed, which is not known on this machine.
    pub(super) fn instruction(&self) -> Option<usize> {
        None
    }

    fn stack(&self) -> Option<usize> {
        None
    }

    fn each_register(&self, _: impl FnMut(usize, &str, usize)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_not_read() {
        prepare().unwrap();
        let prepared = PREPARED.get().unwrap();
        let (source, mut target) = ([7_u8; 16], [0; 16]);
        assert_eq!(prepared.read(source.as_ptr() as usize, &mut target), 16);
        assert_eq!(target, source);
        assert_eq!(prepared.read(8, &mut target), 0);
        assert_eq!(prepared.read(usize::MAX - 64, &mut target), 0);
    }

    #[test]
    fn code_is_known_by_its_file() {
        let maps = "1000-2000 r--p 00000000 08:01 7   /bin/a\n\
                    2000-4000 r-xp 00001000 08:01 7   /bin/a\n\
                    5000-6000 rw-p 00000000 00:00 0 \n\
                    7000-8000 r-xp 00000000 00:00 0   [vdso]\n";
        let found: Vec<(usize, usize, usize, String)> = modules(maps)
            .into_iter()
            .map(|module| (module.start, module.end, module.base, module.name))
            .collect();
        let expected =
            [(0x2000, 0x4000, 0x1000, "/bin/a".into()), (0x7000, 0x8000, 0x7000, "[vdso]".into())];
        assert_eq!(found, expected);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_are_told_from_other_code() {
        assert!(ends_with_call(&[0, 0, 0xe8, 1, 2, 3, 4]));
        assert!(ends_with_call(&[0, 0, 0, 0, 0, 0xff, 0xd0]), "call *%rax");
        assert!(ends_with_call(&[0, 0xff, 0x15, 1, 2, 3, 4]), "call *offset(%rip)");
        assert!(!ends_with_call(&[0, 0, 0, 0, 0, 0xff, 0xe0]), "jmp *%rax");
        assert!(!ends_with_call(&[0x90; 7]));
    }
}
