"""Results of all importers: workload lines, a cluster to plan them on, and skipped records."""

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

#: The container in the models of MapReduce jobs: one core and 2 GiB.
CONTAINER: Mapping[str, object] = {"cpu": 1, "memory": "2 GiB"}
CONTAINER_MEMORY_GIB = 2

#: Latest plausible deadline, some thirty years; a later one is an error, and a single one would
#: make the horizon of the whole trace's cluster too long for any plan.
LONGEST_S = 10**9

#: Largest plausible number in a column of a trace: the bytes of a petabyte.
LARGEST = 10**15


class TraceError(ValueError):
    """A trace that cannot be read; the message has the line and the correction."""


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
        """The number of `CONTAINER` that fit on the machines at the same time."""
        return self.machines * min(self.cores, self.memory_gib // CONTAINER_MEMORY_GIB)


@dataclass(frozen=True, slots=True)
class Slack:
    """Deadline slack, uniform in [low, high) times the time that a job takes alone.

    Traces do not record deadlines, so this is a model of our own.
    """

    low: float = 0.1
    high: float = 3.0

    def draw(self, generator: np.random.Generator) -> float:
        """Draw one slack; each call draws exactly one number."""
        return self.low + (self.high - self.low) * float(generator.random())


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that was skipped, and the reason."""

    line: int
    why: str


class Omissions:
    """Skipped records of a trace, with reasons.

    A record that cannot be read is skipped, unless no record can be read: then the file has
    another format.
    """

    def __init__(self) -> None:
        self.skipped: list[Skipped] = []
        self._read = 0
        self._first_error: TraceError | None = None

    def add(self, line: int, why: str) -> None:
        """Skip a record that can be read."""
        self.skipped.append(Skipped(line, why))

    @contextmanager
    def reading(self, line: int) -> Iterator[None]:
        """Within the context, a TraceError skips the record of this line."""
        try:
            yield
            self._read += 1
        except TraceError as error:
            self.fail(line, error)

    def fail(self, line: int, error: TraceError) -> None:
        """Skip a record that cannot be read."""
        self._first_error = self._first_error or error
        why = str(error)
        for word in ("line", "application"):
            why = why.removeprefix(f"{word} {line}: ")
        self.skipped.append(Skipped(line, why))

    def finish(self) -> tuple[Skipped, ...]:
        """Return the skipped records by line.

        Raises
        ------
        TraceError
            If no record could be read: the first error.
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
        The step of the grid on which deadlines were computed, in seconds.
    end_s
        The last deadline, in seconds from the origin; a horizon must reach it.
    skipped
        Skipped records.
    typical_s
        Median duration of the tasks, in seconds; None if the trace has no tasks or gave no request.
    """

    lines: tuple[dict[str, object], ...]
    step_s: int
    end_s: int
    skipped: tuple[Skipped, ...] = field(default=())
    typical_s: float | None = None


class Names:
    """The ids of a workload while it is written, to keep them unique."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def why_not(self, name: str, line: int, end_s: int) -> str | None:
        """Add an id; return why its record must be skipped, or None if it becomes a request."""
        if not name:
            return "the job has no name"
        if end_s > LONGEST_S:
            return f"{name} would have a deadline after {end_s} s, more than {LONGEST_S}"
        first = self._lines.setdefault(name, line)
        return None if first == line else f"{name} is already on line {first}"


def open_trace(path: str) -> Iterator[str]:
    """Yield the lines of a text file, gzipped or not; ``-`` is standard input.

    Raises
    ------
    TraceError
        If the file is missing, or is not text.
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
    """Return the RDL of `tasks` equal tasks of `lease_s` seconds, at most `most` at a time.

    Work is a whole number of leases, so it can be reached exactly on any grid (joint rounding).
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
