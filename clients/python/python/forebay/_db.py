"""The store as Python sees it."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import glob
import itertools
import math
import os
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from forebay import _native
from forebay._cache import Cache, decorator
from forebay._errors import ConnectionError, Error
from forebay._lock import Lock

_MISSING = object()
# How long `open` waits for another process that is about to serve the same path.
_JOIN_SECONDS = 10.0


class Db(_native.Client, MutableMapping):
    """A store: a server that `connect` has reached, or that `open` has started.

    Threads share it. It is a mapping of keys to views, too. A forked child may use it, and
    connects by itself; pickled it is its URL.

    Keys are text, which is UTF-8 in the store, or bytes. Times are numbers of seconds; `put`,
    `mput`, `create`, `take` and `get_blocking` take a `datetime.timedelta`, too. Every method that
    asks the server raises `ClosedError` after `close`, and `ConnectionError` or `TimeoutError`
    where the server has gone or is silent: what was asked may have been done then or not.
    """

    # The process at whose end it is settled.
    _settles = None

    def __reduce__(self):
        return connect, (self.url, self.timeout)

    def __repr__(self):
        return f"<forebay.Db {self.url}{', closed' if self.closed else ''}>"

    def close(self) -> None:
        """Closes the connections. Views stay as they are; a server that runs elsewhere does.

        What other threads wait for then ends soon, by `ClosedError`.
        """
        try:
            if not self.closed:
                self.settle()
        finally:
            self._close()

    def __enter__(self) -> Db:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # A mapping.

    def __getitem__(self, key) -> _native.View:
        view = self.get(key)
        if view is None:
            raise KeyError(key)
        return view

    def __setitem__(self, key, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key) -> None:
        if self.delete(key) == 0:
            raise KeyError(key)

    def __iter__(self) -> Iterator[bytes]:
        return self.scan()

    def __len__(self) -> int:
        return self.call(b"DBSIZE")

    def __bool__(self):
        return True

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def scan(self, match: str | bytes | None = None, count: int = 1000) -> Iterator[bytes]:
        """Yields the keys as bytes, each once; of keys that come or go meanwhile, some."""
        cursor = b"0"
        pattern = () if match is None else (b"MATCH", match)
        seen = set()
        while True:
            cursor, keys = self.call(b"SCAN", cursor, b"COUNT", count, *pattern)
            for key in keys:
                if key not in seen:
                    seen.add(key)
                    yield key
            if cursor == b"0":
                return

    def pop(self, key, default=_MISSING):
        """Deletes `key` and returns the view of what it had; `default` where there is no such key,
        or `KeyError` without one.
        """
        view = self.take(key)
        if view is None:
            if default is _MISSING:
                raise KeyError(key)
            return default
        return view

    def popitem(self) -> tuple[bytes, _native.View]:
        """Deletes some key; returns it with the view of what it had. `KeyError` where none is left,
        `WrongTypeError` where the key holds no string.
        """
        while (key := self.call(b"RANDOMKEY")) is not None:
            view = self.take(key)
            if view is not None:
                return key, view
        raise KeyError("the store is empty")

    def clear(self) -> None:
        """Deletes all keys of the database."""
        self.call(b"FLUSHDB")

    def setdefault(self, key, default: Any = None) -> _native.View:
        """Puts `default` if there is no such key; returns the view of what there is then."""
        while True:
            self.put(key, default, nx=True)
            view = self.get(key)
            if view is not None:
                return view

    # Objects and their times.

    def load(self, key, default: Any = None) -> Any:
        """Returns the object that was put at `key`, or `default`."""
        view = self.get(key)
        return default if view is None else view.load()

    def expire(self, key, ttl: float) -> bool:
        """Has `key` live for `ttl` seconds from now, a number; returns whether there is such a key.

        It is deleted at once where that is 0 or less.
        """
        return self.call(b"PEXPIRE", key, _milliseconds(ttl)) == 1

    def persist(self, key) -> bool:
        """Has `key` live without an end; returns whether that changed anything."""
        return self.call(b"PERSIST", key) == 1

    def put_auto(self, value: Any, ttl: float = 600.0) -> bytes:
        """Puts `value` under a key of its own; returns that: 16 bytes, for one `take`.

        It lives for `ttl` seconds if nobody takes it, from when the server has it.

        It does not wait for the server, where that shares its memory. What the server refuses is
        raised by the next `put_auto`, `take`, `settle` or `close` of this thread.
        """
        key = _next_id()
        if self._settles is not _process:
            _settle_at_end(self)
        self._post(key, value, ttl)
        return key

    def hset(self, key, fields: Mapping[Any, Any]) -> int:
        """Sets `fields`, a mapping of text, bytes or numbers to such, in the hash at `key`; returns
        how many are new. `WrongTypeError` is raised where the key holds no hash.
        """
        words = itertools.chain.from_iterable(fields.items())
        return self.call(b"HSET", key, *words)

    def incr(self, key, by: int = 1) -> int:
        """Adds the integer `by` to the one at `key`, 0 where there is none; returns the sum.

        The number is one in decimal, as Redis has it: `put` pickles numbers, and what it has put is
        refused by `ResponseError`, as are sums beyond 64 bits.
        """
        return self.call(b"INCRBY", key, by)

    # What is made of them.

    def pipeline(self, transaction: bool = False) -> Pipeline:
        """Returns requests to be sent together; `transaction`: executed together, too."""
        return Pipeline(self, transaction)

    def lock(self, name: str | bytes, ttl: float = 30.0, timeout: float | None = None) -> Lock:
        """Returns a lock of all who use `name`, for a `with` statement.

        It is lost `ttl` seconds after it was acquired. The statement raises `LockError` where it
        was not free within `timeout` seconds; `None` waits for ever.
        """
        return Lock(self, name, ttl, timeout)

    def cache(
        self, ttl: float, stale: float = 0.0, key: str | None = None
    ) -> Callable[[Callable[..., Any]], Cache]:
        """Returns a decorator: the function's results are kept for `ttl` seconds, see `Cache`.

        For `stale` seconds more a result is returned while one of those who ask for it makes a new
        one. `key` is how the keys of the results begin; without it they begin with the names of the
        function's module and of the function, in a script with the script's path.
        """
        return decorator(Cache, self, ttl, stale, key)

    def redis(self, **options):
        """Returns a `redis.Redis` of this server; `options` are those of its constructor.

        Over `shm://` its connections pass through shared memory.
        """
        from forebay._redis import redis

        return redis(self, options)

    def aredis(self, **options):
        """As `redis`: a `redis.asyncio.Redis` of this server."""
        from forebay._redis import aredis

        return aredis(self, options)


class Pipeline:
    """Requests that are sent together by `execute`, or at the end of a `with` statement."""

    def __init__(self, db, transaction):
        self._db = db
        self._transaction = transaction
        self._requests = []
        #: The replies of the last `execute`.
        self.replies = []

    def call(self, *words: Any) -> Pipeline:
        """Adds a request; returns the pipeline."""
        self._requests.append(words)
        return self

    def put(self, key, value, ttl=None):
        """Adds a SET of bytes or text; returns the pipeline."""
        expiry = () if ttl is None else (b"PX", _milliseconds(ttl))
        return self.call(b"SET", key, value, *expiry)

    def get(self, key):
        """Adds a GET, whose reply is `bytes`; returns the pipeline."""
        return self.call(b"GET", key)

    def delete(self, *keys):
        """Adds a DEL; returns the pipeline."""
        return self.call(b"DEL", *keys)

    def __len__(self):
        return len(self._requests)

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Sends the requests and returns their replies; the first error among them is raised."""
        requests, self._requests = self._requests, []
        if not requests:
            self.replies = []
            return self.replies
        if self._transaction:
            _, *queued, done = self._db._pipeline([(b"MULTI",), *requests, (b"EXEC",)])
            if isinstance(done, Error):
                # What could not be queued tells why, and EXEC no more than that it failed.
                done = next((reply for reply in queued if isinstance(reply, Error)), done)
            self.replies = done if isinstance(done, list) else [done]
        else:
            self.replies = self._db._pipeline(requests)
        if raise_on_error:
            for reply in self.replies:
                if isinstance(reply, Error):
                    raise reply
        return self.replies

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            self.execute()


