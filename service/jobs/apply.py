"""Apply the result of an optimisation, and undo it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from planner.plan.plan import Plan
from rdl.errors import ProblemList
from service.access.user import present_actor
from service.commits.commands import Answer, Key, OptimizationAnswer
from service.commits.optimization import applying_of, undoing_of
from service.commits.planner import Planner
from service.jobs.runner import Runner
from service.problems import ApiError, ProblemDocument, problem
from service.rendering import recall, respond
from service.response import Response, problem_response
from service.store import AuditRow, OptimizationRow
from service.store.optimizations import APPLIED, UNDONE

#: Most new reservations that are listed by name.
_NAMED: Final = 10


def apply_found(
    runner: Runner,
    planner: Planner,
    reading: Callable[[], AbstractContextManager[Plan]],
    row: OptimizationRow,
    *,
    partial: bool = False,
) -> Response:
    """Apply the result of an optimisation once, and record it in its row and in the audit.

    Parameters
    ----------
    reading
        Locks the newest Plan.
    row
        An ended optimisation with a result.
    partial
        Whether to apply the part that fits if the Plan has changed; otherwise all or nothing.
    """
    found = msgspec.json.decode(row.result)
    # Keys of clients contain no spaces, so they cannot collide with this one.
    key = Key(f"optimization {row.id}", hashlib.sha256(row.result).digest())
    written = (found["changes"], found["based_on"])
    frozen = int(msgspec.json.decode(row.document).get("frozen_step", 0)) if partial else None
    command = applying_of(reading, row.id, written, frozen)
    ids = [entry["id"] for entry in found["changes"]]
    response = respond(planner, command, lambda answers: _render_applied(answers, ids), key)
    if response.status < 300 and row.state != APPLIED:
        told = msgspec.json.decode(response.payload())
        part = f"{told['changed']} of {len(ids)} changes" if told["left_out"] else "it"
        note = f"the Plan holds {part} since version {told['version']}"
        _note(runner, row.id, APPLIED, "apply_optimization", note)
    return response


def undo_applied(
    runner: Runner,
    planner: Planner,
    reading: Callable[[], AbstractContextManager[Plan]],
    row: OptimizationRow,
) -> Response:
    """Undo an optimisation once, except for changes that have begun since.

    Parameters
    ----------
    reading
        Locks the newest Plan.
    row
        An optimisation that is applied, or was undone.
    """
    key = Key(f"optimization {row.id} undo", hashlib.sha256(row.undo).digest())
    if row.state == UNDONE:
        known = recall(planner, key)
        if known is None:
            raise problem("wrong_state", f"the optimisation {row.id!r} has already been undone")
        return known
    kept: dict[str, Any] = {"version": 0, "changes": []}
    if row.undo:  # empty if there was no result, and so no change
        kept = msgspec.json.decode(row.undo)
    entries = kept["changes"]
    ids = [entry["id"] for entry in entries]
    command = undoing_of(reading, row.id, entries, kept["version"])
    response = respond(planner, command, lambda answers: _render_undone(answers, ids), key)
    if response.status < 300:
        told = msgspec.json.decode(response.payload())
        part = f"{told['changed']} of {len(ids)} changes" if told["left"] else "it"
        note = f"{part} was undone in version {told['version']}"
        _note(runner, row.id, UNDONE, "undo_optimization", note)
    return response


def _note(runner: Runner, id_: str, state: str, kind: str, note: str) -> None:
    """Record the outcome of an optimisation, with its audit row."""
    done = AuditRow(present_actor(), runner.plan_now_ms(), kind, id_, detail=note)
    runner.rows.note_outcome(id_, state, note, done)


def _render_undone(answers: Sequence[Answer], ids: Sequence[str]) -> Response:
    undone = answers[0]
    if isinstance(undone, ProblemDocument):
        return problem_response(undone)
    assert isinstance(undone, OptimizationAnswer)
    if undone.version is None:
        count, errors = len(undone.conflicts), _errors_of(undone, ids)
        detail = (
            f"{count} of {len(ids)} changes cannot be undone, the "
            f"first: {errors[0].message}{_newcomers_text(undone.newcomers)}"
        )
        return problem_response(ProblemDocument("conflict", detail, errors))
    body = {
        "version": undone.version,
        "changed": len(ids) - len(undone.staying),
        "left": [one.to_json() for one in undone.staying],
    }
    return Response(200, msgspec.json.encode(body))


def _render_applied(answers: Sequence[Answer], ids: Sequence[str]) -> Response:
    applied = answers[0]
    if isinstance(applied, ProblemDocument):
        return problem_response(applied)
    assert isinstance(applied, OptimizationAnswer)
    if applied.version is None:
        return problem_response(_conflict(applied, ids))
    left = [
        {"id": one.id or ids[one.index], "code": one.code, "detail": one.detail}
        for one in applied.left_out
    ]
    body = {
        "version": applied.version,
        "merged": applied.merged,
        "changed": len(ids) - len(left),
        "left_out": left,
    }
    return Response(200, msgspec.json.encode(body))


def _conflict(applied: OptimizationAnswer, ids: Sequence[str]) -> ProblemDocument:
    """Return the conflict of an optimisation, with one entry per change that no longer fits."""
    conflicts, errors = applied.conflicts, _errors_of(applied, ids)
    detail = (
        f"the Plan has changed; {len(conflicts)} of {len(ids)} changes no longer fit, the "
        f"first: {errors[0].message}{_newcomers_text(applied.newcomers)}; "
        "partial=true applies those that fit"
    )
    return ProblemDocument("conflict", detail, errors)


def _errors_of(answer: OptimizationAnswer, ids: Sequence[str]) -> ProblemList[ApiError]:
    """Return one error per change that the Plan rejects."""
    return ProblemList(
        ApiError(
            one.detail if one.id is None else f"{one.id}: {one.detail}",
            one.code,
            pointer=f"/result/diff/requests/{one.id or ids[one.index]}",
        )
        for one in answer.conflicts
    )


def _newcomers_text(newcomers: Sequence[str]) -> str:
    """Return the reservations admitted meanwhile, in words."""
    if not newcomers:
        return ""
    more = len(newcomers) - _NAMED
    rest = f" and {more:,} more" if more > 0 else ""
    return f"; admitted there meanwhile: {', '.join(newcomers[:_NAMED])}{rest}"
