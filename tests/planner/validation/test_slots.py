"""The validator finds each fault of slots where it is: sums, names, labels, spread and capacity."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.validation.document import PlanViolation
from planner.validation.validate import validate
from rdl.resources import Resources
from tests.planner.plan_documents import cluster, document, faults, placed, reservation

FOUR = Resources.of({"cpu": 4000})
ONE = "atom(<1 cpu>, 1, 4, 5, 20)"
ROWS = [[0, 5, 4]]
SLOTS = [[0, 5, 2, "m-0"], [0, 5, 2, "m-1"]]
AT = "/reservations/0/atoms/0/slots"
TWO = cluster(MachineGroup("m", 2, FOUR), MachineGroup("g", 1, FOUR, frozenset({"gpu"})))


def held(slots: Any = SLOTS, rows: Any = ROWS, **rest: Any) -> dict[str, Any]:
    """Return a valid placed reservation of four bundles, but for what is changed."""
    return placed("r", rest.pop("expression", ONE), rows, slots, **rest)


def told(*entries: dict[str, Any], on: Cluster = TWO) -> list[tuple[str, str]]:
    return faults(document(*entries), on)


def test_slots_that_are_right() -> None:
    """Nothing is found, whatever the promise is called."""
    assert told(held()) == []
    assert told(held(promise="pooled")) == []


def test_a_document_from_before_slots_is_pooled() -> None:
    """What has no slots is held to totals alone."""
    assert told(reservation("r", ONE, {"": ROWS})) == []


@pytest.mark.parametrize(
    ("change", "rule", "where"),
    [
        ({"slots": None}, "slots", AT),
        ({"slots": {}}, "slots", AT),
        ({"slots": [[0, 5, 4]]}, "slots", f"{AT}/0"),
        ({"slots": [[0, 5, 4, "m-0", 1]]}, "slots", f"{AT}/0"),
        ({"slots": [[0, 5, 4, 0]]}, "slots", f"{AT}/0"),
        ({"slots": [[0, 5, 4, ""]]}, "slots", f"{AT}/0"),
        ({"slots": [[0, 5, 4.0, "m-0"]]}, "slots", f"{AT}/0"),
        ({"slots": [[0, 5, 0, "m-0"]]}, "slots", f"{AT}/0"),
        ({"slots": [[5, 5, 4, "m-0"]]}, "slots", f"{AT}/0"),
        ({"slots": [[0, 101, 4, "m-0"]]}, "slots", f"{AT}/0"),
        ({"slots": [[0, 4.5, 4, "m-0"]]}, "slots", f"{AT}/0"),
        ({"slots": [[0, "5", 4, "m-0"]]}, "shape", f"{AT}/0"),
        ({"spread": -1}, "shape", "/reservations/0/atoms/0/spread"),
        ({"spread": True}, "shape", "/reservations/0/atoms/0/spread"),
        ({"domain": 7, "spread": 1}, "shape", "/reservations/0/atoms/0/domain"),
        ({"domain": "rack"}, "shape", "/reservations/0/atoms/0/domain"),
        ({"handover": "no"}, "shape", "/reservations/0/atoms/0/handover"),
        ({"within": 7}, "shape", "/reservations/0/atoms/0/within"),
        ({"values": 2}, "shape", "/reservations/0/atoms/0/values"),
        ({"shared": True}, "shape", "/reservations/0/atoms/0/shared"),
    ],
)
def test_malformed_slots(change: dict[str, Any], rule: str, where: str) -> None:
    """Each value that is not of its form is named, once."""
    entry = held()
    entry["atoms"][0] |= change
    assert told(entry) == [(rule, where)]


def test_messages_say_what_would_be_right() -> None:
    """A form that is wrong is answered with the one that is right."""
    for slots, right in (
        ([[0, 5, 4]], "[0, 5, 4] is not [start_s, end_s, bundles, machine]"),
        ([[0, 5, 4, 7]], "a machine is its name, such as 'wide-3', or null for none, not 7"),
    ):
        (found,) = validate(document(held(slots)), cluster=TWO)
        assert found.detail == right
    (found,) = validate(document(held(promise="sure")), cluster=TWO)
    assert found.where == "/reservations/0/promise"
    assert found.detail == "a promise is placed or pooled, not 'sure'"


@pytest.mark.parametrize("name", ["m-2", "m-00", "m-", "m", "x-0", "-1", "m--1", "m-²", "g-1"])
def test_names_of_machines_exist(name: str) -> None:
    """Machine i of a group is called name-i, from 0, and nothing else."""
    assert told(held([[0, 5, 2, "m-0"], [0, 5, 2, name]])) == [("machine", f"{AT}/1")]


def test_a_placed_reservation_has_slots() -> None:
    """The word alone is no machine; who lost machines may lack them."""
    entry = held()
    del entry["atoms"][0]["slots"]
    assert told(entry) == [("slots", AT)]
    assert told(entry | {"state": "degraded"}) == []


def test_a_slot_in_force_has_a_machine() -> None:
    """Without one it is no promise; of what is degraded or over it may be gone."""
    lost = [[0, 5, 2, "m-0"], [0, 5, 2, None]]
    for state, expected in (
        ("accepted", [("machine", f"{AT}/1")]),
        ("active", [("machine", f"{AT}/1")]),
        ("completed", []),
        ("degraded", []),
    ):
        assert told(held(lost, state=state)) == expected, state
    assert told(held(lost, promise="pooled")) == []


def test_slots_add_up_to_the_rows() -> None:
    """The first step at which they differ is reported, with both numbers."""
    rows = [[0, 5, 2], [5, 10, 4], [10, 15, 2]]
    asked = "atom(<1 cpu>, 1, 4, 5, 40)"
    right = [[0, 10, 2, "m-0"], [5, 15, 2, "m-1"]]
    assert told(held(right, rows, expression=asked)) == []
    less = [[0, 10, 2, "m-0"], [5, 14, 2, "m-1"]]
    (found,) = validate(document(held(less, rows, expression=asked)), cluster=TWO)
    detail = "slots hold 0 bundles at step 14, where the allocation is 2"
    assert found == PlanViolation(AT, "slots", detail, "r", 14, 0, 2)
    assert told(held(less, rows, expression=asked, promise="pooled")) == []
    assert told(held(less, rows, expression=asked, state="degraded")) == []
    more = [[0, 11, 2, "m-0"], [5, 15, 2, "m-1"]]
    for state in ("accepted", "degraded", "cancelled"):
        assert told(held(more, rows, expression=asked, state=state)) == [("slots", AT)], state


def test_released_rows_are_in_no_slot() -> None:
    """What was released is held on no machine."""
    early = held([[0, 3, 2, "m-0"], [0, 5, 2, "m-1"]], [[0, 3, 4], [3, 5, 2]], state="completed")
    early["atoms"][0]["released"] = [[3, 5, 2]]
    assert told(early) == []
    kept = copy.deepcopy(early)
    kept["atoms"][0]["slots"] = SLOTS
    assert told(kept) == [("slots", AT)]


def test_no_machine_is_promised_twice() -> None:
    """Each stretch of one machine is reported once, with its worst step and by how much."""
    five = "atom(<1 cpu>, 1, 5, 5, 25)"
    first = placed("a", five, [[0, 5, 5]], [[0, 5, 3, "m-0"], [0, 5, 2, "m-1"]])
    second = placed("b", ONE, [[3, 8, 4]], [[3, 8, 2, "m-0"], [3, 8, 2, "g-0"]])
    found = validate(document(first, second), cluster=TWO)
    detail = "5000 of cpu at step 3, 1000 above 4000; exceeded over steps [3, 5)"
    assert found == [PlanViolation("machine:m-0", "capacity", detail, None, 3, 5000, 4000)]
    second["atoms"][0]["slots"][0][3] = "m-1"
    assert told(first, second) == []


def test_slots_of_every_promise_hold_their_machine() -> None:
    """A slot alongside a pooled promise takes capacity too."""
    other = placed("b", "atom(<1 cpu>, 1, 3, 5, 15)", [[0, 5, 3]], [[0, 5, 3, "m-0"]])
    assert told(held(), other | {"promise": "pooled"}) == [("capacity", "machine:m-0")]


def test_every_resource_of_a_machine_counts() -> None:
    """Cores are enough where memory is not, and a group that has none of it holds none."""
    rich = MachineGroup("m", 1, Resources.of({"cpu": 4000, "memory": 2048}))
    both = cluster(rich, MachineGroup("n", 2, FOUR))
    asked = "atom(<1 cpu, 1 GiB memory>, 1, 2, 5, 10)"
    bundle = {"cpu": 1, "memory": "1 GiB"}

    def on(*slots: list[Any]) -> list[tuple[str, str]]:
        entry = placed("r", asked, [[0, 5, 2]], list(slots), bundle=bundle)
        return faults(document(entry), both)

    assert on([0, 5, 2, "m-0"]) == []
    assert on([0, 5, 1, "m-0"], [0, 5, 1, "n-1"]) == [("capacity", "machine:n-1")]


def test_a_machine_that_is_down_holds_nothing() -> None:
    """An outage in part of a step takes the whole step, of the machines it names alone."""
    away = replace(TWO, outages=(Outage("m", (1,), 3500, 4500), Outage("m", (1,), 3500, 4000)))
    (found,) = validate(document(held()), cluster=away)
    detail = "2000 of cpu at step 3, 2000 above 0, for it is away; exceeded over steps [3, 5)"
    assert found == PlanViolation("machine:m-1", "capacity", detail, None, 3, 2000, 0)
    assert told(held([[0, 5, 4, "m-0"]]), on=away) == []
    before = replace(TWO, outages=(Outage("m", (1,), 5000, 9000),))
    assert told(held(), on=before) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 6), st.integers(1, 3), st.integers(0, 2)),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 6)), max_size=3),
)
def test_capacity_by_every_machine_and_step(
    slots: list[tuple[int, int, int, int]], lost: list[tuple[int, int, int]]
) -> None:
    """Sums by differences find what dense sums find: the same machines, steps and amounts."""
    outages = tuple(Outage("m", (m,), 1000 * s, 1000 * (s + n)) for m, s, n in lost)
    three = cluster(MachineGroup("m", 3, FOUR), horizon=20, outages=outages)
    used, has = np.zeros((3, 20), dtype=int), np.full((3, 20), 4000)
    for start, length, bundles, machine in slots:
        used[machine, start : start + length] += 1000 * bundles
    for machine, start, length in lost:
        has[machine, start : start + length] = 0
    entry = reservation("r", ONE, {"": []}, state="cancelled", promise="pooled")
    entry["atoms"][0]["slots"] = [[s, s + n, b, f"m-{m}"] for s, n, b, m in slots]
    found = validate(document(entry), cluster=three)
    for one in found:
        machine = int(one.where.removeprefix("machine:m-"))
        assert (used[machine, one.at], has[machine, one.at]) == (one.amount, one.limit)
    over = np.diff((used > has).astype(int), axis=1, prepend=0)
    assert len(found) == (over == 1).sum()


def test_slots_lie_on_machines_with_the_label() -> None:
    """An atom for `gpu` machines may lie on g-0 alone."""
    asked = 'atom(<1 cpu>, 1, 4, 5, 20, on="gpu")'
    assert told(held([[0, 5, 4, "g-0"]], expression=asked, on="gpu")) == []
    wrong = held([[0, 5, 2, "g-0"], [0, 5, 2, "m-1"]], expression=asked, on="gpu")
    assert told(wrong) == [("label", f"{AT}/1")]


def test_spread_over_machines() -> None:
    """At most 2 bundles on one machine at any step; one after the other does not count."""
    assert told(held(spread=2)) == []
    assert told(held([[0, 5, 3, "m-0"], [0, 5, 1, "m-1"]], spread=3)) == []
    (found,) = validate(document(held([[0, 5, 3, "m-0"], [0, 5, 1, "m-1"]], spread=2)), cluster=TWO)
    detail = "3 bundles on m-0 at step 0, where the spread is 2"
    assert found == PlanViolation(AT, "spread", detail, "r", 0, 3, 2)
    after = held([[0, 5, 2, "m-0"], [5, 10, 2, "m-0"]], [[0, 10, 2]], spread=2)
    assert told(after) == []


RACKS = cluster(
    MachineGroup("a", 2, FOUR, domains=(("rack", "r1"), ("zone", "z"))),
    MachineGroup("b", 2, FOUR, domains=(("rack", "r2"), ("zone", "z"))),
    MachineGroup("c", 1, FOUR),
)


def test_spread_over_domains() -> None:
    """At most 2 bundles in one rack: two machines of one rack count together."""
    right = [[0, 5, 1, "a-0"], [0, 5, 1, "a-1"], [0, 5, 2, "b-0"]]
    assert told(held(right, spread=2, domain="rack"), on=RACKS) == []
    wrong = [[0, 5, 2, "a-0"], [0, 5, 1, "a-1"], [0, 5, 1, "b-0"]]
    (found,) = validate(document(held(wrong, spread=2, domain="rack")), cluster=RACKS)
    assert found.detail == "3 bundles on rack r1 at step 0, where the spread is 2"
    assert ("spread", AT) in told(held(right, spread=2, domain="zone"), on=RACKS)


def test_a_machine_in_no_domain_holds_nothing_that_spreads_over_it() -> None:
    """Nobody knows with what it fails together."""
    beside = [[0, 5, 2, "a-0"], [0, 5, 2, "c-0"]]
    assert told(held(beside, spread=2, domain="rack"), on=RACKS) == [("spread", f"{AT}/1")]
    assert told(held(beside, spread=2), on=RACKS) == []


def test_all_in_one_value_of_a_domain() -> None:
    """Over the whole allocation, but for what is over; a machine in no rack holds nothing."""
    racks = [[0, 5, 2, "a-0"], [0, 5, 1, "a-1"], [0, 5, 1, "b-0"]]
    (found,) = validate(document(held(racks, within="rack")), cluster=RACKS)
    assert (found.where, found.rule) == (f"{AT}/2", "within")
    assert found.detail == "b-0 is in rack r2, and a-0 in r1"
    assert told(held(racks, within="zone"), on=RACKS) == []
    later = held([[0, 5, 2, "a-0"], [5, 10, 2, "b-0"]], [[0, 10, 2]], within="rack")
    assert ("within", f"{AT}/1") in told(later, on=RACKS)
    none = [[0, 5, 4, "c-0"]]
    assert told(held(none, within="rack"), on=RACKS) == [("within", f"{AT}/0")]
    assert told(held([[0, 5, 4, "b-1"]], within="rack"), on=RACKS) == []
    assert told(held(racks, within="rack", values=2), on=RACKS) == []


def test_all_of_a_together_in_one_value_of_a_domain() -> None:
    """Each member is in one rack by itself; both have to be in the same."""
    gangs = "atom(<1 cpu>, 1, 1, 5, 5), atom(<1 cpu>, 2, 2, 5, 10)"
    rows = {"0": [[0, 5, 1]], "1": [[0, 5, 2]]}

    def said(machine: str, *, shared: bool = True) -> list[tuple[str, str]]:
        text = f"together({gangs}, within=rack)"
        entry = reservation("r", text, rows, promise="placed")
        for atom, slot in zip(entry["atoms"], ([0, 5, 1, "a-0"], [0, 5, 2, machine]), strict=True):
            atom |= {"slots": [slot], "within": "rack", "handover": False}
            atom |= {"shared": True} if shared else {}
        return told(entry, on=RACKS)

    assert said("a-1") == []
    assert said("b-0") == [("within", "/reservations/0/atoms/1/slots/0")]
    assert said("a-1", shared=False) == [("bundle", "/reservations/0/atoms/0/shared")]


@pytest.mark.parametrize(
    ("expression", "rule", "where"),
    [
        ("atom(<1 cpu>, 1, 4, 5, 20, spread=2)", {}, "spread"),
        ("atom(<1 cpu>, 1, 4, 5, 20, spread=2)", {"spread": 3}, "spread"),
        ("atom(<1 cpu>, 1, 4, 5, 20, spread=2, by=rack)", {"spread": 2}, "domain"),
        ("atom(<1 cpu>, 1, 4, 5, 20, within=rack)", {}, "within"),
        (
            "atom(<1 cpu>, 1, 4, 5, 20, within=rack, values=2)",
            {"within": "rack", "values": 3},
            "values",
        ),
        ("atom(<1 cpu>, 4, 4, 5, 20)", {}, "handover"),
        ("atom(<1 cpu>, 1, 4, 5, 20, handover=no)", {}, "handover"),
        ("atom(<1 cpu>, 1, 4, 5, 20)", {"handover": False}, "handover"),
        ("atom(<1 cpu>, 1, 4, 5, 20, spread=2, by=rack)", {"spread": 2, "domain": "rack"}, ""),
        ("atom(<1 cpu>, 4, 4, 5, 20)", {"handover": False}, ""),
        ("atom(<1 cpu>, 4, 4, 5, 20, handover=yes)", {}, ""),
    ],
)
def test_machine_rules_are_those_asked(expression: str, rule: dict[str, Any], where: str) -> None:
    """A gang hands nothing over unless it says so, and others do; who is pooled needs no rule."""
    slots = [[0, 5, 2, "a-0"], [0, 5, 2, "b-0"]]
    entry = held(slots, expression=expression)
    entry["atoms"][0] |= rule
    expected = [("bundle", f"/reservations/0/atoms/0/{where}")] if where else []
    assert told(entry, on=RACKS) == expected
    assert told(entry | {"promise": "pooled"}, on=RACKS) == []


def test_each_occurrence_has_slots_of_its_own() -> None:
    """Two runs of a recurrence on other machines, each checked against its own rows."""
    asked = "every(20s, atom(<1 cpu>, 1, 4, 5, 20), times=2)"
    rows = {"0@0": [[0, 5, 4]], "0@1": [[20, 25, 4]]}
    entry = reservation("r", asked, rows, promise="placed")
    entry["atoms"][0]["slots"] = SLOTS
    entry["atoms"][1]["slots"] = [[20, 25, 4, "g-0"]]
    assert told(entry) == []
    entry["atoms"][1]["slots"] = [[20, 25, 3, "g-0"]]
    assert told(entry) == [("slots", "/reservations/0/atoms/1/slots")]


def test_slots_do_not_stand_for_the_oracle() -> None:
    """Rows that break the promise are reported, though slots agree with them."""
    short = held([[0, 4, 2, "m-0"], [0, 4, 2, "m-1"]], [[0, 4, 4]])
    assert ("oracle", "/reservations/0") in told(short)
