"""The oracle against brute force and against the language's definition, rule by rule."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise, permutations, product
from typing import TypeAlias
from zoneinfo import ZoneInfo

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
from rdl.oracle.atoms import lease_and_work, least_work, shortest_lease
from rdl.oracle.periods import first_instant
from rdl.oracle.satisfaction import Violation, check
from rdl.resources import Resources
from rdl.time_grid import TimeGrid
from tests.rdl.brute_force import satisfying

CORE = Resources.of({"cpu": 1000})
SECOND = 1000
Rows: TypeAlias = list[tuple[int, int, int]]
GRID = TimeGrid(step_ms=SECOND, horizon=1000)


def atom(minimum: int, maximum: int, lease: int, work: int, multiple: int = 1) -> Atom:
    return Atom(CORE, minimum, maximum, lease * SECOND, work * SECOND, multiple)


def window(of: Expression, start: int, end: int) -> Window:
    return Window(Offset(start * SECOND), Offset(end * SECOND), of)


def rows_of(heights: Sequence[int]) -> Rows:
    """Return the rows of x(0), x(1), ...; equal neighbours are merged."""
    rows: Rows = []
    for at, height in enumerate(heights):
        if height and rows and rows[-1][1:] == (at, height):
            rows[-1] = (rows[-1][0], at + 1, height)
        elif height:
            rows.append((at, at + 1, height))
    return rows


def rule(
    expression: Expression,
    allocation: Mapping[str, Rows],
    choices: Mapping[str, int] | None = None,
    *,
    grid: TimeGrid = GRID,
    submitted: int = 0,
) -> str | None:
    """Return the rule broken, or None."""
    found = check(expression, grid, submitted * SECOND, allocation, choices or {})
    return None if found is None else found.rule


def best_matching(heights: Sequence[int]) -> int:
    """Return the longest that the shortest lease can be over *all* matchings, bundle by bundle."""
    takes, releases = [], []
    for at, (before, after) in enumerate(pairwise((0, *heights, 0))):
        takes += [at] * max(0, after - before)
        releases += [at] * max(0, before - after)
    return max(
        min(release - take for take, release in zip(takes, order, strict=True))
        for order in set(permutations(releases))
    )


@cache
def is_sum_of_leases(heights: tuple[int, ...], lease: int) -> bool:
    """Say whether x is a sum of whole intervals of `lease` steps or more, swaps included."""
    first = next((at for at, height in enumerate(heights) if height), None)
    if first is None:
        return True
    for end in range(first + lease, len(heights) + 1):
        if min(heights[first:end]) == 0:
            return False
        lower = heights[:first] + tuple(x - 1 for x in heights[first:end]) + heights[end:]
        if is_sum_of_leases(lower, lease):
            return True
    return False


def test_fifo_is_the_best_of_all_matchings() -> None:
    """The shortest FIFO lease is the longest any matching of takes and releases can make it."""
    compared = 0
    for heights in product(range(4), repeat=5):
        if 0 < sum(max(0, b - a) for a, b in pairwise((0, *heights))) <= 5:
            assert shortest_lease(rows_of(heights)) == best_matching(heights), heights
            compared += 1
    assert compared > 500


def test_fifo_is_exact_for_bundles() -> None:
    """x keeps leases of l iff it is a sum of intervals of at least l, over every small x."""
    for heights in product(range(4), repeat=6):
        if any(heights):
            for lease in range(1, 5):
                kept = shortest_lease(rows_of(heights)) >= lease
                assert kept == is_sum_of_leases(heights, lease), (heights, lease)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9).filter(any), st.integers(2, 5000))
def test_lease_does_not_depend_on_the_size_of_bundles(heights: list[int], factor: int) -> None:
    """All heights times n leave the shortest lease as it is: pairs count, not bundles."""
    taller = [height * factor for height in heights]
    assert shortest_lease(rows_of(heights)) == shortest_lease(rows_of(taller))


def reachable_works(minimum: int, maximum: int, lease: int, longest: int) -> set[int]:
    """Return all works up to g x longest, from every block of at most `longest` steps."""
    blocks = set()
    for length in range(lease, longest + 1):
        for heights in product(range(minimum, maximum + 1), repeat=length):
            if shortest_lease(rows_of(heights)) >= lease:
                blocks.add(sum(heights))
    limit = minimum * longest
    sums = {0}
    for total in range(1, limit + 1):
        if any(total - block in sums for block in blocks if block <= total):
            sums.add(total)
    return sums - {0}


@pytest.mark.parametrize("lease", [1, 2, 3])
def test_least_work_is_exact(lease: int) -> None:
    """The least reachable work is what enumeration of all blocks and their sums finds."""
    for maximum in range(1, 5):
        for minimum in range(1, maximum + 1):
            longest = 7 if maximum - minimum < 3 else 6
            works = reachable_works(minimum, maximum, lease, longest)
            for work in range(1, max(works) + 1):
                expected = min(w for w in works if w >= work)
                found = least_work(minimum, maximum, lease, work)
                assert found == expected, (minimum, maximum, lease, work)


@pytest.mark.parametrize(
    ("asked_for", "step", "lease", "work"),
    [
        (atom(2, 2, 90, 270), 60, 2, 6),  # 3 leases of 2 steps: a pair for 3 steps
        (atom(4, 4, 90, 270), 60, 2, 8),  # 3 leases of 2 steps, but four at once make 8, 12, ...
        (atom(1, 4, 90, 270), 60, 2, 6),  # 3 leases of 2 steps
        (atom(1, 4, 90, 271), 60, 2, 5),  # no whole number of leases: 271 / 60 up
        (atom(1, 4, 30, 270), 60, 1, 5),  # a lease below the step does not bind work
        (atom(2, 3, 2, 7), 1, 2, 7),
        (atom(2, 3, 3, 7), 1, 3, 8),  # 6, then 2 + 2 x 3 = 8
        (atom(4, 8, 10, 85, multiple=4), 1, 10, 88),
        (atom(1, 1, 1, 1), 60, 1, 1),
    ],
)
def test_lease_and_work_round_together(asked_for: Atom, step: int, lease: int, work: int) -> None:
    """What the grid asks of an atom, by hand."""
    assert lease_and_work(asked_for, step * SECOND) == (lease, work)


def test_joint_rounding_agrees_with_the_time_grid() -> None:
    """Before reachability, the oracle's own rounding is TimeGrid's."""
    for lease, work, step in product((1, 29, 30, 31, 60, 90, 125), range(1, 300, 7), (1, 30, 60)):
        grid = TimeGrid(step * SECOND, 10)
        rounded = grid.lease_and_work(lease * SECOND, work * SECOND)
        mine = lease_and_work(atom(1, 1_000_000, lease, work), step * SECOND)
        assert mine == (rounded.lease, max(rounded.work, rounded.lease))


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


ONE = atom(1, 1, 1, 1)


def at(*steps: int) -> dict[str, Rows]:
    """Return one bundle for one step each, for atoms 0, 1, ..."""
    return {str(i): [(step, step + 1, 1)] for i, step in enumerate(steps)}


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


def occurrences(*steps: int, path: str = "0") -> dict[str, Rows]:
    """Return one bundle for one step in each occurrence of an `every`."""
    return {f"{path}@{k}": [(step, step + 1, 1)] for k, step in enumerate(steps)}


def test_every_with_one_offset() -> None:
    """Period 10 from the submission at 3: occurrence k is occurrence 0 moved by 10 k."""
    three = Every(10 * SECOND, ONE, times=3)
    assert rule(three, occurrences(5, 15, 25), submitted=3) is None
    assert rule(three, occurrences(5, 15, 26), submitted=3) == "offset"
    assert rule(three, occurrences(5, 15), submitted=3) == "work"
    assert rule(three, occurrences(5, 15, 25, 35), submitted=3) == "path"
    assert rule(three, occurrences(13, 23, 33), submitted=3) == "window"


def test_every_free_in_its_period() -> None:
    """Without one offset each occurrence stands anywhere in its own period."""
    free = Every(10 * SECOND, ONE, times=2, same_offset=False)
    assert rule(free, occurrences(0, 19)) is None
    assert rule(free, occurrences(9, 9)) == "window"


def test_every_anchors_at_the_window_then_the_anchor() -> None:
    """Periods count from the start of the enclosing window, or from `anchor`."""
    plain = window(Every(10 * SECOND, ONE, times=2), 4, 100)
    assert rule(plain, occurrences(13, 23, path="0.0")) is None
    assert rule(plain, occurrences(14, 24, path="0.0")) == "window"
    anchored = window(Every(10 * SECOND, ONE, times=2, anchor=Offset(20 * SECOND)), 4, 100)
    assert rule(anchored, occurrences(20, 30, path="0.0")) is None
    assert rule(anchored, occurrences(13, 23, path="0.0")) == "window"


def test_times_inside_every_count_from_the_period() -> None:
    """window(atom, 2, 4) inside a period of 10 anchored at 5 is [7, 9), [17, 19), ..."""
    inner = Every(10 * SECOND, window(ONE, 2, 4), times=2, anchor=Offset(5 * SECOND))
    rows = {f"0@{k}.0": [(8 + 10 * k, 9 + 10 * k, 1)] for k in range(2)}
    assert rule(inner, rows) is None
    early = {path: [(6 + 10 * k, 7 + 10 * k, 1)] for k, path in enumerate(rows)}
    assert rule(inner, early) == "window"


def test_endless_fills_the_whole_periods_before_the_horizon() -> None:
    """In 1,000 steps, an endless period of 300 that is admitted holds 3 occurrences."""
    endless = Every(300 * SECOND, ONE)
    assert rule(endless, occurrences(1, 301, 601)) is None
    assert rule(endless, occurrences(1, 301)) == "work"
    assert rule(endless, occurrences(1, 301, 601, 901)) == "path"
    odd = Every(7 * SECOND, ONE)  # 7 s divides no day
    assert rule(odd, occurrences(*range(0, 994, 7))) == "period"


def test_until_holds_whole_periods() -> None:
    """Until 25 with a period of 10: two whole periods."""
    until = Every(10 * SECOND, ONE, until=Offset(25 * SECOND))
    assert rule(until, occurrences(0, 10)) is None
    assert rule(until, occurrences(0, 10, 20)) == "path"


def test_finite_occurrences_stay_before_the_horizon() -> None:
    """A billion repetitions are answered at once: the first past the horizon is named."""
    many = Every(100 * SECOND, Void(CORE, 1), times=10**9)
    found = check(many, GRID, 0, {}, {})
    assert found == Violation("", "period", "occurrence 10 lies past the horizon")


def test_period_is_a_whole_number_of_steps() -> None:
    """1.5 s is no period on a grid of seconds."""
    assert rule(Every(1500, ONE, times=2), occurrences(0, 1)) == "period"


def test_choices_inside_every() -> None:
    """With one offset the choice is that of occurrence 0; free occurrences choose themselves."""
    either = AnyOf((ONE, ONE))
    fixed = Every(10 * SECOND, either, times=2)
    rows: dict[str, Rows] = {"0@0.1": [(2, 3, 1)], "0@1.1": [(12, 13, 1)]}
    assert rule(fixed, rows, {"0@0": 1}) is None
    assert rule(fixed, rows, {"0@0": 1, "0@1": 1}) is None
    mixed: dict[str, Rows] = {"0@0.1": [(2, 3, 1)], "0@1.0": [(12, 13, 1)]}
    assert rule(fixed, mixed, {"0@0": 1, "0@1": 0}) == "choice"
    free = Every(10 * SECOND, either, times=2, same_offset=False)
    assert rule(free, mixed, {"0@0": 1, "0@1": 0}) is None
    assert rule(free, rows, {"0@0": 1}) == "choice"


HOUR = 3600 * SECOND
PARIS = "Europe/Paris"


def test_civil_days() -> None:
    """In Paris the night of 29 March 2026 has 23 hours: 9 o'clock moves by 23 hours, once."""
    grid = TimeGrid(HOUR, 24 * 7, datetime(2026, 3, 26, 23, tzinfo=UTC))  # midnight, 27 March
    hour = Atom(CORE, 1, 1, HOUR, HOUR)
    nine = Window(Offset(9 * HOUR), Offset(10 * HOUR), hour)
    daily = Every(24 * HOUR, nine, times=4, zone=PARIS, same_offset=False)

    def allocation(*hours: int) -> dict[str, Rows]:
        return {f"0@{k}.0": [(hour, hour + 1, 1)] for k, hour in enumerate(hours)}

    assert rule(daily, allocation(9, 33, 56, 80), grid=grid) is None
    assert rule(daily, allocation(9, 33, 57, 81), grid=grid) == "window"
    # One offset counts from midnight, so 9 o'clock for one hour is out of reach that day.
    fixed = Every(24 * HOUR, nine, times=4, zone=PARIS)
    assert rule(fixed, allocation(9, 33, 57, 80), grid=grid) == "window"
    assert rule(fixed, allocation(9, 33, 56, 80), grid=grid) == "offset"
    wide = Every(24 * HOUR, replace(nine, end=Offset(11 * HOUR)), times=4, zone=PARIS)
    assert rule(wide, allocation(9, 33, 57, 80), grid=grid) is None
    assert rule(daily, allocation(9, 33, 57, 81)) == "period"  # no origin, no civil day


