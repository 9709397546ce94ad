"""What the tests share."""

import pytest


@pytest.fixture
def db(forebay_server):
    """An empty store."""
    return forebay_server


@pytest.fixture(params=["shm", "unix", "redis"])
def each(request, forebay_server):
    """An empty store, reached in each way."""
    import forebay

    path = forebay_server.url.removeprefix("shm://")
    if request.param == "redis":
        forebay_server.call("CONFIG", "SET", "port", "0")
        port = _port(forebay_server)
        url = f"redis://127.0.0.1:{port}"
    else:
        url = f"{request.param}://{path}"
    with forebay.connect(url) as db:
        yield db


def _port(db):
    """Returns a port on which the server listens."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    db.call("CONFIG", "SET", "port", port)
    return port


def pytest_terminal_summary(terminalreporter):
    """Ends with a line as cargo's, which `cargo xtask` adds to its own count."""
    count = lambda *names: sum(len(terminalreporter.stats.get(name, ())) for name in names)
    passed, failed = count("passed"), count("failed", "error")
    terminalreporter.write_line(f"test result: done. {passed} passed; {failed} failed; 0 ignored")
