"""Requests that hold each lease longer, by what work of their size waits for its start.

Rayon 5.2 enlarges a reservation by the delay that its scheduler has. Here this is done where the
cluster's policy says so (`allow_start`); the answer says in its notes what was added.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dispatch.entitlements.start_delay import StartDelayTable, enlarge
from rdl.expressions import Atom, Expression, children_of
from rdl.time_grid import duration_text
from service.dispatching.records.delay_record import read_delays
from service.runtime import Runtime


class StartAllowance(NamedTuple):
    """What is to be planned for a request that may be longer by its start delay.

    Attributes
    ----------
    expression
        As submitted, or longer.
    notes
        What it is longer by.
    allow_start
        Whether the policy allows for a start delay at all.
    """

    expression: Expression
    notes: tuple[str, ...]
    allow_start: bool


def with_allowance(runtime: Runtime, asked: Expression) -> StartAllowance:
    """Return what is to be planned for a request, and notes of what it is longer by.

    Parameters
    ----------
    asked
        As submitted; it stays as it is where the policy allows for no start delay.
    """
    if not runtime.allows_start():
        return StartAllowance(asked, (), allow_start=False)
    table = read_delays(runtime.dispatcher.store)
    longer = enlarge(asked, table)
    notes = () if longer == asked else tuple(dict.fromkeys(_notes(asked, table)))
    return StartAllowance(longer, notes, allow_start=True)


def _notes(expression: Expression, table: StartDelayTable) -> Iterator[str]:
    if isinstance(expression, Atom):
        delay_ms = table.delay_ms(expression.bundle)
        if delay_ms:
            yield (
                f"each lease of <{expression.bundle}> is {duration_text(delay_ms)} longer than "
                "asked for: work of that size starts so late here"
            )
        return
    for child in children_of(expression):
        yield from _notes(child, table)
