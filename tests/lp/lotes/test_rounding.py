"""Machines moved between bins where rounding cost too much."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lp.lotes.assignment import BinFlows, Bins, assign, largest_remainder, move_machines
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.pipeline import LotesOptions, plan_lotes


def lambda_of(instance: LotesInstance, bins: Bins, machines: np.ndarray) -> float:
    """Smallest class's lambda, class by class."""
    rates = []
    for k, share in enumerate(instance.classes.share):
        flow = sum(
            int(machines[i]) * int(bins.jobs[i, k]) * float(instance.rate[bins.configuration[i], k])
            for i in range(len(machines))
        )
        rates.append(flow / share)
    return float(min(rates))


def many_classes(seed: int) -> LotesInstance:
    """More classes than rounding can do justice to: up to twelve on five to forty machines."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(4, 13))
    groups = int(rng.integers(1, 4))
    machines = MachineConfigurations.of(
        rng.integers(5, 14, groups), rng.uniform(0.5, 1.0, (groups, 2))
    )
    jobs = JobClasses.of(
        rng.uniform(0.1, 1.0, classes),
        rng.uniform(0.05, 0.45, (classes, 2)),
        rng.uniform(0.1, 1.0, classes),
    )
    return LotesInstance.of(machines, jobs)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_moves_never_cost_lambda(seed: int) -> None:
    """Every configuration keeps its machines; lambda is at least the largest remainder's."""
    instance = many_classes(seed)
    result = plan_lotes(instance).assignment
    plain = np.zeros_like(result.machines)
    for j, count in enumerate(instance.configurations.count):
        here = np.flatnonzero(result.bins.configuration == j)
        plain[here] = largest_remainder(result.fractional[here], int(count))
        assert result.machines[here].sum() == count
    assert (result.machines >= 0).all()
    got = lambda_of(instance, result.bins, result.machines)
    assert np.isclose(got, result.arrival_rate)
    assert got >= lambda_of(instance, result.bins, plain) * (1 - 1e-9)
    assert got <= result.relaxed_rate * (1 + 1e-6)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6))
def test_the_integer_program_over_the_same_bins_is_the_limit(seed: int) -> None:
    """Moved machines stay within the optimum of whole machines over the same bins."""
    instance = many_classes(seed)
    result = plan_lotes(instance).assignment
    whole = assign(instance, result.bins, whole=True)
    assert result.arrival_rate <= whole.arrival_rate * (1 + 1e-6)


def test_a_class_rounded_away_gets_a_machine_back() -> None:
    """By hand: 4 machines, bins a, a, b at 2.6, 1.0, 0.4 round b away; one machine moves to it."""
    flows = BinFlows(
        configuration=np.zeros(3, dtype=np.int32),
        bin_of=np.array([0, 1, 2]),
        class_of=np.array([0, 0, 1]),
        flow=np.array([1.0, 1.0, 5.0]),
        classes=2,
    )
    assert move_machines(np.array([3, 1, 0]), flows).tolist() == [2, 1, 1]


def test_machines_do_not_change_configuration() -> None:
    """The only bin of the class that is left out is of another configuration: nothing moves."""
    flows = BinFlows(
        configuration=np.array([0, 1], dtype=np.int32),
        bin_of=np.array([0, 1]),
        class_of=np.array([0, 1]),
        flow=np.array([1.0, 1.0]),
        classes=2,
    )
    assert move_machines(np.array([3, 0]), flows).tolist() == [3, 0]


def test_rounding_that_costs_little_is_the_papers() -> None:
    """Thousands of machines over few bins: each bin is within one machine of its part."""
    machines = MachineConfigurations.of([3000, 2000], [[0.5, 0.5], [0.5, 0.25]])
    classes = JobClasses.of([0.7, 0.3], [[0.02, 0.03], [0.07, 0.03]], [0.04, 0.04])
    used = plan_lotes(LotesInstance.of(machines, classes), LotesOptions()).assignment
    assert (np.abs(used.machines - used.fractional) < 1 + 1e-6).all()
