"""Records of Slurm's accounting: ``sacct --parsable2`` or ``--parsable`` with its header.

sacct escapes nothing. A job's name may hold ``|`` and line breaks; such a record is put together
again where only one column is free text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from service.importers.lines import Omissions, TraceError

#: Columns whose text is a user's; all others never hold a bar or a line break.
_FREE: Final = ("JobName", "Comment", "AdminComment", "SystemComment", "SubmitLine", "WorkDir",
                "Extra", "Container")  # fmt: skip
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([cn]?)")
_MIB: Final = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_DEVICE: Final = re.compile(r"(?:gres[:/])?gpu(?::[^:=(,]+)*?[:=](\d+)(?:\(.*\))?")
_JOB_ID: Final = re.compile(r"\d+([_+.]|\Z)")
#: What sacct writes for a time that has not come.
_NEVER: Final = ("", "Unknown", "None", "NONE", "N/A")


@dataclass(frozen=True, slots=True)
class SacctRecord:
    """One record.

    Attributes
    ----------
    line
        Its first, from 1.
    row
        Fields by column.
    zone
        That of the times: sacct writes local ones.
    """

    line: int
    row: Mapping[str, str]
    zone: tzinfo

    def text(self, column: str) -> str:
        """Return a field without blanks around it; empty if there is no such column."""
        return self.row.get(column, "").strip()

    @property
    def state(self) -> str:
        """The state without what follows it: `CANCELLED` of ``CANCELLED by 0``."""
        words = self.row["State"].split()
        return words[0].rstrip("+") if words else "unknown"

    @property
    def job(self) -> tuple[str, bool]:
        """The id of the job, and whether this is a part of it: an array's task or a component."""
        id_, mark, _ = self.text("JobID").replace("+", "_").partition("_")
        return id_, bool(mark)

    @property
    def is_step(self) -> bool:
        """Whether this is a step (``12.batch``) of a job that has a record of its own."""
        return "." in self.text("JobID")

    def has_time(self, column: str) -> bool:
        """Return whether a column has a time."""
        return self.text(column) not in _NEVER

    def instant(self, column: str, fold: int = 0) -> float:
        """Return a time as Unix time; `fold` 1: the second of two that clocks show alike.

        Raises
        ------
        TraceError
            If it is no time.
        """
        raw = self.text(column)
        if raw.isdecimal() and len(raw) == 10:  # SLURM_TIME_FORMAT=%s
            return float(raw)
        try:
            found = datetime.fromisoformat(raw)
        except ValueError as error:
            raise TraceError(
                f"line {self.line}: {column} is a time such as 2026-11-22T03:00:00, not {raw!r}"
            ) from error
        return (found if found.tzinfo else found.replace(tzinfo=self.zone, fold=fold)).timestamp()

    def span(self, start: str, end: str) -> tuple[float, float]:
        """Return two times in order, over the hour that clocks show twice too.

        Raises
        ------
        TraceError
            If one is no time.
        """
        first, last = self.instant(start), self.instant(end)
        return first, last if last > first else self.instant(end, fold=1)

    def count(self, column: str, what: str) -> int:
        """Return a whole number; 0 where the column is empty or not there.

        Raises
        ------
        TraceError
            If it is none.
        """
        raw = self.text(column)
        if raw and (not raw.isdecimal() or len(raw) > 9):
            raise TraceError(f"line {self.line}: {column} is a number of {what}, not {raw[:40]!r}")
        return int(raw or 0)

    def cores(self) -> int:
        """Return the CPUs that it was given."""
        return self.count("AllocCPUS", "cores") or round(self._tres("cpu"))

    def nodes(self) -> int:
        """Return how many nodes it had; 0 where no column says so."""
        found = self.count("AllocNodes", "nodes") or self.count("NNodes", "nodes")
        return found or round(self._tres("node"))

    def memory_mib(self) -> float:
        """Return the MiB that it was given, else those that it asked for; 0 where none is said."""
        given, raw = self._tres("mem"), self.text("ReqMem")
        if given or not raw:
            return given
        match = _AMOUNT.fullmatch(raw)
        if match is None:
            raise TraceError(
                f"line {self.line}: ReqMem is such as 8G, 4Gn or 500Mc, not {raw[:40]!r}"
            )
        times = {"c": self.cores(), "n": max(1, self.nodes())}.get(match[3], 1)
        return float(match[1]) * _MIB[match[2]] * times

    def gpus(self) -> int:
        """Return the GPUs that it was given: of all types, else the sum of those by type."""
        amounts = self._amounts()
        if "gres/gpu" in amounts:
            return round(amounts["gres/gpu"])
        typed = sum(amount for name, amount in amounts.items() if name.startswith("gres/gpu:"))
        return round(typed) or self._devices("AllocGRES")

    def _devices(self, column: str) -> int:
        """Return the GPUs of ``gpu:a100:2(S:0-1),fpga:1``, as accounting before 21.08 has them."""
        parts = re.sub(r"\([^)]*\)", "", self.text(column)).split(",")
        found = (_DEVICE.fullmatch(part) for part in parts)
        return sum(int(match[1]) for match in found if match)

    def _tres(self, name: str) -> float:
        return self._amounts().get(name, 0.0)

    def _amounts(self) -> dict[str, float]:
        """Return ``cpu=4,mem=8G,gres/gpu=1`` as numbers, memory in MiB."""
        found: dict[str, float] = {}
        for part in filter(None, self.text("AllocTRES").split(",")):
            name, _, value = part.partition("=")
            match = _AMOUNT.fullmatch(value)
            if match is None:
                raise TraceError(
                    f"line {self.line}: AllocTRES is such as cpu=4,mem=8G, not {part[:40]!r}"
                )
            name = name.lower() if name.lower().startswith("gres/gpu") else name
            factor = _MIB[match[2]] if name == "mem" else 1.0
            found[name] = found.get(name, 0.0) + float(match[1]) * factor
        return found


