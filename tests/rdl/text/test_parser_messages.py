# ruff: noqa: E501 - messages are compared whole, on lines of their own length
"""Messages of the parser, whole: where, what is wrong, and what would be right."""

from __future__ import annotations

import textwrap

import pytest

from tests.rdl.text.messages import message_of

A = "atom(<1 cpu>, 1, 2, 3, 4)"


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
            line 1, column 1: unknown operator 'spark'; write one of atom, any, all, order, graph, together, window, deadline, every, void
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
            line 1, column 27: atom takes 5 arguments without a name; name the others: multiple= on= spread= by= within= values= handover= credit= tasks= each=
                atom(<1 cpu>, 1, 2, 3, 4, 5)
                                          ^
            """,
        ),
        (
            "atom(<1 cpu>, tasks=9)",
            """
            line 1, column 1: atom needs each; write atom(bundle, tasks=100, each=5m)
                atom(<1 cpu>, tasks=9)
                ^^^^^^^^^^^^^^^^^^^^^^
            """,
        ),
        (
            "all(atom(<1 cpu>, 1, 2, 3, 4, by=rack), atom(<1 cpu>, 1, 2, 3, 4, spread=0, by=7))",
            """
            line 1, column 34: by says in what bundles are spread, and there is no spread; write spread=1 too, or leave by out
                all(atom(<1 cpu>, 1, 2, 3, 4, by=rack), atom(<1 cpu>, 1, 2, 3, 4, spread=0, by=7))
                                                 ^^^^
            line 1, column 74: spread: a count is at least 1; write a whole number from 1
                all(atom(<1 cpu>, 1, 2, 3, 4, by=rack), atom(<1 cpu>, 1, 2, 3, 4, spread=0, by=7))
                                                                                         ^
            line 1, column 80: by is the name of a domain, not '7'; write by=rack
                all(atom(<1 cpu>, 1, 2, 3, 4, by=rack), atom(<1 cpu>, 1, 2, 3, 4, spread=0, by=7))
                                                                                               ^
            """,
        ),
        (
            "atom(<1 cpu>, 1, 2, 3, 4, handover=true)",
            """
            line 1, column 36: handover is yes or no, not 'true'
                atom(<1 cpu>, 1, 2, 3, 4, handover=true)
                                                   ^^^^
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
            line 1, column 15: start is a time, not '-'; write such as 90, 2h, +2h, 06:00 or 2026-01-05T09:00:00Z
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
    assert message_of(source) == textwrap.dedent(expected)[1:-1].replace("\n\n", "\n    \n")
