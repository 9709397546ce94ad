"""joblib's cache in a store: results of `joblib.Memory` for all processes, arrays without a copy.

    import joblib
    import forebay.joblib

    forebay.joblib.register()
    memory = joblib.Memory("shm:///run/forebay.sock", backend="forebay")

The location is the store's URL. `backend_options` may have a `ttl` in seconds, after which a result
is gone, and a `prefix` for the keys. Arrays of a result are views, read-only as with `mmap_mode`.
"""

import datetime
import io
import os.path

import forebay
from joblib._store_backends import CacheItemInfo, StoreBackendBase, StoreBackendMixin

# What a location is that names a value; all others are folders, which are there without a key.
_FILES = ("output.pkl", "metadata.json", "func_code.py")


def register(name="forebay"):
    """Makes the backend known to joblib as `name`."""
    from joblib import register_store_backend

    register_store_backend(name, ForebayStoreBackend)


class ForebayStoreBackend(StoreBackendBase, StoreBackendMixin):
    """Keeps each result, its description and the code of its function under a key of its own."""

    compress = None
    mmap_mode = None

    def configure(self, location, verbose=1, backend_options=None):
        options = dict(backend_options or {})
        # joblib adds a folder of its own to any location.
        self.db = forebay.connect(location.removesuffix("/joblib"))
        self.location = options.pop("prefix", "joblib")
        self.ttl = options.pop("ttl", None)
        self.verbose = verbose
        for name, value in options.items():
            # joblib passes what is for files to all backends.
            if name not in ("compress", "mmap_mode") or value not in (None, False):
                raise ValueError(f"the store has no option {name}={value!r}")

    def load_item(self, call_id, verbose=1, timestamp=None, metadata=None):
        view = self.db.get(self._key(call_id))
        if view is None:
            raise KeyError(f"no result {self._key(call_id)}")
        return view.load()

    def dump_item(self, call_id, item, verbose=1):
        self.db.put(self._key(call_id), item, ttl=self.ttl)

    def _key(self, call_id):
        return os.path.join(self.location, *call_id, "output.pkl")

    def _open_item(self, location, mode):
        if mode == "wb":
            return _Written(self.db, location, self.ttl)
        view = self.db.get(location)
        if view is None:
            raise FileNotFoundError(location)
        return io.BytesIO(view.bytes())

    def _item_exists(self, location):
        return not location.endswith(_FILES) or self.db.exists(location)

    object_exists = _item_exists

    def _move_item(self, source, target):
        self.db.call("RENAME", source, target)

    def _concurrency_safe_write(self, to_write, filename, write_func):
        # A value is put whole.
        write_func(to_write, filename)

    def create_location(self, location):
        """Does nothing: a folder is the begin of keys."""

    def clear_location(self, location):
        keys = list(self.db.scan(match=f"{_literal(location)}/*"))
        self.db.delete(location, *keys)

    def get_items(self):
        found = []
        for key in self.db.scan(match=f"{_literal(self.location)}/*/output.pkl"):
            idle = self.db.call("OBJECT", "IDLETIME", key)
            if idle is not None:
                used = datetime.datetime.now() - datetime.timedelta(seconds=idle)
                folder = os.path.dirname(key.decode())
                found.append(CacheItemInfo(folder, self.db.strlen(key), used))
        return found


class _Written(io.BytesIO):
    """A file that is put once it is closed."""

    def __init__(self, db, key, ttl):
        super().__init__()
        self._put = lambda content: db.put(key, content, ttl=ttl)

    def close(self):
        if not self.closed:
            self._put(self.getvalue())
        super().close()


def _literal(text):
    """Returns the pattern that `text` alone matches."""
    return "".join(f"\\{letter}" if letter in "\\*?[]^" else letter for letter in text)
