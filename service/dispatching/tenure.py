"""Tenure: all that a process keeps while it leads the dispatch.

It is made when leadership is won and something is to be dispatched, and dropped when leadership is
lost or a tick fails. It keeps no state that a restart could not rebuild: applications are on
disk, and those whose backend has forgotten them are dispatched again.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from dispatch.accounts.credits import CreditBook
from dispatch.accounts.late_stages import LateStages
from dispatch.accounts.missed_work import JobWait, MissedWork
from dispatch.accounts.promises import shortfall
from dispatch.applications.application import Application, Kind
from dispatch.backends.executors import ExecutorBackend, run_document_of
from dispatch.backends.in_memory import InMemoryBackend
from dispatch.backends.interface import Backend
from dispatch.backends.kubernetes.backend import address
from dispatch.backends.run_records import RunRow
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.job_logs import limit_logs
from dispatch.backends.slurm.slurm_follower import SlurmFollower
from dispatch.cycle.cover import names_atom
from dispatch.cycle.cycle import Cycle
from dispatch.cycle.dispatcher import Dispatcher, move_to
from dispatch.cycle.options import options_of
from dispatch.entitlements.directive import Directive
from dispatch.entitlements.follower import PlanFollower
from dispatch.entitlements.start_delay import NO_DELAY, StartDelays
from dispatch.executions.assignment import Delta, Key
from dispatch.executions.execution import Execution
from dispatch.executions.peers import PORTS, PeerBook
from dispatch.executions.states import FINAL_EXECUTION_STATES, ExecutionState, TransitionError
from dispatch.executions.table import ExecutionTable, need_failure
from dispatch.loop import DispatchLoop
from dispatch.machines.machine_pool import MachinePool
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from service.commits.replica import Replica
from service.dispatching.documents import assignment_of, read_document, status_of
from service.dispatching.kubernetes_jobs import KubernetesJobs
from service.dispatching.machine_watch import MachineWatch
from service.dispatching.pace import Pace
from service.dispatching.records import (
    ElasticUse,
    elastic_millicores,
    ended_work,
    in_seconds,
    keep_delays,
    keep_table,
)
from service.dispatching.releaser import Releaser, extension_of
from service.dispatching.slurm_orders import slurm_follower
from service.dispatching.table_solver import TableSolver
from service.exposition import used_by_group
from service.metrics import Telemetry
from service.store import ApplicationRow, ApplicationRows, StatusRow
from service.store.engine import UNAVAILABLE
from service.store.promise_ledger import StoredLedger
from service.store.runs import settle_news

logger = logging.getLogger("agenda.service")

#: Pause between two looks at how much output of Slurm's jobs is kept, seconds.
_LOGS_S: Final = 60.0


class Tenure:
    """The executions, the backend, the follower and the accounts of the process that leads.

    Parameters
    ----------
    replica
        The Plan that is followed.
    number
        Number of the tenure; its writes are rejected once another has begun.
    releaser
        Releases unneeded capacity to the Plan.
    watch
        Tells the Plan which machines are lost.
    telemetry
        Metrics that count loads and times below the entitlement.
    pace
        Time between ticks, and the backend: executors, Slurm, or memory. Where it does
        not tick automatically, each tick waits for its dispatch table.
    leads
        Whether this process still leads.
    needs_history
        Whether the accounting of that Slurm must answer at the beginning.
    kubernetes
        The Jobs of a Kubernetes cluster, which have begun this tenure; None without one.

    Raises
    ------
    SlurmError, KubernetesError
        If that Slurm or Kubernetes does not answer, or cannot do what is needed.
    """

    def __init__(
        self,
        replica: Replica,
        number: int,
        releaser: Releaser,
        watch: MachineWatch,
        telemetry: Telemetry,
        pace: Pace,
        *,
        leads: Callable[[], bool] = lambda: True,
        needs_history: bool = True,
        kubernetes: KubernetesJobs | None = None,
    ) -> None:
        self._replica = replica
        self._rows: ApplicationRows = replica.store.applications
        self.number = number
        self._releaser = releaser
        self._watch = watch
        self._telemetry = telemetry
        self._tables = TableSolver(beside=pace.tick_s > 0, set_load=telemetry.table_load.set)
        with replica.newest() as plan:
            self._plan: Plan = plan
            self._pool = MachinePool(plan.cluster)
            self._cluster: Cluster = plan.cluster
            self._follower = self._follower_of(plan)
        table = ExecutionTable(self._pool)
        of_pods = None if kubernetes is None else address
        peers = PeerBook(table, first=secrets.randbelow(len(PORTS)), address=of_pods)
        #: Runs of executors whose news the table has, until that is recorded.
        self._runs_taken: dict[str, RunRow] = {}
        self._logs_s, self._logs_at_s = pace.logs_s, 0.0
        self._slurm: SlurmFollower | None = None
        self._kubernetes, self._leads = kubernetes, leads
        self._backend: Backend
        if pace.slurm is not None:
            self._slurm = slurm_follower(
                pace.slurm, peers, number, replica, leads=leads, needs_history=needs_history
            )
            self._backend = self._slurm.backend
            self._backend.set_machines(self._pool.names, 0)
        elif pace.lease_s is not None:
            self._backend = ExecutorBackend(
                replica.store.runs,
                number,
                self._pool.names,
                run_document_of(peers),
                pace.lease_s,
                self._runs_taken,
                UNAVAILABLE,
                peers=peers,
            )
        elif kubernetes is not None:
            self._backend = kubernetes.backend(peers, leads, self._is_over, pace.logs_s)
            self._backend.set_machines(self._pool.names, 0)
        else:
            self._backend = InMemoryBackend(self._pool.names, run_ms=run_time_of(table))
        self._start_delays = StartDelays()
        self._promises = StoredLedger(replica.store)
        self._credits = CreditBook()
        self._late = LateStages()
        self._missed = MissedWork(lambda: ended_work(replica.store.applications))
        dispatcher = Dispatcher(options_of(self._cluster))
        self._loop = DispatchLoop(
            table, dispatcher, self._backend, self._start_delays, self._credits
        )
        self._close_on_end: set[str] = set()
        self._statuses: dict[str, bytes] = {}
        self._elastic: dict[str, ElasticUse] = {}
        self._last_cycle: Cycle | None = None
        self._table_kept, self._delays_kept = 0, NO_DELAY

    @property
    def has_looked(self) -> bool:
        """Whether the running work is known: Slurm or Kubernetes has been read."""
        if self._kubernetes is not None:
            return self._kubernetes.has_looked
        return self._slurm is None or self._slurm.backend.newest is not None

    def close(self) -> None:
        """Wait for the dispatch table that is being made."""
        self._tables.close()

    def submit(self, row: ApplicationRow, now_ms: int) -> None:
        """Take an application in, unless it is there already; `now_ms` is from the origin."""
        table = self._loop.table
        if table.get(row.id) is not None:
            return
        document = read_document(row.document)
        application = document.application
        if application.entitled_by is None:
            application = replace(application, reservation=None, atom=None)
        if document.close_on_end:
            self._close_on_end.add(row.id)
        self._elastic[row.id] = msgspec.json.decode(row.status, type=ElasticUse)
        execution = table.submit(
            row.id,
            application,
            row.submitted_ms,
            tenant=row.tenant,
            queue=document.queue,
            after=document.after,
            needs=document.needs,
        )
        execution.awaits_slot, execution.on_late = document.awaits_slot, document.on_late
        if execution.tasks is not None:
            execution.tasks.skip(document.done)
        execution.retries_used = msgspec.json.decode(row.status, type=_KnownRetries).retries
        self._settle_needs(document.needs, row.submitted_ms)
        self._backend.resume(table, execution)
        if application.reservation is not None:
            with self._replica.newest() as plan:
                self._credits.watch(execution, plan)
                execution.slot_began = _has_begun(plan, application, now_ms)
        self._tables.tables.count_arrival(application, row.submitted_ms)

    def _settle_needs(self, needs: Iterable[str], at_ms: int) -> None:
        """Settle the needs of an application that had ended before this tenure had it."""
        table = self._loop.table
        for need in needs:
            if table.get(need) is not None:
                continue
            row = self._rows.get(need)
            if row is None:
                table.settle_need(need, at_ms, f"{need} is no longer known")
            elif row.over:
                state = ExecutionState(row.state)
                reason = msgspec.json.decode(row.status).get("reason", "")
                done = state is ExecutionState.COMPLETED
                table.settle_need(need, at_ms, None if done else need_failure(need, state, reason))

    def end(self, id_: str, now_ms: int) -> None:
        """Stop an application that its owner wants ended."""
        execution = self._loop.table.get(id_)
        if execution is None or execution.is_over:
            return
        try:
            self._loop.table.kill(id_, now_ms, "its owner ended it")
        except TransitionError:
            logger.exception("%s cannot be ended", id_)

    def tick(self, now_ms: int) -> Cycle:
        """Run one cycle, write the changes, and report missed and unneeded slots to the Plan.

        Parameters
        ----------
        now_ms
            Now, in ms from the Plan's origin.

        Raises
        ------
        LeadershipLostError
            If another process leads by now; nothing was written.
        """
        directive = self._follow(now_ms)
        self._follow_in_slurm(now_ms)
        if self._kubernetes is not None:
            self._kubernetes.follow(now_ms, self.number, self._leads)
        cycle = self._loop.tick(directive)
        self._missed.observe(self._loop.table, now_ms)
        self._watch_machines(now_ms)
        self._tables.settle()
        self._keep_table(now_ms)
        self._keep_delays()
        short = shortfall(directive, self._loop.table)
        cycle = replace(cycle, below=cycle.below | short.unused)
        self._write(cycle)
        self._promises.observe(directive.at_ms, short.reservations)
        for time_ms in self._promises.ledger.take_ended(directive):
            self._telemetry.time_below.observe(time_ms / 1000)
        self._release_credits(now_ms)
        self._releaser.close_left(self.number)
        self._plan_missed(now_ms)
        self._follow_late(now_ms)
        return cycle

    def check(self) -> list[str]:
        """Return differences between the state kept between ticks and its sources, as texts.

        Executions with newer reports of the backend are omitted.
        """
        table = self._loop.table
        fresh = {execution.id for execution in table.pending.executions}
        there = {row.key: row.machine for row in self._backend.state().rows}
        held, ended = dict[Key, str](), set[Key]()
        for execution in table:
            for part in execution.parts:
                for one in part.held:
                    key = (execution.id, part.component.name, one.index)
                    held[key] = one.machine
                    if one.ended:  # some backends remember it until all of its replicas have ended
                        ended.add(key)
        known = (there.keys() | held.keys()) - ended
        wrong = {key for key in known if there.get(key) != held.get(key)}
        found = [
            f"{'/'.join(map(str, key))}: on {held.get(key)}, and the backend says {there.get(key)}"
            for key in sorted(wrong)
            if key[0] not in fresh
        ]
        return [*self._loop.dispatcher.check(), *found]

    def _keep_table(self, now_ms: int) -> None:
        """Record a new dispatch table, for every process to show."""
        if not self._cluster.dispatch.tables:
            return
        with self._replica.newest() as plan:
            version = self._tables.tables.table_at(plan, now_ms)[1]
        if version and version != self._table_kept:
            keep_table(self._replica.store, self._tables.tables, self._plan, now_ms)
            self._table_kept = version

    def _follow(self, now_ms: int) -> Directive:
        """Read the Plan, and follow it onto other machines and to another policy."""
        with self._replica.newest() as plan:
            policy = plan.cluster.dispatch
            if plan is not self._plan or policy.tables != self._cluster.dispatch.tables:
                self._plan = plan
                self._follower = self._follower_of(plan)
            if plan.cluster is not self._cluster:
                self._cluster = plan.cluster
                self._loop.dispatcher.set_options(options_of(plan.cluster))
                if not policy.tables:
                    self._telemetry.table_load.set(0.0)
            if plan.cluster.machines != self._pool.cluster.machines:
                self._pool = MachinePool(plan.cluster)
                self._backend.set_machines(self._pool.names, now_ms)
                move_to(self._loop.table, self._pool, now_ms)
            self._follower.delays = self._start_delays.table()
            directive = self._follower.follow(now_ms)
            if policy.tables:
                self._tables.follow(plan, now_ms)
            return directive

    def _keep_delays(self) -> None:
        """Record new start delays, for requests of every process to allow for."""
        learnt = in_seconds(self._follower.delays)
        if learnt.delays_ms and learnt != self._delays_kept:
            keep_delays(self._replica.store, learnt)
            self._delays_kept = learnt

    def _follow_in_slurm(self, now_ms: int) -> None:
        """Create the Plan's reservations in Slurm, and close those whose user jobs are done."""
        if self._slurm is None:
            return
        with self._replica.newest() as plan:
            self._slurm.read(plan, now_ms)
        for note in self._slurm.notes:
            self._releaser.report(note, self.number)
        if self._slurm.settings.logs and time.monotonic() >= self._logs_at_s:
            self._limit_logs(self._slurm.settings)
        for reservation in self._slurm.follow(now_ms):
            if not self._loop.table.of_reservation(reservation):
                self._releaser.close(reservation, self.number)

    def _limit_logs(self, settings: SlurmSettings) -> None:
        """Free output of Slurm's jobs, alongside the ticks: a shared folder may be slow."""

        def limit() -> None:
            try:
                limit_logs(settings, time.time() - self._logs_s, self._is_over)
            except Exception:
                logger.exception("the output of jobs could not be truncated; retrying later")
            self._logs_at_s = time.monotonic() + _LOGS_S

        self._logs_at_s = math.inf
        threading.Thread(target=limit, name="logs", daemon=True).start()

    def _is_over(self, id_: str) -> bool:
        execution = self._loop.table.get(id_)
        if execution is not None:
            return execution.is_over
        row = self._rows.get(id_)
        return row is None or row.over

    def _watch_machines(self, now_ms: int) -> None:
        """Report lost and returned machines to the Plan."""
        watched = self._kubernetes
        found = self._backend.machines() if watched is None else watched.machines
        if found is None:
            return
        reserved = None if self._slurm is None else self._slurm.foreign_spans
        taken = None if watched is None else watched.taken
        if self._watch.follow(found.lost, found.live, now_ms, reserved, taken):
            self._backend.welcome_back()

    def _follower_of(self, plan: Plan) -> PlanFollower:
        """Return a follower, with dispatch tables where the policy has them made."""
        return PlanFollower(plan, self._tables.tables if plan.cluster.dispatch.tables else None)

    def _release_credits(self, now_ms: int) -> None:
        """Release capacity that work above the entitlement has made unnecessary."""
        with self._replica.newest() as plan:
            due = self._credits.due(plan, now_ms)
        for change in due:
            self._releaser.release(change, self.number)

    def _plan_missed(self, now_ms: int) -> None:
        """Record slots that passed without their work as owed, if the running work is known."""
        if self._backend.is_silent:
            return
        with self._replica.newest() as plan:
            due = self._missed.due(plan, self._loop.table, now_ms, self._job_waits(now_ms))
            unused = self._missed.unused(plan, self._loop.table)
        for note in unused:
            logger.warning("%s: unused: %s", note.id, note.reason)
            self._telemetry.unused.inc()
            self._releaser.report(note, self.number)
        for change in due:
            logger.info("%s: %s", change.id, change.reason)
            self._releaser.miss(change, self.number)

    def _follow_late(self, now_ms: int) -> None:
        """Announce stages that are late; let those fail, or ask for more time, that should."""
        with self._replica.newest() as plan:
            found = self._late.observe(plan, self._loop.table, now_ms)
        for note in found.notes:
            logger.warning("%s: %s", note.id, note.reason)
            self._releaser.report(note, self.number)
        for id_, reason in found.failures:
            execution = self._loop.table.get(id_)
            if execution is not None and not execution.is_over:  # it may have failed with another
                self._loop.table.fail(id_, now_ms, reason)
        for extension in found.extensions:
            with self._replica.newest() as plan:
                command = extension_of(plan, extension)
            if command is not None:
                self._releaser.extend(command, extension)

    def _job_waits(self, now_ms: int) -> dict[str, JobWait]:
        """Return the reservations whose user jobs wait."""
        if self._kubernetes is not None:
            return self._kubernetes.waits(now_ms)
        slurm = self._slurm
        if slurm is None:
            return {}
        return {
            id_: JobWait(slurm.plan_ms(one.submitted_s), one.may_run, slurm.seen_ms, one.reason)
            for id_, one in slurm.waits.items()
        }

    def _write(self, cycle: Cycle) -> None:
        """Write changes since the last tick, and drop ended executions."""
        table = self._loop.table
        changed = table.take_news()
        statuses = self._changed_statuses(changed, cycle.at_ms)
        taken = list(self._runs_taken.values())
        settle = partial(settle_news, taken=taken) if taken else None
        if not statuses and settle is None and not self._shows_more(cycle):
            return
        try:
            decided = self._loop.dispatcher
            assignment = assignment_of(
                table,
                cycle,
                self._cluster.dispatch,
                decided.running_by_class(),
                decided.quota_use(),
            )
            self._rows.write(self.number, statuses, assignment, settle)
        except UNAVAILABLE:  # all of it is written again, by the next tick that can
            self._last_cycle = None
            for execution in changed:
                self._statuses.pop(execution.id, None)
                table.note(execution)
            raise
        self._last_cycle = cycle
        self._runs_taken.clear()
        self._telemetry.set_used(used_by_group(_held_on(table), self._cluster))
        for execution in filter(_is_forgettable, changed):
            table.forget(execution.id)
            self._statuses.pop(execution.id, None)
            self._elastic.pop(execution.id, None)
            self._close_reservation(execution)

    def _changed_statuses(self, changed: Iterable[Execution], at_ms: int) -> list[StatusRow]:
        """Return the rows of the executions whose status differs from the last write."""
        rows: list[StatusRow] = []
        for execution in changed:
            use = self._elastic.setdefault(execution.id, ElasticUse())
            use.observe(at_ms, elastic_millicores(execution))
            status = msgspec.json.encode(status_of(execution) | msgspec.to_builtins(use))
            if self._statuses.get(execution.id) != status:
                self._statuses[execution.id] = status
                over = execution.state in FINAL_EXECUTION_STATES
                rows.append(StatusRow(execution.id, execution.state.value, over, status))
        return rows

    def _shows_more(self, cycle: Cycle) -> bool:
        """Return whether a cycle's assignment is not the one that was written last."""
        last = self._last_cycle
        return (
            last is None
            or bool(cycle.deltas)
            or last.below != cycle.below
            or (last.plan_version, last.table_version) != (cycle.plan_version, cycle.table_version)
        )

    def _close_reservation(self, execution: Execution) -> None:
        """Release the rest of a reservation whose work is done, where its owner wants that."""
        reservation = execution.application.reservation
        wanted = execution.id in self._close_on_end
        self._close_on_end.discard(execution.id)
        if reservation is None or not wanted or self._loop.table.of_reservation(reservation):
            return
        if execution.state is ExecutionState.COMPLETED and self._all_succeeded(reservation):
            self._releaser.close(reservation, self.number)

    def _all_succeeded(self, pipeline: str) -> bool:
        """Return whether the last attempt of every stage has; also True if it is no pipeline."""
        last: dict[str, str] = {}
        for row in self._rows.of_pipeline(pipeline, 0, 0):
            last[read_document(row.document).application.name] = row.state
        return set(last.values()) <= {ExecutionState.COMPLETED.value}


