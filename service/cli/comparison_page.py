"""A comparison of agents as a page for an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from service.cli.plan_files import difference_rows
from service.cli.plan_tables import METRIC_COLUMNS, left_out_counts, left_out_reasons, run_rows
from service.pictures.report import beside_html, folded_html, list_html, page_html, table_html
from service.sentences import better_clause

if TYPE_CHECKING:
    from planner.metrics import Metrics
    from planner.workload.compare import AgentRun, Comparison

_RELATIVE: Final = ("acceptance", "accepted", "value", "falls", "uniformity")

#: Rows of a table that is not folded, at most.
_MOST_OPEN: Final = 12

#: What the columns mean, for anyone who meets them first.
_LEGEND: Final = (
    "acceptance: value accepted of the value asked; value is weight x core-hours x preference",
    "falls: how far allocations fall over time, in bundles; less is calmer",
    "uniformity: standard deviation of utilisation over its mean; less leaves more even headroom",
    "bound: no plan whatever accepts more value; gap: (bound - value) / bound",
)


def comparison_page(comparison: Comparison, title: str) -> str:
    """Return the HTML of a comparison: in short, figures, skylines, requests, reasons."""
    base = [run.agent for run in comparison.runs].index(comparison.baseline)
    documents = [run.document.to_json() for run in comparison.runs if run.document is not None]
    sections = [
        ("In short", list_html([_sentence(run, comparison) for run in comparison.runs])),
        (
            "Metrics",
            table_html(*_known(METRIC_COLUMNS, run_rows(comparison)), base=base)
            + list_html(_LEGEND),
        ),
        (
            f"Relative to {comparison.baseline}",
            table_html(("agent", *_RELATIVE), _relative_rows(comparison), base=base),
        ),
        ("Skylines", beside_html(documents)),
        ("Requests that agents answer differently", _disagreements(comparison)),
        ("Why requests are left out", _reasons(comparison)),
        ("Who moved", "".join(_differences(run, comparison.baseline) for run in comparison.runs)),
    ]
    return page_html(title, sections)


def _known(
    header: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple[list[str], list[list[object]]]:
    """Return a table without empty columns."""
    kept = [at for at in range(len(header)) if any(row[at] is not None for row in rows)]
    return [header[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _sentence(run: AgentRun, comparison: Comparison) -> str:
    """Return the result of one agent in one or two sentences."""
    if run.metrics is None:
        return f"{run.agent}: no plan ({run.status}). {run.detail}."
    figures = run.metrics
    text = f"{run.agent} accepts {figures.accepted:,} of {figures.requests:,} requests"
    if figures.acceptance is not None:
        text += f", {figures.acceptance:.1%} of the value"
    value, falls = run.relative["value"], run.relative["falls"]
    if run.agent != comparison.baseline and value is not None:
        more = "more" if value >= 1 else "less"
        text += f" ({abs(value - 1):.1%} {more} than {comparison.baseline}"
        text += f", falls {falls - 1:+.0%})" if falls is not None else ")"
    text += f", in {_duration(figures.runtime_ms)}."
    if figures.gap is not None:
        text += f" {_better(figures, is_proven=run.status == 'optimal')}."
    return f"{text} {run.status}: {run.detail}." if run.detail else text


def _better(figures: Metrics, *, is_proven: bool) -> str:
    """Return how much better a plan could be."""
    bound = figures.value if is_proven or figures.bound is None else figures.bound
    clause = better_clause(figures.value, bound)
    return clause[0].upper() + clause[1:]


def _duration(ms: float) -> str:
    """Return how long a run took, in a unit that leaves figures before the point."""
    if ms >= 1000:
        return f"{ms / 1000:,.1f} s"
    return f"{ms:,.0f} ms" if ms >= 10 else f"{ms:,.1f} ms" if ms >= 1 else f"{1000 * ms:,.0f} µs"


def _relative_rows(comparison: Comparison) -> list[list[object]]:
    return [[run.agent, *(run.relative[name] for name in _RELATIVE)] for run in comparison.runs]


def _disagreements(comparison: Comparison) -> str:
    found = comparison.disagreements()
    if not found:
        return "<p>None: every agent accepts and refuses the same requests.</p>"
    header = ("id", "tenant", "weight", *(run.agent for run in comparison.runs))
    rows = [[one.id, one.tenant, one.weight, *one.answers] for one in found]
    return _list(f"{len(found):,} in all", table_html(header, rows), len(rows))


def _reasons(comparison: Comparison) -> str:
    """Return the number of refusals of each agent by cause, and the reason for each request."""
    counts = left_out_counts(comparison)
    if not counts:
        return "<p>None is.</p>"
    rows = [
        [id_, tenant, ", ".join(agents), why]
        for (id_, tenant), reasons in left_out_reasons(comparison)
        for why, agents in reasons.items()
    ]
    header = ("id", "tenant", "left out by", "why")
    text = "Request by request: those that few agents leave out come first"
    return list_html(counts) + _list(text, table_html(header, rows), len(rows))


def _list(summary: str, table: str, rows: int) -> str:
    """Return a table under its summary, folded where it is long."""
    return folded_html(summary, table) if rows > _MOST_OPEN else f"<p>{summary}.</p>{table}"


def _differences(run: AgentRun, baseline: str) -> str:
    if run.differences is None:
        return ""
    plain = run.differences.to_json()
    header, rows = difference_rows(plain, calendar=True)
    counts = ", ".join(f"{count:,} {fate}" for fate, count in plain["counts"].items() if count)
    summary = f"From {baseline} to {run.agent}: {counts or 'nothing'}, {plain['same']:,} the same"
    return folded_html(summary, table_html(header, rows) if rows else "")
