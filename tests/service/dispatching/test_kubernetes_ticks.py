"""Ticks of a dispatcher on a Kubernetes: Jobs are promised, released and followed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from dispatch.backends.kubernetes.api import Json, KubernetesError
from dispatch.backends.kubernetes.records import KubernetesJob
from service.dispatching import kubernetes_jobs
from tests.patience import eventually
from tests.service.conftest import Open
from tests.service.dispatching.kubernetes_table import Lab, open_lab

_RDL = "window(atom(<1 cpu>, 1, 1, {0}, {0}), {1}, {2})"


@pytest.fixture
def lab(open_service: Open, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return open_lab(open_service, monkeypatch)


def test_many_refused_and_invalid_jobs_keep_no_other_from_its_promise(lab: Lab) -> None:
    paths = [lab.job(f"bad-{number}", deadline="before lunch") for number in range(120)]
    paths += [
        lab.job(f"much-{number}", parallelism=20, deadline="1h", work="10m")
        for number in range(120)
    ]
    for _ in range(4):
        lab.tick()
    assert {lab.notes(path)["promise"] for path in paths} == {"invalid", "refused"}
    good = lab.job("good", deadline="1h", work="10m")
    before = len(lab.api.changes)
    lab.tick()
    assert lab.notes(good)["promise"] == "promised"
    assert {path for path, _ in lab.api.changes[before:]} == {good}


def test_a_job_that_the_api_server_fails_to_change_stops_no_other(lab: Lab) -> None:
    broken = lab.job("broken", deadline="1h", work="10m")
    lab.api.faults[broken] = KubernetesError(500, "an admission webhook failed")
    good = lab.job("good", deadline="1h", work="10m")
    lab.tick()
    assert not lab.is_suspended(good)
    del lab.api.faults[broken]
    lab.tick()
    assert not lab.is_suspended(broken)


def test_a_job_whose_release_is_late_is_released_and_not_planned_again(lab: Lab) -> None:
    """No leader ticked for 70 s of a slot of 5 min: it starts once."""
    path = lab.job("late", rdl=_RDL.format("5m", "+5m", "+3h"))
    lab.tick()
    assert lab.is_suspended(path)
    lab.tick(after_s=370)
    assert not lab.is_suspended(path)
    lab.tick(after_s=1)
    assert not lab.is_suspended(path)
    assert "missed" not in " ".join(lab.history(path))


def test_a_second_slot_that_passes_unused_is_planned_again(lab: Lab) -> None:
    """The API server takes no change of the Job while it passes."""
    first, second = _RDL.format("5m", "+5m", "+15m"), _RDL.format("5m", "+30m", "+3h")
    path = lab.job("twice", rdl=f"order({first}, {second})")
    lab.tick()
    lab.tick(after_s=305)
    assert not lab.is_suspended(path)
    lab.tick(after_s=600)
    assert lab.is_suspended(path)
    lab.tick(after_s=60)
    assert "missed" not in " ".join(lab.history(path))  # it ran in the first
    lab.api.faults[path] = KubernetesError(500, "an admission webhook failed")
    lab.tick(after_s=1000)
    assert "missed" in " ".join(lab.history(path))
    del lab.api.faults[path]

    def is_released() -> bool:
        lab.tick(after_s=10)
        return not lab.is_suspended(path)

    eventually(is_released)


def test_a_refused_job_is_asked_again_when_it_asks_for_something_else(lab: Lab) -> None:
    """Whether the deadline changes, or only the queue."""
    path = lab.job("much", parallelism=20, completions=20, deadline="1h", work="10m")
    lab.tick()
    assert lab.notes(path)["promise"] == "refused"
    lab.annotate(path, min_parallelism="1")
    lab.tick()
    assert lab.notes(path)["promise"] == "promised"

    path = lab.job("night", deadline="1h", work="10m", queue="no-such-queue")
    lab.tick()
    assert "no-such-queue" in lab.notes(path)["reason"]
    lab.annotate(path, queue="default")
    lab.tick()
    assert lab.notes(path)["promise"] == "promised"
    assert "reason" not in lab.notes(path)


def test_a_promised_job_keeps_its_promise_whatever_it_asks_for(lab: Lab) -> None:
    path = lab.job("kept", deadline="1h", work="10m")
    lab.tick()
    before = lab.notes(path)
    lab.annotate(path, deadline="3h")
    lab.tick()
    assert lab.notes(path) == before | {"deadline": "3h"}


def test_times_count_from_the_creation_of_a_job(lab: Lab) -> None:
    over = lab.job("over", age_s=7200, deadline="1h", work="10m")
    soon = lab.job("soon", age_s=3000, deadline="1h", work="10m")
    lab.tick()
    assert lab.notes(over)["promise"] in ("refused", "invalid")
    end = datetime.fromisoformat(lab.notes(soon)["end"]).timestamp()
    assert end <= lab.service.clock.now_ms() / 1000 + 600


def test_a_job_without_an_end_is_invalid(lab: Lab) -> None:
    path = lab.job("daily", rdl="every(1h, atom(<1 cpu>, 1, 1, 30m, 30m))")
    lab.tick()
    assert lab.notes(path)["promise"] == "invalid"
    assert "CronJob" in lab.notes(path)["reason"]


def test_a_fault_with_one_job_stops_no_other(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    odd, good = (lab.job(name, deadline="1h", work="10m") for name in ("odd", "good"))
    change_of = kubernetes_jobs._change_of

    def fail(job: KubernetesJob, planned: Any) -> Json:
        if job.name == "odd":
            raise ZeroDivisionError
        return change_of(job, planned)

    monkeypatch.setattr(kubernetes_jobs, "_change_of", fail)
    lab.tick()
    assert not lab.is_suspended(good)
    assert lab.is_suspended(odd)


@pytest.mark.parametrize("rdl", ["atom(<1 cpu>, 1, 1, 8m, 8m)", _RDL.format("8m", "+0m", "+3h")])
def test_a_job_that_needs_more_time_gets_a_quarter_more(lab: Lab, rdl: str) -> None:
    path = lab.job("longer", rdl=rdl, on_late="extend")
    lab.tick()
    before = datetime.fromisoformat(lab.notes(path)["end"])
    lab.tick(after_s=before.timestamp() - lab.service.clock.now_ms() / 1000 - 30)
    lab.tick()
    assert (datetime.fromisoformat(lab.notes(path)["end"]) - before).total_seconds() == 120


def test_a_leader_that_has_lost_its_lease_changes_no_more_jobs(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process begins to lead after the first change."""
    monkeypatch.setattr(kubernetes_jobs, "_AT_ONCE", 1)
    rows, clock = lab.dispatcher.rows, lab.service.clock
    paths = [lab.job(name, deadline="1h", work="10m") for name in ("one", "two")]

    def take_over(_: str) -> None:
        clock.advance(100)
        rows.lead("another", clock.now_ms(), clock.now_ms() + 100_000)

    lab.api.at_change = take_over
    lab.tick()
    assert [lab.is_suspended(path) for path in paths] == [False, True]
    closed = [watch._closing.is_set() for watch in lab.dispatcher._kubernetes._cluster._watches]
    assert closed == [True, True, True]


