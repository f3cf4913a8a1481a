"""Where one block goes in a profile, against a look at every start."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agents.exact.build import build_problem
from planner.agents.exact.kernels import search_state as state
from planner.agents.exact.kernels.place import AtomForm, BlockWindow, place
from planner.agents.exact.problem import (
    V_BLOCKED,
    V_DEMAND,
    V_END,
    V_MOST,
    V_MULTIPLE,
    V_RUN,
    V_SHIFT,
    V_SHIFTS,
    V_START,
    PlanningProblem,
)
from planner.agents.exact.search import RuinRecreate
from planner.plan.plan import Plan
from tests.builders import a_cluster, a_request

#: One resource; two, one of them short on some machines; occurrences; heights that fit nowhere at
#: times (an outage leaves one machine of three).
TEXTS = (
    "window(atom(<1 cpu>, 3, 3, {0}, {1}), 7, 290)",
    "window(atom(<2 cpu, 1 GiB memory>, 2, 2, {0}, {2}), 0, 300)",
    "window(every(100, atom(<1 cpu, 2 GiB memory>, 2, 2, {0}, {2}), times=3), 0, 300)",
    "window(atom(<3 cpu>, 2, 2, {0}, {2}), 20, 270)",
)

#: No form is requested: one block has only one.
AS_IT_IS = AtomForm(low=False, fill=False)

#: First column, columns, and quarters that stay free of what is there.
CUT = st.tuples(st.integers(0, 299), st.integers(1, 60), st.integers(0, 3))


def problem(text: int, length: int) -> PlanningProblem:
    """Return one request of one block on three machines, two of them away for a while."""
    builder = a_cluster().horizon("300s").machines("m", 3, cpu=4, memory="8 GiB")
    cluster = builder.outage("m", 2, "130s", "170s").build()
    asked = TEXTS[text].format(length, 3 * length, 2 * length)
    view = Plan(cluster, cluster.grid()).view()
    return build_problem([a_request("r", asked).on(cluster)], view)


def fits(one: PlanningProblem, free: np.ndarray, start: int) -> bool:
    """Return whether the block may begin at a column, every column of every occurrence read."""
    room, forest = one.room, one.forest
    row = forest.vertices[int(np.flatnonzero(forest.vertices[:, V_RUN])[0])]
    bundles, demand = row[V_MOST] * row[V_MULTIPLE], row[V_DEMAND]
    for shift in forest.shifts[row[V_SHIFT] : row[V_SHIFT] + row[V_SHIFTS]]:
        held = slice(start + shift, start + shift + row[V_RUN])
        if held.stop > free.shape[1] or room.fit[demand, held].min() < bundles:
            return False
        for j in range(room.demand_first[demand], room.demand_first[demand + 1]):
            if free[room.demand_rows[j], held].min() < bundles * room.demand_amounts[j]:
                return False
    return True


@settings(max_examples=60, deadline=None)
@given(
    text=st.integers(0, len(TEXTS) - 1),
    length=st.sampled_from([1, 2, 31, 32, 33, 64, 70]),
    late=st.booleans(),
    cuts=st.lists(
        st.tuples(st.integers(0, 299), st.integers(1, 60), st.integers(0, 3)), max_size=8
    ),
    ends=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_a_block_goes_to_its_first_or_last_place(
    text: int, length: int, late: bool, cuts: list[tuple[int, int, int]], ends: tuple[int, int]
) -> None:
    """Of all starts that fit a span and what is free, the earliest or the latest; none: refused."""
    one = problem(text, length)
    search = RuinRecreate(one, seed=0)
    for begin, width, quarters in cuts:
        free = search.arrays.free[:, begin : begin + width]
        free[:] = np.minimum(free, one.room.free[:, begin : begin + width] * quarters // 4)
    atom = int(np.flatnonzero(one.forest.vertices[:, V_RUN])[0])
    row = one.forest.vertices[atom]
    lo, hi = int(row[V_START]) + ends[0], int(row[V_END]) - ends[1]
    possible = [t for t in range(lo, hi - length + 1) if fits(one, search.arrays.free, t)]
    placed = place(one.forest, one.room, search.arrays, atom, BlockWindow(lo, hi, late), AS_IT_IS)
    assert placed == bool(possible)
    if possible:
        begin, end, bundles = search.arrays.rows[state.PLAN, search.arrays.first[atom]]
        assert begin == (possible[-1] if late else possible[0])
        assert end == begin + length
        assert bundles == row[V_MOST] * row[V_MULTIPLE]


def test_the_sets_have_the_atoms_that_they_are_for() -> None:
    """Each text gives one block; some fit not everywhere even alone, some come thrice."""
    problems = [problem(text, 33) for text in range(len(TEXTS))]
    rows = [one.forest.vertices[one.forest.vertices[:, V_RUN] == 33] for one in problems]
    assert [len(row) for row in rows] == [1] * len(TEXTS)
    atoms = np.concatenate(rows)
    assert (atoms[:, V_BLOCKED] >= 0).any()
    assert (atoms[:, V_BLOCKED] < 0).any()
    assert atoms[:, V_SHIFTS].max() == 3
