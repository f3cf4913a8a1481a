"""Cluster files: TOML in, `Cluster` out; `cluster_writer` goes back."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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
from planner.files.errors import FileError, FileProblem
from planner.files.schema import schema_problems
from planner.policy import DAYS, CapacityOverTime, Policy, Quota, RequestLimits, Scope
from rdl.durations import (
    TimeTextError,
    parse_rfc3339,
    read_duration,
    read_instant,
    rfc3339_text,
)
from rdl.expressions import Absolute, Offset
from rdl.resources import AmountError, Resources, canonical_resource
from rdl.time_grid import duration_text

_TOML_LINE = re.compile(r"\(at line (\d+), column (\d+)\)\Z")


def read_cluster(path: str | Path) -> Cluster:
    """Read a cluster file.

    Raises
    ------
    FileError
        With every problem, each with its pointer (the line, for broken TOML).
    OSError
        If the file cannot be opened.
    """
    document = read_toml(path)
    return cluster_from_json(document, str(path))


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


class _Reader:
    """Turns a document that has the right form into a Cluster, keeping what is wrong."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.problems: list[FileProblem] = []
        self.origin: datetime | None = None

    def cluster(self) -> Cluster | None:
        """Return the cluster, or None with `problems` filled."""
        document = self.document
        self.origin = self._origin()
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

    def _problem(self, pointer: str, message: str, fix: str | None = None) -> None:
        self.problems.append(FileProblem(message, pointer, fix=fix))

    def _origin(self) -> datetime | None:
        raw = self.document.get("origin")
        if raw is None:
            return None
        try:
            return parse_rfc3339(raw)
        except TimeTextError as error:
            self._problem("/origin", error.message, error.fix)
            return None

    def _duration(self, pointer: str, raw: object) -> int:
        try:
            return read_duration(raw)
        except TimeTextError as error:
            self._problem(pointer, error.message, error.fix)
            return 1

    def _instant(self, pointer: str, raw: object) -> int:
        try:
            instant = read_instant(raw)
        except TimeTextError as error:
            self._problem(pointer, error.message, error.fix)
            return 0
        match instant:
            case Offset(ms=ms):
                return ms
            case Absolute(at=at) if self.origin is not None:
                return round((at - self.origin).total_seconds() * 1000)
            case Absolute():
                self._problem(pointer, "an instant needs the cluster's origin", "give an origin")
            case _:
                self._problem(pointer, "a cluster has no submission to count from", "drop the '+'")
        return 0

    def _amounts(self, pointer: str, raw: object, *, round_up: bool) -> Resources:
        try:
            return Resources.from_json(raw, round_up=round_up)
        except AmountError as error:
            self._problem(pointer, str(error))
            return Resources()

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

    def _policy(self, at: str, entry: Mapping[str, Any], step: int) -> Policy | None:
        index = at.rpartition("/")[2]
        name = entry.get("name", f"{entry['type']}-{index}")
        scope = Scope(entry.get("tenant"), entry.get("queue"))
        match entry["type"]:
            case "capacity_over_time":
                return self._capacity_over_time(at, entry, name, scope, step)
            case "quota":
                return self._quota(at, entry, name, scope)
            case _:
                longest, least, most = (
                    self._duration(f"{at}/{key}", entry[key]) if key in entry else None
                    for key in ("max_window", "min_lead", "max_lead")
                )
                return RequestLimits(name, scope, longest, least, most, entry.get("max_count"))

    def _capacity_over_time(
        self, at: str, entry: Mapping[str, Any], name: str, scope: Scope, step: int
    ) -> CapacityOverTime:
        average, window = entry.get("average"), entry.get("window")
        if (average is None) != (window is None):
            self._problem(at, "an average and its window come together")
        if average is None and "instant" not in entry:
            self._problem(at, "neither instant nor average is given, so nothing is limited")
        window_ms = None if window is None else self._duration(f"{at}/window", window)
        if window_ms is not None and (window_ms < step or window_ms % step):
            message = f"the window {duration_text(window_ms)} is not a multiple of the step"
            self._problem(f"{at}/window", message, f"a step is {duration_text(step)}")
        return CapacityOverTime(
            name, scope, _share(entry.get("instant")), _share(average), window_ms
        )

    def _quota(self, at: str, entry: Mapping[str, Any], name: str, scope: Scope) -> Quota:
        limit = self._limit(f"{at}/limit", entry["limit"])
        if ("from" in entry) != ("to" in entry):
            self._problem(at, "from and to come together")
        zone = entry.get("zone", "UTC")
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self._problem(f"{at}/zone", f"unknown zone {zone!r}", "write one such as Europe/Paris")
        start, end = (
            time.fromisoformat(entry[key]) if key in entry else None for key in ("from", "to")
        )
        days = frozenset(DAYS.index(day) for day in entry.get("days", ()))
        return Quota(name, scope, limit, start, end, days, zone)

    def _limit(self, pointer: str, raw: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
        """Return the amounts of a quota; a zero counts here, it forbids the resource."""
        amounts = self._amounts(pointer, raw, round_up=False)
        if any(problem.pointer == pointer for problem in self.problems):
            return ()
        return tuple((name, amounts.get(name, 0)) for name in sorted(map(canonical_resource, raw)))


def _share(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(repr(value))