def test_the_end_of_the_calendar_is_a_violation() -> None:
    """Times past the year 9999 are said to be wrong, they do not crash the judge."""
    grid = TimeGrid(HOUR, 24, datetime(2026, 3, 26, tzinfo=UTC))
    far = Every(24 * HOUR, window(ONE, 10**13, 10**14), times=1, zone=PARIS)
    assert rule(far, {}, grid=grid) == "window"
    late = Every(24 * HOUR, ONE, times=1, zone=PARIS, anchor=Offset(10**18))
    assert rule(late, {}, grid=grid) == "period"


@pytest.mark.parametrize(
    ("wall", "zone", "utc"),
    [
        ("2026-03-29T02:30", PARIS, "2026-03-29T01:00"),  # skipped: 2:00 becomes 3:00
        ("2026-03-29T02:00", PARIS, "2026-03-29T01:00"),
        ("2026-03-29T03:00", PARIS, "2026-03-29T01:00"),
        ("2026-03-29T01:59", PARIS, "2026-03-29T00:59"),
        ("2026-10-25T02:30", PARIS, "2026-10-25T00:30"),  # twice: the first, still +2
        ("2026-07-01T12:00", PARIS, "2026-07-01T10:00"),
        ("2026-04-05T01:45", "Australia/Lord_Howe", "2026-04-04T14:45"),  # half an hour, twice
        ("2026-10-04T02:10", "Australia/Lord_Howe", "2026-10-03T15:30"),  # half an hour, skipped
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00"),  # a day that never was
    ],
)
def test_first_instant(wall: str, zone: str, utc: str) -> None:
    """Wall times that exist, that are skipped, and that come twice."""
    found = first_instant(datetime.fromisoformat(wall), ZoneInfo(zone))
    assert found == datetime.fromisoformat(utc).replace(tzinfo=UTC)


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
