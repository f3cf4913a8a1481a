"""The demand of a waiting job, parsed from `scontrol show job` of the held job.

It includes the effects of options, environment variables, and the site's defaults and plugins.
Options that a reservation cannot satisfy are reported by their sbatch names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dispatch.backends.slurm.control.amounts import counts_of, mebibytes, seconds_of, tasks_of

_NONE: Final = frozenset({"", "(null)", "N/A", "*", "0", "None"})
_FEATURE: Final = re.compile(r"[A-Za-z0-9_.-]+")
_TYPED_GPU: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")

#: Licences that are all required; not alternatives, nor licences of a remote server.
_LICENSES: Final = re.compile(r"[A-Za-z][\w.-]*(?::\d+)?(?:,[A-Za-z][\w.-]*(?::\d+)?)*", re.ASCII)

#: Syntax of a job dependency.
_AFTER: Final = re.compile(r"(afterany|afterok|afternotok):(\d+)(?:_(?:\d+|\*))?(?:\([^()]*\))?")

#: Fields that a reservation cannot satisfy, with the sbatch option that sets them.
_NOT_RESERVED: Final = {
    "ReqNodeList": "nodelist",
    "ExcNodeList": "exclude",
    "Contiguous": "contiguous",
    "MinTmpDiskNode": "tmp",
    "CoreSpec": "core-spec",
    "ThreadSpec": "thread-spec",
    "Socks/Node": "sockets-per-node",
    "TimeMin": "time-min",
    "Deadline": "deadline",
    "Switches": "switches",
    "TresPerSocket": "gpus-per-socket",
    "BurstBuffer": "bb",
    "ClusterFeatures": "cluster-constraint",
    "Reservation": "reservation",
}


class JobDemandError(ValueError):
    """A job that requests something that a reservation cannot satisfy."""


@dataclass(frozen=True, slots=True)
class JobDemand:
    """Demand of a job on each of its nodes, and its duration.

    Attributes
    ----------
    nodes, cpus
        Number of nodes, and CPUs of each.
    memory
        MiB of each node; 0 if not given.
    gpus
        GPUs of each node.
    limit_s
        Its time limit in seconds, or None.
    label
        The feature that its nodes must have; empty for any.
    whole
        Whether it uses its nodes exclusively, with all of their memory.
    is_array, tasks, throttle
        Whether it is an array, its number of identical tasks, and how many may run at a time.
    begin_s
        Earliest start, Unix time; None for none.
    after
        Jobs that must have ended before it begins.
    licenses
        (name, count) for the whole job, or for each task of an array.
    account, qos, partition
        Account and QOS whose limits apply, and its partition; empty if unknown.
    """

    nodes: int
    cpus: int
    memory: int = 0
    gpus: int = 0
    limit_s: int | None = None
    label: str = ""
    whole: bool = False
    is_array: bool = False
    tasks: int = 1
    throttle: int = 1
    begin_s: int | None = None
    after: tuple[int, ...] = ()
    account: str = ""
    qos: str = ""
    partition: str = ""
    licenses: tuple[tuple[str, int], ...] = ()

    @property
    def waves(self) -> int:
        """Number of successive waves of tasks, with `throttle` tasks each."""
        return -(-self.tasks // self.throttle)


def fields_of(text: str) -> list[dict[str, str]]:
    """Return the fields of each job of ``scontrol --oneliner show job``; several for a het job."""
    return [
        dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        for line in text.splitlines()
        if line.startswith("JobId=")
    ]


def demand_of(fields: Mapping[str, str]) -> JobDemand:
    """Return the demand of a held job.

    Raises
    ------
    JobDemandError
        With each sbatch option that a reservation cannot satisfy.
    """
    if problems := list(_problems(fields)):
        raise JobDemandError("; ".join(problems))
    nodes = int(fields.get("NumNodes", "1").partition("-")[0])
    whole = fields.get("OverSubscribe") == "NO" or fields.get("MinMemoryNode") == "0"
    gpus = _gpus_per_node(fields, nodes)
    cpus = max(
        -(-int(fields.get("NumCPUs", "1")) // nodes),
        int(fields.get("MinCPUsNode", "1")),
        gpus * _count_of(fields.get("CpusPerTres", "")),
    )
    # Memory per GPU takes precedence over the site's default per CPU.
    memory = gpus * _count_of(fields.get("MemPerTres", ""))
    memory = memory or mebibytes(fields.get("MinMemoryNode", ""))
    memory = memory or cpus * mebibytes(fields.get("MinMemoryCPU", ""))
    label = next(iter(_labels(fields)), "")
    tasks = _tasks_said(fields)
    throttle = int(fields.get("ArrayTaskThrottle", "0")) or tasks
    begin = fields.get("StartTime", "")
    return JobDemand(
        nodes, cpus, memory, gpus, seconds_of(fields.get("TimeLimit", "")), label, whole,
        "ArrayTaskId" in fields, tasks,
        min(throttle, tasks), int(begin) if begin.isdecimal() else None,
        tuple(int(found[2]) for found in _afters(fields) if found is not None),
        _said(fields, "Account"), _said(fields, "QOS"), _said(fields, "Partition"),
        counts_of(_said(fields, "Licenses")),
    )  # fmt: skip


def _said(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name, "")
    return "" if value in _NONE else value


def _afters(fields: Mapping[str, str]) -> list[re.Match[str] | None]:
    """Return its dependencies; None for each that is not on the end of a job."""
    text = fields.get("Dependency", "")
    return [] if text in _NONE else [_AFTER.fullmatch(part) for part in text.split(",")]


def _tasks_said(fields: Mapping[str, str]) -> int:
    """Return how many tasks a job has; 1 for no array, 0 if the list is incomplete."""
    text = fields.get("ArrayTaskId", "")
    return 1 if text in _NONE - {"0"} else tasks_of(text)


def _labels(fields: Mapping[str, str]) -> list[str]:
    """Return the labels that its machines must carry: its feature, and its GPU types."""
    feature = _said(fields, "Features")
    types = {
        part[1]
        for name in ("TresPerNode", "TresPerJob", "TresPerTask")
        for part in _parts(fields.get(name, ""))
        if part[0] == "gpu" and len(part) == 3
    }
    return [*([feature] if feature else []), *(gpu_label(one) for one in sorted(types))]


def gpu_label(kind: str) -> str:
    """Return the label of machines whose GPUs all have a type."""
    return f"gpu-{kind}"


def _problems(fields: Mapping[str, str]) -> Iterator[str]:
    for name, option in _NOT_RESERVED.items():
        if fields.get(name, "") not in _NONE:
            yield f"--{option} is not reserved by `agenda sbatch`; leave it out"
    licenses = _said(fields, "Licenses")
    if licenses and not _LICENSES.fullmatch(licenses):
        yield f"--licenses={licenses}: write names and counts such as matlab:2,ansys:1"
    if any(part not in ("0", "*") for part in fields.get("ReqB:S:C:T", "").split(":") if part):
        yield "sockets, cores and threads of a node are not reserved; leave them out"
    if any(part not in ("0", "*") for part in fields.get("NtasksPerN:B:S:C", "").split(":")[1:]):
        yield "--ntasks-per-socket and --ntasks-per-core are not reserved; write --ntasks-per-node"
    if fields.get("OverSubscribe") not in (None, "OK", "NO"):
        yield "--oversubscribe, or --exclusive=user or mcs, is not reserved; leave it out"
    feature = fields.get("Features", "")
    if feature not in _NONE and not _FEATURE.fullmatch(feature):
        yield f"--constraint={feature}: one feature is reserved; not counts, lists or alternatives"
    if fields.get("Priority", "0") != "0":
        yield "the site lets the job begin at once (--priority), and it must wait, held"
    if any(found is None for found in _afters(fields)):
        text = fields.get("Dependency", "")
        yield f"--dependency={text}: only afterok, afterany and afternotok are reserved"
    if not _tasks_said(fields):
        yield f"--array={fields['ArrayTaskId']}: write ranges such as --array=0-99%8"
    start = fields.get("StartTime", "Unknown")
    if not start.isdecimal() and start not in ("Unknown", "N/A"):
        yield f"--begin: Slurm says {start}, which is no Unix time"
    if len(labels := _labels(fields)) > 1:
        yield f"nodes that are {' and '.join(labels)}: one feature or type of GPUs is reserved"
    for name in ("TresPerNode", "TresPerJob", "TresPerTask"):
        for part in _parts(fields.get(name, "")):
            typed = part[0] == "gpu" and len(part) == 3 and _TYPED_GPU.fullmatch(part[1])
            if part[0] not in ("gpu", "cpu") or (len(part) > 2 and not typed):
                what = ":".join(part)
                yield f"{what}: only GPUs are reserved; write such as --gres=gpu:2 or gpu:a100:2"


def _parts(text: str) -> list[list[str]]:
    """Return the parts of ``gres:gpu:2`` or ``gres/gpu=2,gres/fpga=1``."""
    if text in _NONE:
        return []
    plain = (part.replace("gres/", "").replace("=", ":") for part in text.split(","))
    found = [part.removeprefix("gres:").split(":") for part in plain]
    return [[*part, "1"] if len(part) == 2 and not part[1].isdecimal() else part for part in found]


def _gpus_per_node(fields: Mapping[str, str], nodes: int) -> int:
    tasks = -(-int(fields.get("NumTasks", "1")) // nodes)
    per_node = int(fields.get("NtasksPerN:B:S:C", "0").partition(":")[0] or 0) or tasks
    found = 0
    for name, times in (("TresPerNode", 1.0), ("TresPerTask", per_node), ("TresPerJob", 1 / nodes)):
        for part in _parts(fields.get(name, "")):
            if part[0] == "gpu":
                count = int(part[-1]) if part[-1].isdecimal() else 1
                found = max(found, -int(-count * times // 1))
    return found


def _count_of(text: str) -> int:
    """Return the number in ``gres:gpu:4``, such as CPUs or MiB per GPU; 0 if there is none."""
    parts = _parts(text)
    return int(parts[0][-1]) if parts and parts[0][-1].isdecimal() else 0
