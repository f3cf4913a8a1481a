"""Rayon's figures 16 and 19: what queues and single jobs hold in small runs."""

from __future__ import annotations

import pytest

from bench.papers.cluster.rayon_workload import QUEUES, RayonWorkload
from bench.papers.rayon import CAPACITY, RayonOptions
from bench.papers.rayon_holdings import (
    AGENDA,
    QueueTable,
    SampleTable,
    queue_holdings,
    sample_holdings,
)

_WORKLOAD = RayonWorkload(machines=4, jobs_per_hour=300.0, hours=0.2, load=1.2, production=0.5)
_OPTIONS = RayonOptions(_WORKLOAD)


@pytest.fixture(scope="module")
def queues() -> QueueTable:
    """Return figure 16 of a small run."""
    return queue_holdings(_OPTIONS, 1)


@pytest.fixture(scope="module")
def samples() -> SampleTable:
    """Return figure 19 of a small run with many gangs."""
    return sample_holdings(_OPTIONS, 2)


def test_no_queue_holds_more_than_its_maximum(queues: QueueTable) -> None:
    """The capacity scheduler keeps every queue below twice its guarantee."""
    assert len(queues.queues) == QUEUES
    held = [(one.peak[CAPACITY.name], one.most) for one in queues.queues]
    assert all(peak <= most + 1e-9 for peak, most in held)


def test_without_queues_a_tenant_holds_more_than_its_queue_may(queues: QueueTable) -> None:
    """Some holdings under Agenda are above the maximum that the queue would have."""
    assert any(one.peak[AGENDA.name] > one.most for one in queues.queues)


def test_all_queues_together_hold_the_cluster_at_most(queues: QueueTable) -> None:
    """Means over the window add up to 1 or less, under both systems."""
    for name in (AGENDA.name, CAPACITY.name):
        assert 0 < sum(one.mean[name] for one in queues.queues) <= 1
        assert max(queues.production[name]) <= 1


def test_a_gang_gets_all_at_once(samples: SampleTable) -> None:
    """Under Agenda the first container comes with the last, and none leaves before the end."""
    gang = next(one for one in samples.samples if one.kind == "B" and one.system == AGENDA.name)
    assert gang.gathering_s == 0
    assert {held for held in gang.containers if held} == {gang.widest}
    assert samples.figures[AGENDA.name]["gang gathering mean_s"] == 0


def test_a_sample_ends_with_nothing(samples: SampleTable) -> None:
    """Holdings are in order of time, never above the widest stage, and end with 0 at the end."""
    for one in samples.samples:
        assert one.at_s == sorted(one.at_s)
        assert max(one.containers) <= one.widest
        assert (one.at_s[-1], one.containers[-1]) == (one.ended_s, 0)
