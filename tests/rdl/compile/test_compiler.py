"""The compiler end to end: recurrences against the oracle, rounding, notes, efforts, speed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdl.compile.compiler import compile_expression, compile_source
from rdl.compile.context import CompileContext
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.expressions import Absolute, AfterSubmission, AllOf, Atom, Every, Instant, Offset, Window
from rdl.limits import SourceLimits
from rdl.oracle.satisfaction import check
from rdl.resources import Resources
from rdl.text.formatter import format_expression
from rdl.time_grid import TimeGrid
from rdl.work_graph import (
    ATOM,
    BUNDLE,
    END,
    EVERY,
    KIND,
    LAST_SHIFT,
    LEASE,
    MAX_HEIGHT,
    MIN_HEIGHT,
    PARENT,
    SHIFT_COUNT,
    SHIFT_FIRST,
    SHORTEST,
    START,
    WORK,
    WorkGraph,
    occurrence_path,
)
from tests.patience import calls_made

CPU = Resources.of({"cpu": 1000})
HOUR = 3_600_000
DAY = 24 * HOUR
ORIGIN = datetime(2026, 3, 28, 3, tzinfo=UTC)
WEEK = TimeGrid(HOUR, 24 * 7, ORIGIN)


def _shifts(graph: WorkGraph, vertex: int) -> list[int]:
    first, count = graph.vertices[vertex, [SHIFT_FIRST, SHIFT_COUNT]].tolist()
    return [int(shift) for shift in graph.shifts[first : first + count]]


instants = st.one_of(
    st.integers(0, 120).map(lambda h: Offset(h * HOUR)),
    st.integers(0, 40).map(lambda h: AfterSubmission(h * HOUR // 2)),
    st.integers(0, 120).map(lambda h: Absolute(ORIGIN + timedelta(hours=h))),
)
pieces = st.tuples(st.integers(0, 30), st.integers(2, 30))


@settings(max_examples=100)
@given(
    window=pieces,
    days=st.integers(1, 2),
    times=st.integers(1, 3),
    anchor=st.none() | instants,
    zone=st.sampled_from([None, "Europe/Paris", "America/Havana", "Pacific/Chatham"]),
    around=st.none() | pieces,
    submitted=st.integers(0, 30),
)
def test_occurrences_are_where_the_oracle_accepts_them(
    window: tuple[int, int],
    days: int,
    times: int,
    anchor: Instant | None,
    zone: str | None,
    around: tuple[int, int] | None,
    submitted: int,
) -> None:
    """Through a clock change, the window and shifts of the arrays are exactly the oracle's."""
    inside = Window(
        Offset(window[0] * HOUR), Offset(sum(window) * HOUR), Atom(CPU, 1, 1, HOUR, 2 * HOUR)
    )
    whole: Every | Window = Every(days * DAY, inside, times=times, anchor=anchor, zone=zone)
    if around is not None:
        whole = Window(Offset(around[0] * HOUR), Offset((around[0] + 5 * around[1]) * HOUR), whole)
    prefix = "0." if around is not None else ""
    submitted_ms = submitted * HOUR // 2

    def accepted(start: int, shifts: list[int]) -> bool:
        rows = {
            f"{prefix}0@{k}.0": [(start + by, start + by + 2, 1)] for k, by in enumerate(shifts)
        }
        return check(whole, WEEK, submitted_ms, rows, {}) is None

    try:
        graph = compile_expression(whole, CompileContext(WEEK, submitted_ms))
    except RdlError:
        known = [[0, d, 2 * d][:times] for d in (24 * days, 24 * days - 1, 24 * days + 1)]
        for shifts in [*known, [0, 24 * days, 48 * days - 1], [0, 24 * days - 1, 48 * days - 1]]:
            assert not any(accepted(start, shifts[:times]) for start in range(WEEK.horizon))
        return
    shifts = _shifts(graph, 0)
    fits = [start for start in range(WEEK.horizon) if accepted(start, shifts)]
    row = graph.vertices[0]
    assert fits == list(range(int(row[START]), int(row[END]) - 1))


def test_occurrences_of_a_finite_recurrence() -> None:
    """Every 10 s, three times: one atom with three shifts, EVERY reaching to the last end."""
    context = CompileContext(TimeGrid(1000, 100))

    graph = compile_source("every(10s, atom(<1 cpu>, 1, 2, 1, 4), times=3)", context)

    assert graph.paths == ("0@0", "")
    assert _shifts(graph, 0) == [0, 10, 20]
    assert graph.vertices[0, [START, END]].tolist() == [0, 10]
    assert graph.vertices[1, [START, END, LAST_SHIFT, SHORTEST]].tolist() == [0, 30, 20, 22]
    assert graph.endless == 0


