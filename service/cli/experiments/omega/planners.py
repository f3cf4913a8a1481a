"""Omega's experiment: planners that commit to one Plan at the same time, and their conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from statistics import mean
from typing import Any

from dispatch.simulation.experiments.omega import OmegaFigures, OmegaRun, run_omega
from dispatch.simulation.spread import spread_of
from service.cli.experiments.effort import ExperimentEffort
from service.cli.experiments.results import ExperimentResult, Table, spreads
from service.pictures.experiments import ExperimentPanel, PanelSeries


def run_planners(effort: ExperimentEffort) -> ExperimentResult:
    """Run every transaction model with each number of planners."""
    planners = (1, 8) if effort.small else (1, 2, 4, 8, 16, 32)
    length_s = 20.0 if effort.small else 240.0
    runs = [
        OmegaRun(
            planners=count,
            length_s=length_s,
            slice_s=length_s / 12,
            coarse=coarse,
            all_or_nothing=gang,
            seed=seed,
        )
        for coarse, gang, count, seed in product(
            (False, True), (False, True), planners, effort.seeds_or((1, 2, 3))
        )
    ]
    return _result_of(effort.parts([partial(run_omega, run) for run in runs]))


def _result_of(figures: Sequence[OmegaFigures]) -> ExperimentResult:
    """Return conflict fraction, busyness and wait by transaction model and number of planners."""
    groups: dict[tuple[str, int], list[OmegaFigures]] = {}
    for one in figures:
        groups.setdefault((_model(one), one.run.planners), []).append(one)
    summaries = [_summary(model, count, ones) for (model, count), ones in groups.items()]
    document = {
        "experiment": "omega",
        "summaries": summaries,
        "rows": [one.to_json() for one in figures],
    }
    keys = ("conflict_fraction", "busyness", "wait_s")
    labels = ("conflicts a successful transaction", "busyness (median)", "mean wait, s")
    panels = [
        ExperimentPanel(label, "planners", label, _series(summaries, key), log_x=True)
        for key, label in zip(keys, labels, strict=True)
    ]
    table = Table.of(
        [key.replace("_", " ") for key in summaries[0]],
        [tuple(one.values()) for one in summaries],
    )
    return ExperimentResult(document, (table,), panels)


def _model(figures: OmegaFigures) -> str:
    detection = "coarse" if figures.run.coarse else "fine"
    return f"{detection}, {'all-or-nothing' if figures.run.all_or_nothing else 'incremental'}"


def _summary(model: str, planners: int, ones: Sequence[OmegaFigures]) -> dict[str, Any]:
    conflicts = [one.conflict_fraction for one in ones]
    return {
        "model": model,
        "planners": planners,
        "seeds": len(ones),
        "conflict_fraction": mean(conflicts),
        "spread": spread_of(conflicts),
        "busyness": mean(one.busyness for one in ones),
        "busyness_mad": mean(one.busyness_mad for one in ones),
        "wait_s": mean(one.wait_s for one in ones),
        "jobs": sum(one.jobs for one in ones),
        "given_up": sum(one.given_up for one in ones),
    }


def _series(summaries: Sequence[dict[str, Any]], key: str) -> list[PanelSeries]:
    found = []
    for model in dict.fromkeys(one["model"] for one in summaries):
        mine = [one for one in summaries if one["model"] == model]
        spread = spreads(one["spread"] for one in mine) if key == "conflict_fraction" else []
        found.append(
            PanelSeries(
                model, [one["planners"] for one in mine], [one[key] for one in mine], spread
            )
        )
    return found
