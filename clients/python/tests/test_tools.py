"""Locks, the cache, redis-py and mosec."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import forebay
import pytest


def text_of(reply):
    return reply if isinstance(reply, str) else reply.decode()


def test_lock_is_one_holders(db):
    count = 0

    def work():
        nonlocal count
        for _ in range(20):
            with db.lock("lock", ttl=60):
                now = count
                db.call("PING")
                count = now + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count == 80 and "lock" not in db


def test_lock_that_is_held_is_not_acquired(db):
    with db.lock("lock") as held:
        assert held.owned
        assert not db.lock("lock").acquire(timeout=0.01)
        with pytest.raises(forebay.LockError):
            with db.lock("lock", timeout=0.01):
                pass
        with pytest.raises(forebay.LockError):
            held.acquire()
    assert not held.owned
    with pytest.raises(forebay.LockError):
        held.release()


def test_lock_that_was_lost_is_told_and_left_to_its_owner(db):
    lock = db.lock("lock")
    lock.acquire()
    db.put("lock", b"of another")
    with pytest.raises(forebay.LockError):
        lock.release()
    assert db.get("lock") == b"of another"


def test_cache_calls_once(db):
    calls = []

    @db.cache(ttl=100)
    def double(value, *, plus=0):
        """Doubles."""
        calls.append(value)
        return None if value is None else [2 * value + plus]

    assert double(2) == double(2) == [4] and double(2, plus=1) == [5]
    assert double(None) is None and double(None) is None
    assert calls == [2, 2, None] and double.__doc__ == "Doubles."
    assert double.forget(2) and not double.forget(2)
    assert double(2) == [4] and len(calls) == 4
    assert double.refresh(2) == [4] and len(calls) == 5


SCRIPT = """
import multiprocessing, sys
import forebay

db = forebay.connect(sys.argv[1])

@db.cache(ttl=60)
def answer():
    return __file__

if __name__ == "__main__":
    print(answer())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(answer.key_of) == answer.key_of()
