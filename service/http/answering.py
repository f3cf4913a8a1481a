"""Answering: turns the requests of one route into responses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Final

from rdl.errors import limited_suggestions
from service.access.actor import acting
from service.access.user import LOCAL_USER
from service.http.call import Call
from service.http.gate import Environ, Gate
from service.http.route import Route
from service.metrics import CallOutcome
from service.problems import ApiProblemError, ProblemDocument
from service.response import Response, problem_response
from service.runtime import Runtime
from service.store.engine import UNAVAILABLE

logger = logging.getLogger("agenda.service")

#: The answer to an internal error.
FAULT: Final = ProblemDocument("internal", "see the server's log")

#: The answer while the database is unavailable, full or locked.
_NO_DATABASE: Final = ProblemDocument(
    "unavailable",
    "the database is unavailable; see the server's log",
    headers={"Retry-After": "1"},
)


class Answering:
    """Turns the requests of one route into responses, including problems.

    Parameters
    ----------
    runtime
        Argument of the view.
    gate
        Authenticates the caller.
    route
        The route to answer.
    """

    def __init__(self, runtime: Runtime, gate: Gate, route: Route) -> None:
        self.route = route
        self._runtime = runtime
        self._gate = gate

    @cached_property
    def _observe(self) -> Callable[[], AbstractContextManager[CallOutcome]]:
        """Counts and times calls; created on first use, because all routes' take 10 ms."""
        return self._runtime.telemetry.observer(self.route.method, self.route.path)

    def respond(self, environ: Environ, read: Callable[[Route], Call]) -> Response:
        """Return the response to the call that `read` reads; every problem becomes a response.

        A caller without permission is refused before its body is read.
        """
        with self._observe() as outcome, limited_suggestions():
            try:
                actor = self._gate.admit(self.route, environ)
                if not self.route.live:
                    # Another worker of this port may have reported that it is ready.
                    self._runtime.require_ready(self._runtime.config.replay_wait_s)
                with acting(actor), self._gate.place_for(environ, actor.user):
                    call = read(self.route)
                    if actor.user is not LOCAL_USER:
                        call = replace(call, user=actor.user)
                    response = self.route.view(self._runtime, call)
            except ApiProblemError as error:
                response = self._failure(error.document)
            except UNAVAILABLE:
                logger.exception("%s %s failed", self.route.method, self.route.path)
                response = self._failure(_NO_DATABASE)
            outcome.status = response.status
            return response

    def _failure(self, document: ProblemDocument) -> Response:
        form = self.route.failure
        return problem_response(document) if form is None else form.render(document)
