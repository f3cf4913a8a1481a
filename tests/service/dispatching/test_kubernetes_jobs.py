"""What follows from a Job and what the Plan has of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dispatch.backends.kubernetes.records import (
    GATE,
    ON_LATE,
    PROMISE,
    RESERVATION,
    KubernetesJob,
)
from planner.reservations.state import State
from service.config import ConfigError, ServiceConfig
from service.dispatching.kubernetes_jobs import PlannedJob, _change_of

_GATES = {"schedulingGates": [{"name": GATE}]}
_WAITING = KubernetesJob("u", "ads", "nightly", "7", 0, {}, True, 4, 4, None, {})
_RUNNING = replace(_WAITING, is_suspended=False, template=_GATES)


def planned(pods: int, *, is_over: bool = False) -> PlannedJob:
    return PlannedJob(
        "id", "ads", State.ACTIVE, {"n-0": pods} if pods else {}, is_over, 0, 60_000, ""
    )


@pytest.mark.parametrize(
    ("job", "pods", "is_over", "change"),
    [
        (_WAITING, 4, False, {"suspend": False, "parallelism": 4, "template": {"spec": _GATES}}),
        (replace(_RUNNING, is_suspended=True), 2, False, {"suspend": False, "parallelism": 2}),
        (_RUNNING, 4, False, {}),
        (_RUNNING, 3, False, {"parallelism": 3}),
        (_WAITING, 0, False, {}),
        (_RUNNING, 0, False, {"suspend": True}),
        # released by hand, so that its pods have no gate
        (replace(_WAITING, is_suspended=False), 4, False, {"suspend": True}),
        (_RUNNING, 0, True, {}),
        (replace(_RUNNING, annotations={ON_LATE: "fail"}), 0, True, {"activeDeadlineSeconds": 1}),
        (replace(_RUNNING, annotations={ON_LATE: "fail"}, deadline_s=1), 0, True, {}),
        (replace(_WAITING, annotations={ON_LATE: "fail"}), 0, True, {}),
        (replace(_RUNNING, end="Complete"), 4, False, {}),
    ],
)
def test_a_job_is_released_resized_suspended_or_left(
    job: KubernetesJob, pods: int, is_over: bool, change: dict[str, Any]
) -> None:
    assert _change_of(job, planned(pods, is_over=is_over)) == change


def test_another_job_of_the_same_name_has_another_reservation() -> None:
    again = replace(_WAITING, uid="another-uid")
    assert again.next_id != _WAITING.next_id
    longest = replace(_WAITING, namespace="n" * 63, name="j" * 63, uid="0" * 36, ask="0" * 8)
    assert len(longest.next_id) <= 128


def test_a_copy_of_a_promised_job_has_no_promise() -> None:
    notes = {RESERVATION: _WAITING.next_id, PROMISE: "promised"}
    promised = replace(_WAITING, annotations=notes)
    assert promised.promise == "promised"
    copied = replace(promised, uid="another-uid")
    assert (copied.noted_id, copied.promise) == ("", "")


def test_work_runs_in_one_place() -> None:
    with pytest.raises(ConfigError, match="Kubernetes"):
        ServiceConfig(kubernetes="in-cluster", executors=True)
