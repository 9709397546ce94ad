"""A client that uploads values until it is killed.

Its child keeps the socket open afterwards, until its standard input ends. What it does is written
to standard output, a line for each step; "stored" stands before the key of a value that is there.
"""

import array
import mmap
import os
import socket
import sys

VALUE_BYTES = 8192


def step(text: str) -> None:
    print(text, flush=True)


def ask(control: socket.socket, line: str) -> tuple[bytes, list[int]]:
    control.sendall(line.encode() + b"\r\n")
    reply, ancillary, _, _ = control.recvmsg(4096, socket.CMSG_SPACE(16))
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data)
    return reply, list(descriptors)


def main() -> None:
    control = socket.socket(socket.AF_UNIX)
    control.connect(sys.argv[1])
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    step("connected")
    reply, descriptors = ask(control, "SHM UPLOAD 1")
    numbers = [int(line[1:]) for line in reply.split(b"\r\n") if line[:1] == b":"]
    base, size = numbers[:2]
    step("offered")
    memory = mmap.mmap(descriptors[0], size)
    step("mapped")
    while ask(control, f"SHM OPEN {base}")[0] != b":1\r\n":
        pass
    step("opened")
    for count in range(25):
        mode = "ADOPT" if count % 3 else "COPY"
        at = int(ask(control, f"SHM ALLOC {VALUE_BYTES}")[0][1:]) - base
        step("allocated")
        value = bytes([65 + count]) * VALUE_BYTES
        memory[at : at + VALUE_BYTES // 2] = value[: VALUE_BYTES // 2]
        step("writing")
        memory[at : at + VALUE_BYTES] = value
        step("written")
        ask(control, f"SHM COMMIT {base + at} {VALUE_BYTES} {mode} key:{count}")
        step(f"stored key:{count}")
    sys.stdout.flush()
    socket.socketpair()[0].recv(1)


main()
