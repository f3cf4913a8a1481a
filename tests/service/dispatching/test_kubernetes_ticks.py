"""Ticks of a dispatcher on a Kubernetes whose API server is a table of objects.

It answers as the real one does in tests/end_to_end/calls/test_kubernetes.py, and with faults that
a test chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatch.backends.kubernetes.api import Json, KubernetesError, Watched
from dispatch.backends.kubernetes.cluster import JOBS, NODES, PODS
from dispatch.backends.kubernetes.records import MACHINE, PRIORITY_CLASS, KubernetesJob
from service.dispatching import kubernetes_jobs
from tests.patience import eventually
from tests.service.conftest import Open, Service

_RDL = "window(atom(<1 cpu>, 1, 1, {0}, {0}), {1}, {2})"


class TableApi:
    """An API server at its border."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {JOBS: {}, PODS: {}, NODES: {}}
        #: Refusals of changes, by path; and what happens at a change.
        self.faults: dict[str, KubernetesError] = {}
        self.at_change: Callable[[str], None] = lambda _: None
        self.changes: list[tuple[str, Json]] = []
        self.events: list[tuple[str, str]] = []
        self._version = 0

    def put(self, kind: str, path: str, object_: Json) -> None:
        """Create an object, or change all of it."""
        self._version += 1
        object_["metadata"]["resourceVersion"] = str(self._version)
        self.objects[kind][path] = object_

    def items(self, path: str) -> tuple[list[Json], str]:
        """Return the objects of a kind."""
        return list(self.objects[path].values()), str(self._version)

    def call(self, method: str, path: str, body: Any = None, query: Any = None) -> Json:
        """Answer a call of the server."""
        if method == "GET":
            return {"value": 1_000_000}
        if path in self.faults:
            raise self.faults[path]
        if method == "POST":
            self.events.append((path, body["reason"]))
            return {}
        self.at_change(path)
        self.changes.append((path, body))
        kind = JOBS if "/jobs/" in path else PODS
        object_ = self.objects[kind][path]
        if object_["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise KubernetesError(409, "it has changed")
        self.put(kind, path, _merged(object_, body))
        return self.objects[kind][path]


def _merged(old: Any, change: Any) -> Any:
    """Return an object after a merge patch."""
    if not isinstance(change, dict):
        return change
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        found[key] = _merged(found.get(key), value)
    return {key: value for key, value in found.items() if value is not None}


class Lab:
    """A service that dispatches on ten nodes when a test lets it."""

    def __init__(self, api: TableApi, service: Service) -> None:
        self.api, self.service = api, service

    def job(self, name: str, uid: str = "", age_s: int = 0, **more: Any) -> str:
        """Create a Job; return its path. Keys of annotations have no prefix."""
        spec = {key: more.pop(key) for key in ("parallelism", "completions") if key in more}
        notes = {key.replace("_", "-"): text for key, text in more.items()}
        created = datetime.fromtimestamp(self.service.clock.now_ms() / 1000 - age_s, UTC)
        template = {
            "priorityClassName": PRIORITY_CLASS,
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        }
        path = f"/apis/batch/v1/namespaces/ads/jobs/{name}"
        self.api.put(JOBS, path, {
            "metadata": {
                "uid": uid or name.rjust(12, "0"),
                "namespace": "ads",
                "name": name,
                "creationTimestamp": created.isoformat(timespec="seconds"),
                "annotations": {f"agenda/{key}": text for key, text in notes.items()},
            },
            "spec": {"suspend": True, **spec, "template": {"spec": template}},
        })  # fmt: skip
        return path

    def annotate(self, path: str, **notes: str | None) -> None:
        given = {f"agenda/{key.replace('_', '-')}": text for key, text in notes.items()}
        self.change(path, {"metadata": {"annotations": given}})

    def change(self, path: str, change: Json) -> None:
        self.api.put(JOBS, path, _merged(self.api.objects[JOBS][path], change))

    def notes(self, path: str) -> dict[str, str]:
        found = self.api.objects[JOBS][path]["metadata"]["annotations"]
        return {key.removeprefix("agenda/"): text for key, text in found.items()}

    def is_suspended(self, path: str) -> bool:
        return bool(self.api.objects[JOBS][path]["spec"]["suspend"])

    def tick(self, after_s: float = 0) -> None:
        """Let time pass, for the Plan too, and the dispatcher see all objects and tick."""
        self.service.clock.advance(after_s)
        eventually(self._plan_is_now)
        cluster = self.dispatcher._kubernetes._cluster
        if cluster is not None:
            for watch in cluster._watches:
                watch._list()
        self.dispatcher.tick()

    def _plan_is_now(self) -> bool:
        runtime = self.service.runtime
        with runtime._replica.newest() as plan:
            return bool(plan.now == runtime.now_ms() // plan.grid.step_ms)

    @property
    def dispatcher(self) -> Any:
        return self.service.runtime.dispatcher

    def history(self, path: str) -> list[str]:
        id_ = self.notes(path)["reservation"]
        found = self.service.client.get(f"/v1/reservations/{id_}").get_json()
        return [one["what"] for one in found["history"]]


@pytest.fixture
def lab(open_service: Open, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Return a service that has looked at its nodes."""
    api = TableApi()
    for number in range(10):
        labels = {MACHINE: f"plain-{number}"}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        size = {"allocatable": {"cpu": "1", "memory": "4Gi"}}
        meta = {"uid": f"n{number}", "name": f"n{number}", "labels": labels}
        api.put(NODES, f"n{number}", {"metadata": meta, "spec": {}, "status": ready | size})

    def start(watched: Watched[Any]) -> None:
        watched._list()
        watched._watching(lambda: None)

    monkeypatch.setattr(kubernetes_jobs, "KubernetesApi", lambda _: api)
    monkeypatch.setattr(Watched, "start", start)
    lab = Lab(api, open_service(tick_s=0, kubernetes="kubeconfig", agent="earliest"))
    lab.tick()
    return lab


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


def test_a_leader_that_has_lost_its_lease_changes_no_more_jobs(lab: Lab) -> None:
    """Another process begins to lead after the first change."""
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
