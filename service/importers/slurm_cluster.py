"""Import a Slurm as a cluster: groups of identical nodes, and outages of unavailable nodes.

Only whole nodes count: a node with a foreign job that promised work would not preempt is out until
the job's time limit, a node that is down or drained until it returns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dispatch.backends.slurm.control.job_demand import gpu_label
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode, SlurmReservation
from dispatch.backends.slurm.reserved.foreign_reservations import foreign_spans
from planner.cluster.calendar import LOST_MS
from planner.cluster.cluster import RESERVED
from rdl.resources import RESOURCE_ALIASES

#: Characters that a label cannot have; they become a dash.
_NO_LABEL: Final = re.compile(r"[^A-Za-z0-9_.-]+")

#: Valid names of resources, and the largest size of a pool.
_RESOURCE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_MOST_UNITS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class SlurmView:
    """The state of a Slurm at an instant.

    Attributes
    ----------
    nodes, reservations, jobs
        All of them.
    at_s
        Unix time.
    licenses
        Total numbers, by name.
    """

    nodes: Sequence[SlurmNode]
    reservations: Sequence[SlurmReservation]
    jobs: Sequence[SlurmJob]
    at_s: int
    licenses: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlurmModel:
    """Settings of the import.

    Attributes
    ----------
    promised, best_effort
        Partitions for Agenda's work; only nodes in both are imported.
    prefix
        Prefix of the names of Agenda's own jobs and reservations.
    step_s, horizon_s
        Step and horizon of the cluster file.
    jobs
        Whether foreign jobs become outages.
    known
        The machine of each node in a previous import, which stays the same; new nodes come after
        them.
    origin_s
        The origin of that import's cluster file, Unix time, which a Plan keeps; None: now.
    """

    promised: str
    best_effort: str
    prefix: str
    step_s: int
    horizon_s: int
    jobs: bool
    known: Mapping[str, str] = field(default_factory=dict)
    origin_s: int | None = None


@dataclass(frozen=True, slots=True)
class ImportedSlurm:
    """The result of the import.

    Attributes
    ----------
    cluster, settings
        Text of the cluster file and of the settings file.
    machines
        The node of each machine.
    outages
        The number of outages.
    endless
        Foreign jobs without a time limit: they count as running until the horizon.
    """

    cluster: str
    settings: str
    machines: Mapping[str, str]
    outages: int
    endless: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Away:
    """A machine that is down from one Unix time to another."""

    machine: str
    start_s: int
    end_s: int
    kind: str
    why: str


def import_slurm(view: SlurmView, model: SlurmModel) -> ImportedSlurm:
    """Return a cluster file for a Slurm, and the settings that connect the two.

    Raises
    ------
    ValueError
        If no node is in both partitions, or a known node would become another machine.
    """
    needed = {model.promised, model.best_effort}
    nodes = [node for node in view.nodes if needed <= set(node.partitions)]
    if not nodes:
        both = " and ".join(sorted(needed))
        raise ValueError(f"no node is in the partition {both}; Slurm has {len(view.nodes)} nodes")
    groups = _groups(nodes, model.known)
    machines = {
        f"{name}-{index}": node.name
        for name, alike in groups.items()
        for index, node in enumerate(alike)
    }
    _check_places(machines, model.known)
    begin_s = view.at_s // model.step_s * model.step_s
    origin_s = begin_s if model.origin_s is None else model.origin_s
    machine_of = {node: machine for machine, node in machines.items()}
    away = list(_away(view, model, machine_of, begin_s))
    taken = [job.id for job in view.jobs if _is_in_the_way(job, model) and not _end_of(job)]
    licenses = _pools(view.licenses, nodes, groups)
    cluster = "\n".join(
        [
            f'step = "{model.step_s}s"',
            f'horizon = "{model.horizon_s}s"',
            f'origin = "{_instant(origin_s)}"',
            *(line for name, alike in groups.items() for line in _group_lines(name, alike)),
            *(line for one in licenses.items() for line in _pool_lines(*one)),
            *(line for one in away for line in _outage_lines(one)),
            "",
        ]
    )
    return ImportedSlurm(
        cluster, _settings(model, machines, licenses), machines, len(away), tuple(sorted(taken))
    )


def _check_places(machines: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Raise a ValueError if a known node would become another machine."""
    before = [(node, known[node], machine) for machine, node in machines.items() if node in known]
    moved = [f"{node} ({had}, now {has})" for node, had, has in before if had != has]
    if moved:
        left = sorted(set(known) - set(machines.values())) or ["a node that changed"]
        raise ValueError(
            f"{len(moved)} nodes would become other machines: {', '.join(moved[:5])}. "
            f"Promises name machines: restore {', '.join(left[:5])} (drain it in Slurm instead), "
            "or start a new Plan: remove the settings file and import again"
        )


