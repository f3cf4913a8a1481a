"""RunStarter: submits the stages of each run of a pipeline when its slots begin."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from dispatch.executions.job_file import JobRun, StageApplication, applications_of, read_stages
from dispatch.executions.job_runs import (
    Decision,
    JobOccurrence,
    Overlap,
    decide,
    due_after,
    job_occurrences,
)
from dispatch.executions.states import ExecutionState
from planner.files.errors import FileProblems
from planner.plan.plan import Plan
from planner.reservations.state import LIVE, State
from rdl.compile.source import read_source
from rdl.durations import rfc3339_text, seconds_text
from rdl.time_grid import TimeGrid
from service.commits.replica import Replica
from service.dispatching.documents import Document, encode_document
from service.store import ApplicationRow, PipelineRow

logger = logging.getLogger("agenda.service")

#: Most runs of one pipeline that are started, skipped or missed in one tick.
_MOST_AT_ONCE: Final = 20


class PipelineDocument(msgspec.Struct, frozen=True):
    """The stored submission of a pipeline: stages, queue, overlap, margin in ms."""

    stages: dict[str, Any]
    queue: str
    overlap: Overlap = Overlap.QUEUE
    margin_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Followed:
    """The state of a pipeline's reservation in the Plan.

    Attributes
    ----------
    key
        Differs once that has changed.
    """

    key: tuple[int, ...]
    expression: str
    occurrences: list[JobOccurrence]
    is_endless: bool

    def is_past(self, now_ms: int) -> bool:
        """Return whether all occurrences that there will ever be have ended."""
        return not self.is_endless and all(one.end_ms <= now_ms for one in self.occurrences)


class RunStarter:
    """Starts the runs of the pipelines of a database; only the leader of the dispatch calls it.

    Which runs have been started is on disk and is written with their stages, so a new leader
    continues where the previous one ended. State in memory only saves work.

    Parameters
    ----------
    replica
        The Plan, and the store.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._rows = replica.store.pipelines
        self._followed: dict[str, _Followed] = {}
        self._table: object = None

    def start_due(self, now_ms: int, tenure: int) -> None:
        """Submit the stages of all runs that are due.

        Parameters
        ----------
        now_ms
            Now, in ms from the Plan's origin.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun.
        """
        rows = self._rows.open()
        if not rows:
            return
        with self._replica.newest() as plan:
            grid = plan.grid
            states = [self._follow(plan, row) for row in rows]
        for row, (state, followed) in zip(rows, states, strict=True):
            due = [] if followed is None else _due(row, followed, now_ms)
            # What is degraded may get its occurrences back.
            is_whole = state is not State.DEGRADED
            if followed is not None and not due and is_whole and followed.is_past(now_ms):
                self._rows.advance(tenure, replace(row, over=True))
            elif followed is None:
                reason = "its reservation has left the Plan"
                reason = reason if state is None else f"its reservation is {state.value}"
                self._rows.advance(tenure, replace(row, over=True, reason=reason))
            else:
                self._start(row, followed, due, now_ms, tenure, grid)

    def _follow(self, plan: Plan, row: PipelineRow) -> tuple[State | None, _Followed | None]:
        """Return the state of a pipeline's reservation, and its data; None if that is over."""
        if plan.table is not self._table:
            self._table, self._followed = plan.table, {}
        number = plan.table.number_of(row.id)
        if number is None:
            return None, None
        state, meta = plan.table.state(number), plan.table.meta[number]
        if state not in LIVE and state is not State.COMPLETED:
            return state, None
        key = (int(meta["revision"]), int(meta["atom"]), int(meta["finish"]))
        known = self._followed.get(row.id)
        if known is None or known.key != key:
            holding = plan.table.holding(number)
            expression = plan.table.read(number).expression
            occurrences = job_occurrences(holding.atoms, plan.grid)
            known = _Followed(key, expression, occurrences, bool(holding.endless))
            self._followed[row.id] = known
        return state, known

    def _start(
        self,
        row: PipelineRow,
        followed: _Followed,
        due: Sequence[JobOccurrence],
        now_ms: int,
        tenure: int,
        grid: TimeGrid,
    ) -> None:
        document = msgspec.json.decode(row.document, type=PipelineDocument)
        for occurrence in due[:_MOST_AT_ONCE]:
            is_running = self._rows.has_open_run(row.id)
            decision = decide(occurrence, document.overlap, now_ms, is_running=is_running)
            if decision is Decision.WAIT:
                return
            run = JobRun(row.runs, occurrence.number, _time_text(occurrence.start_ms, grid))
            problems: FileProblems = FileProblems()
            stages = read_stages(document.stages, problems)
            made = applications_of(row.id, read_source(followed.expression), stages, problems, run)
            row = replace(
                row,
                runs=row.runs + 1,
                last_ms=occurrence.start_ms,
                last_occurrence=occurrence.number,
            )
            if problems:  # its reservation was renegotiated to other atoms
                reason = f"its stages no longer fit its request: {problems[0].message}"
                self._rows.advance(tenure, replace(row, over=True, reason=reason))
                logger.warning("pipeline %s ends: %s", row.id, reason)
                return
            stages_of_run = [
                _row_of(
                    row,
                    document.queue,
                    _in_time(one, occurrence, now_ms),
                    run.number,
                    now_ms,
                    decision,
                )
                for one in made
            ]
            if self._rows.advance(tenure, row, stages_of_run):
                logger.info("pipeline %s: run %d: %s", row.id, run.number, decision.value)
            else:
                reason = (
                    f"run {run.number} is skipped: applications already use the ids of its stages"
                )
                self._rows.advance(tenure, replace(row, reason=reason))
                logger.warning("pipeline %s: %s", row.id, reason)


def _in_time(stage: StageApplication, occurrence: JobOccurrence, now_ms: int) -> StageApplication:
    """Return a stage of a run; one that starts after its slots does not fail for being late."""
    return replace(stage, on_late="") if occurrence.end_ms <= now_ms else stage


def _due(row: PipelineRow, followed: _Followed, now_ms: int) -> list[JobOccurrence]:
    return due_after(followed.occurrences, (row.last_ms, row.last_occurrence), now_ms)


def _time_text(at_ms: int, grid: TimeGrid) -> str:
    return seconds_text(at_ms) if grid.origin is None else rfc3339_text(grid.instant_at(at_ms))


#: State and reason of the stages of a run that does not start.
_NOT_STARTED: Final = {
    Decision.SKIP: (ExecutionState.REJECTED, "skipped: an earlier run had not ended"),
    Decision.MISS: (ExecutionState.FAILED, "its slots passed while no server dispatched"),
}


def _row_of(
    pipeline: PipelineRow,
    queue: str,
    stage: StageApplication,
    run: int,
    now_ms: int,
    decision: Decision,
) -> ApplicationRow:
    """Return the row of a stage of a run: one to dispatch, or one that is over already."""
    document = Document(
        stage.application,
        stage.after,
        queue=queue,
        needs=stage.needs,
        awaits_slot=True,
        on_late=stage.on_late,
    )
    row = ApplicationRow(
        id=stage.id,
        tenant=pipeline.tenant,
        submitted_ms=now_ms,
        document=encode_document(document),
        pipeline=pipeline.id,
        run=run,
    )
    if decision is Decision.START:
        return row
    state, reason = _NOT_STARTED[decision]
    status = msgspec.json.encode({"reason": reason, "ended": now_ms / 1000})
    return replace(row, taken=True, over=True, state=state.value, status=status)
