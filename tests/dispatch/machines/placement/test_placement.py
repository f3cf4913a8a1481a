"""The five policies of placement, on machines small enough to reason about."""

from __future__ import annotations

import numpy as np
import pytest

from dispatch.machines.placement.policy import Policy
from dispatch.machines.placement.state import Machines
from dispatch.machines.placement.strategy import MachinePlacement, PlacedJob
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.pipeline import plan_lotes

PAIR = Machines(np.array([2, 1]), np.array([[4.0, 4.0], [8.0, 2.0]]))
RIVALS: tuple[Policy, ...] = ("greedy", "tetris", "best_fit", "spread")


def job(*request: float, hours: float = 0.0, **more: object) -> PlacedJob:
    """A job of class 0."""
    return PlacedJob(np.array(request), hours=hours, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "machine"),
    [
        ("greedy", 0),  # lowest
        ("tetris", 2),  # 2 * 8 + 1 * 2 = 18 beats 2 * 4 + 1 * 4 = 12
        ("best_fit", 0),  # 2/4 + 3/4 = 1.25 against 6/8 + 1/2 = 1.25: ties to the lowest
        ("spread", 0),  # no one runs anything, machine 0 has most memory
    ],
)
def test_first_choice_by_hand(policy: Policy, machine: int) -> None:
    """A job of 2 cores and 1 unit of memory on two machines of 4, 4 and one of 8, 2."""
    assert MachinePlacement(policy, PAIR).choose(job(2.0, 1.0)) == machine


def test_spread_avoids_machines_that_run_something() -> None:
    """Fewest jobs comes before most memory."""
    spread = MachinePlacement("spread", PAIR)
    spread.count_start(0, job(1.0, 0.0))
    assert spread.choose(job(1.0, 1.0)) == 1
    spread.count_start(1, job(1.0, 1.0))
    assert spread.choose(job(1.0, 1.0)) == 2


def test_best_fit_fills_what_is_nearly_full() -> None:
    """The machine with the least left over is chosen while it has capacity."""
    best = MachinePlacement("best_fit", PAIR)
    best.count_start(1, job(2.0, 3.0))
    assert best.choose(job(2.0, 1.0)) == 1
    best.count_start(1, job(2.0, 1.0))
    assert best.choose(job(2.0, 1.0)) == 0


@pytest.mark.parametrize("policy", RIVALS)
def test_full_machines_are_refused_and_freed(policy: Policy) -> None:
    """Without capacity the answer is None; when a job ends its machine is chosen again."""
    placement = MachinePlacement(policy, Machines(np.array([1]), np.array([[4.0, 4.0]])))
    placement.count_start(0, job(3.0, 1.0))
    assert placement.choose(job(2.0, 1.0)) is None
    placement.count_end(0, job(3.0, 1.0))
    assert placement.choose(job(4.0, 4.0)) == 0
    assert placement.free_on(0).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("policy", RIVALS)
def test_labels_and_drain_close_machines(policy: Policy) -> None:
    """Only allowed and open machines are chosen, and the limits last no longer than they say."""
    placement = MachinePlacement(policy, PAIR)
    only = np.array([False, True, False])
    assert placement.choose(job(1.0, 1.0, allowed=only)) == 1
    placement.set_open(1, False)
    assert placement.choose(job(1.0, 1.0, allowed=only)) is None
    placement.set_open(1, True)
    assert placement.choose(job(1.0, 1.0, allowed=only)) == 1


def lotes() -> MachinePlacement:
    """Ten machines of 7 cores, classes of 2 and 3 cores that arrive two to one."""
    machines = MachineConfigurations.of([10], [[7.0]], resources=["cores"])
    classes = JobClasses.of([2.0, 1.0], [[2.0], [3.0]], [1.0, 1.0])
    return MachinePlacement.of_table(plan_lotes(LotesInstance.of(machines, classes)).table)


def test_lotes_fills_its_bins() -> None:
    """Twenty small and ten large jobs, in any order, end as ten machines of (2, 1)."""
    placement = lotes()
    rng = np.random.default_rng(4)
    held = np.zeros((10, 2), dtype=int)
    for kind in rng.permutation([0] * 20 + [1] * 10):
        one = PlacedJob(np.array([2.0, 3.0])[kind : kind + 1], int(kind), draw=rng.random())
        machine = placement.choose(one)
        assert machine is not None
        placement.count_start(machine, one)
        held[machine, kind] += 1
    assert held.tolist() == [[2, 1]] * 10


def test_malformed_jobs_are_errors() -> None:
    """A request or class of the wrong shape is misuse and says what was expected."""
    with pytest.raises(ValueError, match=r"expected \(2,\)"):
        MachinePlacement("greedy", PAIR).choose(job(1.0))
    with pytest.raises(ValueError, match="job_class is 1: expected 0 to 0"):
        MachinePlacement("greedy", PAIR).choose(PlacedJob(np.array([1.0, 1.0]), 1))
