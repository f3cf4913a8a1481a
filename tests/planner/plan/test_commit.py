"""Commits: merged when they still fit, conflicts when not, all or nothing when asked."""

from __future__ import annotations

import json

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.placement import Binding, Code, PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import (
    Admit,
    Advance,
    Cancel,
    Committed,
    Conflict,
    Reconfigure,
    Refuse,
    UncompiledRequest,
    Update,
)
from planner.plan.records.commit_records import CommitRecord
from planner.request import Request
from tests.builders import a_cluster, a_plan, a_request, commit

CLUSTER = a_cluster().horizon(10).machines("m", 4, cpu=1).build()
GREE = agent_named("gree")


def _request(id_: str, height: int, end: int = 10, cluster: object = CLUSTER) -> Request:
    text = f"window(atom(<1 cpu>, {height}, {height}, 2, {2 * height}), 0, {end})"
    return a_request(id_, text).on(CLUSTER)


def _empty() -> Plan:
    return Plan(CLUSTER, CLUSTER.grid())


def _placed(plan: Plan, *requests: Request) -> list[Admit]:
    """Place each alone, all on the present view, as separate planners would."""
    view = plan.view()
    return [Admit(r, GREE.plan([r], view, Limits())[0], "gree") for r in requests]


def test_a_commit_that_still_fits_is_merged() -> None:
    """Two planners decide on version 0; the second fits alongside the first."""
    plan = _empty()
    first, second = _placed(plan, _request("a", 2), _request("b", 2))
    commit(plan, first)
    prepared = plan.prepare([second], based_on=0)
    assert prepared.outcomes == (Committed(0, "b"),)
    assert prepared.record is not None
    plan.apply(prepared.record)
    assert plan.version == 2


def test_a_commit_that_no_longer_fits_is_a_conflict_with_what_and_where() -> None:
    """Step, resource, needed and free are named."""
    plan = _empty()
    first, second = _placed(plan, _request("a", 3), _request("b", 2))
    commit(plan, first)
    prepared = plan.prepare([second], based_on=0)
    assert prepared.record is None
    outcome = prepared.outcomes[0]
    assert isinstance(outcome, Conflict)
    assert outcome.code is Code.CAPACITY
    assert outcome.binding == Binding("0", "capacity", 8, "cpu", 2000, 1000)


def test_prepare_changes_nothing() -> None:
    """It may be asked any number of times with the same answer."""
    plan = _empty()
    changes = _placed(plan, _request("a", 3), _request("b", 1))
    before = plan.view().free.copy()
    first = plan.prepare(changes, 0)
    second = plan.prepare(changes, 0)
    assert (plan.view().free == before).all()
    assert plan.version == 0
    assert first.record is not None
    assert second.record is not None
    assert first.record.to_json() == second.record.to_json()


def test_takings_are_those_of_a_record_of_admissions_alone() -> None:
    """With them or without, a record makes the same Plan; a record of other changes has none."""
    plan = _empty()
    changes = _placed(plan, _request("a", 3), _request("b", 1))
    prepared = plan.prepare(changes, 0)
    assert prepared.record is not None
    assert prepared.takings is not None
    other = plan.copy()
    plan.apply(prepared.record, prepared.takings)
    other.apply(prepared.record)
    assert (plan.view().free == other.view().free).all()
    mixed = plan.prepare([*_placed(plan, _request("c", 1)), Cancel("a")], 1)
    assert mixed.record is not None
    assert mixed.takings is None
    plan.apply(mixed.record, prepared.takings)
    other.apply(mixed.record)
    assert (plan.view().free == other.view().free).all()


def test_each_change_of_a_batch_sees_those_before_it() -> None:
    """Four cores hold two of the three pairs that were each placed alone."""
    plan = _empty()
    changes = _placed(plan, _request("a", 2), _request("b", 2), _request("c", 2))
    prepared = plan.prepare(changes, 0)
    assert [type(one) for one in prepared.outcomes] == [Committed, Committed, Conflict]
    assert prepared.record is not None
    assert len(prepared.record.changes) == 2


def test_all_or_nothing_is_nothing_when_one_is_in_conflict() -> None:
    """Every outcome is still told."""
    plan = _empty()
    changes = _placed(plan, _request("a", 3), _request("b", 3))
    prepared = plan.prepare(changes, 0, atomic=True)
    assert prepared.record is None
    assert [type(one) for one in prepared.outcomes] == [Committed, Conflict]


