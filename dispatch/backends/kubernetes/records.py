"""What is kept of Jobs, pods and nodes, and the request that a Job makes by its annotations."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from dispatch.backends.kubernetes.api import Json
from rdl.durations import parse_duration
from rdl.read_error import ReadError
from rdl.resources import CPU, MEMORY
from rdl.time_grid import duration_text

#: Annotations of users: the deadline, or the whole request, and what a Job says besides.
DEADLINE: Final = "agenda/deadline"
RDL: Final = "agenda/rdl"
WORK: Final = "agenda/work"
QUEUE: Final = "agenda/queue"
LEAST: Final = "agenda/min-parallelism"
ON_LATE: Final = "agenda/on-late"

#: What a Job asks by; a change of one is another request.
_ASKS: Final = (DEADLINE, RDL, WORK, QUEUE, LEAST, ON_LATE)

#: Annotations that Agenda writes: the reservation, or the id under which it was refused, until when
#: the Job was released, and the outcome.
RESERVATION: Final = "agenda/reservation"
RELEASED: Final = "agenda/released"
PROMISE: Final = "agenda/promise"
REASON: Final = "agenda/reason"
OFFERS: Final = "agenda/offers"
START: Final = "agenda/start"
END: Final = "agenda/end"

#: Beginning of the ids of reservations that belong to Jobs.
ID_PREFIX: Final = "k8s:"

#: Label of a node: its machine in the cluster file. Pods of promised Jobs select it.
MACHINE: Final = "agenda/machine"

#: Scheduling gate of the pods of promised Jobs, until they have a machine.
GATE: Final = "agenda/slot"

#: Priority class of promised pods.
PRIORITY_CLASS: Final = "agenda-promised"

#: Why a node that does not answer is away.
NOT_READY: Final = "is not ready"

#: Suffixes of quantities.
_SUFFIXES: Final = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12),
    "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)")

#: Resources that no bundle names: the nodes' own bookkeeping.
_NOT_PLANNED: Final = ("pods", "ephemeral-storage", "hugepages-", "attachable-volumes-")

#: Characters that a label of a machine cannot have; they become a dash.
_NO_LABEL: Final = re.compile(r"[^A-Za-z0-9_.-]+")

#: Deadlines: durations from the Job's creation, and words of RDL, which end nowhere else.
_DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?[a-z]+)+")
_DEADLINE: Final = re.compile(r"[0-9A-Za-z:+.-]+")

#: Taints of cordoned nodes and of those that are not ready, which other fields say.
_OWN_TAINTS: Final = frozenset(
    f"node.kubernetes.io/{why}" for why in ("unschedulable", "not-ready", "unreachable")
)

#: Amounts by resource: millicores, MiB, whole units.
Amounts = Mapping[str, int]


class JobRequestError(ValueError):
    """A Job from which no request can be made."""


def amount(name: str, text: str, *, up: bool) -> int:
    """Return a quantity in the planner's units: millicores, MiB, or whole units.

    Raises
    ------
    ValueError
        If it is no quantity.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None or match[2] not in _SUFFIXES:
        raise ValueError(f"{text!r} is no quantity")
    try:
        value = Decimal(match[1]) * _SUFFIXES[match[2]]
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no quantity") from error
    if name == CPU:
        value *= 1000
    elif name == MEMORY:
        value /= 2**20
    whole = int(value)
    return whole + 1 if up and value > whole else whole


def amounts(quantities: Mapping[str, str], *, up: bool) -> dict[str, int]:
    """Return the planned resources of a node (rounded down) or a container (rounded up)."""
    found = {
        name: amount(name, text, up=up)
        for name, text in quantities.items()
        if not name.startswith(_NOT_PLANNED)
    }
    return {name: count for name, count in found.items() if count > 0}


