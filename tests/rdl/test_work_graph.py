"""WorkGraph: the invariants that its readers rely on, for any expression that compiles."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings

from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.compound import parts_of
from rdl.errors import RdlError
from rdl.expressions import AnyOf, Expression, Together, children_of
from rdl.text.parser import parse
from rdl.time_grid import TimeGrid
from rdl.work_graph import (
    ANY,
    ATOM,
    CHILD_COUNT,
    CHILD_FIRST,
    COLUMNS,
    END,
    EVERY,
    KIND,
    LAST_SHIFT,
    MAX_HEIGHT,
    MIN_HEIGHT,
    MULTIPLE,
    PARENT,
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
from tests.rdl.tiny_expressions import HORIZON, gaps, trees


def _compiled(expression: Expression) -> WorkGraph:
    try:
        return compile_expression(expression, CompileContext(TimeGrid(1, HORIZON)))
    except RdlError:
        assume(False)
        raise


def _at(expression: Expression, path: str) -> Expression:
    here = expression
    for part in path.split(".") if path else []:
        here = children_of(here)[int(part.partition("@")[0])]
    return here


@settings(max_examples=300)
@given(trees(gaps))
def test_the_tree_is_whole_and_in_post_order(expression: Expression) -> None:
    """One root, last; every child follows its own children and names its parent, once."""
    graph = _compiled(expression)
    vertices = graph.vertices
    count = len(vertices)

    assert vertices.shape == (count, COLUMNS)
    assert vertices[-1, PARENT] == -1
    assert np.all(vertices[:-1, PARENT] > np.arange(count - 1))
    listed = []
    for vertex in range(count):
        first = vertices[vertex, CHILD_FIRST]
        children = graph.children[first : first + vertices[vertex, CHILD_COUNT]]
        assert np.all(vertices[children, PARENT] == vertex)
        assert (len(children) == 0) == (vertices[vertex, KIND] == ATOM)
        listed.extend(children.tolist())
    assert sorted(listed) == list(range(count - 1))
    assert len(graph.paths) == len(graph.prefer) == len(graph.root_effort) == count


@settings(max_examples=300)
@given(trees(gaps))
def test_windows_hold_lengths_and_lie_inside_each_other(expression: Expression) -> None:
    """What can be satisfied fits its window, and a child's window lies inside its parent's."""
    graph = _compiled(expression)
    for row in graph.vertices[graph.vertices[:, SATISFIABLE] == 1]:
        assert 0 <= row[START] < row[END] <= HORIZON
        assert row[END] - row[START] >= row[SHORTEST] > 0
        if row[PARENT] >= 0:
            parent = graph.vertices[row[PARENT]]
            last = parent[LAST_SHIFT] if parent[KIND] == EVERY else 0
            assert parent[START] <= row[START]
            assert row[END] + last <= parent[END]


@settings(max_examples=300)
@given(trees(gaps))
def test_edges_join_children_of_one_parent_and_have_no_cycle(expression: Expression) -> None:
    """Arrows stay inside a group that is an ALL; gaps are ranges; windows leave room for them."""
    graph = _compiled(expression)
    for before, after, least, most in graph.edges.tolist():
        assert graph.vertices[before, PARENT] == graph.vertices[after, PARENT]
        assert least >= 0
        assert most == -1 or most >= least
        if graph.vertices[[before, after], SATISFIABLE].all():
            head, tail = graph.vertices[before], graph.vertices[after]
            assert tail[START] >= head[START] + head[SHORTEST] + least
            assert head[END] <= tail[END] - tail[SHORTEST] - least


@settings(max_examples=300)
@given(trees(gaps))
def test_atoms_are_reachable_and_lead_back_to_their_source(expression: Expression) -> None:
    """Heights are multiples, and path and choices of an atom say where it was written."""
    graph = _compiled(expression)
    for vertex in graph.atoms.tolist():
        row = graph.vertices[vertex]
        source = _at(expression, graph.paths[vertex])
        if row[WORK]:
            assert row[MIN_HEIGHT] % row[MULTIPLE] == row[MAX_HEIGHT] % row[MULTIPLE] == 0
            members = children_of(source) if isinstance(source, Together) else (source,)
            for one, (_, member) in zip(members, parts_of(graph, vertex), strict=True):
                assert getattr(one, "work_ms", None) == row[WORK] * member.count
        shifts = graph.shifts[row[SHIFT_FIRST] : row[SHIFT_FIRST] + row[SHIFT_COUNT]]
        assert shifts[0] == 0
        assert np.all(np.diff(shifts) > 0)
        paths = {occurrence_path(graph, vertex, k) for k in range(len(shifts))}
        assert len(paths) == len(shifts)
        for path, option in choices_of(graph, [vertex]).items():
            assert isinstance(_at(expression, path), AnyOf)
            assert graph.paths[vertex].startswith(f"{path}.{option}" if path else str(option))


@settings(max_examples=200, deadline=None)
@given(trees(gaps))
def test_some_option_can_be_satisfied(expression: Expression) -> None:
    """Marks stand below an `any` only, and never on all options of one that can be taken."""
    graph = _compiled(expression)
    vertices = graph.vertices
    for vertex in np.flatnonzero(vertices[:, SATISFIABLE] == 0).tolist():
        above = vertices[vertices[vertex, PARENT]]
        assert above[KIND] == ANY or above[SATISFIABLE] == 0
    for row in vertices[(vertices[:, KIND] == ANY) & (vertices[:, SATISFIABLE] == 1)]:
        options = graph.children[row[CHILD_FIRST] : row[CHILD_FIRST] + row[CHILD_COUNT]]
        assert vertices[options, SATISFIABLE].any()


def test_choices_of_a_request_without_any_are_none() -> None:
    """Most requests have no choice, and asking costs nothing."""
    graph = compile_expression(
        parse("atom(<1 cpu>, 1, 1, 1, 1)"), CompileContext(TimeGrid(1000, 9))
    )

    assert choices_of(graph, graph.atoms) == {}
