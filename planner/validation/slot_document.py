"""What a plan document says of machines: the promise level, slots and the machine rule of an atom.

A document from before slots says nothing of them: its reservations are pooled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.validation.plain_values import UnreadableError, is_int, steps_and_bundles, text_in
from rdl.time_grid import TimeGrid

PLACED, POOLED = "placed", "pooled"

#: Promise levels, the strongest first.
PROMISES = (PLACED, POOLED)


class HeldSlots(NamedTuple):
    """Slots of one atom.

    Attributes
    ----------
    rows
        int64[k, 3]: start step, end step, bundles.
    machines
        Name of the machine of each, or None for a slot without one.
    """

    rows: NDArray[np.int64]
    machines: tuple[str | None, ...]


class HeldRule(NamedTuple):
    """How the bundles of one atom may lie on machines.

    Attributes
    ----------
    spread
        Most bundles on one machine, or in one value of `domain`, at once; 0 = no limit.
    domain
        Such as ``rack``; None = machine.
    handover
        Whether a bundle may continue on another machine after a lease.
    within
        All bundles that are not over in one value of this domain; None = anywhere.
    shared
        Whether all atoms of its `together` are in that value.
    values
        At most so many values instead of one.
    """

    spread: int = 0
    domain: str | None = None
    handover: bool = True
    within: str | None = None
    shared: bool = False
    values: int = 1


def read_promise(fields: Mapping[str, object], where: str) -> str:
    """Return the promise level of a reservation; pooled where none is said."""
    if "promise" not in fields:
        return POOLED
    promise = text_in(fields, "promise", where)
    if promise not in PROMISES:
        detail = f"a promise is {', '.join(PROMISES[:-1])} or {PROMISES[-1]}, not {promise!r}"
        raise UnreadableError(f"{where}/promise", "shape", detail)
    return promise


def read_rule(fields: Mapping[str, object], where: str) -> HeldRule:
    """Return the machine rule of an atom entry."""
    spread, domain = fields.get("spread", 0), fields.get("domain")
    handover, within = fields.get("handover", True), fields.get("within")
    if not is_int(spread) or spread < 0:
        detail = f"a spread is a whole number of bundles, 0 or more, not {spread!r}"
        raise UnreadableError(f"{where}/spread", "shape", detail)
    if domain is not None and (not isinstance(domain, str) or not domain):
        detail = f"a domain is the name of one, or null for machines, not {domain!r}"
        raise UnreadableError(f"{where}/domain", "shape", detail)
    if domain is not None and not spread:
        detail = "a domain says where a spread counts; the spread must be 1 or more"
        raise UnreadableError(f"{where}/domain", "shape", detail)
    if not isinstance(handover, bool):
        detail = f"handover is true or false, not {handover!r}"
        raise UnreadableError(f"{where}/handover", "shape", detail)
    if within is not None and (not isinstance(within, str) or not within):
        detail = f"within is the name of a domain, or null, not {within!r}"
        raise UnreadableError(f"{where}/within", "shape", detail)
    shared = fields.get("shared", False)
    if not isinstance(shared, bool) or (shared and within is None):
        detail = f"shared is true or false, and true only with within, not {shared!r}"
        raise UnreadableError(f"{where}/shared", "shape", detail)
    values = fields.get("values", 1)
    if not is_int(values) or values < 1 or (values > 1 and within is None):
        detail = f"values is a whole number from 1, above 1 only with within, not {values!r}"
        raise UnreadableError(f"{where}/values", "shape", detail)
    return HeldRule(spread, domain, handover, within, shared, values)


def read_slots(fields: Mapping[str, object], where: str, grid: TimeGrid) -> HeldSlots | None:
    """Return the slots of an atom entry, or None if it has none."""
    if "slots" not in fields:
        return None
    value = fields["slots"]
    if not isinstance(value, list):
        detail = "slots are a list of [start_s, end_s, bundles, machine]"
        raise UnreadableError(f"{where}/slots", "slots", detail)
    slots = [_slot(slot, f"{where}/slots/{i}", grid) for i, slot in enumerate(value)]
    rows = np.array([row for row, _ in slots], dtype=np.int64).reshape(-1, 3)
    return HeldSlots(rows, tuple(machine for _, machine in slots))


def _slot(value: object, where: str, grid: TimeGrid) -> tuple[tuple[int, int, int], str | None]:
    if not isinstance(value, list) or len(value) != 4:
        detail = f"{value!r} is not [start_s, end_s, bundles, machine]"
        raise UnreadableError(where, "slots", detail)
    machine = value[3]
    if machine is not None and (not isinstance(machine, str) or not machine):
        detail = f"a machine is its name, such as 'wide-3', or null for none, not {machine!r}"
        raise UnreadableError(where, "slots", detail)
    return steps_and_bundles(value, where, "slots", grid), machine
