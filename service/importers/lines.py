"""What every importer makes: workload lines, a cluster to plan them on, and what was left out."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rdl.text_file import TextError, text_of

#: The container of the models of MapReduce jobs: one core and 2 GiB.
CONTAINER: Mapping[str, object] = {"cpu": 1, "memory": "2 GiB"}
CONTAINER_MEMORY_GIB = 2

#: Latest deadline that is believed, some thirty years; a record that needs longer is at fault, and
#: one of them would make a cluster of the whole trace that no plan can hold.
LONGEST_S = 10**9

#: Largest number that a column of a trace can mean: bytes of a petabyte.
LARGEST = 10**15


class TraceError(ValueError):
    """A trace that cannot be read; the message names the line and what would be right."""


@dataclass(frozen=True, slots=True)
class TraceMachines:
    """The machines a trace is modelled for, all identical.

    Attributes
    ----------
    machines, cores, memory_gib
        Number of machines, and cores and memory of each.
    """

    machines: int
    cores: int
    memory_gib: int

    @property
    def containers(self) -> int:
        """How many containers of `CONTAINER` the machines hold at once."""
        return self.machines * min(self.cores, self.memory_gib // CONTAINER_MEMORY_GIB)


@dataclass(frozen=True, slots=True)
class Slack:
    """Deadline slack, uniform in [low, high) times the time a job needs alone.

    No trace records deadlines, so this is our model and is named so wherever it is used.
    """

    low: float = 0.1
    high: float = 3.0

    def draw(self, generator: np.random.Generator) -> float:
        """Return one slack; one call draws exactly one number."""
        return self.low + (self.high - self.low) * float(generator.random())


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that became no request, and why."""

    line: int
    why: str


class Omissions:
    """Records of a trace that are left out, and why.

    A record that cannot be read ends nothing else, unless it is so with every record: then the file
    is of another format.
    """

    def __init__(self) -> None:
        self.skipped: list[Skipped] = []
        self._read = 0
        self._first_error: TraceError | None = None

    def add(self, line: int, why: str) -> None:
        """Leave out a record that can be read."""
        self.skipped.append(Skipped(line, why))

    @contextmanager
    def reading(self, line: int) -> Iterator[None]:
        """Inside, a TraceError leaves out the record of this line."""
        try:
            yield
            self._read += 1
        except TraceError as error:
            self.fail(line, error)

    def fail(self, line: int, error: TraceError) -> None:
        """Leave out a record that cannot be read."""
        self._first_error = self._first_error or error
        why = str(error)
        for word in ("line", "application"):
            why = why.removeprefix(f"{word} {line}: ")
        self.skipped.append(Skipped(line, why))

    def finish(self) -> tuple[Skipped, ...]:
        """Return what was left out, by line.

        Raises
        ------
        TraceError
            The first one, if no record could be read.
        """
        if self._first_error is not None and not self._read:
            raise self._first_error
        return tuple(sorted(self.skipped, key=lambda one: one.line))


@dataclass(frozen=True, slots=True)
class Imported:
    """The requests of a trace.

    Attributes
    ----------
    lines
        Workload lines in order of the trace, as files.md writes them.
    step_s
        The step the deadlines were computed on, in seconds.
    end_s
        The last deadline, in seconds from the origin; a horizon must reach it.
    skipped
        Records left out.
    typical_s
        Median duration of the tasks, in seconds; None if the trace has no tasks, or no request
        came of it.
    """

    lines: tuple[dict[str, object], ...]
    step_s: int
    end_s: int
    skipped: tuple[Skipped, ...] = field(default=())
    typical_s: float | None = None


class Names:
    """The ids of a workload while it is written: each once, because a workload has each once."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def why_not(self, name: str, line: int, end_s: int) -> str | None:
        """Take an id in; return why its record becomes no request, or None if it does."""
        if not name:
            return "the job has no name"
        if end_s > LONGEST_S:
            return f"{name} would have its deadline after {end_s} s, more than {LONGEST_S}"
        first = self._lines.setdefault(name, line)
        return None if first == line else f"{name} is there already, on line {first}"


def open_trace(path: str) -> Iterator[str]:
    """Yield the lines of a text file, gzipped or not; ``-`` is standard input.

    Raises
    ------
    TraceError
        If the file is not there, or is not text.
    """
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        text = text_of(raw)
    except OSError as error:
        raise TraceError(str(error.strerror or error)) from error
    except (TextError, EOFError) as error:
        raise TraceError(f"not text, plain or gzipped ({error})") from error
    yield from io.StringIO(text)


def to_json_lines(lines: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield each workload line as one line of JSON, compact and newline-terminated."""
    for line in lines:
        yield json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n"


def cluster_toml(
    pool: TraceMachines, imported: Imported, *, comment: str, origin: str | None = None
) -> str:
    """Return the text of a cluster file with one group of machines.

    The horizon is the last deadline, rounded up to a whole number of steps.
    """
    horizon = max(1, -(-imported.end_s // imported.step_s)) * imported.step_s
    day = f'origin = "{origin}"\n' if origin else ""
    names = sorted({str(line["queue"]) for line in imported.lines if "queue" in line})
    queues = "".join(f"\n[[queues]]\nname = {json.dumps(name)}\n" for name in names)
    return (
        f'# {comment}\nstep = "{imported.step_s}s"\nhorizon = "{horizon}s"\n{day}\n'
        f'[[machines]]\nname = "standard"\ncount = {pool.machines}\n'
        f'resources = {{ cpu = {pool.cores}, memory = "{pool.memory_gib} GiB" }}\n{queues}'
    )


def task_atom(tasks: int, lease_s: int, most: int) -> dict[str, object]:
    """Return the RDL of `tasks` equal tasks of `lease_s` seconds, at most `most` at once.

    Work is a whole number of leases, so it stays reachable on any grid (joint rounding).
    """
    return {
        "atom": {
            "bundle": dict(CONTAINER),
            "min": 1,
            "max": min(tasks, most),
            "lease": lease_s,
            "work": tasks * lease_s,
        }
    }


def window_text(start_s: int, end_s: int, of: object) -> dict[str, object]:
    """Return the RDL of `of` within [start_s, end_s), seconds from the origin."""
    return {"window": {"start": start_s, "end": end_s, "of": of}}
