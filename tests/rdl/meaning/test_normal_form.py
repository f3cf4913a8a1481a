"""The normal form: what is flattened, left out and unified, and that it asks for the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.compile.source import read_source
from rdl.expressions import Void
from rdl.meaning.normal_form import normal_form
from rdl.oracle.satisfaction import check
from rdl.resources import Resources
from rdl.text.formatter import format_expression
from rdl.time_grid import TimeGrid

GANG = "atom(<1 cpu>, 2, 2, 1, 2)"
TASKS = "atom(<1 cpu>, 1, 4, 1, 4)"


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        (f"order(order({GANG}, {TASKS}), all({GANG}))", f"order({GANG}, {TASKS}, {GANG})"),
        (f"all({GANG}, all({GANG}, {TASKS}), void(<1 cpu>, 3))",
         f"all(atom(<1 cpu>, 2, 4, 1, 4, multiple=2, handover=no, credit=no), {TASKS})"),
        (f"all({TASKS}, {TASKS})", f"all({TASKS}, {TASKS})"),
        (f"any({GANG}, any({GANG}, {TASKS}), prefer=[1, 0.5])",
         f"any({GANG}, {TASKS}, prefer=[1, 0.5])"),
        (f"any({GANG}, x: {GANG})", GANG),
        (f"window(window({GANG}, 2, 9), 1, 5)", f"window({GANG}, 2, 5)"),
        (f"window(window({GANG}, +2, 9), 1, 5)", f"window(window({GANG}, +2, 9), 1, 5)"),
        ("atom(<1 cpu>, 1, 7, 1, 0)", "void(<1 cpu>, 7)"),
        (f"graph(a: {GANG})", GANG),
        (f"together({GANG}, {GANG}, within=rack, values=2)",
         "atom(<1 cpu>, 4, 4, 1, 4, within=rack, values=2)"),
        (f"together({GANG}, x: {GANG}, atom(<2 cpu>, 1, 1, 1, 1), within=rack)",
         "together(atom(<1 cpu>, 4, 4, 1, 4), atom(<2 cpu>, 1, 1, 1, 1), within=rack)"),
    ],
)  # fmt: skip
def test_the_normal_form(text: str, normal: str) -> None:
    """It is written out here, and is its own normal form."""
    found = normal_form(read_source(text))
    assert format_expression(found) == normal
    assert normal_form(found) == found


def test_a_void_as_the_paper_prints_it_is_a_void_in_json_too() -> None:
    """Other arguments alongside a work of nothing stay a mistake."""
    atom = {"bundle": {"cpu": 1}, "min": 1, "max": 7, "lease": 1, "work": 0}
    assert read_source({"atom": atom}) == Void(Resources.of({"cpu": 1000}), 7)


@given(st.integers(0, 4), st.integers(0, 4))
def test_equal_gangs_ask_for_what_their_unified_atom_asks_for(first: int, second: int) -> None:
    """Two gangs at any two places are an allocation of the one atom, by the oracle."""
    both = read_source(f"all({GANG}, {GANG})")
    grid = TimeGrid(1000, 6)
    rows = {"0": [(first, first + 1, 2)], "1": [(second, second + 1, 2)]}
    heights = [2 * (at == first) + 2 * (at == second) for at in range(6)]
    joined = [(at, at + 1, height) for at, height in enumerate(heights) if height]
    assert check(both, grid, 0, rows, {}) is None
    assert check(normal_form(both), grid, 0, {"": joined}, {}) is None
