"""Stage 2 and the whole offline pipeline: hand examples, tables, modes against each other."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lp.limits import SolveLimits
from lp.lotes import assignment
from lp.lotes.allocation import allocate
from lp.lotes.assignment import Bins, assign, largest_remainder
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.pipeline import LotesOptions, paired_bins, plan_lotes
from lp.lotes.pricing import TooManyBinsError, enumerate_bins, price_bins
from lp.solver import solve
from tests.lp.lotes.tables import google, instances, single

PAPER = LotesOptions(mode="paper")


@pytest.mark.parametrize("mode", ["paper", "paired", "priced"])
def test_two_machines_of_five_jobs_of_three(mode: str) -> None:
    """Whole jobs on whole machines: one each, so two a minute, not 10/3."""
    result = plan_lotes(single(2, 5.0, [3.0]), LotesOptions(mode=mode))  # type: ignore[arg-type]
    assert result.arrival_rate / 60 == pytest.approx(2.0)
    assert result.allocation.arrival_rate / 60 == pytest.approx(10 / 3)


def test_thirty_machines_of_eight_jobs_of_three() -> None:
    """80 jobs pooled, 60 in bins of two."""
    result = plan_lotes(single(30, 8.0, [3.0]))
    assert result.assignment.in_service.tolist() == [[60]]


def test_published_tables_priced() -> None:
    """Priced bins reach 4,730,690 an hour, 99.998 % of the fluid bound, and prove it."""
    result = plan_lotes(google())
    assert result.assignment.relaxed_rate == pytest.approx(4_730_690, abs=1)
    assert result.bound == pytest.approx(result.assignment.relaxed_rate, rel=2e-6)
    assert result.arrival_rate >= result.assignment.relaxed_rate * 0.999


def test_published_tables_as_the_paper() -> None:
    """The pairing restriction costs 0.3 to 2.8 %, whichever vertex; rounding less than 0.01 %."""
    result = plan_lotes(google(), PAPER)
    assert 4_598_000 <= result.assignment.relaxed_rate <= 4_716_000
    assert result.arrival_rate >= result.assignment.relaxed_rate * 0.9999


def test_bins_priced_over_the_pairs_give_what_all_of_them_give() -> None:
    """Paired mode makes few of the bins that paper mode enumerates, for the same lambda."""
    paper, paired = plan_lotes(google(), PAPER), plan_lotes(google(), LotesOptions(mode="paired"))
    rate = paper.assignment.relaxed_rate
    assert paired.assignment.relaxed_rate == pytest.approx(rate, rel=1e-4)
    assert paired.bound >= rate * (1 - 1e-9)
    assert len(paired.assignment.bins.jobs) < len(paper.assignment.bins.jobs)
    outside = ~paper.allocation.pairs[paired.assignment.bins.configuration]
    assert not paired.assignment.bins.jobs[outside].any()


def test_many_bins_are_solved_without_presolve(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS gets the LP as it is above the bound on bins, for the same lambda."""
    asked: list[SolveLimits | None] = []

    def noted(model: object, limits: SolveLimits | None, *, solver: str) -> object:
        asked.append(limits)
        return solve(model, limits, solver=solver)  # type: ignore[arg-type]

    instance = google()
    bins = paired_bins(instance, allocate(instance))
    monkeypatch.setattr(assignment, "solve", noted)
    few = assign(instance, bins)
    monkeypatch.setattr(assignment, "MANY_BINS", len(bins.jobs) - 1)
    many = assign(instance, bins)

    assert asked[0] is None
    assert asked[1] is not None
    assert asked[1].options == {"presolve": "off"}
    assert many.relaxed_rate == pytest.approx(few.relaxed_rate, rel=1e-9)


