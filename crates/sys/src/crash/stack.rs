//! The stack that a thread's signal handlers run on.

use std::io;
use std::ptr;

/// Memory for the handlers: symbols are looked up there, which takes more than a usual signal
/// stack. What is not touched takes none.
const STACK_BYTES: usize = 512 * 1024;
/// Below it, so that what overflows it ends the process and nothing else.
const GUARD_BYTES: usize = 64 * 1024;

/// A stack for the signal handlers of the thread that made it, as long as it lives: a thread
/// whose own stack has overflowed can report that.
pub struct AlternateStack {
    memory: *mut libc::c_void,
    before: libc::stack_t,
}

impl AlternateStack {
    /// Has the handlers of the calling thread run on a stack of their own.
    ///
    /// # Errors
    /// When memory is short.
    pub fn for_this_thread() -> io::Result<AlternateStack> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        let (bytes, access) = (GUARD_BYTES + STACK_BYTES, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping wherever the kernel likes touches no memory that is in use.
        let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range is the beginning of the mapping, which nobody uses yet.
        let guarded = unsafe { libc::mprotect(memory, GUARD_BYTES, libc::PROT_NONE) };
        // SAFETY: the offset is within the mapping.
        let start = unsafe { memory.byte_add(GUARD_BYTES) };
        let stack = libc::stack_t { ss_sp: start, ss_flags: 0, ss_size: STACK_BYTES };
        let mut made = AlternateStack { memory, before: stack };
        // SAFETY: the stack is memory that nobody else uses, and lives until `drop` has named
        // another one; the second pointer is a live local.
        let code = unsafe { libc::sigaltstack(&raw const stack, &raw mut made.before) };
        if guarded != 0 || code != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(made)
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        // SAFETY: what was there before is given back, as the standard library's stack, which
        // lives as long as the thread. This cannot run on the stack itself: a handler does not
        // return to who would drop it.
        unsafe { libc::sigaltstack(&raw const self.before, ptr::null_mut()) };
        // SAFETY: the mapping is this value's own, and no stack any more.
        unsafe { libc::munmap(self.memory, GUARD_BYTES + STACK_BYTES) };
    }
}