def pod_amounts(spec: Json) -> dict[str, int]:
    """Return what a pod requests, as the scheduler counts it: init containers run in turn.

    A container without requests requests its limits.
    """

    def needs(container: Json) -> dict[str, int]:
        given = container.get("resources", {})
        return amounts({**given.get("limits", {}), **given.get("requests", {})}, up=True)

    total: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":  # a sidecar stays
            _add(total, needs(container))
        for name, count in needs(container).items():
            beside = total.get(name, 0)
            most[name] = max(most.get(name, 0), count + beside)
    for container in spec.get("containers", ()):
        _add(total, needs(container))
    for name, count in most.items():
        total[name] = max(total.get(name, 0), count)
    _add(total, amounts(spec.get("overhead") or {}, up=True))
    return total


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def label_of(key: str, value: str) -> str:
    """Return the label of machines for a node's label, such as ``disk-ssd`` for ``disk=ssd``."""
    return _NO_LABEL.sub("-", f"{key}-{value}" if value else key)


@dataclass(frozen=True, slots=True)
class KubernetesJob:
    """A Job with a deadline.

    Attributes
    ----------
    version
        Version of the object, which a change must name.
    created_s
        Unix time.
    annotations
        Those of Agenda.
    completions
        Number of pods that must succeed; None if any pod may end the Job.
    deadline_s
        Its activeDeadlineSeconds, or None.
    template
        The spec of its pods.
    ask
        Digest of what it asks for.
    has_succeeded
        Whether a pod of it has.
    end
        Complete or Failed once it is over, and empty before.
    end_reason
        Why it failed.
    """

    uid: str
    namespace: str
    name: str
    version: str
    created_s: int
    annotations: Mapping[str, str]
    is_suspended: bool
    parallelism: int
    completions: int | None
    deadline_s: int | None
    template: Json = field(repr=False)
    ask: str = ""
    has_succeeded: bool = False
    end: str = ""
    end_reason: str = ""

    @property
    def path(self) -> str:
        """Path of the object."""
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{self.name}"

    @property
    def is_gated(self) -> bool:
        """Whether its pods wait for their machines."""
        return any(one["name"] == GATE for one in self.template.get("schedulingGates", ()))

    @property
    def next_id(self) -> str:
        """Id of the request that it makes: the same for every leader, another one for a new Job."""
        return f"{self.id_base}{self.ask}"

    @property
    def noted_id(self) -> str:
        """Id of the request that was decided; empty before, and in a copy of another Job."""
        noted = self.annotations.get(RESERVATION, "")
        return noted if noted.startswith(self.id_base) else ""

    @property
    def promise(self) -> str:
        """The outcome that was written to it; empty before, and in a copy of another Job."""
        return self.annotations.get(PROMISE, "") if self.noted_id else ""

    @property
    def id_base(self) -> str:
        """Beginning of the ids of its requests."""
        return f"{ID_PREFIX}{self.namespace}:{self.name[:40]}:{self.uid[:8]}:"


def read_job(object_: Json) -> KubernetesJob | None:
    """Return a Job with a deadline; None for other Jobs and those that are being deleted."""
    meta, spec, status = object_["metadata"], object_["spec"], object_.get("status", {})
    notes = {k: v for k, v in meta.get("annotations", {}).items() if k.startswith("agenda/")}
    if not (DEADLINE in notes or RDL in notes) or meta.get("deletionTimestamp"):
        return None
    ends = [
        one
        for one in status.get("conditions", ())
        if one["type"] in ("Complete", "Failed") and one["status"] == "True"
    ]
    template = spec["template"]["spec"]
    size = [spec.get(key) for key in ("parallelism", "completions", "activeDeadlineSeconds")]
    asks = [*(notes.get(key) for key in _ASKS), *size, template]
    return KubernetesJob(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        version=meta["resourceVersion"],
        created_s=unix_s(meta["creationTimestamp"]),
        annotations=notes,
        is_suspended=bool(spec.get("suspend")),
        parallelism=spec.get("parallelism", 1),
        completions=spec.get("completions"),
        deadline_s=spec.get("activeDeadlineSeconds"),
        template=template,
        ask=hashlib.sha256(json.dumps(asks, sort_keys=True).encode()).hexdigest()[:8],
        has_succeeded=bool(status.get("succeeded")),
        end=ends[0]["type"] if ends else "",
        end_reason=ends[0].get("message") or ends[0].get("reason", "") if ends else "",
    )