def test_stage_two_is_the_same_through_cbc() -> None:
    """Given the same pairs, HiGHS and CBC find the same stage-2 lambda."""
    instance = google()
    bins = paired_bins(instance, allocate(instance))
    ours, cbc = (assign(instance, bins, solver=solver) for solver in ("highs", "pulp:CBC"))
    assert cbc.relaxed_rate == pytest.approx(ours.relaxed_rate, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_priced_equals_all_bins_enumerated(seed: int) -> None:
    """Pricing over usable pairs reaches the LP over every maximal bin, below the fluid bound."""
    instance = instances(seed)
    every = []
    for j, capacity in enumerate(instance.configurations.capacity):
        usable = instance.usable[j]
        bins = np.zeros((1, usable.size), dtype=np.int32)
        if usable.any():
            partial = enumerate_bins(capacity, instance.classes.request[usable], limit=200_000)
            bins = np.zeros((len(partial), usable.size), dtype=np.int32)
            bins[:, usable] = partial
        every.append(bins)
    expected = assign(instance, Bins.of(every)).relaxed_rate
    priced = price_bins(instance)
    assert assign(instance, priced.bins).relaxed_rate == pytest.approx(expected, rel=5e-6)
    assert priced.bound >= expected * (1 - 1e-6)
    assert expected <= allocate(instance).arrival_rate * (1 + 1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_rounding_uses_every_machine_and_is_feasible(seed: int) -> None:
    """Each machine has one bin that fits in expectation; lambda stays below the proven bound."""
    instance = instances(seed)
    result = plan_lotes(instance)
    table, used = result.table, result.assignment
    assert np.bincount(table.configuration_of).tolist() == instance.configurations.count.tolist()
    for machine in range(table.machines):
        load = table.bins[table.bin_of[machine]] @ instance.classes.request
        assert (
            load <= instance.configurations.capacity[table.configuration_of[machine]] + 1e-6
        ).all()
    assert used.arrival_rate <= result.bound * (1 + 1e-6)
    columns = table.wheel.sum(axis=0)
    assert np.all((np.abs(columns - 1) < 1e-9) | (columns == 0))


def test_integer_program_against_rounding() -> None:
    """The integer program is at least the rounded answer and at most the relaxation."""
    instance = LotesInstance.of(google().configurations.with_share(0.01), google().classes)
    rounded = plan_lotes(instance)
    whole = assign(instance, price_bins(instance).bins, whole=True)
    assert whole.arrival_rate >= rounded.arrival_rate * (1 - 1e-6)
    assert whole.arrival_rate <= rounded.assignment.relaxed_rate * (1 + 1e-6)


def test_largest_remainder_by_hand() -> None:
    """2.6 + 1.3 + 1.1 of 5 becomes 3, 1, 1; solver noise below a whole number is not a part."""
    assert largest_remainder(np.array([2.6, 1.3, 1.1]), 5).tolist() == [3, 1, 1]
    assert largest_remainder(np.array([2.9999999, 2.0000001]), 5).tolist() == [3, 2]
    assert largest_remainder(np.array([0.5, 0.5]), 1).tolist() == [1, 0]


def test_what_a_table_sustains_of_another_mix() -> None:
    """Of its own mix a table sustains its own rate; of one class alone, what its targets hold."""
    result = plan_lotes(google())
    table, classes = result.table, result.instance.classes
    assert table.rate_for(classes) == pytest.approx(result.arrival_rate, rel=1e-9)
    alone = JobClasses.of([0, 1, 0, 0], classes.request, classes.time_h)
    held = table.bins[table.bin_of].sum(axis=0)[1]
    assert table.rate_for(alone) == pytest.approx(held / classes.time_h[1])


def test_wheel_by_delta_and_by_flow() -> None:
    """One configuration twice as fast with as many slots: half of Delta, two thirds of the flow."""
    machines = MachineConfigurations.of([3, 3], [[1.0], [1.0]], resources=["cores"])
    classes = JobClasses.of([1.0], [[1.0]], [1.0])
    instance = LotesInstance.of(machines, classes, speed=[[2.0], [1.0]])
    delta = plan_lotes(instance).table.wheel[:, 0]
    flow = plan_lotes(instance, LotesOptions(wheel="flow")).table.wheel[:, 0]
    assert delta.tolist() == pytest.approx([0.5, 0.5])
    assert flow.tolist() == pytest.approx([2 / 3, 1 / 3])


def test_unserved_classes_get_rate_zero_and_the_others_theirs() -> None:
    """The class without a bin is named with rate 0; text and JSON carry every stage."""
    result = plan_lotes(single(2, 5.0, [3.0, 6.0]))
    rates = result.class_rates()
    assert rates["class-2"] == 0.0
    assert rates["class-1"] / 60 == pytest.approx(2.0)
    assert result.load(result.arrival_rate) == 1.0
    assert any("class-2" in line and "1.20" in line for line in result.explain())
    report = json.loads(json.dumps(result.to_json()))
    assert report["arrival_rate_per_h"]["rounded"] == result.arrival_rate
    assert report["table"]["runs"][0]["machines"] == 2


@pytest.mark.parametrize("mode", ["paper", "priced"])
def test_one_machine_and_nothing_served(mode: str) -> None:
    """One machine is enough; if nothing fits, lambda is 0 and the table still covers machines."""
    options = LotesOptions(mode=mode)  # type: ignore[arg-type]
    assert plan_lotes(single(1, 3.0, [3.0]), options).arrival_rate == pytest.approx(60.0)
    nothing = plan_lotes(single(1, 1.0, [2.0]), options)
    assert nothing.arrival_rate == 0.0
    assert nothing.table.machines == 1
    assert nothing.table.wheel.sum() == 0.0


def test_hundreds_of_classes() -> None:
    """Paper mode refuses to enumerate, and says so; priced mode answers with a proven bound."""
    rng = np.random.default_rng(5)
    machines = MachineConfigurations.of([50], [[1.0, 1.0]])
    count = 300
    classes = JobClasses.of(
        rng.uniform(0.1, 1, count), rng.uniform(0.05, 0.5, (count, 2)), rng.uniform(0.1, 1, count)
    )
    instance = LotesInstance.of(machines, classes)
    result = plan_lotes(instance)
    assert 0.9 * result.bound <= result.assignment.relaxed_rate <= result.bound * (1 + 1e-6)
    with pytest.raises(TooManyBinsError, match="use the priced mode"):
        enumerate_bins(np.ones(2), classes.request)
