"""The metrics against figures derived by hand and against plain loops over steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.metrics import (
    Metrics,
    RequestOutcome,
    Rows,
    count_falls,
    measure,
    uniformity,
    work_figures,
)
from planner.value import size_of, worth_of
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext, MachineShape
from rdl.resources import Resources
from rdl.text.parser import parse
from rdl.time_grid import TimeGrid
from rdl.work_graph import WorkGraph
from tests.planner.plan_documents import EXAMPLE_METRICS

CORE = Resources.of({"cpu": 1000})
HUNDRED = Resources.of({"cpu": 100_000})


def rows(*given_rows: tuple[int, int, int]) -> Rows:
    return np.array(given_rows, dtype=np.int64).reshape(-1, 3)


def heights_to_rows(heights: Sequence[int]) -> Rows:
    found: list[tuple[int, int, int]] = []
    for at, height in enumerate(heights):
        if height and found and found[-1][1:] == (at, height):
            found[-1] = (found[-1][0], at + 1, height)
        elif height:
            found.append((at, at + 1, height))
    return rows(*found)


EXAMPLE = RequestOutcome(
    weight=1.0,
    size=4 / 3,
    accepted=True,
    held=((CORE, rows((440, 680, 10))), (CORE, rows((680, 800, 20)))),
)


def test_worked_example() -> None:
    """The example of the plan format: falls 10 + 20, none inside, 0.0735 / 0.06 = 1.2247."""
    found = measure([EXAMPLE], HUNDRED, 800, runtime_ms=0.1234, bound=4 / 3)
    assert found.uniformity == pytest.approx(math.sqrt(0.009 - 0.06**2) / 0.06)
    assert found.to_json() == EXAMPLE_METRICS


def test_acceptance_is_by_value_and_accepted_by_count() -> None:
    """Weight 2, size 3 taken at worth 0.5 of 2 x 3 + 1 x 4 asked: 3 / 10, one of two."""
    taken = RequestOutcome(2.0, 3.0, accepted=True, worth=0.5, held=((CORE, rows((0, 1, 1))),))
    found = measure([taken, RequestOutcome(1.0, 4.0, accepted=False)], HUNDRED, 10)
    assert (found.value, found.acceptance) == (3.0, 0.3)
    assert (found.accepted, found.requests) == (1, 2)


def test_nothing_asked_and_nothing_of_value() -> None:
    """No request, or weights of 0 alone: no acceptance to speak of, no uniformity without use."""
    empty = measure([], HUNDRED, 10)
    assert (empty.acceptance, empty.uniformity, empty.value) == (None, None, 0.0)
    worthless = measure([RequestOutcome(0.0, 5.0, accepted=True)], HUNDRED, 10)
    assert (worthless.acceptance, worthless.accepted) == (None, 1)


@pytest.mark.parametrize(
    ("bound", "accepted", "gap"),
    [
        (None, False, None),
        (10.0, False, 0.4),
        (10.0, True, 0.2),  # the second takes an option of half its worth
        (8.0, True, 0.0),
        (7.999999, True, 0.0),
        (0.0, False, 0.0),
    ],
)
def test_gap(bound: float | None, accepted: bool, gap: float | None) -> None:
    """(bound - value) / bound, though all are accepted; never below 0; none without a bound."""
    taken = RequestOutcome(1.0, 6.0, accepted=True)
    other = RequestOutcome(1.0, 4.0, accepted=accepted, worth=0.5)
    found: Metrics = measure([taken, other], HUNDRED, 10, bound=bound)
    assert found.gap == (None if gap is None else pytest.approx(gap))


def test_what_a_lost_reservation_keeps_still_counts_as_use() -> None:
    """A degraded reservation is worth nothing, but the rows of its past fall and are used."""
    lost = RequestOutcome(1.0, 6.0, accepted=False, held=((CORE, rows((0, 5, 50))),))
    found = measure([lost], HUNDRED, 10)
    assert (found.value, found.accepted, found.falls) == (0.0, 0, 50)
    assert found.uniformity == pytest.approx(1.0)  # half the time 0.5, half 0


def test_falls_count_each_fall() -> None:
    """3, 5, 2, 0, 4: falls 3 + 2 + 4, of which the last 4 is the end."""
    assert count_falls([heights_to_rows([3, 5, 2, 0, 4])]) == (9, 5)


def test_falls_is_by_atom() -> None:
    """Two atoms that take turns do not cancel each other's falls."""
    assert count_falls([rows((0, 5, 2)), rows((5, 9, 2))]) == (4, 0)


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=8).filter(any), max_size=4))
def test_falls_by_definition(atoms: list[list[int]]) -> None:
    """The sum over atoms and steps of max(0, x(t-1) - x(t)), x being 0 outside."""
    falls = sum(max(0, a - b) for x in atoms for a, b in zip(x, [*x[1:], 0], strict=True))
    last = sum(next(height for height in reversed(x) if height) for x in atoms)
    assert count_falls([heights_to_rows(x) for x in atoms]) == (falls, falls - last)


@given(st.lists(st.lists(st.integers(0, 9), min_size=8, max_size=8).filter(any), max_size=3))
def test_uniformity_by_definition(atoms: list[list[int]]) -> None:
    """Population standard deviation over mean of the used share, step by step."""
    held = [(CORE, heights_to_rows(x)) for x in atoms]
    found = uniformity(held, HUNDRED, 8)
    used = [Fraction(sum(x[t] for x in atoms), 100) for t in range(8)]
    if not any(used):
        assert found is None
        return
    mean = statistics.fmean(used)
    assert found == pytest.approx(float(statistics.pstdev(used)) / mean)


