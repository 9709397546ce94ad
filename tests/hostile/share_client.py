"""A client of a certain user that takes of shared memory what it can get, and keeps it.

The second argument is the user, the third what it takes, the fourth how much of it:

"sessions": so many connections that attach; each step is the first refusal, or "all".
"lanes": so many lanes of one connection, with rings of the fifth argument, in bytes.
"segments": so many attached connections, each with fifty requests for all segments unread; once it
is told to, it reads, and says how many descriptors came with each.
"deaf": so many attached connections that do not read a large value, and the segments behind it.
"flight": so many descriptors on their way between sockets of its own.

What it has got is written to standard output: the number, and why there were no more of them.
"""

import array
import os
import resource
import socket
import sys

from session import ask, close_memory, connect, step

KNOWN_NOTHING = b"SHM SEGMENTS 0\r\n"
UNREAD_COUNT = 50


def attached() -> tuple[socket.socket | None, str]:
    """Returns a connection that may read, or why it may not."""
    control = connect()
    reply, descriptors = ask(control, "SHM ATTACH")
    if reply[:1] == b"-":
        return None, reply.decode().strip()
    for descriptor in descriptors:
        close_memory(descriptor)
        os.close(descriptor)
    return control, ""


def with_segments(control: socket.socket) -> socket.socket:
    """Waits until it has got segments, which it gives up."""
    while True:
        control.sendall(KNOWN_NOTHING)
        if receive_all(control, 1):
            return control


def receive_all(control: socket.socket, reply_count: int) -> list[int]:
    """Receives so many replies; returns how many descriptors came with each, if there were any."""
    counts, received = [], b""
    # Each reply ends with the number of its descriptors, or is an error.
    while received.count(b"descriptors\r\n:") + received.count(b"-ERR") < reply_count or (
        not received.endswith(b"\r\n")
    ):
        part, ancillary, _, _ = control.recvmsg(65_536, socket.CMSG_SPACE(4 * 253))
        received += part
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data)
        if descriptors:
            counts.append(len(descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
    return counts


def main() -> None:
    user, what, count = int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.setuid(user)
    kept, why = [], "all"
    other = connect()
    if what == "lanes":
        control = connect()
        for _ in range(count):
            reply, descriptors = ask(control, f"SHM LANE {sys.argv[5]} {sys.argv[5]}")
            if not descriptors:
                why = reply.decode().strip()
                break
            kept.append(descriptors)
    if what == "flight":
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))]
        for _ in range(count // 250):
            kept.append(socket.socketpair())
            kept[-1][0].sendmsg([b"x"], rights)
    while what in ("sessions", "segments", "deaf") and len(kept) < count:
        control, refusal = attached()
        if control is None:
            why = refusal
            break
        kept.append(control)
        if what != "sessions":
            with_segments(control)
        if what == "segments":
            for _ in range(UNREAD_COUNT):
                control.sendall(KNOWN_NOTHING)
                # The one worker has sent the reply before it looks at the next request.
                ask(other, "PING")
        if what == "deaf":
            control.sendall(b"GET large\r\n" + KNOWN_NOTHING)
    step(f"{len(kept)} {why}")
    sys.stdin.readline()
    if what == "segments":
        for control in kept:
            step(" ".join(str(number) for number in receive_all(control, UNREAD_COUNT)))
    kept.clear()
    step("gone")
    sys.stdin.read()


main()
