"""The options of sbatch: which there are, how they are written, and what they are to a reservation.

An option is read, harmless, or refused by name. One that is not known here is refused too: it may
ask for something that would not be reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service.cli.terminal.errors import CliError


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
