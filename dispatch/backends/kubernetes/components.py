"""Components of applications as Jobs of one pod, and the headless Service by which peers find them.

The Service of an execution owns its Jobs: the garbage collector deletes them, and their pods, with
it. A Job's name follows from its component, so that the API server itself refuses a second one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dispatch.backends.kubernetes.api import Json, KubernetesApi, KubernetesError
from dispatch.backends.kubernetes.records import (
    MACHINE,
    PRIORITY_CLASS,
    KubernetesPod,
    read_pod,
    unix_s,
)
from dispatch.executions.assignment import Key
from dispatch.executions.execution import HeldComponent
from dispatch.executions.peers import Launch
from rdl.resources import CPU, MEMORY, Resources

#: Label of the objects of an execution: a digest of its id.
EXECUTION: Final = "agenda/execution"

#: Annotations of the Job of a component: its application's id, itself, and where it was placed.
_APPLICATION: Final = "agenda/application"
_COMPONENT: Final = "agenda/component"
_INDEX: Final = "agenda/index"
_SINCE: Final = "agenda/since"
_PORTS: Final = "agenda/ports"

#: Names of hosts in DNS.
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

#: Why a container that waits will not start by itself.
_HOPELESS: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImagePullBackOff",
        "InvalidImageName",
    }
)


@dataclass(frozen=True, slots=True)
class ComponentJob:
    """The Job of a component.

    Attributes
    ----------
    key
        Its component.
    machine
        Where its pod runs.
    since_ms
        When it was placed there, in ms from the Plan's origin.
    ports
        Its ports.
    is_leaving
        Whether it is being deleted.
    end
        Complete or Failed once it is over, and empty before.
    end_reason
        Why it failed.
    ended_s
        Unix time of its end; 0 before.
    """

    uid: str
    namespace: str
    name: str
    key: Key
    machine: str
    since_ms: int
    ports: tuple[int, ...]
    is_leaving: bool
    end: str
    end_reason: str
    ended_s: int

    @property
    def path(self) -> str:
        """Path of the object."""
        return f"{jobs_path(self.namespace)}/{self.name}"

    def held(self) -> HeldComponent:
        """Return the component as the execution table has it, before it is known to run."""
        return HeldComponent(self.key[2], self.machine, self.since_ms, ports=self.ports)


def read_component(object_: Json) -> ComponentJob | None:
    """Return the Job of a component; None for other Jobs, also those that only look like one."""
    meta, status = object_["metadata"], object_.get("status", {})
    notes = meta.get("annotations", {})
    try:
        key = notes[_APPLICATION], notes[_COMPONENT], int(notes[_INDEX])
        since_ms, ports = int(notes[_SINCE]), tuple(map(int, notes.get(_PORTS, "").split()))
        machine = object_["spec"]["template"]["spec"]["nodeSelector"][MACHINE]
    except (KeyError, ValueError):
        return None
    if EXECUTION not in meta.get("labels", {}) or meta["name"] != job_name(key):
        return None
    ends = [
        one
        for one in status.get("conditions", ())
        if one["type"] in ("Complete", "Failed") and one["status"] == "True"
    ]
    return ComponentJob(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        key=key,
        machine=machine,
        since_ms=since_ms,
        ports=ports,
        is_leaving="deletionTimestamp" in meta,
        end=ends[0]["type"] if ends else "",
        end_reason=ends[0].get("message") or ends[0].get("reason", "") if ends else "",
        ended_s=unix_s(ends[0]["lastTransitionTime"]) if ends else 0,
    )


@dataclass(frozen=True, slots=True)
class Components:
    """The Jobs of components by uid, and their pods by the uid of their Job."""

    jobs: Mapping[str, ComponentJob]
    pods: Mapping[str, ComponentPod]


@dataclass(frozen=True, slots=True)
class ComponentPod:
    """The pod of a component, over or not.

    Attributes
    ----------
    job
        Uid of its Job.
    has_begun
        Whether its container runs, or has run.
    failure
        Why it cannot run, or how it failed; empty if neither.
    is_disrupted
        Whether something else ended it: an eviction, a preemption, a lost node.
    is_unschedulable
        Whether the scheduler has found no room for it.
    plain
        The pod as it is if its controller is not the Job of a component; None if it is over.
    """

    job: str
    has_begun: bool
    failure: str
    is_disrupted: bool
    is_unschedulable: bool
    plain: KubernetesPod | None

    @property
    def is_over(self) -> bool:
        """Whether all of its containers have ended."""
        return self.plain is None


def read_component_pod(object_: Json) -> ComponentPod | None:
    """Return the pod of a component; None for other pods."""
    meta, status = object_["metadata"], object_.get("status", {})
    if EXECUTION not in meta.get("labels", {}):
        return None
    phase, failure = status.get("phase", "Pending"), ""
    for container in status.get("containerStatuses", ()):
        state = container.get("state", {})
        waits, ended = state.get("waiting", {}), state.get("terminated", {})
        if waits.get("reason") in _HOPELESS:
            failure = f"{waits['reason']}: {waits.get('message', '')}".rstrip(": ")
        elif ended.get("exitCode"):
            failure = f"exit code {ended['exitCode']}"
            if ended.get("reason") not in (None, "Error"):
                failure += f", {ended['reason']}"
    if phase == "Failed" and not failure:
        failure = status.get("message") or status.get("reason") or "its pod failed"
    conditions = {one["type"]: one for one in status.get("conditions", ())}
    disrupted = conditions.get("DisruptionTarget", {})
    owners = [one["uid"] for one in meta.get("ownerReferences", ()) if one.get("controller")]
    return ComponentPod(
        owners[0] if owners else "",
        phase in ("Running", "Succeeded", "Failed"),
        failure,
        disrupted.get("status") == "True",
        conditions.get("PodScheduled", {}).get("reason") == "Unschedulable",
        read_pod(object_),
    )


def jobs_path(namespace: str) -> str:
    """Return the path of the Jobs of a namespace."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def services_path(namespace: str) -> str:
    """Return the path of the Services of a namespace."""
    return f"/api/v1/namespaces/{namespace}/services"


