"""The parser's position in RDL text, and the values of arguments there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeVar

from rdl.durations import MAX_WORK_MS, TimeTextError, parse_bound, parse_duration
from rdl.errors import MALFORMED, Problem, TooManyProblemsError, did_you_mean, quote
from rdl.expressions import AfterSubmission, Gap, Instant, MonthDay, Months, Span
from rdl.limits import MOST_PROBLEMS
from rdl.operators import (
    ARGUMENTS,
    MAX_RESOURCES,
    UNITS,
    ArgumentError,
    Reads,
    build_gap,
    check_bundle,
    check_count,
    check_name,
    check_resource,
    check_weight,
    check_zone,
    dates_of,
    days_of,
    month_day_of,
    months_of,
)
from rdl.read_error import ReadError
from rdl.resources import RESOURCE_ALIASES, Resources, amount_of, canonical_resource
from rdl.text.tokenizer import BUNDLE, CLOCK, END, INSTANT, KEY, QUANTITY, STRING, WORD, Tokenizer

_T = TypeVar("_T")

#: Kinds of tokens that can only start an argument: before such a token a comma is missing.
_STARTS_ARGUMENT: Final = frozenset({BUNDLE, CLOCK, INSTANT, KEY, QUANTITY, STRING})

_COMMENT = re.compile(r"#[^\n]*")
_AMOUNT = re.compile(
    r"\s*(\d{1,20}(?:\.\d{1,20})?)\s*(?:([A-Za-z]{1,20})\s+)?([A-Za-z][\w.\-/]{0,99})\s*", re.ASCII
)


class ValueReader:
    """Reads one value at the cursor.

    Attributes
    ----------
    bundles
        Named bundles, by name.
    """

    def __init__(self, cursor: Cursor, most_options: int) -> None:
        self._cursor = cursor
        self._tokens = cursor.tokens
        self.bundles: dict[str, Resources] = {}
        self._most_options = most_options
        self._bundle_of_text: dict[str, Resources] = {}

    def bundle(self, name: str) -> Resources:
        """Bundle = "<" amount { "," amount } ">" | word ."""
        tokens = self._tokens
        text = tokens.text
        if tokens.kind == BUNDLE:
            known = self._bundle_of_text.get(text)
            if known is None:
                found = parse_bundle(text, tokens.start)
                if isinstance(found, list):
                    for problem in found[:-1]:
                        self._cursor.keep(problem)
                    raise RuleError(found[-1])
                known = self._bundle_of_text[text] = found
        elif tokens.kind == WORD:
            known = self.bundles.get(text)
            if known is None:
                fix = did_you_mean(text, self.bundles) if self.bundles else "write such as <1 cpu>"
                self._cursor.wrong(f"no bundle is named {quote(text)}", fix)
        elif text == "<":
            problem = Problem(
                MALFORMED,
                "'<' is not closed by '>'",
                tokens.span,
                fix="write such as <2 GiB memory, 1 cpu>",
            )
            raise RuleError(problem, whole=True)
        else:
            fix = "write such as <1 cpu>"
            if tokens.kind == QUANTITY and text.endswith("m"):
                fix = f"{text} is a time; a part of a core is <{text} cpu>"
            self._cursor.wrong(f"{name} is a bundle, not {self._cursor.token_words()}", fix)
        tokens.advance()
        return known

    def count(self, name: str) -> int:
        """Count = digit { digit } ."""
        tokens = self._tokens
        text = tokens.text
        if tokens.kind != QUANTITY or not text.isdecimal():
            self._cursor.wrong(f"{name} is a whole number, not {self._cursor.token_words()}")
        try:
            value = check_count(int(text[:20]))
        except ArgumentError as error:
            self._cursor.wrong(f"{name}: {error.message}", error.fix)
        tokens.advance()
        return value

    def duration(self, name: str) -> int:
        """Duration = number | number unit { number unit } ."""
        if self._tokens.kind != QUANTITY:
            self._cursor.wrong(
                f"{name} is a duration, not {self._cursor.token_words()}",
                "write such as 90 or 1h30m",
            )
        return self._time(parse_duration)

    def period(self, name: str) -> int | Months:
        """Period = duration | digit { digit } ( "mo" | "y" ) ."""
        if self._tokens.kind == QUANTITY:
            try:
                months = months_of(self._tokens.text)
            except ArgumentError as error:
                self._cursor.wrong(error.message, error.fix)
            if months is not None:
                self._tokens.advance()
                return months
        return self.duration(name)

    def month_day(self, name: str) -> MonthDay:
        """Month day = digit { digit } | "last" | ordinal weekday ."""
        tokens = self._tokens
        words: list[str] = []
        if tokens.kind not in (QUANTITY, WORD):
            self._cursor.wrong(
                f"{name} is a day of the month, not {self._cursor.token_words()}",
                "write 1 to 31, last, first mon, last fri",
            )
        start = tokens.start
        while tokens.kind == (QUANTITY if not words and tokens.kind == QUANTITY else WORD):
            words.append(tokens.text)
            end = tokens.span[1]
            tokens.advance()
        try:
            return month_day_of(words)
        except ArgumentError as error:
            problem = Problem(MALFORMED, error.message, (start, end), fix=error.fix)
            raise RuleError(problem) from error

    def work(self, name: str) -> int:
        """Work = duration ; bundle-time: bundles times the time they are held."""
        if self._tokens.kind != QUANTITY:
            self._cursor.wrong(
                f"{name} is bundle-time, not {self._cursor.token_words()}",
                "write such as 2400 or 40m",
            )
        return self._time(_parse_work)

    def instant(self, name: str) -> Instant:
        """Instant = duration | "+" duration | clock | rfc3339 ."""
        tokens = self._tokens
        if tokens.text == "+":
            tokens.advance()
            return AfterSubmission(self.duration(name))
        if tokens.kind not in (QUANTITY, INSTANT, CLOCK):
            fix = "write such as 90, 2h, +2h, 06:00 or 2026-01-05T09:00:00Z"
            self._cursor.wrong(f"{name} is a time, not {self._cursor.token_words()}", fix)
        return self._time(parse_bound)

    def _time(self, read: Callable[[str], _T]) -> _T:
        try:
            value = read(self._tokens.text)
        except TimeTextError as error:
            self._cursor.wrong(error.message, error.fix)
        self._tokens.advance()
        return value

    def gap(self, name: str) -> Gap:
        """Gap = duration [ ".." duration ] ."""
        tokens = self._tokens
        start = tokens.start
        minimum = self.duration(name)
        if tokens.text != "..":
            return build_gap(minimum, None)
        tokens.advance()
        end = tokens.span[1]
        maximum = self.duration(name)
        try:
            return build_gap(minimum, maximum)
        except ArgumentError as error:
            problem = Problem(MALFORMED, error.message, (start, end), fix=error.fix)
            raise RuleError(problem) from error

    def weights(self, name: str) -> tuple[float, ...]:
        """Weights = "[" number { "," number } "]" ."""
        tokens = self._tokens
        if tokens.text != "[":
            self._cursor.wrong(
                f"{name} is a list, not {self._cursor.token_words()}",
                "write such as prefer=[1, 0.5]",
            )
        values: list[float] = []
        while not values or tokens.text == ",":
            tokens.advance()
            values.append(self._weight(name))
            if len(values) > self._most_options:
                self._cursor.stop(f"{name} has more than {self._most_options} values")
        if tokens.text != "]":
            self._cursor.wrong(f"expected ',' or ']' before {self._cursor.token_words()}")
        tokens.advance()
        return tuple(values)

    def _weight(self, name: str) -> float:
        try:
            weight = check_weight(float(self._tokens.text))
        except ArgumentError as error:
            self._cursor.wrong(error.message, error.fix)
        except ValueError:
            self._cursor.wrong(
                f"{name} has {self._cursor.token_words()} for a number", "write such as [1, 0.5]"
            )
        self._tokens.advance()
        return weight

    def days(self, name: str) -> tuple[int, ...]:
        """Days = "[" day [ ".." day ] { "," day [ ".." day ] } "]" ."""
        return self._listed(name, WORD, days_of, "write such as days=[mon..fri]")

    def dates(self, name: str) -> tuple[date, ...]:
        """Dates = "[" date [ ".." date ] { "," date [ ".." date ] } "]" ."""
        return self._listed(name, INSTANT, dates_of, "write such as except=[2026-12-25]")

    def _listed(
        self, name: str, kind: int, read: Callable[[list[str]], tuple[_T, ...]], fix: str
    ) -> tuple[_T, ...]:
        """Read words of one kind between square brackets."""
        tokens = self._tokens
        opened = tokens.start
        if tokens.text != "[":
            self._cursor.wrong(f"{name} is a list, not {self._cursor.token_words()}", fix)
        words: list[str] = []
        while not words or tokens.text == ",":
            tokens.advance()
            if tokens.kind != kind:
                self._cursor.wrong(f"{self._cursor.token_words()} cannot stand in {name}", fix)
            words.append(tokens.text)
            tokens.advance()
        if tokens.text != "]":
            self._cursor.wrong(f"expected ',' or ']' before {self._cursor.token_words()}")
        try:
            found = read(words)
        except ArgumentError as error:
            span = (opened, tokens.start + 1)
            raise RuleError(Problem(MALFORMED, error.message, span, fix=error.fix)) from error
        tokens.advance()
        return found

    def calendar(self, name: str) -> str:
        """Calendar = word | string ; a calendar of the cluster."""
        if self._tokens.kind not in (WORD, STRING):
            self._cursor.wrong(
                f"{name} is the name of a calendar, not {self._cursor.token_words()}",
                f"write such as {name}=de",
            )
        return self.name("a calendar")

    def label(self, name: str) -> str:
        """Label = string ."""
        if self._tokens.kind != STRING:
            fix = f'write {name}="{self._tokens.text}"' if self._tokens.kind == WORD else None
            self._cursor.wrong(
                f"{name} is a text in double quotes, not {self._cursor.token_words()}", fix
            )
        return self.name("a label")

    def zone(self, name: str) -> str:
        """Zone = string ; an IANA name."""
        if self._tokens.kind != STRING:
            fix = f'write {name}="Europe/Paris"'
            self._cursor.wrong(
                f"{name} is a text in double quotes, not {self._cursor.token_words()}", fix
            )
        value = self._string()
        try:
            zone = check_zone(value)
        except ArgumentError as error:
            self._cursor.wrong(error.message, error.fix)
        self._tokens.advance()
        return zone

    def flag(self, name: str) -> bool:
        """Flag = "true" | "false" ."""
        if self._tokens.text not in ("true", "false"):
            self._cursor.wrong(f"{name} is true or false, not {self._cursor.token_words()}")
        value = self._tokens.text == "true"
        self._tokens.advance()
        return value

    def answer(self, name: str) -> bool:
        """Answer = "yes" | "no" ."""
        if self._tokens.text not in ("yes", "no"):
            self._cursor.wrong(f"{name} is yes or no, not {self._cursor.token_words()}")
        value = self._tokens.text == "yes"
        self._tokens.advance()
        return value

    def domain(self, name: str) -> str:
        """Domain = word | string ; a name for which groups of machines have values."""
        if self._tokens.kind not in (WORD, STRING):
            self._cursor.wrong(
                f"{name} is the name of a domain, not {self._cursor.token_words()}",
                f"write {name}=rack",
            )
        return self.name("a domain")

    def name(self, what: str) -> str:
        """Name = word | string ; at most 200 printable characters."""
        tokens = self._tokens
        try:
            value = check_name(self._string() if tokens.kind == STRING else tokens.text, what)
        except ArgumentError as error:
            self._cursor.wrong(error.message, error.fix)
        tokens.advance()
        return value

    def _string(self) -> str:
        try:
            return str(json.loads(self._tokens.text))
        except ValueError:
            fix = "escape as in JSON, such as \\n or \\u00e9"
            self._cursor.wrong(f"cannot read the text {self._cursor.token_words()}", fix)


def _parse_work(text: str) -> int:
    return parse_duration(text, MAX_WORK_MS)


#: The reader of each kind of value; the parser itself reads expressions.
READERS: Final[dict[Reads, Callable[[ValueReader, str], Any]]] = {
    Reads.BUNDLE: ValueReader.bundle,
    Reads.COUNT: ValueReader.count,
    Reads.DURATION: ValueReader.duration,
    Reads.PERIOD: ValueReader.period,
    Reads.MONTH_DAY: ValueReader.month_day,
    Reads.WORK: ValueReader.work,
    Reads.LABEL: ValueReader.label,
    Reads.DOMAIN: ValueReader.domain,
    Reads.INSTANT: ValueReader.instant,
    Reads.ZONE: ValueReader.zone,
    Reads.FLAG: ValueReader.flag,
    Reads.ANSWER: ValueReader.answer,
    Reads.GAP: ValueReader.gap,
    Reads.WEIGHTS: ValueReader.weights,
    Reads.DAYS: ValueReader.days,
    Reads.DATES: ValueReader.dates,
    Reads.CALENDAR: ValueReader.calendar,
}


class RuleError(Exception):
    """A syntax rule broken at a token; caught where the parser can continue.

    Attributes
    ----------
    problem
        The problem to report.
    whole
        True if the other arguments of the operator cannot be identified.
    """

    def __init__(self, problem: Problem, *, whole: bool = False) -> None:
        self.problem = problem
        self.whole = whole
        super().__init__(problem.message)


class Cursor:
    """Moves over the tokens, and collects problems.

    Attributes
    ----------
    tokens
        The tokenizer, at the current token.
    problems
        In the order they were found.
    """

    def __init__(self, source: str) -> None:
        self.tokens = Tokenizer(source)
        self.problems: list[Problem] = []

    def report(self, message: str, span: Span, fix: str | None = None) -> None:
        """Keep a problem; after MOST_PROBLEMS raise TooManyProblemsError."""
        self.keep(Problem(MALFORMED, message, span, fix=fix))

    def keep(self, problem: Problem) -> None:
        """Keep a problem; after MOST_PROBLEMS raise TooManyProblemsError."""
        self.problems.append(problem)
        if len(self.problems) >= MOST_PROBLEMS:
            raise TooManyProblemsError

    def wrong(self, message: str, fix: str | None = None) -> NoReturn:
        """Raise RuleError at the current token."""
        raise RuleError(Problem(MALFORMED, message, self.tokens.span, fix=fix))

    def stop(self, message: str, fix: str | None = None, span: Span | None = None) -> NoReturn:
        """Keep a problem and raise TooManyProblemsError."""
        self.keep(Problem(MALFORMED, message, span or self.tokens.span, fix=fix))
        raise TooManyProblemsError

    def token_words(self) -> str:
        """Return the current token for a message."""
        return "the end of the text" if self.tokens.kind == END else quote(self.tokens.text)

    def separator(self, opened: int, ends: str = ")") -> bool:
        """Skip a comma; return whether another argument follows, False at an end."""
        tokens = self.tokens
        while True:
            if tokens.text == ",":
                tokens.advance()
                if tokens.kind == END:
                    continue
                if tokens.text not in ends:
                    return True
                message = f"expected an argument before {self.token_words()}"
                self.report(message, tokens.span, "drop the ','")
                return False
            if tokens.kind == END:
                self.never_closed(opened)
            if tokens.text in ends:
                return False
            self.report(
                f"expected ',' or ')' before {self.token_words()}", tokens.span, self.unit_fix()
            )
            if tokens.kind in _STARTS_ARGUMENT or tokens.text in ARGUMENTS:
                return True
            tokens.advance()
            self.skip()

    def unit_fix(self) -> str | None:
        """Return a fix if the current word looks like a unit without its number."""
        tokens = self.tokens
        before = tokens.source[max(0, tokens.start - 20) : tokens.start].rstrip()
        if tokens.kind == WORD and tokens.text.lower() in RESOURCE_ALIASES:
            return (
                f"amounts of {tokens.text} belong in the bundle, such as <500m cpu, 2 GiB memory>"
            )
        if tokens.kind == WORD and before[-1:].isdecimal() and tokens.text not in ARGUMENTS:
            return "a unit stands right behind its number, such as 5m"
        return None

    def never_closed(self, opened: int) -> NoReturn:
        """Stop because the bracket at `opened` is not closed."""
        self.stop("'(' is never closed", "write ')' at its end", (opened, opened + 1))

    def skip(self, *, commas: bool = False) -> None:
        """Go to the next comma or closing bracket on this level (past commas if `commas`)."""
        tokens = self.tokens
        depth = 0
        while tokens.kind != END:
            text = tokens.text
            if depth == 0 and (text in (")", ";") or (text == "," and not commas)):
                return
            if text in ("(", "["):
                depth += 1
            elif text in (")", "]"):
                depth = max(0, depth - 1)
            tokens.advance()


def parse_bundle(text: str, offset: int) -> Resources | list[Problem]:
    """Return the bundle, or its problems.

    Parameters
    ----------
    text
        From ``<`` to ``>``.
    offset
        Of `text` in the whole source, for spans.
    """
    # Comments are blanked, not removed, so that offsets stay correct.
    inner = _COMMENT.sub(lambda comment: " " * len(comment[0]), text[1:-1])
    pieces = inner.split(",", MAX_RESOURCES + 1)
    if len(pieces) > MAX_RESOURCES:
        message = f"more than {MAX_RESOURCES} resources in one bundle"
        return [Problem(MALFORMED, message, (offset, offset + 1), fix="write fewer")]
    amounts: dict[str, int] = {}
    problems: list[Problem] = []
    position = offset + 1
    for piece in pieces:
        try:
            name, amount = _amount(piece)
            if name in amounts:
                raise ArgumentError(f"{name} is given twice in one bundle", "add the amounts up")
            amounts[name] = amount
        except ReadError as error:
            start = position + len(piece) - len(piece.lstrip())
            span = (start, max(start + 1, position + len(piece.rstrip())))
            problems.append(Problem(MALFORMED, error.message, span, fix=error.fix))
        position += len(piece) + 1
    if problems:
        return problems
    try:
        return check_bundle(Resources.of(amounts))
    except ReadError as error:
        span = (offset, offset + len(text))
        return [Problem(MALFORMED, error.message, span, fix=error.fix)]


def _amount(piece: str) -> tuple[str, int]:
    """Amount = number [ unit ] resource ."""
    match = _AMOUNT.fullmatch(piece)
    if match is None or (match[2] is None and match[3] in UNITS):
        shown = quote(piece.strip())
        if not piece.strip():
            raise ArgumentError("an amount is missing", "write such as 1 cpu or 2 GiB memory")
        if match is not None:
            raise ArgumentError(
                f"{shown} names no resource", f"write {piece.strip()} {_of(match[3])}"
            )
        raise ArgumentError(
            f"{shown} is not an amount of a resource", "write such as 1 cpu or 2 GiB memory"
        )
    number, unit, word = match.groups()
    name = canonical_resource(check_resource(word))
    return name, amount_of(name, Decimal(number), unit or "")


def _of(unit: str) -> str:
    return "cpu" if unit == "m" else "memory"
