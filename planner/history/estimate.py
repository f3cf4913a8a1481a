"""Estimate a job from its history, as one request with a confidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from math import ceil
from typing import Final

from planner.history.effects import DAYS, level_break, weekday_of
from planner.history.prediction import LATEST, Prediction, predict
from planner.history.request import (
    DAY_S,
    JobPeriod,
    RequestForm,
    crosses_midnight,
    daily,
    once,
    period_of,
    recurring,
    weekly,
)
from planner.history.run import JobRun
from rdl.expressions import Expression
from rdl.time_grid import duration_text

_WEEK: Final = tuple(range(7))
#: Runs over this many days show on which days of the week a job does not run.
_DAYS_SEEN: Final = 14
#: A day of the week with runs in a smaller share of the weeks counts as a day without runs.
_SELDOM: Final = 0.25


@dataclass(frozen=True, slots=True)
class DayPrediction:
    """The prediction for some days of the week, Monday = 0; for all seven if days do not differ."""

    days: tuple[int, ...]
    prediction: Prediction


@dataclass(frozen=True, slots=True)
class JobEstimate:
    """The estimated need of the next runs of a job.

    Attributes
    ----------
    job
        Its name.
    runs
        Number of runs that count, the latest ones.
    all_runs
        Number of all runs.
    period
        How often it runs, None if no period was found.
    parts
        The prediction for each group of days.
    expression
        The request.
    notes
        Notes for the reader of the request, one sentence each.
    """

    job: str
    runs: tuple[JobRun, ...]
    all_runs: int
    period: JobPeriod | None
    parts: tuple[DayPrediction, ...]
    expression: Expression
    notes: tuple[str, ...]

    @property
    def confidence(self) -> float:
        """Return the lowest confidence of its parts."""
        return min(part.prediction.confidence for part in self.parts)

    @property
    def over(self) -> float:
        """Return the over-allocation as a share of the mean work of the runs.

        Parts are weighted by their number of days.
        """
        mean_s = sum(run.work_s for run in self.runs) / len(self.runs)
        works = [part.prediction.profile.work_s * len(part.days) for part in self.parts]
        allocated_s = sum(works) / sum(len(part.days) for part in self.parts)
        return allocated_s / mean_s - 1


def runs_needed(confidence: float) -> int:
    """Return the smallest n with n / (n + 1) >= confidence: the fewest runs that can give it."""
    return ceil(confidence / (1 - confidence) - 1e-9)


def estimate(
    runs: Sequence[JobRun],
    confidence: float,
    form: RequestForm,
    on: date | None = None,
    *,
    calendar: bool = True,
) -> JobEstimate:
    """Estimate the need of the next runs of a job.

    Parameters
    ----------
    runs
        Runs of one job in order of start.
    confidence
        Wanted probability that the request holds a whole run, above 0 and below 1.
    on
        The first day of the request; None is the day after the last start.
    calendar
        Whether times are instants; else they count from the start of a trace, without days of the
        week.

    Raises
    ------
    TooFewRunsError
        For fewer than 3 runs.
    """
    latest = tuple(runs[-LATEST:])
    period = period_of(latest, form.zone)
    bundle = _bundle_of(latest)
    first = _first_day(latest, form, on)
    if period is not None and period.is_of_days and calendar:
        return _of_days(latest, len(runs), confidence, form, bundle, period, first)
    day_known = calendar and period is None and on is not None
    next_s = first.timestamp() if day_known else None
    found = predict(latest, confidence, form.step_s, next_s, form.zone)
    notes = _break_notes(latest, form, calendar=calendar)
    expression: Expression = once(found.profile, bundle, form)
    if period is None:
        notes.append("no period was found: the request is for one run from its submission on")
    elif found.profile.length_s > period.seconds:
        notes.append(_longer_than(period))
    else:
        if form.window_s(found.profile) > period.seconds:
            notes.append(_window_cut(period))
        after_s = first.timestamp() if calendar else None
        expression = recurring(found.profile, bundle, form, period, after_s)
    if not calendar:
        notes.append("the history has no calendar: days of the week and the zone are left out")
    part = DayPrediction(_WEEK, found)
    return JobEstimate(latest[0].job, latest, len(runs), period, (part,), expression, tuple(notes))


def _of_days(
    runs: tuple[JobRun, ...],
    all_runs: int,
    confidence: float,
    form: RequestForm,
    bundle: Mapping[str, int],
    period: JobPeriod,
    first: datetime,
) -> JobEstimate:
    """Return the estimate of a job that runs daily, weekly, or on some days of the week."""
    days = _days_of(runs, period, form)
    parts = _by_day(runs, confidence, form, days, first)
    profiles = {day: part.prediction.profile for part in parts for day in part.days}
    begin_s = period.begin_s % DAY_S
    notes = _break_notes(runs, form)
    longest_s = max(profile.length_s for profile in profiles.values())
    expression: Expression
    if longest_s > DAY_S:
        notes.append(_longer_than(JobPeriod(DAY_S, begin_s)))
        longest = max(profiles.values(), key=lambda profile: profile.length_s)
        expression = once(longest, bundle, form)
    elif len(parts) == 1 and days == _WEEK:
        expression = daily(parts[0].prediction.profile, bundle, form, begin_s, first)
    else:
        monday = _midnight(first.date() + timedelta(days=-first.weekday() % 7), form)
        expression = weekly(profiles, bundle, form, begin_s, monday)
        notes.append(f"its weeks begin on Mondays, the first one on {monday.date().isoformat()}")
    if longest_s <= DAY_S and crosses_midnight(profiles, form, begin_s, first) and days == _WEEK:
        notes.append(
            "a window continues after midnight: periods count from the usual start, which "
            "does not follow summer time"
        )
    return JobEstimate(runs[0].job, runs, all_runs, period, parts, expression, tuple(notes))


def _break_notes(runs: Sequence[JobRun], form: RequestForm, *, calendar: bool = True) -> list[str]:
    """Return a sentence on a jump of the work to another level, if any."""
    found = level_break([run.work_s for run in runs])
    if found is None:
        return []
    first = runs[-found.last]
    since = datetime.fromtimestamp(first.began_s, form.zone).date().isoformat() if calendar else ""
    return [
        f"a break: its last {found.last} runs{', since ' + since if since else ''}, need "
        f"{found.factor:.3g} times the work of the {found.before} before; the request counts all"
    ]


def _days_of(runs: Sequence[JobRun], period: JobPeriod, form: RequestForm) -> tuple[int, ...]:
    """Return the days of the week on which a job runs."""
    if period.seconds > DAY_S:
        return ((period.begin_s // DAY_S + 3) % 7,)  # 1970-01-01 was a Thursday
    if runs[-1].began_s - runs[0].began_s < _DAYS_SEEN * DAY_S:
        return _WEEK
    weeks = (runs[-1].began_s - runs[0].began_s) / (7 * DAY_S)
    count = Counter(weekday_of(run.began_s, form.zone) for run in runs)
    return tuple(sorted(day for day in count if count[day] >= _SELDOM * weeks))


def _by_day(
    runs: Sequence[JobRun],
    confidence: float,
    form: RequestForm,
    days: tuple[int, ...],
    first: datetime,
) -> tuple[DayPrediction, ...]:
    """Return one prediction for each group of similar days."""
    parts: list[DayPrediction] = []
    left = list(days)
    while left:
        day = left[0]
        noon = datetime.combine(
            first.date() + timedelta(days=(day - first.weekday()) % 7), time(12), form.zone
        )
        found = predict(runs, confidence, form.step_s, noon.timestamp(), form.zone)
        effect = found.weekdays
        alike = left if effect is None else [one for one in left if one in effect.days_of(day)]
        parts.append(DayPrediction(tuple(alike), found))
        left = [one for one in left if one not in alike]
    return tuple(parts)


def days_text(days: Sequence[int]) -> str:
    """Return days of the week in words."""
    return " ".join(DAYS[day] for day in days)


def begin_text(estimate: JobEstimate) -> str:
    """Return the local time at which runs start; empty without a period of days."""
    if estimate.period is None or not estimate.period.is_of_days:
        return ""
    minutes = estimate.period.begin_s % DAY_S // 60
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _longer_than(period: JobPeriod) -> str:
    length = duration_text(1000 * period.seconds)
    return f"a run may need more than its {length}: the request is for one run"


def _window_cut(period: JobPeriod) -> str:
    return f"its window ends with the period of {duration_text(1000 * period.seconds)}"


def _bundle_of(runs: Sequence[JobRun]) -> dict[str, int]:
    """Return a container in which the container of each run fits."""
    names = sorted({name for run in runs for name in run.bundle})
    return {name: max(run.bundle.get(name, 0) for run in runs) for name in names}


def _first_day(runs: Sequence[JobRun], form: RequestForm, on: date | None) -> datetime:
    if on is not None:
        return _midnight(on, form)
    last = datetime.fromtimestamp(runs[-1].began_s, form.zone)
    return _midnight(last.date() + timedelta(days=1), form)


def _midnight(day: date, form: RequestForm) -> datetime:
    return datetime.combine(day, time(), form.zone)
