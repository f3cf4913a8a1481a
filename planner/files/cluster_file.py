"""Cluster files: TOML in, `Cluster` out; `cluster_writer` goes back."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from planner.cluster import (
    DAY_MS,
    DEFAULT_QUEUE,
    OUTAGE_KINDS,
    Cluster,
    ClusterError,
    MachineGroup,
    Outage,
    Price,
    Queue,
)
from planner.cluster_cost import MOST_NAMED, excesses
from planner.files.errors import FileError, FileProblem
from planner.files.policy_reader import PolicyReader
from planner.files.schema import schema_problems
from rdl.durations import rfc3339_text

_TOML_LINE = re.compile(r"\(at line (\d+), column (\d+)\)\Z")


def read_cluster(path: str | Path) -> Cluster:
    """Read a cluster file.

    Raises
    ------
    FileError
        With every problem, each with its pointer (the line, for broken TOML).
        Too many machines or steps to plan on are a problem too (`planner.cluster_cost`).
    OSError
        If the file cannot be opened.
    """
    cluster = cluster_from_json(read_toml(path), str(path))
    beyond = tuple(FileProblem(one.message, one.pointer, fix=one.fix) for one in excesses(cluster))
    if beyond:
        raise FileError(str(path), beyond)
    return cluster


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file as plain JSON values; dates become RFC 3339 text.

    Raises
    ------
    FileError
        If it is not TOML; the problem names the line.
    """
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        problem = FileProblem(f"not UTF-8 text: {error.reason}", fix="save it as UTF-8")
        raise FileError(str(path), (problem,)) from error
    except tomllib.TOMLDecodeError as error:
        match = _TOML_LINE.search(str(error))
        message = f"not TOML: {_TOML_LINE.sub('', str(error)).strip()}"
        line = int(match[1]) if match else None
        raise FileError(str(path), (FileProblem(message, line=line),)) from error
    plain = _plain(document)
    assert isinstance(plain, dict)
    return plain


def _plain(value: object) -> object:
    match value:
        case dict():
            return {key: _plain(entry) for key, entry in value.items()}
        case list():
            return [_plain(entry) for entry in value]
        case datetime():
            return rfc3339_text(value) if value.tzinfo else value.isoformat()
        case date() | time():
            return value.isoformat()
        case _:
            return value


def cluster_from_json(document: object, path: str = "cluster") -> Cluster:
    """Read a cluster from plain JSON values (parsed TOML, or the ``cluster`` of a plan).

    Raises
    ------
    FileError
        With every problem and its pointer; `path` is the name it goes by.
    """
    problems = schema_problems(document, "cluster")
    if problems:
        raise FileError(path, tuple(problems))
    assert isinstance(document, Mapping)
    reader = _Reader(document)
    cluster = reader.cluster()
    if cluster is None:
        raise FileError(path, tuple(reader.problems))
    return cluster


class _Reader(PolicyReader):
    """Turns a document that has the right form into a Cluster, keeping what is wrong."""

    def cluster(self) -> Cluster | None:
        """Return the cluster, or None with `problems` filled."""
        document = self.document
        self.origin = self._origin()
        self._named = 0
        step = self._duration("/step", document["step"])
        horizon = self._duration("/horizon", document["horizon"])
        max_period = self._duration("/max_period", document.get("max_period", DAY_MS // 1000))
        if step < 1:
            self._problem("/step", "a step must be longer than nothing")
            step = 1  # so that the rest can be read, and its problems told too
        machines = tuple(self._each("machines", self._machines))
        outages = tuple(o for o in self._each("outages", self._outage, machines) if o is not None)
        queues = tuple(
            Queue(entry["name"], entry.get("reservable", True))
            for entry in document.get("queues", ({"name": DEFAULT_QUEUE},))
        )
        prices = tuple(self._each("prices", self._price))
        self._scopes({queue.name for queue in queues})
        policies = tuple(p for p in self._each("policies", self._policy, step) if p is not None)
        if self.problems:
            return None
        try:
            cluster = Cluster(
                step, horizon, machines, self.origin, max_period, outages, queues, prices, policies
            )
        except ClusterError as error:
            self._problem("/", str(error))
            return None
        return cluster

    def _each(self, key: str, read: Any, *more: Any) -> list[Any]:
        entries = self.document.get(key, ())
        return [read(f"/{key}/{index}", entry, *more) for index, entry in enumerate(entries)]

    def _machines(self, at: str, entry: Mapping[str, Any]) -> MachineGroup:
        amounts = self._amounts(f"{at}/resources", entry["resources"], round_up=False)
        labels = frozenset(entry.get("labels", ()))
        return MachineGroup(entry["name"], int(entry["count"]), amounts, labels)

    def _outage(
        self, at: str, entry: Mapping[str, Any], machines: tuple[MachineGroup, ...]
    ) -> Outage | None:
        start = self._instant(f"{at}/start", entry["start"])
        end = self._instant(f"{at}/end", entry["end"])
        self._in_order(f"{at}/end", "outage", start, end)
        group = next((g for g in machines if g.name == entry["machines"]), None)
        if group is None:
            known = ", ".join(g.name for g in machines)
            message = f"no machines are called {entry['machines']!r}"
            self._problem(f"{at}/machines", message, f"known are {known}")
            return None
        if ("count" in entry) == ("names" in entry):
            self._problem(at, "an outage has either a count or names")
            return None
        if "count" in entry:
            if entry["count"] > group.count:
                self._problem(f"{at}/count", f"{group.name} has only {group.count} machines")
            highest = range(max(0, group.count - int(entry["count"])), group.count)
            self._named += len(highest)
            if self._named > MOST_NAMED:
                self._problem(
                    f"{at}/count",
                    f"outages name {self._named:,} machines up to here",
                    f"at most {MOST_NAMED:,} can be read",
                )
                return None
            indices = tuple(highest)
        else:
            indices = self._indices(at, entry["names"], group)
        return Outage(group.name, indices, start, end, entry.get("kind", OUTAGE_KINDS[0]))

    def _in_order(self, at: str, what: str, start: int, end: int) -> None:
        """Note an interval of no length; instants that could not be read are told of already."""
        if end <= start and not self.problems:
            said = "ends before it starts" if end < start else "ends where it starts: no length"
            self._problem(at, f"the {what} {said}", "write an end after its start")

    def _indices(self, at: str, names: list[str], group: MachineGroup) -> tuple[int, ...]:
        found: set[int] = set()
        for index, name in enumerate(names):
            prefix, _, digits = name.rpartition("-")
            inside = digits.isdecimal() and digits.isascii() and int(digits) < group.count
            if prefix != group.name or not inside:
                fix = f"machines are {group.name}-0 to {group.name}-{group.count - 1}"
                self._problem(f"{at}/names/{index}", f"no machine is called {name!r}", fix)
            else:
                found.add(int(digits))
        return tuple(sorted(found))

    def _price(self, at: str, entry: Mapping[str, Any]) -> Price:
        start = self._instant(f"{at}/start", entry["start"])
        end = self._instant(f"{at}/end", entry["end"])
        self._in_order(f"{at}/end", "price", start, end)
        return Price(start, end, float(entry["factor"]))
