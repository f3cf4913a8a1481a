"""Atoms with a spread or within one value: what the compiler says and what it keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rdl.compile.compiler import compile_expression, compile_source
from rdl.compile.context import CompileContext, MachineShape
from rdl.errors import UNSATISFIABLE, RdlError
from rdl.expressions import Atom
from rdl.resources import Resources
from rdl.time_grid import TimeGrid
from rdl.work_graph import (
    DOMAIN,
    HANDOVER,
    MAX_HEIGHT,
    SHORTEST,
    SPREAD,
    VALUES,
    WITHIN,
    WORK,
    WorkGraph,
)

FOUR_CPUS = Resources.of({"cpu": 4000})
#: Two racks of three machines, and two machines with a disk of their own outside of any rack.
MACHINES = (
    MachineShape("a", FOUR_CPUS, count=3, domains=(("rack", "r1"), ("zone", "z"))),
    MachineShape("b", FOUR_CPUS, count=3, domains=(("rack", "r2"), ("zone", "z"))),
    MachineShape("c", Resources.of({"cpu": 1000}), frozenset({"ssd"}), count=2),
)
CONTEXT = CompileContext(TimeGrid(1000, 100), machines=MACHINES)


def compiled(text: str) -> WorkGraph:
    """Return the graph of a request on the machines above."""
    return compile_source(text, CONTEXT)


@pytest.mark.parametrize(
    ("text", "highest"),
    [
        ("atom(<1 cpu>, 1, 100, 1, 100)", 100),
        ("atom(<1 cpu>, 1, 100, 1, 100, spread=1)", 8),
        ("atom(<1 cpu>, 1, 100, 1, 100, spread=3)", 20),
        ("atom(<2 cpu>, 1, 100, 1, 100, spread=1)", 6),
        ("atom(<1 cpu>, 1, 5, 1, 100, spread=1)", 5),
        ("atom(<1 cpu>, 1, 100, 1, 100, spread=1, by=rack)", 2),
        ("atom(<1 cpu>, 1, 100, 1, 100, spread=5, by=rack)", 10),
        ("atom(<2 cpu>, 1, 100, 1, 100, spread=99, by=rack)", 12),
        ("atom(<1 cpu>, 1, 100, 1, 100, spread=5, by=zone)", 5),
        ("atom(<1 cpu>, 1, 100, 1, 100, multiple=3, spread=1)", 6),
        ('atom(<1 cpu>, 1, 100, 1, 100, on="ssd", spread=1)', 2),
        ("atom(<1 cpu>, 1, 100, 1, 100, within=rack)", 12),
        ("atom(<1 cpu>, 1, 100, 1, 100, within=zone)", 24),
        ("atom(<1 cpu>, 1, 100, 1, 100, within=rack, values=2)", 24),
        ("atom(<1 cpu>, 1, 100, 1, 100, spread=5, by=rack, within=rack, values=2)", 10),
        ("atom(<1 cpu>, 1, 100, 1, 100, spread=2, within=rack)", 6),
        ("atom(<1 cpu>, 1, 100, 1, 100, spread=5, by=rack, within=zone)", 10),
        ("atom(<1 cpu>, 1, 100, 1, 100, spread=5, by=zone, within=rack)", 5),
        ("atom(<1 cpu>, 1, 100, 1, 100, multiple=5, within=rack)", 10),
    ],
)
def test_a_spread_lowers_the_greatest_height(text: str, highest: int) -> None:
    """To what the machines hold side by side; those without a value of the domain hold none."""
    assert compiled(text).vertices[0, MAX_HEIGHT] == highest


def test_a_spread_makes_work_longer_and_never_more() -> None:
    """The same work takes the steps that the lower height needs."""
    free, spread = (
        compiled(f"atom(<1 cpu>, 1, 100, 1, 100{rule})").vertices[0] for rule in ("", ", spread=1")
    )

    assert (free[SHORTEST], spread[SHORTEST]) == (1, 13)
    assert free[WORK] == spread[WORK] == 100


def test_the_graph_says_the_rule_of_each_atom() -> None:
    """Columns SPREAD to VALUES; domains once each; hand-overs by default for g < h."""
    graph = compiled(
        "all(atom(<1 cpu>, 1, 2, 1, 2, spread=2, by=zone), atom(<1 cpu>, 2, 2, 1, 2),"
        " atom(<1 cpu>, 1, 2, 1, 2, handover=no), atom(<1 cpu>, 2, 2, 1, 2, spread=1, by=rack),"
        " atom(<1 cpu>, 2, 2, 1, 2, spread=1, handover=yes, within=zone))"
    )

    assert graph.domains == ("zone", "rack")
    assert graph.vertices[:, [SPREAD, DOMAIN, HANDOVER, WITHIN, VALUES]].tolist() == [
        [2, 0, 1, -1, 1],
        [0, -1, 0, -1, 1],
        [0, -1, 0, -1, 1],
        [1, 1, 0, -1, 1],
        [1, -1, 1, 0, 1],
        [0, -1, 0, -1, 1],
    ]


@pytest.mark.parametrize(
    ("rule", "message", "fix"),
    [
        (
            "9, 9, 1, 9, spread=1",
            "spread=1 on 8 machines leaves at most 8 bundles at once, fewer than the least "
            "height 9",
            "write min=8 or less, or a larger spread",
        ),
        (
            "3, 9, 1, 9, spread=1, by=rack",
            "spread=1 in 2 values of rack leaves at most 2 bundles at once, fewer than the least "
            "height 3",
            "write min=2 or less, or a larger spread",
        ),
        (
            "1, 9, 1, 9, multiple=4, spread=1, by=rack",
            "spread=1 in 2 values of rack leaves at most 2 bundles at once, fewer than the least "
            "height 4",
            "write a larger spread",
        ),
        (
            '1, 9, 1, 9, on="ssd", spread=1, by=rack',
            "spread=1 in 0 values of rack with the label 'ssd' leaves at most 0 bundles at once, "
            "fewer than the least height 1",
            "give their group a rack, or write spread without by",
        ),
        ("1, 9, 1, 9, spread=1, by=rak", "no machine group names a 'rak'", "did you mean 'rack'?"),
        (
            "2, 3, 1, 3, spread=1, by=rack",
            "spread=1 in 2 values of rack leaves at most 2 bundles at once, and so few cannot hold "
            "its work",
            "write work=2 or 4",
        ),
        (
            "13, 99, 1, 99, within=rack",
            "within=rack leaves at most 12 bundles at once, in r1, fewer than the least height 13",
            "write min=12 or less, or omit within=rack",
        ),
        (
            "5, 9, 1, 9, spread=2, by=rack, within=zone",
            "within=zone with spread=2, by=rack leaves at most 4 bundles at once, in z, fewer than "
            "the least height 5",
            "write min=4 or less, or omit within=zone",
        ),
        (
            '1, 9, 1, 9, on="ssd", within=rack',
            "within=rack with the label 'ssd' leaves at most 0 bundles at once, fewer than the "
            "least height 1",
            "give their group a rack, or omit within=rack",
        ),
        (
            "25, 99, 1, 99, within=rack, values=2",
            "within=rack, values=2 leaves at most 24 bundles at once, in r1 and r2, fewer than the "
            "least height 25",
            "write min=24 or less, or omit within=rack",
        ),
        ("1, 9, 1, 9, within=rak", "no machine group names a 'rak'", "did you mean 'rack'?"),
    ],
)
def test_what_machines_cannot_hold_spread_so(rule: str, message: str, fix: str) -> None:
    """Unsatisfiable, with the place, the numbers and what would be right."""
    text = f"all(atom(<1 cpu>, 1, 1, 1, 1), atom(<1 cpu>, {rule}))"

    with pytest.raises(RdlError) as caught:
        compiled(text)

    (problem,) = caught.value.problems
    assert (problem.code, problem.message, problem.fix) == (UNSATISFIABLE, message, fix)
    assert problem.span is not None
    assert text[slice(*problem.span)] == f"atom(<1 cpu>, {rule})"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            "atom(<1 cpu>, 13, 13, 1, 13), atom(<1 cpu>, 1, 1, 1, 1)",
            "within=rack leaves at most 12 bundles at once, in r1, fewer than the least height 13",
        ),
        (
            "atom(<1 cpu>, 8, 8, 1, 8), atom(<1 cpu>, 5, 5, 1, 5)",
            "its atoms take 13 cpu in one rack; r1 has 12 cpu, r2 has 12 cpu",
        ),
        (
            'atom(<1 cpu>, 8, 8, 1, 8), atom(<1 cpu>, 1, 1, 1, 1, on="ssd")',
            "within=rack with the label 'ssd' leaves at most 0 bundles at once, fewer than the "
            "least height 1",
        ),
        (
            "atom(<1 cpu>, 20, 20, 1, 20), atom(<1 cpu>, 5, 5, 1, 5), values=2",
            "its atoms take 25 cpu in at most 2 values of rack; r1 and r2 have 24 cpu",
        ),
    ],
)
def test_what_no_rack_holds_together_is_refused(members: str, message: str) -> None:
    """The rack that has most is named, and the one that has least of those that hold each."""
    with pytest.raises(RdlError) as caught:
        compiled(f"together({members}, within=rack)")
    (problem,) = caught.value.problems
    assert (problem.code, problem.message) == (UNSATISFIABLE, message)


def test_an_option_that_cannot_be_spread_leaves_the_others() -> None:
    """The option is left out, as any other that no plan can hold, and a note says so."""
    graph = compiled("any(atom(<1 cpu>, 9, 9, 1, 9, spread=1), atom(<1 cpu>, 1, 9, 1, 9))")

    assert any("0: left out, spread=1 on 8 machines" in note for note in graph.notes)


def test_unknown_machines_limit_nothing() -> None:
    """Without a cluster a spread is read and kept, and every height stays."""
    text = "atom(<1 cpu>, 9, 9, 1, 9, spread=1, by=anything)"
    graph = compile_source(text, replace(CONTEXT, machines=()))

    assert graph.vertices[0, [MAX_HEIGHT, SPREAD]].tolist() == [9, 1]
    assert graph.domains == ("anything",)


@pytest.mark.parametrize(
    ("atom", "message"),
    [
        (Atom(FOUR_CPUS, 1, 1, 1000, 1000, spread=-1), "spread must be from 1 to"),
        (Atom(FOUR_CPUS, 1, 1, 1000, 1000, spread=2**31), "spread must be from 1 to"),
        (Atom(FOUR_CPUS, 1, 1, 1000, 1000, domain="rack"), "there is no spread"),
    ],
)
def test_atoms_of_programs_are_held_to_the_rules(atom: Atom, message: str) -> None:
    """What a text could not say is malformed when a program builds it."""
    with pytest.raises(RdlError, match=message):
        compile_expression(atom, CONTEXT)
