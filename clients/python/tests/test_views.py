"""Views: memory that stays as it is, and who may look at it."""

import copy
import ctypes
import gc
import io
import multiprocessing
import pickle
import threading
import weakref

import forebay
import pytest

numpy = pytest.importorskip("numpy")

LARGE = b"large" * 50_000


def test_view_outlives_its_key_and_its_client(db):
    other = forebay.connect(db.url)
    db.put("key", LARGE)
    view = other.get("key")
    db.put("key", b"new" * 80_000)
    db.delete("key")
    other.close()
    assert view.is_pinned and view.bytes() == LARGE


def test_close_waits_for_exports(db):
    db.put("key", LARGE)
    view = db.get("key")
    memory, array = memoryview(view), view.numpy()
    for export in (memory, array):
        with pytest.raises(BufferError):
            view.close()
    memory.release()
    with pytest.raises(BufferError):
        view.close()
    del array, export
    view.close()
    view.close()
    assert view.closed
    for use in (view.bytes, view.numpy, view.load, lambda: memoryview(view), lambda: len(view)):
        with pytest.raises(forebay.ClosedError):
            use()
    assert "closed" in repr(view)


def test_closed_view_of_an_array_is_no_array(db):
    db.put("key", numpy.arange(5.0))
    assert numpy.asarray(db.get("key"), dtype="f4").tolist() == [0, 1, 2, 3, 4]
    view = db.get("key")
    view.close()
    for use in (view.numpy, view.load, view.arrow, lambda: numpy.asarray(view)):
        with pytest.raises(forebay.ClosedError):
            use()


def test_with_gives_back_at_once(db):
    db.put("key", LARGE)
    with db.get("key") as view:
        assert view == LARGE
    assert view.closed
    with db.get("key") as view:
        array = view.numpy()
    assert not view.closed and array.tobytes() == LARGE


def test_export_keeps_the_view(db):
    db.put("key", LARGE)
    view = db.get("key")
    gone = weakref.ref(view)
    memory = memoryview(view)
    del view
    gc.collect()
    assert gone() is not None and memory == LARGE
    del memory
    gc.collect()
    assert gone() is None


def test_memory_is_read_only(db):
    for value in (b"s", LARGE, numpy.arange(100_000)):
        db.put("key", value)
        memory = memoryview(db.get("key"))
        assert memory.readonly
        with pytest.raises(TypeError):
            memory[0] = 1
        with pytest.raises(TypeError):
            io.BytesIO(LARGE).readinto(db.get("key"))
    array = db.get("key").numpy()
    with pytest.raises(ValueError):
        array[0] = 1
    with pytest.raises(ValueError):
        array.flags.writeable = True


def test_writable_is_private(db):
    value = numpy.arange(100_000, dtype="f8").reshape(100, 1000)
    db.put("key", value)
    view = db.get("key")
    memory = view.writable()
    assert not memory.readonly and memory.shape == (100, 1000) and memory.format == "d"
    numpy.asarray(memory)[0, 0] = -1
    assert view.numpy()[0, 0] == 0
    db.put("key", numpy.ones(3, "c16"))
    assert numpy.asarray(db.get("key").writable()).dtype == numpy.dtype("c16")
    db.put("key", b"abc")
    memory = db.get("key").writable()
    memory[0] = 0x7A
    assert bytes(memory) == b"zbc" and db.get("key").bytes() == b"abc"


def _resident():
    """Returns how many KiB of private memory this process has."""
    with open("/proc/self/smaps_rollup") as file:
        rows = dict(line.split(":", 1) for line in file.read().splitlines()[1:])
    return int(rows["Private_Dirty"].split()[0])


def test_writable_of_a_large_value_copies_what_is_written(db):
    value = numpy.arange(4_000_000, dtype="f8").reshape(4, -1)
    db.put("key", value)
    view = db.get("key")
    before = _resident()
    memory = view.writable()
    mine = numpy.asarray(memory)
    assert mine.flags.writeable and mine.shape == value.shape and mine.dtype == value.dtype
    assert mine.ctypes.data % 64 == 0 and mine.ctypes.data != view.numpy().ctypes.data
    assert numpy.array_equal(mine, value)
    assert _resident() - before < 8_000, "32 MB are read, and none is copied"
    mine[1] = -1
    assert _resident() - before < 16_000, "a quarter is written"
    assert numpy.array_equal(view.numpy(), value), "nobody else sees it"
    assert numpy.array_equal(numpy.asarray(view.writable()), value), "nor does another copy"
    with pytest.raises(BufferError):
        view.close()
    # What becomes of the key makes no difference.
    db.put("key", numpy.zeros(4_000_000))
    for _ in range(4):
        db.put("other", numpy.ones(4_000_000))
        db.delete("other")
    assert numpy.array_equal(mine[0], value[0]) and (mine[1] == -1).all()
    assert numpy.array_equal(mine[2:], value[2:])
    del mine, memory
    gc.collect()
    view.close()