def test_what_a_batch_releases_serves_those_after_it() -> None:
    """Cancel and admit in one commit."""
    cluster_full = a_plan(CLUSTER).holding(_request("a", 4, end=2)).build()
    change = _placed(_empty(), _request("b", 4, end=2))[0]
    assert cluster_full.prepare([change], 1).record is None
    assert not commit(cluster_full, Cancel("a"), change).conflicts


def test_an_id_is_given_once() -> None:
    """Within a batch and across commits."""
    plan = _empty()
    one = _placed(plan, _request("a", 1))[0]
    prepared = commit(plan, one, one)
    assert prepared.conflicts[0].code is Code.DUPLICATE_ID
    assert commit(plan, one).conflicts[0].code is Code.DUPLICATE_ID


def test_a_stale_revision_is_a_conflict() -> None:
    """Whoever updates must have seen the present revision."""
    plan = a_plan(CLUSTER).holding(_request("a", 1)).build()
    request = _request("a", 2)
    result = GREE.plan([request], plan.view_without(["a"]), Limits())[0]
    assert not commit(plan, Update("a", 1, request, result, "gree")).conflicts
    stale = commit(plan, Update("a", 1, request, result, "gree"))
    assert stale.conflicts[0].detail == "it is at revision 2, not 1"


def test_a_placement_that_the_clock_has_overtaken_is_a_conflict() -> None:
    """A slow planner may not write into the past."""
    plan = _empty()
    change = _placed(plan, _request("a", 1, end=4))[0]
    commit(plan, Advance(5))
    assert plan.prepare([change], 0).outcomes[0] == Conflict(
        0, "a", Code.CONFLICT, "the plan has moved past its first step; plan it again"
    )


def test_changing_what_is_not_there_is_a_conflict() -> None:
    """And it says so."""
    assert "no reservation 'x'" in commit(_empty(), Cancel("x")).conflicts[0].detail


def test_admitting_a_refusal_is_misuse() -> None:
    """A caller that mixes the two has a fault of its own."""
    with pytest.raises(ValueError, match="commit it with Refuse"):
        commit(_empty(), Admit(_request("a", 1), PlacementResult(Code.CAPACITY), "gree"))


def test_the_clock_takes_a_commit_of_its_own() -> None:
    """What follows in the same batch would be judged against the wrong present."""
    with pytest.raises(ValueError, match="commit of its own"):
        commit(_empty(), Advance(1), Cancel("x"))


def test_fit_caps_are_rechecked() -> None:
    """The pool has the cores, no machine has capacity for this many bundles."""
    cluster = a_cluster().horizon(10).machines("m", 4, cpu=3).build()
    wide = a_cluster().horizon(10).machines("m", 1, cpu=12).build()
    request = a_request("a", "window(atom(<2 cpu>, 5, 5, 2, 10), 0, 10)").on(wide)
    result = GREE.plan([request], Plan(wide, wide.grid()).view(), Limits())[0]
    assert result.placed
    outcome = commit(Plan(cluster, cluster.grid()), Admit(request, result, "gree")).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert outcome.binding == Binding("0", "fit", 8, None, 5, 4)


def test_every_record_survives_json() -> None:
    """to_json and from_json are a round trip for each kind of change, as text."""
    plan = a_plan(CLUSTER).holding(_request("a", 1), _request("b", 1)).build()
    text = "window(every(5, atom(<1 cpu>, 1, 1, 1, 1), times=2), 0, 10)"
    recurring = a_request("e", text).on(CLUSTER)
    request = _request("a", 2)
    asked = UncompiledRequest("m", "t", "q", 5, 1.0, 0, "atom(")
    binding = Binding("0.1", "capacity", 3, "cpu", 5, -2, None)
    updated = GREE.plan([request], plan.view_without(["a"]), Limits())[0]
    batches = [
        [
            *_placed(plan, recurring),
            Refuse(asked, Code.MALFORMED, "no", binding, ({"expression": "x"},)),
            Update("a", 1, request, updated, "gree"),
            Cancel("b"),
        ],
        [Advance(1, 15)],
        [Reconfigure(CLUSTER)],
    ]
    for batch in batches:
        record = commit(plan, *batch).record
        assert record is not None
        written = json.dumps(record.to_json())
        assert json.dumps(CommitRecord.from_json(json.loads(written)).to_json()) == written


def test_a_record_is_compact() -> None:
    """An admission of one atom takes less than 400 bytes of JSON."""
    record = commit(_empty(), *_placed(_empty(), _request("a", 1))).record
    assert record is not None
    assert len(json.dumps(record.to_json(), separators=(",", ":"))) < 400
