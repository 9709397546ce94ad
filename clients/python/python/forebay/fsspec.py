"""fsspec's file system over a store: each file is the value of the key that is its path.

    import fsspec
    import forebay.fsspec

    forebay.fsspec.register()
    files = fsspec.filesystem("forebay", server="shm:///run/forebay.sock")
    with fsspec.open("forebay://data/part.parquet", server="shm:///run/forebay.sock") as file: ...

Folders are there as long as a file is in them. A file is seen once it is closed.
"""

import forebay
from fsspec import register_implementation
from fsspec.implementations.memory import MemoryFile
from fsspec.spec import AbstractFileSystem


def register():
    """Makes the file system known to fsspec for URLs that begin with `forebay://`."""
    register_implementation("forebay", ForebayFileSystem, clobber=True)


class ForebayFileSystem(AbstractFileSystem):
    """The keys of the store at the URL `server` as files; `ttl` is how long each lives in seconds.

    It is not named `url`, which is what fsspec names a file's own.
    """

    protocol = "forebay"
    root_marker = ""
    cachable = False

    def __init__(self, server, ttl=None, **options):
        super().__init__(server=server, ttl=ttl, **options)
        self.db = forebay.connect(server)
        self.ttl = ttl

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path).strip("/")

    def ls(self, path, detail=True, **options):
        path = self._strip_protocol(path)
        folder = f"{path}/" if path else ""
        found = {}
        for key in self.db.scan():
            name = _text(key)
            if name is None or not name.startswith(folder):
                continue
            rest = name[len(folder) :]
            if "/" in rest:
                name = folder + rest.split("/", 1)[0]
                found[name] = _folder(name)
            else:
                found[name] = _file(name, self.db.strlen(key))
        if not found:
            if path and self.db.exists(path):
                found[path] = _file(path, self.db.strlen(path))
            elif path:
                raise FileNotFoundError(path)
        ordered = [found[name] for name in sorted(found)]
        return ordered if detail else [entry["name"] for entry in ordered]

    def info(self, path, **options):
        path = self._strip_protocol(path)
        if path and self.db.exists(path):
            return _file(path, self.db.strlen(path))
        if path:
            self.ls(path)
        return _folder(path)

    def cat_file(self, path, start=None, end=None, **options):
        return bytes(self._view(path).memoryview()[start:end])

    def pipe_file(self, path, value, mode="overwrite", **options):
        path = self._strip_protocol(path)
        if not self.db.put(path, bytes(value), ttl=self.ttl, nx=mode == "create"):
            raise FileExistsError(path)

    def _open(self, path, mode="rb", **options):
        path = self._strip_protocol(path)
        if mode == "rb":
            return MemoryFile(self, path, self._view(path).bytes())
        if mode not in ("wb", "ab", "xb"):
            raise ValueError(f"a file cannot be opened as {mode!r}")
        before = self.db.get(path) if mode == "ab" else None
        return _Written(self, path, b"" if before is None else before.bytes(), mode == "xb")

    def cp_file(self, path1, path2, **options):
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            return
        if self.db.call("COPY", source, target, "REPLACE") == 0:
            raise FileNotFoundError(source)

    def rm(self, path, recursive=False, maxdepth=None):
        """Deletes files; a folder with `recursive`, and so what is in it."""
        for found in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            if self.db.delete(found) == 0 and not recursive:
                raise FileNotFoundError(found)

    def _rm(self, path):
        path = self._strip_protocol(path)
        if self.db.delete(path) == 0:
            raise FileNotFoundError(path)

    def makedirs(self, path, exist_ok=False):
        """Does nothing: folders are there with their files."""

    def mkdir(self, path, create_parents=True, **options):
        """Does nothing: folders are there with their files."""

    def rmdir(self, path):
        """Does nothing: folders are gone with their files."""

    def _view(self, path):
        view = self.db.get(self._strip_protocol(path))
        if view is None:
            raise FileNotFoundError(path)
        return view


class _Written(MemoryFile):
    """A file that is put once it is closed."""

    def __init__(self, files, path, content, is_new):
        super().__init__(files, path, content)
        self.seek(0, 2)
        self._is_new = is_new
        self._is_put = False

    def close(self):
        if not self._is_put:
            self._is_put = True
            mode = "create" if self._is_new else "overwrite"
            self.fs.pipe_file(self.path, self.getvalue(), mode=mode)

    def __exit__(self, kind, value, traceback):
        # What was written in part is no file.
        self._is_put = self._is_put or kind is not None
        self.close()


def _file(name, size):
    return {"name": name, "size": size, "type": "file"}


def _folder(name):
    return {"name": name, "size": 0, "type": "directory"}


def _text(key):
    """Returns `key` as text; None where it is none, and no path."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None
