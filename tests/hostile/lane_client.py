"""A client that makes a lane and works over it until it is killed.

It asks PING, or once what it is told. Its child keeps the socket open afterwards, until its
standard input ends. What it does is written to standard output, a line for each step.
"""

import array
import mmap
import os
import socket
import struct
import sys

RING_BYTES = 4096
TAIL_AT = 128


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
    reply, descriptors = ask(control, f"SHM LANE {RING_BYTES} {RING_BYTES}")
    lane = reply.split(b":")[1].split(b"\r\n")[0].decode()
    step("offered")
    memory = mmap.mmap(descriptors[0], 4096 + 2 * RING_BYTES)
    step("mapped")
    ask(control, f"SHM SEAL {lane}")
    step("sealed")
    request = sys.argv[2].encode() if len(sys.argv) > 2 else b"*1\r\n$4\r\nPING\r\n"
    padded = request + bytes(-len(request) % 8)
    frame = struct.pack("<Q", len(request)) + padded
    for count in range(1 if len(sys.argv) > 2 else 100):
        at = count * len(frame)
        for index, byte in enumerate(frame):
            memory[4096 + (at + index) % RING_BYTES] = byte
        memory[TAIL_AT : TAIL_AT + 8] = struct.pack("<Q", at + len(frame))
        os.write(descriptors[1], struct.pack("<Q", 1))
        step("asked")
    sys.stdout.flush()
    socket.socketpair()[0].recv(1)


main()