def _milliseconds(seconds):
    """Returns `seconds` in whole milliseconds, rounded up from a nanosecond on."""
    return math.ceil(round(seconds * 1000, 6))


class _Owner(Db):
    """A store whose server runs in this process."""

    def close(self):
        """Closes the connections and ends the server: others lose it, and views stay."""
        try:
            super().close()
        finally:
            # It ends also where what was posted last was refused.
            self._server.end()


# What is in the folder of a store: its socket, its lock, and where it is durable its log.
_SOCKET = "forebay.sock"
_LOG_FOLDER = "appendonlydir"
# The folder of a store without a path has this prefix and this file, which is locked as long as the
# process lives that made it. No other folder has such a file, so that none is taken for one.
_TEMPORARY_PREFIX = "forebay-"
_TEMPORARY_LOCK = "temporary.lock"


class _Served:
    """A server in this process, with the folder that its socket is in."""

    def __init__(self, folder, is_temporary, lock):
        self.folder = folder
        self.socket = os.path.join(folder, _SOCKET)
        self.is_temporary = is_temporary
        self.lock = lock
        self.process_id = os.getpid()
        self.server = None
        self._is_ended = False
        self._ending = threading.Lock()

    def start(self, options):
        if self.is_temporary:
            self.lock = _mark_temporary(self.folder)
        elif os.path.exists(self.socket):
            os.unlink(self.socket)
        words = ["--port", "0", "--unixsocketperm", "700"]
        own = {"unixsocket": self.socket, "dir": self.folder}
        for name, value in (options | own).items():
            words += [f"--{name}", value]
        self.server = _native.Server(words)

    def end(self):
        """Ends it, once, in the process that it runs in."""
        if self.process_id != os.getpid():
            return
        with self._ending:
            if self._is_ended:
                return
            self._is_ended = True
        # One that has failed to start is not there.
        if _served.get(self.folder) is self:
            del _served[self.folder]
        try:
            if self.server is not None:
                self.server.stop()
        finally:
            if self.is_temporary:
                shutil.rmtree(self.folder, ignore_errors=True)
            if self.lock is not None:
                _unlock(self.lock)


