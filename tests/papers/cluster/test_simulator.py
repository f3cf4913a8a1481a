"""The cluster-level event loop: exact oracles, conservation of work, order of events."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.cluster.baselines import SCHEDULERS, Scheduler, scheduler_named
from bench.papers.cluster.simulator import simulate_cluster
from bench.papers.cluster.workload import Submission, WorkModel
from bench.papers.zoe_runs import zoe_example
from dispatch.pool.claims import Claim, ClaimPart
from dispatch.pool.ordering import ordering_named


def test_the_six_averages_of_the_worked_example_are_exact() -> None:
    """Rigid, malleable, flexible under both work models, as fractions; and both last ends."""
    example = zoe_example()
    averages = {(row.model, row.scheduler): row.average_turnaround_s for row in example.rows}
    assert averages == {
        ("C + x", "rigid"): 25,
        ("C + x", "malleable"): 20,
        ("C + x", "flexible"): Fraction("19.25"),
        ("C - 2 + x", "rigid"): 25,
        ("C - 2 + x", "malleable"): Fraction("21.875"),
        ("C - 2 + x", "flexible"): Fraction("21.875"),
    }
    last = {(row.model, row.scheduler): row.last_end_s for row in example.rows}
    assert last["C - 2 + x", "malleable"] == 35
    assert last["C - 2 + x", "flexible"] == Fraction("33.5")


@st.composite
def submissions(draw: st.DrawFn, *, only_core: bool = False) -> list[Submission]:
    """Up to eight submissions of whole numbers on a pool of ten units."""
    found, at = [], 0
    for index in range(draw(st.integers(1, 8))):
        at += draw(st.integers(0, 4))
        elastic = 0 if only_core else draw(st.integers(0, 12))
        run = draw(st.integers(1, 9))
        claim = Claim(
            f"s{index}",
            (ClaimPart(draw(st.integers(1, 11)), (1,)),),
            (ClaimPart(elastic, (1,)),) if elastic else (),
            float(at),
            float(run),
            draw(st.integers(0, 1)),
        )
        found.append(Submission(claim, Fraction(at), Fraction(run)))
    return found


_orders = st.sampled_from(["fifo", "fifo-backfill", "psjf", "srpt-2d2", "hrrn-3d", "drf"])


@settings(max_examples=60)
@given(st.sampled_from(SCHEDULERS), _orders, st.sampled_from(WorkModel), submissions())
def test_work_is_conserved(
    name: str, order: str, model: WorkModel, given_: list[Submission]
) -> None:
    """What each execution did, summed over the time it ran, is its work, to the last fraction."""
    scheduler = scheduler_named(name, {"u": 10}, ordering_named(order))
    done: dict[str, Fraction] = {}
    last: list[float] = [0.0]
    rates: dict[str, int] = {}
    claims = {one.claim.name: one.claim for one in given_}

    def observe(now: float, pool: Scheduler) -> None:
        for running, rate in rates.items():
            done[running] = done.get(running, Fraction(0)) + rate * Fraction(now - last[0])
        last[0] = now
        rates.clear()
        for running in pool.service_order():
            core = sum(part.count for part in claims[running].core)
            rates[running] = model.rate(core, sum(pool.grants_of(running)))

    run = simulate_cluster(given_, scheduler, model, observe)
    for outcome in run.outcomes:
        claim = outcome.submission.claim
        if outcome.ended is None:
            assert not scheduler.can_ever_fit(claim)
            continue
        assert outcome.started is not None
        assert outcome.submission.at <= outcome.started < outcome.ended
        sizes = [sum(part.count for part in parts) for parts in (claim.core, claim.elastic)]
        work = outcome.submission.run * model.rate(*sizes)
        # Observed at float times; the loop itself is exact.
        assert float(done[claim.name]) == pytest.approx(float(work), rel=1e-9)
        assert outcome.slowdown >= 1.0 - 1e-12


@given(_orders, submissions(only_core=True))
def test_only_core_applications_end_the_same_way_under_flexible_and_rigid(
    order: str, given_: list[Submission]
) -> None:
    """Every start and end is equal, exactly (D5.2, table 10.4a)."""
    runs = [
        simulate_cluster(given_, scheduler_named(name, {"u": 10}, ordering_named(order)))
        for name in ("flexible", "rigid")
    ]
    assert runs[0].outcomes == runs[1].outcomes


def test_alone_an_application_takes_its_run_time() -> None:
    """With everything granted the slowdown is one, and no one queues."""
    one = Submission(Claim("a", (ClaimPart(2, (1,)),), (ClaimPart(7, (1,)),), 5.0, 3.0), 5.0, 3.0)
    for name in SCHEDULERS:
        outcome = simulate_cluster([one], scheduler_named(name, {"u": 10})).outcomes[0]
        assert (outcome.started, outcome.ended, outcome.slowdown) == (5.0, 8.0, 1.0)


def test_an_end_comes_before_an_arrival_of_the_same_instant() -> None:
    """The arrival at 3 starts at 3 in the room freed at 3; submissions out of order are misuse."""
    first = Submission(Claim("a", (ClaimPart(10, (1,)),), (), 0.0, 3.0), 0, 3)
    second = Submission(Claim("b", (ClaimPart(10, (1,)),), (), 3.0, 1.0), 3, 1)
    run = simulate_cluster([first, second], scheduler_named("flexible", {"u": 10}))
    assert run.outcomes[1].started == 3
    assert all(sample.waiting == 0 for sample in run.samples)
    with pytest.raises(ValueError, match="not in order"):
        simulate_cluster([second, first], scheduler_named("flexible", {"u": 10}))
