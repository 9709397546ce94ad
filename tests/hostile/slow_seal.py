"""A client that makes lanes, and writes to their descriptors out of a page that nobody brings.

A write holds the lock that sealing the memory waits for, for as long as the process lives. What
it has come to is written to standard output, a line for each step; "not allowed" where the system
does not let it make such a page. Its connection ends with a line on its standard input.
"""

import array
import ctypes
import fcntl
import os
import platform
import socket
import struct
import sys
import threading

PAGE_BYTES = 4096
LANE_COUNT = 3
USERFAULTFD = {"x86_64": 323, "aarch64": 282}
# userfaultfd(2): the version of the interface, and the two requests that are made.
API, API_REQUEST, REGISTER_REQUEST, MISSING = 0xAA, 0xC018AA3F, 0xC020AA00, 1

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]


def step(text: str) -> None:
    print(text, flush=True)


def ask(control: socket.socket, line: str) -> tuple[bytes, list[int]]:
    control.sendall(line.encode() + b"\r\n")
    reply, ancillary, _, _ = control.recvmsg(4096, socket.CMSG_SPACE(16))
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data)
    return reply, list(descriptors)


def missing_page() -> tuple[int, int]:
    """Returns a page that is not there, and the descriptor that tells who waits for it."""
    watcher = libc.syscall(USERFAULTFD[platform.machine()], os.O_CLOEXEC)
    if watcher < 0:
        step("not allowed")
        sys.exit()
    fcntl.ioctl(watcher, API_REQUEST, struct.pack("<QQQ", API, 0, 0))
    # Readable and writable; private and anonymous.
    page = libc.mmap(None, ctypes.c_size_t(PAGE_BYTES), 3, 0x22, -1, ctypes.c_long(0))
    request = struct.pack("<QQQQ", page, PAGE_BYTES, MISSING, 0)
    fcntl.ioctl(watcher, REGISTER_REQUEST, request)
    return page, watcher


def main() -> None:
    page, watcher = missing_page()
    control = socket.socket(socket.AF_UNIX)
    control.connect(sys.argv[1])
    for _ in range(LANE_COUNT):
        reply, descriptors = ask(control, "SHM LANE 4096 4096")
        lane = reply.split(b":")[1].split(b"\r\n")[0].decode()
        write = (descriptors[0], page, PAGE_BYTES)
        threading.Thread(target=libc.write, args=write, daemon=True).start()
        os.read(watcher, 4096)
        step("writing")
        ask(control, f"SHM SEAL {lane}")
        step("sealing")
    sys.stdin.readline()
    control.close()
    sys.stdin.read()


main()
