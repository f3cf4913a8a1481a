"""X-Request-Id: an id per request, the client's or a new one, in its answer and log lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from service.http.gate import Environ
from service.http.shortcut import StartResponse, Wsgi
from service.logs import REQUEST_ID
from service.random_ids import RandomIds

HEADER: Final = "X-Request-Id"

_GIVEN: Final = re.compile(r"[A-Za-z0-9_.:@+=/-]{1,128}")


class RequestIds:
    """Sets the id of each request while the rest of the application answers it."""

    def __init__(self, rest: Wsgi) -> None:
        self._rest = rest
        self._ids = RandomIds(8)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one WSGI request."""
        given = environ.get("HTTP_X_REQUEST_ID", "")
        id_ = given if _GIVEN.fullmatch(given) else self._ids.new()

        def start(status: str, headers: list[tuple[str, str]], *failure: Any) -> Any:
            return start_response(status, [*headers, (HEADER, id_)], *failure)

        token = REQUEST_ID.set(id_)
        try:
            return self._rest(environ, start)
        finally:
            REQUEST_ID.reset(token)
