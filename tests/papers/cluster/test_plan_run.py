"""run_plan: a Plan carried out to its end, with and without machines of its own."""

from __future__ import annotations

from bench.papers.cluster.plan_run import run_plan
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from tests.builders import a_cluster
from tests.dispatch.cycle.slot_world import promised_machines, reserve
from tests.dispatch.cycle.world import an_application

#: Three machines of ten cores; the pool has 30, but no two gangs of six and eight fit alongside.
_CLUSTER = promised_machines(a_cluster().machines("m", 3, cpu=10).build())
_GANGS = ("atom(<6 cpu>, 3, 3, 60, 180)", "atom(<8 cpu>, 1, 1, 60, 60)")


def _plan(promise: PromiseLevel) -> Plan:
    plan = Plan(_CLUSTER, _CLUSTER.grid())
    for number, gang in enumerate(_GANGS * 3):
        reserve(plan, f"r{number}", f"window({gang}, 0, 360)", promise)
    return plan


def test_machines_that_were_promised_are_there_for_the_work() -> None:
    """Every promise is kept, whatever best effort does."""
    run = run_plan(_plan(PromiseLevel.PLACED), [an_application("rest", 1, 40)])
    assert run.reservations >= 5
    assert run.broken == frozenset()


def test_totals_alone_are_not_kept_for_all() -> None:
    """The same requests, promised totals: some gang finds no machines when it is its turn."""
    run = run_plan(_plan(PromiseLevel.POOLED), [an_application("rest", 1, 40)])
    assert run.broken
