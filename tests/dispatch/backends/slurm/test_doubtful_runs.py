"""Runs that were stopped while Slurm said that they ran: which of them may never have begun."""

from __future__ import annotations

import pytest

from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode
from dispatch.backends.slurm.control.slurm import Look
from dispatch.backends.slurm.doubtful_runs import DoubtfulRuns, LastRun

_RUN = LastRun(("x", "w", 0), "m-0", 99_000, 7, "n0", 0)


def _look(begun_s: int, *flags: str, job: bool = True) -> Look:
    one = SlurmJob(7, "j", "u", "", "CANCELLED", "", ("n0",), started_s=100)
    node = SlurmNode("n0", 4, 2000, "IDLE", flags, "", (), begun_s=begun_s)
    return Look({7: one} if job else {}, {"n0": node})


@pytest.mark.parametrize(("begun_s", "is_void"), [(50, False), (100, False), (103, True)])
def test_a_run_before_whose_end_its_slurmd_began_anew_is_void(begun_s: int, is_void: bool) -> None:
    """It is told once."""
    runs = DoubtfulRuns()
    runs.add(_RUN)
    assert runs.void(_look(begun_s)) == ([_RUN] if is_void else [])
    assert runs.void(_look(103)) == []


def test_a_run_that_its_new_slurmd_had_is_not_void() -> None:
    """It outlived the one before; but another one began since."""
    for begun_s, sure_s, is_void in ((103, 103, False), (109, 103, True)):
        runs = DoubtfulRuns()
        runs.add(_RUN._replace(sure_s=sure_s))
        assert bool(runs.void(_look(begun_s))) is is_void


def test_a_silent_node_is_waited_for() -> None:
    """Until it answers, or Slurm has forgotten the job."""
    runs = DoubtfulRuns()
    runs.add(_RUN)
    assert runs.void(_look(50, "NOT_RESPONDING")) == []
    assert runs.void(_look(50, "DRAIN")) == []
    assert runs.void(_look(0)) == []  # slurmctld began anew, and has not heard of it yet
    assert runs.void(_look(109)) == [_RUN]
    runs.add(_RUN)
    assert runs.void(_look(109, job=False)) == []
    assert runs.void(_look(109)) == []
