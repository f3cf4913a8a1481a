"""A request moved in time: the same request, later."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.expressions import (
    AfterSubmission,
    Atom,
    Every,
    Expression,
    Moment,
    Offset,
    TimeOfDay,
    Window,
    children_of,
)
from rdl.meaning.shift import shifted, with_margin
from rdl.text.parser import parse
from tests.rdl.oracle.asks import ONE, SECOND, rule
from tests.strategies import expressions

MS = st.integers(0, 10**9)


@given(expression=expressions(), one=MS, other=MS, submitted=MS)
def test_two_moves_are_their_sum(
    expression: Expression, one: int, other: int, submitted: int
) -> None:
    """After the first nothing counts from the submission any more, but in periods."""
    twice = shifted(shifted(expression, one, submitted), other, submitted)
    assert twice == shifted(expression, one + other, submitted)


@given(expression=expressions(), by=MS, submitted=MS)
def test_only_instants_outside_periods_change(
    expression: Expression, by: int, submitted: int
) -> None:
    """What stands outside periods counts from no submission; atoms, names and form stay."""
    moved = shifted(expression, by, submitted)
    pairs = [(expression, moved)]
    while pairs:
        old, new = pairs.pop()
        assert type(old) is type(new)
        if isinstance(old, Atom):
            assert old == new
        if isinstance(old, Window) and isinstance(new, Window):
            assert not isinstance(new.end, AfterSubmission)
            assert isinstance(old.end, TimeOfDay) == isinstance(new.end, TimeOfDay)
        if isinstance(old, Every) and isinstance(new, Every):
            assert old.of == new.of
        else:
            pairs.extend(zip(children_of(old), children_of(new), strict=True))


SECONDS = st.integers(0, 9)
MOMENTS: st.SearchStrategy[Moment] = st.one_of(
    SECONDS.map(lambda s: Offset(s * SECOND)), SECONDS.map(lambda s: AfterSubmission(s * SECOND))
)
BOUNDS = st.tuples(st.none() | MOMENTS, MOMENTS)


@given(bounds=st.lists(BOUNDS, min_size=1, max_size=3), held=SECONDS, by=SECONDS, submitted=SECONDS)
def test_the_oracle_says_of_it_later_what_it_said(
    bounds: list[tuple[Moment | None, Moment]], held: int, by: int, submitted: int
) -> None:
    """What a request may hold, the moved one may hold so much later, and nothing else."""
    request: Expression = ONE
    for start, end in bounds:
        request = Window(start, end, request)
    moved = shifted(request, by * SECOND, submitted * SECOND)
    path = ".".join("0" * len(bounds))
    said = rule(request, {path: [(held, held + 1, 1)]}, submitted=submitted)
    for later in (by, by + 7):  # whenever the moved one is submitted
        if held + by >= later + submitted or later == by:
            assert (
                rule(moved, {path: [(held + by, held + by + 1, 1)]}, submitted=submitted + later)
                == said
            )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("window(ONE, +0, +20m)", "window(ONE, +0, +15m)"),
        ("every(1h, window(ONE, 0, 20m), times=3)", "every(1h, window(ONE, 0, 15m), times=3)"),
        (
            "deadline(order(window(ONE, 0, 9m), ONE), 06:00)",
            "deadline(order(window(ONE, 0, 9m), ONE), 05:55)",
        ),
        ("deadline(ONE, 24:00)", "deadline(ONE, 23:55)"),
        ("deadline(ONE, 00:00)", "deadline(ONE, 23:55)"),
        ("deadline(ONE, 2026-01-05T00:00:00Z)", "deadline(ONE, 2026-01-04T23:55:00Z)"),
        ("all(ONE, deadline(ONE, 1h))", "all(ONE, deadline(ONE, 55m))"),
        ("order(ONE, ONE)", "order(ONE, ONE)"),
    ],
)
def test_a_margin_moves_the_ends_of_the_outermost_windows(before: str, after: str) -> None:
    """On the clock a time of day is moved past midnight; windows inside others stay."""
    one = "atom(<1 cpu>, 1, 1, 1m, 1m)"
    moved = with_margin(parse(before.replace("ONE", one)), 300_000)
    assert moved == parse(after.replace("ONE", one))
