"""What it costs to hand objects on by a store: K values are put, fetched by their ids, and deleted.

    pip install 'clients/python[numpy,redis]' matplotlib     # in the repository
    forebay bench objects --plasma /path/to/python3.10 --json out.json --picture out.png

NumPy is needed. `--plasma` names an interpreter whose environment has pyarrow 11, the last that has
Plasma, and NumPy 1. `redis-server` and the program `forebay` are looked for on the PATH, `forebay`
also beside the interpreter. What is not there is left out, and named.

The rows:

    floor             pickle, one copy into warm shared memory, unpickle from there: no store
    shared_memory     multiprocessing.shared_memory, one segment for each value
    plasma_store      a Plasma store: put, get, delete of the pickle
    redis_*           redis-server by redis-py: unix socket or TCP; ids by INCR. One request after
                      the other; `_pipe`: K ids in one pipeline, then K sets, gets and deletes in
                      one each; `_pipe2`: each set with the next id, each get with its delete
    forebay_unix      put_auto and take of the pickle over the unix socket
    forebay_shm       the same through shared memory
    forebay_view      put_auto and take of the value itself: arrays are views
    forebay_embedded  as forebay_shm, with the server in the process

Each row has a process of its own, and all servers but the embedded one have theirs. The rows are
timed in turn, round by round, and all keep the memory that they have freed (`WARM`). In the form of
two processes a producer puts one value at a time and writes its id to a pipe; the time is from
before the put until the consumer has the value, by the clock that both share. There, the floor is
the pickle itself in the pipe, and `memcpy` one copy of the array's bytes in one process.

Printed are microseconds for a whole cycle of K values.
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import mmap
import os
import pickle
import shlex
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy

SIZES = (1, 1024, 65_536, 3_145_728)
BATCHES = (1, 10)
FLOOR_BYTES = 320 << 20
REDIS = [f"redis_{way}{how}" for way in ("unix", "tcp") for how in ("", "_pipe", "_pipe2")]
FOREBAY = ["forebay_unix", "forebay_shm", "forebay_view", "forebay_embedded"]
# Memory that a row has freed is used again, and not given back to the system and zeroed anew each
# time: else 65,536 elements take 50 or 350 us in any row, as its heap happens to lie.
WARM = {"MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
ROWS = ["floor", "shared_memory", "plasma_store", *REDIS, *FOREBAY]


def values():
    """Returns what is stored, by name."""
    found = {f"array {size}": numpy.random.default_rng(size).random(size) for size in SIZES}
    rng = numpy.random.default_rng(1)
    for name, text, vector in (("record 1", 1_000, 128), ("record 2", 100_000, 4096)):
        found[name] = {
            "text": "forebay " * (text // 8),
            "vector": rng.random(vector),
            "matrix": rng.random((64, 1024)),
        }
    return found


def dumped(value):
    return pickle.dumps(value, protocol=5)


# The methods. Each has `cycle(values)`, and for two processes `put(value)`, which returns an id of
# bytes, and `take(id)`, which returns the value and deletes it.


class Floor:
    """One copy into memory that has been written before."""

    def __init__(self, _):
        self.memory = mmap.mmap(-1, FLOOR_BYTES)
        self.memory.write(bytes(FLOOR_BYTES))

    def cycle(self, values):
        memory, end, places = memoryview(self.memory), 0, []
        for value in values:
            stream = dumped(value)
            start, end = end, end + len(stream)
            memory[start:end] = stream
            places.append((start, end))
        return [pickle.loads(memory[start:end]) for start, end in places]


class SharedMemory:
    def __init__(self, _):
        from multiprocessing import shared_memory

        self.make = shared_memory.SharedMemory

    def put(self, value):
        stream = dumped(value)
        segment = self.make(create=True, size=len(stream))
        segment.buf[: len(stream)] = stream
        segment.close()
        return segment.name.encode()

    def take(self, name):
        segment = self.make(name.decode())
        value = pickle.loads(segment.buf)
        segment.close()
        segment.unlink()
        return value

    def cycle(self, values):
        return [self.take(name) for name in [self.put(value) for value in values]]


class Plasma:
    def __init__(self, address):
        from pyarrow import plasma

        self.id = plasma.ObjectID
        self.client = plasma.connect(address)

    def put(self, value):
        return self.client.put(dumped(value)).binary()

    def take(self, name):
        value = pickle.loads(self.client.get(self.id(name)))
        self.client.delete([self.id(name)])
        return value

    def cycle(self, values):
        names = [self.client.put(dumped(value)) for value in values]
        found = [pickle.loads(stream) for stream in self.client.get(names)]
        self.client.delete(names)
        return found


class Redis:
    def __init__(self, address):
        import redis

        way = {"unix_socket_path": address} if address.startswith("/") else {"port": int(address)}
        self.client = redis.Redis(**way)
        self.client.ping()

    def put(self, value):
        name = b"%d" % self.client.incr("id")
        self.client.set(name, dumped(value))
        return name

    def take(self, name):
        stream = self.client.get(name)
        self.client.delete(name)
        return pickle.loads(stream)

    def cycle(self, values):
        names = [self.put(value) for value in values]
        found = [pickle.loads(self.client.get(name)) for name in names]
        for name in names:
            self.client.delete(name)
        return found


class RedisPipe(Redis):
    def cycle(self, values):
        with self.client.pipeline() as pipeline:
            for _ in values:
                pipeline.incr("id")
            names = pipeline.execute()
            for name, value in zip(names, values):
                pipeline.set(name, dumped(value))
            pipeline.execute()
            for name in names:
                pipeline.get(name)
            found = [pickle.loads(stream) for stream in pipeline.execute()]
            for name in names:
                pipeline.delete(name)
            pipeline.execute()
        return found

    def put(self, value):
        return RedisPipe2.put(self, value)

    def take(self, name):
        return RedisPipe2.take(self, name)


class RedisPipe2(Redis):
    def __init__(self, address):
        super().__init__(address)
        self.next = self.client.incr("id")

    def put(self, value):
        name = b"%d" % self.next
        with self.client.pipeline() as pipeline:
            self.next = pipeline.set(name, dumped(value)).incr("id").execute()[1]
        return name

    def take(self, name):
        with self.client.pipeline() as pipeline:
            return pickle.loads(pipeline.get(name).delete(name).execute()[0])

    def cycle(self, values):
        return [self.take(name) for name in [self.put(value) for value in values]]


class Forebay:
    def __init__(self, address):
        import forebay

        self.db = forebay.connect(address)

    def put(self, value):
        return self.db.put_auto(dumped(value))

    def take(self, name):
        return pickle.loads(self.db.take(name, 10))

    def cycle(self, values):
        return [self.take(name) for name in [self.put(value) for value in values]]


class ForebayView(Forebay):
    def put(self, value):
        return self.db.put_auto(value)

    def take(self, name):
        return self.db.take(name, 10).load()


class ForebayEmbedded(Forebay):
    def __init__(self, _):
        import forebay

        self.db = forebay.open()


METHODS = {
    "floor": Floor,
    "shared_memory": SharedMemory,
    "plasma_store": Plasma,
    "forebay_unix": Forebay,
    "forebay_shm": Forebay,
    "forebay_view": ForebayView,
    "forebay_embedded": ForebayEmbedded,
} | {name: (Redis, RedisPipe, RedisPipe2)[index % 3] for index, name in enumerate(REDIS)}


# The process of a row: it is told in lines of JSON what to run.


def work(name, address):
    method, stored = METHODS[name](address), values()
    check(method, stored)
    print("ready", flush=True)
    for line in sys.stdin:
        case, batch, count = json.loads(line)
        # Cycles over the same few objects: making them is not part of the time.
        print(json.dumps(timed(method, [stored[case]] * batch, count)), flush=True)


def check(method, stored):
    """Fails where a method does not return what was put."""
    for value in stored.values():
        for found in method.cycle([value, value]):
            if isinstance(value, dict):
                assert found["text"] == value["text"]
                assert numpy.array_equal(found["matrix"], value["matrix"])
            else:
                assert numpy.array_equal(found, value)


def timed(method, batch, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        found = method.cycle(batch)
        times.append(time.perf_counter_ns() - begin)
        del found
    return times


def memcpy(case, count):
    """Returns times of one copy of the bytes of the array `case` into warm memory."""
    source = values()[case]
    target, times = numpy.ones_like(source), []
    for _ in range(count):
        begin = time.perf_counter_ns()
        numpy.copyto(target, source)
        times.append(time.perf_counter_ns() - begin)
    return times


# Two processes.


def hand_over(name, address):
    """As `work`, for a producer whose consumer is a process that it starts itself."""
    ids, answers = os.pipe(), os.pipe()
    ends = (ids[0], answers[1])
    command = [sys.executable, __file__, "--consumer", name, address, *map(str, ends)]
    consumer = subprocess.Popen(command, pass_fds=ends)
    os.close(ids[0])
    os.close(answers[1])
    method = METHODS[name](address) if name != "floor" else None
    stored = values()
    answer(answers[0])
    print("ready", flush=True)
    for line in sys.stdin:
        case, _, count = json.loads(line)
        value, times = stored[case], []
        for _ in range(count):
            begin = time.monotonic_ns()
            send(ids[1], method.put(value) if method else dumped(value))
            times.append(answer(answers[0]) - begin)
        print(json.dumps(times), flush=True)
    os.close(ids[1])
    consumer.wait()


def consume(name, address, ids, answers):
    method = METHODS[name](address) if name != "floor" else None
    os.write(answers, struct.pack("<q", 0))
    while True:
        message = receive(ids)
        if message is None:
            return
        found = method.take(message) if method else pickle.loads(message)
        end = time.monotonic_ns()
        del found
        os.write(answers, struct.pack("<q", end))


def send(pipe, message):
    rest = memoryview(struct.pack("<q", len(message)) + message)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def receive(pipe):
    head = os.read(pipe, 65536)
    if not head:
        return None
    length = struct.unpack_from("<q", head)[0]
    if len(head) == 8 + length:
        return head[8:]
    found = bytearray(length)
    found[: len(head) - 8] = head[8:]
    at = len(head) - 8
    with memoryview(found) as memory:
        while at < length:
            at += os.readv(pipe, [memory[at:]])
    return found


def answer(pipe):
    return struct.unpack("<q", os.read(pipe, 8))[0]


# Servers.


@contextlib.contextmanager
def servers(plasma):
    """Starts all servers; yields the address of each row's."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        addresses = {name: "-" for name in ("floor", "shared_memory", "forebay_embedded")}
        if not lacks_redis():
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = str(probe.getsockname()[1])
            path = f"{folder}/redis.sock"
            command = ["redis-server", "--port", port, "--unixsocket", path, "--save", ""]
            stack.enter_context(running([*command, "--dir", folder], path))
            for name in REDIS:
                addresses[name] = path if "unix" in name else port
        path = f"{folder}/forebay.sock"
        beside = os.path.join(os.path.dirname(sys.executable), "forebay")
        program = beside if os.path.exists(beside) else "forebay"
        stack.enter_context(running([program, "serve", "--port", "0", "--unixsocket", path], path))
        for name in FOREBAY[:3]:
            addresses[name] = f"{'unix' if name == 'forebay_unix' else 'shm'}://{path}"
        if plasma:
            path = f"{folder}/plasma.sock"
            program = os.path.join(os.path.dirname(plasma), "plasma_store")
            stack.enter_context(running([program, "-m", str(2 << 30), "-s", path], path))
            addresses["plasma_store"] = path
        yield addresses


