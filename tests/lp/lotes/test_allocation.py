"""Stage 1: pooled machines, both forms of the LP, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lp.lotes.allocation import allocate
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from tests.lp.lotes.printed import allocate_as_printed
from tests.lp.lotes.tables import google, instances, single


def test_two_machines_of_five_jobs_of_three() -> None:
    """The paper's example: pooled, 10 / 3 jobs of one minute are in service, so 10/3 a minute."""
    assert allocate(single(2, 5.0, [3.0])).arrival_rate / 60 == pytest.approx(10 / 3)


def test_thirty_machines_of_eight_jobs_of_three() -> None:
    """30 machines of 8 cores pool to 80 jobs of 3."""
    assert allocate(single(30, 8.0, [3.0])).in_service.sum() == pytest.approx(80)


def test_published_tables() -> None:
    """On Tables 1 and 2 the fluid system sustains 4,730,797 jobs an hour."""
    allocation = allocate(google())
    assert round(allocation.arrival_rate) == 4_730_797
    assert allocation.unserved == ()


def test_pulp_and_cbc_give_the_same_rate() -> None:
    """Stage 1 through PuLP and CBC has the same lambda, to CBC's eight digits."""
    expected = allocate(google()).arrival_rate
    assert allocate(google(), solver="pulp:CBC").arrival_rate == pytest.approx(expected, rel=1e-7)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_both_forms_agree(seed: int) -> None:
    """The printed LP in delta and ours in N have the same lambda, and both obey (2) to (4)."""
    instance = instances(seed)
    allocation = allocate(instance)
    printed_rate, printed_share = allocate_as_printed(instance)
    assert printed_rate == pytest.approx(allocation.arrival_rate, rel=1e-6)
    pooled = instance.configurations.capacity * instance.configurations.count[:, None]
    for share, rate in ((allocation.share, allocation.arrival_rate), (printed_share, printed_rate)):
        assert (share.sum(axis=1) <= 1 + 1e-6).all()
        work = (share * pooled[:, None] * instance.rate[:, :, None]).sum(axis=0)
        demand = rate * instance.classes.share[:, None] * instance.classes.request
        assert (work >= demand * (1 - 1e-5) - 1e-9).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 10.0))
def test_rate_scales_with_machines_and_speed(seed: int, factor: float) -> None:
    """Times all shorter by a factor raise lambda by that factor; more machines never lower it."""
    instance = instances(seed)
    rate = allocate(instance, canonical=False).arrival_rate
    quick = LotesInstance(instance.configurations, instance.classes, instance.rate * factor)
    assert allocate(quick, canonical=False).arrival_rate == pytest.approx(rate * factor, rel=1e-6)
    more = MachineConfigurations.of(
        instance.configurations.count + 1,
        instance.configurations.capacity,
        resources=instance.configurations.resources,
    )
    grown = LotesInstance(more, instance.classes, instance.rate)
    assert allocate(grown, canonical=False).arrival_rate >= rate * (1 - 1e-9)


def test_a_class_that_fits_nothing_is_named_and_left_out() -> None:
    """A class of 6 on machines of 5 is named with the nearest fit; the others keep their rate."""
    instance = single(2, 5.0, [3.0, 6.0])
    allocation = allocate(instance)
    (left,) = allocation.unserved
    assert (left.name, left.nearest, left.shortfall) == ("class-2", "configuration-1", 1.2)
    assert "fits no machine" in left.reason
    assert allocation.arrival_rate / 60 == pytest.approx(2 * 10 / 3)
    assert allocation.in_service[0, 1] == 0


def test_zero_rates_zero_shares_and_free_classes() -> None:
    """No rate: named. No share: no demand. No request: limits nothing and is listed as free."""
    machines = MachineConfigurations.of([2], [[5.0]], resources=["cores"])
    classes = JobClasses.of([0.5, 0.0, 0.25, 0.25], [[1.0], [1.0], [1.0], [0.0]], [1.0] * 4)
    instance = LotesInstance.of(machines, classes, speed=[[1.0, 1.0, 0.0, 1.0]])
    allocation = allocate(instance)
    assert [left.reason for left in allocation.unserved] == ["every rate of it is zero"]
    assert allocation.free == ("class-4",)
    assert allocation.arrival_rate == pytest.approx(10 / 0.5)
    only_free = LotesInstance.of(machines, JobClasses.of([1.0], [[0.0]], [1.0]))
    with pytest.raises(ValueError, match="no rate is too high"):
        allocate(only_free)


def test_nothing_served_is_a_rate_of_zero() -> None:
    """When no class fits any machine lambda is 0 and every class is named."""
    allocation = allocate(single(1, 1.0, [2.0, 3.0]))
    assert allocation.arrival_rate == 0.0
    assert len(allocation.unserved) == 2


def test_equal_configurations_split_or_joined() -> None:
    """Two configurations with equal profiles sustain what one with all their machines does."""
    classes = JobClasses.of([0.4, 0.6], [[0.1, 0.2], [0.3, 0.1]], [1.0, 2.0])
    joined = MachineConfigurations.of([10], [[1.0, 1.0]])
    split = MachineConfigurations.of([4, 6], [[1.0, 1.0], [1.0, 1.0]])
    rates = [
        allocate(LotesInstance.of(machines, classes)).arrival_rate for machines in (joined, split)
    ]
    assert rates[0] == pytest.approx(rates[1])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MachineConfigurations.of([1], [[1.0]]), r"capacity has shape \(1, 1\)"),
        (lambda: MachineConfigurations.of([-1], [[1.0, 1.0]]), "count of 'configuration-1' is -1"),
        (lambda: MachineConfigurations.of([1.5], [[1.0, 1.0]]), "whole numbers"),
        (lambda: MachineConfigurations.of([0], [[1.0, 1.0]]), "not all zero"),
        (lambda: JobClasses.of([0.0], [[1.0]], [1.0]), "every share is 0"),
        (lambda: JobClasses.of([1.0], [[1.0]], [0.0]), "time_h of 'class-1' is 0"),
        (lambda: JobClasses.of([1.0], [[np.nan]], [1.0]), "request of 'class-1' is nan"),
        (lambda: JobClasses.of([1.0], [[1.0], [1.0]], [1.0]), "2 rows of requests for 1 shares"),
    ],
)
def test_bad_input_says_where(build, message: str) -> None:  # type: ignore[no-untyped-def]
    """Malformed configurations and classes are refused with the name and what would be right."""
    with pytest.raises(ValueError, match=message):
        build()
