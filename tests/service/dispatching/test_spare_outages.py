"""Spare machines: as many as were lost at once, free of promises, and given up for lost ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.cluster.calendar import LOST_MS
from planner.cluster.cluster import SPARE, Cluster, Outage
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Reconfigure
from planner.promise import PromiseLevel
from service.dispatching.machine_watch import outages_with_spares
from tests.builders import a_cluster, a_plan, a_request, ask, commit

#: Two of four machines were lost for half of the hundred seconds until now.
_PAST = Outage("m", (0, 1), 0, 50_000, "loss")
_NOW_MS = 100_000


def _cluster(*outages: Outage, spare: float = 0.9, machines: int = 4) -> Cluster:
    cluster = a_cluster().horizon(200).machines("m", machines, cpu=4).build()
    policy = replace(cluster.dispatch, spare=spare)
    return replace(cluster, promise=PromiseLevel.PLACED, outages=outages, dispatch=policy)


def _plan(cluster: Cluster, *requests: str) -> Plan:
    plan = a_plan(replace(cluster, outages=())).build()
    commit(plan, Advance(100, 300))
    for number, text in enumerate(requests):
        ask(plan, a_request(f"r{number}", text).on(plan.cluster))
    commit(plan, Reconfigure(cluster))
    return plan


def _spares(plan: Plan, cluster: Cluster) -> list[tuple[int, int]]:
    found = outages_with_spares(plan, cluster, _NOW_MS)
    assert tuple(one for one in found if one.kind != SPARE) == tuple(
        one for one in cluster.outages if one.kind != SPARE
    )
    assert all(one.end_ms - one.start_ms == LOST_MS for one in found if one.kind == SPARE)
    return [(one.indices[0], one.start_ms) for one in found if one.kind == SPARE]


def test_as_many_are_kept_free_as_were_lost_at_once() -> None:
    """The next look changes nothing."""
    cluster = _cluster(_PAST)
    plan = _plan(cluster)
    assert _spares(plan, cluster) == [(2, _NOW_MS), (3, _NOW_MS)]
    there = replace(cluster, outages=outages_with_spares(plan, cluster, _NOW_MS))
    assert outages_with_spares(plan, there, _NOW_MS + 1000) == there.outages


@pytest.mark.parametrize(
    ("cluster", "count"),
    [
        (_cluster(), 0),
        (_cluster(_PAST, spare=0.0), 0),
        (_cluster(_PAST, spare=0.4), 0),
        (_cluster(_PAST, machines=3), 1),  # at most half of them
        (_cluster(_PAST, Outage("m", (3,), 90_000, LOST_MS, "loss")), 1),  # one is lost now
    ],
)
def test_how_many(cluster: Cluster, count: int) -> None:
    """What the policy asks for, less those that are lost."""
    assert len(_spares(_plan(cluster), cluster)) == count


def test_a_lost_machine_is_made_up_for_in_the_same_change() -> None:
    """The one spare machine takes promises; it is spare again once the other is back."""
    cluster = _cluster(replace(_PAST, indices=(0,)))
    plan = _plan(cluster)
    (spare,) = (one for one in outages_with_spares(plan, cluster, _NOW_MS) if one.kind == SPARE)
    assert spare.indices == (3,)
    lost = Outage("m", (2,), _NOW_MS, _NOW_MS + LOST_MS, "loss")
    now = replace(cluster, outages=(*cluster.outages, spare, lost))
    assert _spares(plan, now) == []


def test_what_is_promised_makes_no_way() -> None:
    """A machine begins to be spare when what is placed on it is over, the soonest first."""
    texts = [f"window(atom(<4 cpu>, 1, 1, {length}, {length}), 100, 200)" for length in (30, 60)]
    cluster = _cluster(_PAST, machines=2)
    plan = _plan(cluster, *texts)
    slots, _ = plan.table.slots_after(100)
    ends = {machine: end for _, end, _, machine in slots.tolist()}
    (found,) = _spares(plan, cluster)
    assert found[1] == 1000 * min(ends.values())
    assert ends[found[0]] == min(ends.values())


def test_what_is_promised_on_no_machine_makes_no_way() -> None:
    """It may stand on any, so that all machines are spare after it at the soonest."""
    cluster = replace(_cluster(_PAST), promise=PromiseLevel.POOLED)
    plan = _plan(cluster, "window(atom(<1 cpu>, 1, 1, 30, 30), 100, 200)")
    found = plan.reservation("r0")
    assert found is not None
    end_ms = 1000 * int(found.atoms[0].rows[-1, 1])
    assert [start_ms for _, start_ms in _spares(plan, cluster)] == [end_ms, end_ms]


def test_an_outage_to_come_takes_no_spare_machine_away() -> None:
    """Maintenance of all of them in an hour."""
    later = Outage("m", (0, 1, 2, 3), 3_700_000, 7_300_000)
    cluster = _cluster(_PAST, later)
    assert _spares(_plan(cluster), cluster) == [(2, _NOW_MS), (3, _NOW_MS)]


def test_there_is_none_while_a_promise_waits_for_capacity() -> None:
    """All four machines are promised, and one is taken away."""
    cluster = _cluster(_PAST)
    plan = _plan(cluster, "window(atom(<4 cpu>, 4, 4, 50, 200), 100, 150)")
    gone = replace(cluster, outages=(*cluster.outages, Outage("m", (0,), 0, 300_000, "drain")))
    commit(plan, Reconfigure(gone))
    degraded = _degrade(plan)
    assert degraded
    assert _spares(plan, gone) == []


def _degrade(plan: Plan) -> bool:
    from tests.planner.adaptation.events import adapt_now

    adapt_now(plan)
    found = plan.reservation("r0")
    assert found is not None
    return found.state.value == "degraded"
