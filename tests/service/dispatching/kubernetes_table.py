"""A dispatcher on a Kubernetes whose API server is a table of objects.

It answers as the real one does in tests/end_to_end/calls/test_kubernetes.py, and with faults that
a test chooses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatch.backends.kubernetes.api import Json, KubernetesError, Watched
from dispatch.backends.kubernetes.cluster import JOBS, NODES, PODS
from dispatch.backends.kubernetes.records import MACHINE, PRIORITY_CLASS
from service.dispatching import kubernetes_jobs
from tests.patience import eventually
from tests.service.conftest import Open, Service

SERVICES = "/api/v1/services"


class TableApi:
    """An API server at its border."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {
            kind: {} for kind in (JOBS, PODS, NODES, SERVICES)
        }
        self._uids = itertools.count()
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

    def items(self, path: str, label: str = "") -> tuple[list[Json], str]:
        """Return the objects of a kind, or those with a label."""
        found = self.objects[path].values()
        labels = [one["metadata"].get("labels", {}) for one in found]
        chosen = [one for one, has in zip(found, labels, strict=True) if not label or label in has]
        return chosen, str(self._version)

    def _create(self, path: str, body: Json) -> Json:
        kind = JOBS if path.endswith("/jobs") else SERVICES
        namespace, name = path.split("/")[-2], body["metadata"]["name"]
        if f"{path}/{name}" in self.objects[kind]:
            raise KubernetesError(409, f"{name} exists")
        meta = {**body["metadata"], "namespace": namespace, "uid": f"u{next(self._uids)}"}
        self.put(kind, f"{path}/{name}", {**body, "metadata": meta})
        return self.objects[kind][f"{path}/{name}"]

    def call(self, method: str, path: str, body: Any = None, query: Any = None) -> Json:
        """Answer a call of the server."""
        if method == "GET":
            return self.objects[SERVICES].get(path, {"value": 1_000_000})
        if path in self.faults:
            raise self.faults[path]
        if path.endswith(("/events", "/eviction")):
            self.events.append((path, body.get("reason", body.get("kind"))))
            return {}
        self.at_change(path)
        if method == "POST":
            return self._create(path, body)
        if method == "DELETE":
            return self.objects[JOBS if "/jobs/" in path else SERVICES].pop(path, {})
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


def open_lab(open_service: Open, monkeypatch: pytest.MonkeyPatch) -> Lab:
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
