"""Atoms whose bundles are all in one value of a domain: found, refused, repeated and moved."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import AGENT_NAMES, agent_named
from planner.cluster.cluster import Cluster
from planner.cluster.policy import DisplacementRule, Scope
from planner.offer_search import OfferSearch
from planner.optimization.objective import Objective
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.plan.batch.admission import screen
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, UncompiledRequest, Update
from planner.renegotiation import renegotiation_of
from planner.reservations.state import State
from rdl.compile.source import read_source
from rdl.text.formatter import format_expression
from tests.builders import a_plan, a_request, commit
from tests.planner.displacement.small_plans import displace_now
from tests.planner.racks import STEPS, adapt_now, ask, lose, racks, racks_of, violations


@pytest.mark.parametrize("agent", AGENT_NAMES)
def test_every_agent_keeps_a_gang_in_one_rack(agent: str) -> None:
    """Six of eight cores are in racks of three: only the rack of four holds the gang."""
    plan = a_plan(racks([2, 1], [2, 2], [3])).build()
    request = a_request("job", "window(atom(<1 cpu>, 4, 4, 2, 8, within=rack), 0, 6)")
    assert ask(plan, request.on(plan.cluster), agent) is None
    assert racks_of(plan) == [["r1"]]
    assert violations(plan) == []


def test_a_gang_goes_where_it_leaves_least() -> None:
    """Of the racks that hold it, the one with the least free capacity."""
    plan = a_plan(racks([4, 4], [2, 2], [3])).build()
    text = "window(atom(<1 cpu>, 3, 3, 2, 6, within=rack), 0, 2)"
    for number, rack in enumerate(["r2", "r1", "r0", "r0"]):
        request = a_request(f"job{number}", text).on(plan.cluster)
        assert ask(plan, request) is None
        assert racks_of(plan, f"job{number}") == [[rack]]


def test_a_refusal_names_the_fullest_and_the_emptiest_rack() -> None:
    """Three bundles of two cores leave four cores in all, at most three of them in a rack."""
    plan = a_plan(racks([2, 2], [3], [1, 2])).build()
    busy = a_request("busy", 'window(atom(<2 cpu>, 3, 3, 4, 12, on="two"), 0, 4)')
    assert ask(plan, busy.on(plan.cluster)) is None
    text = "window(atom(<1 cpu>, 4, 4, 4, 16, within=rack), 0, 4)"
    refused = ask(plan, a_request("job", text).on(plan.cluster))
    assert refused is not None
    assert "needs 4 bundles in one rack" in refused
    assert "no rack has as many: r1 has 3, r0 has 0" in refused


def test_each_run_has_a_rack_of_its_own() -> None:
    """What another job leaves lets no rack hold both runs, but each holds one."""
    plan = a_plan(racks([2], [2])).build()
    for start, id_ in ((0, "first"), (6, "second")):
        # The second one goes to the other machine, as it is the only one that is free then.
        text = f"window(atom(<2 cpu>, 1, 1, 2, 2), {start}, {start + 2})"
        assert ask(plan, a_request(id_, text).on(plan.cluster)) is None
    text = "every(6, window(atom(<1 cpu>, 2, 2, 2, 4, within=rack), 0, 2), times=2)"
    assert ask(plan, a_request("job", text).on(plan.cluster)) is None
    assert [len(racks) for racks in racks_of(plan)] == [1, 1]
    assert violations(plan) == []


def test_a_zone_holds_what_is_spread_over_its_racks() -> None:
    """In one zone, at most two a rack: four, and not five."""
    plan = a_plan(racks([4], [4], [2], [2])).build()
    text = "window(atom(<1 cpu>, 4, 4, 2, 8, spread=2, by=rack, within=zone), 0, 2)"
    assert ask(plan, a_request("job", text).on(plan.cluster)) is None
    assert len(racks_of(plan)[0]) == 2
    assert violations(plan) == []
    assert (
        a_request("more", text.replace("4, 4, 2, 8", "5, 5, 2, 10")).if_possible(plan.cluster)
        is None
    )


def test_two_racks_with_at_most_four_a_rack() -> None:
    """Eight need both racks of four or more; nine are refused, and so are three racks."""
    plan = a_plan(racks([3, 3], [4, 1], [3])).build()
    rule = "spread=4, by=rack, within=rack, values=2"
    text = f"window(atom(<1 cpu>, {{0}}, {{0}}, 2, {{1}}, {rule}), 0, 2)"
    assert ask(plan, a_request("job", text.format(8, 16)).on(plan.cluster)) is None
    assert racks_of(plan) == [["r0", "r1"]]
    assert a_request("more", text.format(9, 18)).if_possible(plan.cluster) is None
    refused = ask(plan, a_request("more", text.format(6, 12)).on(plan.cluster))
    assert refused is not None
    assert "needs 6 bundles in at most 2 values of rack" in refused
    assert "no 2 have as many: r0 and r2 have 5, r0 and r1 have 3" in refused
    assert violations(plan) == []


#: 20 racks of which r3 and r17 have four cores, each of the others one: too many pairs for all to
#: be tried.
_MANY = [[4] if rack == 3 else [2, 2] if rack == 17 else [1] for rack in range(20)]


def _gang(bundles: int, end: int, lease: int = 2) -> str:
    numbers = f"{bundles}, {bundles}, {lease}, {bundles * lease}"
    return f"window(atom(<1 cpu>, {numbers}, within=rack, values=2), 0, {end})"


def test_the_racks_that_hold_most_are_among_those_tried() -> None:
    """The pair that holds it is found, and a refusal says that not all pairs were tried."""
    plan = a_plan(racks(*_MANY)).build()
    assert ask(plan, a_request("job", _gang(8, 2)).on(plan.cluster)) is None
    assert racks_of(plan) == [["r17", "r3"]]
    refused = ask(plan, a_request("more", _gang(3, 2)).on(plan.cluster))
    assert refused is not None
    assert "needs 3 bundles in at most 2 values of rack" in refused
    assert "none of the 19 choices of 2 tried has as many: " in refused
    assert refused.count(" have 2") == 1
    assert refused.count(" have 0") == 1
    assert violations(plan) == []


def test_a_gang_whose_rack_is_lost_moves_as_a_whole() -> None:
    """One machine of the rack is lost, the rack has no other: all of it goes to another rack."""
    plan = a_plan(racks([1, 1], [3])).build()
    text = "window(atom(<1 cpu>, 2, 2, 2, 4, within=rack), 4, 6)"
    assert ask(plan, a_request("job", text).on(plan.cluster)) is None
    assert racks_of(plan) == [["r0"]]
    lose(plan, "r0m1")
    adapt_now(plan)
    assert racks_of(plan) == [["r1"]]
    found = plan.reservation("job")
    assert found is not None
    assert found.state is State.ACCEPTED
    assert found.atoms[0].rows.tolist() == [[4, 6, 2]]
    assert violations(plan) == []


def test_a_gang_that_runs_and_loses_a_machine_is_not_divided() -> None:
    """Its rack has no other machine: it is degraded, and no bundle of it goes to another rack."""
    plan = a_plan(racks([1, 1], [3])).build()
    text = "window(atom(<1 cpu>, 2, 2, 4, 8, within=rack), 0, 4)"
    assert ask(plan, a_request("job", text).on(plan.cluster)) is None
    commit(plan, Advance(1, STEPS))
    lose(plan, "r0m1")
    adapt_now(plan)
    found = plan.reservation("job")
    assert found is not None
    assert found.state is State.DEGRADED
    assert racks_of(plan) in ([["r0"]], [[]])


def test_a_gang_that_runs_continues_in_another_rack_where_all_of_its_own_is_lost() -> None:
    """Both of its machines are lost at the same time: the rest of it runs in one other rack."""
    plan = a_plan(racks([1, 1], [3])).build()
    text = "window(atom(<1 cpu>, 2, 2, 4, 8, within=rack), 0, 4)"
    assert ask(plan, a_request("job", text).on(plan.cluster)) is None
    commit(plan, Advance(1, STEPS))
    lose(plan, "r0m0", "r0m1")
    adapt_now(plan)
    assert racks_of(plan) == [["r1"]]
    assert violations(plan) == []


def test_its_owner_moves_it_to_another_time_and_rack() -> None:
    """Later there is only one rack that holds it."""
    plan = a_plan(racks([1, 1], [2, 2])).build()
    text = "window(atom(<1 cpu>, 2, 2, 2, 4, within=rack), {}, {})"
    assert ask(plan, a_request("job", text.format(0, 4)).on(plan.cluster)) is None
    busy = "window(atom(<1 cpu>, 1, 1, 6, 6), 6, 12)"
    assert ask(plan, a_request("busy", busy).on(plan.cluster)) is None
    known = plan.reservation("job")
    assert known is not None
    wanted = a_request("job", text.format(6, 12)).on(plan.cluster)
    result = renegotiation_of(plan, "job", wanted).place(agent_named("gree"), Limits())
    assert result.placed, result.detail
    assert commit(plan, Update("job", known.revision, wanted, result, "gree")).record is not None
    assert len(racks_of(plan)[0]) == 1
    assert violations(plan) == []


def test_a_gang_of_higher_priority_displaces_what_is_in_one_rack() -> None:
    """Two cores of one rack are taken; one of lower priority there is moved to a later time."""
    policy = DisplacementRule("urgent", Scope())
    plan = a_plan(replace(racks([2], [1]), policies=(policy,))).build()
    low = a_request("low", "window(atom(<2 cpu>, 1, 1, 4, 4), 0, 12)").priority(1)
    assert ask(plan, low.on(plan.cluster), "earliest") is None
    text = "window(atom(<1 cpu>, 2, 2, 4, 8, within=rack), 0, 4)"
    high = a_request("job", text).priority(2).on(plan.cluster)
    assert displace_now(plan, high) is not None
    assert racks_of(plan) == [["r0"]]
    moved = plan.reservation("low")
    assert moved is not None
    assert moved.atoms[0].rows.tolist()[0][0] >= 4
    assert violations(plan) == []


def test_an_offer_is_a_time_at_which_one_rack_holds_it() -> None:
    """Before step 6 no rack has two cores left; after it both have."""
    plan = a_plan(racks([2], [2])).build()
    for number in range(2):
        busy = a_request(f"busy{number}", "window(atom(<1 cpu>, 1, 1, 6, 6, spread=1), 0, 6)")
        assert ask(plan, busy.on(plan.cluster)) is None
    filler = a_request("filler", "window(atom(<1 cpu>, 1, 1, 6, 6), 0, 6)")
    assert ask(plan, filler.on(plan.cluster)) is None
    text = "window(atom(<1 cpu>, 2, 2, 2, 4, within=rack), 0, 6)"
    assert ask(plan, a_request("job", text).on(plan.cluster)) is not None
    expression = read_source(text)
    asked = UncompiledRequest("asked", "default", "default", 0, 1.0, 0, text)
    asked = replace(asked, expression=format_expression(expression))
    found = OfferSearch.of(plan).answer(
        asked, expression, agent_named("gree"), 3, lambda one: screen(plan, one)
    )
    offers = found["offers"]
    assert isinstance(offers, list)
    assert offers
    for number, offer in enumerate(offers):
        again = a_request(f"again{number}", offer["expression"]).on(plan.cluster)
        copy = plan.copy()
        assert ask(copy, again) is None
        assert violations(copy) == []


def _is_possible(
    cluster: Cluster, free: np.ndarray, asked: tuple[int, ...], by: str, values: int
) -> bool:
    """Return whether some racks hold a gang at some start: all racks, starts and machines."""
    size, count, length, end, spread = asked
    racks: dict[str, list[int]] = {}
    for number, group in enumerate(cluster.machines):
        racks.setdefault(dict(group.domains)["rack"], []).append(number)
    for start in range(end - length + 1):
        least = free[:, start : start + length].min(axis=1) // size
        for some in combinations(racks, min(values, len(racks))):
            held = [[int(least[one]) for one in racks[rack]] for rack in some]
            places = [sum(one) for one in held] if by else [one for own in held for one in own]
            if sum(min(one, spread or 99) for one in places) >= count:
                return True
    return False


def _free(cluster: Cluster) -> np.ndarray:
    cores = [[group.resources["cpu"] // 1000] for group in cluster.machines]
    return np.zeros((len(cores), STEPS), dtype=np.int64) + np.array(cores)


def _judge(
    plan: Plan, free: np.ndarray, id_: str, asked: tuple[int, ...], by: str, values: int, agent: str
) -> bool:
    """Ask for a gang and take what it has from `free`; return whether it is accepted.

    It is if and only if some racks hold it, what is placed before staying where it is.
    """
    size, count, length, end, spread = asked
    rule = f"within=rack, values={values}" + (f", spread={spread}{by}" if spread else "")
    numbers = f"{count}, {count}, {length}, {count * length}"
    text = f"window(atom(<{size} cpu>, {numbers}, {rule}), 0, {end})"
    possible = _is_possible(plan.cluster, free, asked, by, values)
    request = a_request(id_, text).if_possible(plan.cluster)
    accepted = request is not None and ask(plan, request, agent) is None
    assert accepted == possible, text
    if accepted:
        found = plan.reservation(id_)
        assert found is not None
        for atom in found.atoms:
            assert atom.slots is not None
            for start, stop, bundles, machine in atom.slots.tolist():
                free[machine, start:stop] -= size * bundles
    assert (free >= 0).all()
    return accepted


@given(st.data())
def test_a_gang_is_refused_only_where_no_rack_holds_it_at_any_time(data: st.DataObject) -> None:
    """Held against all racks, starts and machines, what is placed before staying where it is."""
    cores = st.lists(st.integers(1, 3), min_size=1, max_size=3)
    cluster = racks(*data.draw(st.lists(cores, min_size=1, max_size=3)))
    plan, free = a_plan(cluster).build(), _free(cluster)
    for number in range(data.draw(st.integers(1, 5))):
        size, count = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 4))
        length, end = data.draw(st.integers(1, 4)), data.draw(st.integers(4, 8))
        spread, values = data.draw(st.sampled_from([0, 0, 1, 2])), data.draw(st.integers(1, 2))
        by = data.draw(st.sampled_from(["", ", by=rack"])) if spread else ""
        agent = data.draw(st.sampled_from(["gree", "gree-l", "earliest", "headroom"]))
        asked = (size, count, length, end, spread)
        _judge(plan, free, f"r{number}", asked, by, values, agent)
    assert violations(plan) == []


def test_no_two_of_many_racks_are_missed() -> None:
    """The same with two of 20 racks: 190 pairs, of which some are tried."""
    accepted = []
    for seed in range(4):
        draw = random.Random(seed)
        cluster = racks(*([draw.randint(1, 3) for _ in range(draw.randint(1, 2))] for _ in _MANY))
        plan, free = a_plan(cluster).build(), _free(cluster)
        for number in range(16):
            size, length, end = draw.randint(1, 2), draw.randint(1, 4), draw.randint(4, 8)
            asked = (size, draw.randint(3, 8 // size), length, end, draw.choice([0, 0, 1, 2]))
            by, agent = draw.choice(["", ", by=rack"]), draw.choice(["gree", "earliest"])
            accepted.append(_judge(plan, free, f"r{number}", asked, by, 2, agent))
        assert violations(plan) == []
    assert any(accepted)
    assert not all(accepted)


@given(st.data())
def test_malleable_work_and_orders_stay_in_one_rack_each(data: st.DataObject) -> None:
    """Several atoms, recurrences and hand-overs, judged by the validator, as they are asked for,
    after an optimization, and after a loss of machines.
    """
    cores = st.lists(st.integers(1, 3), min_size=1, max_size=3)
    cluster = racks(*data.draw(st.lists(cores, min_size=2, max_size=3)))
    plan = a_plan(cluster).build()
    for number in range(data.draw(st.integers(1, 4))):
        atoms = []
        for _ in range(data.draw(st.integers(1, 2))):
            least, lease = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
            most = least + data.draw(st.integers(0, 2))
            places = ["", ", within=rack", ", within=zone", ", within=rack, values=2"]
            rule = data.draw(st.sampled_from(places))
            work = most * lease + data.draw(st.integers(0, 3)) * lease
            atoms.append(f"atom(<1 cpu>, {least}, {most}, {lease}, {work}{rule})")
        text = data.draw(
            st.sampled_from(
                [
                    f"window(order({', '.join(atoms)}), 0, 10)",
                    f"every(4, window(all({', '.join(atoms)}), 0, 4), times=3)",
                ]
            )
        )
        request = a_request(f"r{number}", text).if_possible(cluster)
        if request is not None:
            ask(plan, request, data.draw(st.sampled_from(["gree", "gree-l", "earliest"])))
    assert violations(plan) == []
    scope = OptimizeScope(admit_refused=True)
    better = optimize(plan, Objective(), scope, OptimizeOptions(Limits(work=10, seed=1), solver=""))
    if better.changes:
        prepared = plan.prepare(better.changes, better.based_on, joint=True)
        assert prepared.record is not None, prepared.outcomes
        plan.apply(prepared.record)
    assert violations(plan) == []
    commit(plan, Advance(data.draw(st.integers(0, 6)), STEPS))
    names = [group.name for group in cluster.machines]
    lose(plan, *data.draw(st.lists(st.sampled_from(names), max_size=3, unique=True)))
    adapt_now(plan)
    assert not [one for one in violations(plan) if "rack" in one or "zone" in one]
