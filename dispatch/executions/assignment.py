"""VirtualAssignment: which component runs on which machine, and the deltas between two of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class Op(StrEnum):
    """What a delta asks of a backend; stops and shrinks come first, for they make room."""

    STOP = "stop"  # a component of an execution that leaves altogether
    SHRINK = "shrink"  # an elastic component of one that stays
    START = "start"  # a component of an execution that was not there
    GROW = "grow"  # one more component of an execution that runs


_APPLIED_FIRST = (Op.STOP, Op.SHRINK, Op.START, Op.GROW)

#: Execution, component, and number of the component among its likes.
Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class AssignmentRow:
    """One component on one machine.

    Attributes
    ----------
    execution, component, index
        Which component, and which of its likes, from 0.
    machine
        ``<group>-<index>``.
    since_ms
        Since when it is there, in ms from the origin.
    covered
        Whether a reservation covers it; a row that is not may be stopped at any time.
    """

    execution: str
    component: str
    index: int
    machine: str
    since_ms: int
    covered: bool

    @property
    def key(self) -> Key:
        """What there can be only one of."""
        return self.execution, self.component, self.index

    def to_json(self) -> dict[str, object]:
        """Return the row as `/v1/assignments` shows it."""
        return {
            "execution": self.execution,
            "component": self.component,
            "index": self.index,
            "machine": self.machine,
            "since": self.since_ms / 1000,
            "covered": self.covered,
        }


@dataclass(frozen=True, slots=True)
class Delta:
    """One change a backend is asked to make; `reason` is for people."""

    op: Op
    execution: str
    component: str
    index: int
    machine: str
    reason: str = ""

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "op": self.op.value,
            "execution": self.execution,
            "component": self.component,
            "index": self.index,
            "machine": self.machine,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class VirtualAssignment:
    """Every component and its machine at one instant; rows are sorted by key."""

    rows: tuple[AssignmentRow, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[AssignmentRow]) -> VirtualAssignment:
        """Return an assignment of rows in any order.

        Raises
        ------
        ValueError
            If one component has two machines.
        """
        ordered = tuple(sorted(rows, key=lambda row: row.key))
        for one, other in pairwise(ordered):
            if one.key == other.key:
                raise ValueError(f"{one.key} is on {one.machine} and on {other.machine}")
        return cls(ordered)

    def by_key(self) -> dict[Key, AssignmentRow]:
        """Return rows by what there can be only one of."""
        return {row.key: row for row in self.rows}

    def deltas_to(
        self, wanted: VirtualAssignment, reasons: Mapping[Key, str] | None = None
    ) -> tuple[Delta, ...]:
        """Return what makes `wanted` of this: first what frees room, then what takes it.

        A component that changes its machine is stopped there and started here; `since_ms` and
        `covered` change nothing that runs.
        """
        given = reasons or {}
        here, there = self.by_key(), wanted.by_key()
        staying = {row.execution for row in wanted.rows}
        present = {row.execution for row in self.rows}
        found: list[Delta] = []
        for key, row in here.items():
            target = there.get(key)
            if target is None or target.machine != row.machine:
                op = Op.SHRINK if row.execution in staying else Op.STOP
                found.append(Delta(op, *key, row.machine, given.get(key, "")))
        for key, row in there.items():
            source = here.get(key)
            if source is None or source.machine != row.machine:
                op = Op.GROW if row.execution in present else Op.START
                found.append(Delta(op, *key, row.machine, given.get(key, "")))
        return tuple(sorted(found, key=lambda delta: _APPLIED_FIRST.index(delta.op)))

    def after(self, deltas: Iterable[Delta], at_ms: int) -> VirtualAssignment:
        """Return what stands once a backend has made `deltas`; new rows are not covered.

        Raises
        ------
        ValueError
            If a delta stops what is not there, or starts what is.
        """
        rows = self.by_key()
        for delta in deltas:
            key = (delta.execution, delta.component, delta.index)
            if delta.op in (Op.STOP, Op.SHRINK):
                if key not in rows or rows[key].machine != delta.machine:
                    raise ValueError(f"{key} is not on {delta.machine}")
                del rows[key]
            elif key in rows:
                raise ValueError(f"{key} is on {rows[key].machine} already")
            else:
                rows[key] = AssignmentRow(*key, delta.machine, at_ms, covered=False)
        return VirtualAssignment.of(rows.values())
