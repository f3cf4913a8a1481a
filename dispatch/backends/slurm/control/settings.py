"""SlurmSettings: the file that configures which Slurm Agenda uses, and with what limits."""

from __future__ import annotations

import os
import pwd
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from dispatch.backends.slurm.control.errors import SlurmError
from rdl.errors import did_you_mean
from rdl.text_file import TextError, text_of

#: Valid names of prefixes, partitions and nodes: they become command arguments.
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def _own_name() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """Settings of a Slurm: partitions, nodes, names and times.

    Attributes
    ----------
    machines
        Name of the Slurm node of each machine of the cluster file.
    promised, best_effort
        Partitions of components that an entitlement covers, and of all others.
    prefix
        Prefix of the names of jobs and reservations; services that share a Slurm need different
        ones.
    user
        User who runs the commands.
    directory
        Working directory of components; on every node.
    logs
        Folder for what components write, which every node and every server has at the same path;
        empty: they write to `directory`, and it is not read.
    poll_s
        Least pause between two reads of Slurm.
    ahead_s
        How long before their start reservations are made in Slurm.
    start_s
        Time after which a component that Slurm has not started counts as lost.
    licenses
        Resources that are licenses in Slurm: pools of the cluster file.
    """

    machines: Mapping[str, str]
    promised: str
    best_effort: str
    prefix: str = "agenda"
    user: str = field(default_factory=_own_name)
    directory: str = "/tmp"
    poll_s: float = 1.0
    ahead_s: float = 3600.0
    start_s: float = 300.0
    licenses: tuple[str, ...] = ()
    logs: str = ""


def read_settings(path: Path | str) -> SlurmSettings:
    """Read a settings file (TOML).

    Raises
    ------
    SlurmError
        With every problem: the key, and a valid value.
    """
    try:
        found = tomllib.loads(text_of(Path(path).read_bytes()))
    except (OSError, TextError, tomllib.TOMLDecodeError) as error:
        raise SlurmError(f"{path}: {error}") from error
    problems = _problems(found)
    if problems:
        raise SlurmError("\n".join(f"{path}: {one}" for one in problems))
    found["licenses"] = tuple(found.get("licenses", ()))
    return SlurmSettings(**found)


def _problems(found: Mapping[str, Any]) -> list[str]:
    known = {one.name: one for one in fields(SlurmSettings)}
    problems = [
        f"unknown key {name!r}{_hint(name, list(known))}" for name in found if name not in known
    ]
    problems += [f"no key {name!r}; {what}" for name, what in _NEEDED.items() if name not in found]
    for name, value in found.items():
        if name in _CHECKS and (why := _CHECKS[name](value)):
            problems.append(f"{name} {why}")
    return problems


def _hint(name: str, known: list[str]) -> str:
    nearest = did_you_mean(name, known)
    return f"; {nearest}" if nearest else ""


_NEEDED: Final = {
    "machines": "write a table [machines] with one line for each machine: plain-0 = 'node17'",
    "promised": "name the partition of promised work",
    "best_effort": "name the partition of work that may be preempted",
}


def _word(value: Any) -> str:
    good = isinstance(value, str) and _WORD.fullmatch(value)
    return "" if good else f"is a name such as 'agenda', not {value!r}"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and value else f"is text, not {value!r}"


def _folder(value: Any) -> str:
    good = isinstance(value, str) and value.startswith("/") and "%" not in value
    return "" if good else f"is a folder such as '/shared/logs', not {value!r}"


def _seconds(least: float) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        good = is_number and least <= value <= 365 * 86_400
        return "" if good else f"is a number of seconds, at least {least:g}, not {value!r}"

    return check


def _machines(value: Any) -> str:
    if not isinstance(value, Mapping) or not value:
        return f"is a table of machines and nodes, not {value!r}"
    bad = [name for name, node in value.items() if _word(node)]
    if bad:
        return f"names no node for {bad[0]!r}: {value[bad[0]]!r}"
    nodes = list(value.values())
    twice = sorted({node for node in nodes if nodes.count(node) > 1})
    return f"names the node {twice[0]} twice" if twice else ""


def _words(value: Any) -> str:
    good = isinstance(value, list) and not any(_word(one) for one in value)
    return "" if good else f"is a list of names such as ['matlab'], not {value!r}"


_CHECKS: Final[dict[str, Callable[[Any], str]]] = {
    "machines": _machines,
    "promised": _word,
    "best_effort": _word,
    "prefix": _word,
    "user": _word,
    "directory": _text,
    "poll_s": _seconds(0.05),
    "ahead_s": _seconds(1),
    "start_s": _seconds(1),
    "licenses": _words,
    "logs": _folder,
}
