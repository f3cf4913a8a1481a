"""YARN codec: what a reservation definition means, and what is refused."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest

from rdl.codecs.yarn import from_yarn
from rdl.errors import RdlError
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
from rdl.limits import SourceLimits
from rdl.oracle.satisfaction import check
from rdl.resources import Resources
from rdl.time_grid import TimeGrid
from tests.rdl.codecs.yarn_definition import definition

ARRIVAL = datetime(2030, 1, 1, tzinfo=UTC)
BUNDLE = Resources.of({"memory": 1024, "cpu": 1000})
GANG = Atom(BUNDLE, 220, 220, 60_000, 13_200_000, multiple=220)
SINGLES = Atom(BUNDLE, 1, 110, 120_000, 13_200_000)


def with_stage(**changes: object) -> dict[str, Any]:
    """Return the definition with its first stage changed."""
    body = copy.deepcopy(definition())
    stage = body["reservation-requests"]["reservation-request"][0]
    stage.update(changes)
    return body


def test_a_definition_is_a_window_around_its_stages() -> None:
    """Arrival and deadline are instants; stages are gangs that may run several times over."""
    read = from_yarn(definition())

    assert read.expression == Window(
        Absolute(ARRIVAL), Absolute(ARRIVAL + timedelta(minutes=12)), AnyOf((GANG, SINGLES))
    )
    assert (read.name, read.priority) == ("res_1", 0)
    assert (read.arrival_ms, read.deadline_ms) == (1893456000000, 1893456720000)


def test_a_recurrence_is_endless_from_the_arrival() -> None:
    """Inside the period times count from its start, which is the arrival."""
    read = from_yarn(definition(**{"recurrence-expression": "14400000"}))

    inside = Window(Offset(0), Offset(720_000), AnyOf((GANG, SINGLES)))
    assert read.expression == Every(14_400_000, inside, anchor=Absolute(ARRIVAL))


@pytest.mark.parametrize(
    ("interpreter", "expected"),
    [
        (0, AnyOf((GANG, SINGLES))),
        (1, AllOf((GANG, SINGLES))),
        (2, Order((GANG, SINGLES))),
        ("2", Order((GANG, SINGLES))),
    ],
)
def test_the_interpreter_joins_the_stages(interpreter: object, expected: Expression) -> None:
    """ANY, ALL and ORDER, also as a string."""
    body = definition()
    body["reservation-requests"]["reservation-request-interpreter"] = interpreter
    read = from_yarn(body)

    assert isinstance(read.expression, Window)
    assert read.expression.of == expected


def test_one_stage_may_stand_without_its_list_and_numbers_may_be_strings() -> None:
    """As on YARN's wire, where a list of one is its element."""
    stage = {
        "duration": "60000",
        "num-containers": "220",
        "min-concurrency": "220",
        "capability": {"memory": "1024", "vCores": "1"},
    }
    body = definition(**{"reservation-requests": {"reservation-request": stage}})
    body["arrival"] = str(body["arrival"])
    read = from_yarn({"queue": "dedicated", "reservation-id": "x", "reservation-definition": body})

    assert isinstance(read.expression, Window)
    assert read.expression.of == AnyOf((GANG,))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            [],
            "reservation-definition is not an object; its keys are arrival, deadline, "
            "reservation-name, priority, recurrence-expression, reservation-requests",
        ),
        (
            definition(deadlin=3),
            "/deadlin: unknown key 'deadlin'; known: arrival, deadline, reservation-name, "
            "priority, recurrence-expression, reservation-requests; did you mean 'deadline'?",
        ),
        (
            definition(deadline=5),
            "/deadline: the deadline is not after the arrival; "
            "write ms from 1970-01-01T00:00:00Z, the deadline after the arrival",
        ),
        (
            definition(arrival="soon"),
            "/arrival: arrival is 'soon'; write a whole number from 0 to 100000000000000",
        ),
        (
            definition(**{"recurrence-expression": "0 5 * * *"}),
            "/recurrence-expression: recurrence-expression is '0 5 * * *'; "
            "write a whole number from 0 to 100000000000000",
        ),
        (
            definition(**{"reservation-requests": None}),
            "/reservation-requests: the definition has no reservation-requests; "
            "write at least one reservation-request",
        ),
        (
            definition(**{"reservation-requests": {"reservation-request": []}}),
            "/reservation-requests/reservation-request: the definition has no stages; "
            "write at least one",
        ),
        (
            definition(
                **{
                    "reservation-requests": {
                        "reservation-request-interpreter": 4,
                        "reservation-request": {},
                    }
                }
            ),
            "/reservation-requests/reservation-request-interpreter: 4 is no interpreter; "
            "write 0 (any), 1 (all), 2 (order) or 3 (order without gaps)\n"
            "/reservation-requests/reservation-request/duration: duration is 0 or absent; "
            "write at least 1\n"
            "/reservation-requests/reservation-request/num-containers: "
            "num-containers is 0 or absent; write at least 1\n"
            "/reservation-requests/reservation-request/min-concurrency: "
            "min-concurrency is 0 or absent; write at least 1\n"
            "/reservation-requests/reservation-request/capability: "
            "capability is not an object; its keys are memory, vCores",
        ),
        (
            with_stage(**{"num-containers": 221}),
            "/reservation-requests/reservation-request/0/num-containers: "
            "221 containers are no multiple of min-concurrency 220; write 220 or 440",
        ),
        (
            with_stage(**{"num-containers": 3}),
            "/reservation-requests/reservation-request/0/num-containers: "
            "3 containers are no multiple of min-concurrency 220; write 220",
        ),
        (
            with_stage(capability={"memory": 0}),
            "/reservation-requests/reservation-request/0/capability: the capability is empty; "
            'write {"memory": 1024, "vCores": 1}',
        ),
        (
            with_stage(capability={"memory": True, "vcores": 1}),
            "/reservation-requests/reservation-request/0/capability/vcores: "
            "unknown key 'vcores'; known: memory, vCores; did you mean 'vCores'?\n"
            "/reservation-requests/reservation-request/0/capability/memory: "
            "memory is true; write a whole number from 0 to 1099511627776",
        ),
        (
            with_stage(duration=10**14, **{"num-containers": 220_000}),
            "/reservation-requests/reservation-request/0: "
            "num-containers times duration is too large; write less",
        ),
        (
            definition(deadline=10**14, arrival=10**14 - 1, **{"reservation-name": 3}),
            "/reservation-name: the name is 3; write a text of at most 1000 printable characters",
        ),
    ],
)
def test_problems_say_where_and_what_would_be_right(value: object, expected: str) -> None:
    """Where YARN itself would answer 500, each problem has its pointer and its fix."""
    with pytest.raises(RdlError) as caught:
        from_yarn(value)
    assert str(caught.value) == expected
    assert caught.value.code == "malformed"


