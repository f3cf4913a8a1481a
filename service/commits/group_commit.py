"""GroupCommit: carries out waiting jobs in one durable commit, and answers them.

`commit_group` consists of numbered steps. If another process appended first, steps 3 to 6 are
repeated; changes that then no longer fit go through all steps again. A small group that others may
join waits for this process's turn to append before step 1, and includes the jobs that arrived
meanwhile, so that a commit has all waiting jobs instead of the first ones.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Final, TypeAlias

from dispatch.accounts.promises import ended_between, outcomes_in
from planner.agent import Limits
from planner.offer_search import OfferSearch
from planner.placement import MACHINES, Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Conflict, Prepared
from planner.plan.records.commit_records import CommitRecord, RecordedChange
from planner.plan.records.reservation_records import Admitted, Refused
from rdl.oracle.satisfaction import Violation
from rdl.time_grid import TimeGrid
from service.clock import Clock
from service.commits.answers import (
    add_offers,
    admitted_answers,
    changed_answer,
    companions_of,
    name_version,
    note_conflicts,
    search_for,
)
from service.commits.cluster_changes import try_cluster
from service.commits.commands import Answer, Command, Reconfiguration, is_quick_agent
from service.commits.displacement import DisplacementCases, Displacer, displacement_cases
from service.commits.job import Group, Job, PendingChange, conflict_answer, record_changes
from service.commits.lane import Join
from service.commits.records import CommitChurn, audit_rows, churn_of, first_violation
from service.commits.replica import Replica
from service.commits.screening import place, refuse_for_machines, screen_changes
from service.config import ServiceConfig
from service.host.precedence import TurnPrecedence
from service.metrics import Telemetry
from service.problems import ProblemDocument
from service.store import AuditRow, CommitRow
from service.store.promise_ledger import times_below

logger = logging.getLogger("agenda.service")

#: Lock that allows one caller of this process at a time to search without committing.
Turn: TypeAlias = Callable[[], AbstractContextManager[None]]

#: Number of attempts to place a change that no longer fits before the answer is ``conflict``.
_ROUNDS: Final = 8

#: Conflicts that another placement may avoid.
_WORTH_ANOTHER_ROUND: Final = frozenset(
    {Code.CAPACITY, Code.CAPACITY_OVER_TIME, Code.QUOTA, Code.CONFLICT, Code.COUNT_LIMIT}
)

#: Most requests placed while other processes wait.
_FEW: Final = 64

_BROKEN: Final = "the placement does not satisfy the request; nothing was changed"

_MOVED_ON: Final = "time has passed since it was placed, and it needs more now"


@dataclass(slots=True)
class _Commit:
    """Result of a group on the newest version of the Plan, ready to be appended.

    Attributes
    ----------
    pending
        The open changes, in the order of the prepared ones.
    answers
        Answers known before the commit.
    grid, max_period_ms
        Of the Plan, for the oracle.
    """

    pending: list[PendingChange]
    prepared: Prepared
    answers: list[tuple[PendingChange, Answer]]
    churn: CommitChurn | None
    audited: list[AuditRow]
    grid: TimeGrid
    max_period_ms: int

    @property
    def record(self) -> CommitRecord:
        """The record to append."""
        assert self.prepared.record is not None
        return self.prepared.record

    def is_void(self, group: Group, *, last: bool) -> bool:
        """Return whether there is nothing to append in this round."""
        if self.prepared.record is None:
            return True
        return group.is_alone and bool(self.prepared.conflicts) and not last


class GroupCommit:
    """Carries out jobs, one group at a time; only one thread calls it.

    Parameters
    ----------
    rounds
        Number of attempts to place a change that no longer fits before the answer is ``conflict``.
    hand_on
        Receives a job that may displace others; None if this thread searches for it.
    is_stopping
        Returns whether no more searches for reservations to displace should begin.

    Attributes
    ----------
    displacer
        Searches for reservations to displace.
    precedence
        Held during its turn to append.
    """

    def __init__(
        self,
        config: ServiceConfig,
        replica: Replica,
        clock: Clock,
        telemetry: Telemetry,
        *,
        rounds: int = _ROUNDS,
        hand_on: Callable[[Job], None] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._rounds = rounds
        self._config = config
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry
        self._hand_on = hand_on
        self.displacer = Displacer(
            replica, clock, self._note_commit, config.plan_timeout_s / 2, is_stopping
        )
        self.precedence = TurnPrecedence()

    def run(self, jobs: list[Job], join: Join | None = None) -> None:
        """Carry out jobs together.

        Afterwards each job is finished, or passed to the lane that searches for reservations to
        displace. A job that must be `alone` is passed alone.

        Parameters
        ----------
        join
            Adds jobs that have arrived since; None if other jobs must not wait for these.
        """
        began = time.perf_counter()
        with ExitStack() as turn:
            in_turn = join is not None and _are_few(jobs)
            if join is not None and in_turn:
                turn.enter_context(self._replica.store.turn())
                turn.enter_context(self.precedence.held())
                join(jobs)
            started = time.perf_counter()
            for job in jobs:
                self._telemetry.wait.observe(started - job.arrived)
            fresh = [job for job in jobs if not self._answer_again(job)]
            self.move_to_now()
            group = Group(fresh)
            for one in group.open() if group.is_alone else ():
                if isinstance(one.command, Reconfiguration):
                    one.answer = try_cluster(self._replica, one.command.cluster)
            group.finish()
            self.commit_group(group, turn, in_turn=in_turn)
        self._replica.keep_snapshot_if_due(self._clock.now_ms())
        self._telemetry.busy.inc(time.perf_counter() - began)

    def go_on(self, job: Job) -> None:
        """Carry out a job that another lane began; it is finished when this returns."""
        group = Group([job])
        self._forget_known(group)
        self.move_to_now()
        with ExitStack() as turn:
            self.commit_group(group, turn, in_turn=False)

    def commit_group(self, group: Group, turn: ExitStack, *, in_turn: bool) -> None:
        """Carry out a group; afterwards each of its jobs is finished, or passed on.

        Parameters
        ----------
        turn
            Closed when this process's turn to append ends.
        in_turn
            Whether the turn has been held since before the group was screened.
        """
        newest, present = self._replica.newest, self._replica.locked
        rounds = self._rounds
        while rounds and group.open():
            rounds -= 1
            # 1. Screen: decide the changes that need no agent.
            with newest() as plan:
                for one in group.open():
                    one.begin_round()
                waiting = screen_changes(group.open(), plan)
                view, based_on = plan.snapshot(), plan.version
            # 2. Place the rest, on a snapshot, without a lock.
            place(waiting, view, self.limits_of)
            del view  # a remaining view would make the next commit copy the profile
            group.settle()
            while True:
                # 3. Prepare on the newest version. If the turn has been held since the Plan was
                # read, the Plan has not changed.
                if not in_turn:
                    turn.enter_context(self._replica.store.turn())
                with present() if in_turn else newest() as plan:
                    found = self._prepare(group, plan, based_on)
                if isinstance(found, _Commit):
                    self._telemetry.conflicts.inc(note_conflicts(found.prepared, found.pending))
                    if found.is_void(group, last=not rounds):
                        break
                    # 4. Verify it with the oracle. 5. Append it with the answers to store; the turn
                    # ends when it is on disk.
                    if self._satisfies(group, found) and self._append(group, found, turn.close):
                        # 6. It is applied: answer.
                        self._answer(group, found)
                        break
                turn.close()
                in_turn = False
                if isinstance(found, DisplacementCases):
                    self._displace(group, found)
                elif isinstance(found, OfferSearch):
                    add_offers(group.open(), found)
                self._forget_known(group)
            turn.close()
            in_turn = False
            self._give_up(group, last=not rounds)
            group.finish()

    def rehearse(self, command: Command, displace_turn: Turn = nullcontext) -> tuple[Answer, ...]:
        """Return the answers that `command` would get now, without a change; thread-safe.

        Parameters
        ----------
        displace_turn
            Held during the search for reservations to displace.
        """
        group = Group([Job(command)])
        with self._replica.newest() as plan:
            waiting = screen_changes(group.changes(), plan)
            view, version = plan.snapshot(), plan.version
        place(waiting, view, self.limits_of)
        group.settle()
        while True:
            with self._replica.locked() as plan:
                pending, prepared = self._try(group, plan, version)
                cases = displacement_cases(group.changes(), plan)
                search = (
                    None
                    if cases
                    else search_for(pending, prepared, plan, self._config.offer_s, dry_run=True)
                )
                answers = admitted_answers(prepared, pending, plan)
            if cases:
                with displace_turn():
                    self.displacer.rehearse(cases)
            elif search is None:
                break
            else:
                add_offers(pending, search)
        note_conflicts(prepared, pending)
        for one, answer in answers:
            one.answer = answer
        for one in pending:
            if one.conflict is not None:
                one.answer = conflict_answer(one)
        group.settle()
        return tuple(one.answer or conflict_answer(one) for one in group.changes())

    def limits_of(self, agent: str) -> Limits:
        """Return the limits of an agent: a quick one answers a whole batch."""
        return Limits() if is_quick_agent(agent) else Limits(time_s=self._config.agent_s)

    def move_to_now(self) -> None:
        """Advance the Plan to the clock's step, unless another process has done so.

        This takes a turn like every append: the adapter holds one while it computes a repair that
        no other commit may overtake.
        """
        while True:
            at_ms = self._replica.plan_ms(self._clock.now_ms())
            with self._replica.locked() as plan:
                step_ms = plan.grid.step_ms
                now_step = at_ms // step_ms
                if now_step <= plan.now:
                    return
            with self._replica.store.turn():
                with self._replica.newest() as plan:
                    if now_step <= plan.now:
                        return
                    horizon = now_step + plan.cluster.horizon_ms // step_ms
                    prepared = plan.prepare([Advance(now_step, horizon)], plan.version, at_ms=at_ms)
                    before = plan.now
                if prepared.record is None:
                    raise RuntimeError(f"the Plan cannot advance: {prepared.conflicts[0].detail}")
                is_done = self._replica.commit(prepared.record, self._clock.now_ms())
            if is_done:
                self._count_ended(before, now_step, at_ms)
                return

    def _count_ended(self, first: int, last: int, now_ms: int) -> None:
        """Count the outcomes of the promises that ended between two steps."""
        with self._replica.locked() as plan:
            if not len(ended_between(plan, first, last)):
                return
        below_ms = times_below(self._replica.store, now_ms)
        with self._replica.locked() as plan:
            ended = ended_between(plan, first, last)
            outcomes = outcomes_in(plan, now_ms, lambda id_: below_ms.get(id_, 0), ended)
        self._telemetry.count_ended(outcomes.values())

    def _forget_known(self, group: Group) -> None:
        """Finish and drop the jobs whose keys were answered meanwhile."""
        group.jobs = [job for job in group.jobs if not self._answer_again(job)]

    def _answer_again(self, job: Job) -> bool:
        """Finish a job whose key has been answered."""
        if job.keyed is None:
            return False
        job.stored = self._replica.store.answer(job.keyed.key.text)
        if job.stored is None:
            return False
        job.finished.set()
        return True

    def _prepare(
        self, group: Group, plan: Plan, based_on: int
    ) -> _Commit | OfferSearch | DisplacementCases:
        """Return the result of a group on a Plan, whose lock the caller holds.

        If refused requests may displace others, return these cases instead; if refusals still lack
        offers, return the search for offers.
        """
        name_version(group.open(), plan.version + 1)
        at_ms = self._replica.plan_ms(self._clock.now_ms())
        pending, prepared = self._try(group, plan, based_on, at_ms)
        cases = displacement_cases(group.changes(), plan)
        if cases:
            return cases
        search = search_for(pending, prepared, plan, self._config.offer_s)
        if search is not None:
            return search
        record, audited = prepared.record, list[AuditRow]()
        if record is not None:
            made = ((one.job.actor, change) for one, change in record_changes(prepared, pending))
            audited = audit_rows(made, plan, record.version, self._clock.now_ms())
        return _Commit(
            pending,
            prepared,
            admitted_answers(prepared, pending, plan),
            None if record is None else churn_of(record, plan),
            audited,
            plan.grid,
            plan.cluster.max_period_ms,
        )

    @staticmethod
    def _try(
        group: Group, plan: Plan, based_on: int, at_ms: int = 0
    ) -> tuple[list[PendingChange], Prepared]:
        """Return the open changes and their result; changes without machines are refused."""
        while True:
            pending = [one for one in group.open() if one.change is not None]
            changes = [one.change for one in pending if one.change is not None]
            prepared = plan.prepare(changes, based_on, atomic=group.is_atomic, at_ms=at_ms)
            if not refuse_for_machines(pending, prepared):
                return pending, prepared
            group.settle()

    def _displace(self, group: Group, cases: DisplacementCases) -> None:
        """Answer the cases of displacement, or pass their jobs to the lane for it."""
        if self._hand_on is None:
            self.displacer.run(group, cases)
            return
        for job in cases.jobs():
            if job.is_partly_granted:
                # The lane may have no place for it, and the granted part must be answered: the rest
                # stays refused.
                cases.skip(job)
            else:
                group.hand_on(job)
                self._hand_on(job)

    def _satisfies(self, group: Group, commit: _Commit) -> bool:
        """Return whether each placement satisfies its request; reject one that does not."""
        # Of several changes of one id the record has one: check it against that change's request.
        carried = record_changes(commit.prepared, commit.pending)
        asked = [one for one, _ in carried if one.ask is not None]
        requests = {one.request.id: one.request for one in asked}
        broken = first_violation(commit.record, requests, commit.grid, commit.max_period_ms)
        if broken is not None:
            self._reject(group, asked, *broken, commit.grid)
        return broken is None

    @staticmethod
    def _reject(
        group: Group,
        asked: Sequence[PendingChange],
        id_: str,
        violation: Violation,
        grid: TimeGrid,
    ) -> None:
        """Reject a placement that violates its request; if time has advanced, it is a conflict."""
        broken = [one for one in asked if one.request.id == id_]
        if all(one.request.graph.grid != grid for one in broken):
            for one in asked if group.is_atomic else broken:
                one.change = None
                one.conflict = Conflict(0, id_, Code.CONFLICT, _MOVED_ON)
            return
        logger.error("the oracle rejects the placement of %s: %s", id_, violation)
        for one in broken:
            one.answer = ProblemDocument("internal", _BROKEN)
        group.settle()

    def _append(self, group: Group, commit: _Commit, durable: Callable[[], None]) -> bool:
        """Append a record with the answers to store, and apply it; False if it came too late."""
        clock_ms = self._clock.now_ms()
        kept: list[CommitRow] = [
            *group.rows_to_keep(commit.answers, clock_ms),
            *companions_of(commit.prepared, commit.pending),
            *commit.audited,
        ]
        for job in group.jobs:
            job.is_attempted = True
        began = time.perf_counter()
        record, takings = commit.record, commit.prepared.takings
        if not self._replica.commit(record, clock_ms, kept, takings, group.tenure, durable):
            self._telemetry.lost_races.inc()
            return False
        self._telemetry.commit.observe(time.perf_counter() - began)
        self._telemetry.churn.inc(0.0 if commit.churn is None else commit.churn.seconds())
        self._note_commit(record)
        return True

    def _answer(self, group: Group, commit: _Commit) -> None:
        """Answer the changes of an applied record."""
        for one, answer in commit.answers:
            one.answer = answer
        with self._replica.locked() as plan:
            for one in group.open():
                if one.change is not None and one.conflict is None:
                    one.answer = changed_answer(one, plan, plan.version)

    @staticmethod
    def _give_up(group: Group, *, last: bool) -> None:
        """Answer the changes that another placement would not help."""
        hopeless = [
            one
            for one in group.open()
            if last or not _is_worth_another_round(one.conflict, atomic=group.is_atomic)
        ]
        for one in hopeless:
            one.answer = conflict_answer(one)
        group.settle()

    def _note_commit(self, record: CommitRecord) -> None:
        self._telemetry.commits.inc()
        self._telemetry.group_size.observe(len(record.changes))
        with self._replica.locked() as plan:  # another thread may have appended meanwhile
            self._telemetry.version.set(plan.version)
        levels = Counter(one.promise for one in record.changes if isinstance(one, Admitted))
        for level, count in levels.items():
            self._telemetry.admitted.labels(level.value).inc(count)
        for kind, count in Counter(change.op for change in record.changes).items():
            self._telemetry.changes.labels(kind).inc(count)
        self._telemetry.without_machines.inc(sum(map(_lacks_machines, record.changes)))


def _are_few(jobs: Sequence[Job]) -> bool:
    """Return whether other processes may wait while these jobs are placed."""
    return sum(job.size for job in jobs) <= _FEW and not jobs[0].needs_own_record


def _lacks_machines(change: RecordedChange) -> bool:
    """Return whether a change refuses a request only for lack of machines."""
    binding = change.refusal.binding if isinstance(change, Refused) else None
    return binding is not None and binding.kind == MACHINES


def _is_worth_another_round(conflict: Conflict | None, *, atomic: bool) -> bool:
    if conflict is not None and conflict.code == Code.DUPLICATE_ID:
        # The second of two in one commit may be the same request, which is not a conflict.
        return not atomic
    return conflict is None or conflict.code in _WORTH_ANOTHER_ROUND
