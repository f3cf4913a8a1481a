# ruff: noqa: E501 - messages are compared whole, on lines of their own length
"""Parser: what each rule reads, and every message whole, with its carets."""

from __future__ import annotations

import re
import textwrap
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rdl.errors import RdlError
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
from rdl.limits import SourceLimits
from rdl.operators import ARGUMENTS
from rdl.parser import parse
from rdl.resources import Resources
from rdl.source import read_source
from tests.patience import is_quick

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


def _message(source: str) -> str:
    with pytest.raises(RdlError) as caught:
        parse(source)
    assert caught.value.code == "malformed"
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "",
            """
            line 1, column 1: expected an expression, not the end of the text; write such as atom(...)
                
                ^
            """,  # noqa: W293 - the empty line of the source is shown
        ),
        (
            "atm(<1 cpu>, 1, 2, 3, 4)",
            """
            line 1, column 1: unknown operator 'atm'; did you mean 'atom'?
                atm(<1 cpu>, 1, 2, 3, 4)
                ^^^
            """,
        ),
        (
            "spark(1)",
            """
            line 1, column 1: unknown operator 'spark'; write one of atom, any, all, order, graph, window, every, void
                spark(1)
                ^^^^^
            """,
        ),
        (
            "all",
            """
            line 1, column 4: expected '(' before the end of the text; write all(e1, e2)
                all
                   ^
            """,
        ),
        (
            "all(\n  all(\n",
            """
            line 2, column 6: '(' is never closed; write ')' at its end
                  all(
                     ^
            """,
        ),
        (
            f"{A} {A}",
            """
            line 1, column 27: unexpected 'atom' after the expression; a request is one expression; join several with all(...) or order(...)
                atom(<1 cpu>, 1, 2, 3, 4) atom(<1 cpu>, 1, 2, 3, 4)
                                          ^^^^
            """,
        ),
        (
            "order(all() all())",
            """
            line 1, column 13: expected ',' or ')' before 'all'
                order(all() all())
                            ^^^
            """,
        ),
        (
            "atom(<1 cpu>, 1, 2, 5 min, 4)",
            """
            line 1, column 23: expected ',' or ')' before 'min'; a unit stands right behind its number, such as 5m
                atom(<1 cpu>, 1, 2, 5 min, 4)
                                      ^^^
            """,
        ),
        (
            "every(24h)",
            """
            line 1, column 1: every needs of (an expression); write every(period, e)
                every(24h)
                ^^^^^^^^^^
            """,
        ),
        (
            "all(all(),)",
            """
            line 1, column 11: expected an argument before ')'; drop the ','
                all(all(),)
                          ^
            """,
        ),
        (
            "all(1)",
            """
            line 1, column 5: expected an expression, not '1'; write such as atom(...)
                all(1)
                    ^
            """,
        ),
        (
            "atom(<1 cpu>, 1, 2)",
            """
            line 1, column 1: atom needs lease and work; write atom(bundle, min, max, lease, work)
                atom(<1 cpu>, 1, 2)
                ^^^^^^^^^^^^^^^^^^^
            """,
        ),
        (
            "atom(<1 cpu>, 1, 2, 3, 4, 5)",
            """
            line 1, column 27: atom takes 5 arguments without a name; name the others: multiple= on=
                atom(<1 cpu>, 1, 2, 3, 4, 5)
                                          ^
            """,
        ),
        (
            "atom(<1 cpu>, 1, 2, work=4, 3)",
            """
            line 1, column 1: atom needs lease; write atom(bundle, min, max, lease, work)
                atom(<1 cpu>, 1, 2, work=4, 3)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            line 1, column 29: an argument without a name follows one with a name; name it too
                atom(<1 cpu>, 1, 2, work=4, 3)
                                            ^
            """,
        ),
        (
            "atom(<1 cpu>, 1, 2, leese=3, work=4)",
            """
            line 1, column 21: atom has no argument 'leese'; did you mean 'lease'?
                atom(<1 cpu>, 1, 2, leese=3, work=4)
                                    ^^^^^
            """,
        ),
        (
            "atom(<1 cpu>, 1, 2, 3, 4, min=1)",
            """
            line 1, column 27: min is given twice; keep the one that is meant
                atom(<1 cpu>, 1, 2, 3, 4, min=1)
                                          ^^^
            """,
        ),
        (
            "all(gap=3)",
            """
            line 1, column 5: all has no argument 'gap'; it takes expressions only
                all(gap=3)
                    ^^^
            """,
        ),
        (
            "atom(<1 cpu>, 0, 2.5, 3min, 1h30)",
            """
            line 1, column 15: min: a count is at least 1; write a whole number from 1
                atom(<1 cpu>, 0, 2.5, 3min, 1h30)
                              ^
            line 1, column 18: max is a whole number, not '2.5'
                atom(<1 cpu>, 0, 2.5, 3min, 1h30)
                                 ^^^
            line 1, column 23: unknown unit 'min' in '3min'; write s, m, h, d or w
                atom(<1 cpu>, 0, 2.5, 3min, 1h30)
                                      ^^^^
            line 1, column 29: the last number of '1h30' has no unit; write s, m, h, d or w
                atom(<1 cpu>, 0, 2.5, 3min, 1h30)
                                            ^^^^
            """,
        ),
        (
            "atom(<1 cpu>, 1, 2, 0.0001, all())",
            """
            line 1, column 21: '0.0001' is not a whole number of milliseconds; write at most three decimals of a second
                atom(<1 cpu>, 1, 2, 0.0001, all())
                                    ^^^^^^
            line 1, column 29: work is bundle-time, not 'all'; write such as 2400 or 40m
                atom(<1 cpu>, 1, 2, 0.0001, all())
                                            ^^^
            """,
        ),
        (
            "atom(b, 1, 2, 3, 4)",
            """
            line 1, column 6: no bundle is named 'b'; write such as <1 cpu>
                atom(b, 1, 2, 3, 4)
                     ^
            """,
        ),
        (
            "big = <9 cpu>; all(big, atom(bog, 1, 2, 3, 4))",
            """
            line 1, column 20: 'big' is a bundle, not an expression; write atom(big, ...)
                big = <9 cpu>; all(big, atom(bog, 1, 2, 3, 4))
                                   ^^^
            line 1, column 30: no bundle is named 'bog'; did you mean 'big'?
                big = <9 cpu>; all(big, atom(bog, 1, 2, 3, 4))
                                             ^^^
            """,
        ),
        (
            "b = <1 cpu>; b = <2 cpu>; all()",
            """
            line 1, column 14: bundle 'b' is defined twice; rename one
                b = <1 cpu>; b = <2 cpu>; all()
                             ^
            """,
        ),
        (
            "b = <1 cpu> void(b, 0)",
            """
            line 1, column 13: expected ';' before 'void'; end a definition with ';'
                b = <1 cpu> void(b, 0)
                            ^^^^
            """,
        ),
        (
            "b = 3; void(b, 0)",
            """
            line 1, column 5: b is a bundle, not '3'; write such as <1 cpu>
                b = 3; void(b, 0)
                    ^
            line 1, column 16: max: a count is at least 1; write a whole number from 1
                b = 3; void(b, 0)
                               ^
            """,
        ),
        (
            "void(<2 GiB, 1 GiB cpu, 3, , 1 cpu, 2 core>, 1)",
            """
            line 1, column 7: '2 GiB' names no resource; write 2 GiB memory
                void(<2 GiB, 1 GiB cpu, 3, , 1 cpu, 2 core>, 1)
                      ^^^^^
            line 1, column 14: unknown unit 'GiB' for cpu; write cores (2, 0.5) or 500m
                void(<2 GiB, 1 GiB cpu, 3, , 1 cpu, 2 core>, 1)
                             ^^^^^^^^^
            line 1, column 25: '3' is not an amount of a resource; write such as 1 cpu or 2 GiB memory
                void(<2 GiB, 1 GiB cpu, 3, , 1 cpu, 2 core>, 1)
                                        ^
            line 1, column 28: an amount is missing; write such as 1 cpu or 2 GiB memory
                void(<2 GiB, 1 GiB cpu, 3, , 1 cpu, 2 core>, 1)
                                           ^
            line 1, column 37: cpu is given twice in one bundle; add the amounts up
                void(<2 GiB, 1 GiB cpu, 3, , 1 cpu, 2 core>, 1)
                                                    ^^^^^^
            """,
        ),
        (
            "void(<0 cpu>, 1)",
            """
            line 1, column 6: the bundle is empty; write at least one resource: <1 cpu>
                void(<0 cpu>, 1)
                     ^^^^^^^
            """,
        ),
        (
            "all(atom(<1 cpu, 1, 2, 3, 4), any(1))",
            """
            line 1, column 10: '<' is not closed by '>'; write such as <2 GiB memory, 1 cpu>
                all(atom(<1 cpu, 1, 2, 3, 4), any(1))
                         ^
            line 1, column 35: expected an expression, not '1'; write such as atom(...)
                all(atom(<1 cpu, 1, 2, 3, 4), any(1))
                                                  ^
            """,
        ),
        (
            "window(all(), -5, 2026-13-05T00:00:00Z)",
            """
            line 1, column 15: start is a time, not '-'; write such as 90, 2h, +2h or 2026-01-05T09:00:00Z
                window(all(), -5, 2026-13-05T00:00:00Z)
                              ^
            line 1, column 19: '2026-13-05T00:00:00Z' does not exist in the calendar; write an instant such as 2026-01-05T09:00:00Z or 2026-01-05T09:00:00+01:00
                window(all(), -5, 2026-13-05T00:00:00Z)
                                  ^^^^^^^^^^^^^^^^^^^^
            """,
        ),
        (
            'every(0, all(), zone="Europe/Pari", same_offset=no)',
            """
            line 1, column 22: unknown time zone 'Europe/Pari'; did you mean 'Europe/Paris'?
                every(0, all(), zone="Europe/Pari", same_offset=no)
                                     ^^^^^^^^^^^^^
            line 1, column 49: same_offset is true or false, not 'no'
                every(0, all(), zone="Europe/Pari", same_offset=no)
                                                                ^^
            """,
        ),
        (
            "every(0, all())",
            """
            line 1, column 7: a period of zero; write a duration such as 24h
                every(0, all())
                      ^
            """,
        ),
        (
            "every(1h, all(), times=3, until=4h)",
            """
            line 1, column 33: every has both times and until; keep the one that is meant
                every(1h, all(), times=3, until=4h)
                                                ^^
            """,
        ),
        (
            "any(all(), all(), prefer=[1])",
            """
            line 1, column 26: prefer has 1 values for 2 options; write one in (0, 1] for each option
                any(all(), all(), prefer=[1])
                                         ^
            """,
        ),
        (
            "any(all(), prefer=[0])",
            """
            line 1, column 20: the worth of an option is above 0 and at most 1; write 0.5
                any(all(), prefer=[0])
                                   ^
            """,
        ),
        (
            "order(all(), all(), gap=1h..5m)",
            """
            line 1, column 25: the longest gap is shorter than the shortest; write 5m..1h
                order(all(), all(), gap=1h..5m)
                                        ^^^^^^
            """,
        ),
        (
            "atom(<1 cpu>, 1, 2, 3, 4, on=ssd)",
            """
            line 1, column 30: on is a text in double quotes, not 'ssd'; write on="ssd"
                atom(<1 cpu>, 1, 2, 3, 4, on=ssd)
                                             ^^^
            """,
        ),
        (
            'atom(<1 cpu>, 1, 2, 3, 4, on="")',
            """
            line 1, column 30: '' is not a label; write 1 to 200 printable characters
                atom(<1 cpu>, 1, 2, 3, 4, on="")
                                             ^^
            """,
        ),
        (
            "graph(fetch: all(), fetch: all(), all(); fetch -> fech, fetch gap=1, fetch -> fetch gpa=1)",
            """
            line 1, column 21: the name 'fetch' is used twice; rename one
                graph(fetch: all(), fetch: all(), all(); fetch -> fech, fetch gap=1, fetch -> fetch gpa=1)
                                    ^^^^^
            line 1, column 38: expected ':' before '('; write graph(a: e1, b: e2; a -> b)
                graph(fetch: all(), fetch: all(), all(); fetch -> fech, fetch gap=1, fetch -> fetch gpa=1)
                                                     ^
            line 1, column 51: no expression of the graph is named 'fech'; did you mean 'fetch'?
                graph(fetch: all(), fetch: all(), all(); fetch -> fech, fetch gap=1, fetch -> fetch gpa=1)
                                                                  ^^^^
            line 1, column 63: expected '->' before 'gap'; write a -> b
                graph(fetch: all(), fetch: all(), all(); fetch -> fech, fetch gap=1, fetch -> fetch gpa=1)
                                                                              ^^^
            line 1, column 85: an arrow has no argument 'gpa'; did you mean 'gap'?
                graph(fetch: all(), fetch: all(), all(); fetch -> fech, fetch gap=1, fetch -> fetch gpa=1)
                                                                                                    ^^^
            """,
        ),
    ],
)
def test_messages_say_where_and_what_would_be_right(source: str, expected: str) -> None:
    """Whole messages: each mistake once, in source order, with a caret under it and a fix."""
    assert _message(source) == textwrap.dedent(expected)[1:-1].replace("\n\n", "\n    \n")


