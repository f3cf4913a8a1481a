"""The validator finds work that had begun on a machine and is on another one in the next state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.cluster.cluster import Cluster, MachineGroup, Outage
from rdl.resources import Resources
from tests.planner.plan_documents import cluster, document, placed
from tests.planner.validation.moved_slots import begun_slots_moved

THREE = cluster(MachineGroup("m", 3, Resources.of({"cpu": 4000})))
#: One bundle that has begun at 5, one that ends there, and one that has not begun.
BEFORE = [[0, 10, 1, "m-0"], [0, 5, 1, "m-1"], [7, 12, 1, "m-1"]]


def state(slots: list[list[Any]], **rest: Any) -> dict[str, Any]:
    return document(placed("r", "atom(<1 cpu>, 1, 4, 5, 20)", [], slots, **rest))


def moved(after: list[list[Any]], now_s: float = 5, on: Cluster = THREE, **rest: Any) -> list[str]:
    """Return what is said of the states before and after a commit."""
    found = begun_slots_moved(state(BEFORE), state(after, **rest), now_s, cluster=on)
    assert {(one.rule, one.where, one.reservation) for one in found} <= {
        ("moved", "/reservations/0/atoms/0/slots", "r")
    }
    return [one.detail for one in found]


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        [[0, 10, 1, "m-0"], [0, 5, 1, "m-1"], [8, 13, 1, "m-2"]],
        [[0, 10, 1, "m-0"], [0, 5, 1, "m-1"], [5, 10, 1, "m-2"]],
        [[0, 5, 1, "m-0"], [5, 10, 1, "m-0"], [0, 5, 1, "m-1"], [7, 12, 1, "m-1"]],
        [[0, 7, 1, "m-0"], [0, 5, 1, "m-1"], [7, 12, 1, "m-1"]],
        [[0, 15, 1, "m-0"], [0, 5, 1, "m-1"]],
        [[0, 5, 1, "m-0"], [0, 5, 1, "m-1"]],
        [[0, 10, 1, None], [0, 5, 1, "m-1"], [7, 12, 1, "m-1"]],
    ],
)
def test_what_is_no_move(after: list[list[Any]]) -> None:
    """Later slots may go anywhere; a begun one may end earlier or later, or lose its machine."""
    assert moved(after) == []


@pytest.mark.parametrize(
    "after",
    [
        [[0, 10, 1, "m-2"], [0, 5, 1, "m-1"], [7, 12, 1, "m-1"]],
        [[0, 10, 1, "m-0"], [0, 5, 1, "m-2"], [7, 12, 1, "m-1"]],
        [[0, 4, 1, "m-0"], [4, 10, 1, "m-2"], [0, 5, 1, "m-1"]],
        [[0, 5, 1, "m-0"], [5, 10, 1, "m-2"], [0, 5, 1, "m-1"], [7, 12, 1, "m-1"]],
        [[0, 5, 1, "m-0"], [0, 5, 1, "m-1"], [5, 12, 1, "m-1"]],
    ],
)
def test_what_is_a_move(after: list[list[Any]]) -> None:
    """Other machines in the past, or from now on for what had begun, are reported."""
    assert len(moved(after)) == 1


def test_slots_in_parts_on_one_machine_are_no_move() -> None:
    """A slot that is cut in two continues, whatever begins or ends elsewhere at the cut."""
    before = state([[0, 10, 1, "m-0"], [0, 10, 1, "m-1"]])
    parts = [[0, 5, 1, "m-0"], [5, 10, 1, "m-0"]]
    more = state([*parts, [0, 10, 1, "m-1"], [5, 10, 1, "m-2"]])
    less = state([*parts, [0, 5, 1, "m-1"]])
    for after in (more, less):
        assert begun_slots_moved(before, after, 5, cluster=THREE) == []


def test_messages_name_the_machines() -> None:
    """Where from, where to and when."""
    assert moved([[0, 10, 1, "m-2"], [0, 5, 1, "m-1"]]) == [
        "bundles that were on m-0 at step 0 are said to have been on m-2, and it is step 5"
    ]
    assert moved([[0, 5, 1, "m-0"], [5, 10, 1, "m-2"], [0, 5, 1, "m-1"]]) == [
        "1 bundles that had begun on m-0 continue at step 5 on m-2"
    ]


def test_a_slot_begins_with_its_first_step() -> None:
    """At its very start a slot may still move; within its first step it may not."""
    later = [[0, 10, 1, "m-0"], [0, 5, 1, "m-1"], [7, 12, 1, "m-2"]]
    assert moved(later, now_s=7) == []
    assert len(moved(later, now_s=7.5)) == 1
    assert moved([[0, 10, 1, "m-2"], [0, 5, 1, "m-0"], [7, 12, 1, "m-1"]], now_s=0) == []


def test_what_was_on_a_lost_machine_continues_anywhere() -> None:
    """An outage that holds now, or a machine that left the cluster, is no move of the Plan's."""
    after = [[0, 5, 1, "m-0"], [5, 10, 1, "m-2"], [0, 5, 1, "m-1"], [7, 12, 1, "m-1"]]
    away = replace(THREE, outages=(Outage("m", (0,), 5000, 9000),))
    assert moved(after, on=away) == []
    past = replace(THREE, outages=(Outage("m", (0,), 2000, 5000),))
    assert len(moved(after, on=past)) == 1


def test_a_release_is_no_move() -> None:
    """A bundle released, while a later one is taken forward, went nowhere."""
    after = [[0, 5, 1, "m-0"], [0, 5, 1, "m-1"], [5, 10, 1, "m-2"]]
    assert len(moved(after)) == 1
    assert moved(after, released=[[5, 10, 1]]) == []


def test_the_cluster_is_that_of_the_later_document() -> None:
    """Where none is given."""
    described = {
        "step": "1s",
        "horizon": "100s",
        "machines": [{"name": "m", "count": 3, "resources": {"cpu": 4}}],
    }
    after = state([[0, 10, 1, "m-2"]]) | {"cluster": described}
    (found,) = begun_slots_moved(state([[0, 10, 1, "m-0"]]), after, 5)
    assert found.rule == "moved"


def test_reservations_that_come_and_go_do_not_move() -> None:
    """Only what both states hold is compared."""
    none = document()
    assert begun_slots_moved(state(BEFORE), none, 5, cluster=THREE) == []
    assert begun_slots_moved(none, state(BEFORE), 5, cluster=THREE) == []


def test_slots_that_cannot_be_read_are_an_error() -> None:
    """A move cannot be notified of what is no slot."""
    with pytest.raises(ValueError, match=r"/reservations/0/atoms/0/slots/0: \[0, 10, 1\] is not"):
        begun_slots_moved(state(BEFORE), state([[0, 10, 1]]), 5, cluster=THREE)
