"""Rows that cannot bind: left out, and nothing that did not fit fits without them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.workloads.exact_shapes import narrow, wide
from planner.agents.exact.build import binding_rows, build_problem, distinct_demands
from planner.plan.plan import Plan
from planner.view import Demand
from tests.builders import a_cluster, a_request

_AMOUNT = st.integers(1, 4)


@st.composite
def profiles(draw: st.DrawFn) -> tuple[list[Demand], np.ndarray]:
    """Draw up to three demands on up to four rows, and what is free at up to three steps."""
    rows, steps = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    demands = []
    for _ in range(draw(st.integers(1, 3))):
        taken = sorted(draw(st.sets(st.integers(0, rows - 1), min_size=1)))
        demands.append(Demand(tuple(taken), tuple(draw(_AMOUNT) for _ in taken), (9,)))
    lines = [[draw(st.integers(0, 8)) for _ in range(steps)] for _ in range(rows)]
    return demands, np.array(lines, dtype=np.int64)


def _fits(demands: list[Demand], rows: list[int], free: np.ndarray, held: tuple[int, ...]) -> bool:
    """Return whether this many bundles of each demand fit the named rows at every step."""
    need = dict.fromkeys(rows, 0)
    for demand, count in zip(demands, held, strict=True):
        for row, amount in zip(demand.rows, demand.amounts, strict=True):
            if row in need:
                need[row] += count * amount
    return all((free[row] >= amount).all() for row, amount in need.items())


@given(profiles())
def test_what_fits_the_kept_rows_fits_all(drawn: tuple[list[Demand], np.ndarray]) -> None:
    """By full enumeration of what may be held at a step, rows left out change nothing."""
    demands, free = drawn
    used = sorted({row for demand in demands for row in demand.rows})
    kept = binding_rows(demands, used, free[used])
    assert set(kept) <= set(used)
    assert all(set(demand.rows) & set(kept) for demand in demands)
    for step in range(free.shape[1]):
        here = free[:, step : step + 1]
        for held in product(range(9), repeat=len(demands)):
            assert _fits(demands, kept, here, held) == _fits(demands, used, here, held)


@given(profiles())
def test_different_demands_take_what_they_took(drawn: tuple[list[Demand], np.ndarray]) -> None:
    """Each demand's number leads to its own amounts on the rows that were kept; none twice."""
    demands, free = drawn
    used = sorted({row for demand in demands for row in demand.rows})
    kept = binding_rows(demands, used, free[used])
    found, place = distinct_demands(demands, kept)
    assert len(set(found)) == len(found)
    for demand, number in zip(demands, place, strict=True):
        took = dict(zip(demand.rows, demand.amounts, strict=True))
        wanted = {row: amount for row, amount in took.items() if row in kept}
        now = found[number]
        assert dict(zip(now.rows, now.amounts, strict=True)) == wanted
        assert now.fit == demand.fit


@pytest.mark.parametrize(("more", "kept"), [(0, [0]), (1, [0]), (-1, [1])])
def test_ratios_that_floats_cannot_tell_apart_are_reported_by_whole_numbers(
    more: int, kept: list[int]
) -> None:
    """Of two rows of 10^17 that differ by one, the scarcer stays; of equal ones the first."""
    most = 10**17
    demand = Demand((0, 1), (7 * 10**8, 7 * 10**8), (9,))
    free = np.array([[most, most], [most + more, most + more]], dtype=np.int64)
    assert binding_rows([demand], [0, 1], free) == kept


def test_a_quota_that_binds_stays_and_a_wider_one_goes() -> None:
    """Two tenants on a pool of 100: one may hold 40 of it, the other 120."""
    demands = [Demand((0, 1), (1, 1), (100,)), Demand((0, 2), (1, 1), (100,))]
    free = np.array([[100], [40], [120]], dtype=np.int64)
    assert binding_rows(demands, [0, 1, 2], free) == [0, 1]


def test_shapes_of_one_bundle_have_one_row_and_those_of_three_have_two() -> None:
    """Seven tenants that ask for one bundle are one demand on one row; three bundles need both."""
    for shape, rows, demands in ((wide, 1, 1), (narrow, 2, 3)):
        cluster, requests = shape(1, 1.2)
        room = build_problem(requests, Plan(cluster, cluster.grid()).view()).room
        assert (len(room.free), len(room.demand_first) - 1) == (rows, demands)


def test_memory_that_is_plentiful_changes_nothing() -> None:
    """A cluster of ten times the memory that anybody can use is the same problem."""
    laid = []
    for memory in ("2 GiB", "20 GiB"):
        cluster = a_cluster().horizon("12s").machines("m", 4, cpu=2, memory=memory).build()
        atoms = (
            "atom(<1 cpu, 1 GiB memory>, 1, 4, 2, 8)",
            "atom(<2 cpu, 2 GiB memory>, 1, 4, 2, 8)",
        )
        requests = [a_request(f"r{i}", text).on(cluster) for i, text in enumerate(atoms)]
        laid.append(build_problem(requests, Plan(cluster, cluster.grid()).view()).room)
    one, two = laid
    assert len(one.free) == len(two.free) == 1
    assert (one.free == two.free).all()
    assert (one.demand_amounts == two.demand_amounts).all()


def test_kernels_see_one_type_of_capacity() -> None:
    """One demand or several: every array of the capacity lies row after row, and compiles once."""
    for shape in (wide, narrow):
        cluster, requests = shape(1, 1.2)
        room = build_problem(requests[:12], Plan(cluster, cluster.grid()).view()).room
        assert all(part.flags.c_contiguous for part in room if isinstance(part, np.ndarray))