def _digest(*words: object) -> str:
    return hashlib.sha256("/".join(map(str, words)).encode()).hexdigest()[:16]


def execution_label(execution: str) -> str:
    """Return the value of `EXECUTION` of an execution."""
    return _digest(execution)


def service_name(execution: str) -> str:
    """Return the name of the Service of an execution."""
    return f"agenda-{execution_label(execution)}"


def job_name(key: Key) -> str:
    """Return the name of the Job of a component."""
    return f"agenda-{_digest(*key)}"


def _hostname(key: Key) -> str:
    name = f"{key[1]}-{key[2]}"
    return name if _DNS_LABEL.fullmatch(name) else job_name(key)


def address_of(namespace: str, key: Key) -> str:
    """Return the name by which the peers of a component reach it."""
    return f"{_hostname(key)}.{service_name(key[0])}.{namespace}.svc"


def service_of(execution: str) -> Json:
    """Return the headless Service of an execution."""
    labels = {EXECUTION: execution_label(execution)}
    return {
        "metadata": {
            "name": service_name(execution),
            "labels": labels,
            "annotations": {_APPLICATION: execution},
        },
        "spec": {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True},
    }


def execution_of(service: Json) -> str | None:
    """Return the execution of a Service that `service_of` made; None for other Services."""
    meta = service["metadata"]
    execution = str(meta.get("annotations", {}).get(_APPLICATION, ""))
    return execution if meta["name"] == service_name(execution) else None


def job_of(launch: Launch, key: Key, at_ms: int, service_uid: str) -> Json:
    """Return the Job of a component that starts."""
    component, held = launch.component, launch.held
    labels = {EXECUTION: execution_label(key[0])}
    names: Mapping[str, str] = {
        **launch.environment,
        "AGENDA_APPLICATION": key[0],
        "AGENDA_COMPONENT": key[1],
        "AGENDA_INDEX": str(key[2]),
        "AGENDA_MACHINE": held.machine,
    }
    run = {"name": "AGENDA_RUN", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    quantities = _quantities(component.resources)
    container: Json = {
        "name": "component",
        "image": component.image,
        "env": [*({"name": name, "value": _literal(text)} for name, text in names.items()), run],
        "resources": {"requests": quantities, "limits": quantities},
    }
    if launch.command is not None:
        container["command"] = ["/bin/sh", "-c", _literal(launch.command)]
    if component.directory is not None:
        container["workingDir"] = component.directory
    if held.ports:
        container["ports"] = [{"containerPort": port} for port in held.ports]
    pod: Json = {
        "restartPolicy": "Never",
        "hostname": _hostname(key),
        "subdomain": service_name(key[0]),
        "nodeSelector": {MACHINE: held.machine},
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    if launch.execution.application.entitled_by is not None:
        pod["priorityClassName"] = PRIORITY_CLASS
    spec: Json = {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": pod}}
    if component.timeout_ms is not None:
        spec["activeDeadlineSeconds"] = -(-component.timeout_ms // 1000)
    owner = {"apiVersion": "v1", "kind": "Service", "name": service_name(key[0])}
    return {
        "metadata": {
            "name": job_name(key),
            "labels": labels,
            "annotations": {
                _APPLICATION: key[0],
                _COMPONENT: key[1],
                _INDEX: str(key[2]),
                _SINCE: str(at_ms),
                _PORTS: " ".join(map(str, held.ports)),
            },
            "ownerReferences": [{**owner, "uid": service_uid}],
        },
        "spec": spec,
    }


def _literal(text: str) -> str:
    """Return a text whose ``$(NAME)`` and ``$$`` Kubernetes leaves as they are."""
    return text.replace("$", "$$")


def _quantities(resources: Resources) -> dict[str, str]:
    units = {CPU: "m", MEMORY: "Mi"}
    return {name: f"{count}{units.get(name, '')}" for name, count in resources.items()}


@dataclass(frozen=True, slots=True)
class PodLog:
    """What the pod of a component writes, as its node keeps it."""

    key: Key
    machine: str
    namespace: str
    pod: str

    def read(self, api: KubernetesApi, most: int) -> bytes:
        """Return the first bytes, at most so many; none before its container has begun.

        Raises
        ------
        KubernetesError
            If the API server or the node does not answer.
        """
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/log"
        try:
            return api.text(path, {"limitBytes": most})
        except KubernetesError as error:
            if error.status in (400, 404):  # it has not begun, or is gone
                return b""
            raise


def logs_of(api: KubernetesApi, namespace: str, execution: str) -> list[PodLog]:
    """Return the logs of the pods of an execution that are there, oldest first.

    Raises
    ------
    KubernetesError
        If the API server does not answer.
    """
    label = f"{EXECUTION}={execution_label(execution)}"
    jobs = map(read_component, api.items(jobs_path(namespace), label)[0])
    by_uid = {job.uid: job for job in jobs if job is not None}
    pods = api.items(f"/api/v1/namespaces/{namespace}/pods", label)[0]
    pods.sort(key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))
    found = []
    for pod in pods:
        owners = [one["uid"] for one in pod["metadata"].get("ownerReferences", ())]
        for job in (by_uid[uid] for uid in owners if uid in by_uid):
            found.append(PodLog(job.key, job.machine, namespace, pod["metadata"]["name"]))
    return found
