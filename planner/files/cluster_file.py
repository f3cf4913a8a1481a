"""Read cluster files from TOML; `cluster_writer` writes them as plain JSON."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from planner.cluster.cluster import (
    BY_MACHINES,
    DAY_MS,
    DEFAULT_QUEUE,
    NO_MEMORY,
    OUTAGE_KINDS,
    RESERVED,
    SPARE,
    Calendar,
    Cluster,
    ClusterError,
    MachineGroup,
    Outage,
    Pool,
    Price,
    Queue,
    Taken,
    outage_id,
    split_machine,
)
from planner.cluster.cost import MOST_NAMED, excesses
from planner.cluster.dispatch_policy import DispatchPolicy, DispatchPolicyError, complete_words
from planner.cluster.optimization_schedule import OptimizationSchedule
from planner.cluster.policy import DAYS
from planner.cluster.recurrence import Recurrence
from planner.files.errors import FileError, FileProblem
from planner.files.policy_reader import PolicyReader
from planner.files.schema import schema_problems
from planner.files.value_reader import JsonValueReader, with_calendar_files
from planner.promise import PromiseLevel
from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.durations import rfc3339_text
from rdl.errors import did_you_mean
from rdl.operators import ArgumentError, check_name, dates_of, month_day_of, months_of
from rdl.resources import CPU, MEMORY, AmountError, Resources, canonical_resource
from rdl.text_file import TextError, text_of
from rdl.time_grid import duration_text

_MACHINE_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_TOML_LINE = re.compile(r"\(at line (\d+), column (\d+)\)\Z")


def read_cluster(path: str | Path) -> Cluster:
    """Read a cluster file; the default promise level is `placed`.

    Raises
    ------
    FileError
        With every problem, each with its pointer (the line, for broken TOML). Too many machines or
        steps are a problem too (`planner.cluster.cost`).
    OSError
        If the file cannot be opened.
    """
    return read_cluster_document(path)[1]


def read_cluster_document(path: str | Path) -> tuple[dict[str, Any], Cluster]:
    """Read a cluster file; also return it as plain JSON, with the id of each outage.

    Raises
    ------
    FileError, OSError
        As :func:`read_cluster`.
    """
    document = with_calendar_files(read_toml(path), Path(path))
    cluster = cluster_from_json(document, str(path), level=PromiseLevel.PLACED)
    beyond = tuple(FileProblem(one.message, one.pointer, fix=one.fix) for one in excesses(cluster))
    if beyond:
        raise FileError(str(path), beyond)
    entries = document.get("outages", ())
    ids = zip(entries, _outage_ids(entries), strict=True)
    return document | {"outages": [entry | {"id": id_} for entry, id_ in ids]}, cluster


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file as plain JSON values; dates become RFC 3339 text.

    A file that begins with ``{`` is read as JSON, the form that servers return.

    Raises
    ------
    FileError
        If it is neither; the problem names the line.
    """
    try:
        text = text_of(Path(path).read_bytes())
        document = _json(text, path) if text.lstrip()[:1] == "{" else tomllib.loads(text)
    except TextError as error:
        problem = FileProblem(error.message, fix=error.fix)
        raise FileError(str(path), (problem,)) from error
    except tomllib.TOMLDecodeError as error:
        match = _TOML_LINE.search(str(error))
        message = f"not TOML: {_TOML_LINE.sub('', str(error)).strip()}"
        line = int(match[1]) if match else None
        fix = 'texts stand in quotes: step = "60s"'
        raise FileError(str(path), (FileProblem(message, line=line, fix=fix),)) from error
    plain = _plain(document)
    assert isinstance(plain, dict)
    return plain


def _json(text: str, path: str | Path) -> dict[str, Any]:
    try:
        document = read_json(text)
    except JsonTextError as error:
        line = None if error.at is None else error.at[1]
        problem = FileProblem(f"not JSON: {error.message}", line=line, fix=error.fix)
        raise FileError(str(path), (problem,)) from error
    assert isinstance(document, dict)
    return document


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


