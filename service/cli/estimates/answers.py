"""Estimates as rows of a table, as JSON and as requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.history.back_test import RuleScore
from planner.history.effects import Drift
from planner.history.estimate import (
    DayPrediction,
    JobEstimate,
    begin_text,
    days_text,
    runs_needed,
)
from planner.history.prediction import LATEST
from rdl.codecs.json_codec import to_json
from rdl.resources import Resources
from rdl.text.formatter import format_pretty
from rdl.time_grid import duration_text

HEADER: Final = (
    "job", "runs", "period", "begins", "confidence", "takes", "at most", "over %", "noticed",
)  # fmt: skip
SCORE_HEADER: Final = ("rule", "runs", "fit %", "over %")

_WEEK: Final = 7


def row_of(estimate: JobEstimate) -> list[object]:
    """Return the row of one job, under `HEADER`."""
    profiles = [part.prediction.profile for part in estimate.parts]
    period = estimate.period
    return [
        estimate.job,
        estimate.all_runs,
        None if period is None else duration_text(1000 * period.seconds),
        begin_text(estimate) or None,
        f"{estimate.confidence:.2f}",
        duration_text(1000 * max(profile.length_s for profile in profiles)),
        int(max(profile.widths.max() for profile in profiles)),
        f"{100 * estimate.over:+.0f}",
        "; ".join(_noticed(estimate)) or None,
    ]


def _noticed(estimate: JobEstimate) -> list[str]:
    found = [drift_text(drift) for part in estimate.parts[:1] for drift in part.prediction.drifts]
    effect = estimate.parts[0].prediction.weekdays
    return [*found, *([effect.text()] if effect else [])]


def drift_text(drift: Drift) -> str:
    """Return a trend in words."""
    return f"{drift.of} {100 * drift.change:+.0f} % over {drift.runs} runs"


def notes_of(estimate: JobEstimate, confidence: float) -> list[str]:
    """Return what a reader of an estimate must know, the confidence that was missed first."""
    notes = list(estimate.notes)
    if estimate.confidence < confidence - 1e-9:
        counted = min(part.prediction.runs for part in estimate.parts)
        needed = runs_needed(confidence)
        wanted = f"{confidence:g} needs {needed}"
        if needed > LATEST:
            most = LATEST / (LATEST + 1)
            wanted = f"the latest {LATEST} count, so {most:.2f} is the most that can be had"
        said = f"{counted} runs give a confidence of {estimate.confidence:.2f}; {wanted}"
        notes.insert(0, said)
    return notes


def rdl_of(estimate: JobEstimate, confidence: float) -> str:
    """Return the request of a job, with what must be known of it as comments."""
    head = f"{estimate.job}: {estimate.all_runs} runs, confidence {estimate.confidence:.2f}"
    said = [head, *notes_of(estimate, confidence)]
    comments = "".join(f"# {_one_line(line)}\n" for line in said)
    return f"{comments}{format_pretty(estimate.expression)}\n"


def _one_line(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)


def document_of(estimate: JobEstimate, confidence: float) -> dict[str, Any]:
    """Return one estimate as plain JSON."""
    period = estimate.period
    return {
        "job": estimate.job,
        "runs": estimate.all_runs,
        "counted": len(estimate.runs),
        "period_s": None if period is None else period.seconds,
        "begin": begin_text(estimate) or None,
        "confidence": estimate.confidence,
        "over": estimate.over,
        "container": Resources.of(dict(_bundle(estimate))).to_json(),
        "parts": [_part(part) for part in estimate.parts],
        "notes": notes_of(estimate, confidence),
        "rdl": format_pretty(estimate.expression),
        "rdl_json": to_json(estimate.expression),
    }


def _bundle(estimate: JobEstimate) -> Mapping[str, int]:
    names = sorted({name for run in estimate.runs for name in run.bundle})
    return {name: max(run.bundle.get(name, 0) for run in estimate.runs) for name in names}


def _part(part: DayPrediction) -> dict[str, Any]:
    found = part.prediction
    return {
        "days": "every" if len(part.days) == _WEEK else days_text(part.days),
        "runs": found.runs,
        "confidence": found.confidence,
        "length_s": found.profile.length_s,
        "container_s": found.profile.work_s,
        "steps": [
            {"seconds": buckets * found.profile.bucket_s, "containers": width}
            for buckets, width in found.profile.steps()
        ],
        "drifts": [
            {"of": drift.of, "change": drift.change, "runs": drift.runs} for drift in found.drifts
        ],
        "weekdays": None if found.weekdays is None else found.weekdays.text(),
    }


def score_rows(scores: Mapping[str, RuleScore]) -> Sequence[Sequence[object]]:
    """Return a row for each rule, under `SCORE_HEADER`."""
    return [
        (name, one.runs, *((f"{100 * one.share:.1f}", f"{100 * one.over:+.1f}") if one.runs else
                           (None, None)))
        for name, one in scores.items()
    ]  # fmt: skip


def scores_document(scores: Mapping[str, RuleScore]) -> dict[str, Any]:
    """Return the scores of rules as plain JSON; a rule that was not tested has no shares."""
    return {
        name: {
            "runs": one.runs,
            "fit": one.share if one.runs else None,
            "over": one.over if one.runs else None,
        }
        for name, one in scores.items()
    }
