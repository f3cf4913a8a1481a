"""The process that optimises: ``python -m service.optimizing.worker``.

It makes its own copy of the Plan from the log, and writes its row: progress while it works, and
what it found. It never changes the Plan.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from planner.optimization.codec import change_to_json
from planner.optimization.optimizer import optimize
from planner.optimization.result import Optimized
from planner.plan.plan import Plan
from planner.plan.records.commit_records import CommitRecord
from planner.workload.diff import PlanDiff, difference_of
from planner.workload.warm_up import load_kernels
from rdl.durations import rfc3339_text
from service.optimizing.job import OptimizationJob
from service.optimizing.process import carry_out
from service.optimizing.reporter import Reporter
from service.replication.replica import Replica


def _optimize(replica: Replica, document: dict[str, Any], reporter: Reporter) -> None:
    asked = OptimizationJob.from_json(document)
    load_kernels()
    replica.replay()
    with replica.newest() as plan:
        reporter.enter("optimizing", plan.version)
    found = optimize(plan, asked.goal, asked.scope, asked.effort(reporter.stop, reporter.tell))
    if found.conflict is not None:
        pins = ", ".join(found.conflict.pins)
        reason = f"these pins cannot all stay: {pins}; {found.conflict.detail}"
        reporter.ended("failed", reason, _result(plan, found, asked))
        return
    result = _result(plan, found, asked)
    why = reporter.why
    reporter.ended("stopped" if why else "finished", why and f"{why}: the best so far", result)


def _result(plan: Plan, found: Optimized, asked: OptimizationJob) -> bytes:
    """Return what it found, with the changes to apply; the Plan given is changed on the way."""
    difference = PlanDiff((), 0)
    if found.changes:
        prepared = plan.prepare(found.changes, found.based_on, joint=True)
        if prepared.record is None:
            raise RuntimeError(f"the Plan does not take it: {prepared.conflicts[0].detail}")
        difference = _difference(plan, prepared.record)
    body = {
        "based_on": found.based_on,
        "changes": [change_to_json(one, plan.cluster) for one in found.changes],
        "found": {**found.to_json(), "goal": asked.goal.to_json()},
        "diff": {**difference.to_json(), "origin": rfc3339_text(plan.grid.instant_at(0))},
    }
    return msgspec.json.encode(body)


def _difference(plan: Plan, record: CommitRecord) -> PlanDiff:
    """Apply a record and return what it changes."""
    ids = [one.id for one in record.changes if hasattr(one, "id")]
    before = {id_: _entry(plan, id_) for id_ in ids}
    plan.apply(record)
    found = [difference_of(id_, before[id_], _entry(plan, id_)) for id_ in ids]
    different = tuple(one for one in found if one is not None)
    known = len(plan.table) + len(plan.refusals)
    return PlanDiff(different, known - len(different))


def _entry(plan: Plan, id_: str) -> dict[str, Any] | None:
    known = plan.reservation(id_) or plan.refusal(id_)
    return None if known is None else known.to_json(plan.grid)


if __name__ == "__main__":
    sys.exit(carry_out(_optimize))
