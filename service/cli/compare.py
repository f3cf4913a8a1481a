"""`agenda compare`: agents side by side on one workload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from service.cli.codes import DONE
from service.cli.options import READABLE, WRITABLE, agent_names, duration
from service.cli.output import CSV, JSON, format_option, print_csv, print_json, print_table
from service.cli.plan import limits_of, read_day
from service.cli.running import make_ready, running
from service.cli.summary import METRIC_COLUMNS, metric_rows
from service.cli.trouble import tells_trouble

if TYPE_CHECKING:
    from planner.compare import Comparison

_RELATIVE: Final = ("acceptance", "accepted", "value", "preemption", "uniformity")
_FATES: Final = ("gained", "lost", "moved", "changed")


@click.command()
@click.argument("cluster", type=READABLE)
@click.argument("workload", type=READABLE)
@click.option("--agents", type=agent_names, default="gree,gree-l", show_default=True,
              help="Names, separated by commas.")  # fmt: skip
@click.option("--time-limit", type=duration, help="For each agent; the best so far then.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--html", type=WRITABLE, help="Write a page with tables and every skyline here.")
@format_option()
@tells_trouble
def compare(
    cluster: Path,
    workload: Path,
    agents: tuple[str, ...],
    html: Path | None,
    form: str,
    **effort: Any,
) -> int:
    """Plan WORKLOAD on CLUSTER with each agent; gree is the baseline if it takes part."""
    from planner.compare import compare as compared

    described, compiled = read_day(cluster, workload)
    make_ready()
    with running("comparing agents") as run:
        limits = limits_of(run, effort["time_limit"], effort["seed"])
        comparison = compared(described, compiled, agents, limits)
    if html is not None:
        html.write_text(_page(comparison, cluster, workload), encoding="utf-8")
    _print(comparison, form)
    return DONE


def _page(comparison: Comparison, cluster: Path, workload: Path) -> str:
    from service.pictures.report import comparison_html, table_html

    names = [run.agent for run in comparison.runs]
    base = names.index(comparison.baseline)
    documents = [run.document.to_json() for run in comparison.runs]
    tables = {
        "Metrics": table_html(METRIC_COLUMNS, metric_rows(documents), base=base),
        f"Relative to {comparison.baseline}": table_html(
            ("agent", *_RELATIVE), _relative_rows(comparison), base=base
        ),
    }
    details: dict[str, str] = {}
    for run in comparison.runs:
        if run.differences is not None:
            header, rows = difference_rows(run.differences.to_json())
            details[f"From {comparison.baseline} to {run.agent}"] = table_html(header, rows)
    return comparison_html(f"{workload.name} on {cluster.name}", tables, documents, details)


def _relative_rows(comparison: Comparison) -> list[list[object]]:
    return [[run.agent, *(run.relative[name] for name in _RELATIVE)] for run in comparison.runs]


def difference_rows(difference: dict[str, Any]) -> tuple[tuple[str, ...], list[list[object]]]:
    """Return header and one row a request that differs between two Plans."""
    header = ("id", "fate", "before", "after", "start before", "start after", "end before",
              "end after", "moved")  # fmt: skip
    rows: list[list[object]] = [
        [x["id"], x["fate"], x["before"], x["after"], *x["start"], *x["end"], x["moved"]]
        for x in difference["requests"]
    ]
    return header, rows


def _print(comparison: Comparison, form: str) -> None:
    rows = metric_rows([run.document.to_json() for run in comparison.runs])
    if form == JSON:
        print_json(comparison.to_json())
    elif form == CSV:
        print_csv(METRIC_COLUMNS, rows)
    else:
        print_table(METRIC_COLUMNS, rows)
        click.echo(f"\nrelative to {comparison.baseline}, and what became of the requests")
        counts = [
            [None] * len(_FATES)
            if run.differences is None
            else [run.differences.to_json()["counts"][fate] for fate in _FATES]
            for run in comparison.runs
        ]
        relative = _relative_rows(comparison)
        print_table(
            ("agent", *_RELATIVE, *_FATES),
            [[*row, *count] for row, count in zip(relative, counts, strict=True)],
        )
