"""A dask worker's results in a store, beside the worker's own memory.

    from dask.distributed import Worker
    from forebay.dask import ForebayData

    Worker(scheduler, data=(ForebayData, {"url": "shm:///run/forebay.sock"}))

Results that are asked for are read where they lie: arrays are views, read-only.
"""

import os
import pickle
from collections.abc import MutableMapping

import forebay


class ForebayData(MutableMapping):
    """The results of one worker by their keys; the store has them under keys of its own.

    What cannot be pickled stays in the worker. Results live for `ttl` seconds at most after the
    worker was killed, which cannot delete them.
    """

    def __init__(self, url, ttl=24 * 3600.0):
        self._db = forebay.connect(url)
        self._ttl = ttl
        self._prefix = b"dask:" + os.urandom(8).hex().encode()
        self._number = 0
        # Of each key that of the store, or the object itself.
        self._stored = {}
        self._kept = {}

    def __setitem__(self, key, value):
        self.pop(key, None)
        self._number += 1
        name = b"%b:%d" % (self._prefix, self._number)
        try:
            # Plain bytes are stored as they are, and come back as bytes: whoever put another
            # buffer gets that.
            self._db.put(name, _Other(value) if _is_buffer(value) else value, ttl=self._ttl)
        except (pickle.PicklingError, AttributeError, TypeError):
            self._kept[key] = value
        else:
            self._stored[key] = name

    def __getitem__(self, key):
        if key in self._kept:
            return self._kept[key]
        view = self._db.get(self._stored[key])
        if view is None:
            raise KeyError(key)
        value = view.load()
        return value.value if isinstance(value, _Other) else value

    def __delitem__(self, key):
        if key in self._kept:
            del self._kept[key]
        else:
            self._db.delete(self._stored.pop(key))

    def __contains__(self, key):
        return key in self._stored or key in self._kept

    def __iter__(self):
        yield from [*self._stored, *self._kept]

    def __len__(self):
        return len(self._stored) + len(self._kept)

    def close(self):
        """Deletes all results."""
        self.clear()
        self._db.close()


class _Other:
    """A buffer that is not bytes."""

    def __init__(self, value):
        self.value = value


def _is_buffer(value):
    return isinstance(value, bytearray)
