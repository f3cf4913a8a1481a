"""Levels that requests choose: which a cluster allows, and where what was asked is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.files import read_line
from planner.files.workload_file import LineError, WorkloadLine
from planner.placement import Code
from planner.plan.batch.admission import screen
from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.changes import Refuse
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Refused
from planner.promise import PromiseLevel
from planner.request import Request
from planner.validation.validate import asked_violations
from planner.workload.plan import document_of
from planner.workload.reload import metrics_of, plan_of_document
from tests.builders import a_cluster, a_plan, a_request, commit

POOLED, PLACED = PromiseLevel
CLUSTER = replace(a_cluster().build(), promise=POOLED, promise_choices=(POOLED,))


def asking(level: PromiseLevel | None) -> Request:
    """Return a request for a level."""
    request = a_request("r", "atom(<1 cpu>, 1, 1, 10, 10)").on(CLUSTER)
    return replace(request, promise=level)


@pytest.mark.parametrize("level", [None, POOLED])
def test_a_request_may_choose_what_the_cluster_leaves_it(level: PromiseLevel | None) -> None:
    """Nothing, the cluster's own level, and those of requests_may_choose."""
    assert screen(a_plan(CLUSTER).build(), asking(level)) is None


def test_any_other_level_is_refused() -> None:
    """Malformed, with the words that would be right."""
    refused = screen(a_plan(CLUSTER).build(), asking(PLACED))

    assert refused is not None
    assert refused.code is Code.MALFORMED
    assert refused.binding is not None
    assert refused.binding.kind == "promise"
    assert "a request cannot choose placed: requests_may_choose" in refused.detail
    assert refused.detail.endswith("leaves it pooled")


def refusing(level: PromiseLevel | None) -> Plan:
    """Return a Plan that refused a request for a level."""
    plan = a_plan(CLUSTER).build()
    commit(plan, Refuse(asking(level), Code.CAPACITY, "no capacity"))
    return plan


@pytest.mark.parametrize("level", [None, POOLED])
def test_a_refusal_keeps_the_level_in_log_snapshot_and_file(level: PromiseLevel | None) -> None:
    """Whatever may come in later comes in under the level that was requested."""
    plan = refusing(level)
    refusal = plan.refusal("r")
    assert refusal is not None
    assert refusal.promise is level

    record = CommitRecord.from_json(CommitRecord(1, 0, (Refused(refusal),)).to_json())
    again = read_checkpoint(take_checkpoint(plan).encode()).refusal("r")
    filed = plan_of_document(document_of(plan, "gree", "submitted", metrics_of(plan))).refusal("r")

    assert record.changes == (Refused(refusal),)
    assert again == refusal
    assert filed is not None
    assert filed.promise is level


def test_a_workload_line_says_the_level() -> None:
    """It is read, written back, and passed on; an unknown word is an error that lists the words."""
    entry = {"id": "r", "rdl": "atom(<1 cpu>, 1, 1, 10, 10)"}
    line = read_line({**entry, "promise": "pooled"})

    assert line.promise is POOLED
    assert read_line(line.to_json()) == line
    assert "promise" not in read_line(entry).to_json()
    with pytest.raises(LineError, match="pooled, placed"):
        read_line({**entry, "promise": "certain"})


def test_an_answer_under_another_level_is_another_answer() -> None:
    """The check of a plan against its workload looks at the level that was requested."""
    line = read_line({"id": "r", "rdl": "atom(<1 cpu>, 1, 1, 10, 10)", "promise": "pooled"})
    document = {"reservations": [], "refusals": [{**line.to_json(), "expression": ""}]}

    def places(asked: WorkloadLine) -> list[str]:
        return [one.where for one in asked_violations(document, [asked])]

    assert "/refusals/0/promise" not in places(line)
    assert "/refusals/0/promise" in places(replace(line, promise=None))
    assert "/refusals/0/promise" in places(replace(line, promise=PLACED))
