"""What the server adds to a request before it is planned; the answer says so in its notes.

- Memory: bundles that name none get their cores' share (`planner.cluster.memory_share`).
- Start delays: Rayon 5.2 enlarges a reservation by the delay of its scheduler. Here each lease
  is longer by what work of its size waits for its start, where the cluster's policy says
  `allow_start`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dispatch.entitlements.start_delay import StartDelayTable, enlarge
from planner.reservations.reservation import Reservation
from rdl.expressions import Expression, atoms_of
from rdl.text.parser import parse
from rdl.time_grid import duration_text
from service.dispatching.records.delay_record import read_delays
from service.runtime import Runtime


class CompletedRequest(NamedTuple):
    """What is planned for a request.

    Attributes
    ----------
    expression
        As submitted, or with what was added.
    notes
        What was added.
    allow_start
        Whether the policy allowed for start delays; None where they do not matter.
    """

    expression: Expression
    notes: tuple[str, ...] = ()
    allow_start: bool | None = None


def complete_request(runtime: Runtime, asked: Expression) -> CompletedRequest:
    """Return what is planned for a new request."""
    found = complete_change(runtime, asked)
    if not runtime.allows_start():
        return found._replace(allow_start=False)
    table = read_delays(runtime.dispatcher.store)
    longer = enlarge(found.expression, table)
    notes = tuple(dict.fromkeys(_delay_notes(found.expression, table)))
    return CompletedRequest(longer, (*found.notes, *notes), allow_start=True)


def complete_change(
    runtime: Runtime, asked: Expression, present: Reservation | None = None
) -> CompletedRequest:
    """Return what is planned for a change of a reservation: start delays are not added again.

    Bundles that stay as they were written keep the memory that they have.
    """
    shares = runtime.memory_shares()
    if present is not None and present.written:
        before, with_memory = parse(present.written), parse(present.expression)
        if before != with_memory:
            shares = shares.keeping(before, with_memory)
    completed = shares.complete(asked)
    if completed is asked:
        return CompletedRequest(asked)
    return CompletedRequest(completed, shares.notes(asked))


def _delay_notes(expression: Expression, table: StartDelayTable) -> Iterator[str]:
    for atom in atoms_of(expression):
        delay_ms = table.delay_ms(atom.bundle)
        if delay_ms:
            yield (
                f"each lease of <{atom.bundle}> is {duration_text(delay_ms)} longer than "
                "asked for: work of that size starts so late here"
            )
