"""The process that compares: ``python -m service.optimizing.comparison_worker``.

It plans the requests of a day with several agents, on its own copy of the Plan, and writes its row.
"""

from __future__ import annotations

import base64
import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version as release
from typing import Any, Final

import msgspec

from planner.cluster.cluster import Cluster
from planner.files.workload_file import WorkloadLine, read_line
from planner.metrics import Metrics, count_falls
from planner.optimization.plan_bound import RequestBook, bound_of, read_plan
from planner.plan.plan import Plan
from planner.reservations.state import State
from planner.value import relative_gap
from planner.workload.compare import AS_IT_STANDS, BY_ARRIVAL, AgentRun
from planner.workload.compile import compile_workload
from service.optimizing.comparison_job import ComparisonJob
from service.optimizing.comparison_skylines import comparison_skylines
from service.optimizing.live_requests import lines_of_plan, whole_cluster
from service.optimizing.process import JobCall, carry_out
from service.tasks.agent_tasks import bare_limits, compare_on
from service.tasks.data_pickle import read_data

#: States in which all that was asked is reserved.
WHOLE: Final = (State.ACCEPTED, State.ACTIVE)

_TOO_MANY: Final = "the Plan has too many requests for a bound"


def _compare(call: JobCall) -> None:
    asked, reporter = ComparisonJob.from_json(call.asked), call.reporter
    call.replica.replay()
    with call.replica.newest() as plan:
        twin = plan.copy()
    reporter.enter("comparing", twin.version)
    cluster, lines = _day_of(twin, asked)
    day = (cluster, compile_workload(lines, cluster))
    based_on = None if asked.workload is not None else twin.version
    done = kept_runs(call.kept, based_on)

    def keep(run: AgentRun) -> None:
        if reporter.stop():  # it may have been cut short
            return
        done[run.agent] = run
        reporter.keep(msgspec.json.encode({"runs": written_runs(done, based_on)}))
        reporter.enter(f"{len(done)} of {len(rows)} rows are done", twin.version)

    rows = asked.agents
    if asked.workload is None:
        rows = (*(name + BY_ARRIVAL for name in asked.agents), *asked.agents)
    limits = bare_limits(rows, asked.time_s, asked.seed)
    found = compare_on(call.pool, day, limits, reporter.stop, dict(done), keep)
    if asked.workload is None:
        found = replace(found, runs=(_as_it_stands(twin), *found.runs))
    result: dict[str, Any] = {"based_on": twin.version, "requests": len(lines), **found.to_json()}
    result["skylines"] = comparison_skylines(cluster, found.runs)
    if reporter.stop():
        result["runs"] = written_runs(done, based_on)
    reporter.ended_with(msgspec.json.encode(result), "what was done")


def _as_it_stands(plan: Plan) -> AgentRun:
    """Return the row of the Plan itself: value and bound as `GET /v1/plan/bound` has them."""
    book = RequestBook()
    reading = read_plan(plan, book)
    while reading is None:
        reading = read_plan(plan, book)
    known = bound_of(reading, book)
    if known.value is None or known.total is None:
        return AgentRun("as it stands", known.proof, _TOO_MANY, basis=AS_IT_STANDS)
    whole = [one for one in plan.reservations() if one.state in WHOLE]
    falls, inner = count_falls(
        atom.all_rows() for one in whole for atom in one.atoms if len(atom.rows)
    )
    metrics = Metrics(
        runtime_ms=0.0,
        acceptance=known.value / known.total if known.total > 0 else None,
        accepted=known.holders,
        requests=known.holders + known.candidates,
        falls=falls,
        falls_inner=inner,
        uniformity=None,
        value=known.value,
        bound=known.bound,
        gap=None if known.bound is None else relative_gap(known.value, known.bound),
    )
    return AgentRun("as it stands", "placed", "", metrics, basis=AS_IT_STANDS)


def written_runs(runs: Mapping[str, AgentRun], based_on: int | None) -> str:
    """Return runs as a text for `kept_runs`; `based_on` is the version of the Plan they are of."""
    raw = base64.b64encode(pickle.dumps((based_on, dict(runs)))).decode()
    return f"{release('cluster-agenda')} {raw}"


def kept_runs(kept: bytes, based_on: int | None) -> dict[str, AgentRun]:
    """Return the runs that an earlier process has kept.

    None of them where they are of other requests, or of another version of Agenda.
    """
    if not kept or (written := msgspec.json.decode(kept).get("runs")) is None:
        return {}
    made_by, _, raw = written.rpartition(" ")
    if made_by != release("cluster-agenda"):
        return {}
    version, runs = read_data(base64.b64decode(raw))
    return dict(runs) if version == based_on else {}


def _day_of(plan: Plan, asked: ComparisonJob) -> tuple[Cluster, list[WorkloadLine]]:
    """Return the cluster and the requests to compare on."""
    if asked.workload is None:
        return whole_cluster(plan), list(lines_of_plan(plan, asked.since_ms))
    origin = plan.cluster.origin
    lines = [read_line(one, number, origin) for number, one in enumerate(asked.workload, 1)]
    return plan.cluster, lines


if __name__ == "__main__":
    sys.exit(carry_out(_compare))
