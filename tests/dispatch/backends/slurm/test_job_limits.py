"""Limits of accounts and QOS: read of what sacctmgr writes, and judged by name."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.control.job_demand import JobDemand
from dispatch.backends.slurm.control.job_limits import JobLimit, Load, limits_of
from dispatch.backends.slurm.control.records import job_of

ASSOCIATIONS = (
    "|root|||||||\n|bio|root||cpu=64,mem=1G|9|||\n|lab|bio||gres/gpu=4||||\n"
    "ann|lab|||||cpu=16|2|1-00:00:00\nann|lab||fast|cpu=1|||4|00:05:00\n"
    "bob|lab||||||1|00:01:00\n|chem|root||cpu=1||||\n"
)
QOS = "normal||||||\nhigh|node=8||cpu=32|cpu=12|3|02:00:00\nsmall|cpu=8|||cpu=4||\nqueue||5||||\n"


def slurm(enforced: str = "associations,limits,qos") -> Any:
    """Return commands of a Slurm with an account in another, and two QOS."""

    def run(*words: str) -> str:
        assert "qos" in words or words[-1] == "cluster=here"
        return QOS if "qos" in words else ASSOCIATIONS

    config = {"AccountingStorageEnforce": enforced, "ClusterName": "here"}
    return cast("Any", SimpleNamespace(run=run, configuration=lambda: config))


def test_limits_of_the_user_its_accounts_and_the_qos_are_read() -> None:
    """Those of other users and accounts are not."""
    assert limits_of(slurm(), "ann", "lab", "high") == [
        JobLimit("account root", account="root"),
        JobLimit("account bio", account="bio", jobs=9, together={"cpu": 64, "mem": 1024}),
        JobLimit("account lab", account="lab", together={"gres/gpu": 4}),
        JobLimit("ann in account lab", "ann", "lab"),
        JobLimit("QOS high", qos="high", wall_s=7200, job={"cpu": 32}, together={"node": 8}),
        JobLimit("ann in QOS high", "ann", qos="high", jobs=3, together={"cpu": 12}),
    ]


ANN = JobLimit("ann in account lab", "ann", "lab", "", 86_400, {"cpu": 16}, 2)


@pytest.mark.parametrize(
    ("qos", "partition", "accounts"),
    [
        ("normal", "", [{}, {"cpu": 64, "mem": 1024}, {"gres/gpu": 4}, ANN]),
        ("small", "", [{}, {"mem": 1024}, {"gres/gpu": 4}, ANN]),
        ("queue", "", [{}, {"cpu": 64, "mem": 1024}, {"gres/gpu": 4}, ANN]),
        ("normal", "fast", [{}, {"cpu": 64, "mem": 1024}, {"gres/gpu": 4},
                            JobLimit("ann in account lab", "ann", "lab", "", 300, {}, 4,
                                     {"cpu": 1})]),
        ("normal", "slow,fast", [{}, {"cpu": 64, "mem": 1024}, {"gres/gpu": 4},
                                 JobLimit("ann in account lab", "ann", "lab", "", 300, {}, 4,
                                          {"cpu": 1})]),
        ("normal", "slow", [{}, {"cpu": 64, "mem": 1024}, {"gres/gpu": 4}, ANN]),
    ],
)  # fmt: skip
def test_what_the_qos_limits_the_associations_do_not(
    qos: str, partition: str, accounts: list[object]
) -> None:
    """By each kind of limit and each TRES; a user's association for the partition goes first."""
    found = limits_of(slurm(), "ann", "lab", qos, partition)
    assert [one.together for one in found[:3]] == accounts[:3]
    assert found[3] == accounts[3]
    assert found[1].jobs == (None if qos == "queue" else 9)


def test_limits_that_slurm_does_not_enforce_are_none() -> None:
    """It starts jobs beyond them."""
    assert limits_of(slurm("none"), "ann", "lab", "high") == []
    assert [one.qos for one in limits_of(slurm("qos"), "ann", "lab", "high")] == ["high", "high"]


