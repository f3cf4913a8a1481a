"""What a job's time limit says of its component, by who set it."""

from __future__ import annotations

from dataclasses import replace

from dispatch.backends.slurm.backend import _kind_at, _Placed
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.executions.events import EventKind

_JOB = SlurmJob(7, "agenda/x", "agenda", "", "TIMEOUT", "", ("n1",))
_PLACED = _Placed("m-0", 0, 7, 0.0, core=True)


def test_a_limit_for_what_others_have_reserved_loses_the_component() -> None:
    """It waits for another machine; one that somebody else set is a failure, as before."""
    given = replace(_PLACED, limit=True)
    assert _kind_at(given, _JOB, 5)[0] is EventKind.LOST
    assert _kind_at(_PLACED, _JOB, 5)[0] is EventKind.FAILED
    assert _kind_at(given, replace(_JOB, state="FAILED"), 5)[0] is EventKind.FAILED