@dataclass(frozen=True, slots=True)
class KubernetesPod:
    """A pod that is not over.

    Attributes
    ----------
    job
        Uid of the Job that made it; empty for other pods.
    node
        Its node; empty before it has one.
    machine
        The machine that it was given.
    gates
        Its scheduling gates.
    leaves_s
        Unix time until which it may take to end, once it is being deleted; else None.
    is_daemon
        Whether it belongs to the node: a static pod, or one of a DaemonSet.
    needs
        What it requests.
    """

    uid: str
    namespace: str
    name: str
    version: str
    job: str
    node: str
    machine: str
    gates: tuple[str, ...]
    leaves_s: int | None
    is_daemon: bool
    priority: int
    needs: Amounts

    @property
    def path(self) -> str:
        """Path of the object."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def is_gated(self) -> bool:
        """Whether it waits for a machine."""
        return GATE in self.gates

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted."""
        return self.leaves_s is not None


def read_pod(object_: Json) -> KubernetesPod | None:
    """Return a pod; None if it is over."""
    meta, spec = object_["metadata"], object_["spec"]
    if object_.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return None
    owners = [one for one in meta.get("ownerReferences", ()) if one.get("controller")]
    kind = owners[0]["kind"] if owners else ""
    return KubernetesPod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        version=meta["resourceVersion"],
        job=owners[0]["uid"] if kind == "Job" else "",
        node=spec.get("nodeName", ""),
        machine=spec.get("nodeSelector", {}).get(MACHINE, ""),
        gates=tuple(one["name"] for one in spec.get("schedulingGates", ())),
        leaves_s=unix_s(leaves) if (leaves := meta.get("deletionTimestamp")) else None,
        is_daemon=kind in ("DaemonSet", "Node"),
        priority=spec.get("priority", 0),
        needs=pod_amounts(spec),
    )


@dataclass(frozen=True, slots=True)
class KubernetesNode:
    """A node.

    Attributes
    ----------
    machine
        Its machine in the cluster file; empty if it is not planned.
    allocatable
        What its pods may request in total.
    why_away
        Why it takes no promised pods: not ready, cordoned, tainted; empty if it does.
    """

    name: str
    machine: str
    allocatable: Amounts
    labels: Mapping[str, str]
    why_away: str


def read_node(object_: Json) -> KubernetesNode:
    """Return a node."""
    meta, spec, status = object_["metadata"], object_["spec"], object_.get("status", {})
    labels = meta.get("labels", {})
    ready = [one for one in status.get("conditions", ()) if one["type"] == "Ready"]
    taints = [
        one["key"]
        for one in spec.get("taints", ())
        if one["effect"] != "PreferNoSchedule" and one["key"] not in _OWN_TAINTS
    ]
    why = "is cordoned" if spec.get("unschedulable") else ""
    if not (ready and ready[0]["status"] == "True"):
        why = NOT_READY
    elif taints:
        why = f"has the taint {taints[0]}"
    return KubernetesNode(
        name=meta["name"],
        machine=labels.get(MACHINE, ""),
        allocatable=amounts(status.get("allocatable", {}), up=False),
        labels=labels,
        why_away=why,
    )


def unix_s(text: str) -> int:
    """Return an RFC 3339 instant as Unix time."""
    return int(datetime.fromisoformat(text).timestamp())


