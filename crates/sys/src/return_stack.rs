//! The processor's return stack, by which it predicts where a return leads, after a system call.
//!
//! What the calls of the kernel have left there stands for the returns of the caller's own frames.
//! On an AMD processor whose kernel guards its returns ("Safe RET", against speculative return
//! stack overflow) returns by such entries make the time in the kernel dearer. Entries of this
//! program in their place spare that: without them a SET over a unix socket took 1.22 times as much
//! of the server's time at pipeline 1 and 1.11 times at 16 (10 interleaved pairs of 0.4 s on a
//! 2-core virtual machine, Linux 6.18). Why the kernel is slower is not known, only that a system
//! call within the loop that repeats it, where no return follows, is not.

use std::sync::atomic::{AtomicBool, Ordering};

/// Where the kernel says how it guards its returns.
const MITIGATION: &str = "/sys/devices/system/cpu/vulnerabilities/spec_rstack_overflow";

/// Whether [`refill`] does anything.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Finds out whether the kernel guards its returns so that a refill pays.
pub fn detect() {
    let mitigation = std::fs::read_to_string(MITIGATION).unwrap_or_default();
    IS_USED.store(is_dear(&mitigation) && !has_shadow_stack(), Ordering::Relaxed);
}

/// Fills the return stack where [`detect`] has found that this pays. To be called directly after a
/// system call of a thread that makes many: the returns behind it are those that count.
#[inline(always)]
pub fn refill() {
    if IS_USED.load(Ordering::Relaxed) {
        fill();
    }
}

fn is_dear(mitigation: &str) -> bool {
    mitigation.contains("Safe RET")
}

/// Returns whether the processor checks returns against a stack of its own: calls that never return
/// would have it end the process.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_shadow_stack() -> bool {
    let shadow_stack: u64;
    // SAFETY: the instruction changes nothing but the register, which is given out; where there is
    // no shadow stack, or the processor knows of none, it does nothing at all.
    unsafe {
        std::arch::asm!(
            "xor eax, eax",
            "rdsspq rax",
            out("rax") shadow_stack,
            options(nomem, nostack),
        );
    }
    shadow_stack != 0
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_shadow_stack() -> bool {
    false
}

/// Calls more often than a worker returns before its next system call, and never returns from
/// there: each return without an entry of its own meets one of the kernel.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn fill() {
    // SAFETY: each call leads to the instruction behind a trap, which only a wrong prediction
    // meets, and it stops there. It pushes 8 bytes, which the last instruction takes off again: the
    // stack pointer is as before. No option says that the stack stays untouched, so the compiler
    // keeps nothing below it. There is no shadow stack, by `detect`.
    unsafe {
        std::arch::asm!(
            ".rept 16",
            "call 2f",
            "int3",
            "2:",
            ".endr",
            "lea rsp, [rsp + 16 * 8]",
            options(nomem, preserves_flags),
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn fill() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_used_where_the_kernel_guards_each_return() {
        for text in ["Mitigation: Safe RET\n", "Vulnerable: Safe RET, no microcode\n"] {
            assert!(is_dear(text), "{text}");
        }
        for text in ["Not affected\n", "Mitigation: IBPB\n", "Vulnerable\n", ""] {
            assert!(!is_dear(text), "{text}");
        }
    }

    /// Adds up `numbers` on frames of the stack that are there while it is filled.
    #[inline(never)]
    fn sum(numbers: &[u64]) -> u64 {
        let Some((first, rest)) = numbers.split_first() else { return 0 };
        let local = std::hint::black_box([*first; 8]);
        fill();
        let of_rest = sum(rest);
        fill();
        of_rest + local.iter().sum::<u64>() / 8
    }

    #[test]
    fn stack_and_returns_are_as_before() {
        let numbers: Vec<u64> = (1..=100).collect();
        assert_eq!(sum(&numbers), 5050);
    }
}
