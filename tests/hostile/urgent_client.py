"""A client that sends urgent data between two requests, by TCP to the port that is its second
argument. It says "ready" and sends once it has read a line; then it says "sent", and "answered"
once both replies have come.
"""

import socket
import sys

from session import step


def main() -> None:
    client = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    # The server does nothing until all of it is there.
    step("ready")
    sys.stdin.readline()
    client.sendall(b"PING\r\n")
    client.send(b"!", socket.MSG_OOB)
    client.sendall(b"PING\r\n")
    step("sent")
    replies = b""
    while len(replies) < len(b"+PONG\r\n" * 2):
        replies += client.recv(4096)
    step("answered" if replies == b"+PONG\r\n" * 2 else repr(replies))


main()
