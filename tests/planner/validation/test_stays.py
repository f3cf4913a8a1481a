"""The validator finds bundles that leave their machine before the lease, or continue elsewhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.validation.document import PlanViolation
from planner.validation.slot_rules import first_in_first_out
from planner.validation.validate import validate
from rdl.resources import Resources
from tests.planner.brute_force_packing import pieces_of
from tests.planner.plan_documents import cluster, document, placed

THREE = cluster(MachineGroup("m", 3, Resources.of({"cpu": 4000})))
AT = "/reservations/0/atoms/0/slots"
#: Two bundles of ten steps, the second taken five steps after the first.
STAIRS, STAIR_ROWS = "atom(<1 cpu>, 1, 2, 5, 20)", [[0, 5, 1], [5, 10, 2], [10, 15, 1]]


def leases(
    expression: str,
    rows: list[list[int]],
    slots: list[list[Any]],
    on: Cluster = THREE,
    **rest: Any,
) -> list[str]:
    """Return what is said of a placed reservation; nothing but leases may be wrong."""
    entry = placed("r", expression, rows, slots, **rest)
    found = validate(document(entry), cluster=on)
    assert {(one.rule, one.where) for one in found} <= {("lease", AT)}
    return [one.detail for one in found]


def test_a_bundle_keeps_its_machine() -> None:
    """Without handover the stays are those of the rows: taken first, released first."""
    right = [[0, 10, 1, "m-0"], [5, 15, 1, "m-1"]]
    assert leases(STAIRS, STAIR_ROWS, right, handover=False) == []
    same = [[0, 10, 1, "m-0"], [5, 15, 1, "m-0"]]
    assert leases(STAIRS, STAIR_ROWS, same, handover=False) == []
    parts = [[0, 5, 1, "m-0"], [5, 10, 1, "m-0"], [5, 15, 1, "m-1"]]
    assert leases(STAIRS, STAIR_ROWS, parts, handover=False) == []


@pytest.mark.parametrize(
    "slots",
    [
        [[0, 5, 1, "m-0"], [5, 10, 1, "m-1"], [5, 15, 1, "m-2"]],
        [[0, 15, 1, "m-0"], [5, 10, 1, "m-1"]],
        [[0, 5, 1, "m-0"], [5, 10, 2, "m-1"], [10, 15, 1, "m-2"]],
    ],
)
def test_a_bundle_that_does_not_keep_its_machine(slots: list[list[Any]]) -> None:
    """A handover, or a bundle that outlasts one taken before it, is notified of an atom without."""
    assert len(leases(STAIRS, STAIR_ROWS, slots, handover=False)) == 1
    assert leases(STAIRS, STAIR_ROWS, slots) == []


def test_what_is_notified_of_a_handover() -> None:
    """Where the stays differ from those of the rows, and by how many bundles."""
    slots = [[0, 5, 2, "m-0"], [5, 10, 2, "m-1"]]
    entry = placed("r", "atom(<1 cpu>, 2, 2, 5, 20)", [[0, 10, 2]], slots, handover=False)
    detail = (
        "2 bundles keep one machine over steps [0, 5), where 0 of the allocation last so long, "
        "and the atom allows no handover"
    )
    (found,) = validate(document(entry), cluster=THREE)
    assert found == PlanViolation(AT, "lease", detail, "r", 0, 2, 0)


def test_each_stay_lasts_a_lease() -> None:
    """With handover a bundle may change machine, but not before its lease is over."""
    rows, asked = [[0, 10, 1]], "atom(<1 cpu>, 1, 2, 5, 10)"
    assert leases(asked, rows, [[0, 5, 1, "m-0"], [5, 10, 1, "m-1"]]) == []
    entry = placed("r", asked, rows, [[0, 6, 1, "m-0"], [6, 10, 1, "m-1"]])
    (found,) = validate(document(entry), cluster=THREE)
    detail = "m-1 has 1 bundles over steps [6, 10), less than the lease of 5 steps"
    assert found == PlanViolation(AT, "lease", detail, "r", 6, 4, 5)
    assert leases(asked, rows, [[0, 6, 1, "m-0"], [6, 10, 1, "m-0"]]) == []


def test_slots_on_one_machine_are_read_at_their_longest() -> None:
    """Which of two bundles on a machine leaves first no one can tell: the one taken first."""
    rows = [[0, 3, 1], [3, 8, 2], [8, 11, 1]]
    swapped = [[0, 11, 1, "m-0"], [3, 8, 1, "m-0"]]
    assert leases("atom(<1 cpu>, 1, 2, 8, 16)", rows, swapped) == []
    apart = [[0, 11, 1, "m-0"], [3, 8, 1, "m-1"]]
    assert len(leases("atom(<1 cpu>, 1, 2, 8, 16)", rows, apart)) == 1


@pytest.mark.parametrize("handover", [True, False])
def test_a_release_cuts_a_stay(handover: bool) -> None:
    """A bundle released early, at its end or before it begins, owes no lease."""
    asked, late = "atom(<1 cpu>, 1, 2, 10, 20)", {"released": [[3, 10, 1]], "handover": handover}
    rows = [[0, 3, 2], [3, 10, 1]]
    cut = [[0, 3, 1, "m-0"], [0, 10, 1, "m-1"]]
    assert leases(asked, rows, cut, **late) == []
    early = {"released": [[0, 7, 1]], "handover": handover}
    begun = [[7, 10, 1, "m-0"], [0, 10, 1, "m-1"]]
    assert leases(asked, [[0, 7, 1], [7, 10, 2]], begun, **early) == []
    # The other bundle was not released: it may not leave m-1 at step 6.
    moved = [[0, 3, 1, "m-0"], [0, 6, 1, "m-1"], [6, 10, 1, "m-2"]]
    assert len(leases(asked, rows, moved, **late)) == 1


def test_a_handover_alongside_a_release() -> None:
    """Though each part lasts a lease, an atom without handover may not continue elsewhere."""
    asked, rest = "atom(<1 cpu>, 1, 2, 5, 30)", {"released": [[5, 15, 1]], "handover": False}
    rows = [[0, 5, 2], [5, 15, 1]]
    assert leases(asked, rows, [[0, 5, 1, "m-0"], [0, 15, 1, "m-1"]], **rest) == []
    moved = [[0, 5, 1, "m-0"], [0, 10, 1, "m-1"], [10, 15, 1, "m-2"]]
    (told,) = leases(asked, rows, moved, **rest)
    assert told == (
        "a bundle leaves m-1 at step 10 and one begins on m-2, but the atom allows no handover"
    )


@pytest.mark.parametrize("handover", [True, False])
def test_a_lost_machine_cuts_a_stay(handover: bool) -> None:
    """The rest of a lease goes on elsewhere, whatever the atom allows; that of others does not."""
    away = replace(THREE, outages=(Outage("m", (0,), 3000, 20_000),))
    asked, rows = "atom(<1 cpu>, 1, 2, 10, 20)", [[0, 10, 2]]
    rest = [[0, 3, 1, "m-0"], [3, 10, 1, "m-1"], [0, 10, 1, "m-2"]]
    assert leases(asked, rows, rest, away, handover=handover) == []
    assert len(leases(asked, rows, rest, handover=handover)) == 1
    early = [[0, 2, 1, "m-0"], [2, 10, 1, "m-1"], [0, 10, 1, "m-2"]]
    assert len(leases(asked, rows, early, away, handover=handover)) == 1


@pytest.mark.parametrize("handover", [True, False])
@pytest.mark.parametrize("before", ["gone-0", None])
def test_what_is_past_may_have_been_on_a_machine_that_left(
    before: str | None, handover: bool
) -> None:
    """At its present the past needs no machine, and its end cuts a stay; what is to come does."""
    asked, rows = "atom(<1 cpu>, 1, 1, 10, 10)", [[0, 10, 1]]
    slots = [[0, 5, 1, before], [5, 10, 1, "m-1"]]
    plan = document(placed("r", asked, rows, slots, handover=handover), now=5)
    assert validate(plan, cluster=THREE) == []
    assert validate({**plan, "now": 0}, cluster=THREE) != []
    assert {one.rule for one in validate(plan, cluster=THREE, now_s=4)} >= {"machine"}


def test_a_present_that_is_no_time_is_reported() -> None:
    """Where, and what would be right."""
    (told,) = validate(document(now="noon"), cluster=THREE)
    assert (told.where, told.rule) == ("/now", "shape")


@pytest.mark.parametrize("handover", [True, False])
def test_a_machine_that_is_gone_cuts_a_stay(handover: bool) -> None:
    """What a machine that left the cluster had continues elsewhere, and owes no lease there."""
    rest = [[0, 8, 1, None], [8, 10, 1, "m-1"], [0, 10, 1, "m-2"]]
    asked = "atom(<1 cpu>, 1, 2, 5, 20)"
    entry = placed("r", asked, [[0, 10, 2]], rest, handover=handover)
    assert "lease" not in {one.rule for one in validate(document(entry), cluster=THREE)}


@pytest.mark.parametrize("state", ["cancelled", "degraded", "failed"])
def test_who_is_not_whole_may_be_cut_anywhere(state: str) -> None:
    """Only whole promises owe leases."""
    cut = [[0, 3, 1, "m-0"], [3, 6, 1, "m-1"]]
    asked = "atom(<1 cpu>, 1, 1, 10, 10)"
    assert leases(asked, [[0, 6, 1]], cut, handover=False, state=state) == []


HEIGHTS = st.lists(st.integers(0, 4), min_size=1, max_size=8)


@given(HEIGHTS)
def test_first_in_first_out_by_bundles(heights: list[int]) -> None:
    """Counts of spans are those of bundles taken and released one by one."""
    rows = [[t, t + 1, n] for t, n in enumerate(heights) if n]
    found: Counter[tuple[int, int]] = Counter()
    for start, end, bundles in first_in_first_out(rows):
        found[start, end] += bundles
    assert found == Counter((piece.start, piece.end) for piece in pieces_of(rows, (1,)))
