"""One line in the log for each answer to a request for a reservation."""

from __future__ import annotations

import logging
import time

from service.commits.changes.commands import Admission, Answer, Ask, QueuedChange, ReservationAnswer
from service.logs import ADMISSIONS, log_admission
from service.problems import ProblemDocument


def log_admissions(job: QueuedChange) -> None:
    """Write a line for each request of an admission that was answered; nothing for other jobs."""
    if not isinstance(job.command, Admission) or not ADMISSIONS.isEnabledFor(logging.INFO):
        return
    took_ms = round((time.perf_counter() - job.arrived) * 1000, 3)
    for ask, answer in zip(job.command.asks, job.answers, strict=False):
        log_admission({**_ask_fields(ask), **_answer_fields(answer), "ms": took_ms})


def _ask_fields(ask: Ask) -> dict[str, object]:
    request = ask.request
    return {
        "id": request.id,
        "tenant": request.tenant,
        "queue": request.queue,
        "agent": ask.agent,
    }


def _answer_fields(answer: Answer) -> dict[str, object]:
    if isinstance(answer, ProblemDocument):
        return {"outcome": "refused", "code": str(answer.code), "version": None}
    version = answer.version if isinstance(answer, ReservationAnswer) else None
    return {"outcome": "accepted", "code": None, "version": version}
