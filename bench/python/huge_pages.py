"""What putting and looking through large values costs on small pages and on huge ones.

    pip install 'clients/python[numpy]'     # both in the repository's root
    python bench/python/huge_pages.py [--rounds 3]

Two servers take turns, one with `huge-pages yes` and one with `huge-pages no`. Each is given a
value until its memory lies where it is going to, and is then timed. Printed are medians, in
milliseconds, and how many bytes of the server's memory were on huge pages.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy

import forebay

SIZES_MIB = (3, 64)
TIMED = 20
#: The server looks for memory that is full once in a second.
SETTLE_SECONDS = 3
START_SECONDS = 10


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=3)
    options = options.parse_args()
    print(f"{'huge-pages':<12}{'MiB':>5}{'put ms':>10}{'sum ms':>10}{'bytes on huge pages':>22}")
    for _ in range(options.rounds):
        for mode in ("no", "yes"):
            measure(mode)


def measure(mode):
    """Prints the rows of a server whose `huge-pages` are `mode`."""
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder, "socket")
        words = ["forebay", "serve", "--port", "0", "--unixsocket", str(socket), "--dir", folder]
        words += ["--save", "", "--maxmemory", "2gb", "--huge-pages", mode]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            await_socket(socket, server)
            with forebay.connect(f"shm://{socket}") as db:
                for mib in SIZES_MIB:
                    put, look = times(db, numpy.random.default_rng(1).random(mib << 17))
                    huge = info(db, "arena_huge_bytes")
                    print(f"{mode:<12}{mib:>5}{put:>10.3f}{look:>10.3f}{huge:>22}")
        finally:
            server.terminate()
            server.wait()


def await_socket(socket, server):
    """Waits until the server listens.

    Raises RuntimeError where it ends, or takes longer than START_SECONDS.
    """
    end = time.monotonic() + START_SECONDS
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > end:
            raise RuntimeError("the server does not start")
        time.sleep(0.05)


def times(db, array):
    """Returns the medians of putting `array` and of adding up what it holds, in milliseconds."""
    for _ in range(6):
        db.put("large", array)
    time.sleep(SETTLE_SECONDS)
    puts, looks = [], []
    for _ in range(TIMED):
        begun = time.perf_counter()
        db.put("large", array)
        puts.append(time.perf_counter() - begun)
        with db.get("large") as view:
            values = view.numpy()
            begun = time.perf_counter()
            values.sum()
            looks.append(time.perf_counter() - begun)
            del values
    return statistics.median(puts) * 1e3, statistics.median(looks) * 1e3


def info(db, name):
    """Returns the field `name` of INFO."""
    lines = db.call("INFO", "everything").decode().splitlines()
    return next(line.partition(":")[2] for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main()
