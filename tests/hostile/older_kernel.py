"""Runs a program as on a kernel that does not know SO_PASSRIGHTS (before Linux 6.16).

A filter on system calls (seccomp(2)) has setsockopt and getsockopt of that option fail as such a
kernel does, in this process and what it becomes: the program that its arguments name.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

SOL_SOCKET, SO_PASSRIGHTS = 1, 83
SYSTEM_CALLS = {"x86_64": (54, 55), "aarch64": (208, 209)}
# prctl(2), seccomp(2).
SET_NO_NEW_PRIVILEGES, SET_SECCOMP, MODE_FILTER = 38, 22, 2
ALLOW, FAIL = 0x7FFF0000, 0x00050000 | errno.ENOPROTOOPT
# bpf(4): load a word, jump if equal, return.
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
# struct seccomp_data: the number of the call, and the low halves of its second and third argument.
NUMBER_AT, LEVEL_AT, NAME_AT = 0, 24, 32


def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Returns one instruction: jumps are counted from the next one."""
    return struct.pack("<HBBI", code, if_true, if_false, value)


def main() -> None:
    setsockopt, getsockopt = SYSTEM_CALLS[platform.machine()]
    program = [
        instruction(LOAD, NUMBER_AT),
        instruction(JUMP_IF_EQUAL, setsockopt, 1, 0),
        instruction(JUMP_IF_EQUAL, getsockopt, 0, 5),
        instruction(LOAD, LEVEL_AT),
        instruction(JUMP_IF_EQUAL, SOL_SOCKET, 0, 3),
        instruction(LOAD, NAME_AT),
        instruction(JUMP_IF_EQUAL, SO_PASSRIGHTS, 0, 1),
        instruction(RETURN, FAIL),
        instruction(RETURN, ALLOW),
    ]
    text = ctypes.create_string_buffer(b"".join(program))
    fprog = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in [(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SET_SECCOMP, MODE_FILTER, fprog, 0, 0)]:
        if libc.prctl(*arguments) != 0:
            sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


main()