def cluster_from_json(
    document: object,
    path: str = "cluster",
    *,
    level: PromiseLevel = PromiseLevel.POOLED,
    present: Cluster | None = None,
) -> Cluster:
    """Read a cluster from plain JSON values (parsed TOML, or the ``cluster`` of a plan).

    Parameters
    ----------
    path
        Its name in errors.
    level
        Default promise level: `pooled` for plans and records from before there were levels.
    present
        The cluster that this one replaces. An outage by count that it already has keeps its
        machines, and outages may name machines that only it has: those become absent.

    Raises
    ------
    FileError
        With every problem and its pointer.
    """
    problems = schema_problems(document, "cluster")
    if problems:
        # If the list of problems is full, do not search for more.
        for problem in () if problems.full else _problems_of_the_rest(document, problems):
            problems.append(problem)
        raise FileError(path, problems)
    assert isinstance(document, Mapping)
    values = JsonValueReader(document.get("origin"))
    cluster = _ClusterReader(document, values, present).cluster(level)
    if cluster is None:
        raise FileError(path, values.problems)
    return cluster


def _problems_of_the_rest(
    document: object, problems: Iterable[FileProblem]
) -> tuple[FileProblem, ...]:
    """Return further problems of a malformed document: of the parts that can be read."""
    if not isinstance(document, Mapping):
        return ()
    rest = deepcopy(dict(document))
    for problem in problems:
        _remove(rest, (problem.pointer or "").split("/")[1:])
    rest = {"step": "1m", "horizon": "1d"} | rest
    #: By list, the original indices of the remaining entries.
    places: dict[str, list[int]] = {}
    unread = [one.pointer for one in schema_problems(rest, "cluster")]
    for key, entries in rest.items():
        if isinstance(entries, list):
            wrong = {_place(pointer, key) for pointer in unread}
            if key == "machines":
                entries = [_stand_in(one) if i in wrong else one for i, one in enumerate(entries)]
                wrong = set()
            places[key] = [index for index in range(len(entries)) if index not in wrong]
            rest[key] = [entries[index] for index in places[key]]
    rest.setdefault("machines", [_stand_in({})])
    if schema_problems(rest, "cluster"):
        return ()
    values = JsonValueReader(rest.get("origin"))
    _ClusterReader(rest, values, None).cluster(PromiseLevel.POOLED)
    return tuple(_at_its_place(one, places) for one in values.problems)


def _remove(here: Any, way: Sequence[str]) -> None:
    """Remove the value that a pointer names, if it is a member of an object."""
    for step in way[:-1]:
        if isinstance(here, list) and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
        elif isinstance(here, dict) and step in here:
            here = here[step]
        else:
            return
    if isinstance(here, dict) and way:
        here.pop(way[-1], None)


def _stand_in(entry: object) -> dict[str, Any]:
    """Return a substitute for an unreadable machine group, so that others may name it."""
    usual = {"name": "machines", "count": 10_000, "resources": {"cpu": 1}}
    return usual | (entry if isinstance(entry, dict) else {})


def _place(pointer: str | None, key: str) -> int | None:
    """Return the index of the list entry that a pointer names."""
    found = re.match(rf"/{key}/(\d+)", pointer or "")
    return None if found is None else int(found[1])


def _at_its_place(problem: FileProblem, places: Mapping[str, Sequence[int]]) -> FileProblem:
    """Return a problem with its pointer into the whole document."""
    for key, kept in places.items():
        at = _place(problem.pointer, key)
        if at is not None and problem.pointer is not None:
            tail = problem.pointer.split("/", 3)[3:]
            return replace(problem, pointer="/".join(["", key, str(kept[at]), *tail]))
    return problem


def dispatch_from_json(document: object, path: str = "dispatch") -> DispatchPolicy:
    """Read a dispatch policy from plain JSON values: the ``dispatch`` of a cluster.

    Raises
    ------
    FileError
        With every problem and its pointer; `path` is the name in the error.
    """
    problems = schema_problems(document, "cluster", "dispatch")
    if problems:
        raise FileError(path, problems)
    assert isinstance(document, Mapping)
    try:
        return DispatchPolicy(**complete_words(document))
    except DispatchPolicyError as error:
        problem = FileProblem(error.message, f"/{error.key}", fix=error.fix)
        raise FileError(path, (problem,)) from error


