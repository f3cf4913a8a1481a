"""What time limits of jobs and partitions say of components, by who set them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatch.backends.slurm.component_jobs import ComponentOrder, limited, request_of
from dispatch.backends.slurm.control.capabilities import _limit_warnings
from dispatch.backends.slurm.control.job_names import has_own_limit, tenure_of
from dispatch.backends.slurm.control.records import NodeRights, SlurmJob
from dispatch.backends.slurm.control.settings import SlurmSettings
from rdl.resources import Resources

_SETTINGS = SlurmSettings({"m-0": "n1"}, "agenda", "scavenge", user="agenda")
_JOB = SlurmJob(7, "agenda/x", "agenda", "", "TIMEOUT", "", ("n1",))


@pytest.mark.parametrize("minutes", [0, 7])
def test_a_job_says_for_the_next_leader_whether_its_limit_is_of_the_service(minutes: int) -> None:
    """In its comment, alongside the tenure that submitted it."""
    order = ComponentOrder("x", "t", "true", Resources.of({"cpu": 1000}), (), True, "r", 1)
    request = request_of(_SETTINGS, ("x", "w", 0), "m-0", order, 3, NodeRights())
    job = replace(_JOB, comment=limited(request, minutes).comment)
    assert has_own_limit(job) is bool(minutes)
    assert tenure_of(job) == 3
    assert not has_own_limit(replace(job, comment="limit=7 of another's"))


def test_a_partition_that_ends_components_is_told_at_start() -> None:
    """One without a limit is not."""
    there = {"agenda": {"MaxTime": "UNLIMITED"}, "scavenge": {"MaxTime": "1-00:00:00"}}
    (warning,) = _limit_warnings(_SETTINGS, there)
    assert warning.startswith("MaxTime of 'scavenge' is 1-00:00:00")
