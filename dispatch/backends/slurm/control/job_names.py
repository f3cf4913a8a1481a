"""Names and comments of jobs, which identify their component and reservation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.executions.assignment import Key


def job_name(prefix: str, key: Key) -> str:
    """Return the name of a component's jobs; Slurm runs one job of a name at a time."""
    return f"{prefix}/{component_text(key)}"


def component_text(key: Key) -> str:
    """Return a component in the form of names and messages: EXECUTION/COMPONENT/INDEX."""
    return "/".join(map(str, key))


def key_of(prefix: str, name: str) -> Key | None:
    """Return the component in a job's name, or None for other jobs."""
    words = name.split("/")
    if len(words) < 4 or words[0] != prefix or not words[-1].isdecimal():
        return None
    return words[1], "/".join(words[2:-1]), int(words[-1])


def comment_of(tenure: int, reservation: str | None, ports: Sequence[int] = ()) -> str:
    """Return the comment of a component's job, with its tenure, its reservation and its ports."""
    has_ports = f" ports={','.join(map(str, ports))}" if ports else ""
    return f"agenda tenure={tenure} reservation={reservation or '-'}{has_ports}"


def ports_of(job: SlurmJob) -> tuple[int, ...]:
    """Return the ports of a component's job on its node."""
    words = words_of(job).get("ports", "").split(",")
    return tuple(int(one) for one in words if one.isdecimal())


#: Separator between Agenda's words and the user's own in a job's comment.
_OWN: Final = " -- "


def promise_comment(reservation: str, deadline_s: int, work_s: int, own: str = "") -> str:
    """Return the comment of a user's job, which records its promise in Slurm.

    Parameters
    ----------
    reservation
        Its id in the Plan; it is released when the job has succeeded.
    deadline_s
        Unix time.
    work_s
        Node time, in seconds.
    own
        The user's own comment.
    """
    promise = f"deadline={deadline_s} work={work_s}"
    return f"agenda reservation={reservation} close=yes {promise}{_OWN if own else ''}{own}"


def limit_comment(comment: str, minutes: int) -> str:
    """Return the comment of a job whose time limit was set by the service, not its user."""
    return f"{comment} limit={minutes}"


def has_own_limit(job: SlurmJob) -> bool:
    """Return whether a component's job was submitted with a time limit of the service."""
    return "limit" in words_of(job)


def tenure_of(job: SlurmJob) -> int:
    """Return the tenure in which a component's job was submitted; 0 if unknown."""
    for word in job.comment.split():
        name, _, value = word.partition("=")
        if name == "tenure" and value.isdecimal():
            return int(value)
    return 0


def words_of(job: SlurmJob) -> dict[str, str]:
    """Return the words of an Agenda comment; empty for other comments."""
    first, *rest = job.comment.partition(_OWN)[0].split() or [""]
    return dict(word.partition("=")[::2] for word in rest) if first == "agenda" else {}
