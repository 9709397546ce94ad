"""What people do with redis-py, done to the server at the port and the socket given.

The words after them are the command that starts one more server.
"""

import asyncio
import os
import socket
import subprocess
import sys
import threading

import checks
import redis
import redis.asyncio
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry

PORT = int(sys.argv[1])
SOCKET = sys.argv[2]
SERVER = sys.argv[3:]
MEBIBYTE = 1024 * 1024

# redis-py repeats a command whose reply takes 5 seconds, and a busy machine may take them.
PATIENCE = {"socket_timeout": 120, "socket_connect_timeout": 120}


def tcp(**options) -> redis.Redis:
    """Returns a client over TCP."""
    return redis.Redis(port=PORT, **PATIENCE, **options)


def unix(**options) -> redis.Redis:
    """Returns a client over the unix socket."""
    return redis.Redis(unix_socket_path=SOCKET, **PATIENCE, **options)


def clients() -> list[redis.Redis]:
    """Returns a client of each transport and protocol."""
    return [connect(protocol=protocol) for connect in (tcp, unix) for protocol in (2, 3)]


def refused(call, text: str) -> None:
    """Asserts that `call` raises an error reply that contains `text`."""
    try:
        call()
    except redis.ResponseError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no error; expected {text}")


def check_strings() -> None:
    for client in clients():
        client.flushall()
        assert client.ping()
        assert client.set("k", "v") is True
        assert client.get("k") == b"v"
        assert client.get("absent") is None
        assert client.set("k", "w", nx=True) is None
        assert client.set("k", "w", xx=True, get=True) == b"v"
        assert client.mset({"a": 1, "b": 2}) is True
        assert client.mget("a", "absent", "b") == [b"1", None, b"2"]
        assert client.msetnx({"a": 9, "c": 9}) is False
        assert client.incr("n") == 1 and client.incrby("n", 9) == 10
        assert client.decr("n") == 9
        assert client.incrbyfloat("n", 0.5) == 9.5
        assert client.append("k", "xyz") == 4
        assert client.getrange("k", 1, 2) == b"xy"
        assert client.setrange("k", 6, "!") == 7
        assert client.get("k") == b"wxyz\0\0!"
        assert client.strlen("k") == 7
        assert client.getset("k", "1") == b"wxyz\0\0!"
        assert client.getdel("k") == b"1" and client.exists("k") == 0
        assert client.setnx("k", "1") is True and client.setnx("k", "2") is False
        assert client.getex("k", ex=1000) == b"1"
        assert 990 < client.ttl("k") <= 1000
        assert client.execute_command("SETEX", "k", 1000, "v")
        assert client.execute_command("PSETEX", "k", 10**6, "v")
        client.close()


def check_bits() -> None:
    for client in clients():
        client.flushall()
        assert client.setbit("bits", 7, 1) == 0 and client.getbit("bits", 7) == 1
        client.set("other", b"\xff\x00\x0f")
        assert client.bitcount("other") == 12
        assert client.bitcount("other", 4, 19, "BIT") == 4
        assert client.bitpos("other", 0) == 8 and client.bitpos("other", 1, 1) == 20
        assert client.bitop("XOR", "target", "bits", "other") == 3
        assert client.get("target") == b"\xfe\x00\x0f"
        assert client.bitop("NOT", "target", "target") == 3
        assert client.get("target") == b"\x01\xff\xf0"
        fields = client.bitfield("fields", default_overflow="SAT")
        replies = fields.set("u8", 0, 250).incrby("u8", 0, 10).get("i4", "#1").execute()
        assert replies == [0, 255, -1], replies
        client.mset({"one": "ohmytext", "two": "mynewtext"})
        assert client.lcs("one", "two") == b"mytext"
        assert client.lcs("one", "two", len=True) == 6
        client.close()


