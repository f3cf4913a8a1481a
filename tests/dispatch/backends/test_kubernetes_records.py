"""What is read of Kubernetes objects, and the requests that Jobs make."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.backends.kubernetes.records import (
    JobRequestError,
    amount,
    pod_amounts,
    rdl_of,
    read_job,
    read_node,
    read_pod,
)
from rdl.compile.source import read_source


@pytest.mark.parametrize(
    ("name", "text", "rounded_up", "rounded_down"),
    [
        ("cpu", "2", 2000, 2000),
        ("cpu", "250m", 250, 250),
        ("cpu", "100u", 1, 0),
        ("memory", "1Gi", 1024, 1024),
        ("memory", "128974848", 123, 123),
        ("memory", "129e6", 124, 123),
        ("memory", "1G", 954, 953),
        ("nvidia.com/gpu", "8", 8, 8),
        ("nvidia.com/gpu", "1k", 1000, 1000),
    ],
)
def test_quantities_become_the_units_of_the_planner(
    name: str, text: str, rounded_up: int, rounded_down: int
) -> None:
    assert amount(name, text, up=True) == rounded_up
    assert amount(name, text, up=False) == rounded_down


def test_a_pod_requests_its_containers_or_an_init_container_and_its_overhead() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("1"), {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
        "initContainers": [
            container("500m", restartPolicy="Always"),
            container("4"),
        ],
        "overhead": {"cpu": "100m", "pods": "1"},
    }
    # The sidecar runs beside the second init container: 4.5, which is more than 0.5 + 1 + 1.
    assert pod_amounts(spec) == {"cpu": 4600, "memory": 1024}


def job_of(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    container = {"resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}
    return {
        "metadata": {
            "uid": "0123456789",
            "namespace": "ads",
            "name": "nightly",
            "resourceVersion": "7",
            "creationTimestamp": "2026-11-30T12:00:00Z",
            "annotations": {f"agenda/{key}": text for key, text in annotations.items()},
        },
        "spec": {
            "suspend": True,
            "parallelism": 4,
            "completions": 10,
            "template": {
                "spec": {"priorityClassName": "agenda-promised", "containers": [container]}
            },
            **spec,
        },
    }


@pytest.mark.parametrize(
    ("annotations", "spec", "rdl"),
    [
        # ten pods, four at a time, are three waves of a gang
        (
            {"deadline": "06:00", "work": "10m"},
            {},
            "deadline(atom(<500m cpu, 64 MiB memory>, 4, 4, 30m, 2h), 06:00)",
        ),
        # a malleable Job is its pods, one after the other or in parallel
        (
            {"deadline": "6h", "work": "10m", "min-parallelism": "1"},
            {},
            "deadline(atom(<500m cpu, 64 MiB memory>, 1, 4, 10m, 100m), +6h)",
        ),
        # without a time of one pod, the Job's own limit counts
        (
            {"deadline": "2026-12-01T06:00:00+01:00"},
            {"activeDeadlineSeconds": 600, "completions": None},
            "deadline(atom(<500m cpu, 64 MiB memory>, 4, 4, 10m, 40m), 2026-12-01T06:00:00+01:00)",
        ),
        (
            {"rdl": "atom(<1 cpu, 1 GiB memory>, 4, 4, 1h, 4h)"},
            {},
            "atom(<1 cpu, 1 GiB memory>, 4, 4, 1h, 4h)",
        ),
    ],
)
def test_the_annotations_of_a_job_make_a_request(
    annotations: dict[str, str], spec: dict[str, Any], rdl: str
) -> None:
    job = read_job(job_of(annotations, **spec))
    assert job is not None
    assert read_source(rdl_of(job)) == read_source(rdl)


def test_a_node_selector_is_a_label_of_machines() -> None:
    given = job_of({"deadline": "1h", "work": "1m"})
    given["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    job = read_job(given)
    assert job is not None
    assert 'on="disk-ssd"' in rdl_of(job)


@pytest.mark.parametrize(
    ("annotations", "spec", "template", "word"),
    [
        ({"deadline": "1h"}, {}, {}, "agenda/work"),
        (
            {"deadline": "1h", "min-parallelism": "2"},
            {"activeDeadlineSeconds": 9},
            {},
            "agenda/work",
        ),
        ({"deadline": "1h), +9h", "work": "1m"}, {}, {}, "agenda/deadline"),
        ({"deadline": "1h", "work": "soon"}, {}, {}, "agenda/work"),
        ({"deadline": "1h", "work": "1m", "on-late": "x"}, {}, {}, "agenda/on-late"),
        ({"deadline": "1h", "work": "1m"}, {"suspend": False}, {}, "suspend"),
        ({"deadline": "1h", "work": "1m"}, {"parallelism": 0}, {}, "parallelism"),
        ({"deadline": "1h", "work": "1m"}, {}, {"containers": [{}]}, "cpu"),
        ({"deadline": "1h", "work": "1m"}, {}, {"nodeName": "n1"}, "nodeName"),
        (
            {"deadline": "1h", "work": "1m"},
            {},
            {"nodeSelector": {"a": "b", "c": "d"}},
            "nodeSelector",
        ),
        ({"rdl": "atom(<1 cpu>, 4, 4, 1h, 4h)", "on-late": "x"}, {}, {}, "agenda/on-late"),
        ({"deadline": "1h", "work": "1m"}, {}, {"priorityClassName": "x"}, "agenda-promised"),
        (
            {"deadline": "1h", "work": "1m"},
            {},
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            "topologySpreadConstraints",
        ),
        (
            {"rdl": "atom(<1 cpu>, 4, 4, 1h, 4h)"},
            {},
            {
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}
                }
            },
            "podAntiAffinity",
        ),
    ],
)
def test_a_job_that_cannot_be_reserved_is_refused_by_name(
    annotations: dict[str, str], spec: dict[str, Any], template: dict[str, Any], word: str
) -> None:
    given = job_of(annotations, **spec)
    given["spec"]["template"]["spec"].update(template)
    job = read_job(given)
    assert job is not None
    with pytest.raises(JobRequestError, match=word):
        rdl_of(job)


def test_jobs_without_a_deadline_and_pods_that_are_over_are_not_kept() -> None:
    leaving = job_of({"deadline": "1h"})
    leaving["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:01Z"
    assert read_job(job_of({})) is None
    assert read_job(leaving) is None
    pod = {"metadata": {}, "spec": {}, "status": {"phase": "Succeeded"}}
    assert read_pod(pod) is None


@pytest.mark.parametrize(
    "change", [{"agenda/deadline": "2h"}, {"agenda/queue": "night"}, {"agenda/on-late": "fail"}]
)
def test_a_changed_annotation_is_another_request(change: dict[str, str]) -> None:
    job, again = (read_job(job_of({"deadline": "1h", "work": "1m"})) for _ in range(2))
    changed = job_of({"deadline": "1h", "work": "1m"})
    changed["metadata"]["annotations"] |= change | {"agenda/promise": "refused"}
    other = read_job(changed)
    assert job is not None
    assert again is not None
    assert other is not None
    assert again.next_id == job.next_id != other.next_id


@pytest.mark.parametrize(
    ("spec", "ready", "why"),
    [
        ({}, "True", ""),
        ({}, "Unknown", "is not ready"),
        ({"unschedulable": True}, "True", "is cordoned"),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, "True", "has the taint gpu"),
        ({"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}, "True", ""),
        ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}, "True", ""),
        (
            {"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]},
            "True",
            "has the taint node.kubernetes.io/disk-pressure",
        ),
    ],
)
def test_a_node_takes_pods_unless_it_is_cordoned_tainted_or_not_ready(
    spec: dict[str, Any], ready: str, why: str
) -> None:
    status = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"cpu": "4"}}
    node = read_node({"metadata": {"name": "n1"}, "spec": spec, "status": status})
    assert node.why_away == why
