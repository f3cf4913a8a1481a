"""A batch script as `agenda sbatch` reads it: Agenda's own lines, and the shape of the job."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from service.cli.client.slurm.sbatch_options import READ, SbatchOption, read_options
from service.cli.terminal.errors import CliError

#: Units of ``--mem`` in MiB.
_MIB: Final = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
_MEMORY: Final = re.compile(r"(\d{1,12}(?:\.\d+)?)([KMGT]?)B?", re.IGNORECASE)
_FEATURE: Final = re.compile(r"[A-Za-z0-9_.-]+")
#: The last of these that is given counts.
_MEMORIES: Final = ("mem", "mem-per-cpu", "mem-per-gpu")


@dataclass(frozen=True, slots=True)
class JobShape:
    """What a job asks of each of its nodes, and for how long.

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
        Of the machines; empty for any.
    """

    nodes: int
    cpus: int
    memory: int
    gpus: int
    limit_s: int | None
    label: str = ""

    def request(self, seconds: int, end: str) -> str:
        """Return the request in RDL: a gang of nodes side by side, before an instant."""
        memory = f", {self.memory} MiB memory" if self.memory else ""
        gpus = f", {self.gpus} gpu" if self.gpus else ""
        bundle = f"<{self.cpus} cpu{memory}{gpus}>"
        gang = f"{self.nodes}, {self.nodes}, {seconds}s, {seconds * self.nodes}s, spread=1"
        if self.label:
            gang += f', on="{self.label}"'
        return f"deadline(atom({bundle}, {gang}), {end})"


def marked_words(script: str, mark: str) -> list[str]:
    """Return the options that a script's lines give, such as ``#SBATCH -N 2``.

    As sbatch does it: lines before the first command.

    Raises
    ------
    CliError
        For a quote that is not closed.
    """
    words: list[str] = []
    for number, line in enumerate(script.splitlines(), start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            break
        if text.startswith((f"#{mark} ", f"#{mark}\t")):
            try:
                words += shlex.split(text[len(mark) + 1 :], comments=True)
            except ValueError as error:
                raise CliError(f"line {number}: {error}") from error
    return words


def options_of(script: str) -> list[SbatchOption]:
    """Return sbatch's options in the lines of a script.

    Raises
    ------
    CliError
        As :func:`read_options`, or for a word that is no option.
    """
    words = marked_words(script, "SBATCH")
    options, place = read_options(words)
    if place < len(words):
        raise CliError(f"#SBATCH {words[place]}: this is no option")
    return options


def shape_of(options: Iterable[SbatchOption]) -> JobShape:
    """Return the shape that sbatch's options describe; of one given twice the last counts.

    Raises
    ------
    CliError
        For a value that cannot be read, or means what is not reserved.
    """
    given: dict[str, int] = {}
    label = ""
    for option in options:
        if option.name not in READ:
            continue
        try:
            if option.name == "constraint":
                label = _label(option.value)
                continue
            value = _READERS[option.name](option.value)
        except argparse.ArgumentTypeError as error:
            raise CliError(f"sbatch's option {option.written}: {error}") from error
        if option.name in _MEMORIES:
            given = {name: known for name, known in given.items() if name not in _MEMORIES}
        given[option.name] = value
    nodes = given.get("nodes", 1)
    tasks = given.get("ntasks-per-node") or -(-given.get("ntasks", nodes) // nodes)
    gpus = (
        given.get("gpus-per-node")
        or given.get("gres")
        or given.get("gpus-per-task", 0) * tasks
        or -(-given.get("gpus", 0) // nodes)
    )
    per_task = given.get("cpus-per-task", 1)
    cpus = max(tasks * per_task, given.get("cpus-per-gpu", 0) * gpus, given.get("mincpus", 0))
    memory = given.get("mem") or given.get("mem-per-cpu", 0) * cpus
    memory = memory or given.get("mem-per-gpu", 0) * gpus
    return JobShape(nodes, cpus, memory, gpus, given.get("time"), label)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def _mebibytes(text: str) -> int:
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no memory such as 4G")
    amount = ceil(float(found[1]) * _MIB[found[2].upper()])
    if not amount:
        why = "all memory of a node is not supported; write how much, such as 4G"
        raise argparse.ArgumentTypeError(f"{text!r}: {why}")
    return amount


def _gpus(text: str) -> int:
    """Return a number of GPUs; a type is refused, for machines of other types may be reserved."""
    if text.isdecimal():
        return int(text)
    why = "a type of GPUs is not reserved; write their number, and -C with a label of such nodes"
    raise argparse.ArgumentTypeError(f"{text!r}: {why}")


def _gres_gpus(text: str) -> int:
    """Return the GPUs of ``gpu`` or ``gpu:2``."""
    name, _, count = text.removeprefix("gres/").partition(":")
    if name != "gpu":
        why = "only GPUs are reserved; write such as gpu:2"
        raise argparse.ArgumentTypeError(f"{text!r}: {why}")
    return _gpus(count or "1")


def _label(text: str) -> str:
    """Return the label of the machines that have a feature, as `agenda import slurm` writes it."""
    if not _FEATURE.fullmatch(text):
        why = "one feature is a label of machines; counts, lists and alternatives are not reserved"
        raise argparse.ArgumentTypeError(f"{text!r}: {why}")
    return text


def time_limit_s(text: str) -> int:
    """Return the seconds of Slurm's ``minutes``, ``m:s``, ``h:m:s``, ``days-hours`` and so on."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in ([days] if dash else []) + parts) or len(parts) > 3:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90 or 1:30:00")
    numbers = [int(part) for part in parts]
    if dash:
        numbers += [0] * (3 - len(numbers))
        return 86_400 * int(days) + _sum(numbers)
    if len(numbers) == 1:
        return 60 * numbers[0]
    return _sum(numbers if len(numbers) == 3 else [0, *numbers])


def _sum(numbers: Sequence[int]) -> int:
    hours, minutes, seconds = numbers
    return 3600 * hours + 60 * minutes + seconds


_READERS: Final[Mapping[str, Callable[[str], int]]] = {
    **dict.fromkeys(
        ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mincpus"), _count
    ),
    **dict.fromkeys(_MEMORIES, _mebibytes),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task"), _gpus),
    "gres": _gres_gpus,
    "time": time_limit_s,
}
