"""What mosec's workers pass to the next stage, in shared memory.

    from forebay.mosec import ForebayShmIPCMixin
    from mosec import Server, Worker

    class Preprocess(ForebayShmIPCMixin, Worker): ...

    ForebayShmIPCMixin.set_url("shm:///run/forebay.sock")
"""

import os

import forebay
from mosec import Worker

_URL = "MOSEC_INTERNAL_FOREBAY_URL"
_TTL = "MOSEC_INTERNAL_FOREBAY_TTL"
_TTL_DEFAULT = 600.0
_WAIT_SECONDS = 1.0


class ForebayShmIPCMixin(Worker):
    """Stages hand on a reference of 16 bytes; arrays of the data are not copied by who gets it.

    What nobody takes, as its request has timed out or its worker was killed, is gone after the time
    to live.
    """

    _forebay_db = None

    @classmethod
    def set_url(cls, url):
        """Has all workers use the server at `url`; called before the server of mosec runs."""
        os.environ[_URL] = url

    @classmethod
    def set_ttl(cls, seconds):
        """Has what nobody takes live for so long."""
        os.environ[_TTL] = str(float(seconds))

    def _get_client(self):
        if self._forebay_db is None:
            url = os.environ.get(_URL)
            if url is None:
                raise RuntimeError("ForebayShmIPCMixin.set_url was not called")
            self._forebay_db = forebay.connect(url)
        return self._forebay_db

    def serialize_ipc(self, data):
        """Puts `data` and returns the reference to it."""
        ttl = float(os.environ.get(_TTL, _TTL_DEFAULT))
        # Bytes, too, are to come back as what they were.
        return self._get_client().put_auto(data, ttl=ttl)

    def deserialize_ipc(self, data):
        """Takes what the reference `data` is to."""
        # The reference may be faster than the data.
        view = self._get_client().take(bytes(data), timeout=_WAIT_SECONDS)
        if view is None:
            raise forebay.StaleViewError("the data of this request are gone: its time was over")
        return view.load()
