"""The store for asyncio: the same operations as those of `forebay.Db`, to be awaited.

Requests are made on the thread of the event loop: a read looks in the server's memory, anything
else is one round trip through shared memory or the unix socket, which is shorter than handing it to
another thread. What waits for a value waits on a socket that the loop watches. Over TCP round trips
are too long for that: `connect` refuses it, and `Db.aredis` is there.
"""

import asyncio
import contextlib
import datetime
import time

import forebay
from forebay._cache import Cache, decorator
from forebay._db import address_of
from forebay._errors import ConnectionError, LockError, ProtocolError, ResponseError
from forebay._errors import UnsupportedError
from forebay._lock import Lock

# One AWAIT, so that a server that has gone is noticed.
_SLICE_SECONDS = 10.0
_PAUSE_MIN = 0.001
_PAUSE_MAX = 0.05
# After so long who waits for a result asks whether its maker has given up.
_MAKER_SECONDS = 0.1

_SAME = (
    "call", "delete", "exists", "expire", "get", "get_into", "hget", "hgetall", "hmget", "hset",
    "incr", "load", "mget", "mput", "persist", "put", "put_auto", "settle", "strlen", "ttl",
)  # fmt: skip


class AsyncDb:
    """A store for the tasks of one event loop."""

    def __init__(self, db):
        if db.url.startswith("redis://"):
            raise UnsupportedError("asyncio over TCP is not built: use Db.aredis()")
        #: The same store, for calls that are not awaited.
        self.db = db
        self._idle = []

    @property
    def url(self):
        """The URL that it was connected by."""
        return self.db.url

    @property
    def closed(self):
        """Whether it was closed."""
        return self.db.closed

    async def take(self, key, timeout=0.0):
        """As `forebay.Db.take`: deletes `key` and returns the view of what it had, and waits for it
        for `timeout` seconds; `None` waits for ever.
        """
        return await self._until(lambda: self.db.take(key), key, timeout)

    async def get_blocking(self, key, timeout=None):
        """As `forebay.Db.get_blocking`: returns the view of the value at `key`, and waits for it
        for `timeout` seconds; `None` waits for ever.
        """
        if isinstance(timeout, datetime.timedelta):
            timeout = timeout.total_seconds()
        return await self._until(lambda: self.db.get(key), key, timeout)

    async def _until(self, attempt, key, timeout):
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            view = attempt()
            if view is not None:
                return view
            left = _SLICE_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                return None
            await self._wait(key, min(left, _SLICE_SECONDS))

    async def _wait(self, key, seconds):
        """Waits until `key` exists, or for so long."""
        key = key.encode() if isinstance(key, str) else bytes(key)
        waiter = self._idle.pop() if self._idle else await _Waiter.connect(self.db.url)
        try:
            # Zero is for ever.
            await waiter.ask(b"AWAIT", key, b"%.3f" % max(seconds, 0.001))
        except BaseException:
            # The wait may go on in the server; it ends with its connection.
            waiter.close()
            raise
        self._idle.append(waiter)

    def create(self, key, nbytes, **options):
        """Returns memory to write the value of `key` to, for a `with` statement: see
        `forebay.Db.create`. It is not awaited.
        """
        return self.db.create(key, nbytes, **options)

    @contextlib.asynccontextmanager
    async def lock(self, name, ttl=30.0, timeout=None):
        """Holds the lock `name` in an `async with` statement: as `forebay.Db.lock`."""
        lock = Lock(self.db, name, ttl)
        end = None if timeout is None else time.monotonic() + timeout
        pause = _PAUSE_MIN
        while not lock.acquire(timeout=0):
            if end is not None and time.monotonic() >= end:
                raise LockError(f"the lock {name!r} was not free within {timeout} s")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX)
        try:
            yield lock
        finally:
            lock.release()

    def cache(self, ttl, stale=0.0, key=None):
        """Returns a decorator of functions that are awaited: as `forebay.Db.cache`."""
        return decorator(AsyncCache, self, ttl, stale, key)

    def pipeline(self, transaction=False):
        """Returns requests to be sent together, by `execute`, which is not awaited."""
        return self.db.pipeline(transaction)

    async def close(self):
        """Closes the connections, and ends the server if it is this process's."""
        for waiter in self._idle:
            waiter.close()
        self._idle.clear()
        self.db.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exception):
        await self.close()


def _awaited(name):
    async def method(self, *arguments, **options):
        return getattr(self.db, name)(*arguments, **options)

    method.__name__ = name
    method.__qualname__ = f"AsyncDb.{name}"
    method.__doc__ = f"As `forebay.Db.{name}`."
    return method


for _name in _SAME:
    setattr(AsyncDb, _name, _awaited(_name))


async def connect(url, timeout=None):
    """Returns the store at `url`, which is of `shm://` or `unix://`."""
    return AsyncDb(forebay.connect(url, timeout))


async def open(path=None, *, durable=None, **options):
    """As `forebay.open`, for tasks."""
    return AsyncDb(forebay.open(path, durable=durable, **options))


class AsyncCache(Cache):
    """A function that is awaited, and its results: those of `forebay.Db.cache`, for tasks."""

    _is_awaited = True

    def __init__(self, store, function, ttl, stale=0.0, key=None):
        super().__init__(store.db, function, ttl, stale, key)
        self._store = store

    async def __call__(self, *arguments, **options):
        key = self.key_of(*arguments, **options)
        end = time.monotonic() + self._wait()
        view, token = self._look(key, 0)
        while view is None and token is None and time.monotonic() < end:
            await self._store._wait(key, _MAKER_SECONDS)
            view, token = self._look(key, 0)
        if token is None:
            if view is not None:
                return view.load()[0]
            # Another makes it, and takes longer than this one waits.
            return await self._function(*arguments, **options)
        try:
            result = await self._function(*arguments, **options)
            self._keep(key, token, result)
        except BaseException as error:
            self._give_up(key, token, error)
            raise
        return result

    async def refresh(self, *arguments, **options):
        """Calls the function, keeps what it returns, and returns it."""
        result = await self._function(*arguments, **options)
        self._db.put(self.key_of(*arguments, **options), (result,), ttl=self._ttl)
        return result

    async def forget(self, *arguments, **options):
        """Deletes the result; returns whether there was one."""
        return super().forget(*arguments, **options)


class _Waiter:
    """A connection that waits, one request after the other."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, url):
        address = address_of(url)
        try:
            streams = await asyncio.open_unix_connection(address["unix_socket_path"])
        except OSError as error:
            raise ConnectionError(f"no connection: {error}") from error
        waiter = cls(*streams)
        if "password" in address:
            who = [address[name].encode() for name in ("username", "password") if name in address]
            await waiter.ask(b"AUTH", *who)
        if address["db"]:
            await waiter.ask(b"SELECT", b"%d" % address["db"])
        return waiter

    async def ask(self, *words):
        request = [b"*%d\r\n" % len(words)]
        request += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
        try:
            self._writer.write(b"".join(request))
            line = await self._reader.readuntil(b"\r\n")
            if line[:1] == b"$" and line != b"$-1\r\n":
                await self._reader.readexactly(int(line[1:]) + 2)
        except (OSError, EOFError) as error:
            raise ConnectionError(f"no connection: {error}") from error
        if line[:1] == b"-":
            raise ResponseError(line[1:-2].decode())
        if line[:1] not in b"+:$*_":
            raise ProtocolError(f"unexpected reply: {line!r}")

    def close(self):
        self._writer.close()
