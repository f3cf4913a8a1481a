"""Whether the answers of a plan document are answers to what was asked, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.files.workload_file import WorkloadLine, readable
from planner.validation.document import PlanViolation
from rdl.time_grid import seconds_of


def asked_violations(
    document: Mapping[str, object], lines: Iterable[WorkloadLine]
) -> list[PlanViolation]:
    """Return where an answer names another request than was asked, in document order.

    A promise can be kept to the letter and yet be another promise: a later deadline, another
    tenant's account, a greater weight. Ids without an answer are `planner.validation.validate`'s
    business.

    Parameters
    ----------
    document
        A plan as files.md writes it, parsed from JSON.
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
    """Return whether an answer with a zone or dates added is to what the line asks."""
    written = entry.get("written")
    return isinstance(written, str) and written in (line.source, readable(line))
