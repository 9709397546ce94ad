"""PyTorch's tensors: put without a copy in between, and loaded over memory that may be written.

Imported where torch is.
"""

import io
import pickle
import sys

from forebay._objects import loading


def dumps(value, protocol, buffer_callback):
    """As `pickle.dumps`; the memory of tensors is a buffer, as NumPy's is."""
    file = io.BytesIO()
    _Pickler(file, protocol, buffer_callback=buffer_callback).dump(value)
    return file.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        torch = sys.modules["torch"]
        if type(value) is not torch.Tensor or not _is_plain(torch, value):
            return NotImplemented
        memory = value.reshape(-1).view(torch.uint8).numpy()
        name = str(value.dtype).removeprefix("torch.")
        return tensor_of, (pickle.PickleBuffer(memory), name, tuple(value.shape))


def _is_plain(torch, value):
    """Returns whether a tensor is its bytes, type and shape, and nothing else."""
    return (
        value.device.type == "cpu"
        and value.layout is torch.strided
        and value.numel() > 0
        and value.is_contiguous()
        and not (value.requires_grad or value.is_conj() or value.is_neg() or value.is_quantized)
    )


def tensor_of(buffer, name, shape):
    """Returns the tensor of the bytes `buffer`, which may be written."""
    import torch

    source = loading.source
    memory = bytearray(buffer) if source is None else source.private(buffer)
    return torch.frombuffer(memory, dtype=getattr(torch, name)).reshape(shape)