def test_an_endless_recurrence_takes_the_whole_periods_before_the_horizon() -> None:
    """Every 24 h in 80 hours: three whole periods, and the period is kept for later ones."""
    context = CompileContext(TimeGrid(HOUR, 80))

    graph = compile_source("every(24h, atom(<1 cpu>, 1, 2, 1h, 4h))", context)

    assert _shifts(graph, 0) == [0, 24, 48]
    assert graph.endless == 24


def test_an_endless_recurrence_stays_one_where_one_period_fits() -> None:
    """As the plan rolls it will have more occurrences, so its vertex and its ``@0`` remain."""
    graph = compile_source(
        "every(24h, atom(<1 cpu>, 1, 2, 1h, 4h))", CompileContext(TimeGrid(HOUR, 30))
    )

    assert graph.vertices[:, KIND].tolist() == [ATOM, EVERY]
    assert (_shifts(graph, 0), occurrence_path(graph, 0, 0), graph.endless) == ([0], "0@0", 24)


def test_two_endless_recurrences_repeat_together() -> None:
    """Every 6 h alongside every 8 h repeat every 24 h."""
    text = "all(every(6h, atom(<1 cpu>, 1, 2, 1h, 4h)), every(8h, atom(<1 cpu>, 1, 2, 1h, 4h)))"

    assert compile_source(text, CompileContext(TimeGrid(HOUR, 80))).endless == 24


@pytest.mark.parametrize(
    ("period", "admitted"), [(8, True), (24, True), (48, True), (7, False), (96, False)]
)
def test_endless_periods_that_the_cluster_admits(period: int, admitted: bool) -> None:
    """Divisors of max_period (24 h), and its multiples up to the horizon (80 h)."""
    context = CompileContext(TimeGrid(HOUR, 80))
    every = Every(period * HOUR, Atom(CPU, 1, 1, HOUR, HOUR))

    if admitted:
        assert compile_expression(every, context).endless == period
    else:
        with pytest.raises(RdlError, match="endless period"):
            compile_expression(every, context)


def test_free_occurrences_are_copies() -> None:
    """same_offset=false gives each period an atom of its own, with its own path and window."""
    context = CompileContext(TimeGrid(1000, 100), 3000)
    text = "every(10s, atom(<1 cpu>, 1, 2, 1, 4), times=3, same_offset=false)"

    graph = compile_source(text, context)

    assert graph.paths == ("0@0", "0@1", "0@2", "")
    assert graph.vertices[:3, [START, END]].tolist() == [[3, 13], [13, 23], [23, 33]]


def test_until_takes_the_periods_that_end_by_then() -> None:
    """Until 35 s there are three whole periods of 10 s."""
    context = CompileContext(TimeGrid(1000, 100))

    graph = compile_source("every(10s, atom(<1 cpu>, 1, 2, 1, 4), until=35)", context)

    assert _shifts(graph, 0) == [0, 10, 20]


def test_an_order_of_a_recurrence_and_what_follows() -> None:
    """What follows an `every` starts after the end of its last occurrence."""
    context = CompileContext(TimeGrid(1000, 100))
    text = "order(every(10s, atom(<1 cpu>, 1, 2, 1, 4), times=3), atom(<1 cpu>, 1, 1, 5, 5))"

    graph = compile_source(text, context)

    assert graph.vertices[2, START] == 22
    assert graph.edges.tolist() == [[1, 2, 0, -1]]


def test_paths_of_recurrences_inside_recurrences() -> None:
    """The inner occurrence moves fastest; each ``@`` of the path is replaced."""
    context = CompileContext(TimeGrid(1000, 100))
    inner = "every(5s, atom(<1 cpu>, 1, 1, 1, 1), times=2)"
    text = f"all(atom(<1 cpu>, 1, 1, 1, 1), every(20s, {inner}, times=3))"

    graph = compile_source(text, context)

    assert _shifts(graph, 1) == [0, 5, 20, 25, 40, 45]
    found = [occurrence_path(graph, 1, k) for k in range(6)]
    assert found == [f"1.0@{i}.0@{j}" for i in range(3) for j in range(2)]
    assert occurrence_path(graph, 0, 0) == "0"
    with pytest.raises(IndexError, match="6 occurrences"):
        occurrence_path(graph, 1, 6)


