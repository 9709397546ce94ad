"""Results of functions, kept in the store for all processes."""

import functools
import hashlib
import pickle
import time


class Cache:
    """A function whose results are kept for `ttl` seconds.

    For `stale` seconds more a result that is too old is still returned, while one of those who
    ask for it makes a new one. `None` is a result like any other. Arguments are told apart by how
    they pickle.
    """

    def __init__(self, db, function, ttl, stale=0.0, key=None):
        functools.update_wrapper(self, function)
        self._db = db
        self._function = function
        self._ttl = ttl
        self._stale = stale
        self._prefix = key or f"cache:{function.__module__}.{function.__qualname__}"

    def key_of(self, *arguments, **options):
        """Returns the key of the result for these arguments."""
        told = pickle.dumps((arguments, sorted(options.items())), protocol=4)
        return f"{self._prefix}:{hashlib.blake2b(told, digest_size=16).hexdigest()}"

    def __call__(self, *arguments, **options):
        key = self.key_of(*arguments, **options)
        view = self._db.get(key)
        if view is not None:
            made, result = view.load()
            if time.time() < made + self._ttl or not self._is_mine_to_make(key):
                return result
        return self._made(key, arguments, options)

    def refresh(self, *arguments, **options):
        """Calls the function, keeps what it returns, and returns it."""
        return self._made(self.key_of(*arguments, **options), arguments, options)

    def forget(self, *arguments, **options):
        """Deletes the result; returns whether there was one."""
        return self._db.delete(self.key_of(*arguments, **options)) == 1

    def _is_mine_to_make(self, key):
        # Whoever makes it and dies leaves it to another after as long as results are kept.
        return self._db.put(f"{key}:maker", b"", ttl=max(self._ttl, 1.0), nx=True)

    def _made(self, key, arguments, options):
        result = self._function(*arguments, **options)
        self._db.put(key, (time.time(), result), ttl=self._ttl + self._stale)
        if self._stale:
            self._db.delete(f"{key}:maker")
        return result
