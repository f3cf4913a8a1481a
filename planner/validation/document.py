"""A plan document as the validator reads it: plain JSON to typed records, or the errors.

Reads the document itself rather than the Plan's own classes, so that a fault in how the Plan
writes its reservations shows. Everything that cannot be read is a violation, never an exception.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

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

PLACED, POOLED = "placed", "pooled"

#: Promise levels, the strongest first.
PROMISES = (PLACED, POOLED)

#: Bundles in one row and seconds in one time beyond which sums would not be exact; no RDL has more.
_MOST_BUNDLES = 2**31 - 1
_MOST_SECONDS = 10**12


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
        The value found there and the limit, in millicores, MiB, units, bundles or
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

    `rows` is its allocation and `released` the released part; together they are the promise.
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
    fields = _object_at(entry, where)
    state = _text_in(fields, "state", where)
    if state not in STATES:
        raise UnreadableError(f"{where}/state", "state", f"{state!r} is no state of a reservation")
    weight = _checked_weight(fields, where)
    expression = _expression(_text_in(fields, "expression", where), f"{where}/expression")
    atoms = [
        _atom(atom, f"{where}/atoms/{i}", expression, grid)
        for i, atom in enumerate(_list_in(fields, "atoms", where))
    ]
    _once([atom.path for atom in atoms], f"{where}/atoms")
    promise = _read_promise(fields, where)
    if promise == PLACED:
        _rules_as_asked(atoms, f"{where}/atoms", expression)
    return Held(
        where,
        _text_in(fields, "id", where),
        _text_in(fields, "tenant", where),
        _text_in(fields, "queue", where),
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
    """Check that machine rules are those of the expression; pooled reservations need none.

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
    fields = _object_at(entry, where)
    path = _text_in(fields, "path", where)
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
    return _steps_and_bundles(value, where, "rows", grid)


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
    if not _is_int(revision) or revision < 1:
        detail = f"a revision is 1 or more, not {revision!r}"
        raise UnreadableError(f"{where}/revision", "shape", detail)
    return float(str(weight))


def _priority(fields: Mapping[str, object], where: str) -> int:
    priority = fields.get("priority", 0)
    if not _is_int(priority):
        raise UnreadableError(f"{where}/priority", "shape", f"{priority!r} is no whole number")
    return priority


def _agent(fields: Mapping[str, object], where: str) -> str:
    agent = fields.get("agent", "")
    if not isinstance(agent, str):
        raise UnreadableError(f"{where}/agent", "shape", f"{agent!r} is not the name of an agent")
    return agent


def _choices(fields: Mapping[str, object], where: str) -> dict[str, int]:
    choices = _object_at(fields.get("choices"), f"{where}/choices")
    found: dict[str, int] = {}
    for path, option in choices.items():
        if not _is_int(option) or option < 0:
            raise UnreadableError(f"{where}/choices", "shape", f"{option!r} is no option")
        found[path] = option
    return found


def _once(paths: Sequence[str], where: str) -> None:
    seen: set[str] = set()
    for i, path in enumerate(paths):
        if path in seen:
            raise UnreadableError(f"{where}/{i}/path", "path", f"{path!r} is given twice")
        seen.add(path)


# A document of a version without slots has none: its reservations are pooled.


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
        Maximum number of bundles on one machine, or in one value of `domain`, at the same time; 0:
        no limit.
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


def _read_promise(fields: Mapping[str, object], where: str) -> str:
    """Return the promise level of a reservation; pooled where none is said."""
    if "promise" not in fields:
        return POOLED
    promise = _text_in(fields, "promise", where)
    if promise not in PROMISES:
        detail = f"a promise is {', '.join(PROMISES[:-1])} or {PROMISES[-1]}, not {promise!r}"
        raise UnreadableError(f"{where}/promise", "shape", detail)
    return promise


def read_rule(fields: Mapping[str, object], where: str) -> HeldRule:
    """Return the machine rule of an atom entry."""
    spread, domain = fields.get("spread", 0), fields.get("domain")
    handover, within = fields.get("handover", True), fields.get("within")
    if not _is_int(spread) or spread < 0:
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
    if not _is_int(values) or values < 1 or (values > 1 and within is None):
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
    return _steps_and_bundles(value, where, "slots", grid), machine


class UnreadableError(ValueError):
    """Part of a document is unreadable; has the rule and the location, never leaves the package."""

    def __init__(self, where: str, rule: str, detail: str) -> None:
        self.where = where
        self.rule = rule
        super().__init__(detail)


def _steps_and_bundles(
    value: Sequence[object], where: str, rule: str, grid: TimeGrid
) -> tuple[int, int, int]:
    """Return ``[start_s, end_s, bundles, ...]`` in steps of [0, horizon).

    Raises
    ------
    UnreadableError
        If a time is off the grid or outside the horizon, or the bundles are not 1 or more.
    """
    start, end = (milliseconds(value[i], where) for i in (0, 1))
    bundles = value[2]
    if not _is_int(bundles):
        raise UnreadableError(where, rule, f"bundles are a whole number, not {bundles!r}")
    if start % grid.step_ms or end % grid.step_ms:
        raise UnreadableError(where, rule, f"{value!r} does not start and end on a step")
    first, last = start // grid.step_ms, end // grid.step_ms
    if not 0 <= first < last <= grid.horizon or not 1 <= bundles <= _MOST_BUNDLES:
        whole = f"[0, {grid.horizon}) x {_MOST_BUNDLES}"
        detail = f"steps [{first}, {last}) x {bundles} are empty or outside {whole}"
        raise UnreadableError(where, rule, detail)
    return first, last, bundles


def milliseconds(seconds: object, where: str) -> int:
    """Return a time in whole milliseconds."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise UnreadableError(where, "shape", f"a time is a number of seconds, not {seconds!r}")
    known = -_MOST_SECONDS < seconds < _MOST_SECONDS  # False for NaN and infinity
    ms = round(seconds * 1000) if known else 0
    if not known or not math.isclose(ms, seconds * 1000, rel_tol=1e-12, abs_tol=1e-6):
        raise UnreadableError(
            where, "shape", f"{seconds!r} s is not a whole number of milliseconds"
        )
    return ms


def _object_at(value: object, where: str) -> Mapping[str, object]:
    """Return an object."""
    if not isinstance(value, Mapping):
        raise UnreadableError(where, "shape", f"must be an object, not {value!r}")
    return value


def _list_in(fields: Mapping[str, object], key: str, where: str) -> Sequence[object]:
    """Return the list under `key`."""
    value = fields.get(key)
    if not isinstance(value, list):
        raise UnreadableError(f"{where}/{key}", "shape", "must be a list")
    return value


def _text_in(fields: Mapping[str, object], key: str, where: str) -> str:
    """Return the text under `key`."""
    value = fields.get(key)
    if not isinstance(value, str):
        raise UnreadableError(f"{where}/{key}", "shape", f"must be a text, not {value!r}")
    return value


def _is_int(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)
