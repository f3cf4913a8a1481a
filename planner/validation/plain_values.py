"""Read JSON values of a plan document with the required type, or report what is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from rdl.time_grid import TimeGrid

#: Bundles in one row and seconds in one time beyond which sums would not be exact; no RDL has more.
_MOST_BUNDLES = 2**31 - 1
_MOST_SECONDS = 10**12


class UnreadableError(ValueError):
    """Part of a document is unreadable; has the rule and the location, never leaves the package."""

    def __init__(self, where: str, rule: str, detail: str) -> None:
        self.where = where
        self.rule = rule
        super().__init__(detail)


def steps_and_bundles(
    value: Sequence[object], where: str, rule: str, grid: TimeGrid
) -> tuple[int, int, int]:
    """Return ``[start_s, end_s, bundles, ...]`` in steps of [0, horizon).

    Raises
    ------
    UnreadableError
        If a time is off the grid or outside the horizon, or the bundles are not 1 or more.
    """
    start, end = (milliseconds(value[i], where) for i in (0, 1))
    bundles = value[2]
    if not is_int(bundles):
        raise UnreadableError(where, rule, f"bundles are a whole number, not {bundles!r}")
    if start % grid.step_ms or end % grid.step_ms:
        raise UnreadableError(where, rule, f"{value!r} does not start and end on a step")
    first, last = start // grid.step_ms, end // grid.step_ms
    if not 0 <= first < last <= grid.horizon or not 1 <= bundles <= _MOST_BUNDLES:
        whole = f"[0, {grid.horizon}) x {_MOST_BUNDLES}"
        detail = f"steps [{first}, {last}) x {bundles} are empty or outside {whole}"
        raise UnreadableError(where, rule, detail)
    return first, last, bundles


def milliseconds(seconds: object, where: str) -> int:
    """Return a time in whole milliseconds."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise UnreadableError(where, "shape", f"a time is a number of seconds, not {seconds!r}")
    known = -_MOST_SECONDS < seconds < _MOST_SECONDS  # False for NaN and infinity
    ms = round(seconds * 1000) if known else 0
    if not known or not math.isclose(ms, seconds * 1000, rel_tol=1e-12, abs_tol=1e-6):
        raise UnreadableError(
            where, "shape", f"{seconds!r} s is not a whole number of milliseconds"
        )
    return ms


def object_at(value: object, where: str) -> Mapping[str, object]:
    """Return an object."""
    if not isinstance(value, Mapping):
        raise UnreadableError(where, "shape", f"must be an object, not {value!r}")
    return value


def list_in(fields: Mapping[str, object], key: str, where: str) -> Sequence[object]:
    """Return the list under `key`."""
    value = fields.get(key)
    if not isinstance(value, list):
        raise UnreadableError(f"{where}/{key}", "shape", "must be a list")
    return value


def text_in(fields: Mapping[str, object], key: str, where: str) -> str:
    """Return the text under `key`."""
    value = fields.get(key)
    if not isinstance(value, str):
        raise UnreadableError(f"{where}/{key}", "shape", f"must be a text, not {value!r}")
    return value


def is_int(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)
