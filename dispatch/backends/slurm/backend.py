"""SlurmBackend: each component is a Slurm job on one node; the state is in Slurm's queue.

A job's name identifies its component, so that a new leader reads the running components from Slurm,
and Slurm runs only one job of a name at a time. Only little state cannot be read again, and is lost
to a new leader: which jobs were stopped before their end was known, and since when nodes are
silent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from dispatch.backends.interface import MachineReport, NotDone
from dispatch.backends.slurm.component_jobs import ComponentOrder, limited, request_of
from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.job_names import (
    component_text,
    has_own_limit,
    key_of,
    ports_of,
    tenure_of,
)
from dispatch.backends.slurm.control.records import NodeRights, SlurmJob
from dispatch.backends.slurm.control.slurm import Look, Lookout, Slurm
from dispatch.backends.slurm.job_history import JobHistory, former_jobs
from dispatch.backends.slurm.job_ledger import JobLedger
from dispatch.backends.slurm.job_logs import make_folder
from dispatch.backends.slurm.job_records import TRANSITIONS, JobRecord, Phase, Sight, judge
from dispatch.backends.slurm.node_states import BACK_MS, NodeStates
from dispatch.executions.assignment import AssignmentRow, Delta, Key, Op, VirtualAssignment
from dispatch.executions.events import BackendEvent, EventKind
from dispatch.executions.execution import Execution, HeldComponent
from dispatch.executions.peers import PeerBook
from dispatch.executions.table import ExecutionTable

logger = logging.getLogger("agenda.slurm")

#: Returns what a delta starts.
OrderOf = Callable[[Delta], ComponentOrder]

#: Returns the Slurm reservations in which a component may run: (node, reservation, at_ms).
RightsOn = Callable[[str, str | None, int], NodeRights]

#: Largest number of concurrent submissions: slurmctld handles them one by one.
AT_ONCE: Final = 8


class SlurmBackend:
    """Starts and stops components as Slurm jobs.

    Parameters
    ----------
    slurm
        The Slurm that runs the jobs.
    order
        Returns what a delta starts.
    peers
        Gives ports to components that start; without, no component has any.
    tenure
        Number of the tenure in which this process leads: it cancels no job of a later tenure.
    origin_ms
        The Plan's origin as Unix ms.
    rights_on
        Returns the Slurm reservations in which a component may run on a node; none by default.
    steady_s
        Monotonic clock.
    leads
        Returns whether this process still leads: a read of Slurm may outlast its leadership, and
        the jobs it would stop then belong to another leader.
    needs_history
        Whether it is an error if the accounting does not answer at the start; otherwise jobs that
        slurmctld has forgotten are unknown, and their components restart.

    Raises
    ------
    SlurmError
        If slurmctld, or accounting that is needed, does not answer.
    """

    def __init__(
        self,
        slurm: Slurm,
        order: OrderOf,
        *,
        peers: PeerBook | None = None,
        tenure: int = 0,
        origin_ms: int = 0,
        rights_on: RightsOn = lambda _node, _reservation, _at_ms: NodeRights(),
        steady_s: Callable[[], float] = time.monotonic,
        leads: Callable[[], bool] = lambda: True,
        needs_history: bool = True,
    ) -> None:
        self._slurm = slurm
        self._settings = slurm.settings
        self._order = order
        self._peers = peers
        self._tenure = tenure
        self._origin_ms = origin_ms
        self._rights_on = rights_on
        self._steady_s = steady_s
        self._leads = leads
        self._lookout = Lookout(slurm, steady_s)
        self._nodes = NodeStates(
            slurm.settings.machines,
            lambda job: self._key(job) is not None,
            lambda node, at_ms: rights_on(node, None, at_ms).active,
        )
        commands = slurm.commands if slurm.capabilities.accounting else None
        self._history = JobHistory(commands, slurm.settings.user, steady_s)
        self._jobs = JobLedger(self._key, self._history, slurm.commands, steady_s)
        self._told: list[BackendEvent] = []
        self.newest: Look | None = None
        #: Earliest time of that snapshot, in ms from the origin.
        self.newest_ms = 0
        former = former_jobs(slurm, self._history, self._key, needs_history=needs_history)
        for key, job in former.items():
            self._add_former(key, job)

    def _add_former(self, key: Key, job: SlurmJob) -> None:
        """Record a job of an earlier leader, if it is on a machine of the cluster."""
        machine = self._nodes.machine_of(job.nodes or job.wanted_nodes)
        if machine is not None:
            since_ms, limit = self._plan_ms(job.submitted_s), has_own_limit(job)
            self._jobs.add(
                JobRecord(
                    key, machine, since_ms, job.id, self._steady_s(), False, Phase.FORMER, limit,
                    job.is_ending, last_seen=job,
                )
            )  # fmt: skip

    def resume(self, table: ExecutionTable, execution: Execution) -> None:
        """See `Backend.resume`."""
        parts = {part.component.name: part for part in execution.parts}
        placed = []
        for record in self._jobs.former(execution.id):
            part, job = parts.get(record.key[1]), record.last_seen
            if part is None or job is None:
                self._jobs.drop(record.key)
                continue
            record.core, record.last_seen = part.component.core, None
            record.phase = Phase.UP if job.is_up else Phase.SENT
            logger.info("%s was left as job %d, %s", component_text(record.key), job.id, job.state)
            held = HeldComponent(
                record.key[2], record.machine, record.since_ms, up=job.is_up, ports=ports_of(job)
            )
            placed.append((part, held))
        if placed:
            table.resume(execution, placed)

    def state(self) -> VirtualAssignment:
        """See `Backend.state`."""
        return VirtualAssignment.of(
            AssignmentRow(*one.key, one.machine, one.since_ms, covered=False)
            for one in self._jobs.standing()
        )

    # Requests.

    def apply(self, deltas: Sequence[Delta], at_ms: int) -> tuple[NotDone, ...]:
        """See `Backend.apply`."""
        if self.is_silent:  # each call would wait until its timeout
            return tuple(NotDone(delta, "Slurm does not answer", retry=True) for delta in deltas)
        if not self._leads():
            why = "another process may lead by now"
            return tuple(NotDone(delta, why, retry=True) for delta in deltas)
        stops = [delta for delta in deltas if delta.op in (Op.STOP, Op.SHRINK)]
        missed = list(self._stop(stops, at_ms))
        starts = [delta for delta in deltas if delta.op not in (Op.STOP, Op.SHRINK)]
        for delta in starts:  # one that exited was reported while its execution was being requeued
            self._jobs.repeat(_key(delta))
        if self._jobs.lacks_look(_key(delta) for delta in starts):
            self._look_at_left()
        missed += self._start(starts, at_ms)
        if deltas:
            self._lookout.hurry()
        found = {one.delta: one for one in missed}
        return tuple(found[delta] for delta in deltas if delta in found)

    @property
    def is_silent(self) -> bool:
        """Whether Slurm did not answer the last command."""
        return self._lookout.is_silent

    def note_silence(self, error: SlurmAwayError) -> None:
        """Record that Slurm did not answer; until it does, it is only read."""
        self._lookout.note_silence(error)

    def _stop(self, deltas: Iterable[Delta], at_ms: int) -> Iterator[NotDone]:
        """Cancel the jobs of components; yield deltas that failed, with reasons."""
        going: list[tuple[Delta, JobRecord]] = []
        for delta in deltas:
            one = self._jobs.find(_key(delta))
            if one is None or one.machine != delta.machine:
                yield NotDone(delta, f"it is not on {delta.machine}")
            else:
                going.append((delta, one))
        open_jobs = [one.job for _, one in going if one.phase is not Phase.EXITED]
        try:
            if open_jobs:
                self._slurm.commands.cancel(open_jobs)
        except SlurmAwayError as error:
            self.note_silence(error)
            yield from (NotDone(delta, str(error), retry=True) for delta, _ in going)
            return
        except SlurmError as error:  # retried until they have ended
            logger.warning("jobs are not cancelled yet: %s", error)
        for delta, one in going:
            self._leave(one, at_ms)
            self._tell(EventKind.STOPPED, at_ms, one, delta.reason)

    def _leave(self, one: JobRecord, at_ms: int) -> None:
        """Record a stopped job: it may have ended before, or never have begun."""
        was, one.phase = one.phase, Phase.LEFT
        one.to_cancel = was is not Phase.EXITED
        one.to_repeat, one.last_seen, one.wait_since_s = False, None, None
        if one.core and was is Phase.UP:
            heard_ms = self._nodes.heard_ms(one.machine)
            if heard_ms is not None:
                why = f"{one.machine} did not answer"
                self._tell(EventKind.VOID, one.known_until(heard_ms, at_ms), one, why)
            one.in_doubt = True

    def _start(self, deltas: Iterable[Delta], at_ms: int) -> list[NotDone]:
        """Submit the jobs of components; return deltas that failed, with reasons.

        A job that Slurm accepted without answering is cancelled later.
        """
        refused: list[NotDone] = []
        orders: dict[Key, tuple[Delta, ComponentOrder]] = {}
        coming = list(deltas)
        lacking = self._give_ports(coming)
        for delta in coming:
            why = self._why_not(delta, orders) or lacking.get(delta, "")
            order = self._order(delta) if not why else None
            if order is None or not order.command:
                refused.append(NotDone(delta, why or "the component has no command to run"))
            else:
                orders[_key(delta)] = delta, order
        refused += self._put_off(orders)
        wanted: list[tuple[Delta, JobRequest, bool]] = []
        done = self._jobs.take_ended_well({key: order for key, (_, order) in orders.items()})
        for key, (delta, order) in orders.items():
            if key in done:
                self._place(delta, done[key], at_ms, core=order.core)
                logger.info("%s has ended: job %d", component_text(key), done[key])
                continue
            try:
                make_folder(self._settings, delta.execution)
            except SlurmError as error:
                refused.append(NotDone(delta, str(error)))
                continue
            node = self._settings.machines[delta.machine]
            rights = self._rights_on(node, order.reservation, at_ms)
            request = request_of(self._settings, key, delta.machine, order, self._tenure, rights)
            request = limited(request, self._minutes_until(rights.until_s, at_ms))
            wanted.append((delta, request, order.core))
        answers = submit_all(self._slurm.commands, [request for _, request, _ in wanted])
        away = [one for one in answers if isinstance(one, SlurmAwayError)]
        if away:
            self.note_silence(away[0])
        for (delta, request, core), answer in zip(wanted, answers, strict=True):
            if isinstance(answer, SlurmError):
                retry = isinstance(answer, SlurmAwayError)
                refused.append(NotDone(delta, str(answer), retry=retry))
            else:
                self._place(delta, answer, at_ms, core=core, limit=request.minutes > 0)
        return refused

    def _give_ports(self, deltas: Sequence[Delta]) -> dict[Delta, str]:
        """Give components that start their ports; return those that lack one, with reasons.

        Jobs that are ending still have theirs.
        """
        if self._peers is None:
            return {}
        nodes = {} if self.newest is None else self.newest.nodes
        address = {name: node.address or name for name, node in nodes.items()}
        jobs = () if self.newest is None else self.newest.jobs.values()
        taken = {
            (address.get(node, node), port)
            for job in jobs
            if self.is_component(job) and (job.is_open or job.is_ending)
            for node in job.nodes or job.wanted_nodes
            for port in ports_of(job)
        }
        machines = self._settings.machines.items()
        hosts = {machine: address.get(node, node) for machine, node in machines}
        return self._peers.give_ports(deltas, hosts, taken)

    def _put_off(self, orders: dict[Key, tuple[Delta, ComponentOrder]]) -> list[NotDone]:
        """Remove the orders that must wait until the end of their last job is known."""
        waits = self._jobs.unsure({key: order for key, (_, order) in orders.items()})
        for key, job in waits.items():
            logger.info("%s waits: it is not known how job %d ended", component_text(key), job)
        return [
            NotDone(orders.pop(key)[0], f"it is not known how job {job} ended", retry=True)
            for key, job in waits.items()
        ]

    def _minutes_until(self, until_s: int, at_ms: int) -> int:
        """Return the time limit of a job that must end before a Unix time; 0 for none."""
        now_s = (at_ms + self._origin_ms) // 1000
        return max(1, (until_s - now_s) // 60) if until_s else 0

    def _place(
        self, delta: Delta, job: int, at_ms: int, *, core: bool, limit: bool = False
    ) -> None:
        asked_s = self._steady_s()
        one = JobRecord(_key(delta), delta.machine, at_ms, job, asked_s, core, limit=limit)
        self._jobs.add(one)

    def _look_at_left(self) -> None:
        """Read Slurm out of turn: jobs that were just stopped may have ended before."""
        try:
            jobs = self._slurm.look().jobs
            self._history.forget()
            self._jobs.see(jobs)
        except SlurmAwayError as error:
            self.note_silence(error)
        except SlurmError as error:
            logger.warning("the outcome of stopped jobs is not known: %s", error)

    def _why_not(self, delta: Delta, asked: Container[Key]) -> str:
        """Return why a component cannot be submitted to its machine, or nothing."""
        key = _key(delta)
        if why := self._nodes.why_away(delta.machine):
            return why
        one = self._jobs.find(key)
        if one is not None and one.phase is not Phase.EXITED:  # those restart with all replicas
            return f"it is on {one.machine} already"
        return "it is requested twice" if key in asked else ""

    # Events.

    def events(self, until_ms: int) -> tuple[BackendEvent, ...]:
        """See `Backend.events`; Slurm is read as often as its load allows."""
        look = self._lookout.look()
        if look is not None:
            self.newest, self.newest_ms = look, until_ms
            self._history.forget()
            self._jobs.see(look.jobs)
            up = {one.machine for one in self._jobs.standing() if one.phase is not Phase.SENT}
            self._told += self._nodes.see(look, up, until_ms)
            self._jobs.find_gone(look)
            for one in self._jobs.standing():
                if one.phase is not Phase.EXITED:
                    self._follow(one, look, until_ms)
            self._tell_void_runs(look, until_ms)
            self._sweep(look)
        told = [event for event in self._told if event.at_ms <= until_ms]
        self._told = [event for event in self._told if event.at_ms > until_ms]
        return tuple(sorted(told, key=lambda event: event.at_ms))

    def _tell_void_runs(self, look: Look, at_ms: int) -> None:
        """Report stopped runs that may never have begun: their time does not count."""
        for one in self._jobs.take_void(look, self._settings.machines):
            why = f"job {one.job} was stopped, and it is not known whether it had begun"
            self._tell(EventKind.VOID, min(one.since_ms + 1, at_ms), one, why)

    def _follow(self, one: JobRecord, look: Look, at_ms: int) -> None:
        """Update a job's phase from a snapshot of Slurm, and report its events."""
        job = self._jobs.job_of(one, look)
        waited_s = self._steady_s() - one.asked_s
        sight = Sight(
            job,
            self._settings.machines.get(one.machine),
            may_be_accounted=job is None and self._jobs.may_be_accounted(one),
            is_taken=one.machine in self._nodes.taken,
            is_overdue=waited_s > self._settings.start_s,
            waited_s=waited_s,
        )
        finding, detail = judge(one, sight)
        phase, kinds = TRANSITIONS[one.phase, finding]
        for kind in kinds:
            if kind is EventKind.STARTED and job is not None:
                started_ms = max(one.since_ms, min(self._plan_ms(job.started_s), at_ms))
                self._tell(kind, started_ms, one, "")
            elif kind is EventKind.LOST:
                logger.info("%s on %s is lost: %s", component_text(one.key), one.machine, detail)
                one.to_cancel = True
                self._tell(kind, self._lost_ms(one, job, at_ms), one, detail)
            else:
                self._tell(kind, at_ms, one, detail)
        one.phase = phase
        if phase is Phase.OVER or (phase is Phase.EXITED and not one.core):
            self._jobs.drop(one.key)

    def _lost_ms(self, one: JobRecord, job: SlurmJob | None, at_ms: int) -> int:
        """Return until when a lost component is known to have run.

        It is unknown how long a vanished job ran: perhaps its slurmd never started it. A restarted
        node may already answer again when its job is found to have failed with it, or to wait.
        """
        if one.is_gone or self._began_anew(one):
            return one.known_until(one.since_ms, at_ms)
        ended = job is None or not job.is_up
        return one.known_until(self._nodes.heard_ms(one.machine, or_back=ended), at_ms)

    def _began_anew(self, one: JobRecord) -> bool:
        """Return whether a slurmd restarted unnoticed a moment ago, after a component's start.

        slurmctld takes some seconds to notice that a slurmd is down.
        """
        node = self.newest and self.newest.nodes.get(self._settings.machines.get(one.machine, ""))
        if not node or self._nodes.heard_ms(one.machine, or_back=True) is not None:
            return False
        if node.begun_s in (0, one.node_began_s):
            return False  # unknown yet; or it had the job when it was queried
        return self._plan_ms(node.begun_s) > max(one.since_ms, self.newest_ms - BACK_MS)

    def _sweep(self, look: Look) -> None:
        """Cancel jobs without a component: those cancelled before, and unknown ones."""
        wanted = self._jobs.to_cancel(look, tenure_of, self._tenure)
        if wanted and self._leads():
            try:
                self._slurm.commands.cancel(wanted)
            except SlurmError as error:
                logger.warning("jobs %s are not cancelled yet: %s", wanted, error)
        self._jobs.drop_former()

    # Calls of the service for a backend with persistent state.

    def set_machines(self, machines: Iterable[str], at_ms: int) -> None:
        """See `Backend.set_machines`; components on removed machines are stopped."""
        del at_ms
        self._nodes.set_machines(machines)
        for one in self._jobs.standing():
            if one.machine not in self._nodes.machines:
                one.to_cancel = True
                self._jobs.drop(one.key)
        self._lookout.hurry()

    def machines(self) -> MachineReport:
        """See `Backend.machines`; none is live before the first snapshot of Slurm."""
        lost = self._nodes.lost_ms
        return MachineReport(
            lost, frozenset() if self.newest is None else self._nodes.up - lost.keys()
        )

    def welcome_back(self) -> None:
        """See `Backend.welcome_back`."""

    def is_component(self, job: SlurmJob) -> bool:
        """Return whether a job belongs to a component."""
        return self._key(job) is not None

    def _key(self, job: SlurmJob) -> Key | None:
        if job.user != self._settings.user:
            return None
        return key_of(self._settings.prefix, job.name)

    def _plan_ms(self, unix_s: int) -> int:
        return 1000 * unix_s - self._origin_ms

    def _tell(self, kind: EventKind, at_ms: int, one: JobRecord, detail: str) -> None:
        self._told.append(BackendEvent(kind, at_ms, one.machine, *one.key, detail))


