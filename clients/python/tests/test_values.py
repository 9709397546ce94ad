"""Values: what was put comes back, whatever it is and however the server is reached."""

import array
import datetime
import math
import pickle
import re
import time

import forebay
import pytest

numpy = pytest.importorskip("numpy")

SIZES = [0, 1, 63, 64, 65, 4095, 4096, 4097, 32767, 32768, 100_000, 3_000_001]


@pytest.mark.parametrize("size", SIZES)
def test_bytes_come_back(each, size):
    value = bytes(index % 251 for index in range(min(size, 1000))) * (size // 1000 + 1)
    value = value[:size]
    assert each.put("key", value)
    view = each.get("key")
    assert (view.bytes(), bytes(view), view.load(), len(view)) == (value, value, value, size)
    assert view.kind == "bytes" and view == value
    assert each.call("GET", "key") == value, "any client sees the same"


def test_absent_key_is_none(each):
    assert each.get("key") is None
    assert each.take("key") is None
    assert each.load("key", 7) == 7
    assert each.mget(["a", "b"]) == [None, None]
    assert each.get_into("key", bytearray(3)) is None
    assert each.ttl("key") is None


def test_value_that_looks_like_a_block_is_bytes(db):
    db.put("array", numpy.arange(3.0))
    stored = db.call("GET", "array")
    db.put("raw", stored)
    assert db.get("raw").load() == stored
    assert db.get("raw").kind == "bytes"
    db.call("SET", "broken", stored[:-1])
    assert db.get("broken").load() == stored[:-1]


@pytest.mark.parametrize(
    "value",
    [None, True, 5, 2.5, "text \u00e9", (1, [2, {"a": b"b"}]), {"k": range(3)}],
    ids=repr,
)
def test_objects_come_back(each, value):
    each.put("key", value)
    assert each.load("key") == value
    assert each.get("key").kind == "pickle"


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "u4", "i8", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (7, 11), (3, 1, 4, 1000)])
def test_arrays_come_back(each, dtype, shape):
    value = numpy.full(shape, 3, dtype)
    each.put("key", value)
    view = each.get("key")
    found = view.numpy()
    assert view.kind == ("array" if shape else "pickle")
    assert found.dtype == value.dtype and found.shape == value.shape
    assert numpy.array_equal(found, value)
    if shape:
        assert view.shape == memoryview(view).shape == shape
        assert not found.flags.writeable


@pytest.mark.parametrize(
    "value",
    [
        numpy.asfortranarray(numpy.arange(600.0).reshape(20, 30)),
        numpy.arange(1000)[::2],
        numpy.array(["a", None], dtype=object),
        numpy.array(["2020-01-01"], dtype="M8[D]"),
        numpy.zeros(3, dtype=[("x", "i4"), ("y", "f8")]),
        numpy.arange(5, dtype=">i4"),
    ],
    ids=str,
)
def test_other_arrays_are_pickled(each, value):
    each.put("key", value)
    found = each.get("key").numpy()
    assert found.dtype == value.dtype and numpy.array_equal(found, value)


def test_large_values_are_not_copied(db):
    value = numpy.arange(1_000_000, dtype="f8")
    db.put("array", value)
    db.put("object", {"left": value, "right": value[:1000].copy(), "text": "t" * 100})
    view = db.get("array")
    assert view.is_pinned and view.numpy().ctypes.data % 64 == 0
    assert view.numpy().ctypes.data == view.numpy().ctypes.data
    view = db.get("object")
    found = view.load()
    assert view.is_pinned
    for name in ("left", "right"):
        assert found[name].ctypes.data % 64 == 0 and not found[name].flags.owndata
        assert numpy.array_equal(found[name], value[: len(found[name])])


def test_data_are_aligned_however_they_came(each):
    for count in (1, 100, 600, 5000, 100_000):
        each.put(f"odd-key-{count}", numpy.arange(count, dtype="f8"))
        assert each.get(f"odd-key-{count}").numpy().ctypes.data % 64 == 0


def test_kinds_of_buffers(db):
    for value in (bytearray(b"abc"), memoryview(b"abc"), memoryview(b"a-b-c")[::2]):
        db.put("key", value)
        assert db.get("key").load() == b"abc"
    db.put("key", array.array("d", [1, 2]))
    assert db.load("key") == array.array("d", [1, 2])
    db.put("copy", db.get("key"))
    assert db.get("copy").bytes() == db.get("key").bytes()


def test_what_cannot_be_pickled_is_refused_and_stores_nothing(db):
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        db.put("key", lambda: 0)
    assert "key" not in db


