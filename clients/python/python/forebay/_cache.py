"""Results of functions, kept in the store for all processes."""

import contextlib
import functools
import hashlib
import os
import pickle

from forebay import _native
from forebay._errors import ResponseError

# How long a maker has at most, and how long others wait for it: one that dies loses its right at
# once, with its connection.
_LEASE_SECONDS = 60.0
# The server takes times in milliseconds.
_TTL_MIN = 0.001
# The server keeps what is too old for a year at most.
_STALE_MAX = 365 * 86_400
# The token of who makes a result for a server without leases.
_NO_LEASE = object()
# The token of who makes a result while the server stores nothing.
_NOT_KEPT = object()


class Cache:
    """A function whose results are kept for `ttl` seconds.

    Of all processes that miss a result one makes it, and the others wait for it. For `stale`
    seconds more a result that is too old is still returned, while one of those who ask for it makes
    a new one. What is made of something that changes meanwhile, so that `forget` is called, is
    returned and not kept. `None` is a result like any other. Arguments are told apart by how they
    pickle.
    """

    _is_awaited = False

    def __init__(self, db, function, ttl, stale=0.0, key=None):
        # It takes longer to import than all of the package, and few programs have a cache.
        import inspect

        if inspect.iscoroutinefunction(function) and not self._is_awaited:
            name = function.__qualname__
            raise TypeError(f"{name} is to be awaited: forebay.aio has a cache for such functions")
        if not 0 <= stale <= _STALE_MAX:
            raise ValueError(f"stale is {stale}, and must be between 0 and {_STALE_MAX} seconds")
        functools.update_wrapper(self, function)
        self._db = db
        self._function = function
        self._ttl = max(ttl, _TTL_MIN)
        self._stale = stale
        self._prefix = key or f"cache:{_module_of(function)}.{function.__qualname__}"

    def key_of(self, *arguments, **options):
        """Returns the key of the result for these arguments."""
        told = pickle.dumps((arguments, sorted(options.items())), protocol=4)
        return f"{self._prefix}:{hashlib.blake2b(told, digest_size=16).hexdigest()}"

    def __call__(self, *arguments, **options):
        key = self.key_of(*arguments, **options)
        view, token = self._look(key, self._wait())
        if token is None:
            # Without a result another makes it, and takes longer than this one waits.
            is_there = view is not None
            return view.load()[0] if is_there else self._function(*arguments, **options)
        try:
            result = self._function(*arguments, **options)
            self._keep(key, token, result)
        except BaseException as error:
            self._give_up(key, token, error)
            raise
        return result

    def refresh(self, *arguments, **options):
        """Calls the function, keeps what it returns, and returns it."""
        result = self._function(*arguments, **options)
        self._db.put(self.key_of(*arguments, **options), (result,), ttl=self._ttl)
        return result

    def forget(self, *arguments, **options):
        """Deletes the result; returns whether there was one."""
        return self._db.delete(self.key_of(*arguments, **options)) == 1

    def _wait(self):
        # A call gives up on a server that is silent for longer.
        timeout = self._db.timeout
        return _LEASE_SECONDS if timeout is None else min(_LEASE_SECONDS, timeout / 2)

    def _look(self, key, wait):
        """Returns the view of the result, or None, and the token of who is to make it, or None.

        Both are None where another makes it, and was not ready after `wait` seconds.
        """
        # What is refused of earlier posts is the caller's to know, and not passed over below.
        self._db.settle()
        try:
            return _native.lget(self._db, key, _LEASE_SECONDS, wait, self._stale > 0)
        except ResponseError as error:
            # redis-server has no leases: everybody who misses a result makes it.
            token = _NOT_KEPT if _stores_nothing(error) else _NO_LEASE
            if token is _NO_LEASE and not str(error).startswith("ERR unknown command"):
                raise
        view = self._db.get(key)
        return view, token if view is None else None

    def _keep(self, key, token, result):
        self._db.settle()
        try:
            if token is _NO_LEASE:
                self._db.put(key, (result,), ttl=self._ttl)
            elif token is not _NOT_KEPT:
                _native.lfill(self._db, key, token, (result,), self._ttl, self._stale)
        except ResponseError as error:
            if not _stores_nothing(error):
                raise
            self._give_up(key, token, error)

    def _give_up(self, key, token, error):
        try:
            self._db.settle()
        except ResponseError as refusal:
            # It would be raised in the place of `error`, or be lost below.
            error.add_note(f"what was posted before was refused: {refusal}")
        # Where it was stored before, this does nothing.
        if token is not _NO_LEASE and token is not _NOT_KEPT:
            # A server that takes no writes refuses this too: the lease ends by its time then.
            with contextlib.suppress(ResponseError):
                self._db.call(b"LFREE", key, token)


def decorator(kind, store, ttl, stale, key):
    """Returns what makes a `kind` of a function, whose results are kept in `store`."""
    if callable(ttl):
        raise TypeError("a cache is told how long it keeps results: @db.cache(ttl=60)")
    return lambda function: kind(store, function, ttl, stale, key)


def _module_of(function):
    """Returns the name of the module of `function`; of a script, which is `__main__` like any other
    and `__mp_main__` in processes that multiprocessing has started, the path.
    """
    name = function.__module__
    if name in ("__main__", "__mp_main__"):
        path = getattr(function, "__globals__", {}).get("__file__")
        return name if path is None else os.path.realpath(path)
    return name


def _stores_nothing(error):
    """Returns whether the server has no leases or stores nothing at present, whatever is asked."""
    is_full = str(error) == "ERR too many leases are held"
    return is_full or error.code in ("OOM", "MISCONF", "READONLY")
