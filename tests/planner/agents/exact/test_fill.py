"""A malleable atom that fills what is free keeps its rules, and leaves no long piece."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agents.exact import kernels
from planner.agents.exact.build import build_problem
from planner.agents.exact.kernels import search_state as state
from planner.agents.exact.problem import V_LEASE, V_MOST, V_RUN, V_WORK
from planner.agents.exact.search import RuinRecreate
from planner.plan.plan import Plan
from tests.builders import a_cluster, a_request

COLUMNS, CORES = 40, 4


def _uncompiled(name: str) -> Any:
    """Load a module of kernels as Python: to compile it for these tests alone takes 19 s."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for decorator in ("compiled", "inlined"):
            patch.setattr(kernels, decorator, lambda function: function)
        spec.loader.exec_module(module)
    return module


kernel = _uncompiled("planner.agents.exact.kernels.place")

#: What is free in each column, in stretches of equal height.
PROFILES = st.lists(st.tuples(st.integers(0, CORES), st.integers(1, 9)), min_size=1, max_size=12)

ATOMS = st.tuples(st.integers(2, 7), st.integers(2, CORES), st.integers(0, 60))


def search_of(atom: tuple[int, int, int], profile: list[tuple[int, int]]) -> RuinRecreate:
    """Return a search for one atom of lease l, at most h high, on a cut profile."""
    lease, most, more = atom
    work = min(lease + more, most * COLUMNS)
    text = f"window(atom(<1 cpu>, 1, {most}, {lease}, {work}), 0, {COLUMNS})"
    cluster = a_cluster().horizon(f"{COLUMNS}s").machines("m", CORES, cpu=1).build()
    view = Plan(cluster, cluster.grid()).view()
    search = RuinRecreate(build_problem([a_request("r", text).on(cluster)], view), seed=0)
    heights = np.repeat([height for height, _ in profile], [length for _, length in profile])
    heights = np.resize(heights, COLUMNS) * (search.problem.room.free[0].max() // CORES)
    search.arrays.free[0] = np.minimum(search.arrays.free[0], heights)
    return search


def profile_of(search: RuinRecreate, atom: int) -> np.ndarray:
    """Return what an atom holds in each column, in bundles."""
    arrays, held = search.arrays, np.zeros(COLUMNS, dtype=np.int64)
    first = int(arrays.first[atom])
    for begin, end, bundles in arrays.rows[state.PLAN, first : first + arrays.pieces[0, atom]]:
        held[begin:end] += bundles
    return held


def has_whole_leases(held: np.ndarray, lease: int) -> bool:
    """Return whether bundles that begin first can end first, each after a lease at least."""
    changes = np.diff(np.concatenate([[0], held, [0]]))
    begins = np.repeat(np.arange(len(changes)), np.maximum(changes, 0))
    ends = np.repeat(np.arange(len(changes)), np.maximum(-changes, 0))
    return bool((ends - begins >= lease).all())


@settings(max_examples=320, deadline=None)
@given(atom=ATOMS, profile=PROFILES, late=st.booleans())
def test_what_fills_keeps_the_rules_of_its_atom(
    atom: tuple[int, int, int], profile: list[tuple[int, int]], late: bool
) -> None:
    """Exactly its work, below what is free and its maximum, each bundle for a lease at least."""
    search = search_of(atom, profile)
    problem, window = search.problem, kernel.BlockWindow(0, COLUMNS, late)
    vertex = len(problem.forest.vertices) - 1
    row = problem.forest.vertices[vertex]
    form = kernel.AtomForm(low=False, fill=True)
    if not kernel.place(problem.forest, problem.room, search.arrays, vertex, window, form):
        return
    held = profile_of(search, vertex)
    core = int(problem.room.demand_amounts[0])
    assert held.sum() == (row[V_WORK] if not row[V_RUN] else row[V_RUN] * row[V_MOST])
    assert (held <= row[V_MOST]).all()
    assert (held * core <= search.arrays.free[0]).all()
    assert has_whole_leases(held, int(row[V_LEASE]))


@settings(max_examples=320, deadline=None)
@given(atom=ATOMS, profile=PROFILES, late=st.booleans())
def test_no_free_stretch_is_left_with_a_piece_at_its_end(
    atom: tuple[int, int, int], profile: list[tuple[int, int]], late: bool
) -> None:
    """With more work than there is room, what is left free has no room for one more lease."""
    search = search_of(atom, profile)
    problem = search.problem
    vertex = len(problem.forest.vertices) - 1
    row = problem.forest.vertices[vertex].copy()
    row[V_WORK] = 10 * COLUMNS * CORES
    window = kernel.BlockWindow(0, COLUMNS, late)
    left, _, _ = kernel._fill(problem.forest, problem.room, search.arrays, row, window)
    held = search.arrays.line[state.X, :COLUMNS]
    held = held[::-1] if late else held
    most = search.arrays.free[0] // int(problem.room.demand_amounts[0])
    room = np.minimum(most, row[V_MOST]) - held
    assert left == row[V_WORK] - held.sum()
    assert (room >= 0).all()
    gaps = [-1, *np.flatnonzero(room < 1).tolist(), COLUMNS]
    assert all(end - begin - 1 < row[V_LEASE] for begin, end in pairwise(gaps))
