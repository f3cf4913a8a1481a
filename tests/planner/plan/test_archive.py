"""What has ended leaves a Plan, and nothing else changes."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.changes import Archive
from planner.plan.records.commit_records import CommitRecord
from planner.reservations.state import LIVE
from tests.planner.plan.plan_steps import CLUSTER, assert_same, step


def archive(plan: Plan, ids: list[str]) -> bool:
    """Let ids leave, by a record as the log holds it; return whether they did."""
    record = plan.prepare([Archive(tuple(ids))], plan.version).record
    if record is None:
        return False
    body = msgspec.json.encode(record.to_json())
    plan.apply(CommitRecord.from_json(msgspec.json.decode(body)))
    return True


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 8), max_size=30), st.lists(st.integers(0, 8), max_size=8))
def test_the_others_stay_as_they_are(before: list[int], after: list[int]) -> None:
    """All that is over leaves; the rest reads and continues as where nothing left, restored too."""
    plan = Plan(CLUSTER, CLUSTER.grid())
    for number, action in enumerate(before):
        step(plan, action, number)
    for _ in range(30):
        step(plan, 8, 50)
    whole = plan.copy()
    table = plan.table
    over = [table.id_of(n) for n in table.ended_before(plan.past_until, 10**9).tolist()]
    refused = [one.id for one in plan.refusals]

    gone = archive(plan, [*over, *refused])

    assert gone == bool(over or refused)
    left = {one.id: one for one in plan.reservations()}
    assert not set(over) & set(left)
    for one in whole.reservations():
        if one.id in left:
            assert left[one.id].to_json(plan.grid, history=True) == one.to_json(
                whole.grid, history=True
            )
    assert list(left) == [one.id for one in whole.reservations() if one.id in left]
    assert_same(plan, read_checkpoint(take_checkpoint(plan).encode()))
    other = read_checkpoint(take_checkpoint(plan).encode())
    for number, action in enumerate((*after, 0, 8, 4)):
        if action not in (6, 7):  # they choose by the number of reservations
            for one in (plan, other, whole):
                step(one, action, 100 + number)
    assert_same(plan, other)
    for one in whole.reservations():
        found = plan.reservation(one.id)
        assert (found is None) == (one.id in over)
        if found is not None:
            assert found.to_json(plan.grid) == one.to_json(whole.grid)


def test_what_lives_stays() -> None:
    """A reservation that holds or waits does not leave, and is reported by name."""
    plan = Plan(CLUSTER, CLUSTER.grid())
    step(plan, 0, 0)
    prepared = plan.prepare([Archive(("r0",))], plan.version)
    assert prepared.record is None
    assert prepared.conflicts[0].detail == "it is accepted, not past"
    assert plan.prepare([Archive(("nobody",))], plan.version).record is None


def test_places_in_a_list_stay_when_others_leave() -> None:
    """The ordinal of a reservation is that of its admission, before and after a restart."""
    plan = Plan(CLUSTER, CLUSTER.grid())
    for number, action in enumerate((0, 4, 0, 4)):
        step(plan, action, number)
    step(plan, 6, 0)
    table = plan.table
    assert plan.table.state(0) not in LIVE
    for _ in range(40):
        step(plan, 8, 50)

    assert archive(plan, ["r0"])

    assert table.number_of("r1") == 1  # anyone who has the table of before continues with it
    other = read_checkpoint(take_checkpoint(plan).encode())
    for one in (plan.table, other.table):
        assert [one.ordinal(n) for n in range(4)] == [1, 2, 3, 4]
        assert [one.number_at(n) for n in range(5)] == [0, 0, 1, 2, 3]
