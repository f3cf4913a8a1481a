"""Packable promises: granted only where a packing is, and kept by what comes after."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.machines.room import MachineRoom
from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Cancel, Prepared
from planner.plan.slots.packable import PackedBundles
from planner.promise import PromiseLevel
from planner.reservations.reservation import AtomAllocation, Holding
from planner.reservations.slots import MachineRule
from rdl.resources import CPU, Resources
from tests.builders import a_cluster, a_request, commit
from tests.planner.brute_force_packing import Piece, packable_with_moves

PACKABLE, PLACED = PromiseLevel.PACKABLE, PromiseLevel.PLACED


def cluster_of(cores: tuple[int, ...]) -> Cluster:
    """One machine each of some cores, six steps of 10 s."""
    built = a_cluster().step("10s").horizon("1m")
    for number, one in enumerate(cores):
        built = built.machines(f"m{number}", 1, cpu=one)
    return built.build()


def ask(plan: Plan, id_: str, text: str, level: PromiseLevel) -> Prepared | None:
    """Place a request at a level and commit it; None where totals or the compiler refuse it."""
    agent = agent_named("gree")
    compiled = a_request(id_, text).if_possible(plan.cluster)
    if compiled is None:
        return None
    request = replace(compiled, promise=level)
    result = agent.plan([request], plan.view(), Limits())[0]
    if not result.placed:
        return None
    return commit(plan, Admit(request, result, "gree", planner=agent))


def pieces_of(plan: Plan) -> list[Piece]:
    """Return what packable reservations hold at each step, and slots on the machines they have."""
    found: list[Piece] = []
    for number, one in enumerate(plan.reservations()):
        for part, atom in enumerate(one.atoms):
            (amount,) = atom.bundle.values()
            if one.promise is PLACED:
                assert atom.slots is not None
                found += [
                    Piece(s, e, n, (amount,), frozenset({machine}), 100 * number + part)
                    for s, e, n, machine in atom.slots.tolist()
                ]
            else:
                assert atom.slots is None
                found += [
                    Piece(s, e, n, (amount,), None, 100 * number + part, atom.rule.spread)
                    for s, e, n in atom.rows.tolist()
                ]
    return found


@st.composite
def asks(draw: st.DrawFn) -> tuple[str, PromiseLevel]:
    """Draw a request of one atom, and a level."""
    cores, least = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    lease = draw(st.integers(1, 3)) * 10
    most = least + draw(st.integers(0, 1))
    work = lease * least * draw(st.integers(1, 2))
    spread = draw(st.sampled_from(["", ", spread=1"]))
    atom = f"atom(<{cores} cpu>, {least}, {most}, {lease}, {work}{spread})"
    start = draw(st.integers(0, 4)) * 10
    end = start + draw(st.integers(1, 6)) * 10
    return f"window({atom}, {start}, {end})", draw(st.sampled_from([PACKABLE, PACKABLE, PLACED]))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
    st.lists(asks(), max_size=6),
)
def test_at_every_step_some_packing_is_there(
    cores: tuple[int, ...], wanted: list[tuple[str, PromiseLevel]]
) -> None:
    """Whoever came first: slots where they are, packable bundles anywhere, step by step."""
    plan = Plan(cluster_of(cores), cluster_of(cores).grid())
    refused = 0
    for number, (text, level) in enumerate(wanted):
        prepared = ask(plan, f"r{number}", text, level)
        refused += prepared is not None and prepared.record is None
    event(f"refused for machines: {refused}")
    capacity = [(one * 1000,) for one in cores]
    assert packable_with_moves(capacity, pieces_of(plan))


def scattered() -> Plan:
    """Two machines of 4 cores, 3 taken of each, packable."""
    plan = Plan(cluster_of((4, 4)), cluster_of((4, 4)).grid())
    for name in ("a", "b"):
        prepared = ask(plan, name, "window(atom(<3 cpu>, 1, 1, 1m, 1m), 0, 1m)", PACKABLE)
        assert prepared is not None
        assert prepared.record is not None
    return plan


TWO = "window(atom(<2 cpu>, 1, 1, 1m, 1m), 0, 1m)"


@pytest.mark.parametrize("level", [PACKABLE, PLACED])
def test_what_would_leave_no_packing_is_refused_for_machines(level: PromiseLevel) -> None:
    """Totals have two cores; no machine has, whatever stands where."""
    prepared = ask(scattered(), "c", TWO, level)
    assert prepared is not None
    (conflict,) = prepared.conflicts
    assert conflict.lacks_machines
    assert conflict.binding is not None
    assert (conflict.binding.needed, conflict.binding.free) == (1, 0)


def test_what_a_packable_reservation_gives_back_serves_the_next() -> None:
    """Cancelled before it began, it takes no machine any more."""
    plan = scattered()
    commit(plan, Cancel("a"))
    prepared = ask(plan, "c", TWO, PLACED)
    assert prepared is not None
    assert prepared.record is not None


def test_a_state_read_back_keeps_its_packable_promises() -> None:
    """A checkpoint's Plan refuses what the Plan before it refused."""
    plan = read_checkpoint(take_checkpoint(scattered()).encode())
    prepared = ask(plan, "c", TWO, PACKABLE)
    assert prepared is not None
    assert prepared.record is None


def test_bundles_change_machines_between_steps() -> None:
    """No machine is free for a minute, one at a time is: packable and not placed."""
    for level, granted in ((PACKABLE, True), (PLACED, False)):
        plan = Plan(cluster_of((2, 2)), cluster_of((2, 2)).grid())
        for name, start in (("a", 0), ("b", 30)):
            text = f"window(atom(<2 cpu>, 1, 1, 30, 30), {start}, {start + 30})"
            assert ask(plan, name, text, PLACED) is not None
        slots = [one.atoms[0].slots for one in plan.reservations()]
        assert all(one is not None for one in slots)
        if len({int(one[0, 3]) for one in slots if one is not None}) == 1:
            continue  # both stand on one machine: the other is free all the time
        prepared = ask(plan, "c", "window(atom(<2 cpu>, 1, 1, 1m, 1m, handover=no), 0, 1m)", level)
        assert prepared is not None
        assert (prepared.record is not None) is granted


def test_spread_counts_by_domain_value() -> None:
    """Two racks of two machines: a spread of one by rack holds two bundles, not three."""
    built = a_cluster().step("10s").horizon("1m").machines("m", 2, cpu=4).machines("n", 2, cpu=4)
    plain = built.build()
    racks = zip(plain.machines, ("r1", "r2"), strict=True)
    groups = tuple(replace(group, domains=(("rack", name),)) for group, name in racks)
    cluster = replace(plain, machines=groups)
    room = MachineRoom(cluster, cluster.grid(), 0)
    bundle = Resources.of({CPU: 1000})
    for bundles, fits in ((2, True), (3, False)):
        rows = np.array([[0, 6, bundles]])
        atom = AtomAllocation("", bundle, None, rows, rule=MachineRule(1, "rack"))
        packed = PackedBundles(0, 6)
        packed.add(Holding((atom,), 0, 6))
        short = packed.shortage(Holding((atom,), 0, 6), room, cluster.nominal)
        assert (short is None) is fits
