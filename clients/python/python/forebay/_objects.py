"""What views do by help of Python's libraries, each imported when it is first asked for."""

import os
import pickle
import threading


def numpy(view, dtype=None, shape=None):
    """Returns the array that was put, not copied; of plain bytes one of `dtype` and `shape`."""
    import numpy

    if view.kind == "bytes":
        return array_over(view, dtype, shape)
    if view.kind == "array":
        array = numpy.asarray(view)
    else:
        array = unpickle(view)
        if not isinstance(array, numpy.ndarray):
            raise TypeError(f"the value is no array, but {type(array).__qualname__}")
    if dtype is not None and array.dtype != numpy.dtype(dtype):
        raise TypeError(f"the array is of {array.dtype}, not of {numpy.dtype(dtype)}")
    return array if shape is None else array.reshape(shape)


def array_of(view, dtype=None, copy=None):
    """Returns `numpy.asarray` of the view, or raises what its buffer raises."""
    import numpy

    return numpy.array(memoryview(view), dtype=dtype, copy=copy)


def array_over(memory, dtype=None, shape=None):
    """Returns an array of NumPy's over `memory`."""
    import numpy

    array = numpy.frombuffer(memory, dtype="uint8" if dtype is None else dtype)
    return array if shape is None else array.reshape(shape)


def unpickle(view):
    """Returns the object that was put; its buffers stay where they are."""
    stream, buffers = view._pickled()
    if not buffers:
        return pickle.loads(stream)
    before, loading.source = loading.source, _Source(view, buffers)
    try:
        return pickle.loads(stream, buffers=buffers)
    finally:
        loading.source = before


class _Source:
    """The view that a thread loads, for objects that want to write to their memory."""

    __slots__ = ("_view", "_buffers", "_starts", "_private")

    def __init__(self, view, buffers):
        self._view = view
        self._buffers = buffers
        self._starts = None
        self._private = None

    def private(self, buffer):
        """Returns memory that may be written with the content of `buffer`, one of the pickle's; all
        of those of a view lie in one copy of it.
        """
        if self._starts is None:
            pairs = zip(self._buffers, self._view._buffer_starts())
            self._starts = {id(known): start for known, start in pairs}
            self._private = writable(self._view)
        start = self._starts.get(id(buffer))
        if start is None:
            return bytearray(buffer)
        return self._private[start : start + buffer.nbytes]


class _Loading(threading.local):
    source = None


loading = _Loading()


def arrow(view):
    """Returns the Arrow object that was put; of plain bytes a `pyarrow.Buffer`."""
    import pyarrow

    if view.kind == "bytes":
        return pyarrow.py_buffer(view)
    if view.kind == "array":
        return pyarrow.Tensor.from_numpy(numpy(view))
    value = unpickle(view)
    if not type(value).__module__.startswith("pyarrow"):
        raise TypeError(f"the value is of {type(value).__qualname__}, not Arrow's")
    return value


def dlpack(view, *arguments, **options):
    """Returns DLPack's capsule of the array, in private memory: see `writable`.

    Version 1 can say that memory is read-only, and PyTorch writes to it all the same.
    """
    import numpy as library

    array = numpy(view)
    array = library.asarray(writable(view)) if view.kind == "array" else array.copy()
    return array.__dlpack__(*arguments, **options)


def arrow_c_array(view, requested_schema):
    """Returns the two capsules of the Arrow array that was put, or of numbers in one dimension."""
    import pyarrow

    value = numbers(view) if view.kind == "array" else arrow(view)
    if isinstance(value, pyarrow.Buffer):
        value = pyarrow.Array.from_buffers(pyarrow.uint8(), value.size, [None, value])
    return _exported(value, "__arrow_c_array__", requested_schema)


def arrow_c_stream(view, requested_schema):
    """Returns the capsule of the Arrow table that was put."""
    return _exported(arrow(view), "__arrow_c_stream__", requested_schema)


def numbers(view):
    """Returns the Arrow array over the array of one dimension that was put."""
    import pyarrow

    array = numpy(view)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise TypeError(f"Arrow has no array of {array.ndim} dimensions of {array.dtype}")
    content = [None, pyarrow.py_buffer(view)]
    return pyarrow.Array.from_buffers(pyarrow.from_numpy_dtype(array.dtype), array.size, content)


def _exported(value, name, requested_schema):
    export = getattr(value, name, None)
    if export is None:
        raise TypeError(f"{type(value).__qualname__} of Arrow has no {name}")
    return export(requested_schema)


def torch(view):
    """Returns the tensor that was put, or one of the array that was put.

    Tensors may be written, whatever memory they are over: it is private, see `writable`.
    """
    import numpy
    import torch

    if view.kind == "pickle":
        value = unpickle(view)
        return value if isinstance(value, torch.Tensor) else torch.tensor(value)
    if view.nbytes == 0:
        return torch.from_numpy(numpy.array(view))
    return torch.from_numpy(numpy.asarray(writable(view)))


# Of less a copy takes less time than a mapping, and of more not much more memory.
_MAPPED_BYTES_MIN = 2 << 20


def writable(view):
    """Returns the content, of the same type and shape, as private memory that may be written.

    In the server's memory it is mapped once more: pages are copied when they are first written.
    """
    if view.is_pinned and view.nbytes >= _MAPPED_BYTES_MIN:
        mapped = view._private()
        if mapped is not None:
            return memoryview(mapped)
    if view.kind != "array":
        return memoryview(bytearray(view))
    memory = memoryview(bytearray(view))
    if len(view.format) > 1 or view.nbytes == 0:
        # Formats that memoryview.cast does not know.
        return memoryview(numpy(view).copy())
    return memory.cast(view.format, view.shape)


def reduce_copy(view, protocol):
    """Returns how a view is pickled whose value no other process can find."""
    whole = view._stored()
    # Protocol 4 knows no buffers: queues and pipes of multiprocessing pickle by Python's default,
    # which it is up to 3.13.
    return copied, (pickle.PickleBuffer(whole) if protocol >= 5 else whole,)


def copied(stored):
    """Returns a view of the bytes `stored` as they came out of a pickle."""
    from forebay._native import View

    return View._of_stored(bytes(stored))


_clients = {}
_clients_lock = threading.Lock()


def _forget_lock():
    # Another thread of the parent may have held it.
    global _clients_lock
    _clients_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def client_of(url):
    """Returns the client that all references to `url` in this process share."""
    from forebay._db import connect

    with _clients_lock:
        client = _clients.get(url)
        if client is None or client.closed:
            client = _clients[url] = connect(url)
        return client


def reopen(url, key, offset, length):
    """Returns a view of the value at `offset`, if it is still that of `key`."""
    from forebay._errors import StaleViewError

    view = client_of(url).get(key)
    if view is None or view._offset != offset or view._stored_bytes != length:
        raise StaleViewError(f"the value of {key!r} is not the one that was pickled any more")
    return view
