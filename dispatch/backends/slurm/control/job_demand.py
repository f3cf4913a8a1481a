"""What a job that waits demands, as Slurm itself says: `scontrol show job` of a held job.

It contains what the options, the variables of the environment, the site's defaults and its plugins
made of a script. What a reservation cannot have is said by name, in sbatch's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_NONE: Final = frozenset({"", "(null)", "N/A", "*", "0", "None"})
_FEATURE: Final = re.compile(r"[A-Za-z0-9_.-]+")
_MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_TIME: Final = re.compile(r"(?:(\d+)-)?(\d+):(\d+):(\d+)")

#: Fields that say what no reservation has, and the option of sbatch that asks for it.
_NOT_RESERVED: Final = {
    "Licenses": "licenses",
    "Dependency": "dependency",
    "ReqNodeList": "nodelist",
    "ExcNodeList": "exclude",
    "Contiguous": "contiguous",
    "MinTmpDiskNode": "tmp",
    "CoreSpec": "core-spec",
    "ThreadSpec": "thread-spec",
    "Socks/Node": "sockets-per-node",
    "TimeMin": "time-min",
    "Deadline": "deadline",
    "ArrayJobId": "array",
    "HetJobId": "hetjob",
    "Switches": "switches",
    "TresPerSocket": "gpus-per-socket",
    "BurstBuffer": "bb",
    "ClusterFeatures": "cluster-constraint",
    "Reservation": "reservation",
}


class JobDemandError(ValueError):
    """A job that asks for what no reservation has."""


@dataclass(frozen=True, slots=True)
class JobDemand:
    """What a job demands of each of its nodes, and for how long.

    Attributes
    ----------
    nodes, cpus
        How many nodes, and CPUs of each.
    memory
        MiB of each node; 0 where it does not say.
    gpus
        Of each node.
    limit_s
        Its time limit in seconds, or None.
    label
        The feature that its nodes have; empty for any.
    whole
        Whether it has its nodes to itself, and all of their memory.
    """

    nodes: int
    cpus: int
    memory: int = 0
    gpus: int = 0
    limit_s: int | None = None
    label: str = ""
    whole: bool = False


def fields_of(text: str) -> list[dict[str, str]]:
    """Return the fields of each job of ``scontrol --oneliner show job``; a het job has several."""
    return [
        dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        for line in text.splitlines()
        if line.startswith("JobId=")
    ]


def demand_of(fields: Mapping[str, str]) -> JobDemand:
    """Return what a held job demands.

    Raises
    ------
    JobDemandError
        With each thing that no reservation has, by the option of sbatch that asks for it.
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
    memory = _mebibytes(fields.get("MinMemoryNode", ""))
    memory = memory or cpus * _mebibytes(fields.get("MinMemoryCPU", ""))
    memory = memory or gpus * _count_of(fields.get("MemPerTres", ""))
    label = fields.get("Features", "")
    return JobDemand(
        nodes, cpus, memory, gpus, _seconds(fields.get("TimeLimit", "")),
        "" if label in _NONE else label, whole,
    )  # fmt: skip


def _problems(fields: Mapping[str, str]) -> Iterator[str]:
    for name, option in _NOT_RESERVED.items():
        if fields.get(name, "") not in _NONE:
            yield f"--{option} is not reserved by `agenda sbatch`; leave it out"
    if any(part not in ("0", "*") for part in fields.get("ReqB:S:C:T", "").split(":") if part):
        yield "sockets, cores and threads of a node are not reserved; leave them out"
    if any(part not in ("0", "*") for part in fields.get("NtasksPerN:B:S:C", "").split(":")[1:]):
        yield "--ntasks-per-socket and --ntasks-per-core are not reserved; write --ntasks-per-node"
    if fields.get("OverSubscribe") not in (None, "OK", "NO"):
        yield "--oversubscribe, or --exclusive=user or mcs, is not reserved; leave it out"
    feature = fields.get("Features", "")
    if feature not in _NONE and not _FEATURE.fullmatch(feature):
        yield f"--constraint={feature}: one feature is reserved; not counts, lists or alternatives"
    if fields.get("StartTime", "Unknown") not in ("Unknown", "N/A"):
        yield "--begin is not reserved by `agenda sbatch`; leave it out"
    for name in ("TresPerNode", "TresPerJob", "TresPerTask"):
        for part in _parts(fields.get(name, "")):
            if part[0] not in ("gpu", "cpu") or len(part) > 2:
                what = ":".join(part)
                yield f"{what}: only numbers of GPUs are reserved; write such as --gres=gpu:2"


def _parts(text: str) -> list[list[str]]:
    """Return the parts of ``gres:gpu:2`` or ``gres/gpu=2,gres/fpga=1``."""
    if text in _NONE:
        return []
    plain = (part.replace("gres/", "").replace("=", ":") for part in text.split(","))
    return [part.removeprefix("gres:").split(":") for part in plain]


def _gpus_per_node(fields: Mapping[str, str], nodes: int) -> int:
    tasks = -(-int(fields.get("NumTasks", "1")) // nodes)
    per_node = int(fields.get("NtasksPerN:B:S:C", "0").partition(":")[0] or 0) or tasks
    found = 0
    for name, times in (("TresPerNode", 1.0), ("TresPerTask", per_node), ("TresPerJob", 1 / nodes)):
        for part in _parts(fields.get(name, "")):
            if part[0] == "gpu":
                count = int(part[1]) if len(part) > 1 else 1
                found = max(found, -int(-count * times // 1))
    return found


def _count_of(text: str) -> int:
    """Return the number of ``gres:gpu:4``, in CPUs or MiB for each GPU; 0 where there is none."""
    parts = _parts(text)
    return int(parts[0][-1]) if parts and parts[0][-1].isdecimal() else 0


def _mebibytes(text: str) -> int:
    found = _MEMORY.fullmatch(text)
    if found is None:
        return 0
    return -int(-float(found[1]) * 1024.0 ** ("KMGTP".index(found[2] or "M") - 1) // 1)


def _seconds(text: str) -> int | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(one or 0) for one in found.groups())
    return 86_400 * days + 3600 * hours + 60 * minutes + seconds
