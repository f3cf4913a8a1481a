"""Normalising keeps the set of satisfying allocations: brute force before and after."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.compound import parts_of
from rdl.errors import MALFORMED, RdlError
from rdl.expressions import (
    AllOf,
    Atom,
    Every,
    Expression,
    Gap,
    Order,
    Void,
)
from rdl.oracle.satisfaction import check
from rdl.text.parser import parse
from rdl.time_grid import TimeGrid
from rdl.work_graph import (
    ALL,
    ANY,
    ATOM,
    CHILD_COUNT,
    CHILD_FIRST,
    COLUMNS,
    END,
    KIND,
    LEASE,
    MAX_HEIGHT,
    MIN_HEIGHT,
    MULTIPLE,
    SATISFIABLE,
    SHIFT_COUNT,
    SHIFT_FIRST,
    SHORTEST,
    START,
    WORK,
    WorkGraph,
    choices_of,
    occurrence_path,
)
from tests.rdl.brute_force import Allocation, Held, holdings, hull, satisfying, span
from tests.rdl.tiny_expressions import (
    ATOMS,
    CPU,
    HORIZON,
    atoms,
    combinations,
    gaps,
    trees,
    windows,
)

MOST_COMBINATIONS = 2_500

#: What each vertex holds in one way to satisfy a WorkGraph: (atom, held) of occurrence 0.
_Way = tuple[tuple[int, Held], ...]


def _context(horizon: int = HORIZON) -> CompileContext:
    return CompileContext(TimeGrid(1, horizon))


def _ways(graph: WorkGraph, vertex: int) -> set[_Way]:
    """Return every way to hold a vertex that the WorkGraph's arrays allow."""
    row = graph.vertices[vertex].tolist()
    if not row[SATISFIABLE]:
        return set()
    if row[KIND] == ATOM:
        numbers = row[MIN_HEIGHT], row[MAX_HEIGHT], row[MULTIPLE], row[LEASE]
        found = holdings(*numbers, graph.grid.horizon).get(row[WORK], frozenset())
        inside = [held for held in found if span(held)[0] >= row[START]]
        return {((vertex, held),) for held in inside if span(held)[1] <= row[END]}
    first = row[CHILD_FIRST]
    children = graph.children[first : first + row[CHILD_COUNT]].tolist()
    sets = [_ways(graph, child) for child in children]
    if row[KIND] == ANY:
        return set().union(*sets)
    edges = [edge for edge in graph.edges.tolist() if edge[0] in children]
    position = {child: i for i, child in enumerate(children)}
    found_ways = set()
    for parts in product(*sets):
        spans = [_span(graph, part) for part in parts]
        gaps = [(spans[position[b]][0] - spans[position[a]][1], lo, hi) for a, b, lo, hi in edges]
        if all(lo <= gap and (hi < 0 or gap <= hi) for gap, lo, hi in gaps):
            found_ways.add(tuple(sorted(entry for part in parts for entry in part)))
    return found_ways


def _span(graph: WorkGraph, way: _Way) -> tuple[int, int]:
    """Return the steps that a way spans with all occurrences of its atoms."""
    firsts, lasts = [], []
    for vertex, held in way:
        shifts = _shifts(graph, vertex)
        firsts.append(span(held)[0])
        lasts.append(span(held)[1] + shifts[-1])
    return min(firsts), max(lasts)


def _shifts(graph: WorkGraph, vertex: int) -> list[int]:
    first, count = graph.vertices[vertex, [SHIFT_FIRST, SHIFT_COUNT]].tolist()
    return [int(shift) for shift in graph.shifts[first : first + count]]


def _allocation(graph: WorkGraph, way: _Way) -> Allocation:
    rows = []
    for vertex, held in way:
        for k, shift in enumerate(_shifts(graph, vertex)):
            assert not any(held[len(held) - shift :] if shift else ()), "leaves the horizon"
            moved = ((0,) * shift + held)[: len(held)]
            path = occurrence_path(graph, vertex, k)
            for own, member in parts_of(graph, vertex):
                of_member = path + own.removeprefix(graph.paths[vertex])
                if not graph.paths[vertex]:
                    of_member = own
                rows.append((of_member, tuple(member.count * height for height in moved)))
    choices = choices_of(graph, [vertex for vertex, _ in way])
    return tuple(sorted(rows)), tuple(sorted(choices.items()))