def test_options_of_put(each):
    assert each.put("key", b"1", nx=True)
    assert not each.put("key", b"2", nx=True)
    assert each.put("key", b"3", xx=True, ttl=100)
    assert 90 < each.ttl("key") <= 100
    assert each.put("key", b"4", keep_ttl=True) and each.ttl("key") > 90
    assert each.put("key", b"5") and each.ttl("key") == float("inf")
    assert each.expire("key", 50) and 40 < each.ttl("key") <= 50
    assert each.persist("key") and each.ttl("key") == float("inf")
    assert not each.put("other", b"", xx=True)
    for wrong in ({"nx": True, "xx": True}, {"ttl": 1, "keep_ttl": True}, {"ttl": 0}, {"ttl": -1}):
        with pytest.raises(ValueError):
            each.put("key", b"6", **wrong)
    assert each.get("key").load() == b"5"


def test_times_are_rounded_up_to_milliseconds(each):
    from forebay._db import _milliseconds

    assert [_milliseconds(0.0004), _milliseconds(0.07), _milliseconds(0.0711)] == [1, 70, 72]
    assert [_milliseconds(0), _milliseconds(-0.0004), _milliseconds(-1)] == [0, 0, -1000]
    # The server refuses zero.
    assert each.pipeline().put("key", b"x", ttl=0.0004).execute() in (["OK"], [b"OK"])
    until_absent(each, "key")
    # What is deleted at once has not expired.
    before = expired(each)
    each.put("key", b"x")
    assert each.expire("key", 0.0004)
    until_absent(each, "key")
    assert expired(each) == before + 1


def until_absent(db, key):
    # The server counts what it finds to have expired.
    while db.call("EXISTS", key):
        time.sleep(0.001)


def expired(db):
    """Returns how many keys have expired."""
    text = db.call("INFO", "stats")
    text = text if isinstance(text, str) else text.decode()
    return int(re.search("^expired_keys:([0-9]+)", text, re.MULTILINE)[1])


def test_times(each):
    assert each.put("key", b"1", ttl=math.inf) and each.ttl("key") == math.inf
    assert each.put("key", b"1", ttl=datetime.timedelta(minutes=1)) and 50 < each.ttl("key") <= 60
    assert each.take(each.put_auto(b"1", ttl=math.inf)) == b"1"
    assert each.take("absent", timeout=datetime.timedelta(milliseconds=1)) is None
    assert each.take("key", timeout=math.inf) == b"1"
    with pytest.raises(ValueError, match="-1 seconds are less than none"):
        each.put("key", b"1", ttl=-1)
    with pytest.raises(ValueError, match="-1 seconds are less than none"):
        each.take("key", timeout=-1)
    each.put("key", b"1")
    assert each.take("key", timeout=1e18) == b"1"
    with pytest.raises(ValueError, match="exclude each other"):
        each.put("key", b"1", ttl=math.inf, keep_ttl=True)
    for wrong in (math.nan, 1e300):
        with pytest.raises(ValueError, match="seconds cannot be counted"):
            each.put("key", b"1", ttl=wrong)


def test_value_longer_than_the_server_takes_is_refused_before_it_is_written():
    with forebay.open(proto_max_bulk_len="64mb") as db:
        with pytest.raises(forebay.ResponseError, match="67108864 .proto-max-bulk-len."):
            db.create("key", (64 << 20) + 1)
        with pytest.raises(forebay.ResponseError, match="proto-max-bulk-len"):
            db.put_auto(bytes(65 << 20))
        with db.create("key", 64 << 20):
            pass
        assert db.strlen("key") == 64 << 20


def test_take_deletes(each):
    for value in (b"small", b"l" * 200_000, numpy.arange(100_000)):
        each.put("key", value)
        view = each.take("key")
        assert numpy.array_equal(view.load(), value)
        assert "key" not in each and each.take("key") is None


def test_get_into(each):
    each.put("key", b"abc" * 50_000)
    target = bytearray(200_000)
    assert each.get_into("key", target) == 150_000
    assert target[:150_000] == b"abc" * 50_000 and not any(target[150_000:])
    numbers = numpy.arange(1000.0)
    each.put("array", numbers)
    found = numpy.zeros(1000)
    assert each.get_into("array", found) == 8000 and numpy.array_equal(found, numbers)
    with pytest.raises(BufferError):
        each.get_into("key", bytearray(149_999))
    with pytest.raises(BufferError):
        each.get_into("key", b"read-only")
    with pytest.raises(TypeError):
        each.get_into("key", numpy.zeros((4, 4))[::2])


def test_many_at_once(each):
    pairs = {f"key-{index}": numpy.full(index * 100, index) for index in range(50)}
    each.mput(pairs, ttl=100)
    views = each.mget([*pairs, "absent"])
    assert views.pop() is None
    for view, value in zip(views, pairs.values()):
        assert numpy.array_equal(view.numpy(), value)


