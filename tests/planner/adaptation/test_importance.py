"""Priority, then value: who gives way when machines go, and who comes back first."""

from __future__ import annotations

from dataclasses import replace

from planner.adaptation.drain import least_held
from planner.adaptation.result import Adaptation
from planner.cluster.cluster import Cluster, Outage
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Reconfigure
from planner.reservations.state import State
from tests.builders import a_cluster, a_plan, a_request, commit
from tests.planner.adaptation.events import adapt_now, violations
from tests.planner.displacement.small_plans import displace_now

HORIZON = 24


def _cluster(machines: int, cpu: int, *, displacing: str | None = None) -> Cluster:
    builder = a_cluster().horizon(HORIZON).machines("m", machines, cpu=cpu)
    builder = type(builder)({**builder.document, "promises": {"level": "placed"}})
    builder = builder.queue("default").queue("prod")
    return (
        builder
        if displacing is None
        else builder.policy("displacement", queue=displacing, running=True)
    ).build()


def _bundles(cpu: int, count: int, start: int, end: int) -> str:
    length = end - start
    return (
        f"window(atom(<{cpu} cpu>, {count}, {count}, {length}, {count * length}), {start}, {end})"
    )


def _lose(plan: Plan, *indices: int) -> Adaptation:
    outage = Outage("m", indices, 0, HORIZON * 1000)
    commit(plan, Reconfigure(replace(plan.cluster, outages=(outage,))))
    return adapt_now(plan)


def _restore_machines(plan: Plan) -> Adaptation:
    commit(plan, Reconfigure(replace(plan.cluster, outages=())))
    return adapt_now(plan)


def _degraded(plan: Plan) -> set[str]:
    return {one.id for one in plan.reservations() if one.state is State.DEGRADED}


def _machine_of(plan: Plan, id_: str) -> int:
    found = plan.reservation(id_)
    assert found is not None
    assert found.atoms[0].slots is not None
    return int(found.atoms[0].slots[0, 3])


def test_of_four_equal_reservations_the_lowest_priority_loses_its_machine() -> None:
    """Whichever machine goes, and though the important one came last."""
    cluster = _cluster(4, 8)
    asked = [("low1", 1), ("low2", 2), ("low3", 3), ("high", 10)]
    requests = [
        a_request(id_, _bundles(8, 1, 10, 14)).priority(rank).on(cluster) for id_, rank in asked
    ]
    for machine in range(4):
        plan = a_plan(cluster).holding(*requests).build()
        _lose(plan, machine)
        assert _degraded(plan) == {"low1"}
        assert violations(plan) == []
        _lose(plan, machine, (machine + 1) % 4)
        assert _degraded(plan) == {"low1", "low2"}
        _restore_machines(plan)
        assert _degraded(plan) == set()


def test_priority_counts_before_any_value() -> None:
    """Two of four machines are lost: the cheap one of priority 0 is worth more, and gives way."""
    cluster = _cluster(4, 10)
    production = a_request("prodjob", _bundles(10, 2, 10, 20)).priority(100).on(cluster)
    cheap = a_request("cheap", _bundles(10, 2, 10, 20)).weight(1.01).on(cluster)
    plan = a_plan(cluster).holding(production, cheap).build()
    _lose(plan, 2, 3)
    assert _degraded(plan) == {"cheap"}
    assert violations(plan) == []


def test_what_is_not_hit_gives_way_to_a_higher_priority_that_lost_its_machine() -> None:
    """Totals suffice, but the machine that is left for the large bundle is another one's."""
    cluster = _cluster(3, 8)
    requests = [
        a_request("high", _bundles(8, 1, 4, 8)).priority(5).on(cluster),
        a_request("low1", _bundles(3, 1, 4, 8)).weight(50).on(cluster),
        a_request("low2", _bundles(6, 1, 4, 8)).weight(50).priority(1).on(cluster),
    ]
    plan = a_plan(cluster).holding(*requests).build()
    apart = {_machine_of(plan, one.id) for one in requests}
    assert len(apart) == 3
    _lose(plan, _machine_of(plan, "high"))
    assert _degraded(plan) == {"low1"}
    assert violations(plan) == []


def test_the_higher_priority_comes_back_first() -> None:
    """Both are degraded; one machine comes back, and the cheap one of more value waits."""
    cluster = _cluster(2, 8)
    requests = [
        a_request("dear", _bundles(8, 1, 10, 14)).weight(9).on(cluster),
        a_request("urgent", _bundles(8, 1, 10, 14)).priority(3).on(cluster),
    ]
    plan = a_plan(cluster).holding(*requests).build()
    _lose(plan, 0, 1)
    assert _degraded(plan) == {"dear", "urgent"}
    _lose(plan, 1)
    assert _degraded(plan) == {"dear"}


def _degrade_production(displacing: str | None) -> Plan:
    """Return a Plan in which `production` is degraded, and `cheap` has come in since."""
    cluster = _cluster(2, 10, displacing=displacing)
    production = a_request("production", _bundles(10, 2, 10, 20)).priority(9).queue("prod")
    plan = a_plan(cluster).holding(production.on(cluster)).build()
    _lose(plan, 0, 1)
    assert _degraded(plan) == {"production"}
    # Both machines come back, and before the adapter looks another request takes one of them.
    commit(plan, Reconfigure(replace(plan.cluster, outages=())))
    cheap = a_request("cheap", _bundles(10, 1, 10, 20)).on(plan.cluster)
    assert displace_now(plan, cheap) is not None or plan.reservation("cheap") is not None
    return plan


def test_a_degraded_reservation_displaces_as_its_own_submission_could() -> None:
    """Its queue displaces: it gets its place back by itself, and the other's owner is told why."""
    plan = _degrade_production("prod")
    found = adapt_now(plan)
    assert _degraded(plan) == {"cheap"}
    assert {one.id: one.fate.value for one in found.affected} == {
        "production": "restored",
        "cheap": "degraded",
    }
    cheap = plan.reservation("cheap")
    assert cheap is not None
    assert cheap.degradation is not None
    assert cheap.degradation.reason == "displaced by production, of higher priority"
    assert violations(plan) == []
    assert adapt_now(plan).changes == ()


def test_a_degraded_reservation_that_may_not_displace_waits() -> None:
    """The policy is for another queue."""
    plan = _degrade_production("default")
    adapt_now(plan)
    assert _degraded(plan) == {"production"}


def test_a_drain_takes_the_machine_of_the_lowest_priority() -> None:
    """Less work of a high priority weighs more than much of a low one."""
    cluster = _cluster(2, 8)
    requests = [
        a_request("high", _bundles(8, 1, 4, 6)).priority(1).on(cluster),
        a_request("low", _bundles(8, 1, 4, 16)).on(cluster),
    ]
    plan = a_plan(cluster).holding(*requests).build()
    commit(plan, Advance(1))
    assert _machine_of(plan, "high") != _machine_of(plan, "low")
    drain = least_held(plan, cluster, Outage("m", (1,), 0, HORIZON * 1000, "drain"))
    assert drain.indices == (_machine_of(plan, "low"),)
