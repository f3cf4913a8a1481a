"""KubernetesCluster: the Jobs, pods and nodes of a cluster, and every change that is made to them.

A change names the version of the object that it was decided on, so that the API server refuses it
if somebody has changed the object meanwhile; the next tick decides on the newer one. What is
decided depends only on the objects and the Plan: a leader that is killed between two changes leaves
nothing that the next one does not see.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from dispatch.backends.interface import MachineReport
from dispatch.backends.kubernetes.api import Json, KubernetesApi, KubernetesError, Watched
from dispatch.backends.kubernetes.components import (
    ComponentJob,
    ComponentPod,
    Components,
    read_component,
    read_component_pod,
)
from dispatch.backends.kubernetes.records import (
    GATE,
    MACHINE,
    NOT_READY,
    PRIORITY_CLASS,
    Amounts,
    KubernetesJob,
    KubernetesNode,
    KubernetesPod,
    read_job,
    read_node,
    read_pod,
)

logger = logging.getLogger("agenda.kubernetes")

JOBS, PODS, NODES = "/apis/batch/v1/jobs", "/api/v1/pods", "/api/v1/nodes"
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"

#: How long pods may be where the Plan has nothing for them before their machine has less, ms, in
#: addition to the grace period of those that are being deleted.
_GRACE_MS: Final = 15_000


class ClusterView(NamedTuple):
    """The objects at an instant.

    Attributes
    ----------
    jobs
        Jobs with a deadline, by uid.
    pods
        Pods that are not over, without those of the Jobs of components.
    nodes
        Nodes by machine; of two nodes with one machine, one that takes pods.
    """

    jobs: Mapping[str, KubernetesJob]
    pods: tuple[KubernetesPod, ...]
    nodes: Mapping[str, KubernetesNode]


class KubernetesCluster:
    """A Kubernetes cluster whose nodes are machines of the Plan.

    Parameters
    ----------
    api
        The API server.
    heard
        Called after a change that should not wait for the next tick.

    Attributes
    ----------
    api
        The API server.
    """

    def __init__(self, api: KubernetesApi, heard: Callable[[], None]) -> None:
        self.api = api
        self._jobs: Watched[KubernetesJob | ComponentJob] = Watched(
            api, JOBS, _read_job, heard, _is_urgent_job
        )
        self._pods: Watched[KubernetesPod | ComponentPod] = Watched(
            api, PODS, _read_pod, heard, _is_urgent_pod
        )
        self._nodes = Watched(api, NODES, read_node)
        self._watches: tuple[Watched[Any], ...] = (self._nodes, self._pods, self._jobs)
        self._priority: int | None = None
        #: Since when pods without a promise are where they are, in ms from the origin, by uid.
        self._others: dict[str, int] = {}

    def begin(self) -> None:
        """List everything, and watch it from then on.

        Raises
        ------
        KubernetesError
            If the API server does not answer.
        """
        try:
            self._priority = self.api.call("GET", f"{_CLASSES}/{PRIORITY_CLASS}")["value"]
        except KubernetesError as error:
            if error.status != 404:
                raise
            logger.warning("there is no PriorityClass %s: nothing makes way", PRIORITY_CLASS)
        for watch in self._watches:
            watch.start()

    def close(self) -> None:
        """End the watches."""
        for watch in self._watches:
            watch.close()

    @property
    def failure(self) -> str:
        """Why the view may be out of date; empty if it is not."""
        return next((one.failure for one in self._watches if one.failure), "")

    def view(self) -> ClusterView | None:
        """Return the objects as they are known; None before all have been listed."""
        jobs, pods, nodes = self._jobs.snapshot(), self._pods.snapshot(), self._nodes.snapshot()
        if jobs is None or pods is None or nodes is None:
            return None
        ordered = sorted(nodes.values(), key=lambda node: (not node.why_away, node.name))
        own = {uid for uid, job in jobs.items() if isinstance(job, ComponentJob)}
        plain = (
            pod if isinstance(pod, KubernetesPod) else None if pod.job in own else pod.plain
            for pod in pods.values()
        )
        return ClusterView(
            {uid: job for uid, job in jobs.items() if isinstance(job, KubernetesJob)},
            tuple(pod for pod in plain if pod is not None),
            {node.machine: node for node in ordered if node.machine},
        )

    def components(self) -> Components | None:
        """Return the Jobs and pods of components; None while they may be out of date."""
        jobs, pods = self._jobs.snapshot(), self._pods.snapshot()
        if jobs is None or pods is None or self.failure:
            return None
        mine = (pod for pod in pods.values() if isinstance(pod, ComponentPod))
        return Components(
            {uid: job for uid, job in jobs.items() if isinstance(job, ComponentJob)},
            {pod.job: pod for pod in mine},
        )

    def is_gone(self, machine: str) -> bool:
        """Return whether a machine has no node that is ready: nothing ends the pods there."""
        nodes = self._nodes.snapshot()
        return nodes is not None and not any(
            node.machine == machine and node.why_away != NOT_READY for node in nodes.values()
        )

    def change(self, job: KubernetesJob, spec: Json, annotations: Mapping[str, str | None]) -> None:
        """Change a Job; an annotation of None is removed.

        Raises
        ------
        KubernetesError
            409 if it has changed since it was read, 404 if it is gone.
        """
        metadata: Json = {"resourceVersion": job.version}
        if annotations:
            metadata["annotations"] = dict(annotations)
        body = {"metadata": metadata} | ({"spec": spec} if spec else {})
        self._jobs.accept(self.api.call("PATCH", job.path, body))

    def report(self, job: KubernetesJob, reason: str, message: str, *, warns: bool = False) -> None:
        """Write an Event about a Job, which `kubectl describe` shows.

        Raises
        ------
        KubernetesError
            If the API server refuses it.
        """
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "metadata": {
                "generateName": f"{job.name[:40].rstrip('.-')}.",
                "namespace": job.namespace,
            },
            "involvedObject": {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "namespace": job.namespace,
                "name": job.name,
                "uid": job.uid,
            },
            "reason": reason,
            "message": message[:1000],
            "type": "Warning" if warns else "Normal",
            "source": {"component": "agenda"},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        self.api.call("POST", f"/api/v1/namespaces/{job.namespace}/events", event)

    def place(self, pod: KubernetesPod, machine: str) -> None:
        """Let the scheduler bind a gated pod, on the node of a machine.

        Raises
        ------
        KubernetesError
            409 if it has changed since it was read, 404 if it is gone.
        """
        body = {
            "metadata": {"resourceVersion": pod.version},
            "spec": {
                "nodeSelector": {MACHINE: machine},
                "schedulingGates": [{"name": one} for one in pod.gates if one != GATE],
            },
        }
        self._pods.accept(self.api.call("PATCH", pod.path, body))

    def evict(self, pod: KubernetesPod) -> None:
        """Stop a pod; its Job makes another one.

        Raises
        ------
        KubernetesError
            429 while a disruption budget keeps it, 404 if it is gone.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
        }
        self.api.call("POST", f"{pod.path}/eviction", body)

    def taken_amounts(
        self,
        view: ClusterView,
        sizes: Mapping[str, Amounts],
        planned: Mapping[str, Mapping[str, int]],
        now_ms: int,
        now_s: float,
    ) -> dict[str, dict[str, int]]:
        """Return what pods without a promise take of what promises may use, by machine.

        Parameters
        ----------
        sizes
            What the cluster file has of each machine: the rest of the node is for daemons.
        planned
            Pods of each Job (by uid) that the Plan has now, by machine.
        now_ms, now_s
            In ms from the Plan's origin, and as Unix time.
        """
        there = {node.name: machine for machine, node in view.nodes.items() if not node.why_away}
        left = {(job, name): n for job, some in planned.items() for name, n in some.items()}
        used: dict[str, Counter[str]] = {}
        others: dict[str, int] = {}
        for pod in view.pods:
            machine = there.get(pod.node, "")
            if not machine or (pod.leaves_s is not None and now_s < pod.leaves_s):
                continue
            if left.get((pod.job, machine), 0) > 0:
                left[pod.job, machine] -= 1
            elif pod.is_daemon or self._priority is None or pod.priority >= self._priority:
                others[pod.uid] = self._others.get(pod.uid, now_ms)
                if now_ms >= others[pod.uid] + _GRACE_MS:
                    used.setdefault(machine, Counter()).update(pod.needs)
        self._others = others
        found: dict[str, dict[str, int]] = {}
        for machine, needs in used.items():
            has, size = view.nodes[machine].allocatable, sizes.get(machine, {})
            spare = {name: has.get(name, 0) - count for name, count in size.items()}
            taken = {name: min(needs[name] - spare[name], size[name]) for name in size}
            if taken := {name: count for name, count in taken.items() if count > 0}:
                found[machine] = taken
        return found


