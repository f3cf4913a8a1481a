"""Rows and tables that the LoTES experiments share."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dispatch.simulation.machine_level.measures import SimulationResult
from dispatch.simulation.spread import spread_of

#: Waits (s) of which a row tells how many were longer; 1, 7 and 17 h are the paper's.
LONGER_S: Final = (1.0, 10.0, 60.0, 600.0, 3_600.0, 25_200.0, 61_200.0)


@dataclass(frozen=True, slots=True)
class LotesRow:
    """One run of one policy.

    Attributes
    ----------
    setting
        What varies, by name (`run`, `phi`, `omega`, `load`, `machines`).
    policy
        Name of the variant that ran.
    nominal_load
        Arrival rate over the lambda* of the plan, which takes the classes' nominal requests.
    offered_load
        The same over the lambda* at the requests that jobs really have on average.
    long_share
        Share of started jobs that waited more than an hour.
    waiting_mean
        Jobs waiting, averaged over time; over the arrival rate it is the mean wait with those
        counted that have not started.
    waiting_by_interval
        Longest queue of each interval.
    longer_shares
        Shares of the started jobs that waited longer than each of `LONGER_S`.
    """

    setting: dict[str, float | str]
    policy: str
    seed: int
    jobs: int
    refused: int
    still_waiting: int
    arrival_rate_per_h: float
    sustained_rate_per_h: float
    nominal_load: float
    offered_load: float
    wait_mean_s: float
    wait_p99_s: float
    wait_max_s: float
    long_share: float
    waiting_max: int
    waiting_mean: float
    wait_by_interval_s: list[float] = field(default_factory=list)
    starts_by_interval: list[int] = field(default_factory=list)
    waiting_by_interval: list[int] = field(default_factory=list)
    longer_shares: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean and spread (None for one seed) of one setting and policy over its seeds."""

    setting: dict[str, float | str]
    policy: str
    seeds: int
    wait_mean_s: float
    wait_spread_s: float | None
    wait_p99_s: float
    long_share: float
    long_spread: float | None
    unstable: int


@dataclass(frozen=True, slots=True)
class LotesTable:
    """An experiment's rows.

    Attributes
    ----------
    notes
        What differs from the paper, and facts about the input, by name.
    """

    name: str
    rows: tuple[LotesRow, ...]
    notes: dict[str, object]

    def summaries(self) -> list[Summary]:
        """Mean, standard deviation over seeds, and runs that ended with a growing queue."""
        groups: dict[tuple[object, ...], list[LotesRow]] = {}
        for row in self.rows:
            groups.setdefault((*row.setting.items(), row.policy), []).append(row)
        return [_summary(rows) for rows in groups.values()]

    def to_json(self) -> dict[str, object]:
        """Rows, summaries and notes, ready for JSON."""
        return {
            "experiment": self.name,
            "notes": self.notes,
            "summaries": [dataclasses.asdict(summary) for summary in self.summaries()],
            "rows": [dataclasses.asdict(row) for row in self.rows],
        }


def _summary(rows: list[LotesRow]) -> Summary:
    waits = [row.wait_mean_s for row in rows]
    shares = [row.long_share for row in rows]
    return Summary(
        setting=rows[0].setting,
        policy=rows[0].policy,
        seeds=len(rows),
        wait_mean_s=float(np.mean(waits)),
        wait_spread_s=spread_of(waits),
        wait_p99_s=float(np.mean([row.wait_p99_s for row in rows])),
        long_share=float(np.mean(shares)),
        long_spread=spread_of(shares),
        unstable=sum(is_unstable(row) for row in rows),
    )


def is_unstable(row: LotesRow) -> bool:
    """Whether the queue grows without end.

    Either one job in a hundred still waits at the end; or one in ten thousand does, and waits in
    the last third of the run were longer than in the middle by a quarter. On large clusters a
    queue that grows by a thousandth of the arrivals takes days to hold one job in a hundred.
    """
    if row.still_waiting > 0.01 * row.jobs:
        return True
    third = len(row.wait_by_interval_s) // 3
    if third == 0 or row.still_waiting <= 1e-4 * row.jobs:
        return False
    middle = float(np.mean(row.wait_by_interval_s[third : 2 * third]))
    return float(np.mean(row.wait_by_interval_s[-third:])) > 1.25 * middle


@dataclass(frozen=True, slots=True)
class Loads:
    """Rates behind a row."""

    arrival_per_h: float
    sustained_per_h: float
    true_sustained_per_h: float


def row_of(
    result: SimulationResult,
    setting: dict[str, float | str],
    seed: int,
    loads: Loads,
    name: str = "",
) -> LotesRow:
    """A row from a run's measurements; times in seconds; `name` stands for the policy's own."""
    return LotesRow(
        setting=setting,
        policy=name or result.policy,
        seed=seed,
        jobs=result.arrived,
        refused=result.refused,
        still_waiting=result.still_waiting,
        arrival_rate_per_h=loads.arrival_per_h,
        sustained_rate_per_h=loads.sustained_per_h,
        nominal_load=_ratio(loads.arrival_per_h, loads.sustained_per_h),
        offered_load=_ratio(loads.arrival_per_h, loads.true_sustained_per_h),
        wait_mean_s=result.wait_mean_h * 3600,
        wait_p99_s=result.wait_quantile_h["p99"] * 3600,
        wait_max_s=result.wait_max_h * 3600,
        long_share=result.long_share,
        waiting_mean=result.waiting_mean,
        waiting_max=int(result.interval_waiting.max(initial=0)),
        wait_by_interval_s=(result.interval_wait_h * 3600).tolist(),
        starts_by_interval=result.interval_started.tolist(),
        waiting_by_interval=result.interval_waiting.tolist(),
        longer_shares=[result.share_beyond(wait / 3600) for wait in LONGER_S],
    )


def _ratio(rate: float, limit: float) -> float:
    return rate / limit if limit > 0 else math.inf
