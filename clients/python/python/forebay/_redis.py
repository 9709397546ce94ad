"""redis-py over a store's socket: its whole interface, unchanged."""

from forebay._db import address_of


def redis(url, options):
    """Returns a `redis.Redis` of the server at `url`."""
    import redis

    return redis.Redis(**{**address_of(url), **options})


def aredis(url, options):
    """Returns a `redis.asyncio.Redis` of the server at `url`."""
    import redis.asyncio

    return redis.asyncio.Redis(**{**address_of(url), **options})
