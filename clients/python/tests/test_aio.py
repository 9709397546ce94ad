"""The store for asyncio."""

import asyncio
import datetime
import os

import forebay
import forebay.aio
import pytest


def run(db, work):
    """Runs `work` with a store for tasks."""

    async def main():
        async with await forebay.aio.connect(db.url) as store:
            return await work(store)

    return asyncio.run(main())


def test_operations_are_awaited(db):
    async def work(store):
        assert await store.put("key", b"value", ttl=100)
        assert (await store.get("key")).bytes() == b"value"
        assert [view.bytes() for view in await store.mget(["key", "key"])] == [b"value"] * 2
        assert await store.hset("hash", {"a": 1}) == 1
        assert await store.hgetall("hash") == {b"a": b"1"}
        assert await store.call("STRLEN", "key") == 5 and 90 < await store.ttl("key") <= 100
        key = await store.put_auto([1, 2])
        assert (await store.take(key)).load() == [1, 2] and await store.take(key) is None
        with store.create("made", 100_000) as creation:
            creation[:2] = b"ab"
        assert (await store.get("made"))._stored_bytes == 100_000
        with pytest.raises(forebay.WrongTypeError):
            await store.get("hash")
        assert not store.closed
        return store

    assert run(db, work).closed
    assert db.exists("key")


def test_tasks_wait_for_values_while_others_run(db):
    async def work(store):
        waiting = [asyncio.create_task(store.take(f"key-{index}", None)) for index in range(20)]
        await asyncio.sleep(0)
        for index in range(20):
            await store.put(f"key-{index}", b"%d" % index)
        return [view.bytes() for view in await asyncio.gather(*waiting)]

    assert run(db, work) == [b"%d" % index for index in range(20)]
    assert len(db) == 0


def test_wait_ends_by_its_timeout_and_by_cancelling(db):
    async def work(store):
        assert await store.take("key", 0.01) is None
        assert await store.get_blocking("key", 0.01) is None
        assert await store.get_blocking("key", datetime.timedelta(milliseconds=10)) is None
        task = asyncio.create_task(store.take("key", None))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.put("key", b"x")
        return (await store.take("key", None)).bytes()

    assert run(db, work) == b"x"


def test_lock_of_tasks(db):
    async def work(store):
        inside, most = 0, 0

        async def hold():
            nonlocal inside, most
            async with store.lock("lock"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.001)
                inside -= 1

        await asyncio.gather(*(hold() for _ in range(10)))
        async with store.lock("lock"):
            with pytest.raises(forebay.LockError):
                async with store.lock("lock", timeout=0.01):
                    pass
        return most

    assert run(db, work) == 1


def test_of_many_tasks_that_miss_a_result_one_makes_it(db):
    async def work(store):
        calls = []

        @store.cache(ttl=100)
        async def made(value):
            """Makes."""
            calls.append(value)
            await asyncio.sleep(0.01)
            if len(calls) == 1:
                raise ValueError(value)
            return [value]

        found = await asyncio.gather(*(made(7) for _ in range(20)), return_exceptions=True)
        assert [str(result) for result in found if isinstance(result, ValueError)] == ["7"]
        assert found.count([7]) == 19 and calls == [7, 7], "who comes next makes it"
        assert await made(7) == [7] and len(calls) == 2 and made.__doc__ == "Makes."
        assert await made.forget(7) and not await made.forget(7)
        assert await made(7) == await made.refresh(7) == [7] and len(calls) == 4

    run(db, work)


def test_server_that_ends_is_told():
    async def work():
        store = await forebay.aio.open()
        other = await forebay.aio.connect(store.url)
        task = asyncio.create_task(other.take("key", None))
        await asyncio.sleep(0.05)
        await store.close()
        with pytest.raises(forebay.ConnectionError):
            await task
        await other.close()

    asyncio.run(work())


def test_tcp_is_refused():
    with pytest.raises(forebay.ConnectionError):
        asyncio.run(forebay.aio.connect("redis://127.0.0.1:1"))
    with forebay.open() as db:
        folder = os.path.dirname(db.url.removeprefix("shm://"))
        assert os.stat(folder).st_mode & 0o77 == 0, "nobody else joins"
