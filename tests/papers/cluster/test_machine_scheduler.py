"""The core/elastic algorithm over machines: as the pool where one machine is all, and apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.papers.cluster.baselines import RigidScheduler, Scheduler, scheduler_named
from bench.papers.cluster.machine_fit import Fit, place_some
from bench.papers.cluster.machine_scheduler import MachineScheduler
from bench.papers.cluster.simulator import simulate_cluster
from bench.papers.cluster.workload import Submission
from dispatch.pool.claims import Claim, ClaimPart, GrantRule
from dispatch.pool.ordering import ORDERINGS, ordering_named

MACHINE = {"cpu": 10, "memory": 10}
FIFO = ORDERINGS["fifo"]


def _claim(
    name: str, core: int, elastic: int, amounts: tuple[int, int], at: float = 0.0, run: float = 10.0
) -> Claim:
    parts = (ClaimPart(elastic, amounts),) if elastic else ()
    return Claim(name, (ClaimPart(core, amounts),), parts, at, run)


@st.composite
def submissions(draw: st.DrawFn) -> list[Submission]:
    """Return up to 12 applications, at times of their own."""
    found = []
    at = 0.0
    for index in range(draw(st.integers(1, 12))):
        at += draw(st.floats(0.01, 8.0))
        run = draw(st.floats(1.0, 20.0))
        amounts = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
        core, elastic = draw(st.integers(1, 3)), draw(st.integers(0, 4))
        found.append(Submission(_claim(f"a{index}", core, elastic, amounts, at, run), at, run))
    return found


def _ends(work: Sequence[Submission], scheduler: Scheduler) -> list[tuple[object, object]]:
    return [(one.started, one.ended) for one in simulate_cluster(work, scheduler).outcomes]


@given(work=submissions(), order=st.sampled_from(["fifo", "sjf"]), fit=st.sampled_from(Fit))
def test_on_one_machine_every_rule_is_that_of_the_pool(
    work: list[Submission], order: str, fit: Fit
) -> None:
    """Every start and every end: with one machine there is nothing to fit."""
    ordering = ORDERINGS[order]
    for preemptive in (False, True):
        chosen = ordering_named(order, preemptive=preemptive)
        machines = MachineScheduler(MACHINE, 1, chosen, fit=fit)
        pool = scheduler_named("rigid", MACHINE, chosen)
        assert _ends(work, RigidScheduler(MACHINE, chosen, machines)) == _ends(work, pool)
        machines = MachineScheduler(MACHINE, 1, chosen, fit=fit)
        assert _ends(work, machines) == _ends(work, scheduler_named("flexible", MACHINE, chosen))
    machines = MachineScheduler(MACHINE, 1, ordering, GrantRule.MALLEABLE, fit)
    assert _ends(work, machines) == _ends(work, scheduler_named("malleable", MACHINE, ordering))


@given(
    work=submissions(),
    order=st.sampled_from(["fifo", "sjf", "psjf"]),
    fit=st.sampled_from(Fit),
    machines=st.integers(1, 3),
)
def test_what_is_granted_is_held_and_all_applications_end(
    work: list[Submission], order: str, fit: Fit, machines: int
) -> None:
    """No machine ever holds more than it is, and free capacity adds up at every event."""
    scheduler = MachineScheduler(MACHINE, machines, ORDERINGS[order], fit=fit)

    def look(now: float, seen: Scheduler) -> None:
        held = np.zeros(2, dtype=np.int64)
        claims = {one.claim.name: one.claim for one in work}
        for name in seen.service_order():
            claim = claims[name]
            counts = [*(part.count for part in claim.core), *seen.grants_of(name)]
            parts = [*claim.core, *claim.elastic]
            for part, count in zip(parts, counts, strict=True):
                held += count * np.array(part.amounts)
        free = seen.free()
        assert [free["cpu"], free["memory"]] == (10 * machines - held).tolist()
        assert min(free.values()) >= 0

    run = simulate_cluster(work, scheduler, observer=look)
    fits = [scheduler.can_ever_fit(one.claim) for one in work]
    assert [one.ended is not None for one in run.outcomes] == fits
    assert scheduler.free() == {"cpu": 10 * machines, "memory": 10 * machines}


def test_a_component_does_not_lie_across_machines() -> None:
    """Three of 6 need 18 of 20, but two machines of 10 hold one each; the pool starts them."""
    claim = _claim("wide", 3, 0, (6, 1))
    assert not MachineScheduler(MACHINE, 2, FIFO).can_ever_fit(claim)
    assert scheduler_named("flexible", {"cpu": 20, "memory": 20}, FIFO).can_ever_fit(claim)


def test_capacity_in_pieces_keeps_the_next_out() -> None:
    """By hand: two cores of 6 leave 4 and 4, so that one of 7 waits until the first leaves."""
    scheduler = MachineScheduler(MACHINE, 2, FIFO)
    scheduler.arrive(_claim("a", 1, 0, (6, 1)), 0.0)
    scheduler.arrive(_claim("b", 1, 0, (6, 1)), 1.0)
    assert scheduler.arrive(_claim("c", 1, 0, (7, 1)), 2.0) == ()
    assert scheduler.queue() == ("c",)
    assert [grant.name for grant in scheduler.depart("a", 3.0)] == ["c"]


def test_elastic_components_give_way_to_cores() -> None:
    """By hand: of 5 elastic components of 4 alongside a core of 4, two machines hold 3, then 1."""
    scheduler = MachineScheduler(MACHINE, 2, ordering_named("psjf"))
    assert scheduler.arrive(_claim("a", 1, 5, (4, 1), run=10.0), 0.0)[0].granted == (3,)
    changed = scheduler.arrive(_claim("b", 2, 0, (4, 1), run=5.0), 1.0)
    assert [(grant.name, grant.granted) for grant in changed] == [("b", ()), ("a", (1,))]


def test_best_fit_fills_a_machine_and_worst_fit_spreads() -> None:
    """Three components of 2 on machines of 10, 6 and 8."""
    whole, amounts = np.array([10]), np.array([2])
    for fit, taken in ((Fit.BEST, [0, 6, 0]), (Fit.WORST, [4, 0, 2])):
        free, found = np.array([[10], [6], [8]]), np.zeros((3, 1), dtype=np.int64)
        assert place_some(free, whole, amounts, 3, int(fit), found) == 3
        assert found[:, 0].tolist() == taken
        assert (free + found)[:, 0].tolist() == [10, 6, 8]


@pytest.mark.parametrize("order", ["srpt", "hrrn", "drf", "sjf-2d", "fifo-backfill"])
def test_orders_that_change_with_time_are_refused(order: str) -> None:
    """Only first come and least run time stand on machines."""
    with pytest.raises(ValueError, match="use fifo or sjf"):
        MachineScheduler(MACHINE, 2, ORDERINGS[order])


def test_rules_that_are_not_there_are_refused() -> None:
    """Growth alone, malleable with preemption, and another total."""
    with pytest.raises(ValueError, match="malleable without preemption"):
        MachineScheduler(MACHINE, 2, FIFO, GrantRule.GROW_ONLY)
    with pytest.raises(ValueError, match="malleable without preemption"):
        MachineScheduler(MACHINE, 2, ORDERINGS["psjf"], GrantRule.MALLEABLE)
    with pytest.raises(ValueError, match="does not change"):
        MachineScheduler(MACHINE, 2, FIFO).set_total(MACHINE, 0.0)
