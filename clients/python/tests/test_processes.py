"""Other processes: forked, spawned, killed."""

import collections
import multiprocessing
import os
import pathlib
import shutil
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


def test_url_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in ("shm:///tmp/x", b"unix:///tmp/x"):
        with pytest.raises(ValueError, match="connect"):
            forebay.open(url)
    assert list(tmp_path.iterdir()) == []


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


_WRITER = """
import forebay, sys
db = forebay.open(sys.argv[1], durable=True)
for number in range(int(sys.argv[2]), 1_000_000):
    db.call("SET", f"key:{number}", str(number))
    db.call("RPUSH", "numbers", str(number))
    print(number, flush=True)
"""


def test_durable_store_has_what_was_acknowledged_after_a_kill(tmp_path):
    folder = str(tmp_path / "store")
    acknowledged = -1
    for round in range(3):
        command = [sys.executable, "-c", _WRITER, folder, str(acknowledged + 1)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for _ in range(50 + 7 * round):
            acknowledged = int(process.stdout.readline())
        process.kill()
        # What it has printed since the last line that was read is acknowledged too.
        rest = process.stdout.read().splitlines()
        acknowledged = int(rest[-1]) if rest and rest[-1].isdigit() else acknowledged
        process.wait()
        process.stdout.close()
        # It stays durable without being told.
        with forebay.open(folder) as db:
            assert db.call("CONFIG", "GET", "appendonly")[1] == b"yes"
            for number in range(acknowledged + 1):
                assert db.get(f"key:{number}") == str(number).encode()
            numbers = db.call("LRANGE", "numbers", "0", "-1")
            assert numbers[: acknowledged + 1] == [str(n).encode() for n in range(acknowledged + 1)]
            # What was not acknowledged may be there or not: the next round begins behind it.
            db.call("LTRIM", "numbers", "0", str(acknowledged))


def test_durable_store_is_there_after_its_end_and_no_other(tmp_path):
    with pytest.raises(ValueError, match="needs a folder"):
        forebay.open(durable=True)
    with forebay.open(tmp_path / "store", durable=True) as db:
        db.put("key", numpy.arange(1000))
        with forebay.open(tmp_path / "store", durable=True) as other:
            assert other.get("key").numpy()[999] == 999
    with forebay.open(tmp_path / "store") as db:
        assert db.get("key").numpy()[999] == 999
    with forebay.open(tmp_path / "other"):
        with pytest.raises(ValueError, match="not durable"):
            forebay.open(tmp_path / "other", durable=True)


def test_open_tells_of_options_that_the_store_cannot_have(tmp_path):
    folder = tmp_path / "store"
    with forebay.open(folder, maxmemory="5mb") as db:
        with forebay.open(folder, maxmemory="5mb"), forebay.open(folder, maxmemory=5 << 20):
            pass
        with pytest.raises(ValueError, match="open already, with maxmemory '5242880', not '6"):
            forebay.open(folder, maxmemory="6mb")
        script = "import forebay, sys; forebay.open(sys.argv[1], maxmemory_policy='allkeys-lru')"
        command = [sys.executable, "-c", script, folder]
        output = subprocess.run(command, capture_output=True, text=True)
        assert "with maxmemory-policy 'noeviction', not 'allkeys-lru'" in output.stderr
        assert db.call("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"5242880"]
    # Redis does not know it any more, and takes it.
    with forebay.open(folder, lua_replicate_commands="yes"):
        forebay.open(folder, lua_replicate_commands="no").close()
    for path in (None, folder):
        advised = {"max_memory": "did you mean 'maxmemory'", "xyz": "forebay options lists them"}
        for wrong, advice in advised.items():
            with pytest.raises(TypeError, match=f"there is no option '{wrong}': {advice}"):
                forebay.open(path, **{wrong: "1gb"})
        with pytest.raises(ValueError, match='maxmemory "much": argument must be a memory value'):
            forebay.open(path, maxmemory="much")


def test_open_joins_a_store_that_allows_fewer_clients_than_it_was_told(tmp_path):
    # More than any limit of descriptors.
    told = 2**32 - 1
    with forebay.open(tmp_path, maxclients=told) as db:
        assert int(db.call("CONFIG", "GET", "maxclients")[1]) < told
        forebay.open(tmp_path, maxclients=told).close()
        with pytest.raises(ValueError, match="with maxclients '[0-9]+', not '10'"):
            forebay.open(tmp_path, maxclients=10)


_FORKED_WITH_HELD_VALUES = """
import forebay, os, signal, sys, time
db, other = forebay.connect(sys.argv[1]), forebay.connect(sys.argv[1])
put = lambda: [db.put_auto(bytes(9000)) for _ in range(10)]
for _ in range(9):
    assert all(db.take(key) for key in put())
other.call("CLIENT", "PAUSE", 60000, "WRITE")
keys = put()
# A thread of the client sends what nobody has taken, and waits for the server.
time.sleep(0.05)
child = os.fork()
if child == 0:
    signal.alarm(60)
    sys.exit(7)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
other.call("CLIENT", "UNPAUSE")
assert all(db.take(key) for key in keys)
print(code)
"""


def test_child_that_was_forked_while_values_are_sent_ends():
    with forebay.open() as db:
        command = [sys.executable, "-c", _FORKED_WITH_HELD_VALUES, db.url]
        output = subprocess.run(command, capture_output=True, text=True)
    assert output.stdout == "7\n", output.stderr


def test_server_ends_with_its_store_where_the_last_post_is_refused():
    db = forebay.open(maxmemory="64mb", maxmemory_policy="noeviction")
    db.call("CONFIG", "SET", "maxmemory", "1")
    db.put_auto(b"refused")
    with pytest.raises(forebay.ResponseError) as refused:
        db.close()
    assert refused.value.code == "OOM" and db.closed
    assert not pathlib.Path(db.url.removeprefix("shm://")).parent.exists()
    with pytest.raises(forebay.ConnectionError):
        forebay.connect(db.url)


def test_open_refuses_options_that_contradict_it_or_are_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "store"
    for durable, word in ((True, "no"), (False, "yes")):
        with pytest.raises(ValueError, match=f"durable={durable} contradicts appendonly='{word}'"):
            forebay.open(folder, durable=durable, appendonly=word)
    for option in ({"appendonly": "yes"}, {"save": "1 1"}):
        with pytest.raises(ValueError, match="needs a folder"):
            forebay.open(**option)
    for name in ("requirepass", "unixsocket", "dir", "appenddirname"):
        with pytest.raises(ValueError, match=rf"open\(\) sets {name} itself"):
            forebay.open(folder, **{name: "x"})
    assert list(tmp_path.iterdir()) == []
    forebay.open(save="", server_cpulist="0").close()


def test_files_of_a_store_are_in_its_folder(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder = tmp_path / "store"
    with forebay.open(folder, appendonly="yes", save="3600 1") as db:
        db.put("key", b"1")
        db.call("SAVE")
    with forebay.open(folder) as db:
        assert db.get("key") == b"1"
    with forebay.open() as db:
        db.call("SAVE")
    assert (folder / "dump.rdb").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_second_close_leaves_the_store_that_was_opened_since(tmp_path):
    with forebay.open(tmp_path / "store") as first:
        first.close()
        second = forebay.open(tmp_path / "store")
    first.close()
    second.put("key", b"1")
    second.close()


def test_open_that_failed_can_be_done_again(tmp_path, monkeypatch):
    monkeypatch.setattr("forebay._db._JOIN_SECONDS", 0)
    obstacle = tmp_path / "forebay.sock"
    obstacle.mkdir()
    with pytest.raises(OSError):
        forebay.open(tmp_path)
    obstacle.rmdir()
    forebay.open(tmp_path).close()


def test_open_tells_that_the_folder_was_removed(tmp_path):
    folder = tmp_path / "store"
    with forebay.open(folder):
        shutil.rmtree(folder)
        with pytest.raises(forebay.ConnectionError, match="open, whose files were removed"):
            forebay.open(folder)
    forebay.open(folder).close()


def test_forked_child_opens_what_its_parent_has_closed(tmp_path):
    read, write = os.pipe()
    db = forebay.open(tmp_path / "store")
    process_id = os.fork()
    if process_id == 0:
        try:
            os.read(read, 1)
            with forebay.open(tmp_path / "store") as own:
                own.put("key", b"1")
                os._exit(0 if own.get("key") == b"1" else 1)
        finally:
            os._exit(2)
    db.close()
    os.write(write, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]) == 0
    os.close(read)
    os.close(write)


def test_child_that_is_forked_during_open_holds_no_lock(tmp_path, monkeypatch):
    read, write = os.pipe()
    start, children = forebay._db._Served.start, []

    def start_and_fork(served, options):
        # As another thread does that forks just then.
        process_id = os.fork()
        if process_id == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        children.append(process_id)
        start(served, options)

    monkeypatch.setattr("forebay._db._Served.start", start_and_fork)
    forebay.open(tmp_path / "store").close()
    monkeypatch.undo()
    monkeypatch.setattr("forebay._db._JOIN_SECONDS", 0)
    forebay.open(tmp_path / "store").close()
    os.close(write)
    for process_id in children:
        os.waitpid(process_id, 0)
    os.close(read)


def test_stores_are_separate_and_leave_no_folder():
    with forebay.open() as one, forebay.open(maxmemory="100mb") as other:
        one.put("key", b"1")
        assert other.get("key") is None
        assert other.call("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"104857600"]
        folder = pathlib.Path(one.url.removeprefix("shm://")).parent
        assert folder.exists()
    assert not folder.exists()


def test_next_open_removes_the_folder_of_a_killed_process(tmp_path):
    def start():
        script = "import forebay; db = forebay.open(); print(db.url, flush=True); input()"
        command = [sys.executable, "-c", script]
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, env=environment, **pipes)
        url = process.stdout.readline().strip()
        return process, pathlib.Path(url.removeprefix("shm://")).parent

    def kill(process):
        process.kill()
        process.communicate()

    killed, abandoned = start()
    living, used = start()
    kill(killed)
    # A store's own folder is nobody else's to remove, whatever it is called, nor what is in one.
    kept = tmp_path / "forebay-own"
    forebay.open(kept, durable=True).close()
    other, with_file = start()
    (with_file / "file").write_text("")
    kill(other)
    last, folder = start()
    assert not abandoned.exists()
    assert sorted(tmp_path.iterdir()) == sorted([used, kept, with_file, folder])
    assert (kept / "appendonlydir").exists() and (used / "forebay.sock").exists()
    assert (with_file / "file").exists()
    for process in (living, last):
        process.communicate("\n")
        assert process.returncode == 0
    assert sorted(tmp_path.iterdir()) == sorted([kept, with_file])


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


def raised_by_waits_as_it_closes(db):
    """Closes `db` while threads wait for it; returns how many there were, and what they raised."""
    raised = []

    def work(wait):
        try:
            wait()
        except forebay.Error as error:
            raised.append(type(error))

    waits = [
        lambda: db.take("key", timeout=None),
        lambda: db.take(b"\xf5FB" + b"k" * 13, timeout=None),
        lambda: db.get_blocking("key"),
        lambda: db.call("BLPOP", "list", "0"),
        lambda: db.pipeline().call("BLPOP", "list", "0").execute(),
    ]
    threads = [threading.Thread(target=work, args=(wait,), daemon=True) for wait in waits]
    for thread in threads:
        thread.start()
    with forebay.connect(db.url) as other:
        until(lambda: fields(other, "clients")["blocked_clients"].strip() == str(len(waits)))
    db.close()
    for thread in threads:
        thread.join(60)
    return len(waits), raised


def test_close_ends_what_other_threads_wait_for_and_the_server_of_open():
    count, raised = raised_by_waits_as_it_closes(forebay.open())
    assert raised == [forebay.ClosedError] * count


def test_close_ends_what_other_threads_wait_for(each):
    count, raised = raised_by_waits_as_it_closes(forebay.connect(each.url))
    assert raised == [forebay.ClosedError] * count
    each.put("key", b"later")
    each.call("RPUSH", "list", "later")
    assert each.get("key") == b"later" and each.call("LLEN", "list") == 1


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


@pytest.mark.parametrize("is_own", [True, False])
def test_memory_is_back_where_it_was_after_many_cycles(is_own):
    cycles = int(os.environ.get("FOREBAY_CYCLES", 100_000))
    with forebay.open() as db, forebay.connect(db.url) as other:
        small, large = b"s" * 100, numpy.arange(8192)
        # The server is not told of what its own client takes.
        taker = db if is_own else other

        def cycle(index):
            value = large if index % 10 == 0 else small
            key = db.put_auto(value)
            view = taker.take(key, timeout=5)
            assert len(view) == (65536 if index % 10 == 0 else 100)

        for index in range(1000):
            cycle(index)
        until(lambda: used_memory(db) >= 0 and len(db) == 0)
        time_of_rest = settled(db)
        for index in range(cycles):
            cycle(index)
        until(lambda: settled(db) <= time_of_rest)
        assert len(db) == 0


@pytest.mark.parametrize("size", [0, 100, 10_000, 100_000])
def test_what_is_posted_is_seen_by_who_posted_it(db, size):
    value = os.urandom(size)
    for _ in range(20):
        keys = [db.put_auto(value) for _ in range(10)]
        assert all(len(key) == 16 for key in keys)
        assert [db.take(key).bytes() for key in keys] == [value] * 10
        assert db.take(keys[3]) is None and not db.exists(keys[4])
        assert db.get(keys[5]) is None and db.mget(keys) == [None] * 10
    key = db.put_auto(value)
    assert db.get(key) == value and db.strlen(key) == size and 590 < db.ttl(key) <= 600
    assert db.take(key, timeout=1) == value and len(db) == 0
    key = db.put_auto({"size": size}, ttl=50)
    assert db.load(key) == {"size": size} and db.ttl(key) <= 50


def test_what_was_taken_is_gone_without_a_further_request(db):
    keys = [db.put_auto(b"x") for _ in range(50)]
    db.settle()
    assert all(db.take(key) == b"x" for key in keys)
    # Another connection, which has the server execute nothing of the first.
    with forebay.connect(db.url) as other:
        until(lambda: other.call("DBSIZE") == 0)


def test_who_looks_for_a_value_does_not_wait_for_deletions(db):
    keys = [db.put_auto(b"x") for _ in range(3)]
    absent = keys.pop()
    assert db.take(absent) == b"x"
    db.settle()
    with forebay.connect(db.url, timeout=5) as taker:
        # The server does not execute deletions.
        db.call("CLIENT", "PAUSE", 600_000, "WRITE")
        try:
            assert [taker.take(key) for key in keys] == [b"x", b"x"]
            assert taker.take(absent) is None
        finally:
            db.call("CLIENT", "UNPAUSE")
        taker.settle()
        assert len(db) == 0


@pytest.mark.parametrize("size", [104, 10_000, 60_000, 1_000_000])
def test_taken_value_stays_as_it_is_whatever_its_owner_puts_next(db, size):
    def value_of(number):
        return number.to_bytes(8, "little") * (size // 8)

    held = collections.deque(maxlen=40)
    for number in range(1, 600):
        # One by one at first, then some together.
        numbers = [number + 1000 * index for index in range(1 if number < 300 else number % 7)]
        keys = [db.put_auto(value_of(number)) for number in numbers]
        views = [db.take(key) for key in keys]
        held.extend(zip(numbers, views, strict=True))
        del views
        if number % 50 == 0:
            assert all(view == value_of(number) for number, view in held)

    def child():
        whole = all(view == value_of(number) for number, view in held)
        held.clear()
        return whole

    assert in_child(child) and all(view == value_of(number) for number, view in held)

    def cycles():
        assert all(db.take(db.put_auto(value_of(7))) == value_of(7) for _ in range(200))

    # Other threads write to the same memory.
    threads = [threading.Thread(target=cycles) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(view == value_of(number) for number, view in held)
    until(lambda: len(db) == 0)


@pytest.mark.parametrize("size", [100, 10_000, 1_000_000])
def test_value_for_another_arrives_from_who_took_its_own_values(db, size):
    with forebay.connect(db.url) as other:
        for _ in range(10):
            for _ in range(40):
                assert db.take(db.put_auto(bytes(size))).nbytes == size
            for _ in range(3):
                key = db.put_auto(b"x" * size)
                assert other.take(key, timeout=30) == b"x" * size
    until(lambda: len(db) == 0)


def test_memory_of_refused_values_is_used_again_and_that_of_views_is_not():
    options = {"maxmemory": "64mb", "maxmemory_policy": "noeviction"}
    with forebay.open(**options) as db, forebay.connect(db.url) as other:
        assert all(db.take(db.put_auto(bytes(10_000))) for _ in range(100))
        views = []
        for number in range(1, 100):
            views.append((number, db.take(db.put_auto(bytes([number]) * 10_000))))
            other.call("CONFIG", "SET", "maxmemory", "1")
            with pytest.raises(forebay.ResponseError) as refused:
                db.put_auto(bytes([number + 100]) * 10_000)
                db.settle()
            assert refused.value.code == "OOM"
            other.call("CONFIG", "SET", "maxmemory", "64mb")
        assert all(view == bytes([number]) * 10_000 for number, view in views)
        assert db.take(db.put_auto(b"again")) == b"again"


def test_posts_within_a_transaction_are_part_of_none(db):
    key = db.put_auto(b"before")
    db.call("MULTI")
    with pytest.raises(forebay.Error):
        db.take(key)
    db.call("DISCARD")
    assert db.take(key) == b"before"


def test_refusal_of_what_was_posted_is_raised_by_the_next_call():
    with forebay.open(maxmemory="64mb", maxmemory_policy="noeviction") as db:
        with pytest.raises(forebay.ResponseError) as refused:
            for _ in range(200):
                db.put_auto(bytes(1_000_000))
            db.settle()
        assert refused.value.code == "OOM"
        db.settle()
        db.clear()
        assert db.take(db.put_auto(b"again")) == b"again"


_POSTER = """
import forebay, multiprocessing, os, sys
def post(url, write):
    db = forebay.connect(url)
    os.write(write, db.put_auto(b"posted"))
if __name__ == "__main__":
    url, write, method = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if method == "none":
        post(url, write)
    else:
        context = multiprocessing.get_context(method)
        child = context.Process(target=post, args=(url, write))
        child.start()
        child.join()
"""


@pytest.mark.parametrize("method", ["none", "fork"])
def test_what_was_posted_stays_when_its_process_ends(db, method, tmp_path):
    script = tmp_path / "poster.py"
    script.write_text(_POSTER)
    for _ in range(10):
        read, write = os.pipe()
        command = [sys.executable, script, db.url, str(write), method]
        subprocess.run(command, pass_fds=[write], check=True)
        os.close(write)
        assert db.take(os.read(read, 16)) == b"posted"
        os.close(read)


_READER = """
import forebay, sys
def resident():
    with open("/proc/self/smaps_rollup") as file:
        rows = dict(line.split(":", 1) for line in file.read().splitlines()[1:])
    kilobytes = lambda name: int(rows[name].split()[0])
    return kilobytes("Pss")
db = forebay.connect(sys.argv[1])
views = [db.get(key) for key in ("value", "value")]
before = resident()
total = sum(memoryview(views[0])[::4096])
print("holds", flush=True)
sys.stdin.readline()
print(before, resident(), total, views[0].is_pinned, flush=True)
sys.stdin.read()
"""


def test_many_processes_read_one_value_in_the_same_memory():
    count = int(os.environ.get("FOREBAY_READERS", 8))
    size = 32 << 20
    with forebay.open() as db:
        db.put("value", b"\1" * size)
        processes = [start(_READER, db) for _ in range(count)]
        for process in processes:
            process.stdin.write("all hold it\n")
            process.stdin.flush()
        found = [process.stdout.readline().split() for process in processes]
        for before, after, total, is_pinned in found:
            assert is_pinned == "True" and int(total) == size // 4096
            share = size // 1024 // count
            assert int(after) - int(before) < share + 1024, "its share of the pages, and no copy"
        for process in processes:
            stop(process, signal.SIGKILL)
        assert len(db) == 1


def settled(db):
    """Returns the memory of the data once it does not change any more."""
    last = None
    while (now := used_memory(db)) != last:
        last = now
        time.sleep(0.2)
    return now