def test_stages_are_bounded() -> None:
    """Options and atoms are bounded as in every other source."""
    with pytest.raises(RdlError, match="has 2 stages; write at most 1"):
        from_yarn(definition(), SourceLimits(max_options=1))


def no_gap(*stages: tuple[int, int, int], window_s: int = 720) -> Expression:
    """Return what ORDER_NO_GAP of (duration s, containers, concurrency) stages is read as."""
    asked = [
        {
            "duration": 1000 * duration,
            "num-containers": containers,
            "min-concurrency": gang,
            "capability": {"memory": 1024, "vCores": 1},
        }
        for duration, containers, gang in stages
    ]
    requests = {"reservation-request-interpreter": 3, "reservation-request": asked}
    arrival = 1893456000000
    body = definition(deadline=arrival + 1000 * window_s, **{"reservation-requests": requests})
    expression = from_yarn(body).expression
    assert isinstance(expression, Window)
    return expression.of


def rectangle(width: int, length_s: int) -> Atom:
    """Return this many containers, all kept for so long."""
    length = 1000 * length_s
    return Atom(BUNDLE, width, width, length, width * length, multiple=width)


def test_a_stage_of_order_no_gap_is_a_rectangle() -> None:
    """Its gangs run side by side, or as many one after the other as divide them; widest first."""
    read = no_gap((60, 6, 1), (60, 4, 4))

    choice = AnyOf((rectangle(6, 60), rectangle(3, 120), rectangle(2, 180), rectangle(1, 360)))
    assert read == Order((choice, rectangle(4, 60)), Gap(0, 0))


def test_rectangles_longer_than_the_window_are_left_out() -> None:
    """What cannot end by the deadline is no option; the widest stays, so that it can be blamed."""
    short = no_gap((60, 6, 1), window_s=150)
    too_short = no_gap((60, 6, 1), window_s=30)

    assert short == Order((AnyOf((rectangle(6, 60), rectangle(3, 120))),), Gap(0, 0))
    assert too_short == Order((rectangle(6, 60),), Gap(0, 0))


def test_no_hole_interrupts_a_stage_of_order_no_gap() -> None:
    """With a core away in [60, 120) s nothing of two turns of 60 s and one more ends by 240 s."""
    expression = no_gap((60, 2, 1), (60, 1, 1), window_s=240)
    grid = TimeGrid(60_000, 4)
    runs = [(0, 1), (2, 3), (3, 4)]
    held = [
        [(start, end, 1) for start, end in chosen]
        for count in (1, 2)
        for chosen in combinations(runs, count)
    ] + [[(2, 4, 1)]]

    answers = [
        check(expression, grid, 0, {path: first, "1": last}, choices)
        for path, choices in (("0", {}), ("0.0", {"0": 0}), ("0.1", {"0": 1}))
        for first in held
        for last in held
    ]

    assert None not in answers
    touching = {"0.1": [(1, 3, 1)], "1": [(3, 4, 1)]}
    assert check(expression, grid, 0, touching, {"0": 1}) is None


def test_a_window_longer_than_its_recurrence_is_refused() -> None:
    """As by YARN: what is asked again before its deadline has passed would overlap itself."""
    with pytest.raises(RdlError) as caught:
        from_yarn(definition(**{"recurrence-expression": "600000"}))

    assert str(caught.value) == (
        "/recurrence-expression: the time from arrival to deadline, 12m, is longer than the "
        "recurrence, 10m; write an earlier deadline or a longer recurrence"
    )
    assert isinstance(from_yarn(definition(**{"recurrence-expression": 720_000})).expression, Every)


@pytest.mark.parametrize("interpreter", [4, "R_TOGETHER", "together"])
def test_yarn_has_no_word_for_together(interpreter: object) -> None:
    """Only its four interpreters are read; another is refused where it is written."""
    body = definition()
    body["reservation-requests"]["reservation-request-interpreter"] = interpreter
    with pytest.raises(RdlError) as caught:
        from_yarn(body)
    (problem,) = caught.value.problems
    assert problem.pointer == "/reservation-requests/reservation-request-interpreter"
