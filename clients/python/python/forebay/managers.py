"""What processes share by `multiprocessing.Manager`, in a store and without a process in between.

    from forebay.managers import Manager

    manager = Manager("shm:///run/forebay.sock")
    counts, jobs = manager.dict(), manager.Queue()

Every object is pickled as its name, and so passes to processes that are forked or spawned. It is in
the store until `manager.clear` deletes all that the manager has made, or `delete` one. Elements are
pickled: large arrays are handed on without a copy by queues, and by keys of the store itself.

Arrays, events, conditions, barriers, semaphores, pools and queues with a bound are not here.
"""

import os
import pickle
import queue
import time
from collections.abc import MutableMapping

import forebay
from forebay._objects import client_of

# So long a wait in the server takes before signals are looked for.
_SLICE_SECONDS = 0.1


class Manager:
    """Makes objects that processes share; one with the same `name` makes the same objects."""

    def __init__(self, store, name=None):
        self._db = forebay.connect(store) if isinstance(store, str) else store
        self.name = name or f"manager:{os.urandom(8).hex()}"
        self._count = 0

    def _next(self, name):
        self._count += 1
        return f"{self.name}:{name or self._count}"

    def dict(self, items=(), name=None, **more):
        made = SharedDict(self._db, self._next(name))
        made.update(items, **more)
        return made

    def list(self, items=(), name=None):
        made = SharedList(self._db, self._next(name))
        made.extend(items)
        return made

    def Namespace(self, name=None, **attributes):
        made = SharedNamespace(self._db, self._next(name))
        for attribute, value in attributes.items():
            setattr(made, attribute, value)
        return made

    def Value(self, kind, value, name=None):
        """Returns an object with a `value`; `kind` is what multiprocessing asks for, and unused."""
        made = SharedValue(self._db, self._next(name))
        self._db.put(made.key, _Held(value), nx=True)
        return made

    def Queue(self, maxsize=0, *, name=None):
        """Returns a queue without a bound: a `maxsize` of more than 0 raises `ValueError`."""
        if maxsize > 0:
            raise ValueError("the manager has no queues with a bound: maxsize is 0")
        return SharedQueue(self._db, self._next(name))

    def Lock(self, name=None, ttl=30.0):
        return SharedLock(self._db, self._next(name), ttl)

    def clear(self):
        """Deletes all that was made here."""
        keys = list(self._db.scan(match=f"{self.name}:*"))
        self._db.delete(*keys)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.clear()


class _Shared:
    """An object by the key that it is at."""

    def __init__(self, db, key):
        self.__dict__.update(db=db, key=key)

    def __reduce__(self):
        return _opened, (type(self), self.db.url, self.key)

    def delete(self):
        """Deletes it for all processes."""
        self.db.delete(self.key)

    def __repr__(self):
        return f"<{type(self).__name__} {self.key}>"


def _opened(kind, url, key):
    return kind(client_of(url), key)


class _Held:
    """Any value, so that bytes come back as what they were."""

    def __init__(self, value):
        self.value = value


def _dumped(value):
    return pickle.dumps(value, protocol=5)


