"""Forebay: a Redis-compatible data store whose values lie in shared memory.

    import forebay

    db = forebay.open()                       # a server in this process; others may join db.url
    db = forebay.connect("shm:///run/forebay.sock")   # or unix://, redis://
    db.put("key", numpy.arange(10), ttl=30)
    db.get("key").numpy()                     # not copied
"""

from forebay._cache import Cache
from forebay._db import Db, Pipeline, connect, open
from forebay._errors import (
    ClosedError,
    ConnectionError,
    Error,
    LockError,
    ProtocolError,
    ResponseError,
    StaleViewError,
    TimeoutError,
    UnsupportedError,
    URLError,
    WrongTypeError,
)
from forebay._lock import Lock
from forebay._native import Creation, View, __version__

__all__ = [
    "Cache",
    "ClosedError",
    "ConnectionError",
    "Creation",
    "Db",
    "Error",
    "Lock",
    "LockError",
    "Pipeline",
    "ProtocolError",
    "ResponseError",
    "StaleViewError",
    "TimeoutError",
    "URLError",
    "UnsupportedError",
    "View",
    "WrongTypeError",
    "__version__",
    "connect",
    "open",
]