"""


def test_functions_of_two_scripts_have_results_of_their_own(db, tmp_path):
    for name in ("one.py", "two.py"):
        script = tmp_path / name
        script.write_text(SCRIPT)
        output = subprocess.run([sys.executable, script, db.url], capture_output=True, text=True)
        assert output.stdout == f"{script}\n", output.stderr
    assert len(db) == 2


def test_cache_is_told_a_time_and_given_a_plain_function(db):
    with pytest.raises(TypeError, match="ttl=60"):
        db.cache(len)

    async def answer():
        return 1

    with pytest.raises(TypeError, match="answer is to be awaited"):
        db.cache(ttl=60)(answer)


def test_stale_result_is_returned_while_one_makes_a_new_one(db):
    results = iter(range(10))

    @db.cache(ttl=0.0001, stale=100)
    def number():
        return next(results)

    assert number() == 0
    time.sleep(0.002)
    key = number.key_of()
    state, _, token, _ = db.call("LGET", key, "STALE")
    assert text_of(state) == "STALE-WIN", "another process makes one"
    assert number() == 0 and number() == 0
    db.call("LFREE", key, token)
    assert number() == 1


def test_of_many_who_miss_a_result_one_makes_it(db):
    calls, inside = [], threading.Event()

    @db.cache(ttl=100)
    def slow(value):
        calls.append(value)
        inside.wait(10)
        return value

    results = []
    threads = [threading.Thread(target=lambda: results.append(slow(7))) for _ in range(20)]
    for thread in threads:
        thread.start()
    while "blocked_clients:19" not in text_of(db.call("INFO", "clients")):
        time.sleep(0.001)
    inside.set()
    for thread in threads:
        thread.join()
    assert calls == [7] and results == [7] * 20


def test_result_is_returned_while_the_server_stores_nothing(db):
    @db.cache(ttl=100)
    def double(value):
        if value == 2:
            db.call("CONFIG", "SET", "maxmemory", "1")
        return 2 * value

    try:
        assert double(2) == 4, "the lease was given, and nothing stored"
        assert double(1) == 2, "no lease was given"
    finally:
        db.call("CONFIG", "SET", "maxmemory", "0")
    assert not double.forget(2) and not double.forget(1)
    with pytest.raises(ValueError):
        db.cache(ttl=1, stale=366 * 86_400)(double)


def test_cached_function_tells_of_the_refusal_of_what_was_posted():
    with forebay.open(maxmemory_policy="noeviction") as db:

        def post_what_is_refused():
            db.call("CONFIG", "SET", "maxmemory", "1")
            db.put_auto(b"x" * 100)

        def made(value):
            if value == 2:
                post_what_is_refused()
            if value == 3:
                post_what_is_refused()
                raise LookupError(value)
            return value

        cached = db.cache(ttl=100)(made)
        post_what_is_refused()
        with pytest.raises(forebay.ResponseError, match="OOM"):
            cached(1)
        assert cached(1) == 1, "it is told once, and a full server is no hindrance"
        db.call("CONFIG", "SET", "maxmemory", "0")
        with pytest.raises(forebay.ResponseError, match="OOM"):
            cached(2)
        db.call("CONFIG", "SET", "maxmemory", "0")
        with pytest.raises(LookupError) as failed:
            cached(3)
        assert "posted before was refused: OOM" in failed.value.__notes__[0]


def test_maker_that_fails_leaves_the_result_to_the_next(db):
    @db.cache(ttl=100)
    def failing(value):
        if len(tries) < 1:
            tries.append(value)
            raise ValueError(value)
        return value

    tries = []
    with pytest.raises(ValueError):
        failing(3)
    assert failing(3) == 3


def test_what_is_forgotten_while_it_is_made_is_not_kept(db):
    versions = [1]

    @db.cache(ttl=100)
    def current():
        made = versions[-1]
        if made == 1:
            versions.append(2)
            current.forget()
        return made

    assert current() == 1 and current() == 2 and current() == 2


def lanes(db):
    """Returns how many lanes there are."""
    text = db.call("INFO", "shm")
    text = text if isinstance(text, str) else text.decode()
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(fields["shm_lanes"])


def test_redis_py(each):
    db, redis = each, pytest.importorskip("redis")
    client = db.redis()
    client.set("key", "value")
    assert client.get("key") == b"value" == db.get("key").bytes()
    with client.pipeline() as pipeline:
        assert pipeline.incr("n").incr("n").execute() == [1, 2]
    assert db.redis(decode_responses=True).get("key") == "value"
    with pytest.raises(redis.ResponseError):
        client.execute_command("NOSUCH")
    # More than a ring holds, both ways.
    large = os.urandom(1_000_000)
    assert client.set("large", large) and client.get("large") == large
    with client.pipeline(transaction=False) as pipeline:
        for index in range(5_000):
            pipeline.set(f"key-{index}", b"v" * 100)
        assert pipeline.execute() == [True] * 5_000
        for index in range(5_000):
            pipeline.get(f"key-{index}")
        assert pipeline.execute() == [b"v" * 100] * 5_000
    client.close()

    async def work():
        client = db.aredis()
        await client.set("key", "async")
        found = [await client.get("key")]
        found.append(await client.set("large", large) and await client.get("large") == large)
        async with client.pipeline(transaction=False) as pipeline:
            for index in range(5_000):
                pipeline.get(f"key-{index}")
            found.append(await pipeline.execute() == [b"v" * 100] * 5_000)
        # One waits while the others go on.
        waiting = asyncio.create_task(client.blpop("list", 60))
        await asyncio.gather(*(client.incr("count") for _ in range(50)))
        await client.rpush("list", "pushed")
        found += [await client.get("count"), await waiting]
        await client.aclose()
        return found

    assert asyncio.run(work()) == [b"async", True, True, b"50", (b"list", b"pushed")]


def test_lock_of_redis_py_needs_scripts(db):
    redis = pytest.importorskip("redis")
    for client in (db.redis(), db.aredis()):
        with pytest.raises(forebay.UnsupportedError, match="use db.lock"):
            client.lock("lock")
    assert "lock" not in db
    assert isinstance(db.redis(), redis.Redis)


def test_redis_py_passes_through_lanes(db):
    redis = pytest.importorskip("redis")
    before = lanes(db)
    once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    impatient = db.redis(socket_timeout=0.1, retry=once)
    # What is silent is given up, and the next call connects anew.
    with pytest.raises(redis.TimeoutError):
        impatient.execute_command("BLPOP", "list", 0)
    assert impatient.ping()
    impatient.close()
    client = db.redis()
    client.ping()
    assert lanes(db) > before
    # A wait ends with what it waits for, and with a signal.
    waiter = threading.Thread(target=lambda: db.redis().rpush("list", "late"))
    waiter.start()
    assert db.redis().blpop("list", 60) == (b"list", b"late")
    waiter.join()
    process_id = os.fork()
    if process_id == 0:
        # A child connects by itself.
        os._exit(0 if client.incr("child") == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]) == 0
    assert client.incr("child") == 2
    # Its server kills a connection.
    client_id = client.client_id()
    db.call("CLIENT", "KILL", "ID", client_id)
    assert client.incr("child") == 3 and client.client_id() != client_id
    client.close()


def test_lane_behaves_as_a_socket(db):
    lane = db._lane()
    found = []
    waiter = threading.Thread(target=lambda: found.append(lane.recv(4)))
    waiter.start()
    lane.sendall(b"PING\r\n")
    waiter.join()
    assert found == [b"+PON"] and lane.recv(100) == b"G\r\n"
    lane.settimeout(0)
    with pytest.raises(BlockingIOError):
        lane.recv(1)
    lane.settimeout(0.01)
    with pytest.raises(TimeoutError):
        lane.recv(1)
    lane.sendall(b"PING\r\n" * 2)
    buffer = bytearray(5)
    assert lane.recv_into(buffer) == 5 and buffer == b"+PONG"
    lane.sendall(b"QUIT\r\n")
    lane.settimeout(10)
    rest = b""
    while part := lane.recv(1000):
        rest += part
    assert rest == b"\r\n+PONG\r\n+OK\r\n"
    lane.close()
    assert lane.fileno() == -1
    for use in (lambda: lane.recv(1), lambda: lane.sendall(b"x")):
        with pytest.raises(OSError):
            use()


def test_what_changes_a_connection_is_refused(each):
    for words in (("HELLO", "3"), ("quit",)):
        for request in (each.call, lambda *words: each.pipeline().call(*words).execute()):
            with pytest.raises(forebay.UnsupportedError):
                request(*words)
    assert each.put("key", b"x") and each.get("key") == b"x"


def test_subscriptions_are_refused(db):
    with pytest.raises(forebay.UnsupportedError):
        db.call("SUBSCRIBE", "channel")


def test_mosec_mixin_hands_on_without_a_copy(db, monkeypatch):
    numpy = pytest.importorskip("numpy")
    mosec = pytest.importorskip("mosec")
    from forebay.mosec import ForebayShmIPCMixin

    monkeypatch.delenv("MOSEC_INTERNAL_FOREBAY_URL", raising=False)

    class Stage(ForebayShmIPCMixin, mosec.Worker):
        def forward(self, data):
            return data

    sender, receiver = object.__new__(Stage), object.__new__(Stage)
    with pytest.raises(RuntimeError):
        sender.serialize_ipc(b"")
    Stage.set_url(db.url)
    Stage.set_ttl(100)
    for data in (b"bytes", {"image": numpy.arange(100_000), "text": "t"}, None):
        reference = sender.serialize_ipc(data)
        sender._get_client().settle()
        assert len(reference) == 16 and 0 < db.ttl(reference) <= 100
        # mosec gives what came over its socket as a bytearray.
        found = receiver.deserialize_ipc(bytearray(reference))
        if isinstance(data, dict):
            assert numpy.array_equal(found["image"], data["image"])
            assert not found["image"].flags.owndata
        else:
            assert found == data
        receiver._get_client().settle()
        assert len(db) == 0
    with pytest.raises(forebay.StaleViewError):
        receiver.deserialize_ipc(bytearray(reference))


_SERVICE = """
import os, time, numpy
from mosec import Server, Worker
if os.environ["MIXIN"] == "redis":
    from mosec.mixin import RedisShmIPCMixin as Mixin
    Mixin.set_redis_url(os.environ["FOREBAY_URL"].replace("shm://", "unix://"))
