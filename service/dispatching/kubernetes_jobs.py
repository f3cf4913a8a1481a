"""KubernetesJobs: Jobs with a deadline are requested, released at their slots, and followed.

Each tick of the leader compares the Jobs, pods and nodes of the API server with the Plan and makes
the changes that follow from the difference (`KubernetesJobs.follow` reads as these steps). The id
of a reservation follows from the uid of its Job. So there is no record of Jobs besides the API
server's and the Plan, and a leader that is killed between a commit and a change leaves nothing that
the next tick does not see.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np

from dispatch.accounts.late_stages import Extension
from dispatch.accounts.missed_work import JobWait
from dispatch.backends.interface import MachineReport
from dispatch.backends.kubernetes.api import (
    Json,
    KubernetesApi,
    KubernetesAwayError,
    KubernetesError,
)
from dispatch.backends.kubernetes.cluster import (
    ClusterView,
    KubernetesCluster,
    gated_template,
    machine_report,
)
from dispatch.backends.kubernetes.records import (
    ASKED,
    END,
    OFFERS,
    ON_LATE,
    PROMISE,
    QUEUE,
    REASON,
    RESERVATION,
    START,
    JobRequestError,
    KubernetesJob,
    KubernetesPod,
    pod_amounts,
    rdl_of,
)
from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan
from planner.cluster.lost_machines import LOST_MS
from planner.explain import time_text
from planner.plan.plan import Plan
from planner.plan.records.changes import Note
from planner.plan.records.reservation_records import WORK_ENDED, WORK_RUNS_ON
from planner.promise import PromiseLevel
from planner.request import Request, text_as_written
from planner.reservations.reservation import NEVER
from planner.reservations.state import LIVE, STATE_NUMBERS, State
from rdl.compile.compiler import compile_expression
from rdl.compile.source import read_source
from rdl.durations import instant_of_epoch_ms, rfc3339_text
from rdl.errors import RdlError
from rdl.expressions import atoms_of
from service.commits.commands import Admission, Ask, ReservationAnswer
from service.commits.planner import Planner
from service.commits.replica import Replica
from service.commits.screening import context_of
from service.dispatching.releaser import Releaser, extension_of
from service.problems import ApiProblemError, ProblemDocument

logger = logging.getLogger("agenda.kubernetes")

#: Most Jobs that are requested in one tick, and offers of a refusal.
_MOST_ASKED, _OFFERS = 100, 3

#: Beginning of the ids of reservations that belong to Jobs.
_PREFIX: Final = "k8s:"

#: Words of `PROMISE` after which a Job is not asked for again.
_SETTLED: Final = frozenset({"failed", "cancelled", "late", "ended"})

#: Word of `PROMISE` in each state of a reservation.
_WORDS: Final = {
    State.ACCEPTED: "promised",
    State.ACTIVE: "promised",
    State.DEGRADED: "degraded",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
    State.COMPLETED: "late",
}

#: How long before the end of its slots a Job asks for more time, at least, and how long after it
#: a Job is late, ms.
_LEAD_MS, _LATE_MS = 10_000, 10_000


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """What the Plan has of a Job.

    Attributes
    ----------
    now
        Pods by machine, now.
    is_over
        Whether it gets no more time: its slots have ended and it is owed none.
    begin_ms, finish_ms
        From the origin.
    times
        Begin and end in words.
    """

    tenant: str
    state: State
    now: Mapping[str, int]
    is_over: bool
    begin_ms: int
    finish_ms: int
    times: str

    @property
    def pods(self) -> int:
        """Number of pods that it has now."""
        return sum(self.now.values())


class KubernetesJobs:
    """The Jobs of a Kubernetes cluster under the Plan; idle in processes that do not lead.

    Parameters
    ----------
    source
        Path of a kubeconfig, or ``in-cluster``.
    planner, replica
        What makes and keeps promises.
    releaser
        Changes reservations for the leader.
    agent
        Name of the agent that places requests.
    """

    def __init__(
        self, source: str, planner: Planner, replica: Replica, releaser: Releaser, agent: str
    ) -> None:
        self._source = source
        self._planner, self._replica, self._releaser = planner, replica, releaser
        self._agent = agent
        self._origin_ms = -replica.plan_ms(0)
        self._cluster: KubernetesCluster | None = None
        self._view: ClusterView | None = None
        self._planned: dict[str, PlannedJob] = {}
        #: Live reservations of Jobs at a version of the Plan.
        self._live_ids: list[str] = []
        self._orphans_read = -1
        #: Messages of failures that have been logged, and ends at which more time was asked for.
        self._logged: set[str] = set()
        self._is_away = False
        self._extended: set[tuple[str, int]] = set()
        self._report: MachineReport | None = None
        self._foreign: tuple[ForeignSpan, ...] | None = None

    def begin(self, heard: Callable[[], None]) -> None:
        """List everything, for a new tenure; `heard` lets the dispatcher tick soon.

        Raises
        ------
        KubernetesError
            If there is no access, or the API server does not answer.
        """
        self.close()  # what the watches of an earlier tenure show may be out of date
        self._cluster = KubernetesCluster(KubernetesApi(self._source), heard)
        self._cluster.begin()
        self._view, self._orphans_read, self._report, self._foreign = None, -1, None, None

    def close(self) -> None:
        """End the watches."""
        if self._cluster is not None:
            self._cluster.close()

    @property
    def has_looked(self) -> bool:
        """Whether the Jobs, pods and nodes have been listed in this tenure."""
        return self._view is not None

    @property
    def machines(self) -> MachineReport | None:
        """The machines that take pods; None while that is unknown."""
        return self._report

    @property
    def foreign_spans(self) -> tuple[ForeignSpan, ...] | None:
        """Machines that pods without a promise use, in ms from the origin; None if unknown."""
        return self._foreign

    def follow(self, now_ms: int, tenure: int) -> None:
        """Bring Jobs and pods in line with the Plan, and the Plan in line with what has ended.

        Failures are logged once, and what was not done is decided again at the next tick.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun.
        """
        cluster = self._cluster
        assert cluster is not None
        view = cluster.view()
        if view is None:
            return
        self._view = view
        try:
            self._admit(cluster, view, now_ms)
            self._read_plan(view, now_ms)
            for job in view.jobs.values():
                self._follow_job(cluster, job, now_ms, tenure)
            for uid, pods in _pods_of(view).items():
                self._place(cluster, view.jobs[uid], pods)
        except KubernetesAwayError as error:
            self._log_once(f"Jobs wait for the API server: {error}")
        if cluster.failure:
            self._is_away = True
        else:
            if self._is_away:
                self._logged.clear()
            self._is_away = False
            self._close_orphans(view, tenure)
            self._look_at_machines(cluster, view, now_ms)

    def waits(self, now_ms: int) -> dict[str, JobWait]:
        """Return the reservations whose Jobs were never released, or have no pod with a machine.

        A Job that was suspended between two slots does not wait: it has run.
        """
        if self._view is None:
            return {}
        pods = _pods_of(self._view)
        return {
            job.reservation: JobWait(1000 * job.created_s - self._origin_ms, False, now_ms)
            for uid, job in self._view.jobs.items()
            if job.reservation in self._planned and _has_waited(job, pods.get(uid, ()))
        }

    def _admit(self, cluster: KubernetesCluster, view: ClusterView, now_ms: int) -> None:
        """Request reservations for new Jobs; annotate those that are refused."""
        with self._replica.newest() as plan:
            new = [
                job
                for job in view.jobs.values()
                if plan.table.number_of(job.reservation) is None
                and not job.end
                and job.annotations.get(PROMISE) not in _SETTLED
            ][:_MOST_ASKED]
            asks: list[tuple[KubernetesJob, Ask]] = []
            faults: list[tuple[KubernetesJob, str, str]] = []
            for job in new:
                text = ""
                try:
                    text = rdl_of(job)
                    if job.annotations.get(ASKED) != text:  # else it is refused already
                        asks.append((job, self._ask(plan, job, text, now_ms)))
                except (JobRequestError, RdlError) as error:
                    faults.append((job, str(error), text))
        for job, reason, text in faults:
            wrong = {PROMISE: "invalid", REASON: reason, ASKED: text or None}
            self._annotate(cluster, job, wrong, "Invalid", reason)
        if not asks:
            return
        try:
            answers = self._planner.change(Admission(tuple(ask for _, ask in asks)))
        except ApiProblemError as error:  # asked again at the next tick
            logger.warning("%d Jobs wait for the planner: %s", len(asks), error)
            return
        for (job, ask), answer in zip(asks, answers, strict=True):
            if isinstance(answer, ReservationAnswer):
                continue  # it is in the Plan now, where this tick finds it
            assert isinstance(answer, ProblemDocument)
            notes = {PROMISE: "refused", REASON: answer.detail, ASKED: ask.source}
            notes[OFFERS] = "\n".join(_offers_of(answer)) or None
            self._annotate(cluster, job, notes, "Refused", answer.detail)

    def _ask(self, plan: Plan, job: KubernetesJob, text: str, now_ms: int) -> Ask:
        """Return the request of a Job.

        Raises
        ------
        JobRequestError, RdlError
            If it cannot be planned, or a bundle is smaller than a pod.
        """
        asked = read_source(text)
        expression = plan.cluster.memory_shares.complete(asked)
        needs = pod_amounts(job.template)
        for atom in atoms_of(expression):
            short = [name for name, n in needs.items() if atom.bundle.get(name, 0) < n]
            if short:
                raise JobRequestError(f"a pod requests more {short[0]} than <{atom.bundle}>")
        graph = compile_expression(expression, context_of(plan, now_ms), text)
        request = Request(
            id=job.reservation,
            tenant=job.namespace,
            queue=job.annotations.get(QUEUE, "default"),
            submitted_ms=now_ms,
            weight=1.0,
            priority=0,
            graph=graph,
            promise=PromiseLevel.PLACED,
            written=text_as_written(text, asked, graph.expression),
        )
        return Ask(expression, text, request, self._agent, "", _OFFERS)

    def _read_plan(self, view: ClusterView, now_ms: int) -> None:
        """Read from the Plan what each Job has now."""
        with self._replica.newest() as plan:
            table, grid = plan.table, plan.grid
            step = now_ms // grid.step_ms
            numbers = {
                number: job.reservation
                for job in view.jobs.values()
                if (number := table.number_of(job.reservation)) is not None
            }
            slots, owner = table.slots_after(step)
            mine = np.isin(owner, np.fromiter(numbers, dtype=np.int64))
            now: dict[int, Counter[str]] = {}
            for (start, _, count, machine), number in zip(
                slots[mine].tolist(), owner[mine].tolist(), strict=True
            ):
                if start <= step:
                    now.setdefault(number, Counter())[table.machines[machine]] += count
            self._planned = {}
            for number, id_ in numbers.items():
                meta, state = table.meta[number], table.state(number)
                finish = int(meta["finish"])
                has_left = state in LIVE and (finish > step or state is State.DEGRADED)
                self._planned[id_] = PlannedJob(
                    table.scope(number)[0],
                    state,
                    now.get(number, {}),
                    not has_left,
                    grid.ms(int(meta["begin"])),
                    grid.ms(finish),
                    f"from {time_text(int(meta['begin']), grid)} to "
                    + ("no end" if finish == NEVER else time_text(finish, grid)),
                )

    def _follow_job(
        self, cluster: KubernetesCluster, job: KubernetesJob, now_ms: int, tenure: int
    ) -> None:
        """Release, resize or suspend a Job as the Plan has it, and say what became of it."""
        planned = self._planned.get(job.reservation)
        if planned is None:
            return
        if planned.tenant != job.namespace:
            reason = f"the id {job.reservation} is taken by another tenant"
            self._annotate(cluster, job, {PROMISE: "invalid", REASON: reason}, "Invalid", reason)
            return
        word = "ended" if job.end else _WORDS[planned.state]
        if word == "late" and now_ms < planned.finish_ms + _LATE_MS:
            word = "promised"
        if job.end and planned.state in LIVE:
            self._releaser.close(job.reservation, tenure)
        is_new = job.annotations.get(PROMISE) != word
        if is_new and word == "late":
            note = f"Job {job.namespace}/{job.name} has not ended, and its slots have"
            self._releaser.report(Note(job.reservation, WORK_RUNS_ON, note), tenure)
        elif is_new and job.end == "Failed":
            note = f"Job {job.namespace}/{job.name} failed: {job.end_reason}"
            self._releaser.report(Note(job.reservation, WORK_ENDED, note), tenure)
        notes: dict[str, str | None] = {
            RESERVATION: job.reservation,
            PROMISE: word,
            START: self._instant(planned.begin_ms),
            END: self._instant(planned.finish_ms),
            REASON: None,
            OFFERS: None,
            ASKED: None,
        }
        if job.end or word in _SETTLED:  # the times that were promised stay
            notes = {PROMISE: word}
        event, message = _event_of(word, planned)
        self._annotate(cluster, job, notes, event, message, _change_of(job, planned))
        if not job.end and job.annotations.get(ON_LATE) == "extend":
            self._extend(job, planned, now_ms)

    def _annotate(
        self,
        cluster: KubernetesCluster,
        job: KubernetesJob,
        notes: Mapping[str, str | None],
        event: str,
        message: str,
        spec: Json | None = None,
    ) -> None:
        """Change a Job if anything differs, with an Event if the outcome does.

        Raises
        ------
        KubernetesAwayError
            If the API server does not answer.
        """
        changed = {key: text for key, text in notes.items() if job.annotations.get(key) != text}
        if not (changed or spec):
            return
        with self._refusals(job):
            cluster.change(job, spec or {}, changed)
            if PROMISE in changed or REASON in changed:
                cluster.report(job, event, message, warns=event not in ("Promised", "Ended"))
            if spec and spec.get("suspend") is False:
                cluster.report(job, "Released", f"its slot has begun: {spec['parallelism']} pods")

    def _extend(self, job: KubernetesJob, planned: PlannedJob, now_ms: int) -> None:
        """Ask for a quarter more time shortly before the slots of a running Job end."""
        with self._replica.newest() as plan:
            step_ms = plan.grid.step_ms
        key = (job.reservation, planned.finish_ms)
        if (
            not planned.pods
            or planned.finish_ms - now_ms > max(_LEAD_MS, step_ms)
            or key in self._extended
        ):
            return
        self._extended.add(key)
        quarter = -(-(planned.finish_ms - planned.begin_ms) // 4)
        by_ms = -(-quarter // step_ms) * step_ms
        extension = Extension(f"Job {job.namespace}/{job.name}", job.reservation, "0", by_ms)
        with self._replica.newest() as plan:
            command = extension_of(plan, extension)
        if command is not None:
            self._releaser.extend(command, extension)

    def _place(
        self, cluster: KubernetesCluster, job: KubernetesJob, pods: Iterable[KubernetesPod]
    ) -> None:
        """Give waiting pods the machines of the slot; stop pods that are on other machines."""
        planned = self._planned.get(job.reservation)
        if planned is None or not planned.pods:
            return
        free = Counter(planned.now)
        active = [pod for pod in pods if not pod.is_leaving]
        free.subtract(pod.machine for pod in active if not pod.is_gated)
        waiting = [pod for pod in active if pod.is_gated]
        for pod in waiting:
            machine = max(free, key=lambda name: free[name])
            if free[machine] <= 0:
                break
            with self._refusals(job):
                cluster.place(pod, machine)
                free[machine] -= 1
        if len(active) > planned.pods:
            return  # the Job stops some of them first
        for pod in active:
            if not pod.is_gated and free[pod.machine] < 0:
                with self._refusals(job):
                    cluster.evict(pod)
                    free[pod.machine] += 1

    def _close_orphans(self, view: ClusterView, tenure: int) -> None:
        """Close the reservations of Jobs that are deleted."""
        with self._replica.newest() as plan:
            if plan.version != self._orphans_read:
                live = np.isin(plan.table.meta["state"], [STATE_NUMBERS[one] for one in LIVE])
                ids = (plan.table.id_of(one) for one in np.flatnonzero(live).tolist())
                self._live_ids = [id_ for id_ in ids if id_.startswith(_PREFIX)]
                self._orphans_read = plan.version
        there = {job.reservation for job in view.jobs.values()}
        for id_ in (id_ for id_ in self._live_ids if id_ not in there):
            logger.info("%s is closed: its Job is deleted", id_)
            self._releaser.close(id_, tenure)

    def _look_at_machines(self, cluster: KubernetesCluster, view: ClusterView, now_ms: int) -> None:
        """Read which machines take pods, and which are used by pods without a promise."""
        with self._replica.newest() as plan:
            names = plan.cluster.machine_names
            sizes = {
                name: group.resources
                for group in plan.cluster.machines
                for name in group.machine_names()
            }
        planned = {
            uid: self._planned[job.reservation].now
            for uid, job in view.jobs.items()
            if job.reservation in self._planned
        }
        self._report = machine_report(view, names, now_ms)
        taken = cluster.taken_machines(view, sizes, planned, now_ms)
        self._foreign = tuple(
            ForeignSpan(name, one.since_ms, one.since_ms + LOST_MS, f"pod {one.pod}")
            for name, one in taken.items()
        )

    @contextmanager
    def _refusals(self, job: KubernetesJob) -> Iterator[None]:
        """Log refused changes once; those of objects that have changed are decided again."""
        try:
            yield
        except KubernetesAwayError as error:
            if error.status != 429:
                raise
        except KubernetesError as error:
            if error.status not in (404, 409):
                self._log_once(f"Job {job.namespace}/{job.name}: {error}")

    def _log_once(self, message: str) -> None:
        if message not in self._logged:
            self._logged.add(message)
            logger.warning("%s", message)

    def _instant(self, plan_ms: int) -> str:
        return rfc3339_text(instant_of_epoch_ms(plan_ms + self._origin_ms))


def _change_of(job: KubernetesJob, planned: PlannedJob) -> Json:
    """Return the change of a Job's spec that the Plan asks for; empty for none."""
    if job.end:
        return {}
    if planned.pods:
        if job.is_suspended:
            gates = {} if job.is_gated else gated_template(job)
            return {"suspend": False, "parallelism": planned.pods, **gates}
        if not job.is_gated:  # somebody released it: its pods are where they should not be
            return {"suspend": True}
        return {} if job.parallelism == planned.pods else {"parallelism": planned.pods}
    if not planned.is_over:
        return {} if job.is_suspended else {"suspend": True}
    if not job.is_suspended and job.annotations.get(ON_LATE) == "fail" and job.deadline_s != 1:
        return {"activeDeadlineSeconds": 1}
    return {}


