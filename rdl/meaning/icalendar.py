"""Convert recurrences of iCalendar (RFC 5545:

DTSTART, RRULE, RDATE, EXDATE) to `every`, and back. Both directions enumerate the runs of a rule on
the calendar, so that COUNT, which includes dates that EXDATE removes, and `times`, which does not,
give the same runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from rdl.compile.civil_time import DAY_MS, Period, periods
from rdl.errors import quote
from rdl.expressions import Absolute, Every, Expression, MonthDay, Offset, Window
from rdl.operators import MAX_MONTHS, MONTH_MS, WEEKDAYS, ArgumentError, check_zone
from rdl.read_error import ReadError
from rdl.time_grid import TimeGrid, TimeGridError

#: Most runs of a rule to enumerate.
MOST_RUNS: Final = 10_000

#: Most characters of a rule.
_LONGEST: Final = 100_000
_DAY_CODES: Final = tuple(day[:2].upper() for day in WEEKDAYS)
_LINE: Final = re.compile(r"(DTSTART|DTEND|DURATION|RRULE|EXDATE|RDATE)((?:;[^:]*)?):(.*)")
_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)
_LENGTH: Final = re.compile(
    r"P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,6})S)?)?"
)
_NTH: Final = re.compile(r"([+-]?\d)?([A-Z]{2})")
_PARTS: Final = frozenset(
    {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS", "WKST"}
)
_NUMBERS: Final = (["1"], ["2"], ["3"], ["4"], ["-1"])
_NO_RUN: Final = "it has no run"
_MS: Final = timedelta(milliseconds=1)


class RuleTextError(ReadError):
    """A rule that cannot be read, or cannot be expressed in the other language."""


def read_rule(text: str, of: Expression, zone: str | None = None) -> Every:
    """Return the recurrence of an event; its length becomes a window around `of`.

    Parameters
    ----------
    text
        Lines of iCalendar, such as a whole VEVENT; only lines about times are used.
    zone
        Zone of times without one.

    Raises
    ------
    RuleTextError
        If the text is invalid, or if no `every` can express it.
    """
    lines = _lines(text)
    if "DTSTART" not in lines:
        raise RuleTextError("there is no DTSTART", "write such as DTSTART;TZID=Europe/Paris:...")
    start, where = _start(*lines["DTSTART"][0], zone)
    length = _length(lines, start, where)
    rule = _rule(lines["RRULE"][0][1]) if "RRULE" in lines else {}
    if len(lines.get("RRULE", ())) > 1:
        raise RuleTextError("there are two RRULEs", "write two recurrences, and join them by all")
    without, dates = (_dates(lines.get(name, ()), start, where) for name in ("EXDATE", "RDATE"))
    body = of if length is None else Window(Offset(0), Offset(length // _MS), of)
    every = _every(rule, start, body, where)
    if not rule:
        every = replace(every, dates=tuple(sorted({start.date(), *dates})))
    elif dates:
        if every.period_ms != DAY_MS or every.days is None:
            raise RuleTextError("RDATE joins only rules by days of the week", "leave RDATE out")
        if min(dates) < start.date():
            raise RuleTextError("RDATE has a date before DTSTART", "write the first one as DTSTART")
        every = replace(every, dates=tuple(sorted(dates)))
    first = next(_runs(every))
    if first.frame.day != start:
        raise RuleTextError("DTSTART is no date of its RRULE", "write the first date as DTSTART")
    every = replace(every, times=_times(rule, every, where, without))
    return replace(every, without=tuple(sorted(without)))


def write_rule(every: Every) -> str:
    """Return the lines for the times of a recurrence, each with a line break.

    Raises
    ------
    RuleTextError
        If iCalendar cannot express it.
    """
    if every.zone is None or not isinstance(every.anchor, Absolute):
        fix = "write zone= and an anchor= with a date"
        raise RuleTextError("an event needs a date to begin at, and a zone", fix)
    if every.holidays is not None:
        message = f"it leaves out the calendar {quote(every.holidays)} of a cluster"
        raise RuleTextError(message, "write its dates as except=[...]")
    whole = every if every.has_only_dates else replace(every, dates=())
    whole = replace(whole, without=())
    days = None if every.is_endless else _days_until_the_end(every, whole)
    start = next((one.frame.day for one in _runs(whole)), None) if days is None else days[0]
    if start is None:
        raise RuleTextError(_NO_RUN)
    lines = [_time_line("DTSTART", (start,), every.zone)]
    if isinstance(every.of, Window):
        lines += _duration_line(every.of)
    if every.has_only_dates:
        more = [] if days is None else days[1:]
    else:
        lines.append(f"RRULE:{_rule_words(every, start, days)}")
        more = [datetime.combine(day, start.time()) for day in every.dates if day >= start.date()]
    lines += [_time_line("RDATE", more, every.zone)] if more else []
    if every.without:
        out = [datetime.combine(day, start.time()) for day in every.without]
        lines.append(_time_line("EXDATE", out, every.zone))
    return "".join(f"{line}\r\n" for line in lines)


def _runs(every: Every) -> Iterator[Period]:
    """Yield the periods of a recurrence that is anchored at an instant."""
    assert isinstance(every.anchor, Absolute)
    origin = every.anchor.at.astimezone(UTC).replace(second=0, microsecond=0)
    grid = TimeGrid(1, 10**14, origin)
    count = 0
    try:
        for period in islice(periods(every, grid.instant_ms(every.anchor.at), grid), MOST_RUNS + 1):
            yield period
            count += 1
    except TimeGridError as error:
        if not count:
            raise RuleTextError(error.message, error.fix) from error
        # the calendar ends here, so there are no more runs


def _days_until_the_end(every: Every, whole: Every) -> list[datetime]:
    """Return the local time of each run of a finite recurrence, excluded runs included."""
    days: list[datetime] = []
    left = every.times
    for period in _runs(whole):
        day = period.frame.day
        assert day is not None
        if left == 0 or (every.until is not None and _is_past(period, every.until, every)):
            break
        days.append(day)
        if left is not None and day.date() not in every.without:
            left -= 1
        if len(days) > MOST_RUNS:
            raise RuleTextError(f"it runs more than {MOST_RUNS} times", "write fewer")
    if not days:
        raise RuleTextError(_NO_RUN)
    return days


def _lines(text: str) -> dict[str, list[tuple[str, str]]]:
    """Return (parameters, value) of the lines about times, by name; unfolds lines."""
    if len(text) > _LONGEST:
        raise RuleTextError(f"the text has {len(text)} characters", f"write at most {_LONGEST}")
    found: dict[str, list[tuple[str, str]]] = {}
    lines = [line.strip() for line in re.sub(r"\r?\n[ \t]", "", text).splitlines()]
    events = lines.count("BEGIN:VEVENT")
    if events > 1:
        raise RuleTextError(f"there are {events} events", "write one")
    if events:  # a time zone has lines of the same names
        lines = lines[lines.index("BEGIN:VEVENT") :]
        lines = lines[: lines.index("END:VEVENT") if "END:VEVENT" in lines else len(lines)]
    for line in lines:
        known = _LINE.fullmatch(line)
        if known is not None:
            found.setdefault(known[1], []).append((known[2], known[3]))
    return found


def _start(parameters: str, value: str, zone: str | None) -> tuple[datetime, str]:
    """Return the local time of the start, and its zone."""
    reading, where = _time(value, parameters, zone)
    if where is None:
        raise RuleTextError("DTSTART has no zone", "write DTSTART;TZID=..., or give a zone")
    try:
        return reading, check_zone(where)
    except ArgumentError as error:
        raise RuleTextError(error.message, error.fix) from error


def _time(value: str, parameters: str, zone: str | None) -> tuple[datetime, str | None]:
    """Return a local time and its zone: that of the value or its parameters, else `zone`."""
    found = _TIME.fullmatch(value.strip())
    try:
        numbers = [int(part or 0) for part in found.groups()[:6]] if found else [0, 0, 0]
        reading = datetime(*numbers)  # type: ignore[arg-type]  # noqa: DTZ001
    except ValueError as error:
        fix = "write such as 20260131T180000"
        raise RuleTextError(f"{quote(value)} is no time", fix) from error
    if found is not None and found[7] == "Z":
        return reading, "UTC"
    named = re.search(r";TZID=([^;]+)", parameters)
    return reading, named[1].strip('"') if named else zone


def _reading_in(reading: datetime, theirs: str, zone: str) -> datetime:
    """Convert a local time from another zone to `zone`."""
    if theirs == zone:
        return reading
    try:
        at = reading.replace(tzinfo=ZoneInfo(check_zone(theirs)))
        return at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    except ArgumentError as error:
        raise RuleTextError(error.message, error.fix) from error
    except OverflowError:
        return reading  # the first or last day of the calendar, which mean no bound


def _length(
    lines: Mapping[str, Sequence[tuple[str, str]]], start: datetime, zone: str
) -> timedelta | None:
    if "DURATION" in lines:
        value = lines["DURATION"][0][1].strip()
        found = _LENGTH.fullmatch(value)
        numbers = [0] if found is None else [int(part or 0) for part in found.groups()]
        if not any(numbers):
            raise RuleTextError(f"{quote(value)} is no duration", "write such as PT2H")
        weeks, days, hours, minutes, seconds = numbers
        return timedelta(days, seconds, 0, 0, minutes, hours, weeks)
    if "DTEND" not in lines:
        return None
    end, where = _start(*lines["DTEND"][0], zone)
    if where != zone or end <= start:
        raise RuleTextError("DTEND is not after DTSTART in its zone", "write DURATION")
    return end - start


def _rule(value: str) -> dict[str, str]:
    parts = dict(part.partition("=")[::2] for part in value.strip().upper().split(";") if part)
    for name in parts:
        if name not in _PARTS:
            raise RuleTextError(f"RRULE has {quote(name)}, which no recurrence says", None)
    return parts


def _dates(lines: Sequence[tuple[str, str]], start: datetime, zone: str) -> set[date]:
    found = set()
    for parameters, values in lines:
        for value in values.split(","):
            reading, theirs = _time(value, parameters, zone)
            reading = _reading_in(reading, theirs or zone, zone)
            if "DATE" not in parameters.split("VALUE=")[-1:] and reading.time() != start.time():
                raise RuleTextError(
                    f"{quote(value)} is at another time of day than DTSTART",
                    "write the time of day of DTSTART",
                )
            found.add(reading.date())
    return found


def _every(rule: Mapping[str, str], start: datetime, of: Expression, zone: str) -> Every:
    """Return the recurrence of a rule without its end."""
    interval = _whole(rule, "INTERVAL", 1)
    anchor = Absolute(start.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC))
    frequency = rule.get("FREQ", "DAILY")
    days = [part for part in rule.get("BYDAY", "").split(",") if part]
    for name in ("BYMONTHDAY", "BYMONTH", "BYSETPOS"):
        if name in rule and frequency not in ("MONTHLY", "YEARLY"):
            raise RuleTextError(f"{name} with FREQ={frequency} is not read", None)
    match frequency:
        case "DAILY" | "WEEKLY":
            week = frequency == "WEEKLY"
            if not days or (week and days == [_DAY_CODES[start.weekday()]]):
                return Every(interval * DAY_MS * (7 if week else 1), of, None, None, anchor, zone)
            if interval != 1:
                raise RuleTextError("BYDAY with an INTERVAL is not read", "write a rule a day")
            numbers = tuple(sorted({_weekday(day) for day in days}))
            return Every(DAY_MS, of, None, None, anchor, zone, days=numbers)
        case "MONTHLY" | "YEARLY":
            if rule.get("BYMONTH", str(start.month)) != str(start.month):
                raise RuleTextError("BYMONTH is not the month of DTSTART", "write that month")
            if frequency == "MONTHLY" and "BYMONTH" in rule:
                raise RuleTextError("BYMONTH with FREQ=MONTHLY is not read", "write FREQ=YEARLY")
            for name in ("BYDAY", "BYMONTHDAY", "BYSETPOS"):
                if frequency == "YEARLY" and name in rule and "BYMONTH" not in rule:
                    message = f"{name} with FREQ=YEARLY counts in every month"
                    raise RuleTextError(message, "write BYMONTH")
            months = interval * (12 if frequency == "YEARLY" else 1)
            if months > MAX_MONTHS:
                raise RuleTextError(f"a period of {months} months", f"write at most {MAX_MONTHS}")
            day = _month_day(rule, days, start, yearly=frequency == "YEARLY")
            return Every(MONTH_MS * months, of, None, None, anchor, zone, months=months, day=day)
    raise RuleTextError(f"FREQ={frequency} is not read", "DAILY, WEEKLY, MONTHLY and YEARLY are")


def _whole(rule: Mapping[str, str], name: str, default: int) -> int:
    text = rule.get(name, str(default))
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= MOST_RUNS:
        raise RuleTextError(f"{name}={text} is not plausible", f"write 1 to {MOST_RUNS}")
    return int(text)


def _weekday(code: str) -> int:
    if code not in _DAY_CODES:
        raise RuleTextError(
            f"{quote(code)} is no day of the week", f"write {', '.join(_DAY_CODES)}"
        )
    return _DAY_CODES.index(code)


def _month_day(
    rule: Mapping[str, str], days: Sequence[str], start: datetime, *, yearly: bool
) -> MonthDay:
    """Return the day of a rule by months."""
    of_month, position = rule.get("BYMONTHDAY"), rule.get("BYSETPOS")
    if days:
        found = _NTH.fullmatch(days[0])
        numbers = [one for one in (position, found and found[1]) if one is not None]
        known = [one.removeprefix("+") for one in numbers] in _NUMBERS
        if len(days) > 1 or found is None or of_month or not known:
            raise RuleTextError("such a BYDAY is not read", "write such as BYDAY=2MO or BYDAY=-1FR")
        return MonthDay(int(numbers[0]), _weekday(found[2]))
    if position is not None:
        # The form in which `write_rule` writes a day that short months lack.
        listed = (of_month or "").split(",")
        if position == "-1" and listed == [str(day) for day in range(28, 28 + len(listed))]:
            return MonthDay(27 + len(listed))
        raise RuleTextError("such a BYSETPOS is not read", "write one day of the month")
    text = of_month or str(start.day)
    if text == "-1":
        return MonthDay(-1)
    if not text.isdecimal() or not 1 <= int(text[:4]) <= 31:
        raise RuleTextError(f"BYMONTHDAY={text} is not read", "write one day, or -1 for the last")
    longest = 28 if not yearly or start.month == 2 else 30
    if int(text) > longest and not (yearly and start.day == int(text) and start.month != 2):
        raise RuleTextError(
            f"iCalendar leaves out what has no day {text}, an every takes the last day instead",
            "write BYMONTHDAY=-1 for the last day",
        )
    return MonthDay(int(text))


def _times(rule: Mapping[str, str], every: Every, zone: str, without: set[date]) -> int | None:
    """Return the number of runs of a rule without excluded dates; None is endless."""
    if "COUNT" in rule and "UNTIL" in rule:
        raise RuleTextError("RRULE has both COUNT and UNTIL", "keep one of them")
    if "COUNT" not in rule and "UNTIL" not in rule:
        if every.months:
            raise RuleTextError("a recurrence by months needs an end", "write COUNT or UNTIL")
        return None
    most, last = MOST_RUNS + 1, datetime(9999, 12, 31)  # noqa: DTZ001 - a reading of a wall clock
    if "COUNT" in rule:
        most = _whole(rule, "COUNT", 1)
    else:
        last, theirs = _time(rule["UNTIL"], "", zone)
        last = _reading_in(last, theirs or zone, zone)
        if "T" not in rule["UNTIL"]:
            last = datetime.combine(last.date(), time.max)
    by_rule = replace(every, dates=()) if every.days is not None else every
    counted = [one.frame.day for one in islice(_runs(by_rule), most)]
    runs = {day.date() for day in counted if day is not None and day <= last}
    if len(runs) > MOST_RUNS:
        raise RuleTextError(f"the rule runs more than {MOST_RUNS} times", "write an earlier UNTIL")
    if every.days is not None:
        runs |= set(every.dates)
    left = sorted(runs - without)
    if not left:
        raise RuleTextError("no run is left", "leave fewer dates out")
    counted = [
        one.frame.day for one in islice(_runs(replace(every, without=tuple(without))), len(left))
    ]
    if [day.date() for day in counted if day is not None] != left:
        message = "RDATE has dates after others that RRULE no longer counts"
        raise RuleTextError(message, "write COUNT or UNTIL so that RRULE ends later")
    return len(left)


def _rule_words(every: Every, start: datetime, listed: Sequence[datetime] | None) -> str:
    """Return the value of RRULE; `listed` are the runs of a finite recurrence."""
    days = every.period_ms // DAY_MS
    if every.months:
        by_year = every.months % 12 == 0
        count = every.months // 12 if by_year else every.months
        words = f"FREQ={'YEARLY' if by_year else 'MONTHLY'}{_interval(count)}"
        words += f";BYMONTH={start.month}" if by_year else ""
        words += _day_words(every.day or MonthDay(1))
    elif every.days is not None:
        words = "FREQ=WEEKLY;BYDAY=" + ",".join(_DAY_CODES[day] for day in every.days)
    elif days % 7 == 0:
        words = f"FREQ=WEEKLY{_interval(days // 7)}"
    else:
        words = f"FREQ=DAILY{_interval(days)}"
    if listed is None:
        return words
    if every.dates:
        message = "dates in addition to days of the week are counted otherwise"
        raise RuleTextError(message, "leave them out, or times= and until=")
    return f"{words};COUNT={len(listed)}"


def _is_past(period: Period, until: object, every: Every) -> bool:
    if not isinstance(until, Absolute):
        raise RuleTextError("until is no date", "write until= with a date")
    assert isinstance(every.anchor, Absolute)
    origin = every.anchor.at.astimezone(UTC).replace(second=0, microsecond=0)
    return origin + timedelta(milliseconds=period.end_ms) > until.at


def _interval(count: int) -> str:
    return f";INTERVAL={count}" if count > 1 else ""


def _day_words(day: MonthDay) -> str:
    if day.weekday is not None:
        return f";BYDAY={day.number}{_DAY_CODES[day.weekday]}"
    if day.number <= 28:
        return f";BYMONTHDAY={day.number}"
    listed = ",".join(str(one) for one in range(28, day.number + 1))
    return f";BYMONTHDAY={listed};BYSETPOS=-1"


def _time_line(name: str, at: Sequence[datetime], zone: str) -> str:
    values = ",".join(one.strftime("%Y%m%dT%H%M%S") for one in at)
    return f"{name};TZID={zone}:{values}"


def _duration_line(window: Window) -> list[str]:
    if window.start != Offset(0) or not isinstance(window.end, Offset):
        raise RuleTextError(
            "the window does not begin with the period, as an event does",
            "write window(e, 0, 2h) and the anchor= at its start",
        )
    seconds = window.end.ms // 1000
    days, rest = divmod(seconds, 86_400)
    hours, minutes, last = rest // 3600, rest % 3600 // 60, rest % 60
    time = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (last, "S")) if n)
    return [f"DURATION:P{f'{days}D' if days else ''}{f'T{time}' if time else ''}"]
