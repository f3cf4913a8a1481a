"""Apply what an optimisation has found: from a row, whoever asks for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from planner.plan.plan import Plan
from rdl.errors import ProblemList
from service.access.actor import present_actor
from service.commits.changes.commands import Answer, Key, OptimizationAnswer
from service.optimizing.runner import Runner
from service.planning.optimization import applying_of
from service.planning.planner import Planner
from service.problems import ApiError, ProblemDocument
from service.response import Response, problem_response
from service.store import AuditRow, OptimizationRow

#: Most newcomers that are told by name.
_NAMED: Final = 10


def apply_found(
    runner: Runner,
    planner: Planner,
    reading: Callable[[], AbstractContextManager[Plan]],
    row: OptimizationRow,
    *,
    partial: bool = False,
) -> Response:
    """Have the Plan take what one has found, once, and note that in its row and in the audit.

    Parameters
    ----------
    reading
        Holds the newest Plan.
    row
        One that is over and has found something.
    partial
        Where the Plan has moved on and not all of it fits, take what does; else take nothing.
    """
    found = msgspec.json.decode(row.result)
    # No client can send a key with a space, so none can meet this one.
    key = Key(f"optimization {row.id}", hashlib.sha256(row.result).digest())
    written = (found["changes"], found["based_on"])
    frozen = int(msgspec.json.decode(row.document).get("frozen_step", 0)) if partial else None
    command = applying_of(reading, written, frozen)
    ids = [entry["id"] for entry in found["changes"]]
    response = planner.respond(command, lambda answers: _render_applied(answers, ids), key)
    if response.status < 300 and row.state != "applied":
        told = msgspec.json.decode(response.payload())
        part = f"{told['changed']} of {len(ids)} changes" if told["left_out"] else "it"
        note = f"the Plan holds {part} since version {told['version']}"
        done = AuditRow(
            present_actor(), runner.plan_now_ms(), "apply_optimization", row.id, detail=note
        )
        runner.rows.note_applied(row.id, note, done)
    return response


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
    """Return what moved since it was found, one entry a change that does not fit any more."""
    conflicts = applied.conflicts
    errors = ProblemList(
        ApiError(
            one.detail if one.id is None else f"{one.id}: {one.detail}",
            one.code,
            pointer=f"/result/diff/requests/{one.id or ids[one.index]}",
        )
        for one in conflicts
    )
    detail = (
        f"the Plan has moved on and no longer takes it; {len(conflicts)} of {len(ids)} changes do "
        f"not fit, the first: {errors[0].message}{_newcomers_text(applied.newcomers)}; "
        "with partial=true what fits is taken"
    )
    return ProblemDocument("conflict", detail, errors)


def _newcomers_text(newcomers: Sequence[str]) -> str:
    """Return who came in meanwhile, for a person."""
    if not newcomers:
        return ""
    more = len(newcomers) - _NAMED
    rest = f" and {more:,} more" if more > 0 else ""
    return f"; admitted there meanwhile: {', '.join(newcomers[:_NAMED])}{rest}"
