"""Formatter: canonical text that reads back exactly."""

from __future__ import annotations

import pytest
from hypothesis import given

from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
    Expression,
    Graph,
    Offset,
    Order,
    Window,
    children_of,
)
from rdl.resources import Resources
from rdl.text.formatter import format_expression, format_pretty, most_characters
from rdl.text.parser import parse
from tests.strategies import expressions

ONE_CPU = Resources.of({"cpu": 1000})
ATOM = Atom(ONE_CPU, 1, 10, 240_000, 2_400_000)


@given(expressions())
def test_text_reads_back_as_the_same_expression(expression: Expression) -> None:
    """parse(format(e)) == e, on one line and indented."""
    assert parse(format_expression(expression)) == expression
    assert parse(format_pretty(expression)) == expression


@given(expressions())
def test_formatting_what_was_formatted_changes_nothing(expression: Expression) -> None:
    """format(parse(format(e))) == format(e), so a stored text is a fixed point."""
    text = format_expression(expression)
    pretty = format_pretty(expression)

    assert format_expression(parse(text)) == text
    assert format_pretty(parse(pretty)) == pretty


@given(expressions())
def test_no_text_is_longer_than_its_parts_may_be(expression: Expression) -> None:
    """What is said to be short enough without being written is."""
    pending, most = [expression], 0
    while pending:
        here = pending.pop()
        most += most_characters(here)
        pending += children_of(here)
    assert len(format_expression(expression)) <= most


@pytest.mark.parametrize(
    ("text", "length"),
    [(f"any(all(), prefer=[0.{'0' * 322}1])", 346), ("void(<999999999 cpu>, 999)", 26)],
)
def test_extremes_are_no_longer_than_said(text: str, length: int) -> None:
    """The least worth of an option, and large amounts."""
    parts = [parse(text), *children_of(parse(text))]
    assert len(format_expression(parse(text))) == length <= sum(map(most_characters, parts))


def test_the_example_of_the_plan_file_is_written_as_there() -> None:
    """Seconds without units, a blank after each comma, bundles written out."""
    second = Atom(ONE_CPU, 1, 20, 120_000, 2_400_000)
    expression = Window(Offset(0), Offset(800_000), Order((ATOM, second)))

    assert format_expression(expression) == (
        "window(order(atom(<1 cpu>, 1, 10, 240, 2400), atom(<1 cpu>, 1, 20, 120, 2400)), 0, 800)"
    )


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (
            "atom(<1 core, 2GB RAM>, 1, 1, 90s, 1.5)",
            "atom(<1 cpu, 1908 MiB memory>, 1, 1, 90, 1.5)",
        ),
        (
            'b = <500m cpu>; atom(b, work=1h, lease=1m, max=4, min=2, multiple=2, on="ssd")',
            'atom(<500m cpu>, 2, 4, 60, 3600, multiple=2, on="ssd")',
        ),
        (
            'atom(<1 cpu>, 1, 4, 60, 3600, by="rack", spread=2, handover=no)',
            "atom(<1 cpu>, 1, 4, 60, 3600, spread=2, by=rack, handover=no)",
        ),
        (
            "all(atom(<1 cpu>, 1, 4, 1, 4, handover=yes), atom(<1 cpu>, 4, 4, 1, 4, handover=no),"
            ' atom(<1 cpu>, 4, 4, 1, 4, spread=1, by="a rack", handover=yes))',
            "all(atom(<1 cpu>, 1, 4, 1, 4), atom(<1 cpu>, 4, 4, 1, 4),"
            ' atom(<1 cpu>, 4, 4, 1, 4, spread=1, by="a rack", handover=yes))',
        ),
        (
            "all(atom(<1 cpu>, 1, 4, 1, 4, credit=yes), atom(<1 cpu>, 1, 4, 1, 4, credit=no),"
            " atom(<1 cpu>, 4, 4, 1, 8, credit=yes), atom(<1 cpu>, 4, 4, 1, 8, credit=no))",
            "all(atom(<1 cpu>, 1, 4, 1, 4), atom(<1 cpu>, 1, 4, 1, 4, credit=no),"
            " atom(<1 cpu>, 4, 4, 1, 8, credit=yes), atom(<1 cpu>, 4, 4, 1, 8))",
        ),
        ("all()", "all()"),
        ("any(all(), all(), prefer=[1.0, 0.00001])", "any(all(), all(), prefer=[1, 0.00001])"),
        ("order(all(), all(), gap=0s..0s)", "order(all(), all(), gap=0..0)"),
        (
            'graph(a: all(), "b 1": all(); a -> "b 1" gap=5m..1h, "a"->"b 1")',
            'graph(a: all(), "b 1": all(); a -> "b 1" gap=300..3600, a -> "b 1")',
        ),
        ("graph(a: all();)", "graph(a: all())"),
        (
            "window(all(), end=2026-01-05T09:00:00.250+01:00, start=+2h)",
            "window(all(), +7200, 2026-01-05T08:00:00.250Z)",
        ),
        (
            'every(24h, all(), times=7, anchor=8h, zone="Europe/Paris", same_offset=false)',
            'every(86400, all(), times=7, anchor=28800, zone="Europe/Paris", same_offset=false)',
        ),
        ("every(1d, all(), until=1w, same_offset=true)", "every(86400, all(), until=604800)"),
        ("void(<1 gpu>, 3)", "void(<1 gpu>, 3)"),
    ],
)
def test_every_operator_has_one_canonical_form(written: str, canonical: str) -> None:
    """However it was written, an expression is stored in one way."""
    assert format_expression(parse(written)) == canonical


def test_long_expressions_are_indented_for_people() -> None:
    """One child a line where a line would be too long, durations with units, the rest flat."""
    graph = Graph(("fetch", "train"), (ATOM, AnyOf((ATOM, AllOf((ATOM, ATOM))), (1.0, 0.5))), ())
    expression = Window(Offset(0), Offset(7_200_000), graph)

    assert format_pretty(expression) == (
        "window(\n"
        "  graph(\n"
        "    fetch: atom(<1 cpu>, 1, 10, 4m, 40m),\n"
        "    train: any(\n"
        "      atom(<1 cpu>, 1, 10, 4m, 40m),\n"
        "      all(atom(<1 cpu>, 1, 10, 4m, 40m), atom(<1 cpu>, 1, 10, 4m, 40m)),\n"
        "      prefer=[1, 0.5]\n"
        "    )\n"
        "  ),\n"
        "  0s, 2h\n"
        ")"
    )
