"""Every experiment into one folder, with a page that shows them all."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from bench.papers.catalogue import EXPERIMENTS, Experiment
from bench.papers.experiment import TRACES
from service.cli.kit.errors import CliError

if TYPE_CHECKING:
    from bench.papers.experiment import ExperimentResult, Table

#: the current allocations for all experiments where one is named.
ALL: Final = "all"

Run: TypeAlias = "Callable[[Experiment, Path], ExperimentResult]"


@dataclass(frozen=True, slots=True)
class DoneExperiment:
    """One experiment of a folder.

    Attributes
    ----------
    seconds
        How long it took.
    failure
        Why there is no result, or nothing.
    """

    experiment: Experiment
    result: ExperimentResult | None
    seconds: float
    failure: str = ""


def run_all(folder: Path, run: Run, stopped: Callable[[], bool]) -> list[DoneExperiment]:
    """Run every experiment, write what it found into a folder, and a page ``index.md`` of all.

    An experiment without its traces, or one that fails, is named on the page; the others continue.
    Of each the folder holds ``NAME.json`` and ``NAME.svg``.

    Parameters
    ----------
    run
        Runs one; is given the file in which its points are kept.
    stopped
        Asked before each experiment.

    Raises
    ------
    CliError
        If the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CliError(f"{folder}: {error.strerror}") from error
    done: list[DoneExperiment] = []
    for experiment in EXPERIMENTS.values():
        if stopped():
            break
        click.echo(experiment.name, err=True)
        done.append(_one(experiment, folder, run))
        (folder / "index.md").write_text(_page(done), encoding="utf-8")
    return done


def _one(experiment: Experiment, folder: Path, run: Run) -> DoneExperiment:
    from service.pictures.experiments import write_panels

    if missing := missing_traces(experiment):
        return DoneExperiment(experiment, None, 0.0, missing)
    began = time.monotonic()
    try:
        result = run(experiment, folder / f"{experiment.name}.points.jsonl")
    except CliError as error:
        return DoneExperiment(experiment, None, time.monotonic() - began, str(error))
    taken = time.monotonic() - began
    text = json.dumps(result.document, indent=1, ensure_ascii=False)
    (folder / f"{experiment.name}.json").write_text(text + "\n", encoding="utf-8")
    write_panels(experiment.name, result.panels, folder / f"{experiment.name}.svg")
    return DoneExperiment(experiment, result, taken)


def missing_traces(experiment: Experiment) -> str:
    """Return what to do for the traces that an experiment cannot run without, or nothing."""
    root = os.environ.get(TRACES, "")
    if not experiment.needs or (root and (Path(root) / experiment.needs).is_dir()):
        return ""
    return f"needs {experiment.needs}/ in the folder that {TRACES} names"


def _page(done: Sequence[DoneExperiment]) -> str:
    """Return a page in Markdown: a list of all, then the tables and the picture of each."""
    header = ("experiment", "time", "traces", "claim", "it")
    listed = [
        (f"[{one.experiment.name}](#{one.experiment.name})", _time(one),
         one.experiment.traces or "none", one.experiment.claim, _judged(one))
        for one in done
    ]  # fmt: skip
    parts = ["# Experiments", "Made by `python -m bench.papers all`.", *_table(header, listed)]
    for one in done:
        parts += ["", f"## {one.experiment.name}", "", f"{one.experiment.help}.", ""]
        if one.result is None:
            parts.append(f"Not run: {one.failure}.")
            continue
        for table in one.result.tables:
            parts += [*_table(table.header, table.rows), ""]
        parts.append(f"![{one.experiment.name}]({one.experiment.name}.svg)")
    return "\n".join(parts) + "\n"


def _time(one: DoneExperiment) -> str:
    return "–" if one.result is None else f"{one.seconds:,.0f} s"


def _judged(one: DoneExperiment) -> str:
    """Return how many of the figures that were claimed are as claimed, and how many are not."""
    if one.result is None:
        return one.failure
    counts = [verdicts_of(table) for table in one.result.tables]
    holds, fails = sum(found[0] for found in counts), sum(found[1] for found in counts)
    return f"{holds} hold, {fails} do not" if holds + fails else "–"


def verdicts_of(table: Table) -> tuple[int, int]:
    """Return how many claims of a table hold, and how many do not."""
    if table.header[-1] != "it":
        return 0, 0
    said = [row[-1] for row in table.rows]
    return said.count("holds"), said.count("does not hold")


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = ["", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]


def _cell(value: object) -> str:
    from service.pictures.style import cell_text

    return cell_text(value).replace("|", "\\|")
