"""The adapters for joblib, fsspec, Django and dask."""

import asyncio
import subprocess
import sys

import pytest

numpy = pytest.importorskip("numpy")


def test_joblib_keeps_results_for_all_processes(db, tmp_path):
    pytest.importorskip("joblib")
    script = tmp_path / "work.py"
    script.write_text(
        "import sys, joblib, numpy, forebay.joblib\n"
        "forebay.joblib.register()\n"
        "memory = joblib.Memory(sys.argv[1], backend='forebay', verbose=0,\n"
        "                       backend_options={'prefix': 'cached', 'ttl': 100})\n"
        "@memory.cache\n"
        "def work(number):\n"
        "    print('called', number)\n"
        "    return {'array': numpy.full(100_000, number), 'bytes': b'b'}\n"
        "for number in (1, 2, 1):\n"
        "    found = work(number)\n"
        "    assert found['array'][7] == number and found['bytes'] == b'b'\n"
        "print('views', not found['array'].flags.owndata)\n"
        "work.clear(warn=False) if len(sys.argv) > 2 else None\n"
    )

    def run(*arguments):
        command = [sys.executable, "-W", "error", script, db.url, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")

    assert run() == ["called 1", "called 2", "views True", ""]
    assert run("clear") == ["views True", ""], "another process finds the results"
    assert not [key for key in db.scan() if key.endswith(b"output.pkl")]
    assert run()[0] == "called 1"
    results = [key for key in db.scan() if key.endswith(b"output.pkl")]
    assert len(results) == 2 and all(0 < db.ttl(key) <= 100 for key in results)


def test_joblib_gives_up_the_oldest_results(db):
    joblib = pytest.importorskip("joblib")
    import forebay.joblib

    forebay.joblib.register()
    memory = joblib.Memory(db.url, backend="forebay", verbose=0)
    cached = memory.cache(len)
    for length in range(5):
        cached("x" * length)
    memory.reduce_size(items_limit=2)
    assert sum(key.endswith(b"output.pkl") for key in db.scan()) == 2
    memory.clear(warn=False)
    assert len(db) == 0
    with pytest.raises(ValueError):
        joblib.Memory(db.url, backend="forebay", backend_options={"colour": "red"})


@pytest.fixture
def files(db):
    fsspec = pytest.importorskip("fsspec")
    import forebay.fsspec

    forebay.fsspec.register()
    return fsspec.filesystem("forebay", server=db.url)


def test_files_are_values(db, files):
    files.pipe("data/a.bin", b"0123456789")
    assert db.get("data/a.bin") == b"0123456789" == files.cat("data/a.bin")
    assert files.cat_file("data/a.bin", 2, 5) == b"234"
    db.put("data/deep/b.txt", b"line 1\nline 2\n")
    assert files.ls("data", detail=False) == ["data/a.bin", "data/deep"]
    assert files.isdir("data/deep") and not files.isdir("data/a.bin")
    assert files.find("") == ["data/a.bin", "data/deep/b.txt"]
    assert files.info("data/a.bin") == {"name": "data/a.bin", "size": 10, "type": "file"}
    with files.open("data/deep/b.txt", "r") as file:
        assert file.readlines() == ["line 1\n", "line 2\n"]
    files.cp("data/a.bin", "copy.bin")
    files.mv("copy.bin", "moved.bin")
    assert files.exists("moved.bin") and not files.exists("copy.bin")
    files.rm("data", recursive=True)
    assert files.find("") == ["moved.bin"]
    for call in (files.cat_file, files.info, files.rm_file, files.ls, files.open):
        with pytest.raises(FileNotFoundError):
            call("data")


def test_file_is_seen_when_it_is_closed(db, files):
    with files.open("new", "wb") as file:
        file.write(b"some ")
        assert "new" not in db
        file.write(b"bytes")
    with files.open("new", "ab") as file:
        file.write(b" more")
    assert db.get("new") == b"some bytes more"
    with pytest.raises(ZeroDivisionError), files.open("new", "wb") as file:
        file.write(b"half")
        1 / 0
    assert db.get("new") == b"some bytes more"
    with pytest.raises(FileExistsError), files.open("new", "xb") as file:
        file.write(b"other")


def test_pandas_reads_and_writes_files(db, files):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    options = {"server": db.url}
    frame.to_csv("forebay://frames/one.csv", index=False, storage_options=options)
    found = pandas.read_csv("forebay://frames/one.csv", storage_options=options)
    assert found.equals(frame)
    frame.to_parquet("forebay://frames/one.parquet", storage_options=options)
    found = pandas.read_parquet("forebay://frames/one.parquet", storage_options=options)
    assert found.equals(frame)


@pytest.fixture
def cache(db):
    django = pytest.importorskip("django")
    from django.conf import settings

    if not settings.configured:
        settings.configure()
        django.setup()
    from forebay.django import ForebayCache

    return ForebayCache(db.url, {"TIMEOUT": 300, "KEY_PREFIX": "site"})


def test_django_keeps_values(db, cache):
    for value in (1, -5, "text", b"bytes", None, 2.5, True, {"a": [1, 2]}, 1 << 80):
        cache.set("key", value)
        found = cache.get("key", "absent")
        assert found == value and type(found) is type(value)
    assert cache.get("other", 7) == 7 and cache.has_key("key") and "other" not in cache
    assert 290 < db.ttl(":".join(["site", "1", "key"])) <= 300
    assert not cache.add("key", 1) and cache.add("new", 1)
    assert cache.delete("new") and not cache.delete("new")
    cache.set_many({"a": 1, "b": numpy.arange(5)})
    found = cache.get_many(["a", "b", "c"])
    assert found["a"] == 1 and found["b"].sum() == 10 and len(found) == 2
    assert cache.get_or_set("d", lambda: 4) == 4 == cache.get("d")
    cache.clear()
    assert len(db) == 0


def test_django_counts_and_expires(db, cache):
    cache.set("n", 1, timeout=None)
    assert cache.incr("n") == 2 and cache.decr("n", 5) == -3 and cache.get("n") == -3
    assert db.ttl("site:1:n") == float("inf")
    with pytest.raises(ValueError):
        cache.incr("absent")
    assert cache.touch("n", 100) and 90 < db.ttl("site:1:n") <= 100
    assert not cache.touch("absent", 100) and cache.touch("n", None)
    cache.set("n", 5, timeout=0)
    assert cache.get("n") is None
    assert cache.incr_version is not None


def test_dask_keeps_results_in_the_store(db):
    from forebay.dask import ForebayData

    data = ForebayData(db.url)
    values = {"a": numpy.arange(100_000), ("b", 1): b"bytes", "c": bytearray(b"x"), "d": [1]}
    for key, value in values.items():
        data[key] = value
    lock = __import__("threading").Lock()
    data["lock"] = lock
    assert not data["a"].flags.owndata and numpy.array_equal(data["a"], values["a"])
    assert data[("b", 1)] == b"bytes" and data["c"] == bytearray(b"x") and data["lock"] is lock
    assert type(data["c"]) is bytearray and len(data) == 5 and set(data) == {*values, "lock"}
    data["d"] = [2]
    del data["a"]
    assert data["d"] == [2] and "a" not in data and len(db) == 3
    with pytest.raises(KeyError):
        data["a"]
    data.close()
    assert len(db) == 0


def test_dask_worker_computes_with_it(db):
    distributed = pytest.importorskip("distributed")
    from forebay.dask import ForebayData

    async def main():
        options = {"dashboard_address": ":0", "port": 0, "host": "127.0.0.1"}
        async with distributed.Scheduler(**options) as scheduler:
            data = (ForebayData, {"url": db.url})
            async with distributed.Worker(scheduler.address, data=data, dashboard=False):
                async with distributed.Client(scheduler.address, asynchronous=True) as client:
                    array = client.submit(numpy.arange, 100_000)
                    total = await client.submit(lambda found: int(found.sum()), array)
                    return total, len(db)

    total, count = asyncio.run(main())
    assert total == sum(range(100_000)) and count >= 1


def _work(counts, jobs, results, lock, total):
    while (job := jobs.get()) is not None:
        with lock:
            total.value = total.value + job
        counts[job] = counts.get(job, 0) + 1
        results.put(numpy.full(100_000, job))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_managers_objects_are_those_of_all_processes(db, method):
    import multiprocessing

    from forebay.managers import Manager

    with Manager(db) as manager:
        counts, lock, total = manager.dict(), manager.Lock(), manager.Value("i", 0)
        jobs, results = manager.Queue(), manager.Queue()
        context = multiprocessing.get_context(method)
        arguments = (counts, jobs, results, lock, total)
        workers = [context.Process(target=_work, args=arguments) for _ in range(2)]
        for worker in workers:
            worker.start()
        for job in [*range(10), None, None]:
            jobs.put(job)
        found = [results.get(timeout=60) for _ in range(10)]
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
        assert sorted(array[0] for array in found) == list(range(10))
        assert not any(array.flags.owndata for array in found)
        assert total.value == 45 and counts.copy() == {job: 1 for job in range(10)}
        assert jobs.empty() and results.qsize() == 0
    assert len(db) == 0


def test_managers_objects_are_as_pythons(db):
    import queue

    from forebay.managers import Manager

    manager = Manager(db.url)
    names = manager.dict({"a": 1}, b=[2])
    names[("x", 1)] = b"bytes"
    assert dict(names) == {"a": 1, "b": [2], ("x", 1): b"bytes"} and "b" in names
    assert names.pop("a") == 1 and names.pop("a", None) is None and names.setdefault("c", 3) == 3
    for wrong in (lambda: names["a"], lambda: names.pop("a"), lambda: names.__delitem__("a")):
        with pytest.raises(KeyError):
            wrong()
    items = manager.list([1, 2, 3])
    items.append({"n": 4})
    items[0] = b"first"
    assert list(items) == [b"first", 2, 3, {"n": 4}] and items[1:3] == [2, 3] and len(items) == 4
    assert items.pop() == {"n": 4} and items.pop(0) == b"first" and items[-1] == 3
    for wrong in (lambda: items[9], lambda: items.pop(1), lambda: items.__setitem__(9, 0)):
        with pytest.raises(IndexError):
            wrong()
    space = manager.Namespace(x=1)
    space.y = b"y"
    assert space.x == 1 and space.y == b"y"
    del space.x
    with pytest.raises(AttributeError):
        space.x
    value = manager.Value("i", b"bytes")
    assert value.value == b"bytes"
    with pytest.raises(ValueError, match="bound"):
        manager.Queue(2)
    jobs = manager.Queue()
    for wrong in (jobs.get_nowait, lambda: jobs.get(timeout=0.01)):
        with pytest.raises(queue.Empty):
            wrong()
    jobs.put(b"one")
    assert jobs.get() == b"one"
    lock = manager.Lock()
    assert lock.acquire() and not manager.Lock(name=lock.key.rsplit(":", 1)[1]).acquire(block=False)
    lock.release()
    manager.clear()
    assert len(db) == 0
