"""What people do with pymemcache, pylibmc and Django, done to the server at the port given."""

import contextlib
import sys
import threading
import uuid

import checks
import django
import django.conf
import django.core.cache
import pylibmc
import pymemcache
from pymemcache.client.hash import HashClient

PORT = int(sys.argv[1])
ADDRESS = ("127.0.0.1", PORT)
# A busy machine may take a while.
PATIENCE = {"timeout": 120, "connect_timeout": 120}


def name() -> str:
    """Returns a key that nothing else uses."""
    return f"key-{uuid.uuid4()}"


def classic() -> pymemcache.Client:
    """Returns a client that raises what the server refuses."""
    return pymemcache.Client(ADDRESS, default_noreply=False, **PATIENCE)


def check_pymemcache_items() -> None:
    with contextlib.closing(classic()) as client:
        key = name()
        assert client.get(key) is None
        assert client.set(key, b"one", flags=7) is True
        assert client.raw_command("get " + key, end_tokens="END\r\n").startswith(
            f"VALUE {key} 7 3\r\none".encode()
        )
        assert client.add(key, b"two") is False
        assert client.replace(key, b"two") is True
        assert client.append(key, b"!") is True and client.prepend(key, b"[") is True
        assert client.get(key) == b"[two!"
        value, unique = client.gets(key)
        assert value == b"[two!"
        assert client.cas(key, b"three", unique) is True
        assert client.cas(key, b"four", unique) is False
        assert client.cas(name(), b"four", unique) is None
        assert client.touch(key, 1000) is True and client.touch(name(), 1000) is False
        assert client.get(key) == b"three"
        assert client.delete(key) is True and client.delete(key) is False
        assert client.version() == b"1.6.18"


def check_pymemcache_many() -> None:
    with contextlib.closing(classic()) as client:
        values = {name(): f"value {index}".encode() for index in range(500)}
        assert client.set_many(values) == []
        assert client.get_many([*values, name()]) == values
        uniques = client.gets_many(list(values))
        assert {key: value for key, (value, _) in uniques.items()} == values
        assert client.delete_many(list(values)) is True
        assert client.get_many(list(values)) == {}
        large = bytes(range(256)) * 4000
        assert client.set("large", large) is True and client.get("large") == large
        try:
            client.set("large", b"x" * (1 << 20))
        except pymemcache.exceptions.MemcacheServerError as error:
            assert "too large" in str(error), error
        else:
            raise AssertionError("an item of more than the largest size is refused")
        assert client.get("large") is None


def check_pymemcache_numbers_and_silence() -> None:
    with contextlib.closing(pymemcache.Client(ADDRESS, **PATIENCE)) as client:
        key = name()
        client.set(key, b"41", noreply=True)
        assert client.incr(key, 1) == 42 and client.decr(key, 50) == 0
        assert client.incr(name(), 1) is None
        client.delete(key, noreply=True)
        assert client.get(key) is None
        for bad in ["a b", "x" * 251]:
            try:
                client.get(bad)
            except pymemcache.exceptions.MemcacheIllegalInputError:
                continue
            raise AssertionError(f"{bad} is no key")


def check_pymemcache_over_several_servers_with_threads() -> None:
    client = HashClient([ADDRESS], use_pooling=True, max_pool_size=8, **PATIENCE)
    counter = name()
    client.set(counter, b"0", noreply=False)
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for index in range(200):
                key = f"{counter}-{number}-{index}"
                assert client.set(key, key.encode(), noreply=False) is True
                assert client.get(key) == key.encode()
                client.incr(counter, 1)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems
    assert client.get(counter) == b"1600"
    client.quit()


def check_pymemcache_statistics() -> None:
    with contextlib.closing(classic()) as client:
        before = client.stats()
        key = name()
        client.set(key, b"v")
        client.get_many([key, name(), name()])
        after = client.stats()
        for field, more in [(b"get_hits", 1), (b"get_misses", 2), (b"cmd_get", 3), (b"cmd_set", 1)]:
            assert after[field] - before[field] == more, field
        assert client.stats("settings")[b"tcpport"] == PORT


def check_pylibmc() -> None:
    client = pylibmc.Client([f"127.0.0.1:{PORT}"], behaviors={"cas": True, "tcp_nodelay": True})
    key = name()
    assert client.get(key) is None
    value = {"numbers": [1, 2.5], "text": "gr\u00f6\u00dfer", "bytes": b"\0\r\n"}
    assert client.set(key, value, time=1000) and client.get(key) == value
    assert not client.add(key, 1) and client.replace(key, 41)
    assert client.incr(key) == 42 and client.decr(key, 2) == 40
    found, unique = client.gets(key)
    assert found == 40 and client.cas(key, "new", unique) and client.get(key) == "new"
    values = {name(): index for index in range(300)}
    assert client.set_multi(values) == [] and client.get_multi(list(values)) == values
    assert client.delete_multi(list(values)) and client.get_multi(list(values)) == {}
    # What it compresses is another flag to the server.
    assert client.set(key, "x" * 500_000, min_compress_len=1000)
    assert client.get(key) == "x" * 500_000
    assert client.touch(key, 1000) and client.delete(key) and not client.delete(key)
    client.disconnect_all()


def check_pylibmc_binary_protocol_is_refused() -> None:
    client = pylibmc.Client([f"127.0.0.1:{PORT}"], binary=True)
    try:
        client.set(name(), "v")
    except pylibmc.Error:
        return
    raise AssertionError("the binary protocol is refused")


def check_django_caches() -> None:
    backends = {
        backend: {
            "BACKEND": f"django.core.cache.backends.memcached.{backend}",
            "LOCATION": f"127.0.0.1:{PORT}",
            "KEY_PREFIX": backend,
        }
        for backend in ("PyMemcacheCache", "PyLibMCCache")
    }
    django.conf.settings.configure(CACHES={"default": backends["PyMemcacheCache"], **backends})
    django.setup()
    for backend in backends:
        cache = django.core.cache.caches[backend]
        key = name()
        assert cache.get(key, "none") == "none"
        cache.set(key, {"a": [1, None]}, timeout=1000)
        assert cache.get(key) == {"a": [1, None]} and key in cache
        assert not cache.add(key, 1) and cache.add(key, 1, version=2)
        assert cache.incr(key, 4, version=2) == 5
        assert cache.touch(key, 2000) and not cache.touch(name(), 2000)
        assert cache.get_or_set(key + "-made", lambda: "made") == "made"
        values = {name(): index for index in range(100)}
        assert cache.set_many(values) == [] and cache.get_many(values) == values
        cache.delete_many(values)
        assert cache.get_many(values) == {}
        cache.set(key, None, timeout=None)
        assert cache.get(key, "none") is None
        cache.set(key, "gone", timeout=0)
        assert cache.get(key) is None
        assert not cache.delete(key)
        cache.close()


if __name__ == "__main__":
    sys.exit(checks.run(globals()))
