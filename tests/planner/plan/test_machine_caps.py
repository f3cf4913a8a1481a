"""What machines hold of a bundle is in an agent's view at every step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.machines.room import MachineRoom
from planner.plan.draft import MachineShortage
from planner.plan.placing import CappedSnapshot, MachineCaps
from planner.plan.plan import Plan
from planner.view import PlanView
from rdl.resources import Resources
from tests.builders import a_cluster, a_plan, a_request

STEPS = 17
CLUSTER = a_cluster().step("1s").horizon(f"{STEPS}s").machines("m", 3, cpu=4).build()
CORE, PAIR = (Resources.of({"cpu": 1000 * cores}) for cores in (1, 2))
#: Bundles of two cores for two steps in [2, 15), and one core at any time.
REQUEST = a_request(
    "a",
    "all(window(atom(<2 cpu>, 1, 2, 2s, 4s), 2s, 15s), "
    "window(atom(<1 cpu>, 1, 1, 1s, 1s), 0, 17s))",
).on(CLUSTER)
_PLAN = (
    a_plan(CLUSTER)
    .holding(a_request("b", "window(atom(<2 cpu>, 1, 1, 1s, 1s), 0, 9s)").on(CLUSTER))
    .build()
)
#: An atom of two cores, for which machines were missed.
(ATOM,) = next(iter(_PLAN.reservations())).atoms


def fit_at(view: PlanView, bundle: Resources, step: int) -> int:
    """Return how many bundles a view has at a step."""
    segment = int(np.searchsorted(view.segments, step, side="right")) - 1
    return view.demand(bundle, None, "t", "default").fit[segment]


@given(
    taken=st.lists(
        st.tuples(st.integers(0, STEPS - 1), st.integers(1, 6), st.integers(0, 2)), max_size=4
    ),
    missed=st.lists(
        st.tuples(st.integers(0, 15), st.integers(1, 5), st.integers(0, 2)), max_size=2
    ),
)
def test_a_view_has_what_machines_hold_at_every_step(
    taken: list[tuple[int, int, int]], missed: list[tuple[int, int, int]]
) -> None:
    """The least of totals, machines that are free for a lease, and what a search has missed."""
    room = MachineRoom(CLUSTER, CLUSTER.grid(), 0)
    slots = [(start, min(start + length, STEPS), 1, where) for start, length, where in taken]
    room.take(np.array(slots, dtype=np.int64).reshape(-1, 4), CORE, 1)
    caps = MachineCaps(room, REQUEST.graph)
    for start, length, found in missed:
        caps.note(MachineShortage(ATOM, start, min(start + length, STEPS), 3, found))
    totals = Plan(CLUSTER, CLUSTER.grid()).view()
    view = CappedSnapshot(totals.ledger, totals.version, caps)
    for bundle in (CORE, PAIR):
        for step in range(STEPS):
            most = int(caps.lower(bundle, None, np.array([step]))[0])
            expected = min(fit_at(totals, bundle, step), most)
            assert fit_at(view, bundle, step) == expected, (bundle, step)


def test_what_was_missed_lowers_only_its_own_bundle_and_steps() -> None:
    """Of two notes of one bundle the lower counts where both hold."""
    caps = MachineCaps()
    caps.note(MachineShortage(ATOM, 3, 6, 3, 2), MachineShortage(ATOM, 5, 8, 3, 1))
    steps = np.arange(2, 9)
    free = 2**62
    assert caps.lower(PAIR, None, steps).tolist() == [free, 2, 2, 1, 1, 1, free]
    assert caps.lower(CORE, None, steps).tolist() == [free] * 7
    assert caps.lower(PAIR, "fast", steps).tolist() == [free] * 7
    assert sorted(int(one) for found in caps.breaks() for one in found) == [3, 5, 6, 8]


def test_without_a_shortage_the_view_is_the_same() -> None:
    """Agents are shown a finer view only after machines held less than totals."""
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    caps = MachineCaps()
    assert caps.over(view) is view
    caps.note(MachineShortage(ATOM, 3, 6, 3, 2))
    assert fit_at(caps.over(view), PAIR, 4) == 2
