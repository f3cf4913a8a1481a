"""LoTES simulated: policies on Google's trace (5.3), on drawn work (5.4), classes that drift."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from bench.papers.machines.measures import SimulationOptions, SimulationResult
from bench.papers.machines.simulator import MachineSimulator, simulate
from bench.papers.machines.traces import (
    GOOGLE_WINDOW_S,
    TraceJobs,
    read_google_machines,
    read_google_tasks,
)
from bench.papers.machines.workload import PoissonWorkload, TraceWorkload, Workload
from bench.papers.spread import spread_of
from dispatch.machines.placement.policy import Policy
from dispatch.machines.placement.state import Machines
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.job_classes import fit_job_classes, with_mix
from lp.lotes.pipeline import LotesOptions, LotesResult, Mode, plan_lotes


@dataclass(frozen=True, slots=True)
class LotesVariant:
    """One side of a comparison.

    Attributes
    ----------
    mode
        How LoTES plans; the others do not.
    tetris_hours
        Weight of the processing time, in hours, in the score of Tetris: 0 takes from it what LoTES
        does not have, the true time of each job.
    work_conserving
        LoTES: see `SimulationOptions`.
    """

    name: str
    policy: Policy
    mode: Mode = "priced"
    tetris_hours: float = 1.0
    work_conserving: bool = False


LOTES_PAPER = LotesVariant("lotes (paper mode)", "lotes", "paper")
LOTES_PAIRED = LotesVariant("lotes (paired)", "lotes", "paired")
LOTES = LotesVariant("lotes", "lotes")
LOTES_BUSY = LotesVariant("lotes, never idle", "lotes", work_conserving=True)
TETRIS = LotesVariant("tetris", "tetris")
TETRIS_BLIND = LotesVariant("tetris without times", "tetris", tetris_hours=0.0)
GREEDY = LotesVariant("greedy", "greedy")


def plans_of(instance: LotesInstance, variants: Sequence[LotesVariant]) -> dict[Mode, LotesResult]:
    """Plan once in each mode that some LoTES among the variants needs; priced if none does."""
    modes = {variant.mode for variant in variants if variant.policy == "lotes"} or {"priced"}
    return {mode: plan_lotes(instance, LotesOptions(mode=mode)) for mode in sorted(modes)}


def sustained_rate(plans: dict[Mode, LotesResult]) -> float:
    """lambda* per hour: the best plan's, before rounding (as section 5.4.2 defines it)."""
    return max(plan.assignment.relaxed_rate for plan in plans.values())


def run_variant(
    variant: LotesVariant,
    plans: dict[Mode, LotesResult],
    workload: Workload,
    seed: int,
    options: SimulationOptions,
    speed: NDArray[np.float64] | None = None,
) -> SimulationResult:
    """Simulate one variant; equal seeds give every variant the same jobs."""
    plan = plans[variant.mode] if variant.policy == "lotes" else next(iter(plans.values()))
    return simulate(
        Machines.of_table(plan.table),
        workload,
        variant.policy,
        np.random.default_rng(seed),
        speed=speed,
        table=plan.table,
        options=replace(
            options,
            tetris_hours=variant.tetris_hours,
            work_conserving=variant.work_conserving,
        ),
    )


#: Waits (s) of which a row shows how many were longer; 1, 7 and 17 h are the paper's.
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


