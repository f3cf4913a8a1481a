"""VirtualAssignment: which component runs on which machine, and the deltas between two of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class Op(StrEnum):
    """Operation of a delta, in the order in which deltas are carried out."""

    STOP = "stop"  # a component of an execution that is stopped entirely
    SHRINK = "shrink"  # an elastic component of an execution that continues
    START = "start"  # a component of an execution that did not run
    GROW = "grow"  # one more component of an execution that runs


#: Execution, component, and number of the component among its replicas.
Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class AssignmentRow:
    """One component on one machine.

    Attributes
    ----------
    execution, component, index
        Which component, and which of its replicas, from 0.
    machine
        ``<group>-<index>``.
    since_ms
        Time since which it is on the machine, in ms from the origin.
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
        """Unique key of the row."""
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
    """One change for a backend to make; `reason` is for people."""

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


def in_order(deltas: Iterable[Delta]) -> tuple[Delta, ...]:
    """Return deltas in the order of execution: first those that free capacity."""
    order = list(Op)
    return tuple(sorted(deltas, key=lambda delta: order.index(delta.op)))


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
        """Return rows by their key."""
        return {row.key: row for row in self.rows}

    def deltas_to(self, wanted: VirtualAssignment) -> tuple[Delta, ...]:
        """Return the deltas that turn this assignment into `wanted`, to repair a whole backend.

        A component that changes its machine is stopped and started; differences in `since_ms` and
        `covered` cause no delta. A cycle records its own deltas (`dispatch.cycle.moves`), because
        an execution that restarts on the same machines is stopped and started.
        """
        here, there = self.by_key(), wanted.by_key()
        staying = {row.execution for row in wanted.rows}
        present = {row.execution for row in self.rows}
        found: list[Delta] = []
        for key, row in here.items():
            target = there.get(key)
            if target is None or target.machine != row.machine:
                op = Op.SHRINK if row.execution in staying else Op.STOP
                found.append(Delta(op, *key, row.machine))
        for key, row in there.items():
            source = here.get(key)
            if source is None or source.machine != row.machine:
                op = Op.GROW if row.execution in present else Op.START
                found.append(Delta(op, *key, row.machine))
        return in_order(found)
