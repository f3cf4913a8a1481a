"""ExecutionTable: all executions, their components' machines and their states.

The table is the only owner of executions. The dispatcher puts components on machines and takes them
off; a backend's events and users' commands change the rest. A changed execution is listed until the
next cycle has handled it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dispatch.applications.application import Application
from dispatch.executions.assignment import AssignmentRow, Delta, Key, Op, VirtualAssignment
from dispatch.executions.events import BackendEvent, EventKind
from dispatch.executions.execution import (
    MOST_RUNS,
    ComponentGroup,
    Execution,
    HeldComponent,
    PlacedComponent,
)
from dispatch.executions.predecessors import AliveAtoms
from dispatch.executions.states import (
    FINAL_EXECUTION_STATES,
    ExecutionEvent,
    ExecutionState,
    after_component_failure,
    next_execution_state,
)
from dispatch.executions.tasks import LONGEST_BACKOFF_MS, TaskBook
from dispatch.machines.machine_pool import MachinePool
from planner.cluster.cluster import DEFAULT_QUEUE
from rdl.resources import Resources
from rdl.time_grid import duration_text

#: First and longest pause before a component that failed or could not be started is started again;
#: it doubles each time.
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1_000, 60_000

#: Reason of the deltas that start the next task of a component.
NEXT_TASK = "next task"


def need_failure(id_: str, state: ExecutionState, reason: str) -> str:
    """Return the failure reason for executions that needed one that has not succeeded."""
    what = "failed" if state is ExecutionState.FAILED else "was ended"
    what = "was rejected" if state is ExecutionState.REJECTED else what
    return f"{id_} {what}" + (f": {reason}" if reason else "")


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed executions, and components that came or left without the dispatcher."""

    executions: list[Execution]
    left: list[PlacedComponent]
    came: list[PlacedComponent]


