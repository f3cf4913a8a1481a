"""An atom in a window compiled in one go is what the compiler makes of it."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.compile.compiler import _compiled
from rdl.compile.context import CompileContext, MachineShape
from rdl.compile.plain_graph import plain_graph
from rdl.errors import RdlError
from rdl.expressions import Absolute, AfterSubmission, Atom, Instant, Offset, Window
from rdl.limits import SourceLimits
from rdl.resources import Resources
from rdl.text.parser import parse
from rdl.time_grid import TimeGrid
from rdl.work_graph import WorkGraph

_ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)
_MACHINES = (MachineShape("plain", Resources.of({"cpu": 4000, "memory": 4096})),)

_MS = st.one_of(st.integers(0, 2_000), st.integers(-5, 5), st.sampled_from([2**53, 2**53 + 1]))
_LONG_MS = _MS.map(lambda ms: ms * 1000)
_INSTANTS: st.SearchStrategy[Instant] = st.one_of(
    _LONG_MS.map(Offset),
    _LONG_MS.map(AfterSubmission),
    st.integers(-10, 2_000).map(lambda s: Absolute(_ORIGIN + timedelta(seconds=s))),
)
_COUNTS = st.one_of(st.integers(0, 6), st.sampled_from([2**31 - 1, 2**31]))


@st.composite
def _atoms(draw: st.DrawFn) -> Atom:
    return Atom(
        Resources.of(draw(st.sampled_from([{"cpu": 1000}, {"cpu": 8000}, {}, {"gpu": 1}]))),
        draw(_COUNTS),
        draw(_COUNTS),
        draw(_LONG_MS),
        draw(_LONG_MS),
        draw(st.sampled_from([1, 1, 1, 2, 0])),
        draw(st.sampled_from([None, None, None, "fast"])),
        draw(st.sampled_from([0, 0, 0, 1])),
        draw(st.sampled_from([None, None, None, "rack"])),
        draw(st.sampled_from([None, None, True, False])),
    )


@st.composite
def _contexts(draw: st.DrawFn) -> CompileContext:
    origin = draw(st.sampled_from([_ORIGIN, _ORIGIN, None]))
    return CompileContext(
        TimeGrid(draw(st.sampled_from([1000, 7000, 60_000])), draw(st.integers(1, 2_000)), origin),
        draw(st.integers(-100_000, 900_000)),
        draw(st.sampled_from([(), _MACHINES])),
        exact_work=draw(st.booleans()),
        limits=draw(st.sampled_from([SourceLimits(), SourceLimits(max_source=150)])),
    )


@given(_atoms(), _INSTANTS, _INSTANTS, _contexts())
def test_what_is_compiled_in_one_go_is_what_the_compiler_makes(
    atom: Atom, start: Instant, end: Instant, context: CompileContext
) -> None:
    """Column by column; whatever the compiler refuses is left to it."""
    window = Window(start, end, atom)
    plain = plain_graph(window, context)
    try:
        compiled = _compiled(window, context, None)
    except RdlError:
        assert plain is None
        return
    if plain is not None:
        _assert_same(plain, compiled)


@pytest.mark.parametrize(
    "text",
    [
        "window(atom(<1 cpu>, 1, 8, 40s, 320s), +30s, +900s)",
        "window(atom(<1 cpu>, 2, 2, 1.5s, 90s), 60, 900)",
        "night: window(train: atom(<1 cpu>, 2, 2, 1.5s, 90s), 60, 900)",
        "window(atom(<1 cpu>, 1, 1, 1m, 1m), 2026-01-05T00:01:00Z, 2026-01-05T00:09:00Z)",
    ],
)
def test_the_common_shapes_are_compiled_in_one_go(text: str) -> None:
    """They do not take the long way, and come out the same."""
    context = CompileContext(TimeGrid(1000, 1000, _ORIGIN), 5_000, _MACHINES)
    plain = plain_graph(parse(text), context)
    assert plain is not None
    _assert_same(plain, _compiled(parse(text), context, text))


def _assert_same(one: WorkGraph, other: WorkGraph) -> None:
    for field in fields(WorkGraph):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, field.name
            assert left.shape == right.shape, field.name
            assert (left == right).all(), field.name
            assert not left.flags.writeable, field.name
        else:
            assert left == right, field.name
