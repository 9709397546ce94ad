"""PyTorch's tensors. Its wheel brings gigabytes, so that these run where somebody has installed it:

    pip install torch && python -m pytest tests/test_torch.py
"""

import gc
import warnings

import pytest

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_array_is_a_tensor_that_may_be_written(db):
    value = numpy.arange(1_000_000, dtype="f4").reshape(1000, -1)
    db.put("key", value)
    view = db.get("key")
    tensor = view.torch()
    assert tensor.shape == (1000, 1000) and tensor.dtype == torch.float32
    assert torch.equal(tensor, torch.from_numpy(value))
    tensor[0] = -1
    tensor.add_(1)
    assert numpy.array_equal(view.numpy(), value), "nobody else sees it"
    assert torch.equal(db.get("key").torch(), torch.from_numpy(value))
    with pytest.raises(BufferError):
        view.close()
    del tensor
    gc.collect()
    view.close()


@pytest.mark.parametrize("size", [0, 1, 1000, 1_000_000])
def test_bytes_and_arrays_of_any_size(db, size):
    db.put("bytes", b"x" * size)
    found = db.get("bytes").torch()
    assert found.dtype == torch.uint8 and found.tolist()[:3] == [120] * min(size, 3)
    db.put("array", numpy.arange(size))
    found = db.get("array").torch()
    assert found.dtype == torch.int64 and found.numel() == size


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "bfloat16", "float16", "int8", "int64", "bool", "complex64"]
)
@pytest.mark.parametrize("shape", [(), (3,), (0, 5), (500, 1000)])
def test_tensors_come_back(db, dtype, shape):
    value = torch.ones(shape).to(getattr(torch, dtype))
    db.put("key", value)
    found = db.load("key")
    assert found.dtype == value.dtype and found.shape == value.shape and torch.equal(found, value)


def test_tensors_within_an_object_lie_in_one_private_copy(db):
    state = {"weight": torch.rand(1000, 1000), "bias": torch.rand(1000), "step": 7}
    db.put("state", state)
    with db.get("state") as view:
        assert view.nbytes < 4_010_000, "the memory is kept as it is"
        found = view.load()
        again = view.load()
    assert torch.equal(found["weight"], state["weight"]) and found["step"] == 7
    distance = found["bias"].data_ptr() - found["weight"].data_ptr()
    assert abs(distance) < view._stored_bytes
    found["weight"].zero_()
    assert torch.equal(again["weight"], state["weight"])
    assert torch.equal(db.load("state")["weight"], state["weight"])


def test_other_tensors_are_pickled_as_torch_does(db):
    for value in (
        torch.rand(4, 5).t(),
        torch.rand(3, requires_grad=True),
        torch.nn.Parameter(torch.rand(3)),
        torch.rand(2, 2).to_sparse(),
    ):
        db.put("key", value)
        found = db.load("key")
        assert type(found) is type(value) and found.requires_grad == value.requires_grad
        assert torch.equal(found.to_dense(), value.to_dense())


def test_model_is_trained_from_what_is_loaded(db):
    model = torch.nn.Linear(512, 512)
    db.put("model", model.state_dict())
    other = torch.nn.Linear(512, 512)
    other.load_state_dict(db.load("model"), assign=True)
    loss = other(db_input(db)).sum()
    loss.backward()
    torch.optim.SGD(other.parameters(), lr=0.1).step()
    assert not torch.equal(other.weight, model.weight)
    assert torch.equal(db.load("model")["weight"], model.weight)


def db_input(db):
    db.put("input", numpy.ones((64, 512), "f4"))
    return db.get("input").torch()


def test_dlpack(db):
    value = numpy.arange(1_000_000.0)
    db.put("key", value)
    view = db.get("key")
    found = torch.from_dlpack(view)
    assert torch.equal(found, torch.from_numpy(value))
    found.zero_()
    assert numpy.array_equal(view.numpy(), value), "it has a private copy"
