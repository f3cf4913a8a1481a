"""SlurmBackend: each component is a Slurm job of one node; Slurm's own queue is all the memory.

A job's name says which component it is, so that a new leader of the dispatch reads from Slurm
what runs, and Slurm lets only one job of a name run at a time. Little is kept that could not be
read again: which jobs were stopped before anybody knew how they ended, and since when nodes are
silent. A new leader does not know.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dispatch.backends.interface import MachineReport, NotDone
from dispatch.backends.slurm.component_jobs import ComponentJob, ComponentOrder, limited, request_of
from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.job_names import (
    component_text,
    has_own_limit,
    key_of,
    tenure_of,
)
from dispatch.backends.slurm.control.records import NodeRights, SlurmJob
from dispatch.backends.slurm.control.slurm import Look, Lookout, Slurm
from dispatch.backends.slurm.control.submissions import submit_all
from dispatch.backends.slurm.doubtful_runs import DoubtfulRuns, LastRun
from dispatch.backends.slurm.ending_jobs import EndingJobs
from dispatch.backends.slurm.former_jobs import former_jobs
from dispatch.backends.slurm.job_history import JobHistory
from dispatch.backends.slurm.last_jobs import LONGEST_WAIT_S, LastJobs
from dispatch.backends.slurm.node_states import BACK_MS, NodeStates
from dispatch.backends.slurm.vanished_jobs import VanishedJobs
from dispatch.executions.assignment import AssignmentRow, Delta, Key, Op, VirtualAssignment
from dispatch.executions.events import BackendEvent, EventKind
from dispatch.executions.execution import Execution, HeldComponent
from dispatch.executions.table import ExecutionTable

logger = logging.getLogger("agenda.slurm")

#: What a delta starts.
OrderOf = Callable[[Delta], ComponentOrder]

#: Under which reservations of Slurm a component may run: (node, reservation, at_ms).
RightsOn = Callable[[str, str | None, int], NodeRights]


class SlurmBackend:
    """Starts and stops components as jobs of a Slurm.

    Parameters
    ----------
    slurm
        Carries them out.
    order
        What a delta starts.
    tenure
        Number of the tenure in which this process leads: it cancels no job of a later one.
    origin_ms
        The Plan's origin as Unix ms.
    rights_on
        Under which reservations of Slurm a component may run on a node; none by default.
    steady_s
        A clock that nobody sets.
    leads
        Whether this process still leads: a look may outlast its leadership, and what it would stop
        then is another's.
    needs_history
        Whether a silent accounting is an error at first; else jobs that slurmctld has forgotten
        are not known, and their components begin again.

    Raises
    ------
    SlurmError
        If slurmctld does not answer, or the accounting that is needed does not.
    """

    def __init__(
        self,
        slurm: Slurm,
        order: OrderOf,
        *,
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
        self._there: dict[Key, ComponentJob] = {}
        #: Jobs that were cancelled, by number, and are not known to be gone.
        self._leaving: set[int] = set()
        #: Of components that were stopped, the last job: it may have ended well before that.
        commands = slurm.commands if slurm.capabilities.accounting else None
        self._history = JobHistory(commands, slurm.settings.user, steady_s)
        self._last_jobs = LastJobs(self._is_job_of, self._history, steady_s)
        self._doubtful = DoubtfulRuns()
        self._ending = EndingJobs(self._history, steady_s)
        #: Since when a job is absent of which the accounting does not say how it ended.
        self._absent_s: dict[int, float] = {}
        self._vanished = VanishedJobs(slurm.commands, steady_s)
        #: Jobs of which nothing is left.
        self._gone: frozenset[int] = frozenset()
        self._told: list[BackendEvent] = []
        self.newest: Look | None = None
        #: When that was asked for, at the earliest, in ms from the origin.
        self.newest_ms = 0
        #: What leaders before this one have left.
        self._found = former_jobs(slurm, self._history, self._key, needs_history=needs_history)

    def resume(self, table: ExecutionTable, execution: Execution) -> None:
        """See `Backend.resume`."""
        parts = {part.component.name: part for part in execution.parts}
        mine = [key for key in self._found if key[0] == execution.id]
        placed = []
        for key in mine:
            job = self._found.pop(key)
            machine = self._nodes.machine_of(job.nodes or job.wanted_nodes)
            if key[1] not in parts or machine is None:
                continue
            since_ms = self._plan_ms(job.submitted_s)
            part = parts[key[1]]
            core, limit = part.component.core, has_own_limit(job)
            one = ComponentJob(
                machine, since_ms, job.id, self._steady_s(), core, up=job.is_up, limit=limit,
                ending=job.is_ending,
            )  # fmt: skip
            self._there[key] = one
            logger.info("%s was left as job %d, %s", component_text(key), job.id, job.state)
            placed.append((part, HeldComponent(key[2], machine, since_ms, up=job.is_up)))
        if placed:
            table.resume(execution, placed)

    def state(self) -> VirtualAssignment:
        """See `Backend.state`."""
        return VirtualAssignment.of(
            AssignmentRow(*key, one.machine, one.since_ms, covered=False)
            for key, one in self._there.items()
        )

    # What is asked.

    def apply(self, deltas: Sequence[Delta], at_ms: int) -> tuple[NotDone, ...]:
        """See `Backend.apply`."""
        if self.is_silent:  # each call would wait for its time limit
            return tuple(NotDone(delta, "Slurm does not answer", retry=True) for delta in deltas)
        if not self._leads():
            why = "another process may lead by now"
            return tuple(NotDone(delta, why, retry=True) for delta in deltas)
        stops = [delta for delta in deltas if delta.op in (Op.STOP, Op.SHRINK)]
        missed = list(self._stop(stops, at_ms))
        starts = [delta for delta in deltas if delta.op not in (Op.STOP, Op.SHRINK)]
        for delta in starts:
            one = self._there.get(_key(delta))
            if one is not None and one.exited:  # told while its execution was on its way back
                self._last_jobs.add(_key(delta), one.job)
        if self._last_jobs.lacks_look(_key(delta) for delta in starts):
            self._look_at_left()
        missed += self._start(starts, at_ms)
        if deltas:
            self._lookout.hurry()
        found = {one.delta: one for one in missed}
        return tuple(found[delta] for delta in deltas if delta in found)

    @property
    def is_silent(self) -> bool:
        """Whether Slurm did not answer when it was asked last."""
        return self._lookout.is_silent

    def note_silence(self, error: SlurmAwayError) -> None:
        """Note that Slurm has not answered; until it does it is asked for looks alone."""
        self._lookout.note_silence(error)

    def _stop(self, deltas: Iterable[Delta], at_ms: int) -> Iterator[NotDone]:
        """Cancel the jobs of components; yield what cannot be stopped, and why."""
        going: list[tuple[Delta, ComponentJob]] = []
        for delta in deltas:
            one = self._there.get(_key(delta))
            if one is None or one.machine != delta.machine:
                yield NotDone(delta, f"it is not on {delta.machine}")
            else:
                going.append((delta, one))
        open_jobs = [one.job for _, one in going if not one.exited]
        try:
            if open_jobs:
                self._slurm.commands.cancel(open_jobs)
        except SlurmAwayError as error:
            self.note_silence(error)
            yield from (NotDone(delta, str(error), retry=True) for delta, _ in going)
            return
        except SlurmError as error:  # it is tried again until they are gone
            logger.warning("jobs are not cancelled yet: %s", error)
        for delta, one in going:
            del self._there[_key(delta)]
            self._leaving.update([] if one.exited else [one.job])
            self._note_left(_key(delta), one, at_ms)
            self._tell(EventKind.STOPPED, at_ms, _key(delta), one, delta.reason)

    def _note_left(self, key: Key, one: ComponentJob, at_ms: int) -> None:
        """Remember what is stopped: it may have ended before that, or never have begun."""
        self._last_jobs.add(key, one.job)
        if one.core and one.up and not one.exited:
            heard_ms = self._nodes.heard_ms(one.machine)
            if heard_ms is not None:
                void_ms = _known_until(one, heard_ms, at_ms)
                self._tell(EventKind.VOID, void_ms, key, one, f"{one.machine} did not answer")
            node, sure_s = self._settings.machines[one.machine], self._vanished.sure_s(one.job)
            self._doubtful.add(LastRun(key, one.machine, one.since_ms, one.job, node, sure_s))

    def _start(self, deltas: Iterable[Delta], at_ms: int) -> list[NotDone]:
        """Submit the jobs of components; return what cannot be started, and why.

        A job that Slurm took though it did not answer is cancelled later.
        """
        refused: list[NotDone] = []
        orders: dict[Key, tuple[Delta, ComponentOrder]] = {}
        for delta in deltas:
            why = self._why_not(delta, orders)
            order = self._order(delta) if not why else None
            if order is None or not order.command:
                refused.append(NotDone(delta, why or "the component has no command to run"))
            else:
                orders[_key(delta)] = delta, order
        refused += self._put_off(orders)
        wanted: list[tuple[Delta, JobRequest, bool]] = []
        done = self._done_before({key: order for key, (_, order) in orders.items()})
        for key, (delta, order) in orders.items():
            if key in done:
                self._place(delta, done[key], at_ms, core=order.core)
                logger.info("%s has ended: job %d", component_text(key), done[key])
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

    def _put_off(self, orders: dict[Key, tuple[Delta, ComponentOrder]]) -> list[NotDone]:
        """Take out of what is to be started what waits until it is known how its last job ended."""
        waits = self._last_jobs.unsure({key: order for key, (_, order) in orders.items()})
        for key, job in waits.items():
            logger.info("%s waits: nobody knows yet how job %d ended", component_text(key), job)
        return [
            NotDone(orders.pop(key)[0], f"nobody knows yet how job {job} ended", retry=True)
            for key, job in waits.items()
        ]

    def _minutes_until(self, until_s: int, at_ms: int) -> int:
        """Return the time limit of a job that is to end before a Unix time; 0 for none."""
        now_s = (at_ms + self._origin_ms) // 1000
        return max(1, (until_s - now_s) // 60) if until_s else 0

    def _place(
        self, delta: Delta, job: int, at_ms: int, *, core: bool, limit: bool = False
    ) -> None:
        self._leaving.discard(job)
        self._there[_key(delta)] = ComponentJob(
            delta.machine, at_ms, job, self._steady_s(), core, limit=limit
        )

    def _done_before(self, orders: Mapping[Key, ComponentOrder]) -> dict[Key, int]:
        """Return the jobs of what is to be started that had ended well when they were stopped."""
        standing = Counter(
            key[0] for key, one in self._there.items() if one.core and key not in orders
        )
        return self._last_jobs.ended_well(orders, standing)

    def _look_at_left(self) -> None:
        """Look at Slurm beside the turn: what has just been stopped may have ended before."""
        try:
            jobs = self._slurm.look().jobs
            self._history.forget()
            self._last_jobs.see(jobs)
        except SlurmAwayError as error:
            self.note_silence(error)
        except SlurmError as error:
            logger.warning("what became of stopped jobs is not known: %s", error)

    def _why_not(self, delta: Delta, asked: Container[Key]) -> str:
        """Return why a component cannot be submitted to its machine, or nothing."""
        key = _key(delta)
        if why := self._nodes.why_away(delta.machine):
            return why
        one = self._there.get(key)
        if one is not None and not one.exited:  # one that has exited begins anew with its likes
            return f"it is on {one.machine} already"
        return "it is asked for twice" if key in asked else ""

    # What happens.

    def events(self, until_ms: int) -> tuple[BackendEvent, ...]:
        """See `Backend.events`; Slurm is looked at as often as it bears."""
        look = self._lookout.look()
        if look is not None:
            self.newest, self.newest_ms = look, until_ms
            self._history.forget()
            self._last_jobs.see(look.jobs)
            standing = {one.machine for one in self._there.values() if one.up}
            self._told += self._nodes.see(look, standing, until_ms)
            self._gone = self._vanished.among((one.job for one in self._there.values()), look)
            for key in list(self._there):
                self._note_component(key, look, until_ms)
            self._tell_void_runs(look, until_ms)
            self._sweep(look)
        told = [event for event in self._told if event.at_ms <= until_ms]
        self._told = [event for event in self._told if event.at_ms > until_ms]
        return tuple(sorted(told, key=lambda event: event.at_ms))

    def _tell_void_runs(self, look: Look, at_ms: int) -> None:
        """Tell of stopped runs that may never have begun: none of their time was had."""
        for run in self._doubtful.void(look):
            why = f"job {run.job} was stopped, and nobody knows whether it had begun"
            void_ms = min(run.since_ms + 1, at_ms)
            self._told.append(BackendEvent(EventKind.VOID, void_ms, run.machine, *run.key, why))

    def _note_component(self, key: Key, look: Look, at_ms: int) -> None:
        """Tell what has become of a component since the last look."""
        one = self._there[key]
        if one.exited:
            return
        job = look.jobs.get(one.job) or self._history.get(one.job)
        if job is not None and self._key(job) != key:
            job = None  # a slurmctld that lost its state gives numbers anew
        if job is None and self._history.is_silent:
            since_s = self._absent_s.setdefault(one.job, self._steady_s())
            if self._steady_s() - since_s < LONGEST_WAIT_S:
                return  # it may have ended well: the next look asks again
        if job is None:
            lost_ms = self._lost_ms(one, None, at_ms)
            self._end(key, one, EventKind.LOST, lost_ms, f"Slurm knows no job {one.job} any more")
            return
        if job.is_ending:
            end = self._ending.ended_well(one.job)
            job = job if end is None or self._key(end) != key else end
        why = self._why_not_good(one, job)
        if why:
            self._leaving.add(one.job)
            self._end(key, one, EventKind.LOST, self._lost_ms(one, job, at_ms), why)
            return
        if not one.up and (job.is_up or job.state == "COMPLETED"):
            started_ms = max(one.since_ms, min(self._plan_ms(job.started_s), at_ms))
            one = self._there[key] = replace(one, up=True)
            self._tell(EventKind.STARTED, started_ms, key, one, "")
        if not job.is_open:
            kind, detail = one.end(job)
            ended_ms = self._lost_ms(one, job, at_ms) if kind is EventKind.LOST else at_ms
            self._end(key, one, kind, ended_ms, detail)

    def _lost_ms(self, one: ComponentJob, job: SlurmJob | None, at_ms: int) -> int:
        """Return until when it is known that a component ran that is found lost.

        Nobody knows how much of one that vanished ran: perhaps its slurmd never began it. A node
        that began anew may answer again when its job is found to have failed with it, or to wait.
        """
        if one.job in self._gone or self._began_anew(one):
            return _known_until(one, one.since_ms, at_ms)
        ended = job is None or not job.is_up
        return _known_until(one, self._nodes.heard_ms(one.machine, or_back=ended), at_ms)

    def _began_anew(self, one: ComponentJob) -> bool:
        """Return whether a slurmd began a moment ago, after a component on it, and was not missed.

        slurmctld takes some seconds to notice one that is away.
        """
        node = self.newest and self.newest.nodes.get(self._settings.machines.get(one.machine, ""))
        if not node or self._nodes.heard_ms(one.machine, or_back=True) is not None:
            return False
        if node.begun_s in (0, self._vanished.sure_s(one.job)):
            return False  # not known yet; or it had the job when it was asked
        return self._plan_ms(node.begun_s) > max(one.since_ms, self.newest_ms - BACK_MS)

    def _why_not_good(self, one: ComponentJob, job: SlurmJob) -> str:
        """Return why the job of a component is given up, or nothing."""
        why = one.why_not_its_own(job, self._settings.machines.get(one.machine))
        if why or not job.is_open or job.is_ending:
            return why
        if job.id in self._gone:
            return f"nothing of job {job.id} is left on {','.join(job.nodes)}, which began anew"
        if not job.is_up and one.machine in self._nodes.taken:
            return f"other people's jobs run on {one.machine} (job {job.id})"
        waited_s = self._steady_s() - one.asked_s
        if not job.is_up and waited_s > self._settings.start_s:
            return f"Slurm did not start job {job.id} in {waited_s:.0f} s: {job.reason}"
        return ""

    def _end(self, key: Key, one: ComponentJob, kind: EventKind, at_ms: int, detail: str) -> None:
        if kind is EventKind.EXITED and one.core:
            self._there[key] = replace(one, exited=True)
        else:
            del self._there[key]
        if kind is EventKind.LOST:
            self._last_jobs.add(key, one.job)
            logger.info("%s on %s is lost: %s", component_text(key), one.machine, detail)
        self._tell(kind, at_ms, key, one, detail)

    def _sweep(self, look: Look) -> None:
        """Cancel jobs that no component has: what was cancelled before, and what nobody knows."""
        there = {one.job for one in self._there.values()}
        self._leaving = {id_ for id_ in self._leaving if _is_open(look, id_)}
        self._ending.keep(there)
        self._absent_s = {id_: at for id_, at in self._absent_s.items() if id_ in there}
        stray = {
            job.id for job in look.jobs.values()
            if job.is_open and job.id not in there
            and self._key(job) is not None and not job.is_ending and tenure_of(job) <= self._tenure
        }  # fmt: skip
        wanted = sorted(stray | self._leaving)
        if wanted and self._leads():
            try:
                self._slurm.commands.cancel(wanted)
            except SlurmError as error:
                logger.warning("jobs %s are not cancelled yet: %s", wanted, error)
        self._found.clear()

    # What the service asks of a backend that outlives it.

    def set_machines(self, machines: Iterable[str], at_ms: int) -> None:
        """See `Backend.set_machines`; what is on machines that are gone is stopped."""
        del at_ms
        self._nodes.set_machines(machines)
        gone = [key for key, one in self._there.items() if one.machine not in self._nodes.machines]
        for key in gone:
            self._leaving.add(self._there.pop(key).job)
        self._lookout.hurry()

    def machines(self) -> MachineReport:
        """See `Backend.machines`; none is live before the first look, which alone can say it."""
        lost = self._nodes.lost_ms
        return MachineReport(
            lost, frozenset() if self.newest is None else self._nodes.up - lost.keys()
        )

    def welcome_back(self) -> None:
        """See `Backend.welcome_back`."""

    def _is_job_of(self, key: Key, job: SlurmJob) -> bool:
        return self._key(job) == key

    def _key(self, job: SlurmJob) -> Key | None:
        if job.user != self._settings.user:
            return None
        return key_of(self._settings.prefix, job.name)

    def _plan_ms(self, unix_s: int) -> int:
        return 1000 * unix_s - self._origin_ms

    def _tell(self, kind: EventKind, at_ms: int, key: Key, one: ComponentJob, detail: str) -> None:
        self._told.append(BackendEvent(kind, at_ms, one.machine, *key, detail))


def _key(delta: Delta) -> Key:
    return delta.execution, delta.component, delta.index


def _known_until(one: ComponentJob, heard_ms: int | None, at_ms: int) -> int:
    """Return until when a component is known to have run that is away now; None: until now."""
    return at_ms if heard_ms is None else min(max(heard_ms, one.since_ms + 1), at_ms)


def _is_open(look: Look, id_: int) -> bool:
    job = look.jobs.get(id_)
    return job is not None and job.is_open
