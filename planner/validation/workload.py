"""Check field by field that the answers of a plan document match the requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Final, get_args

from planner.files.workload_file import WorkloadLine, readable
from planner.validation.document import PlanViolation
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.expressions import Every, Expression
from rdl.resources import MEMORY, Resources
from rdl.time_grid import seconds_of

EXPRESSIONS: Final = get_args(Expression)


def asked_violations(
    document: Mapping[str, object], lines: Iterable[WorkloadLine]
) -> list[PlanViolation]:
    """Return the answers that differ from their request, in document order.

    A promise can be kept and still differ from the request: a later deadline, another tenant's
    account, a greater weight. `planner.validation.validate` checks for ids without an answer.

    Parameters
    ----------
    document
        A plan in the format of files.md, parsed from JSON.
    lines
        The workload.
    """
    asked = {line.id: line for line in lines}
    found: list[PlanViolation] = []
    for key in ("reservations", "refusals"):
        entries = document.get(key)
        for i, entry in enumerate(entries if isinstance(entries, list) else []):
            line = asked.get(str(entry.get("id"))) if isinstance(entry, Mapping) else None
            if line is not None:
                found += _differences(entry, f"/{key}/{i}", line)
                level = line.promise or (entry.get("promise") if key == "reservations" else None)
                if entry.get("promise") != level:
                    detail = f"is {entry.get('promise')!r}, not {level!r}"
                    where = f"/{key}/{i}/promise"
                    found.append(PlanViolation(where, "asked", detail, line.id))
    return found


def _differences(
    entry: Mapping[str, object], where: str, line: WorkloadLine
) -> list[PlanViolation]:
    wanted: dict[str, object] = {
        "tenant": line.tenant,
        "queue": line.queue,
        "submitted": seconds_of(line.submitted_ms),
        "weight": line.weight,
        "priority": line.priority,
        "expression": readable(line),
    }
    return [
        PlanViolation(f"{where}/{name}", "asked", f"is {entry.get(name)!r}, not {value!r}", line.id)
        for name, value in wanted.items()
        if entry.get(name) != value and not (name == "expression" and _is_as_written(entry, line))
    ]


def _is_as_written(entry: Mapping[str, object], line: WorkloadLine) -> bool:
    """Return whether an answer matches the line, possibly with a zone, dates or memory added."""
    written, expression = entry.get("written"), entry.get("expression")
    if written not in (line.source, readable(line)) or not isinstance(expression, str):
        return False
    try:
        return _adds_only(read_source(line.source), read_source(expression))
    except RdlError:
        return False


def _adds_only(asked: object, answered: object) -> bool:
    """Return whether an expression has all requested parts, plus only those a cluster adds."""
    if type(asked) is not type(answered):
        return False
    if isinstance(asked, tuple) and isinstance(answered, tuple):
        pairs = zip(asked, answered, strict=False)
        return len(asked) == len(answered) and all(_adds_only(*pair) for pair in pairs)
    if not isinstance(asked, EXPRESSIONS):
        return asked == answered
    for name in (one.name for one in fields(asked) if one.compare):
        old, new = getattr(asked, name), getattr(answered, name)
        if isinstance(asked, Every) and name in ("without", "holidays"):
            named = asked.holidays is not None
            extra = named and (set(new) >= set(old) if name == "without" else new is None)
            if not (extra or old == new):
                return False
        elif name == "zone":
            if old is not None and old != new:
                return False
        elif name == "bundle":
            if MEMORY not in old:
                new = Resources.of({key: amount for key, amount in new.items() if key != MEMORY})
            if old != new:
                return False
        elif not _adds_only(old, new):
            return False
    return True
