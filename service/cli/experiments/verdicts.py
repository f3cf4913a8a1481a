"""Whether what was claimed of a figure holds: words of the papers, judged by one rule each."""

from __future__ import annotations

import re
from typing import Final

HOLDS: Final = "holds"
DOES_NOT_HOLD: Final = "does not hold"

#: How far from a number that is claimed a figure may be, as a share of the number.
_NEAR: Final = 0.1
_ABOUT: Final = 0.25

_CLAIM: Final = re.compile(r"(?:(about|near|above|below|at most|at least) )?(\d+(?:\.\d+)?)")


def verdict(figure: float, claimed: str) -> str | None:
    """Return whether a figure is as claimed; None where the words say no number.

    Parameters
    ----------
    claimed
        A number (met within 10 %), ``about`` or ``near`` one (25 %, and 0.25 of zero), ``above``,
        ``below``, ``at most`` or ``at least`` one, or ``stable``, which is a ratio near 1.
    """
    found = _CLAIM.fullmatch("near 1" if claimed == "stable" else claimed)
    if found is None:
        return None
    return HOLDS if _is_met(figure, found[1], float(found[2])) else DOES_NOT_HOLD


def _is_met(figure: float, word: str | None, number: float) -> bool:
    if word == "above":
        return figure > number
    if word == "below":
        return figure < number
    if word == "at least":
        return figure >= number
    if word == "at most":
        return figure <= number
    if word is None:
        return abs(figure - number) <= _NEAR * number
    return abs(figure - number) <= _ABOUT * (number or 1.0)
