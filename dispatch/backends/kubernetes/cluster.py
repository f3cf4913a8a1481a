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
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from dispatch.backends.interface import MachineReport
from dispatch.backends.kubernetes.api import Json, KubernetesApi, KubernetesError, Watched
from dispatch.backends.kubernetes.records import (
    GATE,
    MACHINE,
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

#: How long pods may be where the Plan has nothing for them before their machine is in an outage,
#: ms, in addition to the grace period of those that are being deleted.
_GRACE_MS: Final = 15_000


class ClusterView(NamedTuple):
    """The objects at an instant.

    Attributes
    ----------
    jobs
        Jobs with a deadline, by uid.
    pods
        Pods that are not over.
    nodes
        Nodes by machine; of two nodes with one machine, one that takes pods.
    """

    jobs: Mapping[str, KubernetesJob]
    pods: tuple[KubernetesPod, ...]
    nodes: Mapping[str, KubernetesNode]


@dataclass(frozen=True, slots=True)
class TakenMachine:
    """A machine on which pods without a promise need what promises may use.

    Attributes
    ----------
    since_ms
        In ms from the Plan's origin.
    pod
        One of them.
    """

    since_ms: int
    pod: str


class KubernetesCluster:
    """A Kubernetes cluster whose nodes are machines of the Plan.

    Parameters
    ----------
    api
        The API server.
    heard
        Called after a change that should not wait for the next tick.
    """

    def __init__(self, api: KubernetesApi, heard: Callable[[], None]) -> None:
        self._api = api
        self._jobs = Watched(api, JOBS, read_job, heard, _is_urgent_job)
        self._pods = Watched(api, PODS, read_pod, heard, _is_urgent_pod)
        self._nodes = Watched(api, NODES, read_node)
        self._watches: tuple[Watched[Any], ...] = (self._nodes, self._pods, self._jobs)
        self._priority: int | None = None
        self._taken: dict[str, TakenMachine] = {}

    def begin(self) -> None:
        """List everything, and watch it from then on.

        Raises
        ------
        KubernetesError
            If the API server does not answer.
        """
        try:
            self._priority = self._api.call("GET", f"{_CLASSES}/{PRIORITY_CLASS}")["value"]
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
        return ClusterView(
            jobs, tuple(pods.values()), {node.machine: node for node in ordered if node.machine}
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
        self._jobs.accept(self._api.call("PATCH", job.path, body))

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
        self._api.call("POST", f"/api/v1/namespaces/{job.namespace}/events", event)

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
        self._pods.accept(self._api.call("PATCH", pod.path, body))

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
        self._api.call("POST", f"{pod.path}/eviction", body)

    def taken_machines(
        self,
        view: ClusterView,
        sizes: Mapping[str, Amounts],
        planned: Mapping[str, Mapping[str, int]],
        now_ms: int,
        now_s: float,
    ) -> dict[str, TakenMachine]:
        """Return the machines on which pods without a promise need what promises may use.

        Parameters
        ----------
        sizes
            What the cluster file has of each machine: the rest of the node is for daemons.
        planned
            Pods of each Job (by uid) that the Plan has now, by machine.
        now_ms, now_s
            In ms from the Plan's origin, and as Unix time.
        """
        there = {node.name: machine for machine, node in view.nodes.items()}
        left = {(job, name): n for job, some in planned.items() for name, n in some.items()}
        used: dict[str, Counter[str]] = {}
        named: dict[str, str] = {}
        for pod in view.pods:
            machine = there.get(pod.node, "")
            if not machine or (pod.leaves_s is not None and now_s < pod.leaves_s):
                continue
            if left.get((pod.job, machine), 0) > 0:
                left[pod.job, machine] -= 1
            elif pod.is_daemon or self._priority is None or pod.priority >= self._priority:
                used.setdefault(machine, Counter()).update(pod.needs)
                if not pod.is_daemon or machine not in named:
                    named[machine] = f"{pod.namespace}/{pod.name}"
        found: dict[str, TakenMachine] = {}
        for machine, needs in used.items():
            has, size = view.nodes[machine].allocatable, sizes.get(machine, {})
            if any(needs[name] > has.get(name, 0) - size.get(name, 0) for name in needs):
                known = self._taken.get(machine)
                found[machine] = known or TakenMachine(now_ms, named[machine])
        self._taken = found
        return {
            machine: one for machine, one in found.items() if now_ms >= one.since_ms + _GRACE_MS
        }


def machine_report(view: ClusterView, machines: Iterable[str], now_ms: int) -> MachineReport:
    """Return which machines have a node that takes pods; the others are lost from now on."""
    names = tuple(machines)
    live = frozenset(name for name in names if name in view.nodes and not view.nodes[name].why_away)
    return MachineReport({name: now_ms for name in names if name not in live}, live)


def gated_template(job: KubernetesJob) -> Json:
    """Return the change of a Job's spec that lets its pods wait for their machines."""
    gates = [*job.template.get("schedulingGates", ()), {"name": GATE}]
    return {"template": {"spec": {"schedulingGates": gates}}}


def _is_urgent_job(job: KubernetesJob) -> bool:
    """Return whether a Job waits for an answer, or has ended and gives its machines back."""
    return not job.promise or bool(job.end)


def _is_urgent_pod(pod: KubernetesPod) -> bool:
    return pod.is_gated and not pod.is_leaving