VARIANTS = (LOTES, LOTES_PAPER, LOTES_BUSY, TETRIS, TETRIS_BLIND, GREEDY)


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Which runs, and how classes are learnt.

    Attributes
    ----------
    shares
        Shares of the machines of the `scaled` runs.
    part
        Below one, each seed draws this part of the tasks, and as large a part of the machines: the
        spread over seeds is then also the trace's own noise, not the clustering's alone.
    learning_h
        Classes come from the arrivals of the first hours of each run.
    start_all_h
        After the trace's end, time for every job to start; then none is missing from the waits.
    """

    runs: tuple[str, ...] = ("initial", "empty", "scaled")
    shares: tuple[float, ...] = (0.15, 0.125)
    variants: tuple[LotesVariant, ...] = VARIANTS
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    part: float = 0.5
    learning_h: float = 5.0
    interval_h: float = 1.0
    start_all_h: float = 200.0


def lotes_trace(folder: Path, options: TraceOptions | None = None) -> LotesTable:
    """Run section 5.3 on the Google 2011 trace.

    Parameters
    ----------
    folder
        Holds `machines.csv.gz` and `tasks_0_70756s.csv.gz`.

    Raises
    ------
    ValueError
        If a file lacks a column or holds a malformed row.
    """
    options = options or TraceOptions()
    machines, tasks = read_google_machines(folder), read_google_tasks(folder)
    later = tasks.after(0.0)
    rows: list[LotesRow] = []
    for run in options.runs:
        jobs = tasks if run == "initial" else later
        for share in options.shares if run == "scaled" else (1.0,):
            rows += _run({"run": run, "machines": share}, machines, jobs, options)
    notes: dict[str, object] = {
        "tasks": tasks.jobs,
        "tasks_at_start": tasks.jobs - later.jobs,
        "dropped": tasks.dropped,
        "part": options.part,
        "window_h": GOOGLE_WINDOW_S / 3600,
        "work_load": work_load(machines, later),
    }
    return LotesTable("lotes-trace", tuple(rows), notes)


def work_load(machines: MachineConfigurations, jobs: TraceJobs) -> list[float]:
    """Work of the jobs over capacity in the window, by resource."""
    work = (jobs.request * (jobs.hours * jobs.weight)[:, None]).sum(axis=0)
    total = (machines.capacity * machines.count[:, None]).sum(axis=0)
    return [float(load) for load in work / total / (GOOGLE_WINDOW_S / 3600)]


def _run(
    setting: dict[str, float | str],
    machines: MachineConfigurations,
    tasks: TraceJobs,
    options: TraceOptions,
) -> list[LotesRow]:
    rows = []
    some = machines.with_share(float(setting["machines"]) * options.part)
    for seed in options.seeds:
        rng = np.random.default_rng((seed, 53))
        jobs = tasks.random_part(options.part, rng) if options.part < 1 else tasks
        first = jobs.sample(end_h=float(jobs.arrival_h[0]) + options.learning_h)
        classes = fit_job_classes(first, np.random.default_rng(seed))
        plans = plans_of(LotesInstance.of(some, classes), options.variants)
        workload = TraceWorkload(jobs.with_classes(classes), len(classes.names))
        sustained = sustained_rate(plans)
        loads = Loads(jobs.rate_per_h, sustained, sustained)
        measured = SimulationOptions(
            interval_h=options.interval_h,
            horizon_h=GOOGLE_WINDOW_S / 3600,
            start_all_h=options.start_all_h,
        )
        for variant in options.variants:
            result = run_variant(variant, plans, workload, seed, measured)
            rows.append(row_of(result, setting, seed, loads, variant.name))
    return rows


TABLE_ONE_PROFILES = (
    (0.50, 0.50),
    (0.50, 0.25),
    (0.50, 0.75),
    (1.00, 1.00),
    (0.25, 0.25),
    (0.50, 0.12),
    (0.50, 0.03),
    (0.50, 0.97),
    (1.00, 0.50),
    (1.00, 0.06),
)
CLASSES = 9
REQUEST = 0.025
VARIATION = 0.5


@dataclass(frozen=True, slots=True)
class DrawnOptions:
    """Sizes of the drawn experiments; the paper's are 1,000 machines, 100 hours, five seeds.

    lambda* is that of the best plan among the variants.
    """

    machines: int = 1_000
    hours: float = 100.0
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    variants: tuple[LotesVariant, ...] = (LOTES, TETRIS, TETRIS_BLIND)


def lotes_resources(
    phis: tuple[float, ...] = (0.0, 0.003, 0.006, 0.009, 0.012, 0.015),
    load: float = 0.97,
    options: DrawnOptions | None = None,
) -> LotesTable:
    """Section 5.4.2: r_kl = 0.025 + U[-phi, phi] at a load of lambda*.

    Raises
    ------
    ValueError
        If some phi allows a negative request.
    """
    options = options or DrawnOptions()
    rows = []
    for phi in phis:
        for seed in options.seeds:
            classes = drawn_classes(phi, seed)
            speed = np.ones((len(TABLE_ONE_PROFILES), CLASSES))
            rows += _runs({"phi": phi, "load": load}, classes, speed, seed, options)
    return LotesTable("lotes-resources", tuple(rows), _notes(options))


def lotes_rates(
    omegas: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4),
    loads: tuple[float, ...] = (0.90, 0.95),
    options: DrawnOptions | None = None,
) -> LotesTable:
    """Section 5.4.3: mu_jk = omega_jk / u_k with omega_jk from U[1 - Omega, 1 + Omega].

    Requests are those of phi = 0.006; the paper's 0.06 would make some negative.
    """
    options = options or DrawnOptions()
    rows = []
    for omega in omegas:
        for seed in options.seeds:
            classes = drawn_classes(0.006, seed)
            rng = np.random.default_rng((seed, 543))
            shape = (len(TABLE_ONE_PROFILES), CLASSES)
            speed = 1.0 + omega * rng.uniform(-1.0, 1.0, shape)
            for load in loads:
                rows += _runs({"omega": omega, "load": load}, classes, speed, seed, options)
    return LotesTable("lotes-rates", tuple(rows), _notes(options))


def drawn_classes(phi: float, seed: int) -> JobClasses:
    """Nine equal classes with r_kl = 0.025 + U[-phi, phi] and mean times u_k from U[0, 1] hours.

    Equal seeds draw the same pattern at every phi.

    Raises
    ------
    ValueError
        If phi is not in [0, 0.025).
    """
    if not 0 <= phi < REQUEST:
        raise ValueError(f"phi is {phi}: expected 0 <= phi < {REQUEST}, or requests turn negative")
    rng = np.random.default_rng((seed, 542))
    request = REQUEST + phi * rng.uniform(-1.0, 1.0, (CLASSES, 2))
    # u_k = 0 would be a class that takes no time.
    time_h = 1.0 - rng.uniform(0.0, 1.0, CLASSES)
    return JobClasses.of(np.ones(CLASSES), request, time_h)


def true_classes(classes: JobClasses) -> JobClasses:
    """The same classes with the means that truncated draws have."""
    from scipy.stats import truncnorm

    mean = classes.request
    deviation = np.maximum(VARIATION * mean, 1e-300)
    cut = truncnorm.mean((0 - mean) / deviation, (1 - mean) / deviation, mean, deviation)
    return JobClasses.of(classes.share, np.where(mean > 0, cut, 0.0), classes.time_h)


def _runs(
    setting: dict[str, float | str],
    classes: JobClasses,
    speed: NDArray[np.float64],
    seed: int,
    options: DrawnOptions,
) -> list[LotesRow]:
    machines = MachineConfigurations.of(
        [options.machines] * len(TABLE_ONE_PROFILES), TABLE_ONE_PROFILES
    )
    plans = plans_of(LotesInstance.of(machines, classes, speed=speed), options.variants)
    true = plans_of(
        LotesInstance.of(machines, true_classes(classes), speed=speed), options.variants
    )
    # lambda* is the LP's (section 5.4.2); rounding few machines to bins loses more than it tells.
    sustained = sustained_rate(plans)
    rate = float(setting["load"]) * sustained
    workload = PoissonWorkload(classes, rate, options.hours, variation=VARIATION)
    loads = Loads(rate, sustained, sustained_rate(true))
    measured = SimulationOptions(horizon_h=options.hours, interval_h=1.0)
    rows = []
    for variant in options.variants:
        result = run_variant(variant, plans, workload, seed, measured, speed)
        rows.append(row_of(result, setting, seed, loads, variant.name))
    return rows


def _notes(options: DrawnOptions) -> dict[str, object]:
    return {"machines_per_configuration": options.machines, "hours": options.hours}


Renewal = Literal["classes", "shares", "known shares"]
"""New clusters; the first clusters with the shares and times of the last hours; or with those of
the hours to come, which no one could know: what the best forecast would gain."""

NAMES: Final[dict[Renewal, str]] = {
    "classes": "lotes",
    "shares": "the same classes, new shares",
    "known shares": "the same classes, shares of the hours to come",
}


@dataclass(frozen=True, slots=True)
class DriftOptions:
    """How often to renew, and from how much of the past.

    Attributes
    ----------
    every_h
        Hours between renewals; each is a row of its own.
    renewals
        What is renewed; each is a policy of its own.
    least_gain
        With `shares`: keep the table unless a new one sustains more by this share.
    window_h
        Arrivals that a renewal learns from.
    part, start_all_h
        As in `TraceOptions`: what a seed draws, and time after the end for every job to start.
    """

    every_h: tuple[float, ...] = (1.0, 2.0, 4.0)
    renewals: tuple[Renewal, ...] = ("classes", "shares", "known shares")
    least_gain: float = 0.0
    window_h: float = 5.0
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    part: float = 0.5
    start_all_h: float = 200.0
    lotes: LotesOptions = field(default_factory=LotesOptions)


def lotes_drift(
    machines: MachineConfigurations, jobs: TraceJobs, options: DriftOptions | None = None
) -> LotesTable:
    """Static classes against renewed ones on one trace; `setting["every_h"]` is 0 for static."""
    options = options or DriftOptions()
    rows: list[LotesRow] = []
    some = machines.with_share(options.part)
    for seed in options.seeds:
        rng = np.random.default_rng((seed, 53))
        drawn = jobs.random_part(options.part, rng) if options.part < 1 else jobs
        first = _plan(some, _fit(drawn, _first_window(drawn, options), seed), options)
        loads = Loads(drawn.rate_per_h, *[first.assignment.relaxed_rate] * 2)
        for renewal, every_h in _ways(options):
            run = _DriftSide(some, drawn, renewal, every_h, seed, first)
            name = NAMES[renewal]
            rows.append(row_of(_simulate(run, options), {"every_h": every_h}, seed, loads, name))
    notes: dict[str, object] = {
        "window_h": options.window_h,
        "machines": some.machines,
        "part": options.part,
    }
    return LotesTable("lotes-drift", tuple(rows), notes)


@dataclass(frozen=True, slots=True)
class _DriftSide:
    """One side of the comparison: `every_h` is 0 if nothing is renewed."""

    machines: MachineConfigurations
    jobs: TraceJobs
    renewal: Renewal
    every_h: float
    seed: int
    first: LotesResult


def _ways(options: DriftOptions) -> Iterator[tuple[Renewal, float]]:
    yield "classes", 0.0
    for renewal in options.renewals:
        for every_h in options.every_h:
            yield renewal, every_h


def _simulate(run: _DriftSide, options: DriftOptions) -> SimulationResult:
    jobs, planned = run.jobs, run.first
    now, end = float(jobs.arrival_h[0]), float(jobs.arrival_h[-1])
    simulator = MachineSimulator(
        Machines(run.machines.count, run.machines.capacity),
        np.ones(planned.table.wheel.shape),
        "lotes",
        planned.table,
        SimulationOptions(interval_h=1.0, horizon_h=end + 1.0, start_all_h=options.start_all_h),
    )
    rng = np.random.default_rng(run.seed)
    # The first plan is its window's own; renewals begin after it.
    until = now + options.window_h if run.every_h else np.inf
    while True:
        chunk = jobs.between(now, until).with_classes(planned.instance.classes)
        simulator.feed(chunk, rng.random(chunk.arrival_h.size))
        if until > end:
            break
        now, until = until, until + run.every_h
        renewed = _plan_from(run, planned, now, options)
        if renewed is not planned:
            planned = renewed
            simulator.retarget(planned.table, planned.instance.classes)
    simulator.start_all(options.start_all_h)
    return simulator.result()


def _plan_from(
    run: _DriftSide, planned: LotesResult, now_h: float, options: DriftOptions
) -> LotesResult:
    """The plan from `now_h` on: a new one, or the one that there is."""
    if run.renewal == "classes":
        window = (now_h - options.window_h, now_h)
        classes = _fit(run.jobs, window, run.seed)
        return _plan(run.machines, classes, options)
    ahead = run.renewal == "known shares"
    window = (now_h, now_h + run.every_h) if ahead else (now_h - options.window_h, now_h)
    sample = run.jobs.sample(*window)
    if sample.jobs == 0:
        return planned
    classes = with_mix(run.first.instance.classes, sample)
    new = _plan(run.machines, classes, options)
    enough = planned.table.rate_for(classes) * (1.0 + options.least_gain)
    return new if options.least_gain == 0 or new.arrival_rate > enough else planned


def _first_window(jobs: TraceJobs, options: DriftOptions) -> tuple[float, float]:
    start = float(jobs.arrival_h[0])
    return start, start + options.window_h


def _fit(jobs: TraceJobs, window: tuple[float, float], seed: int) -> JobClasses:
    return fit_job_classes(jobs.sample(*window), np.random.default_rng(seed))


def _plan(
    machines: MachineConfigurations, classes: JobClasses, options: DriftOptions
) -> LotesResult:
    return plan_lotes(LotesInstance.of(machines, classes), options.lotes)