def _compiled(expression: Expression, horizon: int = HORIZON) -> set[Allocation] | None:
    """Return what the WorkGraph allows, or None if the compiler refuses."""
    try:
        graph = compile_expression(expression, _context(horizon))
    except RdlError as error:
        if error.code == MALFORMED:
            raise
        return None
    if graph.void:
        return {((), ())}
    return {_allocation(graph, way) for way in _ways(graph, len(graph.vertices) - 1)}


@settings(max_examples=200)
@given(trees(gaps))
def test_normalising_keeps_the_satisfying_allocations(expression: Expression) -> None:
    """The WorkGraph allows exactly what the definition does, with the same paths and choices."""
    assume(combinations(expression) <= MOST_COMBINATIONS)

    exact = satisfying(expression, HORIZON)

    assert (_compiled(expression) or set()) == exact


@settings(max_examples=200)
@given(trees(st.sampled_from([None, Gap(1, None)])))
def test_without_largest_gaps_the_checker_refuses_only_and_all_the_impossible(
    expression: Expression,
) -> None:
    """Where no gap has a maximum, a request compiles iff some allocation satisfies it."""
    assume(combinations(expression) <= MOST_COMBINATIONS)

    exact = satisfying(expression, HORIZON)

    assert (_compiled(expression) is not None) == bool(exact)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(atoms, windows(atoms)), min_size=1, max_size=3),
    st.sampled_from([None, Gap(1, None)]),
)
def test_windows_of_a_chain_are_as_tight_as_can_be(
    stages: list[Expression], gap: Gap | None
) -> None:
    """In an order of atoms each window begins and ends where some allocation does."""
    expression = Order(tuple(stages), gap)
    assume(combinations(expression) <= MOST_COMBINATIONS)
    exact = satisfying(expression, HORIZON)
    assume(exact)

    graph = compile_expression(expression, _context())

    for atom in graph.atoms.tolist():
        spans = [span(dict(held)[graph.paths[atom]]) for held, _ in exact]
        assert graph.vertices[atom, START] == min(first for first, _ in spans)
        assert graph.vertices[atom, END] == max(last for _, last in spans)


@settings(max_examples=60, deadline=None)
@given(trees(gaps))
def test_the_oracle_accepts_what_the_work_graph_allows(expression: Expression) -> None:
    """Every allocation read off the arrays satisfies the oracle under its paths and choices."""
    assume(combinations(expression) <= MOST_COMBINATIONS)
    grid = TimeGrid(1, HORIZON)

    for held, choices in sorted(_compiled(expression) or set())[:50]:
        rows = {path: [(t, t + 1, x) for t, x in enumerate(xs) if x] for path, xs in held}
        assert check(expression, grid, 0, rows, dict(choices)) is None


def _graph(text: str, horizon: int = 100) -> WorkGraph:
    return compile_expression(parse(text), CompileContext(TimeGrid(1000, horizon)), text)


def test_nested_operators_of_one_kind_become_one() -> None:
    """order(order(a, b), c) has one group with three stages; its gaps stay where they were."""
    text = "a=<1 cpu>; order(order(atom(a,1,1,1,1), atom(a,1,1,1,1), gap=5s), atom(a,1,1,1,1))"

    graph = _graph(text)

    assert graph.paths == ("0.0", "0.1", "1", "")
    assert graph.edges.tolist() == [[0, 1, 5, -1], [1, 2, 0, -1]]


def test_windows_leave_no_vertex_and_cut_what_lies_inside() -> None:
    """Two windows around an atom leave their intersection on the atom."""
    graph = _graph("a=<1 cpu>; window(window(atom(a,1,1,1,1), 5, 50), 10, 90)")

    assert graph.paths == ("0.0",)
    assert graph.vertices[0, [START, END]].tolist() == [10, 50]


def test_choices_of_folded_anys_are_named() -> None:
    """any(any(a, b), any(c)) is one choice of three; each names both source choices."""
    text = "a=<1 cpu>; any(any(atom(a,1,1,1,1), atom(a,1,1,2,2)), any(atom(a,1,1,3,3)))"

    graph = _graph(text)

    assert graph.vertices[:, KIND].tolist() == [ATOM, ATOM, ATOM, ANY]
    assert choices_of(graph, [1]) == {"": 0, "0": 1}
    assert choices_of(graph, [2]) == {"": 1, "1": 0}


