"""A recorded day as requests to post: each moved to the time at which the day is played."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.files import WorkloadLine


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request of a day that is played again.

    Attributes
    ----------
    due_s
        When it is posted, in seconds from the first one.
    body
        What is posted.
    """

    due_s: float
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Playback:
    """How a recorded day is played.

    Attributes
    ----------
    now_ms
        What the server's clock shows at the first request, in ms from its origin.
    step_ms
        The server's step: the day moves by whole ones.
    speed
        Seconds of the record that pass in one.
    prefix
        Stands before every id.
    agent
        Who places the requests; None is the server's own.
    """

    now_ms: int
    step_ms: int
    speed: float = 1.0
    prefix: str = ""
    agent: str | None = None

    def requests(self, lines: Sequence[WorkloadLine]) -> Iterator[RecordedRequest]:
        """Yield the requests of a workload by submission.

        Their windows move by one and the same time, so that the Plan fills as it did, whatever the
        speed: faster than 1 the server knows of each request sooner than it did.

        Raises
        ------
        RdlError
            For RDL that cannot be read.
        """
        from rdl.compile.source import read_source
        from rdl.meaning.shift import shifted
        from rdl.text.formatter import format_expression

        ordered = sorted(lines, key=lambda line: line.submitted_ms)
        if not ordered:
            return
        first_ms = ordered[0].submitted_ms
        by_ms = -((first_ms - self.now_ms) // self.step_ms) * self.step_ms
        for line in ordered:
            moved = shifted(read_source(line.source), by_ms, line.submitted_ms)
            body = line.to_json() | {
                "id": f"{self.prefix}{line.id}",
                "rdl": format_expression(moved),
            }
            del body["submitted"]
            if self.agent is not None:
                body["agent"] = self.agent
            yield RecordedRequest((line.submitted_ms - first_ms) / 1000 / self.speed, body)
