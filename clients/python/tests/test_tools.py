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


def test_stale_result_is_returned_while_one_makes_a_new_one(db):
    results = iter(range(10))

    @db.cache(ttl=0.0001, stale=100)
    def number():
        return next(results)

    assert number() == 0
    key = number.key_of()
    assert db.put(f"{key}:maker", b"", nx=True), "nobody makes one"
    assert number() == 0 and number() == 0
    db.delete(f"{key}:maker")
    assert number() == 1


def test_redis_py(db):
    redis = pytest.importorskip("redis")
    client = db.redis()
    client.set("key", "value")
    assert client.get("key") == b"value" == db.get("key").bytes()
    with client.pipeline() as pipeline:
        assert pipeline.incr("n").incr("n").execute() == [1, 2]
    assert db.redis(decode_responses=True).get("key") == "value"
    with pytest.raises(redis.ResponseError):
        client.execute_command("NOSUCH")
    client.close()

    async def work():
        client = db.aredis()
        await client.set("key", "async")
        found = await client.get("key")
        await client.aclose()
        return found

    assert asyncio.run(work()) == b"async"


def test_subscriptions_are_refused(db):
    with pytest.raises(forebay.UnsupportedError):
        db.subscribe("channel")


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
import os, numpy
from forebay.mosec import ForebayShmIPCMixin
from mosec import Server, Worker

class First(ForebayShmIPCMixin, Worker):
    def forward(self, data):
        return {"numbers": numpy.full(100_000, data["number"], "f8")}

class Second(ForebayShmIPCMixin, Worker):
    def forward(self, batch):
        means = [float(data["numbers"].mean()) for data in batch]
        return [{"mean": mean, "id": os.getpid()} for mean in means]

if __name__ == "__main__":
    ForebayShmIPCMixin.set_url(os.environ["FOREBAY_URL"])
    server = Server()
    server.append_worker(First)
    server.append_worker(Second, max_batch_size=4, max_wait_time=5)
    server.run()
"""


def test_mosec_service_of_two_stages(db, tmp_path):
    pytest.importorskip("mosec")
    pytest.importorskip("numpy")
    script = tmp_path / "service.py"
    script.write_text(_SERVICE)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, script, "--port", str(port), "--address", "127.0.0.1"]
    environment = {**os.environ, "FOREBAY_URL": db.url}
    service = subprocess.Popen(command, env=environment, cwd=tmp_path, start_new_session=True)

    def ask(number):
        body = json.dumps({"number": number}).encode()
        url = f"http://127.0.0.1:{port}/inference"
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
            return json.load(answer)["mean"]

    try:
        end = time.monotonic() + 60
        while True:
            try:
                assert ask(1) == 1
                break
            except OSError:
                assert time.monotonic() < end and service.poll() is None
                time.sleep(0.05)
        answers = []
        threads = [
            threading.Thread(target=lambda number=number: answers.append(ask(number)))
            for number in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [float(number) for number in range(12)]
        end = time.monotonic() + 60
        while len(db):
            assert time.monotonic() < end, "what was handed on is taken"
            time.sleep(0.01)
    finally:
        # The group of the service alone.
        os.killpg(service.pid, signal.SIGTERM)
        try:
            service.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(service.pid, signal.SIGKILL)
            service.wait()
