"""StreamHub: the one thread of a process that feeds all its streams."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from service.access.rate_limit import TenantShares, share_of
from service.access.user import User, present_actor
from service.problems import ApiProblemError, problem
from service.store.engine import UNAVAILABLE
from service.streaming.live_stream import LONGEST_S, LiveStream, StreamSource

logger = logging.getLogger("agenda.service")

#: Seconds between two checks for other processes' changes, while there are streams.
_LOOK_S: Final = 0.25

#: Seconds of pause after each round, so that events in quick succession are sent together.
_REST_S: Final = 0.02


class StreamHub:
    """Follows changes while there are streams, and feeds them.

    Parameters
    ----------
    look
        Applies other processes' changes; called before each round, by the hub's thread.
    most
        Most concurrent streams.
    """

    def __init__(self, look: Callable[[], None], most: int) -> None:
        self._look = look
        self._places = TenantShares(most)
        self._lock = threading.Lock()
        self._seats: dict[LiveStream, User] = {}
        self._fed: set[LiveStream] = set()
        self._news = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def open(
        self,
        source: StreamSource,
        longest_s: float = LONGEST_S,
        may: Callable[[], bool] = lambda: True,
    ) -> LiveStream:
        """Return a stream of `source`; it is fed once it is read.

        Parameters
        ----------
        may
            Returns whether the reader still has access; called regularly by the hub's thread.

        Raises
        ------
        ApiProblemError
            ``too_many`` if the limit of open streams is reached, in total or for a tenant of the
            caller; ``unavailable`` while the server stops.
        """
        stream, user = LiveStream(self, source, longest_s, may), present_actor().user
        with self._lock:
            if self._closing:
                raise problem("unavailable", "the server is stopping", headers={"Retry-After": "1"})
            if not self._places.take(user):
                most = self._places.most
                detail = (
                    f"this server process feeds {most} streams, and {share_of(most)} of one "
                    "tenant; that limit is reached"
                )
                raise problem("too_many", detail, headers={"Retry-After": "5"})
            self._seats[stream] = user
        return stream

    def enter(self, stream: LiveStream) -> None:
        """Start to feed a stream."""
        with self._lock:
            if stream in self._seats and stream not in self._fed and not self._closing:
                self._fed.add(stream)
                self._begin()
        self.wake()

    def leave(self, stream: LiveStream) -> None:
        """Stop feeding a stream."""
        with self._lock:
            self._fed.discard(stream)

    def give_back(self, stream: LiveStream) -> None:
        """Release the place of a stream that is no longer read."""
        with self._lock:
            user = self._seats.pop(stream, None)
        if user is not None:
            self._places.give_back(user)

    def wake(self) -> None:
        """Check soon, because there is news or a reader is ready."""
        if not self._news.is_set():
            self._news.set()

    def close(self) -> None:
        """End all streams."""
        with self._lock:
            self._closing = True
            streams, thread = list(self._seats), self._thread
        self.wake()
        if thread is not None:
            thread.join()
        for stream in streams:
            stream.end()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agenda-streams", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._news.wait(_LOOK_S if self._fed else None)
            self._news.clear()
            if self._closing:
                return
            if self._fed:
                self._feed_all()
                time.sleep(_REST_S)

    def _feed_all(self) -> None:
        try:
            self._look()
        except (ApiProblemError, *UNAVAILABLE):
            logger.warning("streams wait for the database", exc_info=True)
        except Exception:
            logger.exception("the Plan could not be followed for streams; retrying")
        with self._lock:
            streams = list(self._fed)
        now = time.monotonic()
        for stream in streams:
            try:
                stream.feed(now)
            except (ApiProblemError, *UNAVAILABLE):
                logger.warning("a stream waits for the database", exc_info=True)
            except Exception:
                logger.exception("a stream failed")
                stream.end()
