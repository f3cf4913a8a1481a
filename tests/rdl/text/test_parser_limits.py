"""Sources with many mistakes, beyond a limit, or made to hurt."""

from __future__ import annotations

import tracemalloc

import pytest

from rdl.errors import RdlError
from rdl.limits import SourceLimits
from rdl.text.parser import parse
from tests.examples import some_of
from tests.patience import calls_made
from tests.rdl.text.messages import message_of

A = "atom(<1 cpu>, 1, 2, 3, 4)"


def test_all_mistakes_of_a_nested_request_come_at_once() -> None:
    """An unknown operator is read as the nearest one, so that mistakes inside it are found too."""
    source = "windw(any(atom(<1 cpu>, 1, x, 3, 4), order(all(), gpa=3)), 0, 5y)"

    assert [line for line in message_of(source).splitlines() if line.startswith("line")] == [
        "line 1, column 1: unknown operator 'windw'; did you mean 'window'?",
        "line 1, column 28: max is a whole number, not 'x'",
        "line 1, column 51: order has no argument 'gpa'; did you mean 'gap'?",
        "line 1, column 63: unknown unit 'y' in '5y'; write s, m, h, d or w",
    ]


@pytest.mark.parametrize(
    ("source", "limits", "message"),
    [
        (
            "all(all(all()))",
            SourceLimits(max_depth=2),
            "line 1, column 12: operators are nested more than 2 deep",
        ),
        ("all()", SourceLimits(max_source=4), "the text has 5 characters; write at most 4"),
        (
            f"all({A}, all(), void(<1 cpu>, 1))",
            SourceLimits(max_atoms=2),
            "line 1, column 39: the request has more than 2 atoms",
        ),
        (
            "any(all(), all(), all())",
            SourceLimits(max_options=2),
            "line 1, column 24: one any has more than 2 options",
        ),
        (
            "graph(a: all(), b: all(); a -> b, a -> b)",
            SourceLimits(max_edges=1),
            "line 1, column 41: the request has more than 1 arrows",
        ),
    ],
)
def test_sources_beyond_a_limit_are_refused(
    source: str, limits: SourceLimits, message: str
) -> None:
    """Length, depth, atoms, options and arrows are bounded, each with a message of its own."""
    with pytest.raises(RdlError) as caught:
        parse(source, limits)
    assert str(caught.value).splitlines()[0] == message


@pytest.mark.parametrize(
    "source",
    some_of(
        [
            "all(" * 100_000,
            "graph(a: " * 100_000,
            "(" * 900_000,
            "any(" + "all(), " * 140_000 + ")",
            "void(<" + "1 cpu, " * 140_000 + ">, 1)",
            "void(<" + "1 cpu # (\n" * 90_000,
            f"void(<{'9' * 900_000} cpu>, 1)",
            f"every({'9' * 900_000}, all())",
            f"every({'1h' * 450_000}, all())",
            f"{'a' * 900_000}()",
            f'every(1h, all(), zone="{"a" * 900_000}")',
            f'atom(<1 cpu>, 1, 1, 1, 1, on="{"a" * 900_000}")',
            "any(all(), prefer=[" + "1," * 450_000 + "1])",
            "graph(a: all(); " + "a->c," * 180_000 + "a->c)",
            "#" * 900_000,
            " " * 900_000,
            '"' * 900_000,
            "<" * 900_000,
            "a = <1 cpu>; " * 70_000,
            ")" * 900_000,
            "x" * 10_000_000,
            # They take a second each.
            "all(all()" + ", all()" * 140_000 + ")",
            f"all({', '.join([A] * 30_000)})",
            "graph(a: all(), b: all(); " + "a->b," * 180_000 + "a->b)",
        ],
        21,
    ),
    ids=lambda source: f"{source[:12]!r}",
)
def test_hostile_sources_are_refused_in_one_pass(source: str) -> None:
    """Whatever is too deep, too long or too much gets a short error, soon and in little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(RdlError) as caught:
            parse(source)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    def again() -> None:
        with pytest.raises(RdlError):
            parse(source)

    assert calls_made(again) < 4 * len(source)
    assert peak < 64 * 2**20
    assert len(str(caught.value)) < 10_000