def _groups(nodes: Iterable[SlurmNode], known: Mapping[str, str]) -> dict[str, list[SlurmNode]]:
    """Return identical nodes by the name of their group, known nodes first, then by number."""
    everywhere = frozenset.intersection(*(frozenset(node.partitions) for node in nodes))
    places = {node: machine.rpartition("-") for node, machine in known.items()}

    def place(node: SlurmNode) -> tuple[bool, int, tuple[object, ...]]:
        index = int(places[node.name][2]) if node.name in places else 0
        return node.name not in places, index, _natural(node.name)

    alike: dict[tuple[object, ...], list[SlurmNode]] = {}
    for node in sorted(nodes, key=place):
        own = frozenset(node.partitions) - everywhere
        kind = (node.cpus, node.memory, node.gres, node.gpu_type, frozenset(node.features), own)
        alike.setdefault(kind, []).append(node)
    found: dict[str, list[SlurmNode]] = {}
    for group in alike.values():
        stems = {node.name.rstrip("0123456789-_.") for node in group}
        stem = (stems.pop() if len(stems) == 1 else "") or "node"
        had = places.get(group[0].name)
        found[had[0] if had and had[0] not in found else _new_name(stem, found, places)] = group
    return found


def _new_name(stem: str, found: Container[str], places: Mapping[str, tuple[str, str, str]]) -> str:
    """Return a new name for a group, which no group has or had."""
    had = {group for group, _, _ in places.values()}
    name, number = stem, 1
    while name in found or name in had:
        number += 1
        name = f"{stem}{number}"
    return name


def _natural(name: str) -> tuple[object, ...]:
    parts = re.split(r"(\d+)", name)
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def _group_lines(name: str, nodes: Sequence[SlurmNode]) -> Iterator[str]:
    first = nodes[0]
    gres = "".join(f", {kind} = {count}" for kind, count in first.gres)
    yield from ("", "[[machines]]", f'name = "{name}"', f"count = {len(nodes)}")
    yield f'resources = {{ cpu = {first.cpus}, memory = "{first.memory} MiB"{gres} }}'
    kinds = [*first.features, *([gpu_label(first.gpu_type)] if first.gpu_type else [])]
    labels = sorted({_NO_LABEL.sub("-", one) for one in kinds})
    if labels:
        yield f"labels = [{', '.join(f'{one!r}' for one in labels)}]"


def _away(
    view: SlurmView, model: SlurmModel, machine_of: Mapping[str, str], begin_s: int
) -> Iterator[_Away]:
    horizon_s = begin_s + model.horizon_s
    for node in view.nodes:
        if node.name in machine_of and not node.is_up:
            lost_s = begin_s + LOST_MS // 1000
            why = f"{node.state.lower()} {' '.join(node.flags).lower()}".strip()
            yield _Away(machine_of[node.name], begin_s, lost_s, "loss", f"{why} {node.reason}")
    for one in foreign_spans(view.reservations, model.prefix, machine_of):
        if one.end > view.at_s:
            start_s = max(one.start, begin_s)
            yield _Away(one.machine, start_s, one.end, RESERVED, one.reservation)
    for job in view.jobs:
        if not _is_in_the_way(job, model):
            continue
        for name in job.nodes:
            if name in machine_of:
                end_s = min(_end_of(job) or horizon_s, horizon_s)
                yield _Away(
                    machine_of[name], begin_s, max(end_s, begin_s + 1), "drain", f"job {job.id}"
                )


def _is_in_the_way(job: SlurmJob, model: SlurmModel) -> bool:
    """Return whether a job is running that promised work would not preempt."""
    own = job.name.startswith(f"{model.prefix}/") or job.comment.startswith("agenda ")
    return model.jobs and job.is_up and not own and job.partition != model.best_effort


def _end_of(job: SlurmJob) -> int:
    """Return when a job reaches its time limit; 0 if it has none."""
    return job.ends_s if job.limit_min else 0


def _outage_lines(one: _Away) -> Iterator[str]:
    group, _, _ = one.machine.rpartition("-")
    comment = " ".join(one.why.split())
    yield from ("", f"[[outages]]  # {comment}", f'machines = "{group}"')
    yield f'names = ["{one.machine}"]'
    yield f'start = "{_instant(one.start_s)}"'
    yield f'end = "{_instant(one.end_s)}"'
    yield f'kind = "{one.kind}"'


def _pools(
    licenses: Mapping[str, int], nodes: Iterable[SlurmNode], groups: Container[str]
) -> dict[str, int]:
    """Return the licenses that can become pools: those whose names nothing else has."""
    taken = {kind for node in nodes for kind, _ in node.gres}
    return {
        name: min(count, _MOST_UNITS)
        for name, count in sorted(licenses.items())
        if count
        and _RESOURCE.fullmatch(name)
        and name.lower() not in RESOURCE_ALIASES
        and name not in taken
        and name not in groups
    }


def _pool_lines(name: str, count: int) -> Iterator[str]:
    yield from ("", "[[pools]]", f'name = "{name}"', f"count = {count}")


def _settings(model: SlurmModel, machines: Mapping[str, str], licenses: Mapping[str, int]) -> str:
    lines = [
        f'promised = "{model.promised}"',
        f'best_effort = "{model.best_effort}"',
        f'prefix = "{model.prefix}"',
        *([f"licenses = {json.dumps(list(licenses))}"] if licenses else []),
        "",
        "[machines]",
        *(f'"{machine}" = "{node}"' for machine, node in machines.items()),
        "",
    ]
    return "\n".join(lines)


def _instant(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