def check_keys() -> None:
    for client in clients():
        client.flushall()
        client.mset({f"key:{index}": index for index in range(500)})
        assert client.dbsize() == 500
        assert client.exists("key:1", "key:1", "no") == 2
        assert client.delete("key:1", "no") == 1 and client.unlink("key:2") == 1
        assert client.type("key:3") == b"string"
        assert client.expire("key:3", 1000) and not client.expire("no", 1000)
        assert client.expire("key:3", 500, gt=True) is False
        assert client.expireat("key:3", 4_000_000_000)
        assert client.expiretime("key:3") == 4_000_000_000
        assert client.pexpiretime("key:3") == 4_000_000_000_000
        assert client.persist("key:3") and client.ttl("key:3") == -1
        assert sorted(client.keys("key:49?")) == [b"key:49%d" % index for index in range(10)]
        found = set(client.scan_iter(match="key:*", count=7))
        assert len(found) == 498, len(found)
        assert set(client.scan_iter(_type="hash")) == set()
        assert client.randomkey() in found
        client.swapdb(0, 3)
        assert client.dbsize() == 0
        client.swapdb(0, 3)
        assert client.flushdb() and client.dbsize() == 0
        client.close()


def check_databases() -> None:
    first, second = tcp(db=0), tcp(db=9)
    first.flushall()
    first.set("k", "in 0")
    assert second.get("k") is None
    second.set("k", "in 9")
    assert first.get("k") == b"in 0"
    refused(lambda: tcp(db=16).get("k"), "DB index is out of range")


def check_decoding() -> None:
    for protocol in (2, 3):
        client = tcp(protocol=protocol, decode_responses=True)
        client.flushall()
        client.set("schl\u00fcssel", "w\u00e4hrung \u20ac")
        assert client.get("schl\u00fcssel") == "w\u00e4hrung \u20ac"
        assert client.keys() == ["schl\u00fcssel"]
        assert client.config_get("maxmemory") == {"maxmemory": "0"}


def check_binary() -> None:
    every_byte = bytes(range(256))
    for client in clients():
        client.flushall()
        for size in (0, 1, 43, 44, 45, 250, 4000, 4096, 5000, 70_000):
            key = every_byte + os.urandom(8)
            value = os.urandom(size)
            assert client.set(key, value) and client.get(key) == value, size
        assert client.set(b"", b"\r\n$-1\r\n") and client.get(b"") == b"\r\n$-1\r\n"


def check_large_values() -> None:
    large = os.urandom(MEBIBYTE) * 64
    for client in (tcp(), unix(protocol=3)):
        client.flushall()
        client.set("large", large)
        assert client.strlen("large") == len(large)
        assert client.get("large") == large
        assert client.getrange("large", 10 * MEBIBYTE, 10 * MEBIBYTE + 99) == large[:100]
        assert client.append("large", b"end") == len(large) + 3
        assert client.getrange("large", -3, -1) == b"end"
        client.flushall()


def check_pipelines() -> None:
    for client in clients():
        for transaction in (True, False):
            client.flushall()
            with client.pipeline(transaction=transaction) as pipe:
                for index in range(1000):
                    pipe.set(f"k{index}", index)
                    pipe.get(f"k{index}")
                replies = pipe.execute()
            assert replies[0::2] == [True] * 1000
            assert replies[1::2] == [b"%d" % index for index in range(1000)]
            with client.pipeline(transaction=transaction) as pipe:
                pipe.set("word", "abc").incr("word").set("after", 1)
                replies = pipe.execute(raise_on_error=False)
            assert replies[0] is True and replies[2] is True
            assert isinstance(replies[1], redis.ResponseError), replies[1]
            assert client.get("after") == b"1"


def check_errors() -> None:
    for client in clients():
        client.flushall()
        client.set("word", "abc")
        refused(lambda: client.incr("word"), "value is not an integer or out of range")
        refused(lambda: client.execute_command("NOSUCH", "x"), "unknown command 'NOSUCH'")
        refused(lambda: client.execute_command("GET"), "wrong number of arguments for 'get'")
        refused(lambda: client.set("k", "v", ex=-1), "invalid expire time in 'set' command")
        refused(lambda: client.config_set("no-such-option", 1), "no-such-option")
        assert client.ping(), "a connection survives the errors"


