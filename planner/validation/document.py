"""A plan document as the validator reads it: plain JSON to typed records, or what is wrong.

Reads the document itself rather than the Plan's own classes, so that a fault in how the Plan
writes its reservations shows. Everything that cannot be read is a violation, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.validation.plain_values import (
    UnreadableError,
    is_int,
    list_in,
    milliseconds,
    object_at,
    steps_and_bundles,
    text_in,
)
from planner.validation.slot_document import (
    PLACED,
    HeldRule,
    HeldSlots,
    read_promise,
    read_rule,
    read_slots,
)
from rdl.errors import RdlError
from rdl.expressions import Expression, Together, atom_at, expression_at
from rdl.oracle.atoms import lease_and_work
from rdl.resources import AmountError, Resources
from rdl.text.parser import parse
from rdl.time_grid import TimeGrid

#: States of a reservation that stands in a plan; a refusal stands apart.
STATES = ("accepted", "active", "completed", "cancelled", "degraded", "failed")

#: The greatest weight that may be requested; beyond it values would not be finite.
_MOST_WEIGHT = 10**9

#: States in which the whole promise is held or was kept, but for what was closed while degraded.
WHOLE = ("accepted", "active", "completed")


@dataclass(frozen=True, slots=True)
class PlanViolation:
    """One rule that a plan breaks.

    Attributes
    ----------
    where
        JSON pointer into the document, or the account that is exceeded: ``pool``, ``label:ssd``,
        ``machine:wide-3``, ``policy:ads-quota``.
    rule
        One word: ``shape id state queue expression path bundle rows oracle capacity fit slots
        machine label lease spread within packing moved policy metrics asked``.
    detail
        One sentence with the numbers.
    reservation
        Its id, where one is to blame.
    at
        The step of the greatest excess, if there is one.
    amount, limit
        What was found there and what is allowed, in millicores, MiB, units, bundles or
        amount-steps.
    """

    where: str
    rule: str
    detail: str
    reservation: str | None = None
    at: int | None = None
    amount: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class HeldAtom:
    """One atom of a reservation and its rows, int64[n, 3], in steps.

    `rows` is what it holds and `released` what it released; the promise is the two together.
    `lease` is in steps. `slots` are None if the document has none.
    """

    path: str
    bundle: Resources
    label: str | None
    rows: NDArray[np.int64]
    released: NDArray[np.int64]
    lease: int
    slots: HeldSlots | None
    rule: HeldRule


@dataclass(frozen=True, slots=True)
class Held:
    """One reservation of a plan document."""

    where: str
    id: str
    tenant: str
    queue: str
    state: str
    submitted_ms: int
    weight: float
    expression: Expression
    choices: dict[str, int]
    atoms: tuple[HeldAtom, ...]
    promise: str
    priority: int = 0
    agent: str = ""
    closed_degraded: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all that was promised is reserved or was kept; not if it was closed degraded."""
        return self.state in WHOLE and not self.closed_degraded


def read_reservation(entry: object, where: str, grid: TimeGrid) -> Held:
    """Return a reservation.

    Raises
    ------
    UnreadableError
        For the first thing that is not as files.md says.
    """
    fields = object_at(entry, where)
    state = text_in(fields, "state", where)
    if state not in STATES:
        raise UnreadableError(f"{where}/state", "state", f"{state!r} is no state of a reservation")
    weight = _checked_weight(fields, where)
    expression = _expression(text_in(fields, "expression", where), f"{where}/expression")
    atoms = [
        _atom(atom, f"{where}/atoms/{i}", expression, grid)
        for i, atom in enumerate(list_in(fields, "atoms", where))
    ]
    _once([atom.path for atom in atoms], f"{where}/atoms")
    promise = read_promise(fields, where)
    if promise == PLACED:
        _rules_as_asked(atoms, f"{where}/atoms", expression)
    return Held(
        where,
        text_in(fields, "id", where),
        text_in(fields, "tenant", where),
        text_in(fields, "queue", where),
        state,
        milliseconds(fields.get("submitted"), f"{where}/submitted"),
        weight,
        expression,
        _choices(fields, where),
        tuple(atoms),
        promise,
        _priority(fields, where),
        _agent(fields, where),
        state == "completed" and "degradation" in fields,
    )


def _rules_as_asked(atoms: Sequence[HeldAtom], where: str, expression: Expression) -> None:
    """Check that machine rules are those of the expression; what is not placed has no need of any.

    Raises
    ------
    UnreadableError
        For the first that is another.
    """
    for i, atom in enumerate(atoms):
        asked = atom_at(expression, atom.path)
        assert asked is not None
        above = expression_at(expression, atom.path.rpartition(".")[0])
        shared = isinstance(above, Together) and len(above.children) > 1 and bool(above.within)
        place = asked.within, shared, asked.values
        wanted = HeldRule(asked.spread, asked.domain, asked.hands_over, *place)
        for name, is_now, right in zip(HeldRule._fields, atom.rule, wanted, strict=True):
            if is_now != right:
                detail = f"{is_now!r} is not the {name} of the expression, {right!r}"
                raise UnreadableError(f"{where}/{i}/{name}", "bundle", detail)