def test_writable_of_a_pickle_and_of_what_the_server_has_ended(db):
    for count in (4, 40):
        db.put("bytes", LARGE * count)
        memory = db.get("bytes").writable()
        memory[:5] = b"small"
        assert bytes(memory) == b"small" + (LARGE * count)[5:]
        assert db.get("bytes") == LARGE * count
    with forebay.open() as other:
        other.put("key", numpy.arange(1_000_000))
        view = other.get("key")
    # Nobody is left to hand out what a mapping takes: it is copied.
    assert numpy.asarray(view.writable())[999_999] == 999_999


@pytest.mark.parametrize("size", [60_000, 1_000_000])
def test_dlpack(db, size):
    value = numpy.arange(size, dtype="f8").reshape(4, -1)
    db.put("key", value)
    view = db.get("key")
    assert view.__dlpack_device__() == (1, 0)
    found, other = numpy.from_dlpack(view), numpy.from_dlpack(view)
    assert numpy.array_equal(found, value)
    # Consumers write whatever they are told: it is private.
    writer = (ctypes.c_double * size).from_address(found.ctypes.data)
    writer[0] = writer[size - 1] = -1.0
    assert found[0, 0] == found[-1, -1] == -1
    assert numpy.array_equal(view.numpy(), value) and numpy.array_equal(other, value)
    db.put("object", numpy.asfortranarray(value))
    assert numpy.array_equal(numpy.from_dlpack(db.get("object")), value)
    del found
    if size == 1_000_000:
        with pytest.raises(BufferError):
            view.close()
    del other
    view.close()


def test_arrow(db):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"a": list(range(100_000)), "b": ["x"] * 100_000})
    db.put("table", table)
    view = db.get("table")
    found = view.arrow()
    assert found.equals(table) and view.is_pinned
    before = pyarrow.total_allocated_bytes()
    again = db.get("table").arrow()
    assert pyarrow.total_allocated_bytes() - before < 100_000 and again.equals(table)
    db.put("bytes", LARGE)
    assert db.get("bytes").arrow().to_pybytes() == LARGE
    with pytest.raises(TypeError):
        db.put("key", [1])
        db.get("key").arrow()


def test_arrow_capsules(db):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"a": list(range(100_000)), "b": ["x"] * 100_000})
    db.put("table", table)
    assert pyarrow.table(db.get("table")).equals(table)
    numbers = numpy.arange(100_000, dtype="f4")
    db.put("numbers", numbers)
    view = db.get("numbers")
    found = pyarrow.array(view)
    assert found.to_numpy().ctypes.data == view.numpy().ctypes.data, "it is not copied"
    assert found.type == pyarrow.float32() and numpy.array_equal(found.to_numpy(), numbers)
    with pytest.raises(BufferError):
        view.close()
    del found
    view.close()
    db.put("array", pyarrow.array(["a", None, "c"]))
    assert pyarrow.array(db.get("array")).to_pylist() == ["a", None, "c"]
    db.put("bytes", LARGE)
    assert pyarrow.array(db.get("bytes")).to_numpy().tobytes() == LARGE
    for value in (numbers.reshape(10, -1), [1], numpy.array([True])):
        db.put("other", value)
        with pytest.raises(TypeError):
            db.get("other").__arrow_c_array__()
    with pytest.raises(TypeError):
        view = db.get("numbers").__arrow_c_stream__()


def test_pandas_takes_arrow_from_a_view(db):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    db.put("table", pyarrow.table({"a": [1, 2, 3]}))
    assert pandas.DataFrame.from_arrow(db.get("table"))["a"].tolist() == [1, 2, 3]


def test_jax(db):
    jax = pytest.importorskip("jax")
    value = numpy.arange(60_000, dtype="f4").reshape(3, 20_000)
    db.put("key", value)
    view = db.get("key")
    found = jax.dlpack.from_dlpack(view)
    assert numpy.array_equal(numpy.asarray(found), value)
    total = jax.jit(lambda array: (array * 2).sum())(found)
    assert float(total) == pytest.approx(2 * value.astype("f8").sum(), rel=1e-3)
    assert numpy.array_equal(view.numpy(), value), "nobody has written to it"


def test_pandas(db):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": numpy.arange(100_000.0), "y": numpy.arange(100_000)})
    db.put("frame", frame)
    found = db.load("frame")
    assert found.equals(frame)
    assert not found["x"].to_numpy().flags.writeable


