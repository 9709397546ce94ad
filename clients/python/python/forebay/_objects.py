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


def array_over(memory, dtype=None, shape=None):
    """Returns an array of NumPy's over `memory`."""
    import numpy

    array = numpy.frombuffer(memory, dtype="uint8" if dtype is None else dtype)
    return array if shape is None else array.reshape(shape)


def unpickle(view):
    """Returns the object that was put; its buffers stay where they are."""
    stream, buffers = view._pickled()
    return pickle.loads(stream, buffers=buffers)


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
    """Returns DLPack's capsule of the array; of a private copy for who cannot be told that memory
    is read-only, which a version before 1 cannot say.
    """
    array = numpy(view)
    if (options.get("max_version") or (0, 0))[0] < 1:
        array = array.copy()
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
    """Returns the tensor that was put; of an array one over a copy, as tensors may be written."""
    import torch

    if view.kind == "pickle":
        value = unpickle(view)
        if isinstance(value, torch.Tensor):
            return value
        return torch.tensor(value)
    return torch.frombuffer(writable(view), dtype=torch.uint8) if view.kind == "bytes" else (
        torch.from_numpy(numpy(view).copy())
    )


def writable(view):
    """Returns a private copy of the content, of the same type and shape, that may be written."""
    if view.kind != "array":
        return memoryview(bytearray(view))
    memory = memoryview(bytearray(view))
    if len(view.format) > 1 or view.nbytes == 0:
        # Formats that memoryview.cast does not know.
        return memoryview(numpy(view).copy())
    return memory.cast(view.format, view.shape)


def reduce_copy(view):
    """Returns how a view is pickled whose value no other process can find."""
    whole = view._stored()
    return copied, (pickle.PickleBuffer(whole),)


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
