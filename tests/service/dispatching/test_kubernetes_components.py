"""Components of applications as Jobs of one pod each, on a table of objects as the API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dispatch.backends.kubernetes.api import Json, KubernetesAwayError, KubernetesError
from dispatch.backends.kubernetes.cluster import JOBS, NODES, PODS
from dispatch.backends.kubernetes.components import EXECUTION
from dispatch.backends.kubernetes.records import MACHINE, PRIORITY_CLASS
from tests.service.conftest import Open
from tests.service.dispatching.kubernetes_table import SERVICES, Lab, open_lab


@pytest.fixture
def lab(open_service: Open, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return open_lab(open_service, monkeypatch)


def _component(name: str, count: int = 1, *, core: bool = True, **more: Any) -> Json:
    resources = {"cpu": 0.5, "memory": "64 MiB"}
    return {"name": name, "count": count, "core": core, "resources": resources,
            "image": "registry/work", **more}  # fmt: skip


def _submit(lab: Lab, *components: Json, **more: Any) -> Any:
    application = {"name": "app", "components": list(components), **more}
    body = {"id": "app", "tenant": "ads", "application": application}
    answer = lab.service.client.post("/v1/applications", json=body)
    lab.tick()
    return answer


def _state(lab: Lab) -> str:
    lab.tick()
    return str(lab.service.client.get("/v1/applications/app").get_json()["state"])


def _reason(lab: Lab) -> str:
    return str(lab.service.client.get("/v1/applications/app").get_json()["reason"])


def _jobs(lab: Lab) -> dict[str, tuple[str, Json]]:
    """Return path and object of the Job of each component, such as ``w0``."""
    found = {}
    for path, one in lab.api.objects[JOBS].items():
        notes = one["metadata"]["annotations"]
        found[notes["agenda/component"] + notes["agenda/index"]] = path, one
    return found


def _pod(lab: Lab, name: str, phase: str, *, code: int | None = None, **status: Any) -> None:
    """Let the pod of a component be in a phase."""
    _, job = _jobs(lab)[name]
    uid = job["metadata"]["uid"]
    if code is not None:
        status["containerStatuses"] = [{"state": {"terminated": {"exitCode": code}}}]
    lab.api.put(PODS, name, {
        "metadata": {
            "uid": f"pod-{uid}", "namespace": "ads", "name": name,
            "labels": job["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [{"kind": "Job", "uid": uid, "controller": True}],
        },
        "spec": job["spec"]["template"]["spec"],
        "status": {"phase": phase, **status},
    })  # fmt: skip


def _end(lab: Lab, name: str, kind: str, reason: str = "BackoffLimitExceeded") -> None:
    """Let the Job of a component end."""
    path, _ = _jobs(lab)[name]
    condition = {"type": kind, "status": "True", "reason": reason,
                 "lastTransitionTime": "2026-01-05T00:00:00Z"}  # fmt: skip
    lab.change(path, {"status": {"conditions": [condition]}})


def test_a_component_is_a_job_with_image_environment_limits_and_machine(lab: Lab) -> None:
    peers = {
        "command": "serve --peer {dns_name#b1} $$ $(A)",
        "environment": {"A": "{dns_name#self}"},
    }
    part = _component("a", ports=["http"], directory="/data", timeout=90, **peers)
    assert _submit(lab, part, _component("b", 2)).status_code == 201
    ((service_path, service),) = lab.api.objects[SERVICES].items()
    assert service_path.startswith("/api/v1/namespaces/ads/services/agenda-")
    assert service["spec"]["clusterIP"] == "None"
    jobs = _jobs(lab)
    assert set(jobs) == {"a0", "b0", "b1"}
    _, job = jobs["a0"]
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    name = service["metadata"]["name"]
    assert container["image"] == "registry/work"
    assert container["command"] == ["/bin/sh", "-c", f"serve --peer b-1.{name}.ads.svc $$$$ $$(A)"]
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "64Mi"}
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["workingDir"] == "/data"
    given = {one["name"]: one.get("value") for one in container["env"]}
    assert given["A"] == given["AGENDA_HOST"] == f"a-0.{name}.ads.svc"
    assert [{"containerPort": int(given["AGENDA_PORT_HTTP"])}] == container["ports"]
    assert {one["host"] for one in json.loads(given["AGENDA_PEERS"])["b"]} == {
        f"b-{index}.{name}.ads.svc" for index in (0, 1)
    }
    assert (spec["hostname"], spec["subdomain"]) == ("a-0", name)
    assert spec["nodeSelector"][MACHINE].startswith("plain-")
    assert "priorityClassName" not in spec
    assert job["spec"]["activeDeadlineSeconds"] == 90
    labels = service["spec"]["selector"]
    assert job["spec"]["template"]["metadata"]["labels"] == labels == {EXECUTION: labels[EXECUTION]}
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Service", service["metadata"]["uid"])
    assert "command" not in jobs["b0"][1]["spec"]["template"]["spec"]["containers"][0]


def test_what_a_reservation_covers_has_the_priority_of_promises(lab: Lab) -> None:
    body = {"id": "r", "tenant": "ads", "rdl": "window(atom(<1 cpu>, 1, 1, 10m, 10m), +0, +1h)"}
    assert lab.service.client.post("/v1/reservations", json=body).status_code == 201
    _submit(lab, _component("a"), reservation="r")
    _, job = _jobs(lab)["a0"]
    assert job["spec"]["template"]["spec"]["priorityClassName"] == PRIORITY_CLASS


def test_an_application_runs_and_completes_with_its_core_jobs(lab: Lab) -> None:
    """What has ended stays for its logs; what still runs is deleted."""
    _submit(lab, _component("a"), _component("w", core=False))
    assert _state(lab) == "starting"
    _pod(lab, "a0", "Running")
    _pod(lab, "w0", "Running")
    assert _state(lab) == "running"
    _end(lab, "a0", "Complete")
    _state(lab)
    assert _state(lab) == "completed"
    assert set(_jobs(lab)) == {"a0"}


@pytest.mark.parametrize(
    ("phase", "status", "reason"),
    [
        ("Failed", {"code": 3}, "exit code 3"),
        ("Pending", {"containerStatuses": [{"state": {"waiting": {
            "reason": "ImagePullBackOff", "message": "no such image"}}}]}, "no such image"),
    ],
)  # fmt: skip
def test_a_component_that_fails_says_why(lab: Lab, phase: str, status: Json, reason: str) -> None:
    _submit(lab, _component("a"))
    _pod(lab, "a0", phase, **status)
    if phase == "Failed":
        _end(lab, "a0", "Failed")
    _state(lab)
    assert _state(lab) == "failed"
    assert reason in _reason(lab)


def test_a_timeout_is_a_failure(lab: Lab) -> None:
    """Its pod is gone by then."""
    _submit(lab, _component("a", timeout=5))
    _end(lab, "a0", "Failed", "DeadlineExceeded")
    _state(lab)
    assert _state(lab) == "failed"
    assert "DeadlineExceeded" in _reason(lab)


@pytest.mark.parametrize("how", ["evicted", "deleted", "service deleted", "cordoned"])
def test_what_is_lost_through_no_fault_of_its_own_starts_again(lab: Lab, how: str) -> None:
    _submit(lab, _component("a"))
    path, job = _jobs(lab)["a0"]
    _pod(lab, "a0", "Running")
    assert _state(lab) == "running"
    if how == "evicted":
        target = {"type": "DisruptionTarget", "status": "True"}
        _pod(lab, "a0", "Failed", code=137, conditions=[target])
        _end(lab, "a0", "Failed")
    elif how != "cordoned":
        del lab.api.objects[JOBS][path]
        if how == "service deleted":
            lab.api.objects[SERVICES].clear()
    else:
        number = job["spec"]["template"]["spec"]["nodeSelector"][MACHINE].rpartition("-")[2]
        lab.api.objects[NODES][f"n{number}"]["spec"]["unschedulable"] = True
    for _ in range(4):
        lab.tick(after_s=5)
    _, again = _jobs(lab)["a0"]
    assert again["metadata"]["uid"] != job["metadata"]["uid"]
    (service,) = lab.api.objects[SERVICES].values()
    assert again["metadata"]["ownerReferences"][0]["uid"] == service["metadata"]["uid"]
    assert _state(lab) == "starting"


def test_what_other_pods_request_is_left_to_them(lab: Lab) -> None:
    """Of nine nodes all, of the tenth less: there is the promise."""
    for number in range(10):
        request = {"cpu": "400m" if number == 4 else "1"}
        lab.api.put(PODS, f"other-{number}", {
            "metadata": {"uid": f"other-{number}", "namespace": "ads", "name": f"other-{number}"},
            "spec": {"nodeName": f"n{number}", "priority": 2_000_000,
                     "containers": [{"resources": {"requests": request}}]},
            "status": {"phase": "Running"},
        })  # fmt: skip
    lab.tick()
    lab.tick(after_s=16)
    with lab.service.runtime.reading() as plan:
        taken = {name: amounts["cpu"] for name, amounts in plan.cluster.taken}
    assert taken == {f"plain-{number}": 400 if number == 4 else 1000 for number in range(10)}
    rdl = "window(atom(<0.5 cpu>, 1, 1, 10m, 10m), +0, +1h)"
    body = {"id": "r", "tenant": "ads", "rdl": rdl}
    assert lab.service.client.post("/v1/reservations", json=body).status_code == 201
    _submit(lab, _component("a"), reservation="r")
    _, job = _jobs(lab)["a0"]
    assert job["spec"]["template"]["spec"]["nodeSelector"][MACHINE] == "plain-4"
    for _ in range(5):
        lab.tick(after_s=2)
        assert lab.dispatcher.check() == []


def test_another_leader_starts_nothing_twice_and_takes_over_what_has_ended(lab: Lab) -> None:
    _submit(lab, _component("a", 2))
    before = {name: job["metadata"]["uid"] for name, (_, job) in _jobs(lab).items()}
    _pod(lab, "a0", "Running")
    _pod(lab, "a1", "Running")
    assert _state(lab) == "running"
    _end(lab, "a1", "Complete")
    lab.dispatcher._end_tenure()
    assert _state(lab) == "running"
    assert {name: job["metadata"]["uid"] for name, (_, job) in _jobs(lab).items()} == before
    _end(lab, "a0", "Complete")
    _state(lab)
    assert _state(lab) == "completed"


def test_an_answer_that_is_lost_starts_nothing_twice(lab: Lab) -> None:
    """The Job is there, but no answer came: it is deleted, and made again."""
    create = lab.api._create
    lost: list[str] = []

    def lose(path: str, body: Json) -> Json:
        made = create(path, body)
        if path.endswith("/jobs") and not lost:
            lost.append(made["metadata"]["uid"])
            raise KubernetesAwayError(0, "it broke off")
        return made

    lab.api._create = lose  # type: ignore[method-assign]
    _submit(lab, _component("a"))
    for _ in range(3):
        lab.tick(after_s=1)
    _, job = _jobs(lab)["a0"]
    assert lost
    assert job["metadata"]["uid"] not in lost


def test_a_tenant_without_a_namespace_is_told_so(lab: Lab) -> None:
    def refuse(path: str, _: Json) -> Json:
        raise KubernetesError(404, "namespaces ads not found")

    lab.api._create = refuse  # type: ignore[method-assign]
    _submit(lab, _component("a"))
    assert "namespace ads does not exist" in _reason(lab)


def test_an_ended_application_stops_its_jobs_and_its_service_goes_with_the_logs(lab: Lab) -> None:
    _submit(lab, _component("a"))
    _pod(lab, "a0", "Running")
    assert _state(lab) == "running"
    assert lab.service.client.delete("/v1/applications/app").status_code < 300
    lab.tick()
    assert _state(lab) == "killed"
    assert not lab.api.objects[JOBS]
    backend = lab.dispatcher._tenure._backend
    backend._swept_s -= 3600
    lab.tick()
    assert not lab.api.objects[SERVICES]


def test_what_kubernetes_does_not_carry_out_is_refused(lab: Lab) -> None:
    part = _component("a", success=[0, 3], command="true")
    del part["image"]
    answer = _submit(lab, part, tasks=3)
    assert answer.status_code == 409
    pointers = {one["pointer"] for one in answer.get_json()["errors"]}
    at = "/application/components/0"
    assert pointers == {at, f"{at}/success", "/application/tasks"}
