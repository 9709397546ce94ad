"""What the clients beside this file have in common.

They ask over the server's unix socket, and tell by lines of their output how far they have come.
"""

import array
import fcntl
import os
import socket
import sys


def step(text: str) -> None:
    """Says how far this client has come."""
    print(text, flush=True)


def connect() -> socket.socket:
    """Returns a connection to the server whose socket is the first argument."""
    control = socket.socket(socket.AF_UNIX)
    control.connect(sys.argv[1])
    return control


def connect_with_child() -> socket.socket:
    """Returns a connection that a child keeps open until its standard input ends."""
    control = connect()
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    step("connected")
    return control


def ask(control: socket.socket, line: str) -> tuple[bytes, list[int]]:
    """Sends a request; returns the reply and the descriptors that came with it."""
    control.sendall(line.encode() + b"\r\n")
    reply, ancillary, _, _ = control.recvmsg(4096, socket.CMSG_SPACE(16))
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data)
    return reply, list(descriptors)


def numbers(reply: bytes) -> list[int]:
    """Returns the numbers of a reply, in their order."""
    return [int(line[1:]) for line in reply.split(b"\r\n") if line[:1] == b":"]


# fcntl(2): the request, and that nobody maps it for writing any more, nor adds further seals.
ADD_SEALS, FUTURE_WRITE_AND_SEAL = 1033, 0x10 | 0x01


def close_memory(descriptor: int) -> None:
    """Closes memory for further writers, as the server wants it from who has mapped it."""
    fcntl.fcntl(descriptor, ADD_SEALS, FUTURE_WRITE_AND_SEAL)


def wait_for_ever() -> None:
    """Holds what this client has until it is killed."""
    # Both ends are kept: one alone is told at once that the other is gone.
    ours, _theirs = socket.socketpair()
    ours.recv(1)