class _KnownRetries(msgspec.Struct):
    """The key of a stored status that counts the restarts of an application."""

    retries: int = 0


def _has_begun(plan: Plan, application: Application, now_ms: int) -> bool:
    """Return whether a slot of the atom that an application names has begun."""
    number = plan.table.number_of(application.reservation or "")
    if number is None:
        return False
    now = now_ms // plan.grid.step_ms
    return any(
        application.atom is None or names_atom(path, application.atom)
        for atom in plan.table.holding(number).atoms
        for path, rows in atom.occurrences()
        if (rows[:, 0] <= now).any()
    )


def _held_on(table: ExecutionTable) -> Iterator[tuple[Mapping[str, int], str]]:
    """Yield each placed component's use of its machine, and the machine."""
    for execution in table:
        for part in execution.parts:
            for held in part.held:
                yield part.component.resources, held.machine


def _is_forgettable(execution: Execution) -> bool:
    return execution.state in FINAL_EXECUTION_STATES and not execution.holds


def run_time_of(table: ExecutionTable) -> Callable[[Delta], int | None]:
    """Return how long the in-memory backend lets a component run: cores of batch, their size."""

    def run_ms(delta: Delta) -> int | None:
        execution = table.get(delta.execution)
        if execution is None or execution.application.kind is not Kind.BATCH:
            return None
        core = any(
            part.component.core and part.component.name == delta.component
            for part in execution.parts
        )
        size_ms, tasks = execution.application.size_ms, execution.application.tasks
        if tasks and size_ms is not None:
            return max(1, size_ms * sum(part.component.count for part in execution.parts) // tasks)
        return size_ms if core else None

    return run_ms
