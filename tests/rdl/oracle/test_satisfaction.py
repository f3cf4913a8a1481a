"""The oracle against brute force and against the language's definition, rule by rule."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.compile.shapes import least_reachable
from rdl.expressions import (
    Absolute,
    AfterSubmission,
    AllOf,
    AnyOf,
    Atom,
    Edge,
    Every,
    Expression,
    Gap,
    Graph,
    Offset,
    Order,
    Void,
    Window,
)
from rdl.oracle.atoms import lease_and_work
from rdl.oracle.satisfaction import Violation, check
from rdl.time_grid import TimeGrid
from tests.rdl.brute_force import satisfying
from tests.rdl.oracle.asks import (
    CORE,
    GRID,
    ONE,
    SECOND,
    Rows,
    at,
    atom,
    is_sum_of_leases,
    rows_of,
    rule,
    window,
)


def test_reachability_agrees_with_the_compiler() -> None:
    """The oracle's least reachable work and the compiler's are the same, computed apart."""
    for minimum, maximum, multiple in itertools.product(range(1, 7), range(1, 14), (1, 2, 3)):
        if maximum < minimum or minimum % multiple or maximum % multiple:
            continue
        for lease, work in itertools.product((1, 2, 3, 5), range(1, 120, 3)):
            numbers = (minimum, maximum, multiple, lease, work)
            theirs = least_reachable(*numbers)
            mine = lease_and_work(atom(minimum, maximum, lease, work, multiple), SECOND)[1]
            assert mine == theirs, numbers


PAIRS = atom(2, 6, 2, 12, multiple=2)


@pytest.mark.parametrize(
    ("rows", "broken"),
    [
        ([(0, 2, 6)], None),
        ([(0, 6, 2)], None),
        ([(3, 4, 2), (4, 5, 4), (5, 7, 2), (10, 11, 2)], "lease"),
        ([(0, 2, 2), (2, 4, 4)], None),
        ([(0, 2, 2), (5, 7, 4)], None),
        ([(0, 4, 3)], "multiple"),
        ([(0, 1, 12)], "height"),
        ([(0, 12, 1)], "height"),
        ([(0, 3, 2)], "work"),
        ([(0, 7, 2)], "work"),
        ([], "work"),
        ([(0, 1, 4), (1, 2, 2), (2, 3, 4), (3, 4, 2)], "lease"),
        ([(4, 6, 4), (0, 2, 2)], "rows"),
        ([(0, 3, 2), (2, 5, 2)], "rows"),
        ([(2, 2, 4), (2, 4, 6)], "rows"),
        ([(0, 2, -6), (2, 4, 6)], "rows"),
        ([(999, 1001, 6)], "window"),
        ([(998, 1000, 6)], None),
    ],
)
def test_atom(rows: Rows, broken: str | None) -> None:
    """pairs of bundles, 2 to 6 at once, kept for 2 steps, 12 bundle-steps: each rule by hand."""
    assert rule(PAIRS, {"": rows}) == broken


@pytest.mark.parametrize(
    ("spread", "domain", "on", "broken"),
    [
        (0, None, None, None),
        (1, None, None, "spread"),
        (2, None, None, None),
        (2, None, "ssd", "spread"),
        (3, None, "ssd", None),
        (2, "rack", None, "spread"),
        (3, "rack", None, None),
        (9, "zone", None, "spread"),
    ],
)
def test_heights_are_held_against_a_spread(
    spread: int, domain: str | None, on: str | None, broken: str | None
) -> None:
    """Six bundles over three machines, two of them with the label, two racks and no zone."""
    spread_out = replace(PAIRS, spread=spread, domain=domain, on=on)
    counts = {(None, None): 3, ("ssd", None): 2, (None, "rack"): 2, (None, "zone"): 0}
    rows = {"": [(0, 2, 6)]}

    found = check(spread_out, GRID, 0, rows, {}, places=lambda *asked: counts[asked])

    assert (None if found is None else found.rule) == broken
    assert check(spread_out, GRID, 0, rows, {}) is None


def test_nothing_lies_before_submission() -> None:
    """Submission rounds up to a step, and that step is the first that counts."""
    minutes = TimeGrid(60 * SECOND, 100)
    one = atom(1, 1, 60, 60)
    assert rule(one, {"": [(1, 2, 1)]}, grid=minutes, submitted=61) == "window"
    assert rule(one, {"": [(2, 3, 1)]}, grid=minutes, submitted=61) is None


def test_no_multiple_between_the_heights() -> None:
    """Heights 3 to 3 in fours: nothing satisfies it."""
    assert rule(atom(3, 3, 1, 4, multiple=4), {"": [(0, 1, 4)]}) == "multiple"


def test_violation_says_where_and_how_much() -> None:
    """A violation names the atom's path and the numbers."""
    found = check(Order((PAIRS, PAIRS)), GRID, 0, {"0": [(0, 6, 2)], "1": [(6, 11, 2)]}, {})
    assert found == Violation("1", "work", "10 bundle-steps, not 12")


