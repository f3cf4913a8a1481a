"""Post a recorded day to a running server and report how it was served: `bench.replay`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from agenda.errors import REFUSAL_CODES
from dispatch.accounts.promises import Outcome
from service.cli.kit.errors import DONE, ERROR, CliError, reports_errors
from service.cli.kit.options import READABLE, agent_name, complete_agent, offset
from service.cli.kit.output import JSON, TABLE, format_option, print_json, print_table
from service.cli.kit.progress import CommandProgress, running
from service.cli.kit.server import Server, client_options
from service.cli.reservations import PATH, list_reservations

if TYPE_CHECKING:
    from planner.cluster.cluster import Cluster
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


_PAUSE_S: Final = 0.1


@dataclass(slots=True)
class Played:
    """The outcome of the requests.

    Attributes
    ----------
    accepted
        Ids that were promised.
    said
        Answers that were no promise, by code.
    refused
        How many of those are refusals; the rest failed.
    seconds
        How long each answer took.
    late_s
        The longest time by which a request was posted after it was due.
    """

    accepted: list[str] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    seconds: list[float] = field(default_factory=list)
    late_s: float = 0.0

    def asked(self) -> int:
        """Return how many were posted."""
        return len(self.seconds)

    def latency_ms(self, part: float) -> float:
        """Return the milliseconds within which a part of the answers came; 0 if none did."""
        ordered = sorted(self.seconds)
        at = min(len(ordered) - 1, int(part * len(ordered)))
        return 1000 * ordered[at] if ordered else 0.0


@click.command()
@click.argument("workload", type=READABLE)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Seconds of the record that pass in one.",
)
@click.option("--prefix", default="", help="Put this before every id, to play a day twice.")
@click.option(
    "--agent",
    type=agent_name,
    shell_complete=complete_agent,
    help="Agent that places the requests.  [default: the server's]",
)
@click.option(
    "--wait",
    type=offset,
    metavar="DURATION",
    default="0s",
    help="Count kept promises so long after the last request.  [default: at once]",
)
@client_options
@format_option(TABLE, JSON)
@reports_errors
def replay(
    workload: Path,
    speed: float,
    prefix: str,
    agent: str | None,
    wait: int,
    server: Server,
    form: str,
) -> int:
    """Post the requests of WORKLOAD to a server when they were submitted, the first one now.

    All their windows move by one time, so the Plan fills as it did. Shows how many were promised,
    how fast the answers came, how many promises were kept so far, and, where the token is an
    operator's, what the independent validator says of the whole Plan. Exits with 1 where a promise
    is broken or the Plan is not valid. ^C ends it with what was posted.
    """
    described, now_ms = _clock_of(server)
    lines = _lines_in(workload, described)
    playback = Playback(now_ms, described.step_ms, speed, prefix, agent)
    requests = list(playback.requests(lines))
    with running("playing the day") as run:
        played = play(server, requests, run)
        _pause(time.monotonic() + wait / 1000, run)
    document = report(server, played)
    if form == JSON:
        print_json(document)
    else:
        print_table(("figure", "value"), list(_rows(document)))
    return ERROR if document["broken"] or document["violations"] else DONE


def _clock_of(server: Server) -> tuple[Cluster, int]:
    """Return a server's cluster, and what its clock shows in ms from the origin."""
    from planner.files import cluster_from_json

    described = cluster_from_json(server.call("GET", "/v1/cluster").good(), server.url)
    now_s = server.call("GET", "/v1/plan", query={"to": "+1s"}).good()["now"]
    return described, round(1000 * now_s)


def _lines_in(workload: Path, described: Cluster) -> list[WorkloadLine]:
    """Return the requests of a file; the bad ones are reported and left out."""
    from planner.files import read_workload
    from planner.files.errors import FileProblems
    from service.cli.workload_input import report_lines

    bad = FileProblems()
    lines = list(read_workload(workload, described.origin, bad.append))
    report_lines(workload, bad)
    if not lines:
        raise CliError(f"{workload}: there is no request to post")
    return lines


def _pause(until: float, run: CommandProgress) -> None:
    """Wait until an instant of the monotonic clock, or until someone stops the run."""
    while not run.stop() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _PAUSE_S))


def play(
    server: Server,
    requests: Sequence[RecordedRequest],
    run: CommandProgress,
    pause: Callable[[float, CommandProgress], None] = _pause,
) -> Played:
    """Post each request when it is due, one after another, and note what was said.

    Parameters
    ----------
    pause
        Waits until an instant of the monotonic clock.
    """
    played, began = Played(), time.monotonic()
    for number, request in enumerate(requests, start=1):
        due = began + request.due_s
        pause(due, run)
        if run.stop():
            break
        sent = time.monotonic()
        played.late_s = max(played.late_s, sent - due)
        reply = server.once(PATH, request.body)
        played.seconds.append(time.monotonic() - sent)
        if reply.ok:
            played.accepted.append(request.body["id"])
        else:
            played.said[str(reply.code or reply.status)] += 1
            played.refused += reply.code in REFUSAL_CODES
        run.progress(number, len(requests))
    return played


def report(server: Server, played: Played) -> dict[str, Any]:
    """Return the figures of a day that was played, with the outcome of its promises so far."""
    mine = set(played.accepted)
    states = Counter(
        str(one["state"]) for one in list_reservations(server, {}) if one["id"] in mine
    )
    told = server.call("GET", "/v1/promises", query={"each": "true"}).good()["reservations"]
    outcomes = {one["id"]: Outcome(one["promise"]) for one in told if one["id"] in mine}
    broken = sum(one.is_broken for one in outcomes.values())
    asked, accepted = played.asked(), len(played.accepted)
    return {
        "requests": asked,
        "accepted": accepted,
        "refused": played.refused,
        "failed": asked - accepted - played.refused,
        "codes": dict(sorted(played.said.items())),
        "acceptance": accepted / asked if asked else 0.0,
        "latency_ms": {
            "p50": played.latency_ms(0.5),
            "p95": played.latency_ms(0.95),
            "p99": played.latency_ms(0.99),
            "max": played.latency_ms(1.0),
        },
        "late_s": played.late_s,
        "kept": sum(states.values()) - states["cancelled"] - broken,
        "broken": broken,
        "states": dict(sorted(states.items())),
        "violations": _violations(server),
    }


def _violations(server: Server) -> int | None:
    """Return how many faults the validator finds in a Plan; None if it is hidden."""
    from planner.validation.validate import validate

    reply = server.call("GET", "/v1/plan/export")
    if not reply.ok:
        return None
    return len(validate(reply.good()))


def _rows(document: dict[str, Any]) -> Iterator[list[object]]:
    """Yield the rows of the table for people."""
    yield ["requests", f"{document['requests']:,}"]
    yield ["accepted", f"{document['accepted']:,} ({100 * document['acceptance']:.1f} %)"]
    codes = ", ".join(f"{count:,} {code}" for code, count in document["codes"].items())
    yield ["refused", f"{document['refused']:,}"]
    yield ["failed", f"{document['failed']:,}"]
    yield ["why not", codes or "-"]
    for name, value in document["latency_ms"].items():
        yield [f"latency {name}", f"{value:.1f} ms"]
    yield ["posted late by at most", f"{document['late_s']:.1f} s"]
    yield ["promises kept", f"{document['kept']:,}"]
    yield ["promises broken", f"{document['broken']:,}"]
    found = document["violations"]
    yield ["validator", "not an operator's token" if found is None else f"{found:,} violations"]


if __name__ == "__main__":
    replay.main(prog_name="python -m bench.replay")
