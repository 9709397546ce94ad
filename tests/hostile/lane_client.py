"""A client that makes a lane and works over it until it is killed.

It asks PING, or once what it is told. Its child keeps the socket open afterwards, until its
standard input ends. What it does is written to standard output, a line for each step.
"""

import mmap
import os
import struct
import sys

from session import ask, close_memory, connect_with_child, numbers, step, wait_for_ever

RING_BYTES = 4096
TAIL_AT = 128


def main() -> None:
    control = connect_with_child()
    reply, descriptors = ask(control, f"SHM LANE {RING_BYTES} {RING_BYTES}")
    lane = numbers(reply)[0]
    step("offered")
    memory = mmap.mmap(descriptors[0], 4096 + 2 * RING_BYTES)
    close_memory(descriptors[0])
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
    wait_for_ever()


main()
