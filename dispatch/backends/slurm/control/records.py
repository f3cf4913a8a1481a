"""Jobs, nodes and reservations parsed from Slurm's JSON and column output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dispatch.backends.slurm.control.amounts import counts_of, tasks_of, tres_of

#: Parts of a node list, and ranges in them: ``n[1-3,7],login`` is n1, n2, n3, n7 and login.
_PART = re.compile(r"((?:[^,\[\]]|\[[^\]]*\])+)(?:,|$)")
_RANGE = re.compile(r"\[([^\]]*)\]")

#: States in which a job is on its nodes or may come onto them.
OPEN_STATES: Final = frozenset(
    {"PENDING", "RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "REQUEUED", "REQUEUE_HOLD",
     "REQUEUE_FED", "RESIZING", "SIGNALING", "STAGE_OUT", "SPECIAL_EXIT", "RESV_DEL_HOLD",
     "COMPLETING"}
)  # fmt: skip

#: Flags that override the base state: newer versions list both.
_ADDED_STATES: Final = (
    "COMPLETING", "CONFIGURING", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
    "SPECIAL_EXIT", "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING", "STAGE_OUT",
)  # fmt: skip

#: States of a job whose processes run.
RUNNING_STATES: Final = frozenset(
    {"RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}
)

#: States and flags of a node that takes no work. A node is UNKNOWN for a moment after slurmctld has
#: started; its jobs continue.
_AWAY_STATES: Final = frozenset({"DOWN", "ERROR", "FUTURE"})
_AWAY_FLAGS: Final = frozenset(
    {"DRAIN", "FAIL", "POWERED_DOWN", "POWER_DOWN", "POWERING_DOWN", "REBOOT_ISSUED", "INVALID_REG"}
)

#: Slurm's numbers for "not set" and "without limit".
_NO_NUMBERS: Final = frozenset({4294967294, 4294967295, 2**64 - 2, 2**64 - 1})


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job.

    Attributes
    ----------
    id, name, user, comment
        As submitted.
    state, reason
        Slurm's state, and the reason why it waits.
    nodes
        Nodes on which it runs or ran.
    wanted_nodes
        Nodes that it has requested by name.
    partition, reservations
        Its partition, and the reservations in which it may run.
    restarts
        How often it was requeued.
    status
        Status of its script as in wait(2).
    limit_min
        Its time limit in minutes; 0 without one.
    submitted_s, started_s, ends_s
        Unix times; 0 if there is none. The end of a running job is its time limit.
    cpus, memory
        CPUs and MiB on all its nodes; 0 if unknown. The accounting has no memory.
    eligible_s
        When it could have begun; only from the accounting, otherwise 0.
    is_cancelled_by_owner
        Whether its own user cancelled it; only from the accounting.
    array
        Id of the array of which it is a task or the waiting rest; 0 for none.
    tasks, throttle
        Tasks of an array that wait in this record, 1 for other jobs; and how many tasks of the
        array may run at a time, 0 for all.
    account, qos
        Account and QOS whose limits apply.
    tres
        Its resources on all its nodes, such as ``cpu=4,mem=400M,node=1``.
    licenses
        (name, count) of its licences.
    leader, offset
        If it is a component of a heterogeneous job: id of the first component, and its own place,
        from 0. 0 for other jobs.
    """

    id: int
    name: str
    user: str
    comment: str
    state: str
    reason: str
    nodes: tuple[str, ...]
    wanted_nodes: tuple[str, ...] = ()
    partition: str = ""
    reservations: tuple[str, ...] = ()
    restarts: int = 0
    status: int = 0
    limit_min: int = 0
    submitted_s: int = 0
    started_s: int = 0
    ends_s: int = 0
    cpus: int = 0
    memory: int = 0
    eligible_s: int = 0
    is_cancelled_by_owner: bool = False
    array: int = 0
    tasks: int = 1
    throttle: int = 0
    account: str = ""
    qos: str = ""
    tres: str = ""
    licenses: tuple[tuple[str, int], ...] = ()
    leader: int = 0
    offset: int = 0

    @property
    def is_open(self) -> bool:
        """Whether it runs or may run."""
        return self.state in OPEN_STATES

    @property
    def is_up(self) -> bool:
        """Whether its processes run."""
        return self.state in RUNNING_STATES

    @property
    def holds_nodes(self) -> bool:
        """Whether it has its nodes, and Slurm has not reported its end yet."""
        return bool(self.nodes) and (self.is_up or self.state == "CONFIGURING")

    @property
    def is_ending(self) -> bool:
        """Whether it has ended, and its nodes are being cleaned up."""
        return self.state == "COMPLETING"

    @property
    def waits(self) -> bool:
        """Whether it waits for its turn, also after its reservation was deleted."""
        return self.state in ("PENDING", "RESV_DEL_HOLD")

    @property
    def is_stranded(self) -> bool:
        """Whether its reservation ended before it began, so that it waits for ever.

        ``squeue`` reports this in its reason.
        """
        return self.state == "RESV_DEL_HOLD" and "delete" in self.reason.lower()

    @property
    def is_held(self) -> bool:
        """Whether it is held."""
        return self.reason.startswith("JobHeld")

    @property
    def is_held_by_others(self) -> bool:
        """Whether an administrator holds it, not its user."""
        return self.reason == "JobHeldAdmin"


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node; `memory` is in MiB, `flags` are Slurm's flags of its state.

    Attributes
    ----------
    begun_s
        Start of its slurmd, Unix time; 0 if unknown.
    gpu_type
        Type of all its GPUs; empty if it has none or several types.
    address
        Its host, as other nodes reach it; empty: that of its name.
    """

    name: str
    cpus: int
    memory: int
    state: str
    flags: tuple[str, ...]
    reason: str
    partitions: tuple[str, ...]
    features: tuple[str, ...] = ()
    gres: tuple[tuple[str, int], ...] = ()
    begun_s: int = 0
    gpu_type: str = ""
    address: str = ""

    @property
    def is_up(self) -> bool:
        """Whether it takes work; only Slurm decides whether a silent node is down."""
        return self.state not in _AWAY_STATES and not _AWAY_FLAGS.intersection(self.flags)

    @property
    def answers(self) -> bool | None:
        """Whether slurmctld has heard from it recently; None if unknown yet."""
        if self.state == "UNKNOWN":
            return None
        return self.state != "DOWN" and "NOT_RESPONDING" not in self.flags


@dataclass(frozen=True, slots=True)
class SlurmReservation:
    """One reservation; times are Unix, `licenses` names and counts."""

    name: str
    start_s: int
    end_s: int
    nodes: tuple[str, ...]
    users: tuple[str, ...]
    flags: tuple[str, ...]
    licenses: tuple[tuple[str, int], ...] = ()

    @property
    def floats(self) -> bool:
        """Whether its start moves with the clock, so that it never begins."""
        return "TIME_FLOAT" in self.flags


@dataclass(frozen=True, slots=True)
class NodeRights:
    """The Slurm reservations in which a job may run on a node.

    Attributes
    ----------
    names
        Names of all of Agenda's reservations there, now or later: a job cannot run in one that it
        does not name.
    own, active
        Whether it may run as promised work (the first is its own, or its promise names no machine),
        and whether any of them is active now or soon.
    until_s
        Start of the next reservation of others there, Unix time: Slurm starts no job that might
        overlap it. 0 if there is none.
    """

    names: tuple[str, ...] = ()
    own: bool = False
    active: bool = False
    until_s: int = 0


def job_of(entry: Mapping[str, Any]) -> SlurmJob:
    """Return a job of ``squeue --json``, whose format differs by version."""
    return SlurmJob(
        id=number(entry["job_id"]),
        name=entry.get("name") or "",
        user=entry.get("user_name") or "",
        comment=entry.get("comment") or "",
        state=_job_state(entry["job_state"]),
        reason=entry.get("state_reason") or "",
        nodes=expand_hostlist(entry.get("nodes") or ""),
        wanted_nodes=expand_hostlist(entry.get("required_nodes") or ""),
        partition=entry.get("partition") or "",
        reservations=_words(entry.get("resv_name")),
        restarts=number(entry.get("restart_cnt")),
        status=_status(entry.get("exit_code")),
        limit_min=number(entry.get("time_limit")),
        submitted_s=number(entry.get("submit_time")),
        started_s=number(entry.get("start_time")),
        ends_s=number(entry.get("end_time")),
        cpus=number(entry.get("cpus")),
        memory=tres_of(entry.get("tres_alloc_str") or "").get("mem", 0),
        array=number(entry.get("array_job_id")),
        tasks=_waiting_tasks(entry.get("array_task_string") or ""),
        throttle=number(entry.get("array_max_tasks")),
        account=entry.get("account") or "",
        qos=entry.get("qos") or "",
        tres=entry.get("tres_alloc_str") or entry.get("tres_req_str") or "",
        licenses=counts_of(entry.get("licenses") or ""),
        leader=number(entry.get("het_job_id")),
        offset=number(entry.get("het_job_offset")),
    )


def _waiting_tasks(text: str) -> int:
    """Return how many tasks wait in one record; of a truncated list, only the listed ones."""
    while text and not (found := tasks_of(text)):
        text = text.rpartition(",")[0]
    return found if text else 1


def node_of(entry: Mapping[str, Any]) -> SlurmNode:
    """Return a node of ``sinfo --json``."""
    state = entry["state"]
    words = [state] if isinstance(state, str) else list(state)
    words += list(entry.get("state_flags") or ())
    words = [word.upper() for word in words]
    return SlurmNode(
        name=entry["name"],
        cpus=number(entry.get("cpus")),
        memory=number(entry.get("real_memory")),
        state=words[0] if words else "UNKNOWN",
        flags=tuple(words[1:]),
        reason=entry.get("reason") or "",
        partitions=tuple(entry.get("partitions") or ()),
        features=_words(entry.get("features")),
        gres=_gres(entry.get("gres") or ""),
        begun_s=number(entry.get("slurmd_start_time")),
        gpu_type=_gpu_type(entry.get("gres") or ""),
        address=entry.get("address") or "",
    )


def reservation_of(line: str) -> SlurmReservation:
    """Return a reservation of a line of ``scontrol --oneliner show reservation``, times as Unix."""
    fields = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
    return SlurmReservation(
        fields["ReservationName"],
        int(fields["StartTime"]),
        int(fields["EndTime"]),
        expand_hostlist(_set(fields.get("Nodes", ""))),
        tuple(filter(None, _set(fields.get("Users", "")).split(","))),
        tuple(filter(None, fields.get("Flags", "").split(","))),
        counts_of(_set(fields.get("Licenses", ""))),
    )


def number(value: Any) -> int:
    """Return a number from either JSON form; 0 if it is not set."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set", True) else 0
    if value is None or value in _NO_NUMBERS:
        return 0
    return int(value)


