"""redis-py beside the package: its whole interface, unchanged, through shared memory."""

import asyncio

from forebay._db import address_of
from forebay._errors import UnsupportedError


def redis(db, options):
    """Returns a `redis.Redis` of the server of `db`."""
    import redis

    client = _derived(_Client, redis.Redis)(**{**address_of(db.url), **options})
    client._forebay_db = db
    if db.url.startswith("shm://") and "connection_pool" not in options:
        _take_lanes(client, db, redis.connection.UnixDomainSocketConnection, _Connection)
    return client


def aredis(db, options):
    """Returns a `redis.asyncio.Redis` of the server of `db`."""
    import redis.asyncio

    client = _derived(_Client, redis.asyncio.Redis)(**{**address_of(db.url), **options})
    client._forebay_db = db
    if db.url.startswith("shm://") and "connection_pool" not in options:
        plain = redis.asyncio.UnixDomainSocketConnection
        _take_lanes(client, db, plain, _AsyncConnection)
    return client


# The classes by those of redis-py that they are derived from: it is imported when it is asked for.
_classes = {}


def _derived(mixin, plain):
    if plain not in _classes:
        _classes[plain] = type(plain.__name__, (mixin, plain), {})
    return _classes[plain]


class _Client:
    """A client of redis-py, whose lock is refused where the server has no scripts: it would be
    acquired without one, and could not be released.
    """

    # A copy that redis-py makes of the client has none.
    _forebay_db = None

    def lock(self, *arguments, **options):
        db = self._forebay_db
        if db is not None and db.call("COMMAND", "INFO", "EVALSHA") == [None]:
            raise UnsupportedError("redis-py's lock needs scripts, and there are none: use db.lock")
        return super().lock(*arguments, **options)


def _take_lanes(client, db, plain, mixin):
    """Has the connections of `client`, which has none yet, be lanes."""
    pool = client.connection_pool
    if pool.connection_class is not plain:
        return
    pool.connection_class = _derived(mixin, plain)
    pool.connection_kwargs["forebay_db"] = db


class _Connection:
    """A connection of redis-py over a lane; over the unix socket where the server makes none."""

    def __init__(self, *arguments, forebay_db, **options):
        super().__init__(*arguments, **options)
        self._forebay_db = forebay_db

    def _connect(self):
        lane = _lane_of(self._forebay_db)
        if lane is None:
            return super()._connect()
        lane.settimeout(self.socket_timeout)
        return lane


class _AsyncConnection:
    """As `_Connection`, for redis.asyncio."""

    def __init__(self, *arguments, forebay_db, **options):
        super().__init__(*arguments, **options)
        self._forebay_db = forebay_db

    async def _connect(self):
        lane = _lane_of(self._forebay_db)
        if lane is None:
            return await super()._connect()
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LIMIT, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = LaneTransport(loop, lane, protocol)
        self._reader = reader
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        await self.on_connect()


def _lane_of(db):
    """Returns a new lane; None where the server makes none."""
    import redis

    from forebay._errors import Error

    try:
        return db._lane()
    except Error as error:
        # What redis-py tries anew.
        raise redis.ConnectionError(f"no connection: {error}") from error


# As asyncio's streams have it.
_LIMIT = 1 << 16
# More than this is not taken over from who writes before some of it is sent.
_HIGH_WATER = 1 << 16


class LaneTransport(asyncio.Transport):
    """A lane as asyncio's protocols are served by: woken by the lane's doorbell."""

    def __init__(self, loop, lane, protocol):
        super().__init__()
        self._loop = loop
        self._lane = lane
        self._protocol = protocol
        self._out = bytearray()
        self._is_closing = False
        self._is_reading = True
        self._is_protocol_paused = False
        self._descriptor = lane.fileno()
        protocol.connection_made(self)
        loop.add_reader(self._descriptor, self._rung)
        loop.call_soon(self._pump)

    def write(self, data):
        if self._is_closing:
            return
        if not self._out:
            try:
                sent = self._lane.send_some(data)
            except OSError as error:
                self._fail(error)
                return
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        self._out += data
        # The doorbell is to ring for room, too.
        self._loop.call_soon(self._pump)
        if len(self._out) > _HIGH_WATER and not self._is_protocol_paused:
            self._is_protocol_paused = True
            self._protocol.pause_writing()

    def writelines(self, pieces):
        self.write(b"".join(pieces))

    def can_write_eof(self):
        return False

    def get_write_buffer_size(self):
        return len(self._out)

    def is_closing(self):
        return self._is_closing

    def is_reading(self):
        return self._is_reading and not self._is_closing

    def pause_reading(self):
        self._is_reading = False

    def resume_reading(self):
        if not self._is_reading:
            self._is_reading = True
            self._loop.call_soon(self._pump)

    def get_protocol(self):
        return self._protocol

    def set_protocol(self, protocol):
        self._protocol = protocol

    def close(self):
        if not self._is_closing:
            self._is_closing = True
            if not self._out:
                self._end(None)

    def abort(self):
        self._is_closing = True
        self._end(None)

    def _rung(self):
        try:
            self._lane.disarm()
        except OSError as error:
            self._fail(error)
            return
        self._pump()

    def _pump(self):
        """Moves what can be moved, and has the doorbell ring for the rest."""
        try:
            while self._lane is not None:
                has_moved = self._send() | self._receive()
                if self._lane is None:
                    return
                is_idle = not (self._is_reading or self._out)
                if not has_moved and (is_idle or self._lane.arm(bool(self._out))):
                    return
        except OSError as error:
            self._fail(error)

    def _send(self):
        if not self._out:
            return False
        sent = self._lane.send_some(self._out)
        del self._out[:sent]
        if self._is_protocol_paused and len(self._out) <= _HIGH_WATER // 4:
            self._is_protocol_paused = False
            self._protocol.resume_writing()
        if self._is_closing and not self._out:
            self._end(None)
        return sent > 0

    def _receive(self):
        # As long as there is something to send, replies are read whether they are wanted or not:
        # the doorbell would ring for them all the time.
        if self._lane is None or not (self._is_reading or self._out):
            return False
        data = self._lane.recv_some()
        if data is None:
            self._protocol.eof_received()
            self._end(None)
            return False
        if data and not self._is_closing:
            self._protocol.data_received(data)
        return bool(data)

    def _fail(self, error):
        self._is_closing = True
        self._end(error)

    def _end(self, error):
        if self._lane is None:
            return
        lane, self._lane = self._lane, None
        self._out.clear()
        self._loop.remove_reader(self._descriptor)
        lane.close()
        self._loop.call_soon(self._protocol.connection_lost, error)