# The servers of this process by the paths of their folders.
_served = {}
_served_lock = threading.Lock()
# The descriptors of this process that are locked. A forked child closes them, as it would keep the
# locks for as long as it lives; so no fork comes between a lock and its entry here.
_locks = set()
_locks_lock = threading.RLock()


# Another object in each process.
_process = object()
# The stores that may have posted in this process.
_posting = weakref.WeakSet()


def _settle_at_end(db):
    """Has `db` settled when the process ends in order."""
    db._settles = _process
    _posting.add(db)
    # Processes of multiprocessing end without what is registered with atexit.
    util = sys.modules.get("multiprocessing.util")
    if util is not None and len(_posting) == 1:
        util.Finalize(None, _settle_all, exitpriority=0)


def _settle_all():
    for db in list(_posting):
        # The server may have ended before: then nobody takes what was put.
        with contextlib.suppress(Error):
            db.settle()


def _after_fork_in_child():
    # The servers are the parent's, and so are the locks of their folders.
    global _served_lock, _locks_lock, _process
    _process = object()
    _posting.clear()
    _served_lock = threading.Lock()
    _locks_lock = threading.RLock()
    _served.clear()
    for descriptor in _locks:
        os.close(descriptor)
    _locks.clear()
    _ids.restart()


def _end_all():
    for served in list(_served.values()):
        served.end()