def _status(value: Any) -> int:
    if isinstance(value, Mapping) and "return_code" in value:
        killed = value.get("signal") or {}
        signal = number(killed.get("id", killed.get("signal_id")))
        return number(value["return_code"]) << 8 | signal
    return number(value)


def _job_state(value: Any) -> str:
    """Return the state of a job from a word or a list: 22.05 writes only the overriding flag."""
    words = [str(one).upper() for one in ([value] if isinstance(value, str) else value)]
    return next((one for one in _ADDED_STATES if one in words), words[0])


def _words(value: Any) -> tuple[str, ...]:
    found = value.split(",") if isinstance(value, str) else value or ()
    return tuple(one for one in found if one)


def _gres(value: str) -> tuple[tuple[str, int], ...]:
    """Return ``gpu:a100:4(S:0),fpga:1`` as counts by name."""
    counts: dict[str, int] = {}
    for part in filter(None, value.split(",")):
        words = part.partition("(")[0].split(":")
        if words[-1].isdecimal():
            counts[words[0]] = counts.get(words[0], 0) + int(words[-1])
    return tuple(sorted(counts.items()))


def _gpu_type(value: str) -> str:
    """Return ``a100`` of ``gpu:a100:4(S:0),fpga:1``; empty if GPUs have several types."""
    gpus = [part.partition("(")[0].split(":") for part in value.split(",")]
    types = {words[1] if len(words) == 3 else "" for words in gpus if words[0] == "gpu"}
    return types.pop() if len(types) == 1 else ""


def _set(value: str) -> str:
    return "" if value == "(null)" else value


def expand_hostlist(text: str) -> tuple[str, ...]:
    """Return the names in a node list in its order; none for an empty list."""
    return tuple(name for part in _PART.findall(text) for name in _expand(part))


def _expand(part: str) -> Iterator[str]:
    found = _RANGE.search(part)
    if found is None:
        yield part
        return
    for one in found[1].split(","):
        first, _, last = one.partition("-")
        for number in range(int(first), int(last or first) + 1):
            middle = str(number).zfill(len(first))
            yield from _expand(part[: found.start()] + middle + part[found.end() :])
