"""A client that makes lanes, upload memory or a pin table, and writes to their descriptors out of a
page that nobody brings.

A write holds the lock of the memory's file for as long as the process lives. Upload memory it has
mapped so that nobody brings its pages either, and reads one of them. The second argument is what it
makes. The third says when it writes: before it closes the memory for writers ("open"), which it
then cannot, or afterwards ("closed"). The fourth is how many connections make so much of it, by one
user each of those that follow the fifth. What it has come to is written to standard output, a line
for each step; "not allowed" where the system does not let it make such pages. Its connections end
with a line on its standard input.
"""

import ctypes
import fcntl
import os
import platform
import select
import socket
import struct
import sys
import threading

from session import ask, close_memory, connect, numbers, step

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
    watcher = libc.syscall(USERFAULTFD[platform.machine()], os.O_CLOEXEC | os.O_NONBLOCK)
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


def write_slowly(watcher: int, descriptor: int, page: int) -> None:
    """Writes to the descriptor out of the page; returns once that waits, or has failed."""
    failed = os.pipe()

    def write() -> None:
        libc.write(descriptor, page, PAGE_BYTES)
        os.write(failed[1], b"x")

    threading.Thread(target=write, daemon=True).start()
    await_one(watcher, failed[0])


def await_one(watcher: int, *others: int) -> None:
    """Returns once somebody waits for a page, or one of `others` can be read."""
    ready = select.poll()
    for descriptor in (watcher, *others):
        ready.register(descriptor, select.POLLIN)
    if any(number == watcher for number, _ in ready.poll()):
        os.read(watcher, 4096)


def main() -> None:
    watcher = new_watcher()
    what, when = sys.argv[2], sys.argv[3]
    count, user = (int(sys.argv[4]), int(sys.argv[5])) if len(sys.argv) > 4 else (1, None)
    controls = []
    for index in range(count):
        if user is not None:
            os.seteuid(0)
            os.seteuid(user + index)
        controls.append(connect())
    for control in controls:
        for _ in range(LANE_COUNT if what == "lane" else 1):
            take_up(watcher, control, what, when)
    sys.stdin.readline()
    for control in controls:
        control.close()
    step("closed")
    sys.stdin.read()


def take_up(watcher: int, control: socket.socket, what: str, when: str) -> None:
    """Makes one memory, and says how the server answers to its sealing."""
    # A page of its own for each, so that each write is told of.
    page = missing(watcher, PAGE_BYTES, PRIVATE_ANONYMOUS, -1)
    reply, descriptors = ask(control, OFFERS[what])
    if what == "upload":
        mapped = missing(watcher, numbers(reply)[1], SHARED, descriptors[0])
        threading.Thread(target=libc.memchr, args=(mapped, 0, 1), daemon=True).start()
        await_one(watcher)
    if when == "closed":
        close_memory(descriptors[0])
    write_slowly(watcher, descriptors[0], page)
    step("writing")
    answer = ask(control, SEALS[what].format(numbers(reply)[0]))[0]
    step("refused" if answer[:1] == b"-" else "sealing")


main()