else:
    from forebay.mosec import ForebayShmIPCMixin as Mixin
    Mixin.set_url(os.environ["FOREBAY_URL"])
    Mixin.set_ttl(float(os.environ["TTL"]))

class First(Mixin, Worker):
    def forward(self, data):
        return {"numbers": numpy.full(100_000, data["number"], "f8")}

class Second(Mixin, Worker):
    def forward(self, batch):
        means = [float(data["numbers"].mean()) for data in batch]
        if -1 in means:
            # It holds what it has taken, and others wait for it.
            open(os.environ["HOLDS"], "w").write(str(os.getpid()))
            time.sleep(1000)
        return [{"mean": mean, "id": os.getpid()} for mean in means]

if __name__ == "__main__":
    server = Server()
    server.append_worker(First)
    server.append_worker(Second, max_batch_size=4, max_wait_time=5)
    server.run()
"""


class Service:
    """A service of mosec whose stages hand on by `mixin` in the store `db`."""

    def __init__(self, db, folder, mixin, ttl=600):
        script = folder / "service.py"
        script.write_text(_SERVICE)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [sys.executable, script, "--port", str(self.port), "--address", "127.0.0.1"]
        self.holds = folder / "holds"
        options = {"FOREBAY_URL": db.url, "MIXIN": mixin, "TTL": str(ttl), "HOLDS": self.holds}
        environment = {**os.environ, **options}
        self.process = subprocess.Popen(
            command, env=environment, cwd=folder, start_new_session=True
        )

    def __enter__(self):
        end = time.monotonic() + 60
        while True:
            try:
                assert self.ask(1) == 1
                return self
            except OSError:
                assert time.monotonic() < end and self.process.poll() is None
                time.sleep(0.05)

    def __exit__(self, *exception):
        # The group of the service alone.
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def ask(self, number):
        body = json.dumps({"number": number}).encode()
        url = f"http://127.0.0.1:{self.port}/inference"
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
            return json.load(answer)["mean"]

    def ask_all(self, numbers):
        """Asks from a thread each; returns the threads and their answers, errors among them."""
        answers = []

        def work(number):
            try:
                answers.append(self.ask(number))
            except OSError as error:
                answers.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        return threads, answers


def until(condition, text):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, text
        time.sleep(0.01)


@pytest.mark.parametrize("mixin", ["forebay", "redis"])
def test_mosec_service_of_two_stages(db, tmp_path, mixin):
    pytest.importorskip("mosec")
    pytest.importorskip("numpy")
    with Service(db, tmp_path, mixin) as service:
        threads, answers = service.ask_all(range(12))
        for thread in threads:
            thread.join()
        assert sorted(answers) == [float(number) for number in range(12)]
        # mosec's own mixin keeps its counter there.
        left = 0 if mixin == "forebay" else 1
        until(lambda: len(db) == left, "what was handed on is taken")


def test_mosec_worker_that_is_killed_leaks_nothing(tmp_path):
    pytest.importorskip("mosec")
    pytest.importorskip("numpy")
    with forebay.open() as db:
        before = used_memory(db)
        with Service(db, tmp_path, "forebay", ttl=3) as service:
            # The second stage stops in the midst of a batch, and what else comes waits for it.
            threads, _ = service.ask_all([-1, *range(12)])
            until(service.holds.exists, "the worker has its batch")
            os.kill(int(service.holds.read_text()), signal.SIGKILL)
            until(lambda: len(db) == 0, "what nobody takes is gone after its time")
        for thread in threads:
            thread.join()
        until(lambda: used_memory(db) <= before + 100_000, "what the worker held is given back")


def used_memory(db):
    """Returns the bytes that data take."""
    text = db.call("INFO", "memory")
    text = text if isinstance(text, str) else text.decode()
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(fields["used_memory_dataset"])
