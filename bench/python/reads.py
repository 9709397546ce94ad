"""What one read costs as Python sees it, with the server in a process of its own.

    pip install 'clients/python[numpy,redis]'     # both in the repository's root
    python bench/python/reads.py [--rounds 15]

The reads are timed in turn, round by round, so that what slows the machine slows all of them. Each
time is the mean of as many calls as take about 20 ms; printed are the least, the median and the
greatest of the rounds, in nanoseconds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import timeit

import forebay

SERVER = "import forebay, sys; print(forebay.open().url, flush=True); sys.stdin.read()"


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--json", action="store_true", help="print a line of JSON only")
    options = options.parse_args()
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        with forebay.connect(server.stdout.readline().strip()) as db:
            times = measured(reads(db), options.rounds)
    finally:
        server.stdin.close()
        server.wait()
    if options.json:
        print(json.dumps(times))
        return
    print(f"{'ns':<36}{'min':>10}{'median':>10}{'max':>10}")
    for name, found in times.items():
        print(f"{name:<36}{min(found):>10.0f}{statistics.median(found):>10.0f}{max(found):>10.0f}")


def reads(db):
    """Returns what is timed, by its name."""
    fields = [f"field-{index}" for index in range(10)]
    db.put("small", bytes(64))
    db.put("large", bytes(1 << 20))
    db.hset("hash", {field: "value" for field in fields})
    target = bytearray(64)
    found = {
        "get, 64 B": lambda: db.get("small"),
        "get().bytes(), 64 B": lambda: db.get("small").bytes(),
        "get_into, 64 B": lambda: db.get_into("small", target),
        "get of a view, 1 MiB": lambda: db.get("large"),
        "hget": lambda: db.hget("hash", "field-3"),
        "hmget of 10 fields": lambda: db.hmget("hash", fields),
        "exists": lambda: db.exists("small"),
        "put, 64 B": lambda value=bytes(64): db.put("put", value),
    }
    try:
        redis = db.redis()
        redis.ping()
    except ImportError:
        return found
    found["redis-py get, 64 B, unix socket"] = lambda: redis.get("small")
    found["redis-py get, 1 MiB, unix socket"] = lambda: redis.get("large")
    found["redis-py hmget of 10 fields"] = lambda: redis.hmget("hash", fields)
    return found


def measured(calls, rounds):
    """Returns the times of `calls` in nanoseconds, one for each round."""
    timers = {name: timeit.Timer(call) for name, call in calls.items()}
    counts = {}
    for name, timer in timers.items():
        count, seconds = timer.autorange()
        counts[name] = max(1, int(count * 0.02 / seconds))
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, timer in timers.items():
            times[name].append(1e9 * timer.timeit(counts[name]) / counts[name])
    return times


if __name__ == "__main__":
    main()