def test_one_offset_that_a_clock_change_makes_impossible() -> None:
    """A day of 23 hours cannot hold what the days of 24 hours after it hold."""
    hourly = Every(HOUR, Atom(CPU, 1, 1, HOUR, HOUR), until=Offset(DAY))
    daily = Every(DAY, hourly, times=3, zone="Europe/Paris", anchor=Offset(20 * HOUR))

    with pytest.raises(RdlError, match="do not lie the same way"):
        compile_expression(daily, CompileContext(WEEK))
    free = compile_expression(replace(daily, same_offset=False), CompileContext(WEEK))
    assert [len(_shifts(free, int(atom))) for atom in free.atoms] == [23, 24, 24]


def test_what_the_grid_made_of_the_numbers() -> None:
    """Lease 90 s at 60 s steps is 2 steps, and three leases stay three; a note says so."""
    context = CompileContext(TimeGrid(60_000, 100), 30_000)

    graph = compile_source(
        "all(atom(<1 cpu>, 1, 2, 90s, 270s), atom(<1 cpu>, 1, 1, 60, 60))", context
    )

    assert graph.notes == (
        "1 to 2 x <1 cpu> for 4m30s of work (first of all): lease 90s -> 2 steps, "
        "work 270 -> 360 bundle-seconds",
    )
    assert graph.vertices[0, [MIN_HEIGHT, MAX_HEIGHT, LEASE, WORK]].tolist() == [1, 2, 2, 6]
    assert graph.submitted == 1
    assert graph.vertices[0, START] == 1


def test_a_window_cut_by_the_horizon_is_noted() -> None:
    """The part inside is planned; the note names the horizon."""
    context = CompileContext(TimeGrid(1000, 100))

    graph = compile_source("window(atom(<1 cpu>, 1, 1, 1, 1), 50, 1000)", context)

    assert graph.vertices[0, [START, END]].tolist() == [50, 100]
    assert graph.notes == ("the window passes the plan's horizon and is cut at 100 s",)


def test_bundles_and_labels_are_named_once() -> None:
    """Three atoms with two bundles and one label index two bundles and one label."""
    text = (
        'b=<1 cpu>; all(atom(b,1,1,1,1), atom(<2 gpu>,1,1,1,1,on="ssd"), atom(b,1,1,1,1,on="ssd"))'
    )

    graph = compile_source(text, CompileContext(TimeGrid(1000, 100)))

    assert graph.bundles == (CPU, Resources.of({"gpu": 2}))
    assert graph.labels == ("ssd",)
    assert graph.vertices[:, BUNDLE].tolist() == [0, 1, 0, -1]


def test_efforts_follow_the_interval_rule() -> None:
    """Order adds, all is the root of the sum of squares, a graph adds those of its levels."""
    a, b = "atom(<1 cpu>, 1, 9, 1, 9)", "atom(<1 cpu>, 1, 9, 1, 16)"
    context = CompileContext(TimeGrid(1000, 100))

    def effort(text: str) -> float:
        return float(compile_source(text, context).root_effort[-1])

    assert effort(a) == 3
    assert effort(f"order({a}, {b})") == 7
    assert effort(f"all({a}, {b})") == 5
    assert effort(f"graph(x: {a}, y: {b}, z: {a}; x -> z, y -> z)") == effort(
        f"order(all({a}, {b}), {a})"
    )
    assert effort(f"any({b}, {a})") == 4
    assert effort(f"window(any(atom(<1 cpu>, 1, 1, 99, 99), {a}), 0, 50)") == 3


def test_arrays_cannot_be_written() -> None:
    """Stages hand each other frozen data."""
    graph = compile_source("atom(<1 cpu>, 1, 1, 1, 1)", CompileContext(TimeGrid(1000, 100)))

    for array in (graph.vertices, graph.children, graph.edges, graph.shifts, graph.root_effort):
        assert not array.flags.writeable


def test_children_stand_before_parents() -> None:
    """Post-order: the root is last, and every other vertex precedes its parent."""
    atom = "atom(<1 cpu>, 1, 1, 1, 1)"
    text = f"all(order({atom}, {atom}), any({atom}, order({atom}, {atom})))"

    graph = compile_source(text, CompileContext(TimeGrid(1000, 100)))

    parents = graph.vertices[:, PARENT]
    assert parents[-1] == -1
    assert np.all(parents[:-1] > np.arange(len(parents) - 1))