def _atom(entry: object, where: str, expression: Expression, grid: TimeGrid) -> HeldAtom:
    fields = object_at(entry, where)
    path = text_in(fields, "path", where)
    asked = atom_at(expression, path)
    if asked is None:
        raise UnreadableError(f"{where}/path", "path", f"{path!r} is no atom of the expression")
    try:
        bundle = Resources.from_json(fields.get("bundle"))
    except AmountError as error:
        raise UnreadableError(f"{where}/bundle", "bundle", str(error)) from error
    if bundle != asked.bundle:
        detail = f"<{bundle}> is not the <{asked.bundle}> of the expression"
        raise UnreadableError(f"{where}/bundle", "bundle", detail)
    if fields.get("on", asked.on) != asked.on:
        detail = f"{fields['on']!r} is not the label of the expression, {asked.on!r}"
        raise UnreadableError(f"{where}/on", "bundle", detail)
    return HeldAtom(
        path,
        bundle,
        asked.on,
        read_rows(fields.get("allocation"), f"{where}/allocation", grid),
        read_rows(fields.get("released", []), f"{where}/released", grid),
        lease_and_work(asked, grid.step_ms)[0],
        read_slots(fields, where, grid),
        read_rule(fields, where),
    )


def read_rows(value: object, where: str, grid: TimeGrid) -> NDArray[np.int64]:
    """Return rows in steps: half-open, sorted, merged, inside the horizon."""
    if not isinstance(value, list):
        raise UnreadableError(where, "rows", "rows are a list of [start_s, end_s, bundles]")
    rows = [_row(row, f"{where}/{i}", grid) for i, row in enumerate(value)]
    for i, (before, after) in enumerate(pairwise(rows), start=1):
        if after[0] < before[1]:
            detail = f"starts at step {after[0]}, before the end of the row before, {before[1]}"
            raise UnreadableError(f"{where}/{i}", "rows", detail)
        if after[0] == before[1] and after[2] == before[2]:
            raise UnreadableError(f"{where}/{i}", "rows", "is not merged with the row before")
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _row(value: object, where: str, grid: TimeGrid) -> tuple[int, int, int]:
    if not isinstance(value, list) or len(value) != 3:
        raise UnreadableError(where, "rows", f"{value!r} is not [start_s, end_s, bundles]")
    return steps_and_bundles(value, where, "rows", grid)


def _expression(text: str, where: str) -> Expression:
    try:
        return parse(text)
    except RdlError as error:
        raise UnreadableError(where, "expression", str(error)) from error


def _checked_weight(fields: Mapping[str, object], where: str) -> float:
    """Return the weight; the revision is checked alongside it."""
    weight, revision = fields.get("weight"), fields.get("revision")
    known = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not known or not 0 <= float(str(weight)) <= _MOST_WEIGHT:
        detail = f"a weight is 0 to {_MOST_WEIGHT:,}, not {weight!r}"
        raise UnreadableError(f"{where}/weight", "shape", detail)
    if not is_int(revision) or revision < 1:
        detail = f"a revision is 1 or more, not {revision!r}"
        raise UnreadableError(f"{where}/revision", "shape", detail)
    return float(str(weight))


def _priority(fields: Mapping[str, object], where: str) -> int:
    priority = fields.get("priority", 0)
    if not is_int(priority):
        raise UnreadableError(f"{where}/priority", "shape", f"{priority!r} is no whole number")
    return priority


def _agent(fields: Mapping[str, object], where: str) -> str:
    agent = fields.get("agent", "")
    if not isinstance(agent, str):
        raise UnreadableError(f"{where}/agent", "shape", f"{agent!r} is no name of an agent")
    return agent


def _choices(fields: Mapping[str, object], where: str) -> dict[str, int]:
    choices = object_at(fields.get("choices"), f"{where}/choices")
    found: dict[str, int] = {}
    for path, option in choices.items():
        if not is_int(option) or option < 0:
            raise UnreadableError(f"{where}/choices", "shape", f"{option!r} is no option")
        found[path] = option
    return found


def _once(paths: Sequence[str], where: str) -> None:
    seen: set[str] = set()
    for i, path in enumerate(paths):
        if path in seen:
            raise UnreadableError(f"{where}/{i}/path", "path", f"{path!r} is given twice")
        seen.add(path)
