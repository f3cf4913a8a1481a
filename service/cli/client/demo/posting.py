"""The example day posted to a server, as its clients would one after another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from service.cli.client.server import Server, ServerReply
from service.cli.terminal.errors import CliError
from service.cli.terminal.progress import running

_ANSWER_WITHIN_S: Final = 600.0
_BUSY: Final = 503


@dataclass(frozen=True, slots=True)
class DayAnswers:
    """What was said to each request, and the seconds each answer took."""

    replies: list[ServerReply]
    seconds: list[float]

    def counts(self) -> str:
        """Return how many were promised and refused."""
        promised = sum(reply.ok for reply in self.replies)
        return f"{promised} promised, {len(self.replies) - promised} refused"

    def pace(self) -> str:
        """Return how fast the answers came."""
        times = sorted(self.seconds)
        middle, slow = times[len(times) // 2], times[len(times) * 99 // 100]
        return (
            f"{len(times)} requests asked one by one over HTTP, each answer on disk: "
            f"{len(times) / sum(times):,.0f} a second, median {middle * 1000:.1f} ms, "
            f"99 % within {slow * 1000:.1f} ms"
        )


def post_day(server: Server, lines: Sequence[dict[str, Any]]) -> DayAnswers:
    """Post each request as a client would; the server's clock is when it is submitted.

    Raises
    ------
    click.Abort
        After ^C: scenes of a day that was not asked for would wait for what never comes.
    """
    posted = DayAnswers([], [])
    with running("asking for reservations") as run:
        for number, line in enumerate(lines, start=1):
            body = {name: value for name, value in line.items() if name != "submitted"}
            began = time.perf_counter()
            reply = _post_until_answered(server, body)
            posted.seconds.append(time.perf_counter() - began)
            posted.replies.append(reply)
            run.progress(number, len(lines))
            if run.stop():
                raise click.Abort
    return posted


def _post_until_answered(server: Server, body: dict[str, Any]) -> ServerReply:
    """Post one request until it is answered: a server that still compiles says 503."""
    deadline = time.monotonic() + _ANSWER_WITHIN_S
    while True:
        reply = server.call("POST", "/v1/reservations", body)
        if reply.status != _BUSY or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    if reply.status not in (200, 201, 409, 422):
        raise CliError(f"{body['id']}: {reply.problem()}", reply.exit_code)
    return reply
