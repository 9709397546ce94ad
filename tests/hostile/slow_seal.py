"""A client that makes lanes, upload memory or a pin table, and writes to their descriptors out of a
page that nobody brings.

A write holds the lock that sealing the memory waits for, for as long as the process lives. Upload
memory it has mapped so that nobody brings its pages either, and reads one of them. What it has come
to is written to standard output, a line for each step; "not allowed" where the system does not let
it make such pages. Its connection ends with a line on its standard input.
"""

import ctypes
import fcntl
import os
import platform
import struct
import sys
import threading

from session import ask, connect, numbers, step

PAGE_BYTES = 4096
LANE_COUNT = 3
# What has a memory made, and what has it sealed: that of the number that the first was told.
OFFERS = {"lane": "SHM LANE 4096 4096", "upload": "SHM UPLOAD 1", "table": "SHM ATTACH"}
SEALS = {"lane": "SHM SEAL {}", "upload": "SHM OPEN {}", "table": "SHM SEGMENTS 0"}
USERFAULTFD = {"x86_64": 323, "aarch64": 282}
# userfaultfd(2): the version of the interface, what memory of a file needs, and the two requests
# that are made.
API, MISSING_SHMEM, API_REQUEST = 0xAA, 1 << 5, 0xC018AA3F
REGISTER_REQUEST, MISSING = 0xC020AA00, 1
# mmap(2): readable and writable; shared; private and anonymous.
READ_WRITE, SHARED, PRIVATE_ANONYMOUS = 3, 0x01, 0x22

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
# Called without the interpreter's lock, which these two would not give back.
libc.memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]


def new_watcher() -> int:
    """Returns the descriptor that tells who waits for a page."""
    watcher = libc.syscall(USERFAULTFD[platform.machine()], os.O_CLOEXEC)
    if watcher < 0:
        step("not allowed")
        sys.exit()
    fcntl.ioctl(watcher, API_REQUEST, struct.pack("<QQQ", API, MISSING_SHMEM, 0))
    return watcher


def missing(watcher: int, size: int, flags: int, descriptor: int) -> int:
    """Returns the address of memory whose pages are not there until `watcher` brings them."""
    memory = libc.mmap(None, ctypes.c_size_t(size), READ_WRITE, flags, descriptor, ctypes.c_long(0))
    fcntl.ioctl(watcher, REGISTER_REQUEST, struct.pack("<QQQQ", memory, size, MISSING, 0))
    return memory


def in_background(call, *arguments) -> None:
    threading.Thread(target=call, args=arguments, daemon=True).start()


def main() -> None:
    watcher = new_watcher()
    page = missing(watcher, PAGE_BYTES, PRIVATE_ANONYMOUS, -1)
    control = connect()
    what = sys.argv[2]
    for _ in range(LANE_COUNT if what == "lane" else 1):
        reply, descriptors = ask(control, OFFERS[what])
        if what == "upload":
            mapped = missing(watcher, numbers(reply)[1], SHARED, descriptors[0])
            in_background(libc.memchr, mapped, 0, 1)
            os.read(watcher, 4096)
        in_background(libc.write, descriptors[0], page, PAGE_BYTES)
        os.read(watcher, 4096)
        step("writing")
        ask(control, SEALS[what].format(numbers(reply)[0]))
        step("sealing")
    sys.stdin.readline()
    control.close()
    sys.stdin.read()


main()
