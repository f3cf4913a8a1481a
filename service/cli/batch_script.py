"""Read the options of sbatch on a command line and in the lines of a batch script.

Options are read only as far as needed to find the script. What they demand is not interpreted here:
Slurm reports it for the job (`dispatch.backends.slurm.control`, `job_demand`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dispatch.backends.slurm.control.job_demand import JobDemand
from rdl.errors import did_you_mean
from rdl.resources import Resources
from service.cli.kit.errors import CliError


@dataclass(frozen=True, slots=True)
class SbatchOption:
    """An option as given on the command line.

    Attributes
    ----------
    name
        The long name, without dashes.
    value
        Empty for an option without a value.
    written
        As the user wrote it.
    place, count
        Index of its first word among all words, and the number of its words.
    """

    name: str
    value: str
    written: str
    place: int = 0
    count: int = 1


#: Short names; those whose long names are in `_NO_VALUE` or `_MAY_HAVE_VALUE` take no value.
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

#: Options that `agenda sbatch` itself passes to sbatch, or that submit no job, with what to do
#: instead.
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(_names("deadline hold reservation"), "is set by `agenda sbatch`; leave it out"),
    **dict.fromkeys(_names("help usage version"), "submits nothing; ask sbatch itself"),
}

#: Options that `agenda sbatch` carries out itself.
OWN: Final = _names("comment test-only")

#: All other options. What they demand is read from the job that sbatch creates.
_PASSED_ON: Final = _names(
    "account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters constraint "
    "container container-id contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu "
    "cpus-per-task delay-boot dependency distribution error exclude exclusive export export-file "
    "extra extra-node-info get-user-env gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket "
    "gpus-per-task gres gres-flags hint ignore-pbs input job-name kill-on-invalid-dep licenses "
    "mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice "
    "no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu "
    "ntasks-per-node ntasks-per-socket open-mode output overcommit oversubscribe parsable "
    "partition power prefer priority profile propagate qos quiet reboot requeue resv-ports segment "
    "signal sockets-per-node spread-job stepmgr switches thread-spec threads-per-core time "
    "time-min tmp tres-bind tres-per-task uid use-min-nodes verbose wait wait-all-nodes wckey wrap"
)

_KNOWN: Final = _PASSED_ON | OWN | _REFUSED.keys()


def read_options(words: Sequence[str]) -> tuple[list[SbatchOption], int]:
    """Return the options at the beginning of words, and the index of the first other word.

    As in sbatch, a long name may be abbreviated if it stays unambiguous, short options may be
    written together, and a value follows its option or is part of the same word. A word ``:``
    separates the options of two components of a job.

    Raises
    ------
    CliError
        If an option is unknown, ambiguous or refused, or lacks its value.
    """
    found: list[SbatchOption] = []
    place = 0
    while place < len(words):
        word = words[place]
        if word == ":":
            place += 1
            continue
        if word == "--":
            return found, place + 1
        if not word.startswith("-") or word == "-":
            break
        first, place = place, place + 1
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
            found.append(SbatchOption(name, value or "", written, first, place - first))
    return found, place


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


def marked_words(script: str, mark: str) -> list[str]:
    """Return the options that a script's lines give, such as ``#SBATCH -N 2``.

    As in sbatch, only lines before the first command count.

    Raises
    ------
    CliError
        If a quote is not closed.
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


def request_of(demands: Sequence[JobDemand], seconds: int, end: str, begin: str = "") -> str:
    """Return the request in RDL: a gang of distinct nodes for a duration, before a deadline.

    For an array, the request is for as many gangs as tasks may run at the same time, for as long
    as all tasks take on them. Licences are divided among the nodes, rounded up. The components of a
    job are members of a `together`, in their order.

    Parameters
    ----------
    demands
        One for each component of the job.
    seconds
        How long the job, or each task, runs.
    begin, end
        The window in which it runs, as times of RDL; an empty `begin` means now.
    """
    atoms = [_gang_of(demand, seconds) for demand in demands]
    work = atoms[0] if len(atoms) == 1 else f"together({', '.join(atoms)})"
    return f"window({work}, {begin}, {end})" if begin else f"deadline({work}, {end})"


