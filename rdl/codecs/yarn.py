"""YARN's reservation definitions to expressions.

Each stage is a gang of `min-concurrency` containers that may run several times over, so it is an
atom with g = multiple = min-concurrency, h = num-containers, l = duration and
w = num-containers x duration. Under ORDER_NO_GAP a stage of several gangs is one rectangle: see
`_gapless_forms`. Times are ms from 1970-01-01T00:00:00Z, so a cluster needs an origin. A definition
cannot say labels of machines, a spread over machines or domains, `within`, or hand-overs: its atoms
have none, but for the default of hand-overs. It has no word for `together` either: its interpreters
are any, all, order and order without a gap, and another is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, Final

from rdl.codecs.json_values import escape, kind_of
from rdl.durations import MAX_TIME_MS, MAX_WORK_MS, TimeTextError, instant_of_epoch_ms
from rdl.errors import MALFORMED, Problem, RdlError, TooManyProblemsError, nearest, quote
from rdl.expressions import (
    Absolute,
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Gap,
    Offset,
    Order,
    Window,
)
from rdl.limits import DEFAULT_LIMITS, MOST_PROBLEMS, SourceLimits
from rdl.operators import LONGEST_NAME, MAX_COUNT
from rdl.resources import MAX_AMOUNT, Resources
from rdl.time_grid import duration_text

DEFINITION: Final = "reservation-definition"
REQUESTS: Final = "reservation-requests"
_STAGE: Final = "reservation-request"
_INTERPRETER: Final = "reservation-request-interpreter"

_DEFINITION_KEYS: Final = (
    "arrival",
    "deadline",
    "reservation-name",
    "priority",
    "recurrence-expression",
    REQUESTS,
)
_CONTEXT_KEYS: Final = (DEFINITION, "queue", "reservation-id")
_STAGE_KEYS: Final = ("duration", "num-containers", "min-concurrency", "capability")
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
_ABSENT: Final = 0
_LONGEST_NAME: Final = 1000


@dataclass(frozen=True, slots=True)
class YarnReservation:
    """The content of a reservation definition.

    Attributes
    ----------
    expression
        ``window(any | all | order(stages), arrival, deadline)``, inside an endless `every` anchored
        at the arrival if it recurs.
    name
        The reservation's name, ``""`` if absent.
    priority
        As given; 0 if absent.
    arrival_ms, deadline_ms
        From 1970-01-01T00:00:00Z.
    """

    expression: Expression
    name: str
    priority: int
    arrival_ms: int
    deadline_ms: int


def is_yarn(value: Mapping[Any, Any]) -> bool:
    """Return whether an object is a reservation definition rather than RDL."""
    return DEFINITION in value or REQUESTS in value


def from_yarn(value: object, limits: SourceLimits = DEFAULT_LIMITS) -> YarnReservation:
    """Read a reservation definition, or one wrapped in a submission's body.

    Numbers may be strings, absent ones are 0, and a single stage need not be in a list, as on
    YARN's wire.

    Raises
    ------
    RdlError
        With every problem found, each with its JSON pointer.
    """
    reader = _YarnReader(limits)
    try:
        result = reader.context(value)
    except TooManyProblemsError:
        result = None
    if reader.problems or result is None:
        raise RdlError(tuple(reader.problems))
    return result


class _YarnReader:
    def __init__(self, limits: SourceLimits) -> None:
        self.limits = limits
        self.problems: list[Problem] = []

    def context(self, value: object) -> YarnReservation | None:
        """Read a definition, or the body of a submission around it."""
        if isinstance(value, Mapping) and DEFINITION in value:
            self.known_keys(value, _CONTEXT_KEYS, "")
            return self.definition(value[DEFINITION], f"/{DEFINITION}")
        return self.definition(value, "")

    def definition(self, value: object, pointer: str) -> YarnReservation | None:
        body = self.read_object(value, pointer, _DEFINITION_KEYS)
        arrival = self.whole(body, "arrival", pointer, MAX_TIME_MS)
        deadline = self.whole(body, "deadline", pointer, MAX_TIME_MS)
        period = self.whole(body, "recurrence-expression", pointer, MAX_TIME_MS)
        priority = self.whole(body, "priority", pointer, MAX_COUNT)
        name = body.get("reservation-name", "")
        if not isinstance(name, str) or len(name) > _LONGEST_NAME or not name.isprintable():
            fix = f"write a text of at most {_LONGEST_NAME} printable characters"
            self.report(f"{pointer}/reservation-name", f"the name is {kind_of(name)}", fix)
        if deadline <= arrival:
            fix = "write ms from 1970-01-01T00:00:00Z, the deadline after the arrival"
            self.report(f"{pointer}/deadline", "the deadline is not after the arrival", fix)
        window = deadline - arrival
        self.within_period(window, period, f"{pointer}/recurrence-expression")
        stages = self.requests(body.get(REQUESTS), window, f"{pointer}/{REQUESTS}")
        if self.problems or stages is None:
            return None
        expression = self.with_times(stages, arrival, deadline, period)
        if name and len(name) <= LONGEST_NAME:
            expression = replace(expression, name=name)
        return YarnReservation(expression, str(name), priority, arrival, deadline)

    def within_period(self, window: int, period: int, pointer: str) -> None:
        """Report a window that is longer than its recurrence, as YARN does."""
        if 0 < period < window:
            lengths = duration_text(window), duration_text(period)
            message = "the time from arrival to deadline, {}, is longer than the recurrence, {}"
            fix = "write an earlier deadline or a longer recurrence"
            self.report(pointer, message.format(*lengths), fix)

    def with_times(
        self, stages: Expression, arrival: int, deadline: int, period: int
    ) -> Expression:
        """Put the stages into their window, and the window into its recurrence."""
        try:
            start, end = instant_of_epoch_ms(arrival), instant_of_epoch_ms(deadline)
        except TimeTextError as error:
            self.report("/deadline", error.message, error.fix)
            raise TooManyProblemsError from error
        if period == 0:
            return Window(Absolute(start), Absolute(end), stages)
        # Inside `every` times count from the start of the period, which is the arrival.
        inside = Window(Offset(0), Offset(deadline - arrival), stages)
        return Every(period, inside, anchor=Absolute(start))

    def requests(self, value: object, window: int, pointer: str) -> Expression | None:
        if value is None:
            fix = "write at least one reservation-request"
            self.report(pointer, "the definition has no reservation-requests", fix)
            return None
        body = self.read_object(value, pointer, (_INTERPRETER, _STAGE))
        kind = self.whole(body, _INTERPRETER, pointer, MAX_COUNT)
        if kind > 3:
            fix = "write 0 (any), 1 (all), 2 (order) or 3 (order without gaps)"
            self.report(f"{pointer}/{_INTERPRETER}", f"{kind} is no interpreter", fix)
        stages = body.get(_STAGE)
        listed = [stages] if isinstance(stages, Mapping) else stages
        inside = f"{pointer}/{_STAGE}"
        if not isinstance(listed, list | tuple) or not listed:
            self.report(inside, "the definition has no stages", "write at least one")
            return None
        self.within(kind, len(listed), inside)
        atoms = [
            self.stage(stage, inside if stages is stage else f"{inside}/{index}")
            for index, stage in enumerate(listed)
        ]
        good = tuple(atom for atom in atoms if atom is not None)
        return None if self.problems else _join(kind, good, window)

    def within(self, kind: int, count: int, pointer: str) -> None:
        """Stop if there are more stages than the limits allow."""
        most = self.limits.max_options if kind == 0 else self.limits.max_atoms
        if count > most:
            self.report(pointer, f"the definition has {count} stages", f"write at most {most}")
            raise TooManyProblemsError

    def stage(self, value: object, pointer: str) -> Atom | None:
        before = len(self.problems)
        body = self.read_object(value, pointer, _STAGE_KEYS)
        duration = self.positive(body, "duration", pointer, MAX_TIME_MS)
        containers = self.positive(body, "num-containers", pointer, MAX_COUNT)
        gang = self.positive(body, "min-concurrency", pointer, MAX_COUNT)
        bundle = self.capability(body.get("capability"), f"{pointer}/capability")
        if len(self.problems) > before:
            return None
        if containers % gang:
            below = containers - containers % gang
            fix = f"write {below} or {below + gang}" if below else f"write {gang}"
            message = f"{containers} containers are no multiple of min-concurrency {gang}"
            self.report(f"{pointer}/num-containers", message, fix)
            return None
        if containers * duration > MAX_WORK_MS:
            self.report(pointer, "num-containers times duration is too large", "write less")
            return None
        return Atom(bundle, gang, containers, duration, containers * duration, multiple=gang)

    def capability(self, value: object, pointer: str) -> Resources:
        before = len(self.problems)
        body = self.read_object(value, pointer, ("memory", "vCores"))
        memory = self.whole(body, "memory", pointer, MAX_AMOUNT)
        cores = self.whole(body, "vCores", pointer, MAX_AMOUNT // 1000)
        if memory == cores == 0 and len(self.problems) == before:
            self.report(pointer, "the capability is empty", 'write {"memory": 1024, "vCores": 1}')
        return Resources.of({"memory": memory, "cpu": cores * 1000})

    def read_object(self, value: object, pointer: str, known: tuple[str, ...]) -> Mapping[Any, Any]:
        """Return an object whose keys are known; an empty one if a problem was reported."""
        if isinstance(value, Mapping):
            self.known_keys(value, known, pointer)
            return value
        name = pointer.rsplit("/", 1)[-1] or DEFINITION
        self.report(pointer, f"{name} is not an object", f"its keys are {', '.join(known)}")
        raise TooManyProblemsError

    def known_keys(self, value: Mapping[Any, Any], known: tuple[str, ...], pointer: str) -> None:
        for key in value:
            if key not in known:
                message = f"unknown key {quote(str(key))}; known: {', '.join(known)}"
                near = nearest(str(key), known)
                fix = f"did you mean {near!r}?" if near is not None else "leave it out"
                self.report(f"{pointer}/{escape(key)}", message, fix)

    def positive(self, body: Mapping[Any, Any], key: str, pointer: str, most: int) -> int:
        """Return a whole number from 1."""
        before = len(self.problems)
        value = self.whole(body, key, pointer, most)
        if value < 1 and len(self.problems) == before:
            self.report(f"{pointer}/{key}", f"{key} is 0 or absent", "write at least 1")
        return value

    def whole(self, body: Mapping[Any, Any], key: str, pointer: str, most: int) -> int:
        """Return a whole number, also from its digits as a string; absent is 0."""
        raw = body.get(key, _ABSENT)
        if isinstance(raw, str) and _DIGITS.fullmatch(raw):
            raw = int(raw)
        if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw <= most:
            fix = f"write a whole number from 0 to {most}"
            self.report(f"{pointer}/{key}", f"{key} is {kind_of(raw)}", fix)
            return 0
        return raw

    def report(self, pointer: str, message: str, fix: str | None) -> None:
        self.problems.append(Problem(MALFORMED, message, pointer=pointer, fix=fix))
        if len(self.problems) >= MOST_PROBLEMS:
            raise TooManyProblemsError


def _join(kind: int, atoms: tuple[Atom, ...], window: int) -> Expression:
    """Put stages together as an interpreter asks; `window` is from arrival to deadline, ms."""
    match kind:
        case 0:
            return AnyOf(atoms)
        case 1:
            return AllOf(atoms)
        case 2:
            return Order(atoms)
        case _:
            return Order(tuple(_gapless_forms(atom, window) for atom in atoms), Gap(0, 0))


def _gapless_forms(stage: Atom, window: int) -> Expression:
    """Return the shapes of a stage without interruptions.

    YARN's agents accept a stage of ORDER_NO_GAP only if its intervals touch. Only shapes of
    constant height are allowed here: this many gangs in parallel, then the same number again,
    until all have run. Each is an atom of one lease as long as all turns, which cannot be
    interrupted. The widest comes first; shapes longer than the window are omitted, except the
    widest.
    """
    gangs = stage.maximum // stage.minimum
    shapes = [_rectangle(stage, width * stage.minimum) for width in _divisors(gangs)]
    fitting = [shape for shape in shapes[1:] if shape.lease_ms <= window]
    return AnyOf((shapes[0], *fitting)) if fitting else shapes[0]


def _divisors(number: int) -> list[int]:
    """Return the divisors of a number, largest first."""
    small = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)}, reverse=True)


def _rectangle(stage: Atom, width: int) -> Atom:
    """Return a stage as `width` containers that are kept for as long as its work takes."""
    length = stage.work_ms // width
    return replace(stage, minimum=width, maximum=width, lease_ms=length, multiple=width)