def test_collections(each):
    assert each.hset("hash", {"a": 1, "b": b"two", b"c": 3.5}) == 3
    assert each.hget("hash", "a") == b"1"
    assert each.hget("hash", "d") is None
    assert each.hmget("hash", ["c", "d", "b"]) == [b"3.5", None, b"two"]
    assert each.hgetall("hash") == {b"a": b"1", b"b": b"two", b"c": b"3.5"}
    assert each.hgetall("absent") == {}
    with pytest.raises(forebay.WrongTypeError):
        each.get("hash")
    with pytest.raises(forebay.WrongTypeError):
        each.call("GET", "hash")


def test_calls_and_their_replies(each):
    assert each.call("SET", "n", 5) == "OK"
    assert each.call(b"INCRBY", "n", 3) == 8 == each.incr("n", 0)
    assert each.call("GET", "absent") is None
    assert each.call("RPUSH", "list", 1, 2.5, "x", b"y") == 4
    assert each.call("LRANGE", "list", 0, -1) == [b"1", b"2.5", b"x", b"y"]
    with pytest.raises(forebay.ResponseError) as refused:
        each.call("NOSUCH")
    assert refused.value.code == "ERR" and isinstance(refused.value, forebay.Error)
    with pytest.raises(forebay.UnsupportedError):
        each.call("SUBSCRIBE", "channel")
    with pytest.raises(TypeError):
        each.call("GET", object())
    with pytest.raises(TypeError):
        each.get(5)


def test_pipelines(each):
    with each.pipeline() as pipeline:
        pipeline.put("a", b"1").get("a").call("INCR", "a").delete("a", "b")
        assert len(pipeline) == 4
    assert pipeline.replies == ["OK", b"1", 2, 1]
    pipeline = each.pipeline().call("GET", "a").call("NOSUCH").call("INCR", "n")
    replies = pipeline.execute(raise_on_error=False)
    assert replies[0] is None and isinstance(replies[1], forebay.ResponseError)
    assert replies[2] == 1, "what follows an error is executed"
    pipeline = each.pipeline(transaction=True).call("INCR", "n").call("INCR", "n")
    assert pipeline.execute() == [2, 3]
    with pytest.raises(forebay.ResponseError):
        each.pipeline().call("NOSUCH").execute()
    assert each.pipeline().execute() == []


def test_transaction_that_is_not_executed_tells_why(each):
    pipeline = each.pipeline(transaction=True).call("INCR", "n").call("NOSUCH").call("GET")
    with pytest.raises(forebay.ResponseError, match="unknown command 'NOSUCH'"):
        pipeline.execute()
    assert "n" not in each


def test_one_text_is_not_several_keys(each):
    for keys in ("abc", b"abc"):
        with pytest.raises(TypeError, match="several expected"):
            each.mget(keys)
        with pytest.raises(TypeError, match="several expected"):
            each.hmget("hash", keys)
    with pytest.raises(TypeError, match="bytes, text or a number expected, not bool"):
        each.hset("hash", {"c": True})


def test_a_store_is_a_mapping(each):
    each["a"] = b"1"
    each["b"] = [1, 2]
    assert sorted(each) == [b"a", b"b"] and len(each) == 2
    assert each["b"].load() == [1, 2] and "a" in each and "c" not in each
    assert {key: view.load() for key, view in each.items()} == {b"a": b"1", b"b": [1, 2]}
    with pytest.raises(KeyError):
        each["c"]
    with pytest.raises(KeyError):
        del each["c"]
    assert each.pop("a") == b"1" and each.pop("a", None) is None
    assert each.setdefault("d", b"x") == b"x" and each.setdefault("d", b"y") == b"x"
    key, view = each.popitem()
    assert key in (b"b", b"d")
    each.update({"e": b"1", "f": b"2"})
    assert list(each.scan(match="e*")) == [b"e"]
    each.clear()
    assert len(each) == 0 and bool(each)
    with pytest.raises(KeyError):
        each.popitem()


def test_url_that_is_none():
    for url in ("", "http://localhost", "shm://relative"):
        with pytest.raises(forebay.URLError):
            forebay.connect(url)
    for url in ("shm:///nowhere/at/all", "unix://user:secret@/no/a@b?db=3&password=secret"):
        shown = url.replace("user:secret@", "").split("?")[0]
        with pytest.raises(forebay.ConnectionError, match=f"no connection to {shown}: "):
            forebay.connect(url)
    with pytest.raises(ValueError, match="a timeout is more than zero"):
        forebay.connect("shm:///nowhere/at/all", timeout=0)
