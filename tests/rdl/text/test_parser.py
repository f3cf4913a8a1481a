"""Parser: what each rule reads, and what the language page shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rdl.compile.compiler import compile_source
from rdl.compile.context import CompileContext
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
from rdl.operators import ARGUMENTS
from rdl.resources import Resources
from rdl.text.parser import parse
from rdl.time_grid import TimeGrid

CPU = Resources.of({"cpu": 1000})
ATOM = Atom(CPU, 1, 2, 3000, 4000)
A = "atom(<1 cpu>, 1, 2, 3, 4)"


def test_the_example_of_the_language_page() -> None:
    """A named bundle, positional and named arguments, comments, durations and bare seconds."""
    bundle = Resources.of({"cpu": 1000, "memory": 2048})
    expected = Window(
        Offset(0),
        Offset(800_000),
        Order(
            (
                Atom(bundle, 1, 10, 240_000, 2_400_000),
                Atom(bundle, 1, 20, 120_000, 2_400_000),
                Atom(bundle, 1, 15, 120_000, 1_800_000),
            )
        ),
    )

    assert expected == parse(
        """
        b = <2 GiB memory, 1 cpu>;   # one container
        window(order(atom(b, 1, 10, 240, 2400),
                     atom(b, min=1, max=20, lease=2m, work=40m),
                     atom(b, 1, 15, 120, 1800)), 0, 800)
        """
    )


def test_the_workflow_of_the_paper() -> None:
    """Rayon 3.1, figure 5b: two malleable jobs, then a gang, before a deadline."""
    source = """
        b = <2GB RAM, 1 core>;
        window(order(all(atom(b, 1, 10, 1m, 20m), atom(b, 1, 5, 2m, 30m)),
                     atom(b, 8, 8, 10m, 80m)), 0, 1h)
    """
    expression = parse(source)

    assert isinstance(expression, Window)
    assert isinstance(expression.of, Order)
    both, gang = expression.of.children
    assert isinstance(both, AllOf)
    assert isinstance(gang, Atom)
    assert (gang.minimum, gang.maximum, gang.lease_ms, gang.work_ms) == (8, 8, 600_000, 4_800_000)
    assert dict(gang.bundle) == {"cpu": 1000, "memory": 1908}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (A, ATOM),
        (f"{A};", ATOM),
        ("atom(<1 cpu>, work=4, max=2, lease=3, min=1)", ATOM),
        (
            'atom(<1 cpu>, 2, 4, 0.5s, 1.5, multiple=2, on="ssd")',
            Atom(CPU, 2, 4, 500, 1500, 2, "ssd"),
        ),
        (f"any({A}, {A}, prefer=[1, 0.25])", AnyOf((ATOM, ATOM), (1.0, 0.25))),
        (f"any(prefer=[1], {A})", AnyOf((ATOM,), (1.0,))),
        (f"all({A}, all())", AllOf((ATOM, AllOf(())))),
        (f"order({A}, {A}, gap=5m)", Order((ATOM, ATOM), Gap(300_000))),
        (f"order({A}, gap=0..0)", Order((ATOM,), Gap(0, 0))),
        (
            f'graph(a: {A}, "b 1": {A}; a -> "b 1" gap=5m..1h)',
            Graph(("a", "b 1"), (ATOM, ATOM), (Edge(0, 1, Gap(300_000, 3_600_000)),)),
        ),
        (
            f"graph(a: {A}, b: {A}, c: {A}; a->c,b->c)",
            Graph(("a", "b", "c"), (ATOM,) * 3, (Edge(0, 2), Edge(1, 2))),
        ),
        (f"window({A}, +2h, 1d)", Window(AfterSubmission(7_200_000), Offset(86_400_000), ATOM)),
        (
            f"window(end=2026-01-05T10:00:00.250+01:00, start=+ 90s, of={A})",
            Window(
                AfterSubmission(90_000),
                Absolute(datetime(2026, 1, 5, 9, 0, 0, 250_000, tzinfo=UTC)),
                ATOM,
            ),
        ),
        (f"every(24h, {A})", Every(86_400_000, ATOM)),
        (
            f'every(24h, {A}, times=7, anchor=8h, zone="Europe/Paris", same_offset=false)',
            Every(86_400_000, ATOM, 7, None, Offset(28_800_000), "Europe/Paris", False),
        ),
        (f"every(1w, {A}, until=+4w)", Every(604_800_000, ATOM, until=AfterSubmission(2419200000))),
        ("void(<2 gpu, 500m cpu>, 3)", Void(Resources.of({"gpu": 2, "cpu": 500}), 3)),
        ("void(<2gpu, 1 B memory>, max=3)", Void(Resources.of({"gpu": 2, "memory": 1}), 3)),
    ],
)
def test_every_rule_is_read(source: str, expected: Expression) -> None:
    """Each operator, with each way of writing its arguments."""
    assert parse(source) == expected


def test_expressions_know_where_they_stand() -> None:
    """A span reaches from the operator to its closing bracket."""
    source = f"window( {A} , 0, 9)  "
    expression = parse(source)

    assert isinstance(expression, Window)
    assert expression.span == (0, len(source) - 2)
    assert expression.of.span == (8, 8 + len(A))


def _blocks(language: str) -> list[str]:
    page = Path(__file__).parents[3] / "docs" / "rdl.md"
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_examples_of_the_guide_pass_the_check() -> None:
    """Every text and JSON example of docs/rdl.md can be planned, and no part of it is odd."""
    texts, values = _blocks("rdl"), _blocks("json")
    quarter = TimeGrid(60_000, 90 * 24 * 60, datetime(2026, 1, 5, tzinfo=UTC))

    assert (len(texts), len(values)) == (6, 1)
    for text in (*texts, *values):
        graph = compile_source(text, CompileContext(quarter))
        assert (graph.void, graph.notes) == (False, ())


def test_the_guide_shows_the_arguments_that_are_read() -> None:
    """The table of docs/rdl.md names the arguments of every operator, in their order."""
    page = (Path(__file__).parents[3] / "docs" / "rdl.md").read_text(encoding="utf-8")
    for operator, known in ARGUMENTS.items():
        if operator == "graph":
            continue
        row = re.search(rf"^\| {operator} \| (.*) \|$", page, re.MULTILINE)
        assert row is not None, operator
        shown = [name for name in re.findall(r"\w+", row[1]) if name != "expressions"]
        assert shown == list(known), operator
