"""What an experiment found: one document, tables of text and panels to draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dispatch.simulation.spread import Figure
from service.cli.experiments.verdicts import verdict
from service.pictures.experiments import ExperimentPanel, PanelSeries

#: Heads a column of standard deviations over seeds.
SPREAD: Final = "spread"


@dataclass(frozen=True, slots=True)
class Table:
    """One table of text."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    @classmethod
    def of(cls, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
        """Return a table without the columns of spread that hold none: one seed has none."""
        kept = [
            column
            for column, name in enumerate(header)
            if name != SPREAD or any(row[column] is not None for row in rows)
        ]
        return cls([header[at] for at in kept], [[row[at] for at in kept] for row in rows])


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """What an experiment found, in every form it is shown in.

    Attributes
    ----------
    document
        Plain JSON.
    """

    document: dict[str, Any]
    tables: Sequence[Table]
    panels: Sequence[ExperimentPanel]


def spreads(values: Iterable[float | None]) -> Sequence[float]:
    """Return the spreads to draw; nothing where there is none."""
    known = list(values)
    found = [value for value in known if value is not None]
    return found if len(found) == len(known) else ()


def spread_header(names: Iterable[str]) -> list[str]:
    """Return the heads of figures: a column of means and one of spreads for each name."""
    return [head for name in names for head in (name, SPREAD)]


def figure_cells(figures: Mapping[str, Figure], keys: Iterable[str]) -> list[float | None]:
    """Return mean and spread of each figure, under `spread_header`; dashes for one that is none."""
    chosen = [figures.get(key) for key in keys]
    pairs = [(None, None) if one is None else (one.mean, one.deviation) for one in chosen]
    return [value for pair in pairs for value in pair]


def claims_table(name: str, figures: Mapping[str, Figure], claims: Mapping[str, str]) -> Table:
    """Return figures beside the words on them, and whether those hold; `name` heads the first."""
    rows = [
        (key, one.mean, one.deviation, claims[key] or None, verdict(one.mean, claims[key]))
        for key, one in figures.items()
    ]
    return Table.of((name, "mean", SPREAD, "claimed", "it"), rows)


def figure_series(name: str, x: Sequence[float | str], figures: Iterable[Figure]) -> PanelSeries:
    """Return one line, or one bar of each group: means with their spreads."""
    known = list(figures)
    return PanelSeries(
        name, x, [one.mean for one in known], spreads(one.deviation for one in known)
    )