def _gang_of(demand: JobDemand, seconds: int) -> str:
    memory = f", {demand.memory} MiB memory" if demand.memory else ""
    gpus = f", {demand.gpus} gpu" if demand.gpus else ""
    counts = ((name, -(-count // demand.nodes)) for name, count in demand.licenses)
    licenses = "".join(f", {count} {name}" for name, count in counts if count)
    bundle = f"<{demand.cpus} cpu{memory}{gpus}{licenses}>"
    nodes, length_s = demand.nodes * demand.throttle, seconds * demand.waves
    gang = f"{nodes}, {nodes}, {length_s}s, {length_s * nodes}s"
    if demand.nodes > 1 or demand.throttle == 1:  # tasks of one node may share it
        gang += ", spread=1"
    if demand.label:
        gang += f', on="{demand.label}"'
    return f"atom({bundle}, {gang})"


def check_licenses(demand: JobDemand, pools: Sequence[Mapping[str, Any]]) -> None:
    """Check that the cluster counts each licence that a job demands.

    Parameters
    ----------
    pools
        The pools of a cluster, as the server lists them.

    Raises
    ------
    CliError
        Naming the first licence without a pool.
    """
    known = [str(pool["name"]) for pool in pools]
    for name, _ in demand.licenses:
        if name not in known:
            hint = did_you_mean(name, known)
            raise CliError(
                f"--licenses={name}: the cluster has no pool of that name"
                f"{f'; {hint}' if hint else ''}; leave it out, or add it to the cluster's pools"
            )


def kept_apart(
    demands: Sequence[JobDemand], machines: Sequence[Mapping[str, Any]]
) -> list[JobDemand]:
    """Return demands of the components of a job of which no two fit on one node.

    Slurm starts no job of which components share a node. Those that would fit next to a component
    of more nodes get whole nodes; if their nodes may be of several sizes, that component does.

    Parameters
    ----------
    machines
        The machine groups of a cluster, as the server lists them.

    Raises
    ------
    CliError
        As for :func:`whole_nodes`, if neither can have whole nodes.
    """
    found: dict[int, JobDemand] = {}
    for index in sorted(range(len(demands)), key=lambda one: -demands[one].nodes):
        demand = demands[index]
        if near := [one for one in found if _may_share(demand, found[one], machines)]:
            try:
                demand = whole_nodes(demand, machines)
            except CliError:
                found |= {one: whole_nodes(found[one], machines) for one in near}
        found[index] = demand
    return [found[index] for index in range(len(demands))]


def _may_share(one: JobDemand, other: JobDemand, machines: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a node may have free capacity for both."""
    wanted = {
        "cpu": 1000 * (one.cpus + other.cpus),
        "memory": one.memory + other.memory,
        "gpu": one.gpus + other.gpus,
    }
    labels = {one.label, other.label} - {""}
    return any(
        labels <= {*group.get("labels", ())}
        and all(size.get(name, 0) >= amount for name, amount in wanted.items())
        for group in machines
        for size in (Resources.from_json(group["resources"]),)
    )


def whole_nodes(demand: JobDemand, machines: Sequence[Mapping[str, Any]]) -> JobDemand:
    """Return the demand of a job with exclusive nodes: everything that one node has.

    Parameters
    ----------
    machines
        The machine groups of a cluster, as the server lists them.

    Raises
    ------
    CliError
        If its nodes may be of several sizes, so that the capacity of one is unknown.
    """
    sizes = {
        tuple(sorted(Resources.from_json(group["resources"]).items()))
        for group in machines
        if group.get("count") and (not demand.label or demand.label in group.get("labels", ()))
    }
    fits = [dict(size) for size in sizes if dict(size).get("cpu", 0) >= 1000 * demand.cpus]
    if len(fits) != 1:
        raise CliError(
            "the job has whole nodes (--exclusive, --mem=0, or components that may share a node), "
            "and nodes are of several sizes; name a feature of nodes that are the same, such as "
            "--constraint=fat"
        )
    size = fits[0]
    cpus, memory = size.get("cpu", 0) // 1000, size.get("memory", 0)
    return replace(demand, cpus=cpus, memory=memory, gpus=size.get("gpu", 0))
