"""Slots that have not begun give way to a new request; what has begun stays."""

from __future__ import annotations

import random

import numpy as np
import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from planner.machines import room
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Cancel, Prepared
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Admitted, Relocated
from planner.validation.validate import validate
from tests.builders import a_request, ask, commit
from tests.planner.plan.plan_json import plan_json

LATE, EARLY = agent_named("gree-l"), agent_named("earliest")


def _cluster(count: int, cores: int = 1, level: str = "placed", horizon: str = "60s") -> Cluster:
    return cluster_from_json(
        {
            "step": "1s",
            "horizon": horizon,
            "promises": {"level": level},
            "machines": [{"name": "m", "count": count, "resources": {"cpu": cores}}],
        }
    )


def _fixed(start: int, end: int, more: str = "") -> str:
    """One bundle for exactly these steps."""
    length = end - start
    return f"window(atom(<1 cpu>, 1, 1, {length}s, {length}s{more}), {start}s, {end}s)"


def _prepared(plan: Plan, name: str, source: str) -> Prepared:
    request = a_request(name, source).on(plan.cluster, plan.grid)
    result = EARLY.plan([request], plan.view(), Limits())[0]
    assert result.placed
    return plan.prepare([Admit(request, result, EARLY.name, planner=EARLY)], plan.version)


def _split_pair() -> Plan:
    """Two machines: one is free before step 20, the other one from then on."""
    plan = Plan(_cluster(2), _cluster(2).grid())
    for name, source in (
        ("early", _fixed(10, 20)),
        ("filler", _fixed(10, 30)),
        ("late", _fixed(20, 30)),
    ):
        ask(plan, a_request(name, source).on(plan.cluster), EARLY)
    commit(plan, Cancel("filler"))
    early, late = plan.reservation("early"), plan.reservation("late")
    assert early is not None
    assert early.atoms[0].slots is not None
    machine = 1 - int(early.atoms[0].slots[0, 3])
    assert late is not None
    elsewhere = Relocated("late", (np.array([[20, 30, 1, machine]]),))
    plan.apply(CommitRecord(plan.version + 1, 0, (elsewhere,)))
    return plan


def test_slots_that_have_not_begun_give_way_in_the_same_commit() -> None:
    """No machine is free over all of [10, 30) until one of the two others moves."""
    plan = _split_pair()
    record = _prepared(plan, "new", _fixed(10, 30)).record
    assert record is not None
    assert [type(one) for one in record.changes] == [Admitted, Relocated]
    again = CommitRecord.from_json(record.to_json())
    assert again.to_json() == record.to_json()
    plan.apply(again)
    assert not validate(plan_json(plan))


@pytest.mark.parametrize(
    ("now", "start", "moved"), [(15, 16, {"late"}), (21, 22, set())], ids=["one", "both"]
)
def test_what_has_begun_stays_where_it_is(now: int, start: int, moved: set[str]) -> None:
    """The earlier one has begun at step 15, so that the later one moves; at step 21 neither."""
    plan = _split_pair()
    commit(plan, Advance(now))
    record = _prepared(plan, "new", _fixed(start, 30)).record
    assert record is not None
    assert {one.id for one in record.changes if isinstance(one, Relocated)} == moved
    plan.apply(record)
    assert not validate(plan_json(plan))


def test_no_one_moves_where_other_changes_are_in_the_batch() -> None:
    """Beside an end of a reservation the others stay; the request is told that machines lack."""
    plan = _split_pair()
    ask(plan, a_request("far", _fixed(40, 50)).on(plan.cluster), EARLY)
    request = a_request("new", _fixed(10, 30)).on(plan.cluster, plan.grid)
    result = EARLY.plan([request], plan.view(), Limits())[0]
    batch = [Cancel("far"), Admit(request, result, EARLY.name)]
    (conflict,) = plan.prepare(batch, plan.version).conflicts
    assert conflict.binding is not None
    assert conflict.binding.kind == "machines"


@pytest.mark.parametrize("has_trees", [True, False], ids=["trees", "lists"])
@pytest.mark.parametrize(("count", "cores"), [(6, 1), (3, 2)])
def test_one_by_one_as_much_is_accepted_as_totals_hold(
    monkeypatch: pytest.MonkeyPatch, count: int, cores: int, *, has_trees: bool
) -> None:
    """Bundles of one shape that never change machine: none is lost to names."""
    if not has_trees:
        monkeypatch.setattr(room, "ROOM_BYTES", 0)
    accepted = {"pooled": 0, "placed": 0}
    for seed in range(6):
        sources = _gangs(random.Random(seed))
        for level in accepted:
            cluster = _cluster(count, cores, level)
            plan = Plan(cluster, cluster.grid())
            for number, source in enumerate(sources):
                ask(plan, a_request(f"r{number}", source).on(cluster), LATE)
            assert not validate(plan_json(plan))
            assert bool(len(plan.room._count)) != has_trees
            accepted[level] += len(list(plan.reservations()))
    assert accepted["pooled"] == accepted["placed"]
    assert accepted["pooled"] < 6 * 60


def _gangs(draw: random.Random) -> list[str]:
    sources = []
    for _ in range(60):
        length, height, start = draw.randint(2, 15), draw.randint(1, 3), draw.randint(0, 40)
        end = min(60, start + length + draw.randint(0, 10))
        atom = f"atom(<1 cpu>, {height}, {height}, {length}s, {height * length}s)"
        sources.append(f"window({atom}, {min(start, end - length)}s, {end}s)")
    return sources
