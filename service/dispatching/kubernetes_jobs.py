"""KubernetesJobs: Jobs with a deadline are requested, released at their slots, and followed.

Each tick of the leader compares the Jobs, pods and nodes of the API server with the Plan and makes
the changes that follow from the difference (`KubernetesJobs.follow` reads as these steps). The id
of a reservation follows from the uid of its Job and what that asks for. So there is no record of
Jobs besides the API server's and the Plan, and a leader that is killed between a commit and a
change leaves nothing that the next tick does not see.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
from dispatch.backends.kubernetes.backend import KubernetesBackend
from dispatch.backends.kubernetes.cluster import (
    ClusterView,
    KubernetesCluster,
    gated_template,
    machine_report,
)
from dispatch.backends.kubernetes.records import (
    END,
    ID_PREFIX,
    OFFERS,
    ON_LATE,
    PROMISE,
    QUEUE,
    REASON,
    RELEASED,
    RESERVATION,
    START,
    JobRequestError,
    KubernetesJob,
    KubernetesPod,
    labels_of,
    pod_amounts,
    rdl_of,
)
from dispatch.executions.peers import PeerBook
from planner.cluster.cluster import Taken
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
from rdl.durations import epoch_ms, instant_of_epoch_ms, parse_rfc3339, rfc3339_text
from rdl.errors import RdlError
from rdl.expressions import Every, Expression, atoms_of, children_of
from rdl.resources import Resources
from service.commits.commands import Admission, Ask, ReservationAnswer
from service.commits.planner import Planner
from service.commits.replica import Replica
from service.commits.screening import context_of
from service.dispatching.releaser import Releaser, extension_of
from service.problems import ApiProblemError, ProblemDocument
from service.store import LeadershipLostError
from service.store.engine import UNAVAILABLE

logger = logging.getLogger("agenda.kubernetes")

#: Most Jobs that are requested in one tick, or said to be invalid, and offers of a refusal.
_MOST_ASKED, _OFFERS = 100, 3

#: Most changes that are under way at a time.
_AT_ONCE: Final = 8

#: Words of `PROMISE` after which a Job is not asked for again, and after which a change of it is.
_SETTLED: Final = frozenset({"failed", "cancelled", "late", "ended"})
_REFUSED: Final = frozenset({"refused", "invalid"})

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

    reservation: str
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
        self._tenure, self._leads = 0, _always
        #: By uid of the Job.
        self._planned: dict[str, PlannedJob] = {}
        #: Live reservations of Jobs at a version of the Plan.
        self._live_ids: list[str] = []
        self._orphans_read = -1
        #: Messages of failures that have been logged, and ends at which more time was asked for.
        self._logged: set[str] = set()
        self._is_away = False
        self._extended: set[tuple[str, int]] = set()
        #: Changes that a tick has decided and not made yet.
        self._due: list[tuple[KubernetesJob, Callable[[], None]]] = []
        self._report: MachineReport | None = None
        self._taken: tuple[Taken, ...] | None = None

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
        self._view, self._orphans_read, self._report, self._taken = None, -1, None, None

    def backend(
        self,
        peers: PeerBook,
        leads: Callable[[], bool],
        is_over: Callable[[str], bool],
        logs_s: float,
    ) -> KubernetesBackend:
        """Return what runs the components of applications in this tenure.

        Raises
        ------
        KubernetesError
            If the API server does not answer.
        """
        assert self._cluster is not None
        return KubernetesBackend(self._cluster, lambda: self._report, peers, leads, is_over, logs_s)

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
    def taken(self) -> tuple[Taken, ...] | None:
        """What pods without a promise take of machines; None if unknown."""
        return self._taken

    def follow(self, now_ms: int, tenure: int, leads: Callable[[], bool]) -> None:
        """Bring Jobs and pods in line with the Plan, and the Plan in line with what has ended.

        Failures are logged once, and what was not done is decided again at the next tick. Whether
        the process still leads is asked before each change.

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
        self._view, self._tenure, self._leads, self._due = view, tenure, leads, []
        try:
            self._admit(cluster, view, now_ms)
            self._read_plan(view, now_ms)
            for job in view.jobs.values():
                with self._refusals(job):
                    self._follow_job(cluster, job, now_ms)
            for uid, pods in _pods_of(view).items():
                self._place(cluster, view.jobs[uid], pods)
            self._make_changes()
        except KubernetesAwayError as error:
            self._log_once(f"Jobs wait for the API server: {error}")
        if cluster.failure:
            self._is_away = True
        else:
            if self._is_away:
                self._logged.clear()
            self._is_away = False
            self._close_orphans(view)
            self._look_at_machines(cluster, view, now_ms)

    def waits(self, now_ms: int) -> dict[str, JobWait]:
        """Return the reservations whose Jobs are suspended, or have no pod with a machine.

        A suspended Job has run in the stretches that began before its last release. Jobs that this
        tick has released do not wait. While the API server does not answer, none is known to.
        """
        cluster = self._cluster
        view = None if cluster is None or cluster.failure else cluster.view()
        if view is None:
            return {}
        pods = _pods_of(view)
        return {
            self._planned[uid].reservation: JobWait(
                self._created_ms(job), False, now_ms, used_ms=self._used_ms(job)
            )
            for uid, job in view.jobs.items()
            if uid in self._planned and _has_waited(job, pods.get(uid, ()))
        }

    def _created_ms(self, job: KubernetesJob) -> int:
        return 1000 * job.created_s - self._origin_ms

    def _used_ms(self, job: KubernetesJob) -> int:
        """Return until when a suspended Job was released; else, and before, its creation."""
        try:
            released_ms = epoch_ms(parse_rfc3339(job.annotations[RELEASED])) - self._origin_ms
        except (KeyError, ValueError):
            released_ms = 0
        return max(self._created_ms(job) - 1, released_ms if job.is_suspended else 0)

    def _admit(self, cluster: KubernetesCluster, view: ClusterView, now_ms: int) -> None:
        """Request reservations for new Jobs; annotate those that are refused."""
        asks: list[tuple[KubernetesJob, Ask]] = []
        faults: list[tuple[KubernetesJob, dict[str, str]]] = []
        with self._replica.newest() as plan:
            for job in view.jobs.values():
                is_refused = job.promise in _REFUSED and job.noted_id == job.next_id
                if job.end or job.promise in _SETTLED or is_refused or _id_in(plan, job):
                    continue
                if len(asks) == _MOST_ASKED:
                    break
                with self._refusals(job):
                    id_ = job.id_base  # what is wrong without the Plan is looked at in each tick
                    try:
                        text = rdl_of(job)
                        id_ = job.next_id
                        asks.append((job, self._ask(plan, job, text)))
                    except (JobRequestError, RdlError) as error:
                        wrong = {PROMISE: "invalid", REASON: str(error), RESERVATION: id_}
                        if _changed(job, wrong) and len(faults) < _MOST_ASKED:
                            faults.append((job, wrong))
        for job, wrong in faults:
            self._annotate(cluster, job, wrong, "Invalid", wrong[REASON])
        if not asks:
            return
        try:
            answers = self._planner.change(Admission(tuple(ask for _, ask in asks)))
        except ApiProblemError as error:  # asked again at the next tick
            logger.warning("%d Jobs wait for the planner: %s", len(asks), error)
            return
        for (job, _), answer in zip(asks, answers, strict=True):
            if isinstance(answer, ReservationAnswer):
                continue  # it is in the Plan now, where this tick finds it
            assert isinstance(answer, ProblemDocument)
            notes: dict[str, str | None] = {
                PROMISE: "refused",
                REASON: answer.detail,
                RESERVATION: job.next_id,
                OFFERS: "\n".join(_offers_of(answer)) or None,
            }
            self._annotate(cluster, job, notes, "Refused", answer.detail)

    def _ask(self, plan: Plan, job: KubernetesJob, text: str) -> Ask:
        """Return the request of a Job, whose times count from the creation of the Job.

        Raises
        ------
        JobRequestError, RdlError
            If it cannot be planned, or its pods are not those of the request.
        """
        asked = read_source(text)
        expression = plan.cluster.memory_shares.complete(asked)
        if _has_every(expression):
            raise JobRequestError("a Job runs once: use a CronJob for every")
        atoms = list(atoms_of(expression))
        if len(atoms) != 1 and job.annotations.get(ON_LATE) == "extend":
            raise JobRequestError(f"{ON_LATE}: extend needs a request of one atom")
        needs = pod_amounts(job.template)
        for atom in atoms:
            for label in labels_of(job):
                if atom.on != label:
                    raise JobRequestError(f'its nodeSelector needs on="{label}" in each atom')
            short = [name for name, n in needs.items() if atom.bundle.get(name, 0) < n]
            if short:
                raise JobRequestError(f"a pod requests more {short[0]} than <{atom.bundle}>")
        created_ms = self._created_ms(job)
        graph = compile_expression(expression, context_of(plan, created_ms), text)
        request = Request(
            id=job.next_id,
            tenant=job.namespace,
            queue=job.annotations.get(QUEUE, "default"),
            submitted_ms=created_ms,
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
                number: uid
                for uid, job in view.jobs.items()
                if (number := table.number_of(_id_in(plan, job))) is not None
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
            for number, uid in numbers.items():
                meta, state = table.meta[number], table.state(number)
                finish = int(meta["finish"])
                has_left = state in LIVE and (finish > step or state is State.DEGRADED)
                self._planned[uid] = PlannedJob(
                    table.id_of(number),
                    table.scope(number)[0],
                    state,
                    now.get(number, {}),
                    not has_left,
                    grid.ms(int(meta["begin"])),
                    grid.ms(finish),
                    f"from {time_text(int(meta['begin']), grid)} to "
                    + ("no end" if finish == NEVER else time_text(finish, grid)),
                )

    def _follow_job(self, cluster: KubernetesCluster, job: KubernetesJob, now_ms: int) -> None:
        """Release, resize or suspend a Job as the Plan has it, and say what became of it."""
        planned = self._planned.get(job.uid)
        if planned is None:
            return
        id_ = planned.reservation
        if planned.tenant != job.namespace:
            reason = f"the id {id_} is taken by another tenant"
            wrong = {PROMISE: "invalid", REASON: reason, RESERVATION: id_}
            self._annotate(cluster, job, wrong, "Invalid", reason)
            return
        word = "ended" if job.end else _WORDS[planned.state]
        if word == "late" and now_ms < planned.finish_ms + _LATE_MS:
            word = "promised"
        if job.end and planned.state in LIVE:
            self._releaser.close(id_, self._tenure)
        outcome: Note | None = None
        if word == "late":
            note = f"Job {job.namespace}/{job.name} has not ended, and its slots have"
            outcome = Note(id_, WORK_RUNS_ON, note)
        elif job.end == "Failed":
            note = f"Job {job.namespace}/{job.name} failed: {job.end_reason}"
            outcome = Note(id_, WORK_ENDED, note)
        notes: dict[str, str | None] = {
            RESERVATION: id_,
            PROMISE: word,
            START: self._instant(planned.begin_ms),
            END: self._instant(planned.finish_ms),
            REASON: None,
            OFFERS: None,
        }
        if job.end or word in _SETTLED:  # the times that were promised stay
            notes = {PROMISE: word, RESERVATION: id_}
        change = _change_of(job, planned)
        if change.get("suspend") is False or ("suspend" in change and job.is_gated):
            notes[RELEASED] = self._instant(now_ms)
        event, message = _event_of(word, planned)
        self._annotate(cluster, job, notes, event, message, change, outcome)
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
        outcome: Note | None = None,
    ) -> None:
        """Decide to change a Job if anything differs, with Note and Event if the outcome does.

        If the API server refuses the change, there is neither.
        """
        changed = _changed(job, notes)
        if not (changed or spec):
            return

        def change() -> None:
            cluster.change(job, spec or {}, changed)
            if PROMISE in changed and outcome is not None:
                self._releaser.report(outcome, self._tenure)
            if PROMISE in changed or REASON in changed:
                cluster.report(job, event, message, warns=event not in ("Promised", "Ended"))
            if spec and spec.get("suspend") is False:
                cluster.report(job, "Released", f"its slot has begun: {spec['parallelism']} pods")

        self._due.append((job, change))

    def _make_changes(self) -> None:
        """Make the changes that were decided, some at a time: each waits for the API server.

        Raises
        ------
        KubernetesError
            If the API server does not answer.
        LeadershipLostError
            If another tenure has begun: no change happens that its leader decides by now.
        """

        def make(one: tuple[KubernetesJob, Callable[[], None]]) -> None:
            job, change = one
            with self._refusals(job):
                if not self._leads():
                    raise LeadershipLostError
                change()

        if not self._due:
            return
        pool = ThreadPoolExecutor(min(_AT_ONCE, len(self._due)), "agenda-kubernetes")
        try:
            for _ in pool.map(make, self._due):
                pass
        finally:
            pool.shutdown(cancel_futures=True)

    def _extend(self, job: KubernetesJob, planned: PlannedJob, now_ms: int) -> None:
        """Ask for a quarter more time shortly before the slots of a running Job end."""
        with self._replica.newest() as plan:
            step_ms = plan.grid.step_ms
        id_ = planned.reservation
        key = (id_, planned.finish_ms)
        if (
            not planned.pods
            or planned.finish_ms - now_ms > max(_LEAD_MS, step_ms)
            or key in self._extended
        ):
            return
        self._extended.add(key)
        quarter = -(-(planned.finish_ms - planned.begin_ms) // 4)
        by_ms = -(-quarter // step_ms) * step_ms
        with self._replica.newest() as plan:
            number = plan.table.number_of(id_)
            atoms = () if number is None else plan.table.holding(number).atoms
            if len(atoms) != 1:  # it was no request to extend when it was promised
                return
            extension = Extension(f"Job {job.namespace}/{job.name}", id_, atoms[0].path, by_ms)
            command = extension_of(plan, extension)
        if command is not None:
            self._releaser.extend(command, extension)

    def _place(
        self, cluster: KubernetesCluster, job: KubernetesJob, pods: Iterable[KubernetesPod]
    ) -> None:
        """Decide which machines waiting pods get, and which pods are on others and stop."""
        planned = self._planned.get(job.uid)
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
            self._due.append((job, partial(cluster.place, pod, machine)))
            free[machine] -= 1
        if len(active) > planned.pods:
            return  # the Job stops some of them first
        for pod in active:
            if not pod.is_gated and free[pod.machine] < 0:
                self._due.append((job, partial(cluster.evict, pod)))
                free[pod.machine] += 1

    def _close_orphans(self, view: ClusterView) -> None:
        """Close the reservations of Jobs that are deleted."""
        with self._replica.newest() as plan:
            if plan.version != self._orphans_read:
                live = np.isin(plan.table.meta["state"], [STATE_NUMBERS[one] for one in LIVE])
                ids = (plan.table.id_of(one) for one in np.flatnonzero(live).tolist())
                self._live_ids = [id_ for id_ in ids if id_.startswith(ID_PREFIX)]
                self._orphans_read = plan.version
            there = {_id_in(plan, job) for job in view.jobs.values()}
        for id_ in (id_ for id_ in self._live_ids if id_ not in there):
            logger.info("%s is closed: its Job is deleted", id_)
            self._releaser.close(id_, self._tenure)

    def _look_at_machines(self, cluster: KubernetesCluster, view: ClusterView, now_ms: int) -> None:
        """Read which machines take pods, and what pods without a promise take of them."""
        with self._replica.newest() as plan:
            names = plan.cluster.machine_names
            sizes = {
                name: group.resources
                for group in plan.cluster.machines
                for name in group.machine_names()
            }
        planned = {uid: one.now for uid, one in self._planned.items()}
        self._report = machine_report(view, names, now_ms)
        now_s = (now_ms + self._origin_ms) / 1000
        taken = cluster.taken_amounts(view, sizes, planned, now_ms, now_s)
        self._taken = tuple((name, Resources.of(some)) for name, some in taken.items())

    @contextmanager
    def _refusals(self, job: KubernetesJob) -> Iterator[None]:
        """Log failures of one Job once; those of objects that have changed are decided again."""
        try:
            yield
        except (LeadershipLostError, *UNAVAILABLE):
            raise
        except KubernetesAwayError as error:
            if error.status != 429:
                raise
        except KubernetesError as error:
            if error.status not in (404, 409):
                self._log_once(f"Job {job.namespace}/{job.name}: {error}")
        except Exception as error:  # the other Jobs are followed
            message = f"Job {job.namespace}/{job.name}: {error!r}"
            if message not in self._logged:
                logger.exception("Job %s/%s cannot be followed", job.namespace, job.name)
            self._logged.add(message)

    def _log_once(self, message: str) -> None:
        if message not in self._logged:
            self._logged.add(message)
            logger.warning("%s", message)

    def _instant(self, plan_ms: int) -> str:
        return rfc3339_text(instant_of_epoch_ms(plan_ms + self._origin_ms))


def _always() -> bool:
    return True


def _has_every(expression: Expression) -> bool:
    return isinstance(expression, Every) or any(map(_has_every, children_of(expression)))


def _id_in(plan: Plan, job: KubernetesJob) -> str:
    """Return the id of the reservation of a Job in a Plan; empty if it has none.

    A promised Job keeps its own, whatever it would ask for now; one whose promise was not written
    to it yet is found by what it asks for.
    """
    ids = (id_ for id_ in (job.noted_id, job.next_id) if plan.table.number_of(id_) is not None)
    return next(ids, "")


def _changed(job: KubernetesJob, notes: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the annotations that a Job does not have yet."""
    return {key: text for key, text in notes.items() if job.annotations.get(key) != text}


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
    """Return whether a Job is suspended, or begins again without a pod that has succeeded."""
    if job.is_suspended or job.end:
        return not job.end
    return not job.has_succeeded and bool(pods) and all(pod.is_gated for pod in pods)


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
