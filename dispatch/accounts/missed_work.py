"""Missed work: time of a reservation that passed while its work had no machines.

Invariant: while a current execution is the only user of atoms of a reservation, it has run through
every past stretch of these atoms, or was submitted too late for it. So the request minus the past
allocation still has to run, and the Plan owes it. Whatever the cause of a violation (no leader
during a slot, a late start, a restart after a lost machine), the response is the same: the stretch
is removed (`Degrade` with the cause `MISSED`), and the adapter plans the owed work in the rest of
the window, as for lost machines; if it no longer fits, the reservation fails and its owner is
notified.

A stretch is missed if the cores did not run for a tenth of it, and for at least five seconds, the
grace period of stops; a core that is still starting does not run. A stretch is judged when it has
ended. A current one is judged only while its work has no machines and its window has time for
another lease: work that has begun in a slot keeps it. Recurrences are ignored, because each run has
its own time. Late work is not owed: if an application is submitted after its stretch began, or
requests more than the reservation covers.

A job that users submitted to an engine (`agenda sbatch`) is not an execution: the engine starts it,
and it is only known whether it waits. Its stretch is missed if every job for the reservation waits,
was submitted in time, and

- the stretch had ended when the jobs were seen waiting: nothing of it was used (a requeued job
starts again, so it needs all of it again);
- the stretch is current, and the job was not yet released: the dispatcher was down.

A job that may run in a current stretch is ignored: the engine may still start it.

A stretch that is not owed, and in which an application waited and none ran, is *unused*: its owner
is notified (`Note` with the word `UNUSED`), also for occurrences of recurrences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from dispatch.accounts.promises import tolerance_ms
from dispatch.cycle.cover import cover_faults, is_coverable, names_atom
from dispatch.entitlements.follower import PlanFollower
from dispatch.executions.execution import MOST_RUNS, Execution
from dispatch.executions.states import ExecutionState
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool
from planner.explain import time_text
from planner.plan.plan import Plan
from planner.plan.records.changes import Degrade, Note
from planner.plan.records.reservation_records import MISSED, UNUSED
from planner.replanning.commitment import commitment_of
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import add_up, subtract
from planner.reservations.state import State, Transition, may
from rdl.compound import parts_of
from rdl.time_grid import TimeGrid
from rdl.work_graph import END, LEASE

#: Pause before a change that the Plan rejected is requested again.
_PAUSE_MS: Final = 10_000

#: Later than every tick.
_NEVER: Final = 2**62


class JobWait(NamedTuple):
    """State of a reservation whose jobs all wait.

    Attributes
    ----------
    submitted_ms
        Time of the last submission, in ms from the origin.
    may_run
        Whether all of them may run, so that the engine causes the delay.
    seen_ms
        Time at which they were seen waiting; later events are unknown.
    reason
        Why one of them waits, in words; empty if the engine gives no reason.
    used_ms
        Stretches that began by then were used, in ms from the origin.
    """

    submitted_ms: int
    may_run: bool
    seen_ms: int
    reason: str = ""
    used_ms: int = -_NEVER

    def missed_until(self, now_ms: int, stretch: HeldStretch) -> int | None:
        """Return until when a stretch is missed, in ms; None if it is not missed."""
        until_ms, late_ms = min(stretch.end_ms, now_ms), stretch.tolerance_ms
        seen_ms = min(until_ms, self.seen_ms)
        waited_ms = seen_ms - max(stretch.start_ms, self.submitted_ms)
        if self.submitted_ms > stretch.start_ms + late_ms or waited_ms < late_ms:
            return None
        if stretch.start_ms <= self.used_ms:
            return None
        return None if self.may_run and stretch.end_ms > seen_ms else until_ms


#: Without an engine with users' jobs.
_NO_WAITS: Final[Mapping[str, JobWait]] = MappingProxyType({})


class _RunSpan(NamedTuple):
    """Time in which the cores of an execution were seen running.

    Attributes
    ----------
    placed_ms
        Time since which they had their machines.
    """

    placed_ms: int
    start_ms: int
    until_ms: int


class HeldStretch(NamedTuple):
    """Uninterrupted allocation of an atom, in steps, and in ms from the origin."""

    path: str
    start: int
    end: int
    start_ms: int
    end_ms: int

    @property
    def tolerance_ms(self) -> int:
        """The time that its work may lack machines."""
        return tolerance_ms(self.end_ms - self.start_ms)


class Cut(NamedTuple):
    """Steps [start, end) to remove from an atom's allocation."""

    path: str
    start: int
    end: int