def test_a_preference_for_the_only_option_is_kept() -> None:
    """any(a, prefer=[0.5]) stays a choice: what it is worth must not be lost."""
    graph = _graph("a=<1 cpu>; any(atom(a,1,1,1,1), prefer=[0.5])")

    assert graph.vertices[:, KIND].tolist() == [ATOM, ANY]
    assert graph.prefer.tolist() == [0.5, 1.0]


def test_nested_preferences_multiply() -> None:
    """A folded option is worth the product of the preferences on its way."""
    text = "a=<1 cpu>; any(any(atom(a,1,1,1,1), atom(a,1,1,1,1), prefer=[1, 0.5]), atom(a,1,1,1,1)"

    graph = _graph(f"{text}, prefer=[0.5, 1])")

    assert graph.prefer.tolist() == [0.5, 0.25, 1.0, 1.0]


def test_an_option_that_cannot_be_satisfied_is_marked_and_keeps_its_place() -> None:
    """The first of two options is too long: marked, not renumbered, and a note says why."""
    text = "a=<1 cpu>; window(any(atom(a,1,1,50,50), atom(a,1,1,5,5)), 0, 20)"

    graph = _graph(text)

    assert graph.vertices[:, SATISFIABLE].tolist() == [0, 1, 1]
    assert graph.vertices[2, SHORTEST] == 5
    assert graph.notes == (
        "0.0: left out, it takes at least 50s, but its window, from 0s to 20s "
        "after the origin, is 20s",
    )


def test_an_option_is_marked_by_what_is_shown_next_to_it() -> None:
    """order(a, any(long, short)) drops `long` where `a` leaves no free capacity for it."""
    text = "a=<1 cpu>; window(order(atom(a,1,1,8,8), any(atom(a,1,1,5,5), atom(a,1,1,2,2))), 0, 10)"

    graph = _graph(text)

    assert graph.vertices[:, SATISFIABLE].tolist() == [1, 0, 1, 1, 1]
    assert graph.vertices[0, [START, END]].tolist() == [0, 8]


def test_largest_gaps_tighten_rigid_stages() -> None:
    """A gang that must end right before a late one starts late itself."""
    late = "window(atom(a,2,2,3,6), 20, 25)"
    text = f"a=<1 cpu>; order(atom(a,2,2,4,8), atom(a,2,2,1,2), {late}, gap=0..0)"

    graph = _graph(text)

    assert graph.vertices[:, START].tolist() == [15, 19, 20, 15]
    assert graph.vertices[:, END].tolist() == [21, 22, 25, 25]


def test_a_void_alongside_work_leaves_nothing() -> None:
    """all(void, atom) is the atom; a void alone is a whole request without vertices."""
    beside = _graph("a=<1 cpu>; all(void(a, 3), atom(a,1,1,1,1))")
    alone = _graph("void(<1 cpu>, 3)")

    assert beside.paths == ("1",)
    assert not beside.void
    assert alone.void
    assert alone.vertices.shape == (0, COLUMNS)


def test_voids_hold_nothing_in_enumeration_too() -> None:
    """The set of all(void, atom) is that of the atom."""
    expression = AllOf((Void(CPU, 2), ATOMS[0]))

    assert _compiled(expression) == satisfying(expression, HORIZON)


@pytest.mark.parametrize("same_offset", [True, False])
def test_a_recurrence_inside_a_recurrence(same_offset: bool) -> None:
    """Two by two occurrences keep their coupling: one offset inside, one offset outside."""
    inner = Every(2, Atom(CPU, 1, 2, 1, 2), times=2)
    expression = Every(4, inner, times=2, same_offset=same_offset)

    exact = satisfying(expression, 8)

    assert exact
    assert _compiled(expression, 8) == exact


def test_hull_of_nothing_is_none() -> None:
    """The helper says None for a void, so that windows around nothing hold."""
    assert hull(((), ())) is None


def test_kinds_are_what_the_arrays_say() -> None:
    """An order is an ALL with edges; only `every` with several occurrences is an EVERY."""
    once = _graph("a=<1 cpu>; every(10s, order(atom(a,1,1,1,1), atom(a,1,1,1,1)), times=1)")

    assert once.vertices[:, KIND].tolist() == [ATOM, ATOM, ALL]
    assert once.paths == ("0@0.0", "0@0.1", "")