def _key(delta: Delta) -> Key:
    return delta.execution, delta.component, delta.index


# Every job has its own name, and Slurm runs one job of a name at a time, so that they may arrive in
# any order; a job that Slurm accepted though its answer was lost has no component, and is cancelled
# at the next snapshot. A job array would be one call, but its tasks share one name and one node
# list, and each component has its own.


class JobSubmitter(Protocol):
    """Submits one job; thread-safe."""

    def submit(self, job: JobRequest) -> int:
        """Submit a job; return its id."""
        ...


class _Submissions:
    """Submits jobs; once Slurm does not answer one, no more are submitted."""

    def __init__(self, slurm: JobSubmitter) -> None:
        self._slurm = slurm
        self._away: SlurmAwayError | None = None

    def submit(self, job: JobRequest) -> int | SlurmError:
        if self._away is not None:
            return self._away
        try:
            return self._slurm.submit(job)
        except SlurmAwayError as error:
            self._away = error
            return error
        except SlurmError as error:
            return error


def submit_all(
    slurm: JobSubmitter, jobs: Sequence[JobRequest], at_once: int = AT_ONCE
) -> list[int | SlurmError]:
    """Submit jobs; return the id or the error of each.

    Parameters
    ----------
    at_once
        Largest number of concurrent submissions.

    Returns
    -------
    list
        In the order of `jobs`. If Slurm does not answer one of them, the remaining ones are not
        submitted and get the same error.
    """
    submissions = _Submissions(slurm)
    if len(jobs) < 2:
        return [submissions.submit(job) for job in jobs]
    with ThreadPoolExecutor(min(at_once, len(jobs)), "agenda-slurm-submit") as pool:
        return list(pool.map(submissions.submit, jobs))