def stretches_of(atom: AtomAllocation, grid: TimeGrid, now: int) -> Iterator[HeldStretch]:
    """Yield the stretches of a non-recurring atom that have begun before `now`."""
    start = end = -1
    for first, last, _ in atom.rows.tolist():
        if first != end:
            if end > start:
                yield HeldStretch(atom.path, start, end, grid.ms(start), grid.ms(end))
            if first >= now:
                return
            start = first
        end = last
    if end > start:
        yield HeldStretch(atom.path, start, end, grid.ms(start), grid.ms(end))


def _past_stretches(
    atom: AtomAllocation, grid: TimeGrid, now: int, since_ms: int
) -> Iterator[HeldStretch]:
    """Yield the stretches of all occurrences of an atom that have ended by step `now`.

    Those that ended at `since_ms` or earlier are left out.
    """
    rows = atom.all_rows()
    rows = rows[(rows[:, 1] > max(since_ms, 0) // grid.step_ms) & (rows[:, 0] < now)]
    start = end = -1
    for first, last, _ in [*rows[np.argsort(rows[:, 0], kind="stable")].tolist(), (now + 1, 0, 0)]:
        if first > end:
            if start < end <= now and grid.ms(end) > since_ms:
                yield HeldStretch(atom.path, start, end, grid.ms(start), grid.ms(end))
            start = first
        end = max(end, last)


def _missed_part(stretch: HeldStretch, now: int, lease: int, window_end: int) -> Cut | None:
    """Return the steps to remove from a stretch that was missed until `now`; None if none yet.

    A stretch that has ended is removed entirely. A current one loses whole leases, at least up to
    now, or everything if less than a lease would be left: the past must consist of whole leases.
    Nothing is removed if its window has no time for another lease.

    Parameters
    ----------
    lease, window_end
        Lease and end of the window of its atom, in steps.
    """
    if stretch.end <= now:
        return Cut(stretch.path, stretch.start, stretch.end)
    if window_end - now < lease:
        return None
    until = stretch.start - (stretch.start - now) // lease * lease
    return Cut(stretch.path, stretch.start, stretch.end if stretch.end - until < lease else until)


def without(holding: Holding, cuts: Iterable[Cut]) -> Holding:
    """Return a holding without some steps of its atoms.

    Machines are left out: the Plan keeps those of the remaining rows.
    """
    gone = list(cuts)
    atoms = [
        replace(atom, rows=_cut(atom.rows, [one for one in gone if one.path == atom.path]))
        for atom in holding.atoms
    ]
    left = tuple(replace(atom, slots=None) for atom in atoms if len(atom.rows))
    finish = max((int(atom.rows[-1, 1]) for atom in left), default=holding.begin)
    return Holding(left, holding.begin, finish)


def _cut(rows: Rows, cuts: Iterable[Cut]) -> Rows:
    for _, start, end in cuts:
        inside = rows[(rows[:, 1] > start) & (rows[:, 0] < end)].copy()
        inside[:, :2] = np.clip(inside[:, :2], start, end)
        rows = add_up(subtract(rows, inside))
    return rows


class LeaseBook:
    """Cache of the leases of reservations, valid until a reservation changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {}

    def is_broken(self, plan: Plan, number: int, stretch: HeldStretch) -> bool:
        """Return whether a stretch was cut to less than a lease of its atom."""
        name, revision = plan.table.id_of(number), int(plan.table.meta[number]["revision"])
        if name not in self._known or self._known[name][0] != revision:
            self._known[name] = revision, _lease_and_end(plan, number)
        lease, _ = self._known[name][1].get(stretch.path, (1, 0))
        return stretch.end - stretch.start < lease

    def keep(self, reservations: Container[str]) -> None:
        """Forget all other reservations."""
        self._known = {name: one for name, one in self._known.items() if name in reservations}


def _may_miss(plan: Plan, number: int) -> bool:
    """Return whether a reservation can have missed work: not if its owner closed it."""
    meta, state = plan.table.meta[number], plan.table.state(number)
    if int(meta["begin"]) >= plan.now or not may(state, Transition.MISS):
        return False
    if state is not State.COMPLETED:
        return True
    is_closed = number in plan.table.degradations
    return not is_closed and all(atom.released is None for atom in plan.table.holding(number).atoms)


def _missed_change(
    plan: Plan, number: int, missed: Sequence[tuple[HeldStretch, int]], why: str = ""
) -> Degrade | None:
    """Return the change that removes missed stretches from a reservation; None if none yet.

    Parameters
    ----------
    missed
        Stretches, each with the end of the missed time, in ms from the origin.
    why
        Why the work did not run, if known.
    """
    cuts = _cuts(plan, number, [stretch for stretch, _ in missed])
    if not cuts:
        return None
    told = [one for one in missed if any(cut[:2] == one[0][:2] for cut in cuts)]
    revision = int(plan.table.meta[number]["revision"])
    kept = without(plan.table.holding(number), cuts)
    reason = _reason(told, plan.grid) + (f"; {why}" if why else "")
    return Degrade(plan.table.id_of(number), revision, kept, reason, cause=MISSED)


def _cuts(plan: Plan, number: int, missed: Iterable[HeldStretch]) -> list[Cut]:
    """Return the cuts for the missed stretches of a reservation."""
    numbers: dict[str, tuple[int, int]] = {}
    found: list[Cut] = []
    for stretch in missed:
        if stretch.end > plan.now and not numbers:
            numbers = _lease_and_end(plan, number)
        lease, window_end = numbers.get(stretch.path, (1, 0))
        cut = _missed_part(stretch, plan.now, lease, window_end)
        if cut is not None:
            found.append(cut)
    return found


def _lease_and_end(plan: Plan, number: int) -> dict[str, tuple[int, int]]:
    """Return the lease and the end of the window of every atom, in steps; none without a plan."""
    request = commitment_of(plan, number).request
    if request is None:
        return {}
    graph = request.graph
    return {
        path: (
            max(1, int(graph.vertices[atom, LEASE])),
            int(graph.vertices[atom, END]),
        )
        for atom in graph.atoms.tolist()
        for path, _ in parts_of(graph, atom)
    }


def _reason(missed: Sequence[tuple[HeldStretch, int]], grid: TimeGrid) -> str:
    """Return the reason for its owner."""
    start = time_text(min(one.start for one, _ in missed), grid)
    end = time_text(grid.floor(max(until_ms for _, until_ms in missed)), grid)
    return f"its work did not run from {start} to {end}, and is owed that time again"


@dataclass(slots=True)
class MissedWork:
    """Finds at every tick the stretches of reservations that their executions have missed.

    Its state only prevents finished work from being owed again: after a restart, a stretch that an
    execution ran through before it was requeued counts as missed.

    Attributes
    ----------
    ended_before
        Yields the reservation and the atom (None for all) of every execution that ended before the
        first tick; called once, on first use.
    """

    ended_before: Callable[[], Iterable[tuple[str, str | None]]] | None = None
    _spans: dict[str, list[_RunSpan]] = field(default_factory=dict)
    _ended: dict[str, set[str | None]] = field(default_factory=dict)
    _asked_ms: dict[str, int] = field(default_factory=dict)
    _reported_ms: dict[str, int] = field(default_factory=dict)
    _next: dict[str, tuple[int, int]] = field(default_factory=dict)
    _over: dict[str, deque[tuple[str | None, _RunSpan]]] = field(default_factory=dict)
    _leases: LeaseBook = field(default_factory=LeaseBook)
    _since_ms: int = _NEVER

    def observe(self, table: ExecutionTable, now_ms: int) -> None:
        """Record which executions of reservations run now."""
        self._since_ms = min(self._since_ms, now_ms)
        for execution in table:
            name = execution.application.reservation
            if name is None:
                continue
            if execution.is_over:
                atom = execution.application.atom
                self.note_ended(name, atom)
                over = self._over.setdefault(name, deque(maxlen=MOST_RUNS))
                over.extend((atom, span) for span in self._spans.pop(execution.id, ()))
                continue
            self._cut_runs(execution)
            if execution.state is ExecutionState.RUNNING and execution.started_ms is not None:
                self._note_run(execution, execution.started_ms, now_ms)

    def note_ended(self, reservation: str, atom: str | None) -> None:
        """Record that an execution of a reservation, or of an atom of it, has ended."""
        self._ended.setdefault(reservation, set()).add(atom)

    def _note_run(self, execution: Execution, placed_ms: int, now_ms: int) -> None:
        """Record that an execution runs; at the first tick its run counts from its placement."""
        known = self._spans.setdefault(execution.id, [])
        if known and known[-1].placed_ms == placed_ms:
            known[-1] = known[-1]._replace(until_ms=now_ms)
        else:
            unknown_ms = placed_ms if placed_ms < self._since_ms else now_ms
            start_ms = min(max(_cores_up_ms(execution, unknown_ms), placed_ms), now_ms)
            known[:] = [*known[1 - MOST_RUNS :], _RunSpan(placed_ms, start_ms, now_ms)]

    def _cut_runs(self, execution: Execution) -> None:
        """End lost runs at the time of the loss, even if they were seen running later."""
        ends_ms = execution.run_ends_ms
        known = self._spans.get(execution.id)
        if ends_ms and known:
            known[:] = [
                one._replace(until_ms=min(one.until_ms, ends_ms.get(one.placed_ms, one.until_ms)))
                for one in known
            ]

    def _runs_since(self, execution: Execution) -> int | None:
        """Return since when all cores of an execution run; None while one of them does not."""
        spans = self._spans.get(execution.id)
        if execution.state is not ExecutionState.RUNNING or not spans:
            return None
        return spans[-1].start_ms if spans[-1].placed_ms == execution.started_ms else None

    def due(
        self,
        plan: Plan,
        table: ExecutionTable,
        now_ms: int,
        waits: Mapping[str, JobWait] = _NO_WAITS,
    ) -> list[Degrade]:
        """Return the changes that remove missed stretches, one per reservation.

        Parameters
        ----------
        now_ms
            In ms from the origin; stretches are judged up to the Plan's present step.
        waits
            Reservations whose jobs wait in an engine; executions of a reservation take precedence.
        """
        found: list[Degrade] = []
        names = {one.application.reservation or "" for one in table if not one.is_over} - {""}
        self._leases.keep(names)
        for name in sorted(names | waits.keys()):
            fellows = table.of_reservation(name)
            if now_ms < self._asked_ms.get(name, now_ms - _PAUSE_MS) + _PAUSE_MS:
                continue
            number = plan.table.number_of(name)
            if number is None or not _may_miss(plan, number):
                continue
            if name in names and fellows:
                change = self._change_of(plan, number, fellows, table.pool)
            elif name in waits and not fellows:
                until = partial(waits[name].missed_until, plan.grid.ms(plan.now))
                missed = _missed(plan, number, until)
                change = _missed_change(plan, number, missed, waits[name].reason)
            else:
                continue
            if change is not None:
                self._asked_ms[name] = now_ms
                found.append(change)
            else:
                self._asked_ms.pop(name, None)
        return found

    def unused(self, plan: Plan, table: ExecutionTable) -> list[Note]:
        """Return notes on unreported unused stretches; to be called after the changes of `due`."""
        found: list[Note] = []
        names = {one.application.reservation or "" for one in table if not one.is_over} - {""}
        for name in sorted(names - self._asked_ms.keys()):
            number = plan.table.number_of(name)
            if number is None or not self._is_next(plan, number):
                continue
            fellows = [one for one in table.of_reservation(name) if not one.is_over]
            last = self._unused_stretch(plan, number, fellows)
            if last is None:
                continue
            stretch, execution = last
            self._reported_ms[name] = stretch.end_ms
            start, end = (time_text(one, plan.grid) for one in (stretch.start, stretch.end))
            reason = f"capacity was reserved from {start} to {end}, and {execution.id!r} waited"
            why = self._why_unused(plan, number, stretch, execution, table.pool)
            found.append(Note(name, UNUSED, f"{reason}: {why}" if why else reason))
        return found

    def _is_next(self, plan: Plan, number: int) -> bool:
        """Return whether a row of a reservation has ended since the last check."""
        name, revision = plan.table.id_of(number), int(plan.table.meta[number]["revision"])
        known, end = self._next.get(name, (-1, 0))
        if known == revision and end > plan.now:
            return False
        ends = [atom.all_rows()[:, 1] for atom in plan.table.holding(number).atoms]
        later = [int(one[one > plan.now].min(initial=_NEVER)) for one in ends]
        self._next[name] = revision, min(later, default=_NEVER)
        return True

    def _unused_stretch(
        self, plan: Plan, number: int, fellows: list[Execution]
    ) -> tuple[HeldStretch, Execution] | None:
        """Return the last unused stretch that was not reported, and an execution that waited."""
        name = plan.table.id_of(number)
        after_ms = self._reported_ms.get(name)
        if after_ms is None:
            history = plan.table.read(number).history
            after_ms = max((one.at_ms for one in history if one.what == UNUSED), default=-1)
            self._reported_ms[name] = after_ms
        found: tuple[HeldStretch, Execution] | None = None
        for atom in plan.table.holding(number).atoms:
            users = [one for one in fellows if _draws_on(one, atom.path)]
            if not users:
                continue
            since_ms = max(after_ms, min(one.submitted_ms for one in users))
            for stretch in _past_stretches(atom, plan.grid, plan.now, since_ms):
                waited_ms = stretch.end_ms - max(stretch.start_ms, since_ms)
                if waited_ms < stretch.tolerance_ms or self._is_used(name, stretch, users):
                    continue
                if found is None or stretch.end > found[0].end:
                    found = stretch, users[0]
        return found

    def _is_used(self, name: str, stretch: HeldStretch, users: Iterable[Execution]) -> bool:
        """Return whether any execution of a reservation ran in a stretch."""
        if stretch.start_ms < self._since_ms and self._has_ended(name, stretch.path):
            return True
        runs = [span for atom, span in self._over.get(name, ()) if _names(stretch.path, atom)]
        for execution in users:
            started_ms = execution.started_ms
            if started_ms is not None and started_ms < stretch.end_ms:
                return True
            runs += self._spans.get(execution.id, ())
        return any(
            one.start_ms < stretch.end_ms and one.until_ms > stretch.start_ms for one in runs
        )

    @staticmethod
    def _why_unused(
        plan: Plan, number: int, stretch: HeldStretch, execution: Execution, pool: MachinePool
    ) -> str:
        held = PlanFollower(plan).during(number, stretch.start, stretch.end)
        faults = cover_faults(held, execution.application, pool)
        return faults[0].detail if faults else ""

    def _change_of(
        self, plan: Plan, number: int, fellows: list[Execution], pool: MachinePool
    ) -> Degrade | None:
        """Return the change that removes all missed stretches of a reservation, or None."""
        begin_ms = plan.grid.ms(int(plan.table.meta[number]["begin"]) + 1)
        runs_ms = [self._runs_since(one) for one in fellows]
        if all(one is not None and one < begin_ms for one in runs_ms):
            return None  # they have run since its start and missed nothing

        def until(stretch: HeldStretch) -> int | None:
            users = [one for one in fellows if _draws_on(one, stretch.path)]
            until_ms = self._missed_until(stretch, users, plan, number) if users else None
            if until_ms is None or not _was_covered(users[0], plan, number, stretch, pool):
                return None
            return until_ms

        missed = _missed(plan, number, until)
        name = plan.table.id_of(number)
        missed = [one for one in missed if not self._has_ended(name, one[0].path)]
        return _missed_change(plan, number, missed)

    def _has_ended(self, reservation: str, path: str) -> bool:
        """Return whether an execution that used an atom has ended."""
        if self.ended_before is not None:
            before, self.ended_before = self.ended_before, None
            for name, atom in before():
                self.note_ended(name, atom)
        atoms = self._ended.get(reservation, ())
        return any(_names(path, atom) for atom in atoms)

    def _missed_until(
        self, stretch: HeldStretch, users: Iterable[Execution], plan: Plan, number: int
    ) -> int | None:
        """Return until when a stretch is missed, in ms; None if some execution used it.

        An execution that restarted after less than a lease has not used it: the lease was broken.
        """
        now_ms, late_ms = plan.grid.ms(plan.now), stretch.tolerance_ms
        until_ms = stretch.end_ms
        for execution in users:
            if execution.submitted_ms > stretch.start_ms + late_ms:
                return None
            if self._has_used(execution, stretch) and not (
                execution.started_ms is None and self._leases.is_broken(plan, number, stretch)
            ):
                return None
            if stretch.end_ms > now_ms and execution.started_ms is not None:
                return None
            runs_ms = self._runs_since(execution)
            until_ms = min(until_ms, now_ms if runs_ms is None else runs_ms)
            if until_ms - max(stretch.start_ms, execution.submitted_ms) < late_ms:
                return None
        return until_ms

    def _has_used(self, execution: Execution, stretch: HeldStretch) -> bool:
        late_ms = stretch.tolerance_ms
        return any(
            span.start_ms < stretch.start_ms + late_ms and span.until_ms > stretch.end_ms - late_ms
            for span in self._spans.get(execution.id, ())
        )


def _missed(
    plan: Plan, number: int, until: Callable[[HeldStretch], int | None]
) -> list[tuple[HeldStretch, int]]:
    """Return the missed stretches, and until when; none for a recurrence."""
    atoms = plan.table.holding(number).atoms
    if any("@" in atom.path for atom in atoms):
        return []
    return [
        (stretch, until_ms)
        for atom in atoms
        for stretch in stretches_of(atom, plan.grid, plan.now)
        if (until_ms := until(stretch)) is not None
    ]


def _cores_up_ms(execution: Execution, unknown_ms: int) -> int:
    """Return when the last core of a running execution had started, according to its backend."""
    cores = [held for part in execution.parts if part.component.core for held in part.held]
    ups_ms = (unknown_ms if one.up_ms is None else one.up_ms for one in cores)
    return max(ups_ms, default=unknown_ms)


def _draws_on(execution: Execution, path: str) -> bool:
    return _names(path, execution.application.atom)


def _names(path: str, atom: str | None) -> bool:
    return atom is None or names_atom(path, atom)


def _was_covered(
    execution: Execution, plan: Plan, number: int, stretch: HeldStretch, pool: MachinePool
) -> bool:
    """Return whether a reservation could cover the cores of an execution in a stretch."""
    if any(part.limit for part in execution.parts):
        return False
    held = PlanFollower(plan).during(number, stretch.start, stretch.end)
    return any(is_coverable(one, execution.application, pool) for one in held)
