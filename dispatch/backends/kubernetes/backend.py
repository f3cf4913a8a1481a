"""KubernetesBackend: each component is a Job of one pod; the state is in the API server.

A Job's name follows from its component, so that the API server refuses a second one while there is
one. What has run is read from the Jobs, by each leader again. Jobs that have ended stay for their
logs until their application is over, and are deleted with its Service then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from dispatch.backends.interface import MachineReport, NotDone
from dispatch.backends.kubernetes.api import Json, KubernetesAwayError, KubernetesError
from dispatch.backends.kubernetes.cluster import JOBS, KubernetesCluster
from dispatch.backends.kubernetes.components import (
    EXECUTION,
    ComponentJob,
    Components,
    address_of,
    execution_of,
    job_name,
    job_of,
    jobs_path,
    read_component,
    service_name,
    service_of,
    services_path,
)
from dispatch.executions.assignment import AssignmentRow, Delta, Key, Op, VirtualAssignment
from dispatch.executions.events import BackendEvent, EventKind
from dispatch.executions.execution import Execution, HeldComponent
from dispatch.executions.peers import PeerBook
from dispatch.executions.table import ExecutionTable

logger = logging.getLogger("agenda.kubernetes")

#: How long the watch may take to show a Job that was created, and its pod to get its node, s.
_UNSEEN_S: Final = 60.0

#: Pause between two searches for Services whose application is over, s.
_SWEEP_S: Final = 60.0


@dataclass(slots=True)
class _Run:
    """A component's Job, as this leader has followed it.

    Attributes
    ----------
    asked_s
        When it was created, by the steady clock.
    is_seen
        Whether the watch has shown it.
    up, ended
        Whether it has been reported to run, and to have ended.
    """

    job: ComponentJob
    core: bool
    asked_s: float
    is_seen: bool = False
    up: bool = False
    ended: bool = False


class KubernetesBackend:
    """Starts and stops components as Jobs.

    Parameters
    ----------
    cluster
        Where the Jobs and pods are.
    machines
        Returns which machines take pods; None while that is unknown.
    peers
        Gives ports and addresses to components that start.
    leads
        Whether this process still leads.
    is_over
        Whether an application has ended, or is not known any more.
    logs_s
        How long the Jobs of an ended application stay, s.

    Raises
    ------
    KubernetesError
        If the API server does not answer.
    """

    def __init__(
        self,
        cluster: KubernetesCluster,
        machines: Callable[[], MachineReport | None],
        peers: PeerBook,
        leads: Callable[[], bool],
        is_over: Callable[[str], bool],
        logs_s: float,
    ) -> None:
        self._api, self._look, self._is_gone = cluster.api, cluster.components, cluster.is_gone
        self._machine_report = machines
        self._peers, self._leads = peers, leads
        self._is_over, self._logs_s = is_over, logs_s
        self._runs: dict[Key, _Run] = {}
        self._told: list[BackendEvent] = []
        self._names: frozenset[str] = frozenset()
        self._up: frozenset[str] | None = None
        self._swept_s = time.monotonic()
        try:
            services, _ = self._api.items("/api/v1/services", EXECUTION)
        except KubernetesError as error:
            if error.status != 403:
                raise
            services = []  # without the rights for applications none has been started
        #: Uids of the Services, by namespace and execution.
        self._services = {
            (one["metadata"]["namespace"], execution): str(one["metadata"]["uid"])
            for one in services
            if (execution := execution_of(one)) is not None
        }
        #: Executions whose Service may be deleted, which deletes its Jobs: those that start too.
        self._doubted: set[str] = set()
        jobs = map(read_component, self._api.items(JOBS, EXECUTION)[0])
        #: Jobs of earlier leaders whose executions have not been resumed yet, by uid.
        self._former = {one.uid: one for one in jobs if one is not None and not one.is_leaving}

    def resume(self, table: ExecutionTable, execution: Execution) -> None:
        """See `Backend.resume`."""
        parts = {part.component.name: part for part in execution.parts}
        placed = []
        owner = execution.id, execution.tenant
        for job in [one for one in self._former.values() if (one.key[0], one.namespace) == owner]:
            del self._former[job.uid]
            part = parts.get(job.key[1])
            if part is not None:
                self._runs[job.key] = _Run(job, part.component.core, time.monotonic())
                placed.append((part, job.held()))
        if placed:
            table.resume(execution, placed)

    def set_machines(self, machines: Iterable[str], at_ms: int) -> None:
        """See `Backend.set_machines`; components on removed machines are stopped."""
        del at_ms
        self._names, self._up = frozenset(machines), None  # those that are lost are reported again
        for key, run in list(self._runs.items()):
            if run.job.machine not in self._names:
                del self._runs[key]  # its Job is deleted as one without a component

    def machines(self) -> MachineReport | None:
        """See `Backend.machines`."""
        return self._machine_report()

    def welcome_back(self) -> None:
        """See `Backend.welcome_back`."""

    @property
    def is_silent(self) -> bool:
        """See `Backend.is_silent`."""
        return self._look() is None

    def state(self) -> VirtualAssignment:
        """See `Backend.state`."""
        return VirtualAssignment.of(
            AssignmentRow(*key, run.job.machine, run.job.since_ms, covered=False)
            for key, run in self._runs.items()
        )

    def apply(self, deltas: Sequence[Delta], at_ms: int) -> tuple[NotDone, ...]:
        """See `Backend.apply`."""
        seen = self._look() if deltas else None
        if seen is None or not self._leads():
            why = "the API server does not answer" if seen is None else "another process may lead"
            return tuple(NotDone(delta, why, retry=True) for delta in deltas)
        now_s = time.monotonic()
        missed: list[NotDone] = []
        starts = [delta for delta in deltas if delta.op not in (Op.STOP, Op.SHRINK)]
        for delta in deltas:
            if delta.op in (Op.STOP, Op.SHRINK):
                missed += self._attempt(delta, partial(self._stop, delta, at_ms))
        lacking = self._peers.give_ports(starts, {}, ())
        try:
            blocked = self._clear(starts, seen.jobs.values())
        except KubernetesError as error:
            missed += [NotDone(delta, str(error), retry=True) for delta in starts]
            return tuple(missed)
        for delta in starts:
            if delta in lacking:
                missed.append(NotDone(delta, lacking[delta]))
            elif delta.execution in blocked:
                why = "its last Job is being deleted"
                missed.append(NotDone(delta, why, retry=True))
            else:
                missed += self._attempt(delta, partial(self._start, delta, at_ms, now_s))
        return tuple(missed)

    def _attempt(self, delta: Delta, change: Callable[[], str]) -> list[NotDone]:
        """Make a change; return why it is not done."""
        try:
            why = change()
        except KubernetesAwayError as error:
            return [NotDone(delta, str(error), retry=True)]
        except KubernetesError as error:
            return [NotDone(delta, str(error), retry=error.status == 409)]
        return [NotDone(delta, why)] if why else []

    def _clear(self, starts: Iterable[Delta], jobs: Iterable[ComponentJob]) -> set[str]:
        """Delete earlier Jobs of components that start; return the executions that wait for it."""
        wanted = {_key(delta) for delta in starts}
        wanted -= {key for key, run in self._runs.items() if not run.ended}
        blocked: set[str] = set()
        for job in jobs:
            if job.key in wanted and job.namespace == self._peers.tenant_of(job.key[0]):
                blocked.add(job.key[0])
                if not job.is_leaving or self._is_gone(job.machine):
                    self._delete(job)
        return blocked

    def _start(self, delta: Delta, at_ms: int, now_s: float) -> str:
        key, launch = _key(delta), self._peers.launch(delta)
        namespace, known = launch.execution.tenant, self._runs.get(key)
        if known is not None and not known.ended:
            return f"it is on {known.job.machine} already"
        if launch.component.image is None:
            return "the component has no image"
        owner = namespace, key[0]
        if owner not in self._services or key[0] in self._doubted:
            self._services[owner] = self._make_service(*owner)
            self._doubted.discard(key[0])
        body = job_of(launch, key, at_ms, self._services[owner])
        try:
            made = self._api.call("POST", jobs_path(namespace), body)
        except KubernetesError as error:
            if error.status == 409 and not isinstance(error, KubernetesAwayError):
                # Of another leader, or a call whose answer was lost: it is deleted when it is seen.
                raise KubernetesError(409, f"its Job {job_name(key)} is there already") from error
            raise
        job = read_component(made)
        assert job is not None
        self._runs[key] = _Run(job, launch.component.core, now_s)
        return ""

    def _make_service(self, namespace: str, execution: str) -> str:
        """Make the Service of an execution, or find it; return its uid."""
        try:
            made = self._api.call("POST", services_path(namespace), service_of(execution))
        except KubernetesError as error:
            if error.status == 404:
                why = f"the tenant's namespace {namespace} does not exist"
                raise KubernetesError(404, why) from error
            if error.status != 409:
                raise
            path = f"{services_path(namespace)}/{service_name(execution)}"
            made = self._api.call("GET", path)
        return str(made["metadata"]["uid"])

    def _stop(self, delta: Delta, at_ms: int) -> str:
        run = self._runs.get(_key(delta))
        if run is None or run.job.machine != delta.machine:
            return f"it is not on {delta.machine}"
        if not (run.ended and self._is_over(delta.execution)):  # else it stays for its logs
            self._delete(run.job)
        del self._runs[run.job.key]
        self._tell(EventKind.STOPPED, at_ms, run.job, delta.reason)
        return ""

    def _delete(self, job: ComponentJob) -> None:
        """Delete a Job; its name is free once its pod has ended, unless its node does not answer.

        Raises
        ------
        KubernetesError
            If the API server refuses it or does not answer.
        """
        how = "Background" if self._is_gone(job.machine) else "Foreground"
        body: Json = {"propagationPolicy": how, "preconditions": {"uid": job.uid}}
        try:
            self._api.call("DELETE", job.path, body)
        except KubernetesError as error:
            if error.status not in (404, 409):  # it is gone, or another one has its name
                raise

    def events(self, until_ms: int) -> tuple[BackendEvent, ...]:
        """See `Backend.events`."""
        self._follow_machines(until_ms)
        seen = self._look()
        if seen is not None:
            for run in list(self._runs.values()):
                if not run.ended:
                    self._follow(run, seen, until_ms)
            if self._leads():
                self._sweep(seen)
        told = [event for event in self._told if event.at_ms <= until_ms]
        self._told = [event for event in self._told if event.at_ms > until_ms]
        return tuple(told)

    def _follow_machines(self, at_ms: int) -> None:
        report = self._machine_report()
        if report is None:
            return
        before, self._up = self._names if self._up is None else self._up, report.live & self._names
        for kind, names in (
            (EventKind.MACHINE_LOST, before - self._up),
            (EventKind.MACHINE_BACK, self._up - before),
        ):
            self._told += [BackendEvent(kind, at_ms, name) for name in sorted(names)]

    def _follow(self, run: _Run, seen: Components, at_ms: int) -> None:
        """Report what has become of a component."""
        job, pod = seen.jobs.get(run.job.uid), seen.pods.get(run.job.uid)
        if job is None:
            if run.is_seen or time.monotonic() - run.asked_s > _UNSEEN_S:
                self._end(run, EventKind.LOST, at_ms, f"its Job {run.job.name} is deleted")
                self._doubted.add(run.job.key[0])
            return
        run.is_seen = True
        run.job = job
        is_lost = self._up is not None and job.machine not in self._up
        is_ending = bool(job.end) and pod is not None and not pod.is_over
        has_begun = job.end == "Complete" or (pod is not None and pod.has_begun)
        if has_begun and not run.up:
            run.up = True
            self._tell(EventKind.STARTED, at_ms, job)
        if job.end == "Complete":
            self._end(run, EventKind.EXITED, at_ms, "")
        elif is_ending and not is_lost:
            pass  # how its pod ended is not known yet
        elif job.end and (pod is None or pod.is_disrupted or is_ending) and not _is_timeout(job):
            self._end(run, EventKind.LOST, at_ms, "its pod was evicted, or its node was lost")
        elif job.end:
            failure = "" if pod is None or _is_timeout(job) else pod.failure
            self._end(run, EventKind.FAILED, at_ms, failure or job.end_reason)
        elif pod is not None and pod.failure and not pod.has_begun:
            self._end(run, EventKind.FAILED, at_ms, pod.failure)  # as a stray it is deleted
        elif is_lost:
            self._end(run, EventKind.LOST, at_ms, f"{job.machine} was lost")
        elif (
            not run.up
            and (pod is None or pod.is_unschedulable)
            and time.monotonic() - run.asked_s > _UNSEEN_S
        ):
            why = "has no pod" if pod is None else "found no room for its pod"
            self._end(run, EventKind.STUCK, at_ms, f"its Job {why} on {job.machine}")

    def _end(self, run: _Run, kind: EventKind, at_ms: int, detail: str) -> None:
        """Report an end; an exited core stays until all of its replicas have ended."""
        self._tell(kind, at_ms, run.job, detail)
        run.ended = True
        if kind is not EventKind.EXITED or not run.core:
            del self._runs[run.job.key]

    def _sweep(self, seen: Components) -> None:
        """Delete Jobs without a component, and what is left of applications that are over."""
        known = {run.job.uid for run in self._runs.values()}
        self._former = {
            uid: job for uid, job in self._former.items() if not self._is_decided(job.key[0])
        }
        strays = [
            job
            for job in seen.jobs.values()
            if not job.end and not job.is_leaving and job.uid not in known
            if self._is_decided(job.key[0])
        ]
        try:
            for job in strays:
                logger.info("Job %s/%s has no component: deleted", job.namespace, job.name)
                self._delete(job)
            if time.monotonic() - self._swept_s >= _SWEEP_S:
                self._swept_s = time.monotonic()
                self._delete_services(seen.jobs.values())
        except KubernetesError as error:
            logger.warning("Jobs without a component are not deleted yet: %s", error)

    def _is_decided(self, execution: str) -> bool:
        """Return whether the runs of an execution are known: it is over, or in the table.

        Others could not be read, and may be resumed later.
        """
        return self._peers.tenant_of(execution) is not None or self._is_over(execution)

    def _delete_services(self, jobs: Collection[ComponentJob]) -> None:
        now_s = time.time()
        for namespace, execution in list(self._services):
            mine = [job for job in jobs if (job.namespace, job.key[0]) == (namespace, execution)]
            is_open = any(not job.end for job in mine)
            kept_s = max((job.ended_s for job in mine), default=0) + self._logs_s
            if is_open or now_s < kept_s or not self._is_over(execution):
                continue
            path = f"{services_path(namespace)}/{service_name(execution)}"
            try:
                self._api.call("DELETE", path, {"propagationPolicy": "Background"})
            except KubernetesError as error:
                if error.status != 404:
                    raise
            del self._services[namespace, execution]

    def _tell(self, kind: EventKind, at_ms: int, job: ComponentJob, detail: str = "") -> None:
        self._told.append(BackendEvent(kind, at_ms, job.machine, *job.key, detail))


def address(execution: Execution, component: str, held: HeldComponent) -> str:
    """Return the name by which the peers of a component reach it."""
    return address_of(execution.tenant, (execution.id, component, held.index))


def _is_timeout(job: ComponentJob) -> bool:
    return "deadline" in job.end_reason.lower()


def _key(delta: Delta) -> Key:
    return delta.execution, delta.component, delta.index