def machine_report(view: ClusterView, machines: Iterable[str], now_ms: int) -> MachineReport:
    """Return which machines have a node that takes pods; the others are lost from now on."""
    names = tuple(machines)
    live = frozenset(name for name in names if name in view.nodes and not view.nodes[name].why_away)
    return MachineReport({name: now_ms for name in names if name not in live}, live)


def gated_template(job: KubernetesJob) -> Json:
    """Return the change of a Job's spec that lets its pods wait for their machines."""
    gates = [*job.template.get("schedulingGates", ()), {"name": GATE}]
    return {"template": {"spec": {"schedulingGates": gates}}}


def _read_job(object_: Json) -> KubernetesJob | ComponentJob | None:
    return read_component(object_) or read_job(object_)


def _read_pod(object_: Json) -> KubernetesPod | ComponentPod | None:
    return read_component_pod(object_) or read_pod(object_)


def _is_urgent_job(job: KubernetesJob | ComponentJob) -> bool:
    """Return whether a Job waits for an answer, or has ended and gives its machines back."""
    return bool(job.end) or (isinstance(job, KubernetesJob) and not job.promise)


def _is_urgent_pod(pod: KubernetesPod | ComponentPod) -> bool:
    if isinstance(pod, ComponentPod):
        return pod.has_begun or bool(pod.failure)
    return pod.is_gated and not pod.is_leaving