@pytest.mark.parametrize(
    ("start", "end", "step", "broken"),
    [(5, 7, 5, None), (5, 7, 6, None), (5, 7, 4, "window"), (5, 7, 7, "window")],
)
def test_window(start: int, end: int, step: int, broken: str | None) -> None:
    """[5, 7) holds steps 5 and 6."""
    assert rule(window(ONE, start, end), at(step)) == broken


def test_windows_round_inward_and_intersect() -> None:
    """On minutes, [30 s, 150 s) leaves step 1; an inner window cannot widen an outer one."""
    minutes = TimeGrid(60 * SECOND, 10)
    narrow = window(atom(1, 1, 60, 60), 30, 150)
    assert [rule(narrow, at(k), grid=minutes) for k in range(3)] == ["window", None, "window"]
    nested = window(window(ONE, 0, 9), 4, 6)
    found = [k for k in range(9) if rule(nested, {"0.0": [(k, k + 1, 1)]}) is None]
    assert found == [4, 5]


def test_instants() -> None:
    """Offsets count from the origin, +offsets from the submission, dates from the calendar."""
    dated = TimeGrid(SECOND, 100, datetime(2026, 1, 5, tzinfo=UTC))
    since = Window(AfterSubmission(10 * SECOND), AfterSubmission(11 * SECOND), ONE)
    assert rule(since, at(17), submitted=7) is None
    assert rule(since, at(10), submitted=7) == "window"
    day = datetime(2026, 1, 5, 0, 0, 30, tzinfo=UTC)
    dates = Window(Absolute(day), Absolute(day.replace(second=31)), ONE)
    assert rule(dates, at(30), grid=dated) is None
    assert rule(dates, at(30)) == "window"  # a grid without an origin has no dates


@pytest.mark.parametrize(
    ("gap", "steps", "broken"),
    [
        (None, (3, 4, 5), None),
        (None, (3, 5, 4), "order"),
        (None, (3, 3, 4), "order"),
        (Gap(), (3, 4, 9), None),
        (Gap(2 * SECOND), (0, 3, 6), None),
        (Gap(2 * SECOND), (0, 3, 5), "gap"),
        (Gap(2 * SECOND, 3 * SECOND), (0, 4, 8), None),
        (Gap(2 * SECOND, 3 * SECOND), (0, 4, 9), "gap"),
        (Gap(0, 0), (0, 1, 2), None),
        (Gap(0, 0), (0, 1, 3), "gap"),
        (Gap(1500, 2500), (0, 3, 6), None),
        (Gap(1500, 2500), (0, 2, 4), "gap"),
        (Gap(1100, 1900), (0, 2, 4), "gap"),
    ],
)
def test_order(gap: Gap | None, steps: tuple[int, ...], broken: str | None) -> None:
    """Each wholly before the next; gap minimum up, maximum down, between neighbours."""
    assert rule(Order((ONE, ONE, ONE), gap), at(*steps)) == broken