def test_all_mistakes_of_a_nested_request_come_at_once() -> None:
    """An unknown operator is read as the nearest one, so that mistakes inside it are found too."""
    source = "windw(any(atom(<1 cpu>, 1, x, 3, 4), order(all(), gpa=3)), 0, 5y)"

    assert [line for line in _message(source).splitlines() if line.startswith("line")] == [
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
    [
        "all(" * 100_000,
        "graph(a: " * 100_000,
        "(" * 900_000,
        "all(all()" + ", all()" * 140_000 + ")",
        "any(" + "all(), " * 140_000 + ")",
        f"all({', '.join([A] * 30_000)})",
        "void(<" + "1 cpu, " * 140_000 + ">, 1)",
        "void(<" + "1 cpu # (\n" * 90_000,
        f"void(<{'9' * 900_000} cpu>, 1)",
        f"every({'9' * 900_000}, all())",
        f"every({'1h' * 450_000}, all())",
        f"{'a' * 900_000}()",
        f'every(1h, all(), zone="{"a" * 900_000}")',
        f'atom(<1 cpu>, 1, 1, 1, 1, on="{"a" * 900_000}")',
        "any(all(), prefer=[" + "1," * 450_000 + "1])",
        "graph(a: all(), b: all(); " + "a->b," * 180_000 + "a->b)",
        "graph(a: all(); " + "a->c," * 180_000 + "a->c)",
        "#" * 900_000,
        " " * 900_000,
        '"' * 900_000,
        "<" * 900_000,
        "a = <1 cpu>; " * 70_000,
        ")" * 900_000,
        "x" * 10_000_000,
    ],
    ids=lambda source: f"{source[:12]!r}",
)
def test_hostile_sources_are_refused_within_a_second(source: str) -> None:
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

    assert is_quick(again, 1)
    assert peak < 64 * 2**20
    assert len(str(caught.value)) < 10_000


def _blocks(language: str) -> list[str]:
    page = Path(__file__).parents[2] / "docs" / "rdl.md"
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_examples_of_the_guide_are_read() -> None:
    """Every text and JSON example of docs/rdl.md is a request."""
    texts, values = _blocks("rdl"), _blocks("json")

    assert (len(texts), len(values)) == (4, 1)
    for text in (*texts, *values):
        read_source(text)


def test_the_guide_shows_the_arguments_that_are_read() -> None:
    """The table of docs/rdl.md names the arguments of every operator, in their order."""
    page = (Path(__file__).parents[2] / "docs" / "rdl.md").read_text(encoding="utf-8")
    for operator, known in ARGUMENTS.items():
        if operator == "graph":
            continue
        row = re.search(rf"^\| {operator} \| (.*) \|$", page, re.MULTILINE)
        assert row is not None, operator
        shown = [name for name in re.findall(r"\w+", row[1]) if name != "expressions"]
        assert shown == list(known), operator