def connect(url: str, timeout: float | None = None) -> Db:
    """Returns the store at `url`: `shm:///path/to/socket`, `unix:///path/to/socket` or
    `redis://host:port/database`.

    `timeout` is in seconds: calls give up on a server that is silent for longer. `URLError` is
    raised where it is no such URL, `ConnectionError` where no server answers.
    """
    return Db(url, timeout)


def open(
    path: str | os.PathLike[str] | None = None, *, durable: bool | None = None, **options: Any
) -> Db:
    """Returns a store whose server runs in this process, or joins the one at the folder `path`.

    Without a path it is a store of its own, which others may join by its `url`. The server ends
    with the process, or with `close`. `options` are those of `forebay serve`, with underscores:
    `maxmemory="1gb"`. `TypeError` is raised for one that there is not, `ValueError` for a value
    that it does not take, for one that `open` sets itself, as `dir`, or that contradicts
    `durable`, and where the store that is joined has another; fewer `maxclients` will do, as a
    server lowers them to what its limit of descriptors leaves. `appendonly` and `save` need a path.

    Where it is `durable` it keeps a log in the folder, and each write is on the disk before its
    reply comes (`appendfsync="everysec"` is faster). Without that word it is what it was when the
    folder was opened last; a new one is not durable: what was stored goes with the server.
    """
    given, shown = _checked(options, path, durable)
    with _served_lock:
        if path is None:
            _remove_abandoned()
            folder = tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX)
            return _start(_Served(folder, True, None), given)
        if "://" in os.fsdecode(path):
            raise ValueError(f"a folder is opened, not {path!r}: connect() takes a URL")
        folder = os.path.abspath(os.fspath(path))
        served = _served.get(folder)
        if served is not None:
            if not os.path.exists(served.socket):
                text = f"this process has {folder} open, whose files were removed: close that first"
                raise ConnectionError(text)
            return _join(served.socket, durable, shown)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if durable is None:
            durable = os.path.exists(os.path.join(folder, _LOG_FOLDER))
        end = time.monotonic() + _JOIN_SECONDS
        while True:
            lock = _lock_of(folder)
            if lock is not None:
                return _start(_Served(folder, False, lock), _log_options(durable) | given)
            try:
                return _join(os.path.join(folder, _SOCKET), durable, shown)
            except ConnectionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)


# What `open` says itself: where the store's files are, and that its own connections need no
# password.
_OWN_OPTIONS = ("unixsocket", "dir", "appenddirname", "requirepass")


def _checked(options, path, durable):
    """Returns `options` as the server takes them, and as it shows them, by its names."""
    given, shown = {}, {}
    for name, value in options.items():
        text = str(value)
        # Some of the server's names have underscores.
        found = _native.option(name.replace("_", "-"), text) or _native.option(name, text)
        if found is None:
            raise TypeError(f"there is no option {name!r}: {_advice(name)}")
        if found[0] in _OWN_OPTIONS:
            raise ValueError(f"open() sets {name} itself")
        given[found[0]] = text
        if found[1] is not None:
            shown[found[0]] = found[1]
    keeps_log = shown.get("appendonly")
    if durable is not None and keeps_log not in (None, "yes" if durable else "no"):
        raise ValueError(f"durable={durable} contradicts appendonly={keeps_log!r}")
    if path is None and (durable or keeps_log == "yes"):
        raise ValueError("a durable store needs a folder")
    if path is None and shown.get("save"):
        raise ValueError("a store that is saved needs a folder")
    return given, shown


def _advice(name):
    import difflib

    known = [word.replace("-", "_") for word in _native.option_names()]
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}?" if close else "forebay options lists them"


def _log_options(durable):
    return {"appendonly": "yes", "appendfsync": "always"} if durable else {}