def test_order_of_composites_uses_their_first_and_last_steps() -> None:
    """order(all(a, b), c): c is after both, whatever the order of a and b."""
    both = Order((AllOf((ONE, ONE)), ONE))
    rows = {"0.0": [(5, 6, 1)], "0.1": [(2, 3, 1)], "1": [(5, 6, 1)]}
    assert rule(both, rows) == "order"
    assert rule(both, rows | {"1": [(6, 7, 1)]}) is None


def test_order_holds_across_an_empty_child() -> None:
    """A child that holds nothing (all of voids) does not excuse those around it."""
    nothing = AllOf((Void(CORE, 1),))
    assert rule(Order((ONE, nothing, ONE)), {"0": [(5, 6, 1)], "2": [(1, 2, 1)]}) == "order"
    assert rule(Order((ONE, nothing, ONE)), {"0": [(1, 2, 1)], "2": [(5, 6, 1)]}) is None


def test_graph() -> None:
    """a -> c, b -> c gap 2: only arrows bind."""
    arrows = (Edge(0, 2), Edge(1, 2, Gap(2 * SECOND)))
    graph = Graph(("a", "b", "c"), (ONE, ONE, ONE), arrows)
    assert rule(graph, at(3, 1, 4)) is None
    assert rule(graph, at(3, 2, 4)) == "gap"
    assert rule(graph, at(3, 5, 4)) == "order"
    assert rule(graph, at(4, 0, 4)) == "order"


def test_cycle_is_never_satisfied() -> None:
    """a -> b -> a holds for no allocation."""
    cycle = Graph(("a", "b"), (ONE, ONE), (Edge(0, 1), Edge(1, 0)))
    assert all(rule(cycle, at(a, b)) == "order" for a in range(5) for b in range(5))


def test_any() -> None:
    """Exactly one option, the one said to be taken, and nothing of the others."""
    either = AnyOf((ONE, atom(2, 2, 1, 2)))
    assert rule(either, {"1": [(0, 1, 2)]}, {"": 1}) is None
    assert rule(either, {"0": [(0, 1, 1)]}, {"": 1}) == "work"
    assert rule(either, {"0": [(0, 1, 1)], "1": [(0, 1, 2)]}, {"": 1}) == "path"
    assert rule(either, {"1": [(0, 1, 2)]}) == "choice"
    assert rule(either, {"1": [(0, 1, 2)]}, {"": 2}) == "choice"
    assert rule(either, {"1": [(0, 1, 2)]}, {"": 1, "1": 0}) == "choice"
    assert rule(either, {"1": [(0, 1, 2)], "0": []}, {"": 1}) is None


def test_all_and_void() -> None:
    """A void asks for nothing and may hold nothing."""
    mixed = AllOf((ONE, Void(CORE, 3)))
    assert rule(mixed, at(4)) is None
    assert rule(mixed, at(4, 4)) == "path"
    assert rule(Void(CORE, 3), {}) is None
    assert rule(Void(CORE, 3), {"": [(0, 1, 1)]}) == "path"


def test_paper_example() -> None:
    """The worked example of the plan format: order of two stages that end at 800."""
    first = Atom(CORE, 1, 10, 240 * SECOND, 2400 * SECOND)
    second = Atom(CORE, 1, 20, 120 * SECOND, 2400 * SECOND)
    whole = window(Order((first, second)), 0, 800)
    assert rule(whole, {"0.0": [(440, 680, 10)], "0.1": [(680, 800, 20)]}) is None
    assert rule(whole, {"0.0": [(441, 681, 10)], "0.1": [(680, 800, 20)]}) == "order"