def _event_of(word: str, planned: PlannedJob) -> tuple[str, str]:
    """Return reason and message of the Event for an outcome."""
    messages = {
        "promised": f"it has its machines {planned.times}",
        "degraded": "it lost capacity, and is planned again in the rest of its window",
        "failed": "its window has no capacity for it any more",
        "cancelled": "its reservation was cancelled",
        "late": f"it has not ended in its slots, {planned.times}",
        "ended": "the rest of its reservation is released",
    }
    return word.capitalize(), messages[word]


def _has_waited(job: KubernetesJob, pods: Collection[KubernetesPod]) -> bool:
    """Return whether a Job has not run yet, or begins again without a pod that has succeeded."""
    if job.end or job.has_succeeded:
        return False
    if job.is_suspended:
        return not job.is_gated
    return bool(pods) and all(pod.is_gated for pod in pods)


def _pods_of(view: ClusterView) -> dict[str, list[KubernetesPod]]:
    """Return the pods of each Job with a deadline, by its uid."""
    found: dict[str, list[KubernetesPod]] = {}
    for pod in view.pods:
        if pod.job in view.jobs:
            found.setdefault(pod.job, []).append(pod)
    return found


def _offers_of(problem: ProblemDocument) -> list[str]:
    """Return the requests that would be promised instead, as RDL with what they change."""
    refusal = problem.refusal or {}
    offers = refusal.get("offers") or []
    assert isinstance(offers, list)
    return [f"{one['expression']}  # {one['sentence']}" for one in offers]
