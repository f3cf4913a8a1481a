"""GroupCommit: from the jobs that wait to one durable commit, and their answers.

A group goes round these steps: 1 screen what needs no agent, 2 place the rest (agents, on a
snapshot, no lock), 3 prepare on the newest version, 4 hold against the oracle, 5 append with the
answers to remember, 6 apply and answer. When another process appended first, 3 to 5 are repeated;
what then no longer fits goes round again from 1.

A small group that others may join waits for this process's turn to append before step 1, and takes
along who came meanwhile: then a commit carries all who wait instead of those who came first.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

from dispatch.accounts.promises import ended_between, outcomes_in
from planner.agent import Limits
from planner.offers.search import OfferSearch
from planner.placement import MACHINES, Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Change, Conflict, Prepared
from planner.plan.records.commit_records import CommitRecord, RecordedChange
from planner.plan.records.reservation_records import Admitted, Refused
from rdl.oracle.satisfaction import Violation
from rdl.time_grid import TimeGrid
from service.access.actor import SERVER, Actor
from service.clock import Clock
from service.commits.answers.idempotency import recall
from service.commits.answers.outcomes import (
    admitted_answers,
    changed_answer,
    companions_of,
    conflict_answer,
    note_conflicts,
)
from service.commits.answers.refusal_offers import (
    add_offers,
    name_version,
    search_for,
)
from service.commits.auditing import audit_rows
from service.commits.changes.commands import (
    Admission,
    Answer,
    Command,
    QueuedChange,
    Reconfiguration,
    is_quick_agent,
)
from service.commits.changes.pending import (
    PendingChange,
    open_changes,
    pending_changes_of,
    record_changes,
)
from service.commits.churn import CommitChurn, churn_of
from service.commits.displacement_cases import (
    PendingDisplacements,
    SearchLane,
    pending_displacements,
)
from service.commits.displacer import Displacer, note_trial
from service.commits.group import Group, spoil
from service.commits.oracle_check import first_violation
from service.commits.precedence import TurnPrecedence
from service.commits.screening.placing import place, refuse_for_machines, screen_changes
from service.config import ServiceConfig
from service.metrics import Telemetry
from service.problems import ProblemDocument
from service.replication.cluster_trial import try_cluster
from service.replication.replica import Replica
from service.store import AuditRow, CommitRow
from service.store.promise_ledger import times_below

logger = logging.getLogger("agenda.service")

#: How often a change that no longer fits is placed again before it is answered ``conflict``.
_ROUNDS = 8

#: Conflicts that another placement may get round.
_WORTH_ANOTHER_ROUND = frozenset(
    {Code.CAPACITY, Code.CAPACITY_OVER_TIME, Code.QUOTA, Code.CONFLICT, Code.COUNT_LIMIT}
)

#: Most requests that are placed while other processes wait.
_FEW = 64

_BROKEN = "the placement does not satisfy the request; nothing was changed"

_MOVED_ON = "time has moved on since it was placed, and it asks for more now"


class GroupCommit:
    """Carries out jobs, one group at a time; only one thread calls it.

    Parameters
    ----------
    rounds
        How often a change that no longer fits is placed again before it is answered ``conflict``.
    displacements
        The lane that searches whom refused changes may displace; None: this thread does.
    is_stopping
        Whether no more searches whom to displace are to begin.

    Attributes
    ----------
    attempts
        How often it has begun to make a record durable.
    precedence
        Held in its turn to append.
    """

    def __init__(
        self,
        config: ServiceConfig,
        replica: Replica,
        clock: Clock,
        telemetry: Telemetry,
        *,
        rounds: int = _ROUNDS,
        displacements: SearchLane | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._rounds = rounds
        self._config = config
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry
        self._displacer = Displacer(
            replica, clock, self._note_commit, config.plan_timeout_s / 2, is_stopping
        )
        self._displacements = displacements
        self.attempts = 0
        self.precedence = TurnPrecedence()

    def run(
        self, jobs: list[QueuedChange], join: Callable[[list[QueuedChange]], None] | None = None
    ) -> None:
        """Carry out jobs together.

        When this returns each is finished, or goes on in the lane that searches whom to displace
        (`goes_on`). A job that must be `alone` comes by itself.

        Parameters
        ----------
        join
            Adds to the jobs those who have come since; None where others must not wait for them.
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
            self._try_cluster(group)
            self._carry_out(group, turn, in_turn=in_turn)
        self._replica.keep_snapshot_if_due(self._clock.now_ms())
        self._telemetry.busy.inc(time.perf_counter() - began)

    def go_on(self, group: Group) -> None:
        """Carry out what another lane began with; each job is finished when this returns."""
        self._forget_known(group)
        self.move_to_now()
        with ExitStack() as turn:
            self._carry_out(group, turn, in_turn=False)

    def _carry_out(self, group: Group, turn: ExitStack, *, in_turn: bool) -> None:
        for attempt in range(self._rounds):
            if group.open():
                self._round(group, turn, last=attempt == self._rounds - 1, in_turn=in_turn)
                turn.close()
                in_turn = False
                group.finish_jobs()

    def rehearse(self, command: Command) -> tuple[Answer, ...]:
        """Return what `command` would be answered now; nothing is changed. Any thread may ask."""
        drafts = pending_changes_of(command)
        atomic = isinstance(command, Admission) and command.atomic
        with self._replica.newest() as plan:
            screened = screen_changes(drafts, plan)
            version = plan.version
        place(screened, self.limits_of)
        if atomic:
            spoil(drafts)
        self._rehearse(drafts, version, atomic=atomic)
        return tuple(draft.answer or conflict_answer(draft) for draft in drafts)

    def _rehearse(self, drafts: Sequence[PendingChange], version: int, *, atomic: bool) -> None:
        """Answer placed drafts as if they were committed."""
        while True:
            with self._replica.locked() as plan:
                pending, prepared = self._prepare(drafts, plan, version, atomic=atomic)
                displacements = pending_displacements(drafts, plan)
                search = (
                    None
                    if displacements
                    else search_for(pending, prepared, plan, self._config.offer_s, dry_run=True)
                )
                answers = admitted_answers(prepared, pending, plan)
            if displacements:
                with nullcontext() if self._displacements is None else self._displacements.turn():
                    self._displacer.rehearse(displacements)
            elif search is None:
                break
            else:
                add_offers(pending, search)
        note_conflicts(prepared, pending)
        for draft, answer in answers:
            draft.answer = answer
        for draft in pending:
            if draft.conflict is not None:
                draft.answer = conflict_answer(draft)
        if atomic:
            spoil(drafts)

    def _prepare(
        self,
        drafts: Sequence[PendingChange],
        plan: Plan,
        based_on: int,
        *,
        atomic: bool,
        at_ms: int = 0,
    ) -> tuple[list[PendingChange], Prepared]:
        """Return the open drafts and what they come to; those without machines are refused."""
        while True:
            pending = [draft for draft in open_changes(drafts) if draft.change is not None]
            prepared = plan.prepare(_changes(pending), based_on, atomic=atomic, at_ms=at_ms)
            if not refuse_for_machines(pending, prepared):
                return pending, prepared
            if atomic:
                spoil(drafts)

    def move_to_now(self) -> None:
        """Advance the Plan to the clock's step, unless another process has done so."""
        while True:
            at_ms = self._replica.plan_ms(self._clock.now_ms())
            with self._replica.locked() as plan:
                step_ms = plan.grid.step_ms
                now_step = at_ms // step_ms
                if now_step <= plan.now:
                    return
            with self._replica.newest() as plan:
                if now_step <= plan.now:
                    return
                horizon = now_step + plan.cluster.horizon_ms // step_ms
                prepared = plan.prepare([Advance(now_step, horizon)], plan.version, at_ms=at_ms)
                before = plan.now
            if prepared.record is None:
                raise RuntimeError(f"the Plan cannot advance: {prepared.conflicts[0].detail}")
            if self._replica.commit(prepared.record, self._clock.now_ms()):
                self._count_ended(before, now_step, at_ms)
                return

    def _count_ended(self, first: int, last: int, now_ms: int) -> None:
        """Count what became of the promises that ended from one step to another."""
        with self._replica.locked() as plan:
            if not len(ended_between(plan, first, last)):
                return
        below_ms = times_below(self._replica.store, now_ms)
        with self._replica.locked() as plan:
            ended = ended_between(plan, first, last)
            outcomes = outcomes_in(plan, now_ms, lambda id_: below_ms.get(id_, 0), ended)
        self._telemetry.count_ended(outcomes.values())

    def limits_of(self, agent: str) -> Limits:
        """Return how long an agent may take: a quick one answers a whole batch."""
        return Limits() if is_quick_agent(agent) else Limits(time_s=self._config.agent_s)

    def _forget_known(self, group: Group) -> None:
        """Finish and drop the jobs whose keys were answered meanwhile."""
        for job in group.jobs_with_keys():
            if self._answer_again(job):
                group.forget(job)

    def _answer_again(self, job: QueuedChange) -> bool:
        """Finish a job whose key was answered before."""
        job.response = None if job.key is None else recall(self._replica.store, job.key)
        if job.response is None:
            return False
        job.finished.set()
        return True

    def _try_cluster(self, group: Group) -> None:
        """Answer a change of the cluster that a copy of the Plan cannot take."""
        for draft in group.open() if group.alone else ():
            if isinstance(draft.command, Reconfiguration):
                draft.answer = try_cluster(self._replica, draft.command.cluster)
        group.finish_jobs()

    def _round(self, group: Group, turn: ExitStack, *, last: bool, in_turn: bool) -> None:
        """Screen, place and commit what is open; what is in conflict stays so.

        `turn` is given back where the work gets long; `in_turn` tells whether it is held.
        """
        drafts = group.open()
        for draft in drafts:
            draft.change = draft.conflict = draft.refusal = draft.search_version = None
        with self._replica.newest() as plan:
            screened = screen_changes(drafts, plan)
            based_on = plan.version
        place(screened, self.limits_of)
        del screened  # a view that lives on would make the next commit copy the profile
        if group.atomic:
            spoil(drafts)
        self._append(group, turn, based_on, last=last, in_turn=in_turn)
        hopeless = [
            d
            for d in group.open()
            if last or not _worth_another_round(d.conflict, atomic=group.atomic)
        ]
        for draft in hopeless:
            draft.answer = conflict_answer(draft)
        if group.atomic:
            spoil([*hopeless, *group.open()])

    def _append(
        self, group: Group, turn: ExitStack, based_on: int, *, last: bool, in_turn: bool
    ) -> None:
        """Commit what can be committed, again until no other process was faster."""
        # In a turn that has been held since the Plan was looked at, it has not changed.
        look = self._replica.locked if in_turn else self._replica.newest
        while True:
            if not in_turn:
                turn.enter_context(self._replica.store.turn())
            search = self._append_once(group, based_on, look, turn, last=last)
            turn.close()
            look, in_turn = self._replica.newest, False
            if search is True:
                return
            if isinstance(search, PendingDisplacements):
                self._displace(group, search)
            if isinstance(search, OfferSearch):
                add_offers(group.open(), search)
            self._forget_known(group)

    def _displace(self, group: Group, cases: PendingDisplacements) -> None:
        """Answer what displaces others, or let its jobs go on where nobody waits for the search."""
        if self._displacements is None:
            self._displacer.run(group, cases)
            return
        for job in cases.jobs():
            if group.stands_in_part(job):
                # The lane may have no place for it, and what stands is to be told: the rest stays
                # refused.
                note_trial([draft for case in cases for draft in case if draft.job is job])
            else:
                self._displacements.put(group.part(job))

    def _append_once(
        self,
        group: Group,
        based_on: int,
        look: Callable[[], AbstractContextManager[Plan]],
        turn: ExitStack,
        *,
        last: bool,
    ) -> bool | OfferSearch | PendingDisplacements:
        """Prepare on the version that `look` holds, hold it against the oracle, append.

        False: try again. The turn is given back once the record is on disk: other processes go on
        while this one applies it.

        Where refused requests may displace others, nothing is appended and they are returned;
        where refusals still lack offers, their search is.
        """
        at_ms = self._replica.plan_ms(self._clock.now_ms())
        with look() as plan:
            name_version(group.open(), plan.version + 1)
            pending, prepared = self._prepare(
                group.open(), plan, based_on, atomic=group.atomic, at_ms=at_ms
            )
            displacements = pending_displacements(group.drafts(), plan)
            if displacements:
                return displacements
            search = search_for(pending, prepared, plan, self._config.offer_s)
            if search is not None:
                return search
            answers = admitted_answers(prepared, pending, plan)
            grid, max_period_ms = plan.grid, plan.cluster.max_period_ms
            churn = None if prepared.record is None else churn_of(prepared.record, plan)
            audited = self._audit_rows(prepared, pending, plan)
        self._telemetry.conflicts.inc(note_conflicts(prepared, pending))
        record = prepared.record
        if record is None or (group.alone and prepared.conflicts and not last):
            return True
        # Of several drafts of one id the record carries one: that one's request is the judge.
        asked = [draft for draft, _ in record_changes(prepared, pending) if draft.ask is not None]
        requests = {draft.request.id: draft.request for draft in asked}
        broken = first_violation(record, requests, grid, max_period_ms)
        if broken is not None:
            id_, violation = broken
            self._reject(group, asked, id_, violation, grid)
            return False
        return self._commit(group, prepared, answers, churn, audited, turn.close)

    @staticmethod
    def _reject(
        group: Group, asked: Sequence[PendingChange], id_: str, violation: Violation, grid: TimeGrid
    ) -> None:
        """Answer a placement that breaks its request; one made before time moved on is no fault."""
        broken = [draft for draft in asked if draft.request.id == id_]
        if all(draft.request.graph.grid != grid for draft in broken):
            for draft in asked if group.atomic else broken:
                draft.change = None
                draft.conflict = Conflict(0, id_, Code.CONFLICT, _MOVED_ON)
            return
        logger.error("the oracle rejects the placement of %s: %s", id_, violation)
        for draft in broken:
            draft.answer = ProblemDocument("internal", _BROKEN)
        if group.atomic:
            spoil(asked)

    def _audit_rows(
        self, prepared: Prepared, pending: Sequence[PendingChange], plan: Plan
    ) -> list[AuditRow]:
        """Return what the audit says of a record's changes."""
        if prepared.record is None:
            return []
        made = ((_actor_of(draft), change) for draft, change in record_changes(prepared, pending))
        return audit_rows(made, plan, prepared.record.version, self._clock.now_ms())

    def _commit(
        self,
        group: Group,
        prepared: Prepared,
        answers: list[tuple[PendingChange, Answer]],
        churn: CommitChurn | None,
        audited: Sequence[AuditRow],
        durable: Callable[[], None],
    ) -> bool:
        """Append the record with the answers to remember, apply it, and answer its drafts."""
        record = prepared.record
        assert record is not None
        clock_ms = self._clock.now_ms()
        carried = [draft for draft in group.open() if draft.change is not None]
        kept: list[CommitRow] = [
            *group.to_remember(answers, clock_ms),
            *companions_of(prepared, carried),
            *audited,
        ]
        self.attempts += 1
        began = time.perf_counter()
        if not self._replica.commit(
            record, clock_ms, kept, prepared.takings, group.tenure, durable
        ):
            self._telemetry.lost_races.inc()
            return False
        self._telemetry.commit.observe(time.perf_counter() - began)
        self._telemetry.churn.inc(0.0 if churn is None else churn.seconds())
        self._note_commit(record)
        for draft, answer in answers:
            draft.answer = answer
        with self._replica.locked() as plan:
            for draft in group.open():
                if draft.change is not None and draft.conflict is None:
                    draft.answer = changed_answer(draft, plan, plan.version)
        return True

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


def _actor_of(draft: PendingChange) -> Actor:
    return SERVER if draft.job is None else draft.job.actor


def _are_few(jobs: Sequence[QueuedChange]) -> bool:
    """Return whether other processes may wait while these are placed."""
    return sum(job.size for job in jobs) <= _FEW and not jobs[0].needs_own_record


def _changes(drafts: Sequence[PendingChange]) -> list[Change]:
    return [draft.change for draft in drafts if draft.change is not None]


def _lacks_machines(change: RecordedChange) -> bool:
    """Return whether a change is the refusal of a request for want of machines alone."""
    binding = change.refusal.binding if isinstance(change, Refused) else None
    return binding is not None and binding.kind == MACHINES


def _worth_another_round(conflict: Conflict | None, *, atomic: bool) -> bool:
    if conflict is not None and conflict.code == Code.DUPLICATE_ID:
        # Of two in one commit: the second may be the same request, which is no conflict.
        return not atomic
    return conflict is None or conflict.code in _WORTH_ANOTHER_ROUND