def test_the_end_of_a_job_is_noted_once(lab: Lab) -> None:
    """Also where it cannot be annotated at first."""
    path = lab.job("fails", deadline="1h", work="10m")
    lab.tick()
    failed = {"type": "Failed", "status": "True", "message": "BackoffLimitExceeded"}
    lab.change(path, {"status": {"conditions": [failed]}})
    lab.api.faults[path] = KubernetesError(500, "an admission webhook failed")
    for _ in range(3):
        lab.tick()
    assert lab.history(path).count("work_ended") == 0
    del lab.api.faults[path]
    for _ in range(3):
        lab.tick()
    assert lab.history(path).count("work_ended") == 1


def test_no_other_client_takes_the_id_of_a_job(lab: Lab) -> None:
    answer = lab.service.ask("k8s:ads:nightly:01234567:89abcdef")
    assert answer.status_code == 400
    assert lab.service.ask("k8s").status_code == 201


def test_a_copy_of_a_promised_job_is_asked_for_by_itself(lab: Lab) -> None:
    """Made from the YAML that kubectl exports."""
    path = lab.job("first", deadline="1h", work="10m")
    lab.tick()
    notes = lab.notes(path)
    copy = lab.job("copy", **{key.replace("-", "_"): text for key, text in notes.items()})
    lab.tick()
    assert lab.notes(copy)["promise"] == "promised"
    assert lab.notes(copy)["reservation"] != notes["reservation"]
    assert lab.notes(path) == notes


def test_a_request_names_the_label_that_its_pods_select(lab: Lab) -> None:
    path = lab.job("ssd", rdl=_RDL.format("5m", "+0m", "+3h"))
    lab.change(path, {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}})
    lab.tick()
    assert lab.notes(path)["promise"] == "invalid"
    assert 'on="disk-ssd"' in lab.notes(path)["reason"]
