"""UserJobs: jobs that users submitted to Slurm for a reservation of the Plan (`agenda sbatch`).

Such a job is held, with ``reservation=ID`` in its comment. When the reservation exists in Slurm,
the job is bound to it (its nodes, start and end) and released; if the Plan moves the reservation
before it begins, the job is bound again. Each component of a heterogeneous job is bound to the
nodes of one member of a `together`, in their order, and all of them are released as one job. A job
is bound only if its user is the tenant of the reservation. When the reservation has no allocation
in the Plan any more, a waiting job is held again, without the reservation and outside the promised
partition.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from dispatch.backends.slurm.control.commands import SlurmCommands, instant_word
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.job_names import key_of, words_of
from dispatch.backends.slurm.control.records import SlurmJob, SlurmReservation
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.reserved.reservation_keeper import ReservationKeeper

logger = logging.getLogger("agenda.slurm")

#: Time after the start of a reservation when a job that is still held is late, s.
_LATE_S: Final = 5

#: End states after which a job needs its reservation no more. A job whose node failed, or that was
#: preempted, may be requeued.
_GIVES_BACK: Final = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"}
)

#: Latest binding of a job.
_Binding = tuple[str, tuple[str, ...], int, int]


@dataclass(frozen=True, slots=True)
class WaitingJobs:
    """The jobs of a reservation of which all that Slurm knows are waiting.

    Attributes
    ----------
    submitted_s
        Unix time at which the last of them was submitted.
    may_run
        Whether each has been bound to a reservation in Slurm.
    reason
        Why one of those that may run waits, in words; empty if Slurm gives no reason.
    """

    submitted_s: int
    may_run: bool
    reason: str = ""


class UserJobs:
    """Binds users' jobs to the reservations that they were submitted for.

    Parameters
    ----------
    settings, commands, keeper
        Settings, commands and keeper of the Slurm.

    Attributes
    ----------
    waits
        Waiting jobs by reservation id, as of the last call of :meth:`follow`.
    """

    def __init__(
        self, settings: SlurmSettings, commands: SlurmCommands, keeper: ReservationKeeper
    ) -> None:
        self._settings = settings
        self._commands = commands
        self._keeper = keeper
        #: Latest binding of each job, and its Unix time.
        self._bound: dict[int, tuple[_Binding, int]] = {}
        self._said: set[int] = set()
        self._closed: set[str] = set()
        self._late: set[int] = set()
        #: Reservation of each job that may have used some of it; Slurm forgets ended jobs.
        self._seen: dict[int, str] = {}
        #: Last wait reason of each job that could run: Slurm reports another one once its time is
        #: over.
        self._reasons: dict[int, str] = {}
        self.waits: dict[str, WaitingJobs] = {}

    def follow(
        self,
        jobs: Iterable[SlurmJob],
        tenants: Mapping[str, str],
        now_s: int,
        machineless: Collection[str] = (),
        seen_s: int = 0,
        by_atom: Mapping[str, Mapping[int, Collection[str]]] = MappingProxyType({}),
    ) -> list[str]:
        """Bind waiting jobs; return the reservations whose jobs are done.

        Parameters
        ----------
        jobs
            All jobs that Slurm knows.
        tenants
            Tenants of the reservations that :meth:`named` returned.
        now_s
            Unix time.
        machineless
            Reservations with an allocation now but none in Slurm, because their promise names no
            machine.
        seen_s
            Earliest time of the snapshot, Unix time.
        by_atom
            Nodes of each atom of the reservations for which heterogeneous jobs wait.

        Raises
        ------
        SlurmAwayError
            If Slurm does not answer.
        """
        going: set[str] = set()
        done: dict[str, None] = {}
        waiting: set[int] = set()
        to_bind: dict[int, list[SlurmJob]] = {}
        by_id: dict[str, list[SlurmJob]] = {}
        for id_, job in self.owned(jobs, tenants):
            by_id.setdefault(id_, []).append(job)
            if _never_began(job):
                self._seen.pop(job.id, None)
            else:
                self._seen[job.id] = id_
            if job.is_open:
                going.add(id_)
            elif job.state in _GIVES_BACK and words_of(job).get("close") == "yes":
                done[id_] = None
            if job.waits:
                waiting.add(job.id)
                if job.is_held_by_others:
                    self._say_once(job, f"job {job.id} is held by an administrator: it waits")
                elif id_ in machineless:
                    self._let_run(job)
                else:
                    self._forget_lost(job, seen_s)
                    to_bind.setdefault(job.leader or job.id, []).append(job)
        counts = Counter(job.leader for some in by_id.values() for job in some)
        for leader, components in to_bind.items():
            # Of a heterogeneous job only all components together.
            if len(components) == counts.get(leader, 1):
                self._bind(components, now_s, by_atom)
        self._bound = {id_: one for id_, one in self._bound.items() if id_ in waiting}
        self._seen = {job: id_ for job, id_ in self._seen.items() if id_ in tenants}
        self.waits = self._waits(by_id)
        found = [id_ for id_ in done if id_ not in going and id_ not in self._closed]
        self._closed.update(found)
        return found

    def cancel_failed(
        self, jobs: Iterable[SlurmJob], tenants: Mapping[str, str], failed: Collection[str]
    ) -> None:
        """Cancel waiting jobs of failed reservations, which would stay in the queue for ever.

        Parameters
        ----------
        jobs, tenants
            As for :meth:`follow`.
        failed
            Failed reservations: their windows cannot hold them any more.

        Raises
        ------
        SlurmAwayError
            If Slurm does not answer.
        """
        owned = self.owned(jobs, tenants)
        lost = [job.id for id_, job in owned if job.waits and id_ in failed and not job.offset]
        if lost:
            logger.info("jobs %s are cancelled: their reservations have failed", lost)
            self._commands.cancel(lost, waiting=True)

    def unbind_lost(self, jobs: Iterable[SlurmJob], live: Collection[str]) -> None:
        """Remove waiting jobs from the promised partition if their reservation has no allocation.

        They are held; another slot of their reservation binds them again.

        Parameters
        ----------
        jobs
            All jobs that Slurm knows.
        live
            Reservations with an allocation in the Plan, now or later.

        Raises
        ------
        SlurmAwayError
            If Slurm does not answer.
        """
        jobs = list(jobs)
        for job in jobs:
            id_ = self._reservation_of(job)
            if id_ is None or id_ in live or not job.waits or not self._is_bound(job):
                continue
            if job.offset:  # the first component stands for all
                continue
            try:
                if not job.is_held or job.id in self._bound:  # it was released since the snapshot
                    self._commands.hold(job.id)
                nodes = {_list_of_nodes(job): ""}
                self._commands.update_job(
                    job.id, partition=self._settings.best_effort, reservationname="", **nodes
                )
            except SlurmAwayError:
                raise
            except SlurmError as error:  # it may run by now: then the next snapshot shows it
                self._say_once(job, f"job {job.id} keeps the reservation of {id_}: {error}")
                continue
            logger.info("job %s is held: its reservation %s holds nothing any more", job.id, id_)
            for one in jobs:
                if one is job or (job.leader and one.leader == job.leader):
                    self._bound.pop(one.id, None)

    def _is_bound(self, job: SlurmJob) -> bool:
        """Return whether a waiting job has a right to promised nodes."""
        own = any(name.startswith(f"{self._settings.prefix}_") for name in job.reservations)
        return own or job.partition == self._settings.promised or job.id in self._bound

    def forget_waits(self) -> None:
        """Forget which jobs wait: they may have run since the snapshot."""
        self.waits = {}

    def _waits(self, by_id: Mapping[str, Iterable[SlurmJob]]) -> dict[str, WaitingJobs]:
        """Return the waiting jobs, except for reservations of which a job has left Slurm."""
        found: dict[str, WaitingJobs] = {}
        there = {job.id for some in by_id.values() for job in some}
        used = {id_ for job, id_ in self._seen.items() if job not in there}
        for id_, some in by_id.items():
            jobs = list(some)
            if id_ not in used and all(job.waits for job in jobs):
                self._note_reasons(jobs)
                reasons = [self._reasons[job.id] for job in jobs if job.id in self._reasons]
                found[id_] = WaitingJobs(
                    max(job.submitted_s for job in jobs),
                    all(self._may_run(job) for job in jobs),
                    reasons[0] if reasons else "",
                )
        waiting = {job.id for some in by_id.values() for job in some if job.waits}
        self._reasons = {job: why for job, why in self._reasons.items() if job in waiting}
        return found

    def _note_reasons(self, jobs: Iterable[SlurmJob]) -> None:
        """Record why jobs that could run wait, if Slurm gives a reason besides an early start."""
        for job in jobs:
            is_plain = job.reason in ("", "None", "BeginTime") or job.is_held or job.is_stranded
            if not is_plain and self._may_run(job):
                self._reasons[job.id] = f"job {job.id} waits in Slurm: {job.reason}"

    def _may_run(self, job: SlurmJob) -> bool:
        return not job.is_stranded and (job.id in self._bound or not job.is_held)

    def named(self, jobs: Iterable[SlurmJob]) -> set[str]:
        """Return the reservations of the Plan that users' jobs name, or named before."""
        found = (self._reservation_of(job) for job in jobs)
        return {id_ for id_ in found if id_ is not None} | set(self._seen.values())

    def owned(
        self, jobs: Iterable[SlurmJob], tenants: Mapping[str, str]
    ) -> Iterator[tuple[str, SlurmJob]]:
        """Yield the jobs of users, each with its owner's reservation."""
        for job in jobs:
            id_ = self._reservation_of(job)
            if id_ is not None and self._is_owner(job, id_, tenants):
                yield id_, job

    def _reservation_of(self, job: SlurmJob) -> str | None:
        """Return the reservation in a user job's comment; None for all other jobs."""
        id_ = words_of(job).get("reservation", "-")
        is_component = key_of(self._settings.prefix, job.name) is not None
        return None if id_ == "-" or is_component else id_

    def _is_owner(self, job: SlurmJob, id_: str, tenants: Mapping[str, str]) -> bool:
        tenant = tenants.get(id_)
        if tenant is None:
            return False
        if tenant != job.user and job.is_open and job.id not in self._said:
            self._said.add(job.id)
            logger.warning(
                "job %s of %s asks for %s, which is of %s", job.id, job.user, id_, tenant
            )
        return tenant == job.user

    def _is_just_late(self, job: SlurmJob, one: SlurmReservation, now_s: int) -> bool:
        """Return whether a held job is first seen after its slot began.

        It is bound at the next call: by then its missed work is replanned or not.
        """
        begun = max(one.start_s, job.submitted_s) + _LATE_S <= now_s
        if not (job.is_held and begun) or job.id in self._late:
            return False
        self._late.add(job.id)
        return True

    def _let_run(self, job: SlurmJob) -> None:
        """Release a job whose promise names no machine, ahead of all best effort."""
        if not job.is_held or job.offset:
            return
        try:
            self._commands.update_job(job.id, partition=self._settings.promised)
            self._commands.release(job.id)
        except SlurmAwayError:
            raise
        except SlurmError as error:
            self._say_once(job, f"job {job.id} cannot be released: {error}")

    def _say_once(self, job: SlurmJob, message: str) -> None:
        if job.id not in self._said:
            logger.warning("%s", message)
        self._said.add(job.id)

    def _forget_lost(self, job: SlurmJob, seen_s: int) -> None:
        """Forget the binding of a job whose reservation ended, or that is held without it again.

        In the second case slurmctld was killed before it had saved the binding. Slurm puts a
        component off by two minutes if it had started, and jobs were preempted for another one:
        then the job keeps its time limit, and only its nodes are forgotten.
        """
        if job.id not in self._bound:
            return
        (name, _, start_s, end_s), bound_s = self._bound[job.id]
        if seen_s <= bound_s:
            return
        is_lost = job.is_stranded or (job.is_held and name not in job.reservations)
        late_s = max(start_s, bound_s) + _LATE_S
        is_put_off = job.leader and job.reason == "BeginTime" and job.started_s > late_s
        if is_lost:
            del self._bound[job.id]
        elif is_put_off:
            self._bound[job.id] = ((name, (), start_s, end_s), bound_s)

    def _bind(
        self,
        jobs: Sequence[SlurmJob],
        now_s: int,
        by_atom: Mapping[str, Mapping[int, Collection[str]]],
    ) -> None:
        """Bind a waiting job, given as its components, and release it.

        A change of the first component is one of all, so it is made first.
        """
        jobs = sorted(jobs, key=lambda job: job.offset)
        first = jobs[0]
        id_ = self._reservation_of(first)
        assert id_ is not None
        there = [one for one in self._keeper.of(id_) if one.end_s > now_s]
        if not there:
            return
        best = max(there, key=lambda one: (len(one.nodes), -one.start_s))
        own = [best]
        if first.leader:
            members = by_atom.get(id_, {})
            if not members:
                return  # the Plan was read before the job was known
            if sorted(members) != sorted(job.offset for job in jobs):
                self._say_once(first, f"job {first.id} has other components than {id_} has members")
                return
            own = [replace(best, nodes=tuple(sorted(members[job.offset]))) for job in jobs]
            if not all(set(one.nodes) <= set(best.nodes) for one in own):
                return  # Slurm's reservation follows the Plan soon
        bindings = [(best.name, one.nodes, best.start_s, best.end_s) for one in own]
        bound = [self._bound.get(job.id, (("", (), 0, 0), 0))[0] for job in jobs]
        if bound == bindings or self._is_just_late(first, best, now_s):
            return
        try:
            self._keeper.admit(best, first.user)
            for job, one, (name, _, *times) in zip(jobs, own, bound, strict=True):
                changes = _changes(job, one, now_s, self._settings)
                if (name, *times) == (one.name, one.start_s, one.end_s):
                    del changes["timelimit"]  # what is left of the slot would cut the job short
                self._commands.update_job(job.id, **changes)
            if any(job.is_held or job.is_stranded for job in jobs):
                self._commands.release(first.id)
        except SlurmAwayError:
            raise
        except SlurmError as error:
            self._say_once(first, f"job {first.id} cannot be bound to {best.name}: {error}")
            return
        self._bound |= {job.id: (one, now_s) for job, one in zip(jobs, bindings, strict=True)}


def _list_of_nodes(job: SlurmJob) -> str:
    """Return the field that binds a job to nodes.

    Each task of an array gets some of its nodes, and all others are excluded, because a task may
    run outside of a reservation that it names. For the first component of a heterogeneous job Slurm
    changes no list of required nodes.
    """
    return "excnodelist" if job.array or job.leader else "reqnodelist"


def _never_began(job: SlurmJob) -> bool:
    """Return whether a job ended while it was still waiting, without a node."""
    return job.state in ("CANCELLED", "DEADLINE") and not job.nodes


def _changes(
    job: SlurmJob, one: SlurmReservation, now_s: int, settings: SlurmSettings
) -> dict[str, str]:
    """Return the job changes that bind a job to a reservation, with its start and end."""
    minutes = max(1, (one.end_s - max(one.start_s, now_s)) // 60)
    if 0 < job.limit_min < minutes:
        minutes = job.limit_min
    name = _list_of_nodes(job)
    others = sorted(set(settings.machines.values()) - set(one.nodes))
    return {
        "reservationname": one.name,
        "partition": settings.promised,
        name: ",".join(others if name == "excnodelist" else one.nodes),
        "starttime": instant_word(max(one.start_s, now_s)),
        "timelimit": str(minutes),
    }