class ExecutionTable:
    """Owns executions; amounts are in the order of `pool`."""

    def __init__(self, pool: MachinePool) -> None:
        self.pool = pool
        self._executions: dict[str, Execution] = {}
        self._of_reservation: dict[str, list[Execution]] = {}
        self._on: dict[str, dict[Key, PlacedComponent]] = {}
        self._changed: dict[str, Execution] = {}
        self._with_tasks: dict[str, Execution] = {}
        self._left: list[PlacedComponent] = []
        self._came: list[PlacedComponent] = []
        self._alive = AliveAtoms()
        self._dependents: dict[str, list[Execution]] = {}
        self._started: list[tuple[Resources, int]] = []
        self._news: dict[str, Execution] = {}
        self._submitted = 0

    def submit(
        self,
        id_: str,
        application: Application,
        submitted_ms: int,
        *,
        tenant: str = "",
        queue: str = DEFAULT_QUEUE,
        after: tuple[str, ...] = (),
        needs: tuple[str, ...] = (),
    ) -> Execution:
        """Accept a new execution; one that can never run here is rejected with a reason.

        Parameters
        ----------
        needs
            Ids of the executions that must succeed first; they may be submitted later. Each is
            settled when it ends here, or by `settle_need`.

        Raises
        ------
        ValueError
            If the id is taken.
        """
        if id_ in self._executions:
            raise ValueError(f"there is an execution {id_!r} already")
        parts = tuple(ComponentGroup(one) for one in application.components)
        execution = Execution(id_, application, tenant, submitted_ms, self._submitted, after, parts)
        execution.queue = queue
        execution.needs = needs
        if application.tasks:
            pause_ms = application.backoff_ms
            execution.tasks = TaskBook(application.tasks, application.retries, pause_ms)
            self._with_tasks[id_] = execution
        for need in needs:
            self._dependents.setdefault(need, []).append(execution)
        execution.refit(self.pool)
        self._submitted += 1
        self._executions[id_] = execution
        execution.reason = self.pool.why_never_all(application) or ""
        if execution.reason:
            execution.state = ExecutionState.REJECTED
            execution.ended_ms = submitted_ms
            self.note(execution)
            self._settle_dependents(execution, submitted_ms)
            return execution
        if application.reservation is not None:
            fellows = self._of_reservation.setdefault(application.reservation, [])
            fellows.append(execution)
            fellows.sort(key=lambda one: one.order)
            self._alive.count(application, 1)
        self._changed[id_] = execution
        self.note(execution)
        for need in needs:
            before = self._executions.get(need)
            if before is not None and before.state in FINAL_EXECUTION_STATES:
                self._settle_dependents(before, submitted_ms)
        return execution

    def get(self, id_: str) -> Execution | None:
        """Return an execution, or None."""
        return self._executions.get(id_)

    def __iter__(self) -> Iterator[Execution]:
        return iter(self._executions.values())

    def __len__(self) -> int:
        return len(self._executions)

    def of_reservation(self, reservation: str) -> list[Execution]:
        """Return the current executions of a reservation, by submission."""
        return self._of_reservation.get(reservation, [])

    def reservations(self) -> list[str]:
        """Return the reservations of current executions."""
        return [name for name, fellows in self._of_reservation.items() if fellows]

    def have_ended(self, execution: Execution) -> bool:
        """Return whether the work of all preceding atoms was submitted and has ended."""
        return self._alive.have_ended(execution.application.reservation or "", execution.after)

    def settle_need(self, need: str, at_ms: int, failure: str | None) -> None:
        """Settle the executions that wait for `need`: they may start, or fail with it.

        Parameters
        ----------
        failure
            Reason why `need` failed; None if it succeeded.
        """
        for execution in self._dependents.pop(need, ()):
            execution.needs = tuple(one for one in execution.needs if one != need)
            if execution.state is not ExecutionState.QUEUED:
                continue
            if failure is not None:
                self._move(execution, ExecutionEvent.NEED_FAILED, at_ms, failure)
            elif not execution.needs:
                execution.reason = ""
                self._changed[execution.id] = execution
                self.note(execution)

    def _settle_dependents(self, execution: Execution, at_ms: int) -> None:
        """Settle the executions that waited for one that has ended."""
        failure = None
        if execution.state is not ExecutionState.COMPLETED:
            failure = need_failure(execution.id, execution.state, execution.reason)
        self.settle_need(execution.id, at_ms, failure)

    def finish(self, id_: str, at_ms: int, reason: str = "") -> None:
        """End an execution whose work is done.

        Raises
        ------
        KeyError
            If there is no execution with this id.
        TransitionError
            If it is not running.
        """
        self._move(self._executions[id_], ExecutionEvent.FINISH, at_ms, reason)

    def fail(self, id_: str, at_ms: int, reason: str) -> None:
        """Let an execution that has not ended fail, whether it runs or waits.

        Raises
        ------
        KeyError
            If there is none of this id.
        TransitionError
            If it is over.
        """
        execution = self._executions[id_]
        waits = execution.state is ExecutionState.QUEUED
        event = ExecutionEvent.NEED_FAILED if waits else ExecutionEvent.CORE_FAILED
        self._move(execution, event, at_ms, reason)

    def kill(self, id_: str, at_ms: int, reason: str = "killed") -> None:
        """End an execution on its owner's request.

        Raises
        ------
        KeyError
            If there is no execution with this id.
        TransitionError
            If it has ended.
        """
        execution = self._executions[id_]
        self._move(execution, ExecutionEvent.KILL, at_ms, reason)
        self.finish_stop(execution, at_ms)

    def forget(self, id_: str) -> None:
        """Drop an execution that has ended.

        Raises
        ------
        ValueError
            If it has not ended, or still holds machines.
        """
        execution = self._executions[id_]
        if execution.state not in FINAL_EXECUTION_STATES or execution.holds:
            raise ValueError(f"{id_!r} is {execution.state}; only what is over can be forgotten")
        del self._executions[id_]
        self._changed.pop(id_, None)
        self._news.pop(id_, None)
        self._with_tasks.pop(id_, None)

    def take(self, event: BackendEvent) -> None:
        """Apply an event of a backend; events about unknown components are ignored."""
        if event.kind is EventKind.MACHINE_LOST:
            self.pool.lose(event.machine)
        elif event.kind is EventKind.MACHINE_BACK:
            self.pool.bring_back(event.machine)
        elif event.kind is EventKind.VOID:
            self._note_void(event)
        elif event.kind is not EventKind.STOPPED:
            found = self._on.get(event.machine, {}).get(
                (event.execution, event.component, event.index)
            )
            if found is not None:
                self._take_component(event, *found)

    def _note_void(self, event: BackendEvent) -> None:
        """Record that a stopped run ended by then at the latest; a later run is another one."""
        execution = self._executions.get(event.execution)
        if execution is not None and not execution.is_over:
            for placed_ms, end_ms in execution.run_ends_ms.items():
                if placed_ms < event.at_ms < end_ms:
                    execution.run_ends_ms[placed_ms] = event.at_ms

    def _take_component(
        self, event: BackendEvent, execution: Execution, part: ComponentGroup, held: HeldComponent
    ) -> None:
        if event.kind is EventKind.STARTED:
            is_next = execution.tasks is not None and held.up
            held.up, held.up_ms = True, event.at_ms
            self.note(execution)
            part.failures = 0
            if not is_next:
                delay_ms = max(event.at_ms - held.since_ms, 0)
                self._started.append((part.component.resources, delay_ms))
            cores = [p for one in execution.parts if one.component.core for p in one.held]
            if execution.state is ExecutionState.STARTING and all(p.up for p in cores):
                self._move(execution, ExecutionEvent.CORES_UP, event.at_ms, "")
            return
        goes_on = execution.state in (ExecutionState.STARTING, ExecutionState.RUNNING)
        core = part.component.core
        if execution.tasks is not None and self._end_task(event, execution, held):
            return
        if goes_on and core and event.kind is EventKind.EXITED:
            self._end_core(execution, part, held, event.at_ms)
            return
        if core and execution.must_leave and event.kind is EventKind.EXITED:
            held.ended = True  # the next cycle tells its backend, which remembers it until then
            return
        self.drop(execution, part, held)
        if not goes_on:
            self.pause(part, event.at_ms)
            return
        if event.kind is EventKind.EXITED:
            part.count_exit()
            return
        if event.kind is EventKind.STUCK:
            part.avoided.add(held.machine)
        is_lost = event.kind in (EventKind.LOST, EventKind.STUCK)
        if is_lost or not self.pool.is_up(held.machine):
            if core:  # it waits with its first submission time, whatever `restart` says
                self.requeue(execution, event.at_ms, event.detail or f"{held.machine} was lost")
            return
        self.pause(part, event.at_ms)
        happens = after_component_failure(core=core, restart=execution.may_retry)
        if happens is not None:
            reason = event.detail or f"core component {part.component.name!r} failed"
            if not execution.application.restart:
                reason += self._count_retry(execution, part, event.at_ms)
            self._move(execution, happens, event.at_ms, reason)

    @staticmethod
    def _count_retry(execution: Execution, part: ComponentGroup, at_ms: int) -> str:
        """Count a retry, if one is left, and pause before it; return a message for its owner."""
        application, used = execution.application, execution.retries_used
        if not application.retries:
            return ""
        if not execution.may_retry:
            return f"; it was the last of {used + 1:,} attempts"
        pause_ms = min(application.backoff_ms << min(used, 16), LONGEST_BACKOFF_MS)
        execution.retries_used += 1
        part.paused_until_ms = at_ms + pause_ms
        return f"; retry {used + 1:,} of {application.retries:,} in {duration_text(pause_ms)}"

    def _end_core(
        self, execution: Execution, part: ComponentGroup, held: HeldComponent, at_ms: int
    ) -> None:
        """Record that a core component has ended on its own; the application ends with its last
        replica.

        If every core is needed, it is the last replica of the last component.
        """
        held.ended = True
        self.note(execution)
        cores = [part]
        if execution.application.needs_every_core:
            cores = [one for one in execution.parts if one.component.core]
        if all(one.has_ended for one in cores):
            self._move(execution, ExecutionEvent.FINISH, at_ms, "")

    def _end_task(self, event: BackendEvent, execution: Execution, held: HeldComponent) -> bool:
        """Count the end of a task; return whether its component stays for the next one."""
        book, task = execution.tasks, held.task
        has_failed = event.kind is EventKind.FAILED and self.pool.is_up(held.machine)
        if book is None or task is None or not (has_failed or event.kind is EventKind.EXITED):
            return False
        held.task = None
        if has_failed:
            book.fail(task, event.at_ms, event.detail)
        else:
            book.succeed()
        self.note(execution)
        if execution.must_leave or execution.is_over:
            return False
        held.ended = True
        if has_failed:
            execution.reason = book.reason
        self._settle_tasks(execution, book, event.at_ms)
        return True

    def _settle_tasks(self, execution: Execution, book: TaskBook, at_ms: int) -> None:
        """End an execution that runs once all of its tasks have ended."""
        if not book.is_over or execution.state not in (
            ExecutionState.STARTING,
            ExecutionState.RUNNING,
        ):
            return
        if book.failed:
            reason = f"{book.failed:,} of {book.count:,} tasks failed"
            reason += f"; the last was {book.reason}" if book.reason else ""
            self._move(execution, ExecutionEvent.CORE_FAILED, at_ms, reason)
        else:
            self._move(execution, ExecutionEvent.FINISH, at_ms, "")

    def release_idle(self, at_ms: int) -> None:
        """Let the elastic components leave for which no more tasks wait.

        An execution whose tasks had all ended before it started is ended, too.
        """
        for execution in self._with_tasks.values():
            book = execution.tasks
            if book is None or book.has_waiting or execution.must_leave:
                continue
            self._settle_tasks(execution, book, at_ms)
            for part in execution.parts:
                for held in [one for one in part.held if one.ended and not part.component.core]:
                    self.drop(execution, part, held)
                    part.count_exit()

    def assign_tasks(self, deltas: Iterable[Delta], at_ms: int) -> list[Delta]:
        """Give components their tasks; return the deltas that then are to be carried out.

        Those that start get the first ones, and start nothing if none is left. Those whose task
        has ended start the next.
        """
        found: list[Delta] = []
        for delta in deltas:
            if delta.op not in (Op.STOP, Op.SHRINK):
                execution, _, held = self.placed(delta)
                if execution.tasks is not None:
                    held.task = execution.tasks.take(at_ms)
                    if held.task is None:
                        held.up = held.ended = True
                        continue
            found.append(delta)
        for execution in self._with_tasks.values():
            book = execution.tasks
            if book is None or execution.must_leave or execution.is_over:
                continue
            for part in execution.parts:
                for held in [one for one in part.held if one.ended]:
                    held.task = book.take(at_ms)
                    if held.task is not None:
                        held.ended = False
                        key = (execution.id, part.component.name, held.index)
                        found.append(Delta(Op.GROW, *key, held.machine, NEXT_TASK))
        return found

    def undo_task(self, delta: Delta) -> None:
        """Return a task whose start failed; its component waits for the next tick."""
        found = self._on.get(delta.machine, {}).get((delta.execution, delta.component, delta.index))
        if found is not None and delta.reason == NEXT_TASK:
            execution, _, held = found
            self._give_back_task(execution, held)
            held.ended = True

    @staticmethod
    def _give_back_task(execution: Execution, held: HeldComponent) -> None:
        if execution.tasks is not None and held.task is not None:
            execution.tasks.give_back(held.task)
            held.task = None

    def resume(
        self, execution: Execution, held: Iterable[tuple[ComponentGroup, HeldComponent]]
    ) -> None:
        """Restore an execution as a backend runs it, after a restart of the dispatching process.

        If all its core components run, it continues; otherwise its components are stopped and it
        starts again.
        """
        placed = list(held)
        for part, one in placed:
            self.put_on(execution, part, one)
            self._came.append((execution, part, one))
        cores = [part for part in execution.parts if part.component.core]
        whole = all(len(part.held) == part.component.count for part in cores)
        if execution.state is ExecutionState.QUEUED and whole:
            self.admit(execution, min(one.since_ms for _, one in placed))
            if all(one.up for part in cores for one in part.held):
                self._move(execution, ExecutionEvent.CORES_UP, execution.started_ms or 0, "")
        else:
            execution.must_leave = True
        self._changed[execution.id] = execution

    def take_starts(self) -> list[tuple[Resources, int]]:
        """Return the components started since the last call, with their start delays in ms."""
        started, self._started = self._started, []
        return started

    def pause(self, part: ComponentGroup, at_ms: int) -> None:
        """Pause a component group after one could not run."""
        pause_ms = min(FIRST_PAUSE_MS << min(part.failures, 16), LONGEST_PAUSE_MS)
        part.failures += 1
        part.paused_until_ms = at_ms + pause_ms

    def requeue(self, execution: Execution, at_ms: int, reason: str) -> None:
        """Requeue an execution that held its core components."""
        if execution.state in (ExecutionState.STARTING, ExecutionState.RUNNING):
            placed_ms, ends_ms = execution.started_ms, execution.run_ends_ms
            if placed_ms is not None and placed_ms < at_ms:
                ends_ms[placed_ms] = at_ms
                for first_ms in sorted(ends_ms)[:-MOST_RUNS]:
                    del ends_ms[first_ms]
            self._move(execution, ExecutionEvent.REQUEUE, at_ms, reason)

    def reject(self, execution: Execution, at_ms: int, reason: str) -> None:
        """Reject a waiting execution that can never run any more."""
        if execution.state is ExecutionState.QUEUED:
            self._move(execution, ExecutionEvent.REJECT, at_ms, reason)

    def admit(self, execution: Execution, at_ms: int) -> None:
        """Start an execution whose core components all have machines."""
        execution.started_ms = at_ms
        self._move(execution, ExecutionEvent.ADMIT, at_ms, "")

    def finish_stop(self, execution: Execution, at_ms: int) -> None:
        """End an execution that is being stopped, once none of its components has a machine."""
        if execution.state is ExecutionState.ENDING and not execution.holds:
            self._move(execution, ExecutionEvent.STOPPED, at_ms, execution.reason)

    def _move(self, execution: Execution, event: ExecutionEvent, at_ms: int, reason: str) -> None:
        execution.state = next_execution_state(execution.state, event)
        execution.reason = reason
        if execution.state is ExecutionState.QUEUED:
            execution.started_ms = None
            execution.must_leave = True
        if execution.is_over and execution.ended_ms is None:
            execution.must_leave = True
            execution.ended_ms = at_ms
            self._alive.count(execution.application, -1)
            fellows = self._of_reservation.get(execution.application.reservation or "", [])
            if execution in fellows:
                fellows.remove(execution)
            self._settle_dependents(execution, at_ms)
        self._changed[execution.id] = execution
        self.note(execution)

    def note(self, execution: Execution) -> None:
        """Record that the shown state of an execution may have changed."""
        self._news[execution.id] = execution

    def take_news(self) -> list[Execution]:
        """Return the executions whose shown state may have changed since the last call."""
        news, self._news = list(self._news.values()), {}
        return news

    def put_on(self, execution: Execution, part: ComponentGroup, held: HeldComponent) -> None:
        """Put a component on a machine."""
        part.take_on(held)
        key = (execution.id, part.component.name, held.index)
        self._on.setdefault(held.machine, {})[key] = (execution, part, held)

    def take_off(self, execution: Execution, part: ComponentGroup, held: HeldComponent) -> None:
        """Take a component off its machine."""
        part.give_up(held)
        self._give_back_task(execution, held)
        del self._on[held.machine][execution.id, part.component.name, held.index]

    def drop(self, execution: Execution, part: ComponentGroup, held: HeldComponent) -> None:
        """Remove a component that has left its machine without the dispatcher."""
        self.take_off(execution, part, held)
        self._left.append((execution, part, held))
        self._changed[execution.id] = execution

    def adopt(self, execution: Execution, part: ComponentGroup, held: HeldComponent) -> None:
        """Add a component that a backend has on a machine and the table does not."""
        self.put_on(execution, part, held)
        if execution.state not in (ExecutionState.STARTING, ExecutionState.RUNNING):
            execution.must_leave = True
        self._came.append((execution, part, held))
        self._changed[execution.id] = execution

    def placed(self, delta: Delta) -> PlacedComponent:
        """Return the component that a delta starts, which is on its machine.

        Raises
        ------
        KeyError
            If it is not.
        """
        return self._on[delta.machine][delta.execution, delta.component, delta.index]

    def on_machine(self, machine: str) -> Iterable[PlacedComponent]:
        """Return the components on a machine."""
        return self._on.get(machine, {}).values()

    def take_changes(self) -> Changes:
        """Return the changes since the last call that the dispatcher did not make."""
        changes = Changes(list(self._changed.values()), self._left, self._came)
        self._changed, self._left, self._came = {}, [], []
        return changes

    @property
    def pending(self) -> Changes:
        """Changes that `take_changes` would return now."""
        return Changes(list(self._changed.values()), list(self._left), list(self._came))

    def faults(self) -> Iterator[str]:
        """Yield differences between the indexes and the executions they are derived from."""
        on: dict[str, set[Key]] = {}
        fellows: dict[str, list[Execution]] = {}
        alive = AliveAtoms()
        for execution in self._executions.values():
            for part in execution.parts:
                yield from (f"{execution.id} {part.component.name}: {one}" for one in part.faults())
                for held in part.held:
                    key = (execution.id, part.component.name, held.index)
                    on.setdefault(held.machine, set()).add(key)
            reservation = execution.application.reservation
            if reservation is not None and not execution.is_over:
                fellows.setdefault(reservation, []).append(execution)
                alive.count(execution.application, 1)
        if on != {machine: set(keys) for machine, keys in self._on.items() if keys}:
            yield "what is kept of machines is not what components hold"
        for reservation in fellows.keys() | self._of_reservation.keys():
            wanted = sorted(fellows.get(reservation, []), key=lambda one: one.order)
            if self.of_reservation(reservation) != wanted:
                yield f"{reservation}: its executions are not those that are kept"
        if alive != self._alive:
            yield "atoms whose work is not over are not those that are kept"

    def assignment(self) -> VirtualAssignment:
        """Return the current assignment; the oldest components lose cover first."""
        return VirtualAssignment.of(
            AssignmentRow(
                execution.id,
                part.component.name,
                held.index,
                held.machine,
                held.since_ms,
                covered=covered,
            )
            for execution in self._executions.values()
            for part in execution.parts
            for held, covered in zip(part.held, part.cover_flags(), strict=True)
        )