def check_watch() -> None:
    for client in clients():
        client.flushall()
        with client.pipeline() as pipe:
            pipe.watch("k")
            client.set("k", "other")
            pipe.multi()
            pipe.set("k", "mine")
            try:
                pipe.execute()
            except redis.WatchError:
                pass
            else:
                raise AssertionError("the change was not seen")
        assert client.get("k") == b"other"


def check_scans_while_keys_come_and_go() -> None:
    client = tcp(decode_responses=True)
    client.flushall()
    stable = {f"stable:{index}" for index in range(300)}
    client.mset(dict.fromkeys(stable, "v"))
    done = threading.Event()

    def churn() -> None:
        own = tcp()
        while not done.is_set():
            names = [f"passing:{index}" for index in range(500)]
            own.mset(dict.fromkeys(names, "v"))
            own.delete(*names)

    def scan() -> None:
        try:
            for _ in range(5):
                found = set(client.scan_iter(match="stable:*", count=20, _type="string"))
                assert found == stable, stable - found
        finally:
            done.set()

    run_together([churn, scan])


def check_urls() -> None:
    client = redis.from_url(f"redis://localhost:{PORT}/3?protocol=3&decode_responses=True")
    client.flushall()
    assert client.set("k", "v") and client.get("k") == "v"
    other = redis.from_url(f"unix://{SOCKET}?db=3", protocol=2)
    assert other.get("k") == b"v"
    assert tcp().get("k") is None


def check_library_is_named() -> None:
    """redis-py names itself by CLIENT SETINFO, which Redis has since 7.2."""
    for client in clients():
        version = tuple(int(part) for part in client.info()["redis_version"].split("."))
        if version >= (7, 2):
            described = client.client_info()
            assert described["lib-name"] == "redis-py", described
            assert described["lib-ver"] == redis.__version__, described
            assert str(described["resp"]) == str(client.get_connection_kwargs()["protocol"])


def check_locks() -> None:
    """A lock is taken by SET NX PX; giving it back takes a script."""
    client = tcp()
    client.flushall()
    lock = client.lock("lock", timeout=1000, blocking=False)
    assert lock.acquire() and lock.locked() and lock.owned()
    assert 990_000 < client.pttl("lock") <= 1_000_000
    assert not client.lock("lock", blocking=False).acquire()
    try:
        lock.release()
    except redis.ResponseError as error:
        assert "unknown command 'EVALSHA'" in str(error), error
    else:
        assert not client.lock("lock").locked()
    assert client.ping()


def check_watch_loops_lose_no_increment() -> None:
    client = tcp()
    client.flushall()

    def increment() -> None:
        own = tcp()
        for _ in range(50):
            own.transaction(
                lambda pipe: (
                    value := int(pipe.get("n") or 0),
                    pipe.multi(),
                    pipe.set("n", value + 1),
                ),
                "n",
            )

    run_in_threads(increment, 4)
    assert client.get("n") == b"200", client.get("n")


def check_pool_with_threads() -> None:
    pool = redis.BlockingConnectionPool(
        port=PORT, max_connections=5, timeout=120, **PATIENCE
    )
    client = redis.Redis(connection_pool=pool)
    client.flushall()

    def work() -> None:
        for index in range(200):
            client.incr("n")
            with client.pipeline(transaction=index % 2 == 0) as pipe:
                pipe.incr("m").incr("m")
                pipe.execute()

    run_in_threads(work, 12)
    assert client.get("n") == b"2400" and client.get("m") == b"4800"
    pool.disconnect()


def run_in_threads(work, count: int) -> None:
    """Runs `work` in `count` threads and raises what one of them raised."""
    run_together([work] * count)


