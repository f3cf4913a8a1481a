"""A batch script as `agenda sbatch` reads it: Agenda's own lines, and the shape of the job."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from service.cli.terminal.errors import CliError

#: Units of ``--mem`` in MiB; a bare number is one of them.
_MEMORY: Final = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}

#: Options of sbatch that `agenda sbatch` sets itself.
TAKEN: Final = ("--comment", "--reservation", "--hold", "-H", "--begin", "-b", "--deadline",
                "--array", "-a", "--nodelist", "-w", "--partition", "-p")  # fmt: skip


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
    """

    nodes: int
    cpus: int
    memory: int
    gpus: int
    limit_s: int | None

    def request(self, seconds: int, end: str) -> str:
        """Return the request in RDL: a gang of nodes side by side, before an instant."""
        memory = f", {self.memory} MiB memory" if self.memory else ""
        gpus = f", {self.gpus} gpu" if self.gpus else ""
        bundle = f"<{self.cpus} cpu{memory}{gpus}>"
        gang = f"{self.nodes}, {self.nodes}, {seconds}s, {seconds * self.nodes}s, spread=1"
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


class _OptionParser(argparse.ArgumentParser):
    """A parser whose mistakes are messages of the command."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong."""
        raise CliError(f"sbatch's options: {message}")


def shape_of(words: Iterable[str]) -> JobShape:
    """Return the shape that sbatch's options describe; options that say nothing of it are skipped.

    Raises
    ------
    CliError
        For one that cannot be read, or that `agenda sbatch` sets itself.
    """
    given = list(words)
    for word in given:
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if name in TAKEN:
            raise CliError(f"{name} is set by `agenda sbatch`; leave it out")
    parser = _OptionParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-N", "--nodes", type=_count, default=1)
    parser.add_argument("-n", "--ntasks", type=_count, default=None)
    parser.add_argument("--ntasks-per-node", type=_count, default=None)
    parser.add_argument("-c", "--cpus-per-task", type=_count, default=1)
    parser.add_argument("--mem", type=_mebibytes, default=0)
    parser.add_argument("--mem-per-cpu", type=_mebibytes, default=0)
    parser.add_argument("--gpus-per-node", type=_gpus, default=0)
    parser.add_argument("--gpus-per-task", type=_gpus, default=0)
    parser.add_argument("-G", "--gpus", type=_gpus, default=0)
    parser.add_argument("--gres", type=_gres_gpus, default=0)
    parser.add_argument("-t", "--time", type=time_limit_s, default=None)
    found, _ = parser.parse_known_args(given)
    tasks = found.ntasks_per_node or -(-(found.ntasks or found.nodes) // found.nodes)
    cpus = tasks * found.cpus_per_task
    memory = found.mem or found.mem_per_cpu * cpus
    gpus = (
        found.gpus_per_node
        or found.gres
        or found.gpus_per_task * tasks
        or -(-found.gpus // found.nodes)
    )
    return JobShape(found.nodes, cpus, memory, gpus, found.time)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def _mebibytes(text: str) -> int:
    unit = text[-1:].upper()
    digits, factor = (text[:-1], _MEMORY[unit]) if unit in _MEMORY else (text, 1.0)
    if not digits.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no memory such as 4G")
    return -int(-int(digits) * factor // 1)


def _gpus(text: str) -> int:
    """Return the GPUs of ``2``, ``a100:2`` or ``a100:1,v100:1``."""
    counts = (part.rpartition(":")[2] for part in text.split(","))
    return sum(int(count) if count.isdecimal() else 1 for count in counts)


def _gres_gpus(text: str) -> int:
    """Return the GPUs of ``gpu:a100:2,fpga:1``: other devices are none."""
    names = (part.removeprefix("gres/") for part in text.split(","))
    return sum(_gpus(name) for name in names if name.split(":")[0] == "gpu")


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