def read_records(
    text: Iterable[str], needed: Sequence[str], zone: tzinfo, omissions: Omissions
) -> Iterator[SacctRecord]:
    """Yield the records of jobs and of parts of jobs; steps are no records of their own.

    Parameters
    ----------
    needed
        Columns that have to be there.
    omissions
        Receives records that are broken.

    Raises
    ------
    TraceError
        If a column is missing.
    """
    lines = iter(text)
    header = [name.strip() for name in next(lines, "").rstrip("\r\n").split("|")]
    missing = [name for name in needed if name not in header]
    if missing:
        raise TraceError(f"line 1: no column {missing[0]}; there are {'|'.join(header)[:200]}")
    if "AllocCPUS" not in header and "AllocTRES" not in header:
        raise TraceError("line 1: no column AllocCPUS, and no AllocTRES; one of them is needed")
    for line, fields in _rows(lines, header, omissions):
        record = SacctRecord(line, dict(zip(header, fields, strict=True)), zone)
        if not record.is_step:
            yield record


def _rows(
    lines: Iterable[str], header: Sequence[str], omissions: Omissions
) -> Iterator[tuple[int, list[str]]]:
    """Yield line and fields of records, those of several lines and with bars in a text too."""
    broken: tuple[int, list[str]] | None = None
    for line, raw in enumerate(lines, start=2):
        if not raw.strip() and broken is None:
            continue
        fields = raw.rstrip("\r\n").split("|")
        if broken is not None:
            start, before = broken
            joined = [*before[:-1], f"{before[-1]}\n{fields[0]}", *fields[1:]]
            is_new = header[0] == "JobID" and _JOB_ID.match(fields[0])
            if not is_new and len(joined) <= len(header) > len(fields):
                broken = (start, joined)
                if len(joined) == len(header):
                    yield start, joined
                    broken = None
                continue
            _leave_out(start, before, header, omissions)
            broken = None
        if len(fields) < len(header):
            broken = (line, fields)
        elif (whole := _without_bars(fields, header)) is not None:
            yield line, whole
        else:
            _leave_out(line, fields, header, omissions)
    if broken is not None:
        _leave_out(*broken, header, omissions)


def _without_bars(fields: list[str], header: Sequence[str]) -> list[str] | None:
    """Return fields in their columns; None where several columns may hold the bars."""
    more = len(fields) - len(header)
    if not more:
        return fields
    free = [place for place, name in enumerate(header) if name in _FREE]
    if len(free) != 1:
        return None
    (place,) = free
    text = "|".join(fields[place : place + more + 1])
    return [*fields[:place], text, *fields[place + more + 1 :]]


def _leave_out(
    line: int, fields: Sequence[str], header: Sequence[str], omissions: Omissions
) -> None:
    why = f"line {line}: {len(fields)} fields, but {len(header)} columns"
    omissions.fail(line, TraceError(why))