def _join(socket, durable, shown):
    """Returns the store at `socket`, if it is durable where that is asked, and has options as
    `shown`.
    """
    db = connect(_url(socket))
    try:
        if durable and db.call("CONFIG", "GET", "appendonly")[1] != b"yes":
            raise ValueError("the store is open already, and not durable")
        for name, wanted in shown.items():
            found = db.call("CONFIG", "GET", name)[1].decode()
            # A server has fewer clients than it is told where there are few descriptors.
            is_lowered = name == "maxclients" and int(found) < int(wanted)
            if found != wanted and not is_lowered:
                text = f"the store is open already, with {name} {found!r}, not {wanted!r}"
                raise ValueError(text)
    except BaseException:
        db.close()
        raise
    return db


def _start(served, options):
    try:
        served.start(options)
        db = _Owner(_url(served.socket))
        db._server = _served[served.folder] = served
    except BaseException:
        served.end()
        raise
    return db


def _mark_temporary(folder):
    """Returns the locked descriptor that tells that the process lives that made `folder`."""
    # It has its name once it is locked, so that nobody finds it without a lock meanwhile.
    unnamed = os.path.join(folder, "unnamed")
    descriptor = _locked(unnamed, os.O_CREAT)
    if descriptor is not None:
        try:
            os.rename(unnamed, os.path.join(folder, _TEMPORARY_LOCK))
        except BaseException:
            _unlock(descriptor)
            raise
    return descriptor


def _remove_abandoned():
    """Removes the folders that killed processes of this user have left where temporary ones are."""
    pattern = os.path.join(glob.escape(tempfile.gettempdir()), f"{_TEMPORARY_PREFIX}*")
    for folder in glob.glob(pattern):
        # Another process may remove it too; what is not to be removed stays.
        with contextlib.suppress(OSError):
            if os.stat(folder, follow_symlinks=False).st_uid != os.getuid():
                continue
            mark = os.path.join(folder, _TEMPORARY_LOCK)
            descriptor = _locked(mark)
            if descriptor is None:
                continue
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, _SOCKET))
                os.unlink(mark)
                os.rmdir(folder)
            finally:
                _unlock(descriptor)


def _lock_of(folder):
    """Returns the locked descriptor of who serves `folder`; None where another process does."""
    return _locked(os.path.join(folder, "lock"), os.O_CREAT)


def _locked(path, flags=0):
    """Returns the descriptor of the file at `path`, locked; None where another process locks it."""
    with _locks_lock:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        _locks.add(descriptor)
    return descriptor


def _unlock(descriptor):
    with _locks_lock:
        _locks.discard(descriptor)
        os.close(descriptor)


def _url(socket):
    return f"shm://{quote(socket)}"


def address_of(url):
    """Returns what `url` says as redis-py's options name it."""
    parts = urlsplit(url)
    options = dict(pair.split("=", 1) for pair in parts.query.split("&") if pair)
    address = {"db": int(options.get("db", 0))}
    for name, value in (
        ("username", parts.username or options.get("user")),
        ("password", parts.password or options.get("password")),
    ):
        if value:
            address[name] = unquote(value)
    if parts.scheme == "redis":
        address.update(host=parts.hostname or "localhost", port=parts.port or 6379)
        number = parts.path.strip("/")
        if number:
            address["db"] = int(number)
    else:
        address["unix_socket_path"] = unquote(parts.path)
    return address


# How keys begin that are for one consumer: no text does. The native half knows them by it.
_FOR_ONE = b"\xf5FB"


class _Ids:
    """Identities of 16 bytes: a prefix, eight random ones of this process, and a number."""

    def __init__(self):
        self.restart()

    def restart(self):
        self._prefix = _FOR_ONE + os.urandom(8)
        self._numbers = itertools.count()

    def next(self):
        number = next(self._numbers)
        if number >> 40:
            self.restart()
            number = next(self._numbers)
        return self._prefix + number.to_bytes(5, "big")


_ids = _Ids()
_next_id = _ids.next
os.register_at_fork(
    before=lambda: _locks_lock.acquire(),
    after_in_parent=lambda: _locks_lock.release(),
    after_in_child=_after_fork_in_child,
)
atexit.register(_end_all)
atexit.register(_settle_all)