def rdl_of(job: KubernetesJob) -> str:
    """Return the request that a Job makes, as RDL.

    Raises
    ------
    JobRequestError
        With everything that cannot be reserved.
    """
    problems = list(_problems(job))
    if problems:
        raise JobRequestError("; ".join(problems))
    if RDL in job.annotations:
        return job.annotations[RDL]
    most = min(job.parallelism, job.completions or job.parallelism)
    waves = -(-(job.completions or most) // most)
    each = job.annotations.get(WORK)
    least = job.annotations.get(LEAST)
    label = next((f', on="{one}"' for one in labels_of(job)), "")
    if least is not None:
        work = _times(each or "", job.completions or most)
        shape = f"{least}, {most}, {_times(each or '', 1)}, {work}"
    elif each is not None:
        shape = f"{most}, {most}, {_times(each, waves)}, {_times(each, waves * most)}"
    else:
        shape = f"{most}, {most}, {job.deadline_s}s, {(job.deadline_s or 0) * most}s"
    end = job.annotations[DEADLINE].strip()
    end = f"+{end}" if _DURATION.fullmatch(end) else end
    return f"deadline(atom(<{bundle_text(pod_amounts(job.template))}>, {shape}{label}), {end})"


def _times(duration: str, count: int) -> str:
    """Return a duration as often as `count`, such as ``30m`` for ``10m`` and 3.

    Raises
    ------
    JobRequestError
        If it is no duration.
    """
    try:
        return duration_text(parse_duration(duration) * count)
    except ReadError as error:
        raise JobRequestError(f"{WORK}: {error}") from error


def bundle_text(needs: Amounts) -> str:
    """Return amounts as RDL, such as ``500m cpu, 64 MiB memory, 1 nvidia.com/gpu``."""
    units = {CPU: "m cpu", MEMORY: " MiB memory"}
    return ", ".join(f"{count}{units.get(name, f' {name}')}" for name, count in needs.items())


def labels_of(job: KubernetesJob) -> list[str]:
    """Return the labels of machines that a Job selects."""
    selector: dict[str, str] = job.template.get("nodeSelector") or {}
    return [label_of(*one) for one in selector.items() if one[0] != "kubernetes.io/os"]


def _problems(job: KubernetesJob) -> Iterator[str]:
    """Yield what keeps a Job from being promised."""
    notes, spec = job.annotations, job.template
    if not job.is_suspended and not job.promise:
        yield "a Job with a deadline begins with spec.suspend: true"
    if job.parallelism < 1 or job.completions == 0:
        yield "spec.parallelism and spec.completions are 1 or more"
    if CPU not in pod_amounts(spec):
        yield "its containers request no cpu: set resources.requests"
    if spec.get("priorityClassName") != PRIORITY_CLASS:
        yield f"spec.template.spec.priorityClassName is {PRIORITY_CLASS}: others can be preempted"
    if len(labels_of(job)) > 1:
        yield "spec.template.spec.nodeSelector names one label at most"
    spreads = spec.get("topologySpreadConstraints") or ()
    if any(one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for one in spreads):
        yield "topologySpreadConstraints cannot be reserved: use ScheduleAnyway"
    affinity = spec.get("affinity") or {}
    for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        if (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            yield f"a required {kind} cannot be reserved: use nodeSelector, or prefer it"
    if spec.get("nodeName") or MACHINE in (spec.get("nodeSelector") or {}):
        yield "Agenda chooses its nodes: leave nodeName out"
    if ON_LATE in notes and notes[ON_LATE] not in ("extend", "fail"):
        yield f"{ON_LATE} is extend or fail"
    if RDL in notes:
        return
    if not _DEADLINE.fullmatch(notes[DEADLINE].strip()):
        yield f"{DEADLINE} is a duration (6h), a time of day (06:00) or an RFC 3339 instant"
    if WORK not in notes and (job.deadline_s is None or LEAST in notes):
        yield f"annotate {WORK} with the time of one pod"
    if LEAST in notes and not notes[LEAST].isdecimal():
        yield f"{LEAST} is a number of pods"
