"""LoTES section 5.4 on drawn workloads: classes that differ in requests, or in rates by machine.

Nine classes arrive equally often on ten configurations (the profiles of Table 1, equally many
machines of each); times are exponential, requests Gaussian with a coefficient of variation of one
half, cut to [0, 1], which raises their mean by 2.8 % above the nominal r that the LPs plan with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dispatch.simulation.experiments.lotes.tables import Loads, LotesRow, LotesTable, row_of
from dispatch.simulation.experiments.lotes.variants import (
    LOTES,
    TETRIS,
    TETRIS_BLIND,
    LotesVariant,
    plans_of,
    run_variant,
    sustained_rate,
)
from dispatch.simulation.machine_level.measures import SimulationOptions
from dispatch.simulation.machine_level.workload import PoissonWorkload
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations

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