def run_together(works: list) -> None:
    """Runs each of `works` in a thread of its own and raises what one of them raised."""
    errors: list[BaseException] = []

    def guarded(work) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def check_names_and_information() -> None:
    for client in clients():
        client.client_setname("checker")
        assert client.client_getname() in (b"checker", "checker")
        listed = client.client_list()
        assert any(entry["name"] == "checker" for entry in listed), listed
        assert client.client_info()["name"] == "checker"
        assert client.client_id() > 0
        information = client.info()
        assert information["redis_mode"] == "standalone", information
        assert information["connected_clients"] >= 1
        client.flushall()
        client.set("k", "v", ex=1000)
        assert client.info("keyspace")["db0"]["expires"] == 1
        assert client.config_get("maxmemory*")["maxmemory-policy"] == "noeviction"
        assert client.config_set("maxmemory-policy", "allkeys-lru") is True
        assert client.config_set("maxmemory-policy", "noeviction") is True
        assert client.command_count() > 40
        assert client.command_getkeys("MSET", "a", 1, "b", 2) in ([b"a", b"b"], ["a", "b"])
        assert client.command()["get"]["arity"] == 2
        assert client.memory_usage("k") > 0
        assert client.object("encoding", "k") in (b"embstr", "embstr")
        client.client_setname("")


def check_health_and_reconnection() -> None:
    client = tcp(health_check_interval=1, single_connection_client=True)
    assert client.ping()
    client.connection.disconnect()
    assert client.ping()


def check_clients_outlive_a_restart() -> None:
    """Whoever retries notices nothing but that the data are gone; others see one error."""
    server = OwnServer()
    patience = Retry(ConstantBackoff(0.05), 200)
    errors = [redis.ConnectionError]
    patient = redis.Redis(port=server.port, retry=patience, retry_on_error=errors)
    plain = redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0))
    pipe = patient.pipeline(transaction=False)
    try:
        assert patient.set("k", "v") and plain.get("k") == b"v"
        server.restart()
        assert patient.get("k") is None
        try:
            plain.get("k")
        except redis.ConnectionError:
            pass
        assert plain.set("k", "new"), "the second call has a connection of its own"
        server.restart()
        assert pipe.set("k", 1).incr("k").execute() == [True, 2]
        server.restart()
        with patient.pipeline() as watching:
            watching.watch("k")
            watching.multi()
            watching.set("k", "mine")
            assert watching.execute() == [True]
    finally:
        server.stop()


class OwnServer:
    """A server that this program starts and stops: on one port, without persistence."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        options = ["--port", str(self.port), "--save", "", "--bind", "127.0.0.1"]
        self.process = subprocess.Popen([*SERVER, *options], stdout=subprocess.DEVNULL)
        with redis.Redis(port=self.port, retry=Retry(ConstantBackoff(0.05), 400)) as client:
            client.ping()

    def restart(self) -> None:
        """Ends the server as a system does, and starts another one."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Ends the server."""
        self.process.terminate()
        self.process.wait()


async def check_asyncio_watch_loops() -> None:
    """Tasks that share a pool lose no increment, and no more connections than it has are open."""
    for protocol in (2, 3):
        pool = redis.asyncio.BlockingConnectionPool(
            port=PORT, protocol=protocol, max_connections=4, timeout=120
        )
        async with redis.asyncio.Redis(connection_pool=pool) as client:
            await client.flushall()

            async def increment(client=client) -> None:
                for _ in range(10):
                    async with client.pipeline(transaction=True) as pipe:
                        while True:
                            try:
                                await pipe.watch("n")
                                value = int(await pipe.get("n") or 0)
                                pipe.multi()
                                await pipe.set("n", value + 1).execute()
                                break
                            except redis.WatchError:
                                continue

            await asyncio.gather(*(increment() for _ in range(8)))
            assert await client.get("n") == b"80"
        await pool.aclose()


async def check_asyncio() -> None:
    for address in ({"port": PORT}, {"unix_socket_path": SOCKET}):
        for protocol in (2, 3):
            async with redis.asyncio.Redis(protocol=protocol, **address, **PATIENCE) as client:
                await client.flushall()
                await asyncio.gather(*(client.set(f"k{index}", index) for index in range(100)))
                assert await client.get("k42") == b"42"
                async with client.pipeline(transaction=True) as pipe:
                    replies = await pipe.incr("n").incr("n").execute()
                assert replies == [1, 2]
                found = [key async for key in client.scan_iter(match="k*", count=10)]
                assert len(set(found)) == 100


if __name__ == "__main__":
    sys.exit(checks.run(globals()))
