"""`agenda sbatch` asks for a time at which Slurm's limits allow the job beside what is promised."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.control.job_demand import JobDemand
from dispatch.backends.slurm.control.job_limits import JobLimit
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from service.cli import job_limits
from service.cli.job_limits import ask_within, known_limits
from service.cli.kit.errors import CliError
from service.cli.kit.server import ServerReply

ONE = JobLimit("QOS high", qos="high", jobs=1)
JOB = JobDemand(1, 1, limit_s=60)


def place(begin_s: int) -> dict[str, str]:
    """Return a reservation of a minute."""
    spans = {"begin_at": begin_s, "finish_at": begin_s + 60}
    return {key: datetime.fromtimestamp(at, UTC).isoformat() for key, at in spans.items()}


def promised(id_: int, qos: str = "high") -> SlurmJob:
    """Return a job that waits for the reservation r1, r2, ..."""
    comment = promise_comment(f"r{id_}", 0, 0)
    return SlurmJob(id_, "job", "ann", comment, "PENDING", "", (), qos=qos, tres="cpu=1,node=1")


def asked(
    others: list[SlurmJob], last_s: int = 900, limit: JobLimit = ONE
) -> tuple[list[int], int]:
    """Return the begins that were requested, and the last; a window ends at an instant."""
    begins: list[int] = []

    def ask(begin_s: int, is_try: bool) -> ServerReply:
        assert is_try
        begins.append(begin_s)
        begin_s = max(100, begin_s)
        if begin_s + 60 > last_s:
            return ServerReply(409, {"code": "window_limit", "detail": "no capacity"})
        return ServerReply(200, place(begin_s))

    held = {"r1": place(90), "r2": place(140)}
    server = SimpleNamespace(call=lambda _m, path: ServerReply(200, held[path.split("/")[-1]]))
    begin_s, _ = ask_within([(limit, [JOB])], lambda: others, cast("Any", server), ask)
    return begins, begin_s


def test_a_job_comes_after_those_that_count_with_it() -> None:
    """One that is promised until 150, another until 200; others do not count."""
    assert asked([]) == ([0], 0)
    assert asked([promised(1, "normal")]) == ([0], 0)
    assert asked([promised(1), promised(2)]) == ([0, 150, 200], 200)
    waits = SlurmJob(3, "job", "ann", "", "PENDING", "", (), qos="high")
    assert asked([waits]) == ([0], 0)


def test_a_limit_that_leaves_no_time_is_named() -> None:
    """Until the deadline, or where a job has no limit of its own."""
    with pytest.raises(
        CliError, match=r"QOS high may run 1 jobs at a time, and later: .*no capacity"
    ):
        asked([promised(1)], last_s=200)
    runs = SlurmJob(3, "job", "ann", "", "RUNNING", "", ("n1",), qos="high", started_s=1)
    with pytest.raises(CliError, match="QOS high may run 1 jobs at a time"):
        asked([runs])


@pytest.mark.parametrize(
    ("tasks", "throttle", "up", "most", "begins"),
    [
        (4, 0, 0, 4, [0, 150]),
        (4, 0, 0, 5, [0]),
        (4, 2, 0, 3, [0]),
        (4, 2, 0, 2, [0, 150]),
        (4, 2, 1, 3, [0]),
        (4, 2, 2, 3, [0]),
    ],
)
def test_an_array_that_waits_counts_as_many_jobs_as_may_run_at_a_time(
    tasks: int, throttle: int, up: int, most: int, begins: list[int]
) -> None:
    """Those of its tasks that run already are among them."""
    waits = replace(promised(1), array=1, tasks=tasks, throttle=throttle)
    runs = [
        replace(promised(10 + one), array=1, state="RUNNING", started_s=80, ends_s=150)
        for one in range(up)
    ]
    limit = replace(ONE, jobs=most)
    assert asked([waits, *runs], limit=limit)[0] == begins


def test_components_of_one_account_count_together_whatever_their_qos(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The QOS of one overrides a limit of the account; what it uses counts for the other."""
    lab = JobLimit("account lab", account="lab", jobs=4, together={"cpu": 3})

    def limits_of(_commands: object, _user: str, _account: str, qos: str, _: str) -> list[JobLimit]:
        of_qos = JobLimit(f"QOS {qos}", qos=qos, wall_s=60 if qos == "short" else None)
        return [replace(lab, together={}) if qos == "high" else lab, of_qos]

    monkeypatch.setattr(job_limits, "limits_of", limits_of)
    high = JobDemand(1, 2, limit_s=90, account="lab", qos="high")
    short = replace(high, cpus=1, limit_s=60, qos="short")
    parts = [high, short]
    assert known_limits("ann", parts, 60) == [(replace(lab, together={}), parts), (lab, parts)]
    with pytest.raises(CliError, match=r"^TRES of account lab are cpu=3: the job has 4$"):
        known_limits("ann", [high, replace(short, cpus=2)], 60)
