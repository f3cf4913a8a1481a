"""Zoe's worked example (figure 1 of the journal, figure 2 of D5.2), exact."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dispatch.pool.claims import Claim, ClaimPart
from dispatch.pool.ordering import ORDERINGS
from dispatch.simulation.cluster.baselines import scheduler_named
from dispatch.simulation.cluster.simulator import simulate_cluster
from dispatch.simulation.cluster.workload import Submission, WorkModel

UNITS = 10
CORE = 3
ELASTIC = (4, 3, 5, 2)
ALONE_S = 10
SCHEDULERS = ("rigid", "malleable", "flexible")


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """Average turnaround and last end of one scheduler under one work model, s."""

    model: str
    scheduler: str
    average_turnaround_s: Fraction
    last_end_s: Fraction
    ends_s: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class ZoeExample:
    """The six rows of the example."""

    rows: tuple[ExampleRow, ...]

    def average(self, model: WorkModel, scheduler: str) -> Fraction:
        """Average turnaround of one row, s."""
        return next(
            row.average_turnaround_s
            for row in self.rows
            if (row.model, row.scheduler) == (model.value, scheduler)
        )

    def to_json(self) -> dict[str, object]:
        """Return the rows with times as numbers, and as fractions where a number is not exact."""
        return {
            "units": UNITS,
            "rows": [
                {
                    "model": row.model,
                    "scheduler": row.scheduler,
                    "average_turnaround_s": float(row.average_turnaround_s),
                    "last_end_s": float(row.last_end_s),
                    "ends": [str(end) for end in row.ends_s],
                }
                for row in self.rows
            ],
        }


def zoe_example() -> ZoeExample:
    """Run four requests at time 0, FIFO, on ten units, under both work models."""
    rows = [_row(model, name) for model in WorkModel for name in SCHEDULERS]
    return ZoeExample(tuple(rows))


def _row(model: WorkModel, name: str) -> ExampleRow:
    one = (1,)
    submissions = [
        Submission(
            Claim(
                "ABCD"[index],
                (ClaimPart(CORE, one),),
                (ClaimPart(elastic, one),),
                0.0,
                float(ALONE_S),
            ),
            Fraction(0),
            Fraction(ALONE_S),
        )
        for index, elastic in enumerate(ELASTIC)
    ]
    run = simulate_cluster(
        submissions, scheduler_named(name, {"units": UNITS}, ORDERINGS["fifo"]), model
    )
    ends = tuple(Fraction(outcome.turnaround) for outcome in run.outcomes)
    return ExampleRow(model.value, name, sum(ends, Fraction(0)) / len(ends), max(ends), ends)
