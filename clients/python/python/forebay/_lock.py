"""A lock among processes: a key that lives for a bounded time and holds its owner's token."""

import os
import time

from forebay._errors import LockError, ResponseError

_PAUSE_MIN = 0.001
_PAUSE_MAX = 0.05


class Lock:
    """A lock by the key `name`; use it in a `with` statement.

    It is lost `ttl` seconds after it was acquired, whatever its owner does: that is what frees it
    when a process is killed. `release` raises `LockError` where it was lost.
    """

    def __init__(self, db, name, ttl=30.0, timeout=None):
        self.name = name
        self._db = db
        self._ttl = ttl
        self._timeout = timeout
        self._token = None

    def acquire(self, timeout=None):
        """Waits for the lock, for `timeout` seconds at most; returns whether it was acquired."""
        if self._token is not None:
            raise LockError(f"the lock {self.name!r} is this object's already")
        token = os.urandom(16)
        end = None if timeout is None else time.monotonic() + timeout
        pause = _PAUSE_MIN
        while not self._db.put(self.name, token, ttl=self._ttl, nx=True):
            left = _PAUSE_MAX if end is None else end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _PAUSE_MAX)
        self._token = token
        return True

    def release(self):
        """Gives the lock up."""
        token, self._token = self._token, None
        if token is None:
            raise LockError(f"the lock {self.name!r} was not acquired")
        watched = self._db._pipeline([(b"WATCH", self.name), (b"GET", self.name)])
        if watched[1] != token:
            self._db.call(b"UNWATCH")
            raise LockError(f"the lock {self.name!r} was lost")
        done = self._db._pipeline([(b"MULTI",), (b"DEL", self.name), (b"EXEC",)])[-1]
        if isinstance(done, ResponseError):
            raise done
        if not done or done[0] != 1:
            raise LockError(f"the lock {self.name!r} was lost")

    @property
    def owned(self):
        """Whether this object holds the lock, as far as it knows without asking."""
        return self._token is not None

    def __enter__(self):
        if not self.acquire(self._timeout):
            raise LockError(f"the lock {self.name!r} was not free within {self._timeout} s")
        return self

    def __exit__(self, *exception):
        self.release()
