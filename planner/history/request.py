"""Turn predictions into requests: a profile in a window, recurring with the job's period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from planner.history.run import JobRun, WidthProfile
from rdl.compile.civil_time import first_instant
from rdl.durations import instant_of_epoch_ms
from rdl.expressions import (
    Absolute,
    AfterSubmission,
    AllOf,
    Atom,
    Every,
    Expression,
    Gap,
    Instant,
    Offset,
    Order,
    Window,
)
from rdl.resources import Resources

_MINUTE, _HOUR = 60, 3_600
DAY_S: Final = 86_400
_PERIODS_S: Final = (
    5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE,
    _HOUR, 2 * _HOUR, 3 * _HOUR, 4 * _HOUR, 6 * _HOUR, 8 * _HOUR, 12 * _HOUR,
    DAY_S, 7 * DAY_S,
)  # fmt: skip
#: Tolerance for gaps between starts, as a share of a period, and the share of gaps that must be
#: whole periods within it.
_NEAR: Final = 0.2
_SHARE: Final = 0.8
_LEAST_RUNS: Final = 4


@dataclass(frozen=True, slots=True)
class JobPeriod:
    """A recurrence.

    Attributes
    ----------
    seconds
        Time from one run to the next.
    begin_s
        Median start of runs within the period. Periods of whole days count from local midnight of
        1970-01-01 in a zone, shorter ones from that in UTC.
    """

    seconds: int
    begin_s: int

    @property
    def is_of_days(self) -> bool:
        """Whether it is whole days, counted on the clock of a zone."""
        return self.seconds % DAY_S == 0


def _clock_seconds(seconds: float, zone: tzinfo) -> float:
    """Return the local time of an instant in a zone, in seconds since 1970-01-01T00:00 there."""
    offset = datetime.fromtimestamp(seconds, zone).utcoffset()
    return seconds + (offset.total_seconds() if offset else 0.0)


def period_of(runs: Sequence[JobRun], zone: tzinfo = UTC) -> JobPeriod | None:
    """Return the period of runs in order of start, or None if there is none.

    It is the longest common period for which most gaps are whole multiples, and half of them one
    period: missed runs do not hide it.
    """
    if len(runs) < _LEAST_RUNS:
        return None
    instants = np.array([run.began_s for run in runs])
    shown = np.array([_clock_seconds(run.began_s, zone) for run in runs])
    for seconds in reversed(_PERIODS_S):
        begins = shown if seconds % DAY_S == 0 else instants
        gaps = np.diff(begins)
        periods = gaps / seconds
        near = (np.abs(periods - np.rint(periods)) <= _NEAR) & (np.rint(periods) >= 1)
        if near.mean() >= _SHARE and np.median(np.rint(periods)) == 1:
            return JobPeriod(seconds, _median_on_circle(begins, seconds))
    return None


def _median_on_circle(begins: np.ndarray, seconds: int) -> int:
    """Return the circular median of the starts within the period."""
    turns = begins % seconds / seconds * 2 * np.pi
    middle = np.angle(np.exp(1j * turns).mean())
    away = np.angle(np.exp(1j * (turns - middle)))
    return int((middle + np.median(away)) / (2 * np.pi) * seconds % seconds)


_WEEK_S: Final = 7 * DAY_S
_YEAR_DAYS: Final = 371
_UTC: Final = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class RequestForm:
    """Settings for turning predictions into requests.

    Attributes
    ----------
    step_s
        The plan's step in seconds.
    slack
        Extra length of the window, as a share of the predicted length.
    gang
        Whether all containers of a step of the profile run together, without a break; else from one
        up.
    zone
        Time zone of days.
    """

    step_s: int
    slack: float = 0.5
    gang: bool = False
    zone: ZoneInfo = _UTC

    def window_s(self, profile: WidthProfile) -> int:
        """Return the length of a run's window: whole steps."""
        wanted = profile.length_s * (1 + self.slack)
        return -int(-wanted // self.step_s) * self.step_s


def run_expression(
    profile: WidthProfile, bundle: Mapping[str, int], form: RequestForm
) -> Atom | Order:
    """Return one atom for each step of a profile, in order.

    A malleable atom holds between one and all containers of the step, each for at least one step of
    the plan. A gang holds all of them for the whole step, and the next one starts when it ends.

    Parameters
    ----------
    bundle
        Resources of one container, in millicores, MiB and units.
    """
    amounts, atoms = Resources.of(dict(bundle)), []
    for buckets, width in profile.steps():
        seconds = buckets * profile.bucket_s
        if not width and not form.gang:
            continue  # an order may wait between atoms
        held = max(1, width)
        lease = seconds if form.gang else form.step_s
        least = held if form.gang else 1
        atoms.append(Atom(amounts, least, held, 1000 * lease, 1000 * held * seconds))
    if len(atoms) == 1:
        return atoms[0]
    return Order(tuple(atoms), Gap(0, 0) if form.gang else None)


def once(profile: WidthProfile, bundle: Mapping[str, int], form: RequestForm) -> Window:
    """Return the request of one run, starting at its submission or later."""
    start, end = AfterSubmission(0), AfterSubmission(1000 * form.window_s(profile))
    return Window(start, end, run_expression(profile, bundle, form))


def recurring(
    profile: WidthProfile,
    bundle: Mapping[str, int],
    form: RequestForm,
    period: JobPeriod,
    after_s: float | None,
) -> Every:
    """Return the request of a job that runs at the same time in each period.

    Parameters
    ----------
    period
        Not of whole days, or without a calendar.
    after_s
        Earliest start of the first period; None without a calendar: it starts at the submission.
    """
    anchor: Instant | None = None
    if after_s is not None:
        ahead = (period.begin_s - after_s) % period.seconds
        anchor = _absolute(_on_grid(after_s + ahead, form.step_s))
    length = min(form.window_s(profile), period.seconds)
    of = Window(Offset(0), Offset(1000 * length), run_expression(profile, bundle, form))
    return Every(1000 * period.seconds, of, anchor=anchor)


def daily(
    profile: WidthProfile,
    bundle: Mapping[str, int],
    form: RequestForm,
    begin_s: int,
    first_day: datetime,
) -> Every:
    """Return the request of a daily run.

    Parameters
    ----------
    begin_s
        Start of runs, in seconds since midnight in the zone.
    first_day
        Midnight of the first day, in the zone.
    """
    begin = _floored(begin_s, form.step_s)
    length = min(_window_s(profile, form, begin, first_day), DAY_S)
    run = run_expression(profile, bundle, form)
    return _of_days(DAY_S, run, ((begin, length),), form, begin, first_day)


def weekly(
    profiles: Mapping[int, WidthProfile],
    bundle: Mapping[str, int],
    form: RequestForm,
    begin_s: int,
    first_day: datetime,
) -> Every:
    """Return the request of a run on some days of every week, with a window for each day.

    Parameters
    ----------
    profiles
        Profile by day of the week, Monday = 0.
    begin_s
        Start of runs, in seconds since midnight in the zone.
    first_day
        Midnight of the first Monday, in the zone.
    """
    begin = _floored(begin_s, form.step_s)
    places = tuple(
        (day * DAY_S + begin, min(_window_s(profiles[day], form, begin, first_day), _WEEK_S))
        for day in sorted(profiles)
    )
    runs = tuple(run_expression(profiles[day], bundle, form) for day in sorted(profiles))
    return _of_days(_WEEK_S, runs, places, form, begin, first_day)


def crosses_midnight(
    profiles: Mapping[int, WidthProfile], form: RequestForm, begin_s: int, first_day: datetime
) -> bool:
    """Return whether the window of any run extends past midnight."""
    begin = _floored(begin_s, form.step_s)
    return any(
        begin + _window_s(profile, form, begin, first_day) > DAY_S for profile in profiles.values()
    )


def _window_s(profile: WidthProfile, form: RequestForm, begin_s: int, first_day: datetime) -> int:
    """Return the local length of a window in which a run fits on each day of a year.

    A clock that moves forward shortens it by up to an hour; if the slack does not compensate for
    that, the window ends later.
    """
    wanted = form.window_s(profile)
    for day in _days_of_change(form.zone, first_day.date()):
        midnight = datetime.combine(day, time())  # naive local time
        begin = first_instant(midnight + timedelta(seconds=begin_s), form.zone)
        end = (begin + timedelta(seconds=profile.length_s)).astimezone(form.zone)
        shown = (end.replace(tzinfo=None) - midnight).total_seconds() - begin_s
        wanted = max(wanted, -int(-shown // form.step_s) * form.step_s)
    return wanted


def _of_days(
    period_s: int,
    runs: Atom | Order | tuple[Atom | Order, ...],
    places: tuple[tuple[int, int], ...],
    form: RequestForm,
    begin_s: int,
    first_day: datetime,
) -> Every:
    """Return runs in periods of days, on the zone's clock if windows end within the period.

    Otherwise periods count from the first start, without a zone.
    """
    within = all(place + length <= period_s for place, length in places)
    moved = 0 if within else begin_s
    each = runs if isinstance(runs, tuple) else (runs,)
    windows: tuple[Expression, ...] = tuple(
        Window(
            Offset(1000 * (place - moved)),
            Offset(1000 * min(place - moved + length, period_s)),
            run,
        )
        for (place, length), run in zip(places, each, strict=True)
    )
    of = windows[0] if len(windows) == 1 else AllOf(windows)
    anchor = Absolute(first_day + timedelta(seconds=moved))
    if not within:
        return Every(1000 * period_s, of, anchor=anchor)
    fixed = not _days_of_change(form.zone, first_day.date())
    return Every(1000 * period_s, of, anchor=anchor, zone=form.zone.key, same_offset=fixed)


@lru_cache(maxsize=64)
def _days_of_change(zone: ZoneInfo, first: date) -> tuple[date, ...]:
    """Return the days of a year on which a zone's clock changes, and the days before them.

    If there are any, no single offset is right for all runs.
    """
    days = [first + timedelta(days=place) for place in range(_YEAR_DAYS)]
    offsets = [datetime.combine(day, time(), zone).utcoffset() for day in days]
    changed = [place for place, pair in enumerate(pairwise(offsets)) if pair[0] != pair[1]]
    return tuple(days[place] for place in sorted({max(0, p - k) for p in changed for k in (0, 1)}))


def _floored(seconds: int, step_s: int) -> int:
    return seconds // step_s * step_s


def _on_grid(seconds: float, step_s: int) -> int:
    return int(seconds // step_s) * step_s


def _absolute(seconds: int) -> Absolute:
    return Absolute(instant_of_epoch_ms(1000 * seconds))
