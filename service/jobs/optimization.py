"""The process that optimises: ``python -m service.jobs.optimization``.

It builds its own copy of the Plan from the log, improves it here or on a Dask cluster, and writes
progress and result to its row. It never changes the Plan.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import msgspec

from planner.optimization.codec import change_to_json
from planner.optimization.result import Optimized
from planner.plan.plan import Plan
from planner.plan.records.commit_records import CommitRecord
from planner.workload.diff import PlanDiff, difference_of
from planner.workload.warm_up import load_kernels
from rdl.durations import rfc3339_text
from service.jobs.job import OptimizationJob
from service.jobs.process import JobCall, carry_out
from service.jobs.tasks import KeptPlan, improve_on

#: Most rows of one request; beyond that, neighbours are merged.
MOST_ROWS: Final = 24

#: Start and end in seconds from the origin, largest number of bundles.
HeldRow: TypeAlias = tuple[float, float, float]


def drawn_difference(
    difference: Mapping[str, Any], old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return an entry of a diff with its ``tenant``, and its ``rows`` before and after.

    Parameters
    ----------
    difference
        JSON form of `planner.workload.diff.RequestDiff`.
    old, new
        Entries of the request in the form of plan files; None if a plan does not have it.
    """
    known = new or old or {}
    rows = [held_rows(old), held_rows(new)]
    return {**difference, "tenant": known.get("tenant"), "rows": rows}


def held_rows(entry: Mapping[str, Any] | None, most: int = MOST_ROWS) -> list[HeldRow]:
    """Return the total bundles of all atoms of a request over time, in order of time.

    If there are more than `most` rows, neighbours are merged with the larger number.
    """
    if entry is None:
        return []
    changes: dict[float, float] = defaultdict(float)
    for atom in entry.get("atoms", ()):
        for start, end, bundles in atom["allocation"]:
            changes[start] += bundles
            changes[end] -= bundles
    rows: list[HeldRow] = []
    held = 0.0
    for start, end in pairwise(sorted(changes)):
        held += changes[start]
        if held > 0:
            rows.append((start, end, held))
    return _joined(rows, most)


def _joined(rows: Sequence[HeldRow], most: int) -> list[HeldRow]:
    found = list(rows)
    while len(found) > most:
        pairs = zip(found[::2], found[1::2], strict=False)
        odd = found[-1:] if len(found) % 2 else []
        found = [(a[0], b[1], max(a[2], b[2])) for a, b in pairs] + odd
    return found


def _optimize(call: JobCall) -> None:
    asked, reporter = msgspec.json.decode(call.asked, type=OptimizationJob), call.reporter
    load_kernels()
    call.replica.replay()
    with call.replica.newest() as plan:
        reporter.enter("optimizing", plan.version)

    def keep(state: KeptPlan) -> None:
        reporter.keep(msgspec.json.encode(state))

    effort = asked.effort(reporter.stop, reporter.tell)
    began = time.monotonic()
    kept = _kept(call.kept)
    found = improve_on(call.workers, plan, asked.goal, asked.scope, effort, kept, keep)
    elapsed_s = time.monotonic() - began + (0.0 if kept is None else kept.elapsed_s)
    result = _result(plan, found, asked, elapsed_s)
    if found.conflict is not None:
        pins = ", ".join(found.conflict.pins)
        reason = f"these pins cannot all stay: {pins}; {found.conflict.detail}"
        reporter.end("failed", reason, result)
        return
    reporter.ended_with(result, "the best so far")


def _kept(written: bytes) -> KeptPlan | None:
    """Return the state stored by an earlier process, or None."""
    if not written:
        return None
    entry = msgspec.json.decode(written)
    return KeptPlan(tuple(entry["changes"]), entry["elapsed_s"])


def _result(plan: Plan, found: Optimized, asked: OptimizationJob, elapsed_s: float) -> bytes:
    """Return the result with the changes to apply; the given Plan is changed."""
    difference = PlanDiff((), 0).to_json()
    if found.changes:
        prepared = plan.prepare(found.changes, found.based_on, joint=True)
        if prepared.record is None:
            raise RuntimeError(f"the Plan does not accept it: {prepared.conflicts[0].detail}")
        difference = _difference(plan, prepared.record)
    body = {
        "based_on": found.based_on,
        "elapsed_s": elapsed_s,
        "changes": [change_to_json(one, plan.cluster) for one in found.changes],
        "found": {**found.to_json(), "goal": asked.goal.to_json()},
        "diff": {
            **difference,
            "origin": rfc3339_text(plan.grid.instant_at(0)),
            **({} if plan.grid.zone is None else {"zone": plan.grid.zone}),
        },
    }
    return msgspec.json.encode(body)


def _difference(plan: Plan, record: CommitRecord) -> dict[str, Any]:
    """Apply a record and return its diff, with the rows for the picture."""
    ids = [one.id for one in record.changes if hasattr(one, "id")]
    before = {id_: _entry(plan, id_) for id_ in ids}
    plan.apply(record)
    after = {id_: _entry(plan, id_) for id_ in ids}
    found = [difference_of(id_, before[id_], after[id_]) for id_ in ids]
    different = tuple(one for one in found if one is not None)
    known = len(plan.table) + len(plan.refusals)
    told = PlanDiff(different, known - len(different)).to_json()
    requests = [
        drawn_difference(one, before[one["id"]], after[one["id"]]) for one in told["requests"]
    ]
    return {**told, "requests": requests}


def _entry(plan: Plan, id_: str) -> dict[str, Any] | None:
    known = plan.reservation(id_) or plan.refusal(id_)
    return None if known is None else known.to_json(plan.grid)


if __name__ == "__main__":
    sys.exit(carry_out(_optimize))
