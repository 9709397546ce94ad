"""Other processes: forked, spawned, killed."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import forebay
import pytest

numpy = pytest.importorskip("numpy")

LARGE = 2_000_000


def used_memory(db):
    """Returns the bytes that data take."""
    return int(fields(db, "memory")["used_memory_dataset"])


def fields(db, section):
    text = db.call("INFO", section)
    text = text if isinstance(text, str) else text.decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def until(condition):
    """Waits until `condition` holds."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it does not come to hold"
        time.sleep(0.01)


def in_child(work):
    """Runs `work` in a forked child; returns whether it returned true there."""
    process_id = os.fork()
    if process_id == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]) == 0


def test_forked_child_uses_the_store_of_its_parent(db):
    db.put("key", numpy.arange(LARGE // 8))
    view = db.get("key")

    def work():
        assert view.numpy()[5] == 5, "what the parent holds can be read"
        db.put("child", b"from the child")
        with db.create("made", 100_000) as creation:
            creation[:] = bytes(100_000)
        own = db.get("key")
        ids = db.put_auto(b"x")
        db.put("id", ids)
        return own.is_pinned and own.numpy()[7] == 7

    parent_id = db.put_auto(b"y")
    assert in_child(work)
    assert db.get("child") == b"from the child" and len(db.get("made")) == 100_000
    assert db.get("id").bytes() != parent_id and db.get("id").bytes()[:8] != parent_id[:8]
    assert view.numpy()[9] == 9, "what the child lets go of, the parent holds"
    db.put("key", b"")
    assert view.numpy()[LARGE // 8 - 1] == LARGE // 8 - 1


def test_child_that_ends_does_not_end_the_server(db):
    def work():
        with db:
            db.put("a", b"1")
        return db.closed

    assert in_child(work)
    script = "import os, forebay; db = forebay.open(); os.fork() or os._exit(0); os.wait();"
    script += "db.put('a', b'1'); print(db.get('a').bytes())"
    # A child that ends as programs do runs what is registered for the end.
    script = script.replace("os._exit(0)", "exit()")
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert output.stdout == "b'1'\n", output.stderr


def _sum_of(view):
    return float(view.numpy().sum()), view.is_pinned


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pool_gets_views_without_a_copy(db, method):
    views = []
    for index in range(4):
        db.put(f"part-{index}", numpy.full(100_000, float(index)))
        views.append(db.get(f"part-{index}"))
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_sum_of, views) == [(index * 100_000.0, True) for index in range(4)]


_CONSUMER = """
import forebay, sys
db = forebay.connect(sys.argv[1])
views = [db.take(f"key-{index}") for index in range(10)]
arrays = [view.numpy() for view in views]
print("holds", flush=True)
sys.stdin.read()
"""

_PRODUCER = """
import forebay, sys
db = forebay.connect(sys.argv[1])
creations = [db.create(f"key-{index}", 2_000_000) for index in range(5)]
for creation in creations:
    creation[:1000] = bytes(1000)
print("holds", flush=True)
sys.stdin.read()
"""


def start(script, db):
    process = subprocess.Popen(
        [sys.executable, "-c", script, db.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "holds\n"
    return process


def stop(process, how):
    process.send_signal(how)
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_killed_consumer_gives_its_views_back():
    with forebay.open() as db:
        db.put("first", numpy.zeros(LARGE // 8))
        db.delete("first")
        before = used_memory(db)
        for index in range(10):
            db.put(f"key-{index}", numpy.zeros(LARGE // 8))
        process = start(_CONSUMER, db)
        assert len(db) == 0
        stop(process, signal.SIGKILL)
        until(lambda: used_memory(db) <= before + 100_000)


def test_killed_producer_leaves_nothing():
    with forebay.open() as db:
        before = used_memory(db)
        process = start(_PRODUCER, db)
        stop(process, signal.SIGKILL)
        until(lambda: used_memory(db) <= before + 100_000)
        assert len(db) == 0
        db.put("key-0", numpy.arange(LARGE // 8))
        assert db.get("key-0").numpy()[1] == 1


def test_views_outlive_the_server():
    script = """
import forebay, sys
db = forebay.open(sys.argv[1])
print("serves", flush=True)
sys.stdin.read()
"""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", script, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "serves\n"
        db = forebay.open(folder)
        db.put("key", numpy.arange(LARGE // 8))
        view = db.get("key")
        stop(process, signal.SIGKILL)
        assert view.numpy()[LARGE // 8 - 1] == LARGE // 8 - 1
        with pytest.raises(forebay.Error):
            db.call("PING")
        # The next one who opens the folder serves it, from scratch.
        with forebay.open(folder) as second:
            assert len(second) == 0
            second.put("key", b"new")
            assert second.get("key") == b"new"


def test_second_open_joins_the_first(tmp_path):
    with forebay.open(tmp_path / "store") as db:
        db.put("key", b"1")
        with forebay.open(tmp_path / "store") as other:
            assert other.get("key") == b"1" and other is not db
        script = "import forebay, sys; print(forebay.open(sys.argv[1]).get('key').bytes())"
        command = [sys.executable, "-c", script, str(tmp_path / "store")]
        output = subprocess.run(command, capture_output=True, text=True)
        assert output.stdout == "b'1'\n", output.stderr
        assert db.get("key") == b"1"
    with pytest.raises(forebay.Error):
        other.call("PING")


def test_stores_are_separate_and_leave_no_folder():
    import pathlib

    with forebay.open() as one, forebay.open(maxmemory="100mb") as other:
        one.put("key", b"1")
        assert other.get("key") is None
        assert other.call("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"104857600"]
        folder = pathlib.Path(one.url.removeprefix("shm://")).parent
        assert folder.exists()
    assert not folder.exists()
    with pytest.raises(OSError, match="maxmemory"):
        forebay.open(maxmemory="much")


def test_threads_share_a_store(db):
    def work(number):
        for index in range(200):
            key = f"{number}-{index % 7}"
            db.put(key, numpy.full(1000, index))
            assert db.take(key).numpy()[0] == index

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(db) == 0


def test_wait_for_a_value_lets_other_threads_run(db):
    found = []
    waiter = threading.Thread(target=lambda: found.append(db.take("key", timeout=60)))
    waiter.start()
    db.put("key", b"there")
    waiter.join()
    assert found[0].load() == b"there" and "key" not in db
    assert db.take("key", timeout=0.01) is None
    assert db.get_blocking("key", timeout=0.01) is None


def test_wait_ends_with_a_signal(db):
    def interrupt(*_):
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptedError):
            db.take("key", timeout=None)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_memory_is_back_where_it_was_after_many_cycles():
    cycles = int(os.environ.get("FOREBAY_CYCLES", 100_000))
    with forebay.open() as db:
        small, large = b"s" * 100, numpy.arange(8192)

        def cycle(index):
            value = large if index % 10 == 0 else small
            key = db.put_auto(value)
            view = db.take(key)
            assert len(view) == (65536 if index % 10 == 0 else 100)

        for index in range(1000):
            cycle(index)
        until(lambda: used_memory(db) >= 0 and len(db) == 0)
        time_of_rest = settled(db)
        for index in range(cycles):
            cycle(index)
        until(lambda: settled(db) <= time_of_rest)
        assert len(db) == 0


def settled(db):
    """Returns the memory of the data once it does not change any more."""
    last = None
    while (now := used_memory(db)) != last:
        last = now
        time.sleep(0.2)
    return now