@pytest.mark.parametrize(
    ("limit", "demand", "said"),
    [
        (JobLimit("QOS high", wall_s=3600), JobDemand(1, 1, limit_s=3600), []),
        (JobLimit("QOS high", wall_s=3600), JobDemand(1, 1, limit_s=3660),
         ["MaxWall of QOS high is 60 minutes"]),
        (JobLimit("QOS high", wall_s=60), JobDemand(1, 1), ["MaxWall"]),
        (JobLimit("ann", job={"cpu": 4}), JobDemand(2, 3, limit_s=60), ["MaxTRES of ann is cpu=4"]),
        (JobLimit("ann", job={"cpu": 6, "node": 2}), JobDemand(2, 3, limit_s=60), []),
        (JobLimit("lab", together={"gres/gpu": 3}), JobDemand(2, 1, gpus=2, limit_s=60),
         ["TRES of lab are gres/gpu=3: the job has 4"]),
        (JobLimit("lab", together={"mem": 500}), JobDemand(1, 1, 501, limit_s=60), ["mem=500"]),
        (JobLimit("ann", jobs=2), JobDemand(1, 1, limit_s=60, is_array=True, tasks=9, throttle=3),
         ["jobs of ann are 2 at a time"]),
    ],
)  # fmt: skip
def test_a_job_that_slurm_would_never_start_is_refused_by_the_name_of_the_limit(
    limit: JobLimit, demand: JobDemand, said: list[str]
) -> None:
    """Where the node time is all that is known, by that."""
    found = list(limit.problems(demand, [demand], 61))
    assert len(found) == len(said)
    assert all(word in text for word, text in zip(said, found, strict=True))


def test_components_of_a_job_count_together() -> None:
    """But for the limits of one job, and its time."""
    parts = [JobDemand(1, 4, limit_s=60), JobDemand(2, 2, limit_s=3660)]
    limit = JobLimit("ann", wall_s=3600, job={"cpu": 4}, jobs=2, together={"cpu": 7})
    total = "TRES of ann are cpu=7: the job has 8"
    assert list(limit.problems(parts[0], parts, 60)) == [total]
    assert list(limit.problems(parts[1], parts, 60)) == [
        "MaxWall of ann is 60 minutes: write a shorter --time",
        total,
    ]
    assert list(replace(limit, jobs=1, together={}).problems(parts[0], parts, 60)) == [
        "jobs of ann are 1 at a time: the job of several components has 2"
    ]
    loads = [Load(1, "ann", "lab", "high", 90, {"cpu": 8})]
    assert JobLimit("ann", jobs=3).in_the_way(parts, loads) is None
    assert JobLimit("ann", jobs=2).in_the_way(parts, loads) is not None
    assert JobLimit("ann", together={"cpu": 15}).in_the_way(parts, loads) is not None


def test_what_counts_together_is_in_the_way() -> None:
    """Of the same user, account and QOS; others are not."""
    loads = [
        Load(1, "ann", "lab", "high", 90, {"cpu": 8, "node": 1}),
        Load(2, "ann", "lab", "normal", 80, {"cpu": 8, "node": 1}),
        Load(3, "bob", "lab", "high", 70, {"cpu": 8, "node": 1}),
    ]
    job = JobDemand(1, 4, limit_s=60)

    def ids(limit: JobLimit) -> list[int]:
        found = limit.in_the_way([job], loads)
        return [] if found is None else [load.id for load in found[1]]

    assert ids(JobLimit("QOS", qos="high", jobs=2)) == [1, 3]
    assert ids(JobLimit("QOS", qos="high", jobs=3)) == []
    assert ids(JobLimit("ann", "ann", "lab", together={"cpu": 19})) == [1, 2]
    assert ids(JobLimit("ann", "ann", "lab", together={"cpu": 20})) == []
    assert ids(JobLimit("ann in QOS", "ann", qos="high", jobs=1)) == [1]
    assert ids(JobLimit("lab", account="lab", together={"node": 3})) == [1, 2, 3]
    loads[0] = loads[0]._replace(jobs=4)
    assert ids(JobLimit("QOS", qos="high", jobs=5)) == [1, 3]
    assert ids(JobLimit("QOS", qos="high", jobs=6)) == []


@pytest.mark.parametrize(
    ("text", "tasks"),
    [("", 1), ("7", 1), ("0-9%3", 10), ("1,3,5-7", 5), ("1,3,5,...", 3), ("1,3,...%4", 2)],
)
def test_tasks_of_an_array_that_waits_are_counted_as_far_as_they_are_listed(
    text: str, tasks: int
) -> None:
    """A long list is cut short by Slurm."""
    entry = {"job_id": 1, "job_state": "PENDING", "array_task_string": text}
    assert job_of(entry).tasks == tasks
