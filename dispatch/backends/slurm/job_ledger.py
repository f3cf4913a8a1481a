"""JobLedger: the jobs of all components, by component and by number.

What happens between two looks is not known: a component may be stopped that has just done its
work. When it is to be started again, its last job has ended well, and is not run a second time.
While the accounting does not know yet how it ended, its start waits for some seconds: slurmctld was
unavailable, say, and has not heard from slurmd.
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

#: For how long a start waits until it is known how the last job ended, s. A node that answers has
#: cleaned up by then; one that does not may take minutes, and the work is done again.
LONGEST_WAIT_S: Final = 10.0

#: For how long a node may clean up after a job, s, before the accounting is asked how that ended.
#: Each time it does not know, the next question comes twice as late, at most so late.
_CLEAN_S: Final = 2.0
_LONGEST_CLEAN_S: Final = 60.0

#: Pause between two questions for processes, s: a job that is missing in two, and runs by the look,
#: is gone.
_PAUSE_S: Final = 1.0

#: Most jobs that one question names; half as many after one that was not answered in time.
_MOST: Final = 200


class StepReader(Protocol):
    """Says which jobs have processes."""

    def jobs_with_processes(self, ids: Collection[int]) -> dict[int, bool]:
        """Return whether batch scripts have processes on their nodes; left out where unknown."""
        ...


class JobLedger:
    """Owns the records of jobs.

    Parameters
    ----------
    key_of_job
        The component of a job, None if it is a stranger's.
    history
        Of the accounting. If there is none no start waits: that a job was cancelled is not known
        before all its processes have ended.
    steps
        Says which jobs have processes.
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
        #: The last job of the previous question for processes.
        self._last_asked = 0

    # Records.

    def find(self, key: Key) -> JobRecord | None:
        """Return the job that a component has, or None."""
        record = self._by_key.get(key)
        return record if record is not None and record.stands else None

    def standing(self) -> list[JobRecord]:
        """Return the jobs that components have."""
        return [record for record in self._by_key.values() if record.stands]

    def former(self, execution: str) -> list[JobRecord]:
        """Return what an earlier leader left of an execution."""
        former = [one for one in self._by_key.values() if one.phase is Phase.FORMER]
        return [one for one in former if one.key[0] == execution]

    def add(self, record: JobRecord) -> None:
        """Let a component have a job; what it had before is no more its last."""
        self.drop(record.key)
        self._by_key[record.key] = self._by_number[record.job] = record

    def drop(self, key: Key) -> None:
        """Forget the job of a component; one that is to be cancelled, or in doubt, is followed."""
        record = self._by_key.pop(key, None)
        if record is not None:
            record.phase = Phase.OVER
            self._forget_number(record)

    def drop_former(self) -> None:
        """Forget what earlier leaders left of executions that are not resumed."""
        former = [key for key, one in self._by_key.items() if one.phase is Phase.FORMER]
        for key in former:
            self.drop(key)

    def _forget_number(self, record: JobRecord) -> None:
        used = record.to_cancel or record.in_doubt or self._by_key.get(record.key) is record
        if not used and self._by_number.get(record.job) is record:
            del self._by_number[record.job]

    # The outcome of jobs that were stopped or lost.

    def see(self, jobs: Mapping[int, SlurmJob]) -> None:
        """Update last jobs from a look; what slurmctld has forgotten is forgotten."""
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
        """Note that a core that has exited is to be started again."""
        record = self.find(key)
        if record is not None and record.phase is Phase.EXITED:
            record.to_repeat, record.last_seen, record.wait_since_s = True, None, None

    def lacks_look(self, keys: Iterable[Key]) -> bool:
        """Return whether any of some components was stopped after the last look."""
        lasts = (self._last(key) for key in keys)
        return any(one is not None and one.last_seen is None for one in lasts)

    def unsure(self, orders: Mapping[Key, ComponentOrder]) -> dict[Key, int]:
        """Return the jobs of what is to wait, because it is not known yet how they ended.

        Where a core waits all of its execution does, under the same job. None waits for longer
        than `LONGEST_WAIT_S`.

        Parameters
        ----------
        orders
            What is to be started.
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
        """Return the jobs of components that are to be started and have done their work already.

        Cores hold together: they count where all of them have, or stand. Where they do not, their
        execution begins again, and what it had done is forgotten. So are the last jobs of all that
        is to be started.

        Parameters
        ----------
        orders
            What is to be started.
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
        """Return a component's last job as it ended; None if that is not known."""
        job = record.last_seen
        if job is None:
            return None
        if job.is_ending:
            found = self._history.get(job.id)
            if found is not None and self._key_of_job(found) == record.key:
                job = record.last_seen = found
        return None if job.is_open else job

    # What is seen of jobs that stand.

    def job_of(self, record: JobRecord, look: Look) -> SlurmJob | None:
        """Return the job of a record by a look, else by the accounting; None where unknown.

        A slurmctld that lost its state gives numbers again. How a job ended whose node is cleaned
        the accounting may know: it is asked ever more seldom.
        """
        job = look.jobs.get(record.job) or self._history.get(record.job)
        if job is None or self._key_of_job(job) != record.key:
            return None
        if not job.is_ending:
            return job
        end = self._end_of_ending(record)
        return job if end is None or self._key_of_job(end) != record.key else end

    def may_be_accounted(self, record: JobRecord) -> bool:
        """Return whether the accounting may yet say how a forgotten job ended."""
        if not self._history.is_silent:
            return False
        now_s = self._monotonic_s()
        if record.absent_since_s is None:
            record.absent_since_s = now_s
        return now_s - record.absent_since_s < LONGEST_WAIT_S

    def _end_of_ending(self, record: JobRecord) -> SlurmJob | None:
        """Return a job that is ending and has done its work; None if that is not known yet."""
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
        """Mark the jobs that Slurm says run though nothing of them is left on their node.

        slurmctld starts a job by one message to slurmd. Where slurmd is killed before it has read
        that, or with its node and all that runs there, and is back before it counts as down,
        slurmctld says for minutes that the job runs (22.05: until the node reports again). The time
        since which a slurmd runs shows it; then slurmd itself is asked (``sstat``), once.
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
            return  # no one says what is left
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

        A slurmd that was killed before it read that it should start a job is back a little later;
        until then slurmctld says that the job runs. Since when its slurmd runs shows that it was
        there before. A slurmctld that began again does not know that until it has heard of it.

        Parameters
        ----------
        nodes
            By machine.
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
        """Return the open jobs that no component has, and that are no later leader's."""
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
    """Return since when the slurmd of a job's node runs, where that is after its start, else 0."""
    job = look.jobs.get(id_)
    if job is None or not job.is_up or len(job.nodes) != 1:
        return 0
    node = look.nodes.get(job.nodes[0])
    if node is None or not node.is_up:
        return 0
    return node.begun_s if node.begun_s > job.started_s else 0
