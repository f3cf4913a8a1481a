"""How much of Slurm's accounting is read, and what of it is remembered."""

from __future__ import annotations

from dataclasses import replace

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.job_history import JobHistory

_DAY_S = 86_400
_DONE = SlurmJob(1, "a", "u", "", "COMPLETED", "", ("n1",), ends_s=10 * _DAY_S)


class _Accounting:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.jobs = [_DONE]
        self.is_away = False

    def ended_jobs(self, user: str, since: str) -> list[SlurmJob]:
        self.asked.append(since)
        if self.is_away:
            raise SlurmError("slurmdbd is unavailable")
        return self.jobs


def test_two_days_are_read_once_and_then_what_may_be_new() -> None:
    """An hour before the last answer each time, however often it was silent meanwhile."""
    accounting, now_s = _Accounting(), [0.0]
    history = JobHistory(accounting, "u", lambda: now_s[0])
    history.read()
    for now_s[0], accounting.is_away in (
        (90.0, False),
        (600.0, True),
        (900.0, False),
        (9e9, False),
    ):
        history.forget()
        history.get(1)
        history.get(2)
        assert history.is_silent == accounting.is_away
    minutes = [2 * 24 * 60, 62, 69, 74, 2 * 24 * 60]
    assert accounting.asked == [f"now-{one}minutes" for one in minutes]


def test_what_was_read_before_is_remembered_for_two_days() -> None:
    """Though later answers do not have it, and though the accounting falls silent."""
    accounting = _Accounting()
    history = JobHistory(accounting, "u", lambda: 0.0)
    history.read()
    accounting.jobs = [replace(_DONE, id=2, ends_s=12 * _DAY_S)]
    history.forget()
    assert history.get(1) == _DONE
    accounting.is_away = True
    history.forget()
    assert history.get(1) == _DONE
    accounting.is_away = False
    accounting.jobs = [replace(_DONE, id=3, ends_s=12 * _DAY_S + 1)]
    history.forget()
    assert (history.get(1), history.get(2)) == (None, replace(_DONE, id=2, ends_s=12 * _DAY_S))


def test_a_job_that_runs_again_has_not_ended() -> None:
    """One that was requeued keeps its number; its earlier end is forgotten."""
    accounting = _Accounting()
    history = JobHistory(accounting, "u", lambda: 0.0)
    history.read()
    accounting.jobs = [replace(_DONE, state="RUNNING", ends_s=0)]
    history.forget()
    assert history.get(1) is None