class _ClusterReader:
    """Turns a well-formed document into a Cluster; `values` collects the problems."""

    def __init__(
        self, document: Mapping[str, Any], values: JsonValueReader, present: Cluster | None
    ) -> None:
        self._document = document
        self._values = values
        #: Machine indices of each present outage, by id and group.
        self._known: dict[tuple[str, str], tuple[int, ...]] = {}
        #: Id of each present outage.
        self._ids: dict[Outage, str] = {}
        self._sizes: dict[str, int] = {}
        if present is not None:
            self._sizes = present.sizes()
            for one, absent in present.described_outages():
                whole = replace(one, indices=(*one.indices, *absent))
                self._known[one.id, one.machines] = whole.indices
                self._ids[whole] = one.id
        #: Number of machines named by outages so far.
        self._named = 0

    def cluster(self, level: PromiseLevel) -> Cluster | None:
        """Return the cluster, or None with a problem in `values`; `level` is its default level."""
        document, values = self._document, self._values
        step = values.duration("/step", document["step"])
        horizon = values.duration("/horizon", document["horizon"])
        max_period = values.duration("/max_period", document.get("max_period", DAY_MS // 1000))
        if step < 1:
            values.note("/step", "a step must be longer than nothing")
            step = 1  # so that the rest can be read, and its problems reported too
        machines = tuple(self._each("machines", self._machines))
        pools = self._pools(machines)
        sizes = {group.name: group.count for group in machines}
        outages, absent = self._outages(sizes | {pool.name: pool.count for pool in pools})
        queues = tuple(
            Queue(entry["name"], entry.get("reservable", True))
            for entry in document.get("queues", ({"name": DEFAULT_QUEUE},))
        )
        prices = tuple(self._each("prices", self._price))
        reader, names = PolicyReader(values, step), {queue.name for queue in queues}
        policies = reader.policies(document.get("policies", ()), names)
        promise = self._promises(level)
        memory_per_cpu = self._memory_per_cpu()
        dispatch = self._dispatch()
        calendars = self._calendars()
        optimizations = tuple(self._each("optimizations", self._optimization))
        taken = tuple(self._each("taken", self._taken, sizes, set[str]()))
        zone = document.get("zone")
        if zone is not None:
            zone = values.zone("/zone", zone)
        if values.problems:
            return None
        try:
            return Cluster(
                step,
                horizon,
                machines,
                values.origin,
                max_period,
                outages,
                queues,
                prices,
                policies,
                *promise,
                dispatch,
                calendars,
                optimizations,
                zone,
                absent,
                memory_per_cpu,
                pools,
                taken,
            )
        except ClusterError as error:
            values.note("/", str(error))
            return None

    def _dispatch(self) -> DispatchPolicy:
        try:
            return DispatchPolicy(**complete_words(self._document.get("dispatch", {})))
        except DispatchPolicyError as error:
            self._values.note(f"/dispatch/{error.key}", error.message, error.fix)
            return DispatchPolicy()

    def _calendars(self) -> tuple[Calendar, ...]:
        """Return the calendars by name."""
        found: list[Calendar] = []
        for name, words in sorted(self._document.get("calendars", {}).items()):
            try:
                found.append((check_name(name, "a calendar"), dates_of(words)))
            except ArgumentError as error:
                self._values.note(f"/calendars/{name}", error.message, error.fix)
        return tuple(found)

    def _each(self, key: str, read: Any, *more: Any) -> list[Any]:
        entries = self._document.get(key, ())
        return [read(f"/{key}/{index}", entry, *more) for index, entry in enumerate(entries)]

    def _machines(self, at: str, entry: Mapping[str, Any]) -> MachineGroup:
        amounts = self._values.amounts(f"{at}/resources", entry["resources"], round_up=False)
        labels = frozenset(entry.get("labels", ()))
        domains = tuple(sorted(entry.get("domains", {}).items()))
        for name, _ in domains:
            try:
                check_name(name, "a domain")
            except ArgumentError as error:
                self._values.note(f"{at}/domains", error.message, error.fix)
        return MachineGroup(entry["name"], int(entry["count"]), amounts, labels, domains)

    def _taken(
        self, at: str, entry: Mapping[str, Any], sizes: Mapping[str, int], seen: set[str]
    ) -> Taken:
        amounts = self._values.amounts(f"{at}/resources", entry["resources"], round_up=True)
        name = entry["machine"]
        group, index = split_machine(name)
        if not 0 <= index < sizes.get(group, 0):
            self._values.note(f"{at}/machine", f"there is no machine {name!r}", "remove the entry")
        elif name in seen:
            self._values.note(f"{at}/machine", f"{name} is given twice", "keep it once")
        seen.add(name)
        return name, amounts

    def _pools(self, machines: Sequence[MachineGroup]) -> tuple[Pool, ...]:
        found: list[Pool] = []
        of_machines = {name for group in machines for name in group.resources}
        for index, entry in enumerate(self._document.get("pools", ())):
            at, name = f"/pools/{index}", entry["name"]
            try:
                known = canonical_resource(name)
            except AmountError as error:
                self._values.note(f"{at}/name", str(error))
                continue
            if known in (CPU, MEMORY):
                self._values.note(f"{at}/name", f"{name!r} is on machines", "name it otherwise")
            elif name in of_machines:
                fix = "rename the pool, or remove it from the machines"
                self._values.note(f"{at}/name", f"machines have {name!r}, too", fix)
            start, end = (
                self._values.instant(f"{at}/{key}", entry[key]) if key in entry else None
                for key in ("from", "to")
            )
            if start is not None and end is not None:
                self._in_order(f"{at}/to", "pool", start, end)
            found.append(Pool(name, int(entry["count"]), start, end))
        return tuple(found)

    def _optimization(self, at: str, entry: Mapping[str, Any]) -> OptimizationSchedule:
        values = self._values
        zone = values.zone(f"{at}/zone", entry.get("zone", "UTC"))
        solver = entry.get("solver", "auto")
        return OptimizationSchedule(
            entry["name"],
            time.fromisoformat(entry["at"]),
            frozenset(DAYS.index(day) for day in entry.get("days", ())),
            zone,
            values.duration(f"{at}/time_limit", entry.get("time_limit", 60)),
            values.duration(f"{at}/frozen", entry.get("frozen", 300)),
            entry.get("admit_refused", True),
            {"auto": None, "none": ""}.get(solver, solver),
            entry.get("apply_below"),
        )

    def _promises(self, level: PromiseLevel) -> tuple[PromiseLevel, tuple[PromiseLevel, ...]]:
        """Return the default promise level, and the levels that a request may choose."""
        entry = self._document.get("promises", {})
        words = entry.get("requests_may_choose", ())
        seen: set[str] = set()
        for index, word in enumerate(words):
            if word in seen:
                at = f"/promises/requests_may_choose/{index}"
                self._values.note(at, f"{word} is given twice", "keep it once")
            seen.add(word)
        choices = tuple(PromiseLevel(word) for word in words)
        return PromiseLevel(entry.get("level", level)), choices

    def _memory_per_cpu(self) -> int | None:
        """Return the MiB per core for bundles without memory; None: as much as machines have."""
        word = self._document.get("promises", {}).get("memory_per_cpu", BY_MACHINES)
        if word in (BY_MACHINES, NO_MEMORY):
            return None if word == BY_MACHINES else 0
        at = "/promises/memory_per_cpu"
        try:
            found = Resources.from_json({MEMORY: word}).get(MEMORY, 0)
        except AmountError:
            found = 0
        if not found:
            fix = f'write "{BY_MACHINES}", "{NO_MEMORY}", or an amount such as "2 GiB"'
            self._values.note(at, f"{word!r} is no memory for a core", fix)
        return found

    def _outages(self, sizes: Mapping[str, int]) -> tuple[tuple[Outage, ...], tuple[Outage, ...]]:
        """Return the outages, and the parts of outages whose machines are absent."""
        entries = self._document.get("outages", ())
        outages: list[Outage] = []
        absent: list[Outage] = []
        seen: set[str] = set()
        pools = {entry["name"] for entry in self._document.get("pools", ())}
        listed = {entry["id"] for entry in entries if "id" in entry}
        for number, (entry, id_) in enumerate(zip(entries, _outage_ids(entries), strict=True)):
            at = f"/outages/{number}"
            if id_ in seen:
                self._values.note(f"{at}/id", f"the outage {id_!r} is given twice")
            seen.add(id_)
            start = self._values.instant(f"{at}/start", entry["start"])
            end = self._values.instant(f"{at}/end", entry["end"])
            self._in_order(f"{at}/end", "outage", start, end)
            indices = self._indices_of(at, entry, id_, sizes)
            size = sizes.get(entry["machines"], 0)
            kind = entry.get("kind", OUTAGE_KINDS[0])
            if kind == "drain" and entry["machines"] in pools:
                fix = f'write kind = "{OUTAGE_KINDS[0]}"'
                self._values.note(f"{at}/kind", "a pool cannot be drained", fix)
            said = entry.get("reason", ""), entry.get("by", "")
            recurs = self._recurrence(at, entry, start, end - start)
            whole = Outage(entry["machines"], indices, start, end, kind, id_, *said, recurs)
            same = self._ids.get(whole, id_)
            if "id" not in entry and same not in seen and same not in listed:
                whole = replace(whole, id=same)  # a present outage, written without its id
                seen.add(same)
            here = replace(whole, indices=tuple(one for one in indices if one < size))
            gone = replace(whole, indices=tuple(one for one in indices if one >= size))
            outages += [here] if here.indices else []
            absent += [gone] if gone.indices and kind not in (RESERVED, SPARE) else []
        return tuple(outages), tuple(absent)

    def _recurrence(
        self, at: str, entry: Mapping[str, Any], start_ms: int, length_ms: int
    ) -> Recurrence | None:
        """Return the recurrence of an outage; None if it does not recur."""
        values = self._values
        if "every" not in entry:
            for key in ("until", "zone", "days", "day", "except"):
                if key in entry:
                    values.note(f"{at}/{key}", f"{key} needs every", 'write every = "1d" or "1w"')
                    return None
            return None
        if entry.get("kind", OUTAGE_KINDS[0]) != OUTAGE_KINDS[0]:
            fix = f'write kind = "{OUTAGE_KINDS[0]}"'
            values.note(f"{at}/kind", "only maintenance recurs", fix)
        days, months = self._period(f"{at}/every", entry["every"])
        if length_ms > (days or 28 * months) * DAY_MS:
            message = f"it lasts {duration_text(length_ms)}, longer than its period"
            values.note(f"{at}/end", message, "write an earlier end, or a longer period")
        if "days" in entry and days != 1:
            values.note(f"{at}/days", "days needs a period of one day", 'write every = "1d"')
        day = None
        if "day" in entry:
            if not months:
                values.note(f"{at}/day", "day needs a period of months", 'write every = "1mo"')
            try:
                day = month_day_of(str(entry["day"]).split())
            except ArgumentError as error:
                values.note(f"{at}/day", error.message, error.fix)
        until = None
        unread = {f"{at}/start", f"{at}/until"}
        if "until" in entry:
            until = values.instant(f"{at}/until", entry["until"])
            if until <= start_ms and not any(one.pointer in unread for one in values.problems):
                values.note(f"{at}/until", "it ends before it begins", "write a later until")
        zone = values.zone(f"{at}/zone", entry.get("zone", self._document.get("zone", "UTC")))
        without: tuple[date, ...] = ()
        try:
            without = dates_of(entry["except"]) if "except" in entry else ()
        except ArgumentError as error:
            values.note(f"{at}/except", error.message, error.fix)
        weekdays = frozenset(DAYS.index(day) for day in entry.get("days", ()))
        return Recurrence(days, months, zone, until, weekdays, day, without)

    def _period(self, at: str, raw: object) -> tuple[int, int]:
        """Return (days, months) of a period of whole days or months; one of them is 0."""
        try:
            months = months_of(raw) if isinstance(raw, str) else None
        except ArgumentError as error:
            self._values.note(at, error.message, error.fix)
            return 1, 0
        if months is not None:
            return 0, months.count
        period_ms = self._values.duration(at, raw)
        if period_ms < DAY_MS or period_ms % DAY_MS:
            self._values.note(at, "a period is whole days or months", 'write "1d", "1w" or "1mo"')
            return 1, 0
        return period_ms // DAY_MS, 0

    def _indices_of(
        self, at: str, entry: Mapping[str, Any], id_: str, sizes: Mapping[str, int]
    ) -> tuple[int, ...]:
        """Return the machine indices of an outage: as named, or by count the highest ones."""
        group, size = entry["machines"], sizes.get(entry["machines"])
        known = self._known.get((id_, group), ())
        if size is None and not known and "absent" not in entry and group not in self._sizes:
            message = f"no machines are called {group!r}"
            self._values.note(f"{at}/machines", message, did_you_mean(group, sizes))
            return ()
        size = size or 0
        if ("count" in entry) == ("names" in entry):
            self._values.note(at, "an outage has either a count or names")
            return ()
        if "names" in entry:
            numbers = range(max(size, self._sizes.get(group, 0)))
            fix = f"machines are {group}-0 to {group}-{len(numbers) - 1}"
            inside = numbers if not known else {*numbers, *known}
            listed = self._indices(f"{at}/names", entry["names"], group, inside, fix)
            absent = self._indices(f"{at}/absent", entry.get("absent", ()), group, None, fix)
            if not entry["names"] and not absent:
                self._values.note(f"{at}/names", "an outage has one machine or more")
            return tuple(sorted({*listed, *absent}))
        wanted = int(entry["count"])
        if wanted == len(known):
            return known
        if wanted > size:
            self._values.note(f"{at}/count", f"{group} has only {size} machines")
        highest = range(max(0, size - wanted), size)
        self._named += len(highest)
        if self._named > MOST_NAMED:
            self._values.note(
                f"{at}/count",
                f"outages name {self._named:,} machines up to here",
                f"at most {MOST_NAMED:,} can be read",
            )
            return ()
        return tuple(highest)

    def _in_order(self, at: str, what: str, start: int, end: int) -> None:
        """Report an empty interval; unreadable instants are already reported."""
        unread = {at, at.replace("/end", "/start").replace("/to", "/from")}
        if end <= start and not any(one.pointer in unread for one in self._values.problems):
            said = "ends before it starts" if end < start else "ends where it starts: no length"
            self._values.note(at, f"the {what} {said}", "write an end after its start")

    def _indices(
        self, at: str, names: Sequence[str], group: str, numbers: Container[int] | None, fix: str
    ) -> set[int]:
        """Return the named machines of a group; `numbers` are the allowed ones, None allows any."""
        found: set[int] = set()
        for index, name in enumerate(names):
            prefix, _, digits = name.rpartition("-")
            named = prefix == group and _MACHINE_NUMBER.fullmatch(digits) is not None
            if named and (numbers is None or int(digits) in numbers):
                found.add(int(digits))
            else:
                self._values.note(f"{at}/{index}", f"no machine is called {name!r}", fix)
        return found

    def _price(self, at: str, entry: Mapping[str, Any]) -> Price:
        start = self._values.instant(f"{at}/start", entry["start"])
        end = self._values.instant(f"{at}/end", entry["end"])
        self._in_order(f"{at}/end", "price", start, end)
        return Price(start, end, float(entry["factor"]))


def _outage_ids(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids of outages: as given, or derived from the text of the entry.

    So the same entry has the same id in every version of a file.
    """
    taken = {entry["id"] for entry in entries if "id" in entry}
    found: list[str] = []
    for entry in entries:
        id_ = entry.get("id") or outage_id(json.dumps(entry, sort_keys=True), taken)
        taken.add(id_)
        found.append(id_)
    return found