class SharedDict(_Shared, MutableMapping):
    """A dictionary; each operation on one item is atomic."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, item):
        found = self.db.hget(self.key, _dumped(item))
        if found is None:
            raise KeyError(item)
        return pickle.loads(found)

    def __setitem__(self, item, value):
        self.db.call("HSET", self.key, _dumped(item), _dumped(value))

    def __delitem__(self, item):
        if self.db.call("HDEL", self.key, _dumped(item)) == 0:
            raise KeyError(item)

    def __contains__(self, item):
        return self.db.hget(self.key, _dumped(item)) is not None

    def __iter__(self):
        return (pickle.loads(item) for item in self.db.call("HKEYS", self.key))

    def __len__(self):
        return self.db.call("HLEN", self.key)

    def copy(self):
        """Returns all items as they are at one moment, as a dictionary of this process."""
        found = self.db.hgetall(self.key)
        return {pickle.loads(item): pickle.loads(value) for item, value in found.items()}

    def pop(self, item, *default):
        (found,) = self.db.call("HGETDEL", self.key, "FIELDS", 1, _dumped(item))
        if found is not None:
            return pickle.loads(found)
        if not default:
            raise KeyError(item)
        return default[0]

    def setdefault(self, item, default=None):
        self.db.call("HSETNX", self.key, _dumped(item), _dumped(default))
        return self.get(item, default)

    def clear(self):
        self.db.delete(self.key)


class SharedList(_Shared):
    """A list that grows and shrinks at its ends."""

    def append(self, value):
        self.db.call("RPUSH", self.key, _dumped(value))

    def extend(self, values):
        values = [_dumped(value) for value in values]
        if values:
            self.db.call("RPUSH", self.key, *values)

    def pop(self, index=-1):
        if index not in (0, -1):
            raise IndexError("elements are taken from the ends alone")
        found = self.db.call("RPOP" if index else "LPOP", self.key)
        if found is None:
            raise IndexError("the list is empty")
        return pickle.loads(found)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return list(self)[index]
        found = self.db.call("LINDEX", self.key, index)
        if found is None:
            raise IndexError(index)
        return pickle.loads(found)

    def __setitem__(self, index, value):
        try:
            self.db.call("LSET", self.key, index, _dumped(value))
        except forebay.ResponseError as error:
            raise IndexError(index) from error

    def __len__(self):
        return self.db.call("LLEN", self.key)

    def __iter__(self):
        return iter([pickle.loads(value) for value in self.db.call("LRANGE", self.key, 0, -1)])


class SharedNamespace(_Shared):
    """Attributes."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.db.hget(self.key, name)
        if found is None:
            raise AttributeError(name)
        return pickle.loads(found)

    def __setattr__(self, name, value):
        self.db.call("HSET", self.key, name, _dumped(value))

    def __delattr__(self, name):
        if self.db.call("HDEL", self.key, name) == 0:
            raise AttributeError(name)


class SharedValue(_Shared):
    """One value."""

    def get(self):
        return self.db[self.key].load().value

    def set(self, value):
        self.db.put(self.key, _Held(value))

    @property
    def value(self):
        return self.get()

    @value.setter
    def value(self, value):
        self.set(value)


class SharedQueue(_Shared):
    """A queue without a bound; each element is one consumer's, and large arrays are not copied."""

    # A consumer that is killed takes its element with it, and an element whose queue is deleted is
    # gone after so long.
    _TTL_SECONDS = 24 * 3600.0

    def put(self, value, block=True, timeout=None):
        name = self.db.put_auto(_Held(value), ttl=self._TTL_SECONDS)
        self.db.call("RPUSH", self.key, name)

    put_nowait = put

    def get(self, block=True, timeout=None):
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            name = self.db.call("LPOP", self.key)
            left = _SLICE_SECONDS if end is None else end - time.monotonic()
            if name is None and (not block or left <= 0):
                raise queue.Empty
            if name is None:
                found = self.db.call("BLPOP", self.key, f"{min(left, _SLICE_SECONDS):.3f}")
                name = found and found[1]
            view = name and self.db.take(name)
            # One that was too old is gone, and the next is asked for.
            if view:
                return view.load().value

    def get_nowait(self):
        return self.get(block=False)

    def qsize(self):
        return self.db.call("LLEN", self.key)

    def empty(self):
        return self.qsize() == 0

    def full(self):
        return False


class SharedLock(_Shared):
    """A lock, which is lost `ttl` seconds after it was acquired."""

    def __init__(self, db, key, ttl=30.0):
        super().__init__(db, key)
        self._lock = db.lock(key, ttl)
        self._ttl = ttl

    def __reduce__(self):
        return _opened_lock, (self.db.url, self.key, self._ttl)

    def acquire(self, block=True, timeout=None):
        return self._lock.acquire(timeout if block else 0)

    def release(self):
        self._lock.release()

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, *exception):
        self.release()


def _opened_lock(url, key, ttl):
    return SharedLock(client_of(url), key, ttl)
