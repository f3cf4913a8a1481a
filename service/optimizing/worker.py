"""The process that optimises: ``python -m service.optimizing.worker``.

It makes its own copy of the Plan from the log, improves it here or on a Dask cluster, and writes
its row: progress while it works, and what it found. It never changes the Plan.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec

from planner.optimization.codec import change_to_json
from planner.optimization.result import Optimized
from planner.plan.plan import Plan
from planner.plan.records.commit_records import CommitRecord
from planner.workload.diff import PlanDiff, difference_of
from planner.workload.warm_up import load_kernels
from rdl.durations import rfc3339_text
from service.optimizing.diff_rows import drawn_difference
from service.optimizing.job import OptimizationJob
from service.optimizing.process import JobCall, carry_out
from service.tasks.plan_task import KeptPlan, improve_on


def _optimize(call: JobCall) -> None:
    asked, reporter = OptimizationJob.from_json(call.asked), call.reporter
    load_kernels()
    call.replica.replay()
    with call.replica.newest() as plan:
        reporter.enter("optimizing", plan.version)

    def keep(state: KeptPlan) -> None:
        reporter.keep(msgspec.json.encode(state))

    effort = asked.effort(reporter.stop, reporter.tell)
    began = time.monotonic()
    kept = _kept(call.kept)
    found = improve_on(call.pool, plan, asked.goal, asked.scope, effort, kept, keep)
    elapsed_s = time.monotonic() - began + (0.0 if kept is None else kept.elapsed_s)
    result = _result(plan, found, asked, elapsed_s)
    if found.conflict is not None:
        pins = ", ".join(found.conflict.pins)
        reason = f"these pins cannot all stay: {pins}; {found.conflict.detail}"
        reporter.end("failed", reason, result)
        return
    reporter.ended_with(result, "the best so far")


def _kept(written: bytes) -> KeptPlan | None:
    """Return what an earlier process has kept, a result among it."""
    if not written:
        return None
    entry = msgspec.json.decode(written)
    return KeptPlan(tuple(entry["changes"]), entry["elapsed_s"])


def _result(plan: Plan, found: Optimized, asked: OptimizationJob, elapsed_s: float) -> bytes:
    """Return what it found, with the changes to apply; the Plan given is changed on the way."""
    difference = PlanDiff((), 0).to_json()
    if found.changes:
        prepared = plan.prepare(found.changes, found.based_on, joint=True)
        if prepared.record is None:
            raise RuntimeError(f"the Plan does not take it: {prepared.conflicts[0].detail}")
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
    """Apply a record and return what it changes, with the rows that a picture draws."""
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