def test_json_sources_have_pointers() -> None:
    """The same mistake in JSON is named by its pointer, in an object and in a string."""
    atom = '{"atom": {"bundle": {"cpu": 1}, "min": 1, "max": 1, "lease": 9, "work": 9}}'
    text = f'{{"window": {{"start": 0, "end": 5, "of": {atom}}}}}'
    context = CompileContext(TimeGrid(1000, 100))

    with pytest.raises(RdlError) as caught:
        compile_source(text, context)

    (problem,) = caught.value.problems
    assert (problem.pointer, problem.span) == ("/window/of", None)


def _chain(stages: int) -> str:
    body = ", ".join(f"atom(b, 1, {i % 50 + 1}, {i % 7 + 1}, {i % 90 + 10})" for i in range(stages))
    return f"b=<1 cpu>; order({body})"


def test_a_thousand_stages_start_one_after_the_other() -> None:
    """Text to WorkGraph; every stage starts after the shortest lengths before it."""
    graph = compile_source(_chain(1000), CompileContext(TimeGrid(1000, 10**7)))

    shortest = graph.vertices[:1000, SHORTEST]
    assert np.array_equal(graph.vertices[:1000, START], np.cumsum(shortest) - shortest)


def test_compiling_grows_no_faster_than_the_request() -> None:
    """Sixteen times the stages cost about sixteen times the calls, 250 a stage at most."""
    context = CompileContext(TimeGrid(1000, 10**7))

    def calls(stages: int) -> int:
        text = _chain(stages)
        return calls_made(lambda: compile_source(text, context))

    assert calls(500) < 500 * 250
    assert calls(8000) < 16 * 1.2 * calls(500)


def test_hostile_depth_is_refused_before_recursion() -> None:
    """Ten thousand levels built by a program are refused, not walked."""
    deep: AllOf | Atom = Atom(CPU, 1, 1, 1000, 1000)
    for _ in range(10_000):
        deep = AllOf((deep,))

    with pytest.raises(RdlError, match="nested deeper than 200"):
        compile_expression(deep, CompileContext(TimeGrid(1000, 100)))


def test_the_deepest_nesting_allowed_compiles() -> None:
    """Two hundred levels, alternating operators so that nothing folds, fit the interpreter."""
    text = "atom(<1 cpu>, 1, 1, 1, 1)"
    for level in range(199):
        operator = "order" if level % 2 else "all"
        sibling = "atom(<1 cpu>, 1, 1, 1, 1)"
        text = f"{operator}({sibling}, {text})"

    graph = compile_source(text, CompileContext(TimeGrid(1000, 1000)))

    assert len(graph.atoms) == 200
    assert graph.root_effort[-1] >= sqrt(2)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_request_that_could_not_be_read_again_is_refused(form: str) -> None:
    """Plans keep the canonical text; named bundles and JSON can be far shorter than it."""
    limits = SourceLimits(max_source=2000)
    context = CompileContext(TimeGrid(1000, 1000), limits=limits)
    source: object
    for count, fits in ((60, True), (90, False)):
        if form == "text":
            source = f"b = <1 cpu>; all({', '.join(['atom(b,1,1,1,1)'] * count)})"
        else:
            atom = {"bundle": {"cpu": 1}, "min": 1, "max": 1, "lease": 1, "work": 1}
            source = {"all": [{"atom": atom}] * count}
        if fits:
            graph = compile_source(source, context)
            text = format_expression(graph.expression)
            assert len(text) <= limits.max_source
            assert read_source(text, limits) == graph.expression
            continue
        with pytest.raises(RdlError, match=r"written out, .* has 2433 characters; write at"):
            compile_source(source, context)


@pytest.mark.parametrize(
    ("prefer", "order"),
    [
        ("", [0, 1, 2]),
        (", prefer=[1, 0.5, 0.25]", [0, 1, 2]),
        (", prefer=[0.25, 0.5, 1]", [2, 1, 0]),
        (", prefer=[0.5, 1, 1]", [1, 2, 0]),
        (", prefer=[0.5, 1, 0.5]", [1, 0, 2]),
    ],
)
def test_options_stand_in_order_of_preference(prefer: str, order: list[int]) -> None:
    """Those of equal worth as written; vertices, and all but options, stay as written."""
    options = ", ".join(f"atom(<1 cpu>, 1, 1, {length}, {length})" for length in (1, 4, 9))
    graph = compile_source(f"any({options}{prefer})", CompileContext(TimeGrid(1000, 20)))
    assert graph.children.tolist() == order
    assert graph.vertices[:3, WORK].tolist() == [1, 4, 9]
    assert graph.root_effort[-1] == [1, 2, 3][order[0]]
