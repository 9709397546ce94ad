"""pytest's fixture `forebay_server`: a store for the tests, empty at the begin of each."""

import pytest


@pytest.fixture(scope="session")
def _forebay_session():
    import forebay

    with forebay.open() as db:
        yield db


@pytest.fixture
def forebay_server(_forebay_session):
    """A `forebay.Db` whose server runs in the process of the tests, without any key."""
    _forebay_session.call("FLUSHALL")
    yield _forebay_session
