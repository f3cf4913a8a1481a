"""Late stages of jobs: which are announced, ask for more time, or fail (`on_late`).

A stage is late while its slot has begun and stages before it have not ended, and once its slots are
over and it has not ended. With `extend` a stage that runs asks for a quarter more time shortly
before its slots end: its atom gets more work, and the stages after it move, where the window has
time for that. With `fail` it fails at the end of its slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from dispatch.executions.execution import Execution
from dispatch.executions.job_file import OnLate
from dispatch.executions.job_runs import spans_of_parts
from dispatch.executions.states import ExecutionState
from planner.explain import time_text
from planner.plan.plan import Plan
from planner.plan.records.changes import Note
from planner.plan.records.reservation_records import STAGE_LATE
from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Graph,
    Order,
    Together,
    Window,
    children_of,
)

#: How long before the end of its slots a stage asks for more time, at least.
_LEAD_MS: Final = 10_000

#: What part of its time a stage asks for in addition.
_PART: Final = 4


class Extension(NamedTuple):
    """More time that a stage asks for: each of its bundles for `by_ms` more.

    Attributes
    ----------
    reservation, path
        The reservation, and the atom in it.
    """

    execution: str
    reservation: str
    path: str
    by_ms: int


@dataclass(slots=True)
class LateActions:
    """The actions for late stages.

    Attributes
    ----------
    notes
        The announcements.
    failures
        Ids of the executions that fail, and why.
    extensions
        The requested changes.
    """

    notes: list[Note] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    extensions: list[Extension] = field(default_factory=list)


#: Steps [start, end) of all slots of an atom, by its path with occurrences.
_Spans = Mapping[str, tuple[int, int]]


class LateStages:
    """Finds late stages, tick by tick.

    Its state only saves work and prevents duplicate requests: announcements are in the history of
    the reservation.
    """

    def __init__(self) -> None:
        self._spans: dict[str, tuple[tuple[int, ...], _Spans]] = {}
        self._announced: set[str] = set()
        self._asked: dict[str, int] = {}

    def observe(self, plan: Plan, executions: Iterable[Execution], now_ms: int) -> LateActions:
        """Return the actions that are due.

        Parameters
        ----------
        now_ms
            In ms from the origin.
        """
        found = LateActions()
        stages = [one for one in executions if one.awaits_slot and not one.is_over]
        present = {one.id for one in stages}
        self._announced &= present
        self._asked = {id_: end for id_, end in self._asked.items() if id_ in present}
        reservations = {one.application.reservation for one in stages}
        self._spans = {id_: one for id_, one in self._spans.items() if id_ in reservations}
        for execution in stages:
            self._look(plan, execution, now_ms, found)
        return found

    def _look(self, plan: Plan, execution: Execution, now_ms: int, found: LateActions) -> None:
        reservation = execution.application.reservation or ""
        span = self._spans_of(plan, reservation).get(execution.application.atom or "")
        if span is None:
            return
        start, end = span
        end_ms = plan.grid.ms(end)
        if now_ms >= end_ms:
            why = f"{execution.id} has not ended, and its slots ended {time_text(end, plan.grid)}"
            self._announce(plan, execution, why, found)
            if execution.on_late == OnLate.FAIL:
                at = time_text(end, plan.grid)
                found.failures.append((execution.id, f"it was late: its slots ended {at}"))
            return
        if execution.slot_began and execution.is_held_up:
            why = f"{execution.id} could start, but waits for {' and '.join(execution.needs)}"
            self._announce(plan, execution, why, found)
        runs = execution.state in (ExecutionState.STARTING, ExecutionState.RUNNING)
        lead_ms = max(_LEAD_MS, plan.grid.step_ms)
        is_due = end_ms - now_ms <= lead_ms and self._asked.get(execution.id) != end
        if execution.on_late == OnLate.EXTEND and runs and is_due:
            self._asked[execution.id] = end
            steps = max(1, -(-(end - start) // _PART))
            path = execution.application.atom or ""
            by_ms = plan.grid.ms(steps)
            found.extensions.append(Extension(execution.id, reservation, path, by_ms))

    def _announce(self, plan: Plan, execution: Execution, why: str, found: LateActions) -> None:
        """Announce a late stage once, also across leaders."""
        if execution.id in self._announced:
            return
        self._announced.add(execution.id)
        reservation = execution.application.reservation or ""
        number = plan.table.number_of(reservation)
        history = () if number is None else plan.table.read(number).history
        stage = f"{execution.id} "
        if not any(one.what == STAGE_LATE and one.detail.startswith(stage) for one in history):
            found.notes.append(Note(reservation, STAGE_LATE, why))

    def _spans_of(self, plan: Plan, reservation: str) -> _Spans:
        """Return the slots of a reservation, read again only where they have changed."""
        number = plan.table.number_of(reservation)
        if number is None:
            return {}
        meta = plan.table.meta[number]
        key = (id(plan.table), int(meta["revision"]), int(meta["atom"]), int(meta["finish"]))
        known = self._spans.get(reservation)
        if known is None or known[0] != key:
            spans = spans_of_parts(plan.table.holding(number).atoms)
            known = self._spans[reservation] = (key, spans)
        return known[1]


def with_more_time(expression: Expression, path: str, by_ms: int) -> Expression:
    """Return a request in which each bundle of the atom at a path has `by_ms` more.

    Raises
    ------
    ValueError
        If there is no atom at the path.
    """
    step, _, rest = path.partition(".")
    if not path:
        if not isinstance(expression, Atom):
            raise ValueError("there is no atom at the path")
        more = by_ms * expression.maximum
        return replace(expression, work_ms=expression.work_ms + more)
    children = list(children_of(expression))
    if not step.isdecimal() or int(step) >= len(children):
        raise ValueError(f"there is no atom at {path!r}")
    children[int(step)] = with_more_time(children[int(step)], rest, by_ms)
    match expression:
        case Window() | Every():
            return replace(expression, of=children[0])
        case AnyOf():
            return replace(expression, options=tuple(children))
        case AllOf() | Order() | Graph() | Together():
            return replace(expression, children=tuple(children))
        case _:
            raise ValueError(f"there is no atom at {path!r}")
