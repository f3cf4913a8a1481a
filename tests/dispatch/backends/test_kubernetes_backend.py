"""Jobs, Services and pods that belong to components, and those that only look like it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatch.backends.interface import MachineReport
from dispatch.backends.kubernetes.api import Json, KubernetesApi
from dispatch.backends.kubernetes.backend import KubernetesBackend
from dispatch.backends.kubernetes.cluster import JOBS, NODES, PODS, KubernetesCluster
from dispatch.backends.kubernetes.components import (
    EXECUTION,
    execution_of,
    job_name,
    read_component,
    service_of,
)
from dispatch.backends.kubernetes.records import MACHINE
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.events import EventKind

_KEY = "app", "a", 0
_NOTES = {"agenda/application": "app", "agenda/component": "a", "agenda/index": "0",
          "agenda/since": "7", "agenda/ports": ""}  # fmt: skip


def _job(namespace: str = "ads", *, end: str = "", **notes: str | None) -> Json:
    """Return the Job of a component; keys of annotations have no prefix, None leaves one out."""
    given = _NOTES | {f"agenda/{key}": text for key, text in notes.items()}
    condition = {"type": end, "status": "True", "lastTransitionTime": "2026-01-05T00:00:00Z"}
    return {
        "metadata": {
            "uid": f"job-{namespace}", "namespace": namespace, "name": job_name(_KEY),
            "resourceVersion": "1", "labels": {EXECUTION: "x"},
            "annotations": {key: text for key, text in given.items() if text is not None},
        },
        "spec": {"template": {"spec": {"nodeSelector": {MACHINE: "n-0"}}}},
        "status": {"conditions": [condition] if end else []},
    }  # fmt: skip


def _pod(phase: str, job: str = "job-ads", **conditions: str) -> Json:
    """Return a pod with the label of components; of each condition its reason."""
    found = [{"type": key, "status": "False", "reason": text} for key, text in conditions.items()]
    return {
        "metadata": {
            "uid": "pod", "namespace": "ads", "name": "pod", "resourceVersion": "1",
            "labels": {EXECUTION: "x"},
            "ownerReferences": [{"kind": "Job", "uid": job, "controller": True}],
        },
        "spec": {"nodeName": "a", "containers": []},
        "status": {"phase": phase, "conditions": found},
    }  # fmt: skip


def _node(ready: str = "True", *, cordoned: bool = False) -> Json:
    return {
        "metadata": {"uid": "a", "name": "a", "resourceVersion": "1", "labels": {MACHINE: "n-0"}},
        "spec": {"unschedulable": cordoned},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


class Api:
    """An API server at its border: lists of objects, and the calls that it gets."""

    def __init__(self, jobs: list[Json], pods: list[Json], nodes: list[Json]) -> None:
        self.lists = {JOBS: jobs, PODS: pods, NODES: nodes}
        self.deleted: list[tuple[str, str]] = []

    def items(self, path: str, label: str = "") -> tuple[list[Json], str]:
        return self.lists.get(path, []), "1"

    def call(self, method: str, path: str, body: Any = None) -> Json:
        assert method == "DELETE"
        self.deleted.append((path, body["propagationPolicy"]))
        return {}


class Lab:
    """A backend whose table has the application `app` of the tenant `ads`, if `known`."""

    def __init__(
        self,
        *jobs: Json,
        pods: tuple[Json, ...] = (),
        node: Json | None = None,
        known: bool = True,
        is_over: bool = False,
    ) -> None:
        self.api = Api(list(jobs), list(pods), [node or _node()])
        self.cluster = KubernetesCluster(cast("KubernetesApi", self.api), lambda: None)
        for watch in self.cluster._watches:
            watch._list()
            watch._watching(lambda: None)
        peers = SimpleNamespace(
            tenant_of=lambda id_: "ads" if known and id_ == "app" else None,
            give_ports=lambda *_: {},
        )
        self.backend = KubernetesBackend(
            self.cluster,
            lambda: MachineReport({}, frozenset({"n-0"})),
            cast("Any", peers),
            lambda: True,
            lambda _: is_over,
            0,
        )
        self.backend.set_machines(["n-0"], 0)
        self.placed: list[Any] = []
        if known:
            part = SimpleNamespace(component=SimpleNamespace(name="a", core=True))
            execution = SimpleNamespace(id="app", tenant="ads", parts=[part])
            table = SimpleNamespace(resume=lambda _, placed: self.placed.extend(placed))
            self.backend.resume(cast("Any", table), cast("Any", execution))

    def events(self) -> list[EventKind]:
        return [event.kind for event in self.backend.events(0)]


@pytest.mark.parametrize(
    "wrong",
    [{"application": None}, {"index": "first"}, {"since": None}, {"ports": "http"}, {"index": "1"}],
)
def test_a_job_that_only_looks_like_a_component_is_none(wrong: dict[str, Any]) -> None:
    assert read_component(_job()) is not None
    assert read_component(_job(**wrong)) is None


def test_a_service_with_the_label_alone_is_of_no_execution() -> None:
    own = service_of("app")
    assert execution_of(own) == "app"
    assert execution_of({"metadata": {"name": "web", "labels": {EXECUTION: "x"}}}) is None
    own["metadata"]["name"] = "web"
    assert execution_of(own) is None


def test_an_object_that_cannot_be_read_is_ignored_alone() -> None:
    broken = {"metadata": {"uid": "b", "name": "b", "resourceVersion": "1"}}
    lab = Lab(broken, _job())
    found = lab.cluster.components()
    assert found is not None
    assert set(found.jobs) == {"job-ads"}


def test_a_pod_hides_by_no_label() -> None:
    """Only the controller tells whose it is."""
    own, other = _pod("Running"), _pod("Running", job="job")
    other["metadata"]["uid"] = "other"
    view = Lab(_job(), pods=(own, other)).cluster.view()
    assert view is not None
    assert [pod.uid for pod in view.pods] == ["other"]


def test_a_job_in_the_namespace_of_another_tenant_is_not_resumed() -> None:
    lab = Lab(_job("web"))
    assert lab.placed == []
    assert lab.backend.state().rows == ()
    lab = Lab(_job("web"), _job())
    assert len(lab.placed) == 1
    assert lab.events() == []
    assert [path for path, _ in lab.api.deleted] == [
        f"/apis/batch/v1/namespaces/web/jobs/{job_name(_KEY)}"
    ]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_running_job_of_an_application_that_could_not_be_read_stays(is_over: bool) -> None:
    lab = Lab(_job(), known=False, is_over=is_over)
    lab.events()
    assert len(lab.api.deleted) == is_over
    assert len(lab.backend._former) == (not is_over)


@pytest.mark.parametrize(
    ("node", "how"),
    [
        (_node(cordoned=True), "Foreground"),
        (_node("Unknown"), "Background"),
        (_node("Unknown", cordoned=True), "Background"),
    ],
)
def test_only_on_a_node_that_does_not_answer_a_job_goes_before_its_pod(
    node: Json, how: str
) -> None:
    lab = Lab(_job(), node=node, known=False, is_over=True)
    lab.events()
    assert [found for _, found in lab.api.deleted] == [how]


@pytest.mark.parametrize(("ready", "deleted"), [("True", []), ("Unknown", ["Background"])])
def test_a_job_that_waits_for_the_pod_of_a_node_that_is_gone_makes_way(
    ready: str, deleted: list[str]
) -> None:
    job = _job()
    job["metadata"]["deletionTimestamp"] = "2026-01-05T00:00:00Z"
    lab = Lab(job, node=_node(ready))
    (missed,) = lab.backend.apply([Delta(Op.START, *_KEY, "n-0", "")], 0)
    assert missed.retry
    assert [how for _, how in lab.api.deleted] == deleted


def test_a_failed_job_waits_for_its_pod_to_say_how() -> None:
    lab = Lab(_job(end="Failed"), pods=(_pod("Running"),))
    assert lab.events() == [EventKind.STARTED]
    disrupted = _pod("Failed")
    disrupted["metadata"]["resourceVersion"] = "2"
    disrupted["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    lab.cluster._pods._store(disrupted)
    assert lab.events() == [EventKind.LOST]


@pytest.mark.parametrize("pods", [(), (_pod("Pending", PodScheduled="Unschedulable"),)])
def test_a_component_that_gets_no_node_is_given_up_there(pods: tuple[Json, ...]) -> None:
    lab = Lab(_job(), pods=pods)
    assert lab.events() == []
    lab.backend._runs[_KEY].asked_s -= 61
    assert lab.events() == [EventKind.STUCK]
    assert len(lab.api.deleted) == 1


def test_a_pod_whose_image_is_fetched_may_take_its_time() -> None:
    lab = Lab(_job(), pods=(_pod("Pending"),))
    lab.backend._runs[_KEY].asked_s -= 600
    assert lab.events() == []
