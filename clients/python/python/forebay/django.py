"""Django's cache in a store.

    CACHES = {"default": {
        "BACKEND": "forebay.django.ForebayCache",
        "LOCATION": "shm:///run/forebay.sock",
    }}
"""

import forebay
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache


class ForebayCache(BaseCache):
    """Each entry is the value of a key; a read looks in the server's memory."""

    def __init__(self, location, params):
        super().__init__(params)
        self._location = location
        self._db = None

    @property
    def db(self):
        """The store, connected to when it is first asked."""
        if self._db is None:
            self._db = forebay.connect(self._location)
        return self._db

    def get(self, key, default=None, version=None):
        view = self.db.get(self.make_and_validate_key(key, version=version))
        return default if view is None else _loaded(view)

    def set(self, key, value, timeout=DEFAULT_TIMEOUT, version=None):
        self._put(self.make_and_validate_key(key, version=version), value, timeout, False)

    def add(self, key, value, timeout=DEFAULT_TIMEOUT, version=None):
        return self._put(self.make_and_validate_key(key, version=version), value, timeout, True)

    def delete(self, key, version=None):
        return self.db.delete(self.make_and_validate_key(key, version=version)) == 1

    def has_key(self, key, version=None):
        return self.db.exists(self.make_and_validate_key(key, version=version))

    def touch(self, key, timeout=DEFAULT_TIMEOUT, version=None):
        key = self.make_and_validate_key(key, version=version)
        ttl = self._ttl(timeout)
        if ttl is None:
            self.db.persist(key)
            return self.db.exists(key)
        return self.db.expire(key, max(ttl, 0))

    def incr(self, key, delta=1, version=None):
        key = self.make_and_validate_key(key, version=version)
        # Numbers are stored as text, so that all processes add to one.
        if not self.db.exists(key):
            raise ValueError(f"Key '{key}' not found")
        return self.db.incr(key, delta)

    def get_many(self, keys, version=None):
        keys = {key: self.make_and_validate_key(key, version=version) for key in keys}
        views = self.db.mget(keys.values())
        return {key: _loaded(view) for key, view in zip(keys, views) if view is not None}

    def clear(self):
        self.db.clear()

    def close(self, **options):
        """Leaves the connection for the next request."""

    def _ttl(self, timeout):
        return self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout

    def _put(self, key, value, timeout, is_new):
        ttl = self._ttl(timeout)
        if ttl is not None and ttl <= 0:
            if not is_new:
                self.db.delete(key)
            return not self.db.exists(key)
        return self.db.put(key, _stored(value), ttl=ttl, nx=is_new)


class _Pickled:
    """Bytes and numbers that look like others; everything else is stored as it is."""

    def __init__(self, value):
        self.value = value


def _stored(value):
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return b"%d" % value
    return _Pickled(value) if isinstance(value, (bytes, bytearray, memoryview)) else value


def _loaded(view):
    value = view.load()
    if isinstance(value, _Pickled):
        return value.value
    # Plain bytes are numbers alone.
    return int(value) if view.kind == "bytes" else value