def test_uniformity_is_of_the_most_used_resource() -> None:
    """Memory at 20 % on average beats cpu at 10 %: its spread counts."""
    nominal = Resources.of({"cpu": 10_000, "memory": 1000})
    thin = (Resources.of({"cpu": 1000}), rows((0, 10, 1)))
    fat = (Resources.of({"memory": 400}), rows((0, 5, 1)))
    assert uniformity([thin, fat], nominal, 10) == pytest.approx(1.0)
    assert uniformity([thin], nominal, 10) == 0.0


@given(st.permutations([RequestOutcome(0.1 * i, 0.3 * i, accepted=i % 3 > 0) for i in range(9)]))
def test_order_of_reservations_changes_nothing(outcomes: list[RequestOutcome]) -> None:
    """Sums are exact before they are rounded, so two runs print the same figures."""
    given_order = sorted(outcomes, key=lambda outcome: outcome.weight)
    assert measure(outcomes, HUNDRED, 9) == measure(given_order, HUNDRED, 9)


def compiled(rdl: str, horizon: int = 100) -> WorkGraph:
    """Compile on a grid of half seconds with ten two-core machines."""
    machines = (MachineShape("m", Resources.of({"cpu": 2000, "memory": 4096})),)
    context = CompileContext(TimeGrid(500, horizon), 0, machines)
    return compile_expression(parse(rdl), context, rdl)


NOMINAL = Resources.of({"cpu": 20_000, "memory": 40_960})


@pytest.mark.parametrize(
    ("rdl", "size"),
    [
        # 1 of 20 cores for 10 s, whatever the step; memory 1 of 40 GiB is less.
        ("atom(<1 cpu, 1 GiB memory>, 1, 4, 2, 10)", 0.5),
        ("atom(<1 cpu, 4 GiB memory>, 1, 4, 2, 10)", 1.0),
        ("order(atom(<1 cpu>, 1, 4, 2, 10), atom(<2 cpu>, 1, 4, 2, 10))", 1.5),
        ("any(atom(<1 cpu>, 1, 4, 2, 10), atom(<2 cpu>, 1, 4, 2, 10))", 0.5),
        ("every(10, atom(<1 cpu>, 1, 4, 2, 10), times=3)", 1.5),
        ("every(10, atom(<1 cpu>, 1, 4, 2, 10), times=3, same_offset=false)", 1.5),
        ("all(void(<1 cpu>, 5), atom(<1 cpu>, 1, 4, 2, 10))", 0.5),
        ("void(<1 cpu>, 5)", 0.0),
        # What the grid makes of it: 4 bundles for 4 steps of half a second.
        ("atom(<1 cpu>, 4, 4, 1.6, 6.5)", 0.4),
        # No machine has a GPU: the second option is taken, the first must not be infinite.
        ("any(atom(<1 cpu, 1 gpu>, 1, 4, 2, 10), atom(<1 cpu>, 1, 4, 2, 30))", 0.5),
    ],
)
def test_size(rdl: str, size: float) -> None:
    """Work x share of a machine of 20 cores, first option of each any, every occurrence."""
    assert size_of(compiled(rdl), NOMINAL) == pytest.approx(size * 20 / 3600)


def test_worth() -> None:
    """Parts add up by their sizes, an `any` inside an option multiplies."""
    one = "atom(<1 cpu>, 1, 1, 1, 1)"
    graph = compiled(f"all(any({one}, {one}, prefer=[1, 0.5]), any({one}, {one}, prefer=[0.2, 1]))")
    first, second = (v for v, path in enumerate(graph.paths) if path in ("0", "1"))
    assert worth_of(graph, (), NOMINAL) == 1.0
    assert worth_of(graph, ((first, 1), (second, 1)), NOMINAL) == pytest.approx((0.5 + 0.2) / 2)


def test_worth_of_parts_is_by_their_share_of_the_size() -> None:
    """Three quarters of the work lose half, a quarter loses nothing; options count as written."""
    small, large = "atom(<1 cpu>, 1, 1, 1, 1)", "atom(<1 cpu>, 1, 1, 3, 3)"
    inner = f"any({small}, {small}, prefer=[1, 0.5])"
    graph = compiled(
        f"any({large}, all(any({large}, {small}, prefer=[1, 0.5]), {inner}), prefer=[1, 0.8])"
    )
    at = {path: v for v, path in enumerate(graph.paths)}
    taken = [(at[""], 1), (at["1.0"], 1), (at["1.1"], 0)]
    assert worth_of(graph, taken, NOMINAL) == pytest.approx(0.8 * (0.75 * 0.5 + 0.25))


def test_work_figures_do_not_depend_on_the_number_of_machines() -> None:
    """Two cores for an hour and four for half an hour: four core-hours, waits of 0 and 30 min."""

    def entry(start: float, end: float, cores: int) -> dict[str, object]:
        atom = {"bundle": {"cpu": 1}, "allocation": [[start, end, cores]]}
        return {"submitted": 0, "atoms": [atom], "expression": "atom(<1 cpu>, 1, 1, 9, 9)"}

    reservations = [entry(0, 3600, 2), entry(1800, 3600, 4)]
    for cores in (4, 8):
        nominal = Resources.of({"cpu": 1000 * cores})
        found = work_figures(reservations, nominal, TimeGrid(1000, 7200))
        assert found.hours == {"cpu": pytest.approx(4)}
        assert found.utilisation == {"cpu": pytest.approx(4 / (2 * cores))}
        assert (found.wait_mean_s, found.wait_p95_s) == (900, pytest.approx(1710))
