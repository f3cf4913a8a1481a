"""Who is affected when machines go or come: a first line and a row each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.cli.forms.layout import ListColumn

#: Columns of a reservation that is affected; work moved is resource share x steps.
AFFECTED: Final = (
    ListColumn("id"),
    ListColumn("tenant"),
    ListColumn("fate"),
    ListColumn("value", is_wide=True),
    ListColumn("moved", is_wide=True),
    ListColumn("reason"),
)

#: Fates in which a reservation no longer has what it was promised.
_LESS: Final = ("degraded", "failed")


def affected_rows(affected: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """Return a row of `AFFECTED` for each."""
    return [[one[column.name] for column in AFFECTED] for one in affected]


def affected_title(affected: Sequence[Mapping[str, Any]]) -> str:
    """Return the first line: how many of each fate, and whether anybody loses anything."""
    if not affected:
        return "no reservation is affected"
    counted = Counter(str(one["fate"]) for one in affected)
    fates = ", ".join(f"{count:,} {fate}" for fate, count in counted.most_common())
    loses = any(counted[fate] for fate in _LESS)
    return fates if loses else f"{fates}; nobody loses anything"
