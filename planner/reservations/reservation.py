"""Reservations and refusals in the form for reading, and a reservation's holding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.placement import TIMED_KINDS, Binding, Code
from planner.promise import PromiseLevel
from planner.reservations.slots import (
    ANYWHERE,
    NOWHERE,
    MachineRule,
    Slots,
    slots_of,
    split_by_rows,
)
from planner.reservations.state import State
from rdl.durations import rfc3339_text
from rdl.expressions import Expression
from rdl.local_time import zone_of_text
from rdl.names import part_name_of_text
from rdl.resources import CPU, Resources
from rdl.time_grid import TimeGrid, seconds_of

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AtomAllocation:
    """The allocation of one atom.

    Attributes
    ----------
    path
        Source path; in a recurring atom's path ``@*`` replaces the numbers of occurrences.
    bundle, label
        The amounts of one bundle, and the machines it may use.
    rows
        int64[m, 3]: start step, end step, bundles of occurrence 0; sorted and merged.
    shifts
        Offsets of the occurrences in steps; ``(0,)`` outside `every`.
    released
        int64[k, 3]: rows released, by cancelling or closing or for work done early.
    inner
        For `every` inside `every`: how many occurrences each has, innermost first, the outermost
        left out; shifts then stand with the innermost counted first.
    rule
        The machine rule of its bundles.
    slots
        int64[k, 4]: start step, end step, bundles, machine, of all occurrences
        (`planner.reservations.slots`); None if it is promised totals only.
    """

    path: str
    bundle: Resources
    label: str | None
    rows: Rows
    shifts: tuple[int, ...] = (0,)
    released: Rows | None = None
    inner: tuple[int, ...] = ()
    rule: MachineRule = ANYWHERE
    slots: Slots | None = None

    def part(self, path: str, rows: Rows) -> AtomAllocation:
        """Return rows of one occurrence as an atom of its own, with the same rule for machines."""
        return AtomAllocation(path, self.bundle, self.label, rows, rule=self.rule)

    def occurrences(self) -> Iterator[tuple[str, Rows]]:
        """Yield (path, rows) of every occurrence that holds something."""
        moved = self.all_rows().reshape(len(self.shifts), len(self.rows), 3)
        for number, rows in enumerate(moved):
            yield self._path_of(number), rows

    def occurrence_slots(self) -> Iterator[Slots | None]:
        """Yield the slots of every occurrence, in the order of :meth:`occurrences`."""
        left = self.slots
        if left is None or self.shifts == (0,):
            for _ in self.shifts:
                yield left
            return
        for _, rows in self.occurrences():
            mine, left = _slots_of_occurrence(left, rows)
            yield mine

    def _path_of(self, number: int) -> str:
        """Return the path of an occurrence; the last ``@*`` is the innermost."""
        path = self.path
        for count in self.inner:
            number, here = divmod(number, count)
            head, _, tail = path.rpartition("@*")
            path = f"{head}@{here}{tail}"
        return path.replace("@*", f"@{number}")

    def all_rows(self) -> Rows:
        """Return the rows of all occurrences, unmerged."""
        if self.shifts == (0,):
            return self.rows
        shifts = np.array(self.shifts, dtype=np.int64)
        moved = np.repeat(self.rows[None], len(shifts), axis=0)
        moved[:, :, :2] += shifts[:, None, None]
        return moved.reshape(-1, 3)


def _slots_of_occurrence(slots: Slots, rows: Rows) -> tuple[Slots, Slots]:
    """Return the slots of one occurrence out of many, and the others."""
    if not len(rows):
        return slots[:0], slots
    # Occurrences that stand apart in time need no cutting.
    inside = (slots[:, 0] >= rows[0, 0]) & (slots[:, 1] <= rows[-1, 1])
    mine = slots[inside]
    area = int(((rows[:, 1] - rows[:, 0]) * rows[:, 2]).sum())
    if int(((mine[:, 1] - mine[:, 0]) * mine[:, 2]).sum()) == area:
        return mine, slots[~inside]
    return split_by_rows(slots, rows)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One thing that happened to a reservation.

    Attributes
    ----------
    lost
        (first, end) of the allocation that it lost then, ms from the origin; None
        if nothing was taken.
    """

    at_ms: int
    version: int
    what: str
    detail: str = ""
    lost: tuple[int, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the form of plan files."""
        entry: dict[str, Any] = {
            "at": seconds_of(self.at_ms),
            "version": self.version,
            "what": self.what,
        }
        if self.detail:
            entry["detail"] = self.detail
        if self.lost is not None:
            entry["lost_from"], entry["lost_to"] = map(seconds_of, self.lost)
        return entry


@dataclass(frozen=True, slots=True)
class Degradation:
    """The reason why a reservation has less than promised, and offers for its owner."""

    since_ms: int
    reason: str
    offers: tuple[dict[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the form of plan files."""
        return {
            "since": seconds_of(self.since_ms),
            "reason": self.reason,
            "offers": list(self.offers),
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Degradation:
        """Read the output of :meth:`to_json`."""
        return cls(round(entry["since"] * 1000), entry["reason"], tuple(entry["offers"]))


@dataclass(frozen=True, slots=True)
class Reservation:
    """One promise of the Plan.

    Attributes
    ----------
    expression
        The formatter's text of the request as submitted.
    choices
        (path of the `any`, index of the option taken).
    history
        Oldest first; the admission is the first entry.
    degradation
        For a degraded reservation: the reason, and offers. Of a completed one: why part of
        it was missing when its owner closed it.
    promise
        Its purpose.
    machines
        Names of the cluster's machines by number, as of the version it was read at.
    written
        The formatter's text of the request as written, if a server added to it.
    """

    id: str
    tenant: str
    queue: str
    submitted_ms: int
    weight: float
    priority: int
    state: State
    revision: int
    agent: str
    expression: str
    choices: tuple[tuple[str, int], ...]
    notes: tuple[str, ...]
    atoms: tuple[AtomAllocation, ...]
    history: tuple[HistoryEntry, ...] = ()
    degradation: Degradation | None = None
    promise: PromiseLevel = PromiseLevel.POOLED
    machines: Sequence[str] = ()
    written: str = ""

    def to_json(self, grid: TimeGrid, *, history: bool = False) -> dict[str, Any]:
        """Return the form of plan files: times in seconds, one atom entry an occurrence."""
        entry: dict[str, Any] = {
            "id": self.id,
            "tenant": self.tenant,
            "queue": self.queue,
            "submitted": seconds_of(self.submitted_ms),
            **_submitted_at(self.submitted_ms, grid),
            **_zone(self.expression, grid),
            "state": self.state.value,
            "weight": float(self.weight),
            "priority": self.priority,
            "revision": self.revision,
            "agent": self.agent,
            "expression": self.expression,
            **_written_entry(self.written),
            "choices": dict(self.choices),
            "notes": list(self.notes),
            "promise": self.promise.value,
            "atoms": [
                _with_name(one, self.expression)
                for atom in self.atoms
                for one in atom_to_json(atom, grid, self.machines)
            ],
        }
        if self.degradation is not None:
            entry["degradation"] = self.degradation.to_json()
        if history:
            entry["history"] = [one.to_json() for one in self.history]
        return entry


@dataclass(frozen=True, slots=True)
class Refusal:
    """One request that was answered "no"."""

    id: str
    tenant: str
    queue: str
    submitted_ms: int
    weight: float
    priority: int
    expression: str
    code: Code
    detail: str
    binding: Binding | None = None
    offers: tuple[dict[str, Any], ...] = ()
    promise: PromiseLevel | None = None
    written: str = ""

    def to_json(self, grid: TimeGrid) -> dict[str, Any]:
        """Return the form of plan files."""
        entry: dict[str, Any] = {
            "id": self.id,
            "tenant": self.tenant,
            "queue": self.queue,
            "submitted": seconds_of(self.submitted_ms),
            **_submitted_at(self.submitted_ms, grid),
            **_zone(self.expression, grid),
            "weight": float(self.weight),
            "priority": self.priority,
            "expression": self.expression,
            **_written_entry(self.written),
            "code": self.code.value,
            "detail": self.detail,
            "binding": None if self.binding is None else binding_to_json(self.binding, grid),
            "offers": list(self.offers),
        }
        if self.promise is not None:
            entry["promise"] = self.promise.value
        return entry


def _written_entry(written: str) -> dict[str, str]:
    return {"written": written} if written else {}


def _with_name(entry: dict[str, Any], expression: str) -> dict[str, Any]:
    """Return an atom's entry with its name in the request, if it has one."""
    name = part_name_of_text(expression, entry["path"])
    return entry if name is None else {"path": entry["path"], "name": name, **entry}


def atom_to_json(
    atom: AtomAllocation, grid: TimeGrid, machines: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the plan file's entry of every occurrence; released rows are listed with occurrence
    0."""
    held = zip(atom.occurrences(), atom.occurrence_slots(), strict=True)
    for number, ((path, rows), slots) in enumerate(held):
        entry: dict[str, Any] = {"path": path, "bundle": atom.bundle.to_json()}
        if atom.label is not None:
            entry["on"] = atom.label
        entry |= rule_to_json(atom)
        entry["allocation"] = rows_to_json(rows, grid)
        if slots is not None:
            entry["slots"] = slots_to_json(slots, grid, machines)
        if number == 0 and atom.released is not None and len(atom.released):
            entry["released"] = rows_to_json(atom.released, grid)
        yield entry


def rows_to_json(rows: Rows, grid: TimeGrid) -> list[list[int | float]]:
    """Return ``[start_s, end_s, bundles]`` for each row."""
    return [[grid.seconds(s), grid.seconds(e), bundles] for s, e, bundles in rows.tolist()]


class Occurrence(NamedTuple):
    """An occurrence of an atom of a holding.

    Attributes
    ----------
    place, number
        Of the atom in the holding, and of the occurrence in the atom.
    """

    place: int
    number: int
    path: str
    rows: Rows


def shared_runs(atoms: Sequence[AtomAllocation]) -> list[list[Occurrence]]:
    """Return the members of each run of a `together` whose bundles are in one value of a domain."""
    runs: dict[str, list[Occurrence]] = {}
    for place, atom in enumerate(atoms):
        if atom.rule.is_shared:
            for number, (path, rows) in enumerate(atom.occurrences()):
                member = Occurrence(place, number, path, rows)
                runs.setdefault(path.rpartition(".")[0], []).append(member)
    return list(runs.values())


def rule_to_json(atom: AtomAllocation) -> dict[str, Any]:
    """Return the machine rule of an atom, without its defaults."""
    rule = atom.rule
    entry: dict[str, Any] = {}
    if rule.spread:
        entry["spread"] = rule.spread
    if rule.domain is not None:
        entry["domain"] = rule.domain
    if rule.within is not None:
        entry["within"] = rule.within
    if rule.values != 1:
        entry["values"] = rule.values
    if rule.is_shared:
        entry["shared"] = True
    if atom.slots is not None and not rule.handover:
        entry["handover"] = False
    return entry


def slots_to_json(slots: Slots, grid: TimeGrid, machines: Sequence[str]) -> list[list[Any]]:
    """Return ``[start_s, end_s, bundles, machine]`` for each slot; None if it has no machine."""
    return [
        [grid.seconds(s), grid.seconds(e), n, None if m == NOWHERE else machines[m]]
        for s, e, n, m in slots.tolist()
    ]


def amount_to_json(resource: str, amount: int | None) -> int | float | str | None:
    """Return one amount in the form of files; a negative amount is a bare number."""
    if amount is None:
        return None
    if amount > 0:
        return Resources.of({resource: amount}).to_json()[resource]
    return amount / 1000 if resource == CPU and amount else amount


def binding_to_json(binding: Binding, grid: TimeGrid) -> dict[str, Any]:
    """Return the form of plan files: amounts with units, times in seconds."""
    resource = binding.resource

    def told(amount: int | None) -> int | float | str | None:
        if amount is not None and binding.kind in TIMED_KINDS:
            return seconds_of(amount)
        return amount_to_json(resource or "", amount)

    at_at = {}
    if binding.at is not None and grid.origin is not None:
        at_at["at_at"] = rfc3339_text(grid.instant_at(grid.ms(binding.at)))
    return {
        "path": binding.path,
        "kind": binding.kind,
        "at": None if binding.at is None else grid.seconds(binding.at),
        **at_at,
        "resource": resource,
        "needed": told(binding.needed),
        "free": told(binding.free),
        "policy": binding.policy,
    } | ({} if binding.name is None else {"name": binding.name})


def _zone(expression: str, grid: TimeGrid) -> dict[str, str]:
    """Return the zone in which its times are read; nothing if that is UTC."""
    zone = None if grid.origin is None else zone_of_text(expression) or grid.zone
    return {} if zone is None else {"zone": zone}


def _submitted_at(submitted_ms: int, grid: TimeGrid) -> dict[str, str]:
    if grid.origin is None:
        return {}
    return {"submitted_at": rfc3339_text(grid.instant_at(submitted_ms))}


#: Where a reservation without an end ends: past every horizon.
NEVER = 2**31 - 1


class RequestDetails:
    """Expression text, choices and notes of a request; the text is written when needed.

    `written` is the text of the request as written, if a server added to it.
    """

    __slots__ = ("_text", "choices", "expression", "notes", "written")

    def __init__(
        self,
        expression: Expression | str,
        choices: tuple[tuple[str, int], ...] = (),
        notes: tuple[str, ...] = (),
        *,
        written: str = "",
    ) -> None:
        self.expression = None if isinstance(expression, str) else expression
        self._text = expression if isinstance(expression, str) else None
        self.choices = choices
        self.notes = notes
        self.written = written

    @property
    def text(self) -> str:
        """The canonical text of the expression as submitted."""
        if self._text is None:
            from rdl.text.formatter import format_expression

            assert self.expression is not None
            self._text = format_expression(self.expression)
        return self._text

    @property
    def is_written(self) -> bool:
        """Whether the text already exists, as after a record was logged."""
        return self._text is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RequestDetails):
            return NotImplemented
        mine = (self.text, self.choices, self.notes, self.written)
        return mine == (other.text, other.choices, other.notes, other.written)

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> dict[str, Any]:
        """Return its part of a record, without empty members."""
        entry: dict[str, Any] = {"expression": self.text}
        if self.choices:
            entry["choices"] = dict(self.choices)
        if self.notes:
            entry["notes"] = list(self.notes)
        return entry | _written_entry(self.written)

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> RequestDetails:
        """Read the output of :meth:`to_json`."""
        choices = tuple(entry.get("choices", {}).items())
        notes = tuple(entry.get("notes", ()))
        return cls(entry["expression"], choices, notes, written=entry.get("written", ""))


@dataclass(frozen=True, slots=True)
class Holding:
    """All that a reservation holds, and from when to when.

    Attributes
    ----------
    begin, finish
        First step of any row and first step past the last; `NEVER` for what ends only when it is
        cancelled (endless recurrences, best-effort sessions).
    endless
        Period in steps of an endless recurrence, or 0.
    """

    atoms: tuple[AtomAllocation, ...]
    begin: int
    finish: int
    endless: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return its part of a record."""
        entry: dict[str, Any] = {
            "begin": self.begin,
            "finish": self.finish,
            "atoms": [_atom_record(atom) for atom in self.atoms],
        }
        return entry | {"endless": self.endless} if self.endless else entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Holding:
        """Read the output of :meth:`to_json`."""
        atoms = tuple(_atom_from_record(one) for one in entry["atoms"])
        return cls(atoms, entry["begin"], entry["finish"], entry.get("endless", 0))


def _atom_record(atom: AtomAllocation) -> list[Any]:
    """Return the record of an atom without trailing defaults.

    ``[path, {resource: amount}, label, rows, shifts, released, inner, slots, rule]``.
    """
    released = [] if atom.released is None else atom.released.tolist()
    record: list[Any] = [atom.path, dict(atom.bundle), atom.label, atom.rows.tolist()]
    slots = None if atom.slots is None else atom.slots.tolist()
    rest: list[Any] = [list(atom.shifts), released, list(atom.inner), slots, list(atom.rule)]
    while rest and rest[-1] == _DEFAULT_REST[len(rest) - 1]:
        rest.pop()
    return record + rest


#: What the end of an atom's record is where nothing is said.
_DEFAULT_REST: Final[tuple[object, ...]] = ([0], [], [], None, list(ANYWHERE))


def _atom_from_record(record: Sequence[Any]) -> AtomAllocation:
    path, bundle, label, rows = record[:4]
    shifts = tuple(record[4]) if len(record) > 4 else (0,)
    released = rows_of(record[5]) if len(record) > 5 and record[5] else None
    inner = tuple(record[6]) if len(record) > 6 else ()
    slots = slots_of(record[7]) if len(record) > 7 and record[7] is not None else None
    rule = MachineRule(*record[8]) if len(record) > 8 else ANYWHERE
    return AtomAllocation(
        path, Resources.of(bundle), label, rows_of(rows), shifts, released, inner, rule, slots
    )


def rows_of(rows: Sequence[Sequence[int]]) -> Rows:
    """Return rows as int64[m, 3]."""
    return np.array(rows, dtype=np.int64).reshape(-1, 3)