def lacks_redis():
    """Returns what the rows of Redis lack, if anything."""
    if shutil.which("redis-server") is None:
        return "redis-server is not on the PATH"
    return None if importlib.util.find_spec("redis") else "redis-py is not installed"


@contextlib.contextmanager
def running(command, path):
    if shutil.which(command[0]) is None:
        raise SystemExit(f"{command[0]} is not installed")
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **output)
    try:
        while not os.path.exists(path):
            if process.poll() is not None:
                raise SystemExit(f"{command[0]} ended with {process.returncode}")
            time.sleep(0.01)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


# The run.


class Row:
    """The process of a row."""

    def __init__(self, interpreter, form, name, address):
        self.process = subprocess.Popen(
            [interpreter, "-W", "ignore", __file__, form, name, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **WARM},
        )
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit(f"{name} does not run")

    def run(self, case, batch, count):
        self.process.stdin.write(json.dumps([case, batch, count]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measured(rows, cases, batches, rounds, seconds):
    """Returns the times of `rows` by row, case and K."""
    times = {}
    for case in cases:
        for batch in batches:
            counts = {}
            for name, run in rows.items():
                first = min(run(case, batch, 3))
                counts[name] = min(5000, max(3, int(seconds * 1e9 / first)))
            for number in range(rounds):
                print(f"{case}, K = {batch}: round {number + 1} of {rounds}", file=sys.stderr)
                for name, run in rows.items():
                    found = run(case, batch, counts[name])
                    times.setdefault((name, case, batch), []).extend(found)
    return times


def summary(times):
    ordered = sorted(times)
    return {
        "min": ordered[0] / 1e3,
        "median": statistics.median(ordered) / 1e3,
        "max": ordered[-1] / 1e3,
        "95 %": ordered[int(0.95 * (len(ordered) - 1))] / 1e3,
        "sd": statistics.pstdev(ordered) / 1e3,
        "cycles": len(ordered),
    }


def printed(title, found):
    names = list(dict.fromkeys(name for name, _, _ in found))
    for case, batch in dict.fromkeys((case, batch) for _, case, batch in found):
        print(f"\n{title}: {case}, K = {batch}, in microseconds")
        print(f"{'':<20}{'min':>11}{'median':>11}{'95 %':>11}{'max':>11}{'sd':>11}{'x floor':>9}")
        floor = found["floor", case, batch]["median"]
        for name in names:
            row = found.get((name, case, batch))
            if row is not None:
                columns = [row[column] for column in ("min", "median", "95 %", "max", "sd")]
                figures = "".join(f"{figure:>11.1f}" for figure in columns)
                print(f"{name:<20}{figures}{row['median'] / floor:>9.2f}")


def picture(found, path):
    """Draws the medians of the arrays, K = 1, over their bytes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), dpi=110)
    looks = {"floor": "k:", "shared_memory": "C7-s", "plasma_store": "C8-^"}
    shown = ["redis_unix", "redis_unix_pipe2", "redis_tcp", *FOREBAY]
    for name in [*looks, *shown]:
        points = [
            (8 * size, found[name, f"array {size}", 1]["median"])
            for size in SIZES
            if (name, f"array {size}", 1) in found
        ]
        if points:
            look = looks.get(name, "--o" if "redis" in name else "-o")
            axes.loglog(*zip(*points), look, label=name)
    axes.set_xlabel("bytes of the array")
    axes.set_ylabel("put, fetch and delete one, microseconds (median)")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main():
    options = argparse.ArgumentParser("forebay bench objects", description=__doc__.split("\n")[0])
    options.add_argument("--plasma", help="an interpreter with pyarrow 11")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=0.05, help="of a row in each round")
    options.add_argument("--rows", nargs="*", default=ROWS, choices=ROWS)
    options.add_argument("--cases", nargs="*", default=list(values()))
    options.add_argument("--form", choices=["one", "two", "both"], default="both")
    options.add_argument("--json", help="a file to write all results to")
    options.add_argument("--picture", help="a PNG to draw")
    options.add_argument("--of", nargs="*", help="draw these results, and measure nothing")
    for form, count in (("--worker", 2), ("--producer", 2), ("--consumer", 4)):
        options.add_argument(form, nargs=count, help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.worker:
        work(*options.worker)
    elif options.producer:
        hand_over(*options.producer)
    elif options.consumer:
        name, address, *pipes = options.consumer
        consume(name, address, *map(int, pipes))
    elif options.of:
        drawn_again(options.of, options.picture)
    else:
        run(options)


def run(options):
    results = {}
    with servers(options.plasma) as addresses:
        for name in options.rows:
            if name not in addresses:
                lack = lacks_redis() if name in REDIS else "--plasma names no interpreter"
                print(f"{name} is left out: {lack}")
        names = [name for name in ROWS if name in {"floor", *options.rows} and name in addresses]
        forms = {"one": ["--worker"], "two": ["--producer"], "both": ["--worker", "--producer"]}
        for form in forms[options.form]:
            results[form] = run_form(form, names, addresses, options)
            title = "one process" if form == "--worker" else "from process to process"
            printed(title, results[form])
    if options.json:
        rows = [
            {"form": form[2:], "row": name, "case": case, "K": batch, **figures}
            for form, found in results.items()
            for (name, case, batch), figures in found.items()
        ]
        written({"circumstances": circumstances(options.plasma), "rows": rows}, options.json)
    if options.picture:
        picture(results["--worker"], options.picture)


def circumstances(plasma):
    """Returns where, when and by what the figures were made, as `forebay bench` notes it."""
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return {
        "command": " ".join(["forebay bench objects", *map(shlex.quote, sys.argv[1:])]),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "time": time.strftime("%H:%M:%S", time.gmtime()),
        "machine": {
            "kernel": os.uname().release,
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "processor": names[0] if names else os.uname().machine,
            "processors": os.cpu_count(),
        },
        "versions": versions(plasma),
    }


def versions(plasma):
    """Returns what the programs and libraries that take part say of themselves."""
    said = {
        "python": [sys.executable, "--version"],
        "redis-server": ["redis-server", "--version"],
        "plasma": [plasma or "", "-c", "import pyarrow; print('pyarrow', pyarrow.__version__)"],
    }
    found = {"numpy": numpy.__version__}
    for name, package in (("forebay", "forebay"), ("redis-py", "redis")):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(package)
    for name, command in said.items():
        if command[0] and shutil.which(command[0]):
            run = subprocess.run(command, capture_output=True, text=True)
            found[name] = run.stdout.strip()
    return found


def written(results, path):
    """Writes `results` with one row in a line."""
    head = json.dumps(results["circumstances"])
    rows = ",\n".join(map(json.dumps, results["rows"]))
    with open(path, "w") as file:
        file.write('{"circumstances": ' + head + ',\n"rows": [\n' + rows + "\n]}\n")


def drawn_again(paths, target):
    """Draws what earlier runs have written to `paths`."""
    found = {}
    for path in paths:
        with open(path) as file:
            for row in json.load(file)["rows"]:
                if row["form"] == "worker":
                    found[row["row"], row["case"], row["K"]] = row
    picture(found, target)


def run_form(form, names, addresses, options):
    if form == "--producer":
        # Who embeds a server hands on as others do; a pipeline of one is pipe2's.
        names = [name for name in names if name != "forebay_embedded" and not name.endswith("pipe")]
    workers = {}
    for name in names:
        interpreter = options.plasma if name == "plasma_store" else sys.executable
        workers[name] = Row(interpreter, form, name, addresses[name])
    try:
        rows = {name: worker.run for name, worker in workers.items()}
        batches = BATCHES
        if form == "--producer":
            batches = BATCHES[:1]
            rows["memcpy"] = lambda case, _, count: memcpy(case, min(count, 100))
        cases = options.cases
        if form == "--producer":
            cases = [case for case in cases if case.startswith("array")]
        times = measured(rows, cases, batches, options.rounds, options.seconds)
    finally:
        for worker in workers.values():
            worker.end()
    return {key: summary(found) for key, found in times.items()}


if __name__ == "__main__":
    main()
