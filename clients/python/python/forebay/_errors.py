"""The exceptions. All of them are a `forebay.Error`."""

import builtins


class Error(Exception):
    """Something that Forebay was asked for did not happen."""


class URLError(Error, ValueError):
    """The URL is not that of a server."""


class ClosedError(Error, ValueError):
    """The client, the view or the creation is closed."""


class ConnectionError(Error, builtins.ConnectionError):
    """The connection cannot be made or has ended: what was asked may have been done or not."""


class TimeoutError(Error, builtins.TimeoutError):
    """The server was silent for too long: what was asked may have been done or not."""


class ProtocolError(Error):
    """The server answered something else than the protocol says."""


class UnsupportedError(Error, NotImplementedError):
    """The request was not sent, because it is not possible over a client's connection."""


class ResponseError(Error):
    """The server refused, in its words."""

    @property
    def code(self) -> str:
        """The first word of the refusal, such as `WRONGTYPE`."""
        return str(self).split(" ", 1)[0]


class WrongTypeError(ResponseError):
    """The key holds another type of value."""


class StaleViewError(Error, LookupError):
    """The value that a pickled view refers to is not that of its key any more."""


class LockError(Error):
    """A lock was not acquired in time, or was lost before it was released."""
