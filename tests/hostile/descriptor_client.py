"""A client that passes the server a descriptor whose last close takes as long as it likes.

It is a TCP socket that lingers on close, with data that its peer does not read. The second argument
says where it passes it: with a request ("request"), into the bell of a lane ("bell"), or behind
requests that nobody reads, as the connection waits in a blocking command ("waiting"). A line of its
output says "passed", or "refused" where the kernel does not take it. It has the data read once its
standard input says something. A third argument is for how many seconds the socket lingers.
"""

import array
import socket
import struct
import sys

from session import ask, connect, numbers, step

LINGER_SECONDS = int(sys.argv[3]) if len(sys.argv) > 3 else 100_000


def lingering() -> tuple[socket.socket, socket.socket]:
    """Returns a socket that lingers, and its peer."""
    listener = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(listener.getsockname())
    other, _ = listener.accept()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_SECONDS))
    one.setblocking(False)
    try:
        while True:
            one.send(bytes(65_536))
    except BlockingIOError:
        pass
    return one, other


def main() -> None:
    control, where = connect(), sys.argv[2]
    one, other = lingering()
    target, lane = control, None
    if where == "bell":
        reply, descriptors = ask(control, "SHM LANE 4096 4096")
        lane = numbers(reply)[0]
        target = socket.socket(fileno=descriptors[2])
    if where == "waiting":
        control.sendall(b"AWAIT nothing 0\r\n")
    step("ready")
    # The server does nothing until this client has let go of the descriptor itself.
    sys.stdin.readline()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno()]))]
    try:
        target.sendmsg([b"PING\r\n"], rights)
        one.close()
        said = "passed"
    except OSError:
        said = "refused"
    if lane is not None:
        control.sendall(f"SHM CLOSE {lane}\r\n".encode())
    step(said)
    sys.stdin.readline()
    other.close()
    sys.stdin.read()


main()
