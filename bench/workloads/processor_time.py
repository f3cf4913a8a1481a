"""Processor time: by program, of the whole machine, of a process, and of a server's ticks."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.cli.kit.server import Server

#: Programs that are distinguished; all others, and what ended meanwhile, are ``rest``.
_TOLD = frozenset(
    {
        "slurmctld",
        "slurmd",
        "slurmdbd",
        "mariadbd",
        "etcd",
        "kube-apiserver",
        "kube-scheduler",
        "kwok",
    }
)


@contextmanager
def measured_cpu() -> Iterator[dict[str, float]]:
    """Yield what holds, once the block is over, the seconds of processor time by program.

    ``server`` are Python's processes; ``commands`` is what children of theirs had that have ended;
    ``rest`` is everything else, and ``idle`` what no one had.
    """
    found: dict[str, float] = {}
    before = _now()
    try:
        yield found
    finally:
        after = _now()
        spent = {name: (after[name] - before[name]) / os.sysconf("SC_CLK_TCK") for name in after}
        whole = spent.pop("whole")
        spent["rest"] = whole - sum(spent.values()) + spent["idle"]
        found.update({name: round(one, 1) for name, one in sorted(spent.items())})


def _now() -> Counter[str]:
    found: Counter[str] = Counter(whole=0, idle=0, commands=0, server=0)
    numbers = [int(one) for one in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    found["idle"] = numbers[3] + numbers[4]
    found["whole"] = sum(numbers[:8]) - found["idle"]
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            head, _, tail = (folder / "stat").read_text().rpartition(")")
            name, fields = head.partition("(")[2], tail.split()
            own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            if name in _TOLD:
                found[name] += own
            elif name.startswith("python"):
                found["server"] += own
                found["commands"] += children
    return found


def family_cpu_s() -> float:
    """Return the seconds of processor time of this process and of what it has started.

    Of children that still run too; of what they have started only once both have ended.
    """
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    spent = sum(one.ru_utime + one.ru_stime for one in used)
    ticks = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                with contextlib.suppress(OSError):
                    fields = Path("/proc", child, "stat").read_text().rpartition(")")[2].split()
                    ticks += int(fields[11]) + int(fields[12])
    return spent + ticks / os.sysconf("SC_CLK_TCK")


def mean_tick(server: Server) -> Mapping[str, Any]:
    """Return the mean time of a tick of the dispatcher, and how many there were."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    kind = r"^(agenda_dispatch_tick_seconds_(?:sum|count))\S* (\S+)"
    values = dict(re.findall(kind, text, re.M))
    ticks = float(values.get("agenda_dispatch_tick_seconds_count", 0))
    spent_s = float(values.get("agenda_dispatch_tick_seconds_sum", 0))
    return {
        "ticks": int(ticks),
        "tick_mean_ms": round(1000 * spent_s / ticks, 1) if ticks else None,
    }
