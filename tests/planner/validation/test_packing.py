"""The validator finds steps at which packable promises have no packing, or says it is in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.validation.document import PlanViolation
from planner.validation.machines.packing import PlanDoubt
from planner.validation.validate import judge
from rdl.resources import Resources
from tests.planner.brute_force_packing import packable_with_moves
from tests.planner.plan_documents import cluster, document, placed, reservation

TEN = Resources.of({"cpu": 10_000})


def machines(count: int, **rest: Any) -> Cluster:
    return cluster(MachineGroup("m", count, TEN), **rest)


def bundles(
    name: str, cores: int, count: int, start: int = 0, end: int = 5, **rest: Any
) -> dict[str, Any]:
    """Return a packable reservation of `count` bundles of so many cores over steps."""
    steps = end - start
    asked = (
        f"atom(<{cores} cpu>, {count}, {count}, {steps}, {steps * count}{rest.pop('label', '')})"
    )
    rows = {"": [[start, end, count]]}
    level = {"promise": "packable"}
    return reservation(name, asked, rows, bundle={"cpu": cores}, **(level | rest))


def found(*held: dict[str, Any], on: Cluster) -> tuple[list[PlanViolation], list[PlanDoubt]]:
    """Return violations of packing, no others being there, and doubts."""
    verdict = judge(document(*held), cluster=on)
    assert {one.rule for one in verdict.violations} <= {"packing"}
    return verdict.violations, verdict.doubts


def test_the_pool_has_room_that_no_packing_has() -> None:
    """4 x 6 and 2 x 8 cores are 40, yet 4 machines of 10 cannot hold them; 6 machines can."""
    six, eight = bundles("a", 6, 4), bundles("b", 8, 2, 2, 7)
    (wrong,), doubts = found(six, eight, on=machines(4))
    assert doubts == []
    detail = (
        "6 bundles of packable reservations at step 2 have no packing beside the slots; so over "
        "steps [2, 5)"
    )
    assert wrong == PlanViolation("machines", "packing", detail, None, 2, 6)
    assert found(six, eight, on=machines(6)) == ([], [])


def test_pooled_promises_ask_for_no_machine() -> None:
    """They count against totals alone."""
    six, eight = bundles("a", 6, 4), bundles("b", 8, 2, promise="pooled")
    assert found(six, eight, on=machines(4)) == ([], [])


def test_slots_leave_less_to_pack_in() -> None:
    """A bundle of 6 fits beside a slot of 4 cores, not beside two of 5 with 10 free in all."""

    def beside(cores: int) -> dict[str, Any]:
        asked = f"atom(<{cores} cpu>, 2, 2, 5, 10)"
        slots = [[0, 5, 1, "m-0"], [0, 5, 1, "m-1"]]
        return placed("s", asked, [[0, 5, 2]], slots, bundle={"cpu": cores}, handover=False)

    assert found(bundles("a", 6, 1), beside(4), on=machines(2)) == ([], [])
    (wrong,), _ = found(bundles("a", 6, 1), beside(5), on=machines(2))
    assert wrong.at == 0


def test_machines_that_are_away_hold_nothing() -> None:
    """6, 6 and 5 cores need three machines; in step 3 two of four are away."""
    outages = Outage("m", (0,), 1000, 4000), Outage("m", (1,), 3000, 6000)
    held = [bundles("a", 6, 2), bundles("b", 5, 1, 3, 4)]
    (wrong,), _ = found(*held, on=machines(4, outages=outages))
    assert (wrong.at, wrong.amount) == (3, 3)
    assert found(*held, on=machines(4, outages=outages[:1])) == ([], [])


def test_labels_are_kept_for_those_who_ask_for_them() -> None:
    """The one machine with the label goes to its bundle, whichever is the larger."""
    both = cluster(MachineGroup("g", 1, TEN, frozenset({"gpu"})), MachineGroup("m", 1, TEN))

    def labelled(cores: int, count: int) -> dict[str, Any]:
        entry = bundles("g", cores, count, label=', on="gpu"')
        entry["atoms"][0]["on"] = "gpu"
        return entry

    assert found(labelled(5, 1), bundles("b", 8, 1), on=both) == ([], [])
    # 4 + 6 on each machine would do, but both bundles of 4 must lie on the one with the label.
    (wrong,), _ = found(labelled(4, 2), bundles("b", 6, 2), on=both)
    assert wrong.amount == 4


def test_the_search_finds_what_first_fit_decreasing_misses() -> None:
    """5, 4, 4, 3, 2, 2 on two machines of 10: it lays 5 + 4 and 4 + 3 + 2, with no place for a 2.

    5 + 3 + 2 and 4 + 4 + 2 hold all.
    """
    held = [
        bundles("a", 5, 1),
        bundles("b", 4, 2),
        bundles("c", 3, 1),
        bundles("d", 2, 2),
    ]
    assert found(*held, on=machines(2)) == ([], [])


def test_many_bundles_that_find_no_room_are_a_doubt() -> None:
    """13 are too many to try every way: neither right nor wrong, and the plan is valid."""
    held = [bundles("a", 6, 7), bundles("b", 5, 6, 2, 4)]
    violations, (doubt,) = found(*held, on=machines(9))
    assert violations == []
    assert (doubt.where, doubt.rule, doubt.at) == ("machines", "packing", 2)
    assert doubt.detail == (
        "not shown packable over steps [2, 4): first fit decreasing fails, and 13 bundles at step "
        "2 are too many to try every way"
    )


def test_stretches_of_one_verdict_are_one() -> None:
    """What changes within them is not told again; what packs between them parts them."""
    six = bundles("a", 6, 4, 0, 20)
    rest = [bundles("b", 8, 2, 2, 4), bundles("c", 8, 2, 4, 6), bundles("d", 8, 2, 9, 10)]
    wrong, _ = found(six, *rest, on=machines(4))
    assert [one.at for one in wrong] == [2, 9]
    assert wrong[0].detail.endswith("steps [2, 6)")


SIZES = st.tuples(st.integers(1, 7), st.integers(1, 2), st.integers(0, 3), st.integers(1, 3))


@given(st.lists(SIZES, min_size=1, max_size=5), st.integers(1, 3), st.booleans())
def test_packing_by_brute_force(
    asked: list[tuple[int, int, int, int]], count: int, lost: bool
) -> None:
    """Of few bundles the validator is never in doubt, and says what trying every way says."""
    away = [(0, 1, 3)] if lost else []
    outages = tuple(Outage("m", (m,), 1000 * s, 1000 * e) for m, s, e in away)
    eight = cluster(MachineGroup("m", count, Resources.of({"cpu": 8000})), outages=outages)
    held = [
        bundles(f"r{i}", cores, n, start, start + steps)
        for i, (cores, n, start, steps) in enumerate(asked)
    ]
    verdict = judge(document(*held), cluster=replace(eight))
    pieces = [(start, start + steps, n, (cores,)) for cores, n, start, steps in asked]
    packs = packable_with_moves([[8]] * count, pieces, away)
    assert verdict.doubts == []
    assert ("packing" in {one.rule for one in verdict.violations}) == (not packs)
