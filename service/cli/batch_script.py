"""A batch script as `agenda sbatch` reads it: options, Agenda's own lines, the shape of the job."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from service.cli.kit.errors import CliError


@dataclass(frozen=True, slots=True)
class SbatchOption:
    """An option as it was given.

    Attributes
    ----------
    name
        Its long name, without dashes.
    value
        Empty for an option without one.
    written
        As the user wrote it.
    """

    name: str
    value: str
    written: str


#: Short names; those behind `_NO_VALUE` or `_MAY_HAVE_VALUE` by their long names take none.
_SHORT: Final = {
    "A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint",
    "c": "cpus-per-task", "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile",
    "G": "gpus", "H": "hold", "h": "help", "i": "input", "J": "job-name", "k": "no-kill",
    "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes", "n": "ntasks",
    "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos",
    "S": "core-spec", "s": "oversubscribe", "t": "time", "V": "version", "v": "verbose",
    "W": "wait", "w": "nodelist", "x": "exclude",
}  # fmt: skip


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NO_VALUE: Final = _names(
    "contiguous help hold ignore-pbs no-requeue overcommit oversubscribe parsable quiet reboot "
    "requeue spread-job stepmgr test-only use-min-nodes usage verbose version wait"
)
#: A value of these is written after ``=`` only.
_MAY_HAVE_VALUE: Final = _names("exclusive get-user-env nice no-kill propagate")

#: What a reservation is made of.
READ: Final = _names(
    "constraint cpus-per-gpu cpus-per-task gpus gpus-per-node gpus-per-task gres mem mem-per-cpu "
    "mem-per-gpu mincpus nodes ntasks ntasks-per-node time"
)

#: What changes nothing of what a job needs, or needs less than is reserved.
_HARMLESS: Final = _names(
    "account acctg-freq chdir container container-id cpu-freq delay-boot distribution error export "
    "export-file extra get-user-env gid gpu-bind gpu-freq ignore-pbs input job-name "
    "kill-on-invalid-dep mail-type mail-user mcs-label mem-bind nice no-kill no-requeue open-mode "
    "output overcommit oversubscribe parsable prefer priority profile propagate qos quiet requeue "
    "signal stepmgr tres-bind uid verbose wait wait-all-nodes wckey"
)

#: What `agenda sbatch` gives sbatch by itself.
_OWN: Final = _names("begin comment deadline hold nodelist partition reservation")

#: What a job may need, and no reservation has.
_NOT_RESERVED: Final = _names(
    "batch bb bbf cluster-constraint clusters contiguous core-spec cores-per-socket dependency "
    "exclude extra-node-info gpus-per-socket gres-flags hint licenses network nodefile "
    "ntasks-per-core ntasks-per-gpu ntasks-per-socket power reboot resv-ports segment "
    "sockets-per-node spread-job switches thread-spec threads-per-core time-min tmp tres-per-task "
    "use-min-nodes"
)

#: Options that are refused, and why.
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(_OWN, "is set by `agenda sbatch`; leave it out"),
    **dict.fromkeys(
        _NOT_RESERVED,
        "is not reserved by `agenda sbatch`; leave it out, or reserve with `agenda submit`",
    ),
    **dict.fromkeys(_names("help usage version test-only"), "submits nothing; ask sbatch itself"),
    "array": "is not supported: a reservation is for one job; submit each by itself",
    "exclusive": "is not supported; write what a whole node has, with -c and --mem",
    "wrap": "is not supported; name a script",
}

_KNOWN: Final = READ | _HARMLESS | _REFUSED.keys()

#: Variables of sbatch whose names are not those of options; they change nothing of a job's needs.
_HARMLESS_VARIABLES: Final = frozenset({"debug", "cpu-freq-req"})


def read_options(words: Sequence[str]) -> tuple[list[SbatchOption], int]:
    """Return the options at the beginning of words, and where the first other word is.

    As sbatch does it: long names may be cut short where one option begins so, short ones may be
    written together, and a value follows or is part of the word.

    Raises
    ------
    CliError
        For an option that is unknown, ambiguous or refused, or that lacks its value.
    """
    found: list[SbatchOption] = []
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--":
            return found, place + 1
        if not word.startswith("-") or word == "-":
            break
        place += 1
        given: list[tuple[str, str, str | None]]
        if word.startswith("--"):
            text, mark, after = word[2:].partition("=")
            given = [(_full_name(text), f"--{text}", after if mark else None)]
        else:
            given = list(_short_options(word))
        for name, written, value in given:
            takes = name not in _NO_VALUE | _MAY_HAVE_VALUE
            if value is not None and name in _NO_VALUE:
                raise CliError(f"sbatch's option {written} takes no value")
            if value is None and takes:
                if place == len(words):
                    raise CliError(f"sbatch's option {written} needs a value")
                value, place = words[place], place + 1
            if name in _REFUSED:
                raise CliError(f"sbatch's option {written} {_REFUSED[name]}")
            found.append(SbatchOption(name, value or "", written))
    return found, place


def check_environment(environment: Iterable[str]) -> None:
    """Refuse variables that sbatch would read as options that nobody has looked at.

    Raises
    ------
    CliError
        For the first of them.
    """
    for variable in sorted(environment):
        head, mark, rest = variable.partition("SBATCH_")
        name = rest.lower().replace("_", "-")
        if not head and mark and name not in _HARMLESS | _HARMLESS_VARIABLES:
            raise CliError(
                f"the variable {variable} is an option of sbatch; unset it and write the option"
            )


def _full_name(text: str) -> str:
    if text in _KNOWN:
        return text
    names = sorted(name for name in _KNOWN if text and name.startswith(text))
    if len(names) == 1:
        return names[0]
    if names:
        raise CliError(f"sbatch's option --{text} may be --{', --'.join(names)}; write one of them")
    raise CliError(f"sbatch's option --{text} is not known to `agenda sbatch`; leave it out")


def _short_options(word: str) -> Iterable[tuple[str, str, str | None]]:
    """Yield name, text and value of the options of a word such as ``-N2`` or ``-Qv``."""
    rest = word[1:]
    while rest:
        letter, rest = rest[0], rest[1:]
        if letter not in _SHORT:
            raise CliError(f"sbatch's option -{letter} is not known to `agenda sbatch`")
        name = _SHORT[letter]
        if name in _NO_VALUE or name in _MAY_HAVE_VALUE:
            yield name, f"-{letter}", None
        else:
            yield name, f"-{letter}", rest or None
            return


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