@given(
    st.lists(st.integers(0, 3), min_size=5, max_size=5),
    st.lists(st.integers(0, 3), min_size=5, max_size=5),
    st.integers(1, 3),
    st.integers(0, 2),
)
def test_order_by_definition(a: list[int], b: list[int], lease: int, gap: int) -> None:
    """order(a, b, gap) with exactly the work given: satisfied iff each rule holds step by step."""
    parts = [atom(1, 3, lease, max(1, sum(x))) for x in (a, b)]
    expression = Order((parts[0], parts[1]), Gap(gap * SECOND))

    def fits(part: Atom, heights: list[int]) -> bool:
        whole = is_sum_of_leases(tuple(heights), lease)
        return any(heights) and whole and lease_and_work(part, SECOND)[1] == sum(heights)

    last = max((t for t, x in enumerate(a) if x), default=0)
    first = min((t for t, x in enumerate(b) if x), default=0)
    expected = fits(parts[0], a) and fits(parts[1], b) and first - (last + 1) >= gap
    assert (rule(expression, {"0": rows_of(a), "1": rows_of(b)}) is None) == expected


TICKS = 4  # steps of 1 ms, as the brute force wants them


def tiny(minimum: int, maximum: int, lease: int, work: int, multiple: int = 1) -> Atom:
    return Atom(CORE, minimum, maximum, lease, work, multiple)


UNIT, PAIR = tiny(1, 1, 1, 1), tiny(1, 2, 2, 3)


@pytest.mark.parametrize(
    "expression",
    [
        tiny(1, 2, 2, 4),
        tiny(2, 3, 2, 7),
        tiny(2, 4, 1, 6, multiple=2),
        AllOf((PAIR, UNIT)),
        Order((UNIT, PAIR)),
        Order((UNIT, UNIT), Gap(1, 2)),
        Order((UNIT, UNIT, UNIT), Gap(0, 0)),
        Order((UNIT, AllOf((Void(CORE, 1),)), UNIT)),
        AnyOf((UNIT, PAIR)),
        AnyOf((Order((UNIT, UNIT)), tiny(1, 1, 2, 2))),
        Window(Offset(1), Offset(3), tiny(1, 2, 2, 2)),
        Window(Offset(0), Offset(3), Order((UNIT, Window(Offset(1), Offset(4), UNIT)))),
        Graph(("a", "b"), (UNIT, PAIR), (Edge(1, 0, Gap(0, 1)),)),
        Graph(("a", "b", "c"), (UNIT, UNIT, UNIT), (Edge(0, 2), Edge(1, 2, Gap(1)))),
        Every(2, UNIT, times=2),
        Every(2, UNIT, times=2, same_offset=False),
        Every(2, AnyOf((UNIT, UNIT)), times=2),
        Every(2, AnyOf((UNIT, UNIT)), times=2, same_offset=False),
        Every(2, Window(Offset(1), Offset(2), UNIT), times=1, anchor=Offset(1)),
        AllOf((Every(2, UNIT, times=2), AnyOf((UNIT, PAIR)))),
    ],
    ids=lambda expression: type(expression).__name__,
)
def test_oracle_accepts_exactly_the_satisfying_allocations(expression: Expression) -> None:
    """Over every allocation and every choice on 4 steps: accepted iff enumeration finds it."""
    wanted = satisfying(expression, TICKS)
    grid = TimeGrid(1, TICKS)
    # Where some satisfying allocation holds an atom or makes a choice, anything may stand.
    paths = sorted({path for held, _ in wanted for path, _ in held})
    choosing = sorted({path for _, choices in wanted for path, _ in choices})
    tallest = max(height for held, _ in wanted for _, heights in held for height in heights)
    heights = list(product(range(tallest + 1), repeat=TICKS))
    if len(paths) > 2:
        heights = [x for x in heights if sum(x) <= (3 if len(paths) == 3 else 1)]
    for options in product((None, 0, 1), repeat=len(choosing)):
        choices = {p: o for p, o in zip(choosing, options, strict=True) if o is not None}
        for held in product(heights, repeat=len(paths)):
            allocation = {p: rows_of(x) for p, x in zip(paths, held, strict=True)}
            accepted = check(expression, grid, 0, allocation, choices) is None
            rows = tuple((p, x) for p, x in zip(paths, held, strict=True) if any(x))
            assert accepted == ((rows, tuple(sorted(choices.items()))) in wanted), (held, choices)
