"""YARN reservation submissions as requests.

YARN's calls carry absolute times and no instant of submission: every request counts as submitted
at the origin, in the order of the file. Numbers of containers, durations and recurrences become RDL
by `rdl.codecs.yarn`; nothing is modelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from rdl.codecs.json_codec import to_json
from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.codecs.yarn import YarnReservation, from_yarn
from rdl.durations import epoch_ms, instant_of_epoch_ms
from rdl.errors import RdlError
from service.importers.lines import Imported, Skipped, TraceError

_TENANT = "yarn"

#: A horizon of a day at least: a recurring reservation needs room for its periods.
_LEAST_END_S = 86_400


def import_yarn(
    text: Iterable[str], step_s: int, origin: datetime | None = None, limit: int | None = None
) -> tuple[Imported, datetime]:
    """Read submissions into workload lines.

    Parameters
    ----------
    text
        One body (or bare definition), a JSON list of them, or one on each line.
    step_s
        Step of the cluster, for its horizon.
    origin
        Instant of step 0; the start of the UTC day of the first arrival when None.
    limit
        Only the first so many.

    Returns
    -------
    imported, origin
        Bodies that are not valid submissions are in `imported.skipped`, numbered from 1.

    Raises
    ------
    TraceError
        If the text is not JSON, or holds no valid submission.
    """
    kept: list[tuple[Mapping[str, Any], YarnReservation]] = []
    skipped: list[Skipped] = []
    for number, body in enumerate(_bodies("".join(text)), start=1):
        if limit is not None and len(kept) >= limit:
            break
        try:
            kept.append((body, from_yarn(body)))
        except RdlError as error:
            skipped.append(Skipped(number, str(error)))
    if not kept:
        reasons = "".join(f"\n{entry.line}: {entry.why}" for entry in skipped[:5])
        raise TraceError(f"no valid reservation submission{reasons}")
    zero = origin or _day_of(min(reservation.arrival_ms for _, reservation in kept))
    last = max(reservation.deadline_ms for _, reservation in kept) - epoch_ms(zero)
    lines = tuple(_line(n, body, asked) for n, (body, asked) in enumerate(kept, start=1))
    return Imported(lines, step_s, max(_LEAST_END_S, -(-last // 1000)), tuple(skipped)), zero


def _bodies(text: str) -> list[Any]:
    """Return the JSON values of a text: a list's entries, one value, or one value a line."""
    try:
        whole = read_json(text)
    except JsonTextError as error:
        if not error.message.endswith("Extra data"):
            raise _unread(error, None) from error
        return [
            _one(line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()
        ]
    return whole if isinstance(whole, list) else [whole]


def _one(line: str, number: int) -> Any:
    try:
        return read_json(line)
    except JsonTextError as error:
        raise _unread(error, number) from error


def _unread(error: JsonTextError, number: int | None) -> TraceError:
    """Return the error of a text that is no JSON, in line `number` of a file where it has many."""
    line = number if number is not None or error.at is None else error.at[1]
    return TraceError(f"{error}" if line is None else f"line {line}: {error}")


def _day_of(ms: int) -> datetime:
    at = instant_of_epoch_ms(ms).astimezone(UTC)
    return at - timedelta(
        hours=at.hour, minutes=at.minute, seconds=at.second, microseconds=at.microsecond
    )


def _line(number: int, body: Mapping[str, Any], asked: YarnReservation) -> dict[str, object]:
    line: dict[str, object] = {
        "id": str(body.get("reservation-id") or f"yarn-{number}"),
        "tenant": _TENANT,
    }
    if "queue" in body:
        line["queue"] = str(body["queue"])
    line["submitted"] = 0
    line["rdl"] = to_json(asked.expression)
    if asked.priority:
        line["priority"] = asked.priority
    return line
