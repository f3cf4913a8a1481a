"""VirtualAssignment: which component runs on which machine, and the deltas between two of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class Op(StrEnum):
    """What a delta asks of a backend, in the order in which deltas are carried out."""

    STOP = "stop"  # a component of an execution that leaves altogether
    SHRINK = "shrink"  # an elastic component of one that stays
    START = "start"  # a component of an execution that was not there
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


def in_order(deltas: Iterable[Delta]) -> tuple[Delta, ...]:
    """Return deltas as a backend carries them out: first what frees room, then what takes it."""
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
        """Return rows by what there can be only one of."""
        return {row.key: row for row in self.rows}

    def deltas_to(self, wanted: VirtualAssignment) -> tuple[Delta, ...]:
        """Return what makes `wanted` of this, for a backend that has to be repaired as a whole.

        A component that changes its machine is stopped there and started here; `since_ms` and
        `covered` change nothing that runs. A cycle keeps its own deltas (`dispatch.cycle.moves`),
        because an execution that begins again where it was is stopped and started.
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
