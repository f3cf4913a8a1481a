"""JobLedger: the jobs of all components, by component and by id.

Events between two snapshots are unknown: a component may be stopped just after it has finished its
work. If its last job succeeded, it is not run a second time. While the accounting does not know how
the job ended, the start waits for some seconds: slurmctld may have been down and not heard from
slurmd yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.control.slurm import Look
from dispatch.backends.slurm.job_history import JobHistory
from dispatch.backends.slurm.job_records import JobRecord, Phase
from dispatch.executions.assignment import Key

#: Longest wait of a start for the end of the last job, s. A node that answers has cleaned up by
#: then; a silent one may take minutes, and the work is done again.
LONGEST_WAIT_S: Final = 10.0

#: How long a node may clean up after a job, s, before the accounting is queried for its end; each
#: query without a result doubles the pause, up to the longest.
_CLEAN_S: Final = 2.0
_LONGEST_CLEAN_S: Final = 60.0

#: Pause between two queries for processes, s: a job that is missing in two, and running in the
#: snapshot, is gone.
_PAUSE_S: Final = 1.0

#: Most jobs in one query; halved after a timeout.
_MOST: Final = 200


class StepReader(Protocol):
    """Reads which jobs have processes."""

    def jobs_with_processes(self, ids: Collection[int]) -> dict[int, bool]:
        """Return whether batch scripts have processes on their nodes; unknown jobs are left out."""
        ...


class JobLedger:
    """Owns the records of jobs.

    Parameters
    ----------
    key_of_job
        Returns the component of a job, or None for other jobs.
    history
        Ended jobs in the accounting. Without accounting no start waits: a cancelled job is only
        known to have ended when all its processes have.
    steps
        Reads which jobs have processes.
    monotonic_s
        The monotonic clock.
    """

    def __init__(
        self,
        key_of_job: Callable[[SlurmJob], Key | None],
        history: JobHistory,
        steps: StepReader,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._key_of_job = key_of_job
        self._history = history
        self._monotonic_s = monotonic_s
        self._steps = steps
        self._by_key: dict[Key, JobRecord] = {}
        self._by_number: dict[int, JobRecord] = {}
        self._asked_s = -_PAUSE_S
        self._most = _MOST
        #: Last job of the previous query for processes.
        self._last_asked = 0

    # Records.

    def find(self, key: Key) -> JobRecord | None:
        """Return the current job of a component, or None."""
        record = self._by_key.get(key)
        return record if record is not None and record.stands else None

    def standing(self) -> list[JobRecord]:
        """Return the current jobs of components."""
        return [record for record in self._by_key.values() if record.stands]

    def former(self, execution: str) -> list[JobRecord]:
        """Return an execution's jobs of an earlier leader."""
        former = [one for one in self._by_key.values() if one.phase is Phase.FORMER]
        return [one for one in former if one.key[0] == execution]

    def add(self, record: JobRecord) -> None:
        """Make a job the current one of its component; the previous one is dropped."""
        self.drop(record.key)
        self._by_key[record.key] = self._by_number[record.job] = record

    def drop(self, key: Key) -> None:
        """Forget a component's job, but keep it by id while it is to be cancelled or in doubt."""
        record = self._by_key.pop(key, None)
        if record is not None:
            record.phase = Phase.OVER
            self._forget_number(record)

    def drop_former(self) -> None:
        """Forget jobs of earlier leaders whose executions were not resumed."""
        former = [key for key, one in self._by_key.items() if one.phase is Phase.FORMER]
        for key in former:
            self.drop(key)

    def _forget_number(self, record: JobRecord) -> None:
        used = record.to_cancel or record.in_doubt or self._by_key.get(record.key) is record
        if not used and self._by_number.get(record.job) is record:
            del self._by_number[record.job]

    # Outcome of stopped or lost jobs.

    def see(self, jobs: Mapping[int, SlurmJob]) -> None:
        """Update last jobs from a snapshot; forget those that slurmctld has forgotten."""
        now_s = self._monotonic_s()
        for record in [one for one in self._by_key.values() if one.is_last]:
            job = jobs.get(record.job)
            if job is None or self._key_of_job(job) != record.key:
                self._forget_last(record)
                continue
            if record.wait_since_s is None:
                record.wait_since_s = now_s
            if record.last_seen is None or record.last_seen.is_open:
                record.last_seen = job

    def repeat(self, key: Key) -> None:
        """Record that an exited core component is to be started again."""
        record = self.find(key)
        if record is not None and record.phase is Phase.EXITED:
            record.to_repeat, record.last_seen, record.wait_since_s = True, None, None

    def lacks_look(self, keys: Iterable[Key]) -> bool:
        """Return whether any of some components was stopped after the last snapshot."""
        lasts = (self._last(key) for key in keys)
        return any(one is not None and one.last_seen is None for one in lasts)

    def unsure(self, orders: Mapping[Key, ComponentOrder]) -> dict[Key, int]:
        """Return the components that must wait, by the last job whose end is unknown.

        If a core component waits, its whole execution waits for the same job. The wait is at most
        `LONGEST_WAIT_S`.

        Parameters
        ----------
        orders
            Orders to start.
        """
        found: dict[Key, int] = {}
        if not self._history.exists:
            return found
        now_s = self._monotonic_s()
        for key in orders:
            record = self._last(key)
            if record is None or self._last_end(record) is not None:
                continue
            if record.wait_since_s is None:
                record.wait_since_s = now_s
            if now_s - record.wait_since_s < LONGEST_WAIT_S:
                found[key] = record.job
        of_core = {key[0]: job for key, job in found.items() if orders[key].core}
        return found | {key: of_core[key[0]] for key in orders if key[0] in of_core}

    def take_ended_well(self, orders: Mapping[Key, ComponentOrder]) -> dict[Key, int]:
        """Return the components to start whose last job succeeded, with that job.

        Core components count only if all of an execution's have succeeded or are running; otherwise
        the execution restarts, and its finished work is forgotten. The last jobs of all orders are
        forgotten.

        Parameters
        ----------
        orders
            Orders to start.
        """
        standing = Counter(
            one.key[0] for one in self.standing() if one.core and one.key not in orders
        )
        found: dict[Key, int] = {}
        for execution in dict.fromkeys(key[0] for key in orders):
            mine = {key: order for key, order in orders.items() if key[0] == execution}
            done = {key: job for key in mine if (job := self._job_that_ended_well(key))}
            cores = [key for key, order in mine.items() if order.core]
            count = len(cores) + standing[execution]
            if cores and (count < mine[cores[0]].cores or not set(cores) <= set(done)):
                for record in [one for one in self._by_key.values() if one.key[0] == execution]:
                    self._forget_last(record)
            else:
                found |= done
        for last in [one for key in orders if (one := self._last(key)) is not None]:
            self._forget_last(last)
        return found

    def _last(self, key: Key) -> JobRecord | None:
        record = self._by_key.get(key)
        return record if record is not None and record.is_last else None

    def _forget_last(self, record: JobRecord) -> None:
        record.to_repeat = False
        if record.phase is Phase.LEFT:
            self.drop(record.key)

    def _job_that_ended_well(self, key: Key) -> int:
        record = self._last(key)
        end = None if record is None else self._last_end(record)
        return end.id if end is not None and end.state == "COMPLETED" else 0

    def _last_end(self, record: JobRecord) -> SlurmJob | None:
        """Return a component's last job after its end; None if that is unknown."""
        job = record.last_seen
        if job is None:
            return None
        if job.is_ending:
            found = self._history.get(job.id)
            if found is not None and self._key_of_job(found) == record.key:
                job = record.last_seen = found
        return None if job.is_open else job

    # Observation of current jobs.

    def job_of(self, record: JobRecord, look: Look) -> SlurmJob | None:
        """Return the job of a record from a snapshot, else from the accounting; None if unknown.

        A slurmctld that lost its state reuses ids. The accounting may know the end of a job that is
        still completing: it is queried with growing pauses.
        """
        job = look.jobs.get(record.job) or self._history.get(record.job)
        if job is None or self._key_of_job(job) != record.key:
            return None
        if not job.is_ending:
            return job
        end = self._end_of_ending(record)
        return job if end is None or self._key_of_job(end) != record.key else end

    def may_be_accounted(self, record: JobRecord) -> bool:
        """Return whether the accounting may still report the end of a forgotten job."""
        if not self._history.is_silent:
            return False
        now_s = self._monotonic_s()
        if record.absent_since_s is None:
            record.absent_since_s = now_s
        return now_s - record.absent_since_s < LONGEST_WAIT_S

    def _end_of_ending(self, record: JobRecord) -> SlurmJob | None:
        """Return a completing job that has succeeded; None if that is not known yet."""
        now_s = self._monotonic_s()
        if not record.pause_s:
            record.recheck_s, record.pause_s = now_s + _CLEAN_S, _CLEAN_S
        if now_s < record.recheck_s:
            return None
        job = self._history.get(record.job)
        record.pause_s = min(2 * record.pause_s, _LONGEST_CLEAN_S)
        record.recheck_s = self._monotonic_s() + record.pause_s
        return job if job is not None and job.state == "COMPLETED" else None

    def find_gone(self, look: Look) -> None:
        """Mark jobs that Slurm reports as running though they are gone from their node.

        slurmctld starts a job by one message to slurmd. If slurmd is killed before it has read the
        message, or together with its node, and is back before it counts as down, slurmctld reports
        the job as running for minutes (22.05: until the node reports again). The start time of
        slurmd reveals this; then slurmd itself is queried (``sstat``), once.
        """
        standing = {one.job: one for one in self.standing()}
        for record in standing.values():
            record.is_gone = False
        begun_s = {id_: _begun_s(id_, look) for id_ in standing}
        unsure = [
            id_ for id_, at_s in begun_s.items() if at_s not in (0, standing[id_].node_began_s)
        ]
        if not unsure or self._monotonic_s() - self._asked_s < _PAUSE_S:
            return
        asked = sorted(unsure, key=lambda id_: (id_ <= self._last_asked, id_))[: self._most]
        self._last_asked = asked[-1]
        try:
            found = self._steps.jobs_with_processes(asked)
        except SlurmError:
            self._most = max(1, len(asked) // 2)
            return  # too early to query again, or nothing to query
        finally:
            self._asked_s = self._monotonic_s()
        self._most = min(2 * self._most, _MOST)
        for id_ in asked:
            record = standing[id_]
            if found.get(id_):
                record.node_began_s = begun_s[id_]
            is_absent = found.get(id_) is False
            record.is_gone = is_absent and record.is_missing
            record.is_missing = is_absent and not record.is_gone

    def take_void(self, look: Look, nodes: Mapping[str, str]) -> list[JobRecord]:
        """Return the stopped jobs that may never have begun, each once, when their node answers.

        A slurmd that was killed before it read the start message of a job is back a little later;
        until then slurmctld reports the job as running. The start time of slurmd shows whether it
        was restarted. A restarted slurmctld does not know it until slurmd reports.

        Parameters
        ----------
        nodes
            Nodes by machine.
        """
        found: list[JobRecord] = []
        for record in [one for one in self._by_number.values() if one.in_doubt]:
            job, node = look.jobs.get(record.job), look.nodes.get(nodes.get(record.machine, ""))
            if job is not None and node is not None:
                if not node.is_up or not node.answers or not node.begun_s:
                    continue
                if job.started_s < node.begun_s != record.node_began_s:
                    found.append(record)
            record.in_doubt = False
            self._forget_number(record)
        return found

    def to_cancel(self, look: Look, tenure_of: Callable[[SlurmJob], int], tenure: int) -> list[int]:
        """Return the open jobs without a component that do not belong to a later leader."""
        for record in [one for one in self._by_number.values() if one.to_cancel]:
            job = look.jobs.get(record.job)
            if job is None or not job.is_open or self._key_of_job(job) != record.key:
                record.to_cancel = False
                self._forget_number(record)
        wanted = {one.job for one in self._by_number.values() if one.to_cancel}
        there = {one.job for one in self.standing()}
        for job in look.jobs.values():
            is_stray = job.is_open and not job.is_ending and job.id not in there
            if is_stray and self._key_of_job(job) is not None and tenure_of(job) <= tenure:
                wanted.add(job.id)
        return sorted(wanted)


def _begun_s(id_: int, look: Look) -> int:
    """Return the start of the slurmd on a job's node if it is after the job's start, else 0."""
    job = look.jobs.get(id_)
    if job is None or not job.is_up or len(job.nodes) != 1:
        return 0
    node = look.nodes.get(job.nodes[0])
    if node is None or not node.is_up:
        return 0
    return node.begun_s if node.begun_s > job.started_s else 0