def test_pickled_view_is_a_reference(db):
    value = numpy.arange(100_000.0)
    db.put("key", value)
    view = db.get("key")
    pickled = pickle.dumps(view)
    assert len(pickled) < 150
    again = pickle.loads(pickled)
    assert again.is_pinned and again._offset == view._offset
    assert numpy.array_equal(again.numpy(), value)
    db.put("key", value + 1)
    with pytest.raises(forebay.StaleViewError):
        pickle.loads(pickled)
    db.delete("key")
    with pytest.raises(forebay.StaleViewError):
        pickle.loads(pickled)


def test_view_of_no_key_is_pickled_as_a_copy(db):
    for value in (b"small", numpy.arange(100_000.0)):
        db.put("key", value)
        for view in (db.take("key"), db.take(db.put_auto(value))):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                again = pickle.loads(pickle.dumps(view, protocol=protocol))
                assert numpy.array_equal(again.load(), value) and not again.is_pinned
            assert numpy.array_equal(copy.deepcopy(view).load(), value)
            queue = multiprocessing.SimpleQueue()
            threading.Thread(target=queue.put, args=(view,)).start()
            assert numpy.array_equal(queue.get().load(), value)


def test_numpy_of_other_values(db):
    db.put("bytes", bytes(range(16)))
    assert db.get("bytes").numpy().dtype == numpy.uint8
    assert db.get("bytes").numpy("<i4", (2, 2)).shape == (2, 2)
    db.put("text", "no array")
    with pytest.raises(TypeError):
        db.get("text").numpy()
    db.put("array", numpy.arange(4))
    assert db.get("array").numpy(shape=(2, 2)).shape == (2, 2)
    with pytest.raises(TypeError):
        db.get("array").numpy("f4")


def test_creation_is_seen_when_it_is_sealed(db):
    for size in (10, 100_000, 3_000_000):
        with db.create("key", size, ttl=100) as creation:
            assert len(creation) == creation.nbytes == size
            creation[:3] = b"abc"
            creation.numpy()[3:] = 7
            assert db.get("key") is None
        assert creation.closed
        assert db.take("key").bytes() == b"abc" + bytes([7]) * (size - 3)


def test_creation_tells_whether_it_was_stored(db):
    for is_stored in (True, False):
        with db.create("key", 100_000, nx=True) as creation:
            assert creation.sealed is None
        assert creation.sealed is is_stored
    creation = db.create("key", 10)
    creation.abort()
    assert creation.sealed is None


def test_creation_is_aborted_by_an_exception(db):
    db.put("key", b"before")
    for size in (10, 100_000):
        with pytest.raises(ZeroDivisionError):
            with db.create("key", size) as creation:
                1 / 0
        assert db.get("key") == b"before" and creation.closed
        with pytest.raises(forebay.ClosedError):
            creation.seal()
        with pytest.raises(forebay.ClosedError):
            creation[0] = 1


def test_who_keeps_an_array_of_a_creation_cannot_change_the_value(db):
    for size in (10, 100_000):
        creation = db.create("key", size)
        array = creation.numpy()
        array[:] = 1
        assert creation.seal()
        view = db.get("key")
        array[:] = 2
        assert view.bytes() == bytes([1]) * size
        with pytest.raises(forebay.ClosedError):
            memoryview(creation)
        del array
        assert not db.create("key", size).seal(nx=True)


def test_wait_beyond_all_time_is_one_without_an_end(db):
    for wait in (db.take, db.get_blocking):
        timer = threading.Timer(0.05, db.put, ("key", b"x"))
        timer.start()
        assert wait("key", timeout=1.8e19) == b"x"
        timer.join()


@pytest.mark.parametrize("nbytes", [2**47, 2**63, 2**64 - 1])
def test_creation_that_no_memory_holds_is_refused(each, nbytes):
    each.put("key", b"before")
    with pytest.raises(forebay.ResponseError, match=f"a value of {nbytes} bytes is longer"):
        each.create("key", nbytes)
    # In a transaction the server does not tell how long a value it takes.
    each.call("MULTI")
    with pytest.raises(MemoryError, match=f"no memory for {nbytes} bytes"):
        each.create("key", nbytes)
    each.call("DISCARD")
    assert each.get("key") == b"before"


def test_creation_with_many_writers(db):
    from concurrent.futures import ThreadPoolExecutor

    with db.create("key", 8_000_000) as creation:
        array = creation.numpy("f8")

        def write(part):
            array[part * 125_000 : (part + 1) * 125_000] = part

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(write, range(8)))
        del array, write
    found = db.get("key").numpy("f8").reshape(8, -1)
    assert [set(row) for row in found] == [{float(part)} for part in range(8)]
