"""What records of changes are made of: a request's details and all that a reservation holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.reservation import AtomAllocation, Rows
from rdl.expressions import Expression
from rdl.resources import Resources

#: Where a reservation without an end ends: past every horizon.
NEVER = 2**31 - 1


class Details:
    """Expression text, choices, notes and flags of a request; the text is written when needed."""

    __slots__ = ("_text", "choices", "creditable", "expression", "notes")

    def __init__(
        self,
        expression: Expression | str,
        choices: tuple[tuple[str, int], ...] = (),
        notes: tuple[str, ...] = (),
        *,
        creditable: bool = False,
    ) -> None:
        self.expression = None if isinstance(expression, str) else expression
        self._text = expression if isinstance(expression, str) else None
        self.choices = choices
        self.notes = notes
        self.creditable = creditable

    @property
    def text(self) -> str:
        """The canonical text of the expression as submitted."""
        if self._text is None:
            from rdl.formatter import format_expression

            assert self.expression is not None
            self._text = format_expression(self.expression)
        return self._text

    @property
    def is_written(self) -> bool:
        """Whether the text stands already, as after a record has gone to the log."""
        return self._text is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Details):
            return NotImplemented
        mine = (self.text, self.choices, self.notes, self.creditable)
        return mine == (other.text, other.choices, other.notes, other.creditable)

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> dict[str, Any]:
        """Return what a record carries of it; what is empty is left out."""
        entry: dict[str, Any] = {"expression": self.text}
        if self.choices:
            entry["choices"] = dict(self.choices)
        if self.notes:
            entry["notes"] = list(self.notes)
        if self.creditable:
            entry["creditable"] = True
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Details:
        """Read what :meth:`to_json` wrote."""
        choices = tuple(entry.get("choices", {}).items())
        notes, creditable = tuple(entry.get("notes", ())), entry.get("creditable", False)
        return cls(entry["expression"], choices, notes, creditable=creditable)


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
        """Return what a record carries of it."""
        entry: dict[str, Any] = {
            "begin": self.begin,
            "finish": self.finish,
            "atoms": [_atom_record(atom) for atom in self.atoms],
        }
        return entry | {"endless": self.endless} if self.endless else entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Holding:
        """Read what :meth:`to_json` wrote."""
        atoms = tuple(_atom_from_record(one) for one in entry["atoms"])
        return cls(atoms, entry["begin"], entry["finish"], entry.get("endless", 0))


def _atom_record(atom: AtomAllocation) -> list[Any]:
    """Return ``[path, {resource: amount}, label, rows, shifts, released, inner]``, cut short."""
    released = [] if atom.released is None else atom.released.tolist()
    record: list[Any] = [atom.path, dict(atom.bundle), atom.label, atom.rows.tolist()]
    if atom.shifts != (0,) or released or atom.inner:
        record.append(list(atom.shifts))
    if released or atom.inner:
        record.append(released)
    if atom.inner:
        record.append(list(atom.inner))
    return record


def _atom_from_record(record: Sequence[Any]) -> AtomAllocation:
    path, bundle, label, rows = record[:4]
    shifts = tuple(record[4]) if len(record) > 4 else (0,)
    released = rows_of(record[5]) if len(record) > 5 and record[5] else None
    inner = tuple(record[6]) if len(record) > 6 else ()
    return AtomAllocation(path, Resources.of(bundle), label, rows_of(rows), shifts, released, inner)


def rows_of(rows: Sequence[Sequence[int]]) -> Rows:
    """Return rows as int64[m, 3]."""
    return np.array(rows, dtype=np.int64).reshape(-1, 3)
