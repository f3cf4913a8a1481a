"""Everything that is wrong without a plan is said at once, each with its place and code."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from rdl.compile.compiler import compile_expression, compile_source
from rdl.compile.context import CompileContext, MachineShape
from rdl.errors import BEYOND_HORIZON, MALFORMED, UNSATISFIABLE, Problem, RdlError
from rdl.expressions import (
    Absolute,
    AllOf,
    AnyOf,
    Atom,
    Edge,
    Every,
    Expression,
    Gap,
    Graph,
    Offset,
    Order,
    Together,
    Void,
    Window,
)
from rdl.limits import SourceLimits
from rdl.resources import MAX_AMOUNT, Resources
from rdl.time_grid import TimeGrid
from tests.patience import calls_made

CPU = Resources.of({"cpu": 1000})
CONTEXT = CompileContext(TimeGrid(1000, 100))
ATOM = Atom(CPU, 1, 4, 1000, 4000)
MACHINES = (
    MachineShape("plain", Resources.of({"cpu": 4000, "memory": 8192})),
    MachineShape(
        "big", Resources.of({"cpu": 2000, "memory": 65_536, "gpu": 2}), frozenset({"ssd"})
    ),
)


def problems(expression: Expression, context: CompileContext = CONTEXT) -> tuple[Problem, ...]:
    """Return what the compiler says is wrong."""
    with pytest.raises(RdlError) as caught:
        compile_expression(expression, context)
    return caught.value.problems


def said(text: str, context: CompileContext = CONTEXT) -> list[tuple[str, str]]:
    """Return (piece of the text, message) of each problem."""
    with pytest.raises(RdlError) as caught:
        compile_source(text, context)
    assert all(problem.span is not None for problem in caught.value.problems)
    found = [(problem.span or (0, 0), problem.message) for problem in caught.value.problems]
    return [(text[start:end], message) for (start, end), message in found]


MALFORMED_ONES: list[tuple[Expression, str, str]] = [
    (replace(ATOM, minimum=0), "", "min and multiple must be at least 1"),
    (replace(ATOM, minimum=9), "", "min 9 is more than max 4"),
    (replace(ATOM, maximum=2**31), "", "not plausible"),
    (replace(ATOM, minimum=4, maximum=5, multiple=3), "", "divisible by 3"),
    (replace(ATOM, bundle=Resources()), "", "the bundle is empty"),
    (replace(ATOM, lease_ms=0), "", "the lease must be positive"),
    (replace(ATOM, work_ms=-1), "", "the work must be positive"),
    (replace(ATOM, work_ms=2**60), "", "the work is not plausible"),
    (AllOf((ATOM, AnyOf(()))), "/all/1", "any of nothing"),
    (AllOf(()), "", "all of nothing"),
    (Order(()), "", "order of nothing"),
    (Graph((), (), ()), "", "graph of nothing"),
    (AnyOf((ATOM, ATOM), (0.5,)), "", "prefer has 1 values for 2 options"),
    (AnyOf((ATOM, ATOM), (0.5, 1.5)), "", r"in \(0, 1\]"),
    (Order((ATOM, ATOM), Gap(-1)), "", "a gap cannot be negative"),
    (Order((ATOM, ATOM), Gap(5000, 2000)), "", "the gap 5s..2s is empty"),
    (Order((ATOM, ATOM), Gap(1100, 1900)), "", "no whole number of steps of 1s"),
    (Graph(("a", "a"), (ATOM, ATOM), ()), "", "a name of its own"),
    (Graph(("a", "b"), (ATOM, ATOM), (Edge(0, 2),)), "", "joins two expressions"),
    (Window(Offset(5), Offset(5), ATOM), "", "ends where it starts: no length"),
    (Window(Offset(5), Offset(4), ATOM), "", "ends before it starts"),
    (Window(Offset(5), Offset(2**60), ATOM), "", "the time is not plausible"),
    (Window(Offset(0), Absolute(datetime(2026, 1, 1, tzinfo=UTC)), ATOM), "", "give .* origin"),
    (AnyOf((ATOM, Void(CPU, 1))), "", "a void cannot stand in any"),
    (Window(Offset(0), Offset(9000), Void(CPU, 1)), "", "a void cannot stand in window"),
    (Order((ATOM, AllOf((Void(CPU, 1), Void(CPU, 2))))), "", "a void cannot stand in order"),
    (Void(CPU, 0), "", "max must be from 1"),
    (Every(0, ATOM), "", "the period must be positive"),
    (Every(1500, ATOM, times=2), "", "not .* the step 1s; write a period of whole"),
    (Every(9000, ATOM, times=0), "", "times must be at least 1"),
    (Every(9000, ATOM, times=1, until=Offset(9)), "", "times and until"),
    (Every(86_400_000, ATOM, zone="Europe/Pari"), "", "not a time zone"),
    (Every(1000, ATOM, zone="Europe/Paris", times=1), "", "whole number of days"),
    (Every(86_400_000, ATOM, zone="Europe/Paris", times=1), "", "give .* or leave the zone out"),
    (Every(9000, Every(3000, ATOM), times=2), "/every/of", "an endless every inside an every"),
    (Order((Every(25_000, ATOM), ATOM)), "", "nothing can come after an endless every"),
]


@pytest.mark.parametrize(("expression", "pointer", "message"), MALFORMED_ONES)
def test_malformed_expressions_are_refused_where_they_are(
    expression: Expression, pointer: str, message: str
) -> None:
    """Built by a program or read, each mistake is malformed and has its pointer."""
    with pytest.raises(RdlError, match=message) as caught:
        compile_expression(expression, CONTEXT)

    assert caught.value.code == MALFORMED
    assert caught.value.problems[0].pointer == pointer


UNSATISFIABLE_ONES: list[tuple[str, str, str]] = [
    ("window(atom(<1 cpu>, 1, 1, 9, 9), 0, 5)", "atom(<1 cpu>, 1, 1, 9, 9)", "at least 9s"),
    ("window(atom(<1 cpu>, 2, 3, 3, 7), 0, 2)", "atom(<1 cpu>, 2, 3, 3, 7)", "at least 4s"),
    ("atom(<1 cpu>, 1, 1, 200, 200)", "atom(<1 cpu>, 1, 1, 200, 200)", "up to the plan's horizon"),
    (
        "window(order(atom(<1 cpu>, 1, 1, 4, 4), atom(<1 cpu>, 1, 1, 4, 4), gap=1s), 0, 8)",
        "window(order(atom(<1 cpu>, 1, 1, 4, 4), atom(<1 cpu>, 1, 1, 4, 4), gap=1s), 0, 8)",
        r"at least 9s, but its window, from 0s to 8s after the origin, is 8s",
    ),
    (
        "order(window(atom(<1 cpu>, 1, 1, 4, 4), 3, 9), window(atom(<1 cpu>, 1, 1, 4, 4), 0, 10))",
        "atom(<1 cpu>, 1, 1, 4, 4)",
        r"before and after it leaves from 7s to 10s",
    ),
    (
        "order(window(atom(<1 cpu>, 1, 1, 4, 4), 0, 9), window(atom(<1 cpu>, 1, 1, 4, 4), 50, 60),"
        " gap=0..5s)",
        "atom(<1 cpu>, 1, 1, 4, 4)",
        "the largest gaps around it leave it no place",
    ),
    (
        "any(window(atom(<1 cpu>, 1, 1, 9, 9), 0, 5))",
        "atom(<1 cpu>, 1, 1, 9, 9)",
        "at least 9s",
    ),
    ("window(atom(<1 cpu>, 1, 1, 1, 1), 0.2s, 0.9s)", "", "no whole step of 1s"),
    ("every(7s, atom(<1 cpu>, 1, 1, 1, 1))", "", "an endless period of 7s neither divides 1d"),
    ("every(9s, atom(<1 cpu>, 1, 1, 1, 1), until=5s)", "", "no whole period lies before until"),
    ("every(9s, atom(<1 cpu>, 1, 1, 10, 10), times=2)", "atom(<1 cpu>, 1, 1, 10, 10)", "10s"),
]


@pytest.mark.parametrize(("text", "where", "message"), UNSATISFIABLE_ONES)
def test_requests_that_no_plan_can_hold(text: str, where: str, message: str) -> None:
    """Windows too short by critical path, gaps and periods: unsatisfiable, with the span."""
    with pytest.raises(RdlError, match=message) as caught:
        compile_source(text, CONTEXT)

    first = caught.value.problems[0]
    assert first.code == UNSATISFIABLE
    assert first.span is not None
    assert text[slice(*first.span)] == (where or text)


@pytest.mark.parametrize(
    "text",
    [
        "window(atom(<1 cpu>, 1, 1, 1, 1), 100, 200)",
        "every(50s, atom(<1 cpu>, 1, 1, 1, 1), times=3)",
        "every(1w, atom(<1 cpu>, 1, 1, 1, 1), anchor=500, times=1)",
    ],
)
def test_what_lies_past_the_horizon(text: str) -> None:
    """A window or an occurrence wholly past the horizon can be requested later."""
    with pytest.raises(RdlError) as caught:
        compile_source(text, CONTEXT)

    assert [problem.code for problem in caught.value.problems] == [BEYOND_HORIZON]


def test_a_window_over_before_the_submission() -> None:
    """Nothing is placed before the submission, so a window before it holds nothing."""
    late = replace(CONTEXT, submitted_ms=50_000)

    assert said("window(atom(<1 cpu>, 1, 1, 1, 1), 0, 50)", late) == [
        ("window(atom(<1 cpu>, 1, 1, 1, 1), 0, 50)", "the window is over before the submission")
    ]
    assert said("every(10s, atom(<1 cpu>, 1, 1, 1, 1), anchor=0, times=9)", late)[0][1] == (
        "its first period is over before the submission"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "window(atom(<1 cpu>, 1, 1, 1, 1), +0, +1h)",
            "the window is over before the plan begins",
        ),
        (
            "window(atom(<1 cpu>, 1, 1, 5, 5), +23h, +24h3s)",
            "it takes at least 5s, but its window, from 0s to 3s after the origin, is 3s",
        ),
        (
            "every(1h, atom(<1 cpu>, 1, 1, 1, 1), anchor=+1h, times=2)",
            "its first period is over before the plan begins",
        ),
    ],
)
def test_a_window_before_the_plan_begins(text: str, message: str) -> None:
    """A plan whose origin is still to come has no steps before it, and a refusal says so."""
    early = replace(CONTEXT, submitted_ms=-86_400_000)

    assert said(text, early)[0][1] == message


def test_all_problems_are_said_at_once() -> None:
    """Three mistakes of three kinds in one request: three problems in written order."""
    text = (
        "all(window(atom(<1 cpu>, 1, 1, 9, 9), 0, 5),"
        " window(atom(<1 cpu>, 1, 1, 1, 1), 100, 200),"
        " order(atom(<1 cpu>, 1, 1, 60, 60), atom(<1 cpu>, 1, 1, 60, 60)))"
    )

    with pytest.raises(RdlError) as caught:
        compile_source(text, CONTEXT)

    codes = [problem.code for problem in caught.value.problems]
    assert codes == [UNSATISFIABLE, BEYOND_HORIZON, UNSATISFIABLE]


def test_malformed_and_unsatisfiable_are_said_together() -> None:
    """A mistake in one child does not hide that another does not fit its window."""
    short = Window(Offset(0), Offset(2000), Atom(CPU, 1, 1, 9000, 9000))

    found = problems(AllOf((replace(ATOM, minimum=9), short)))

    assert [(p.code, p.pointer) for p in found] == [
        (MALFORMED, "/all/0"),
        (UNSATISFIABLE, "/all/1/window/of"),
    ]


def test_the_message_of_a_short_window_whole() -> None:
    """The text of a refusal: line, column, numbers, caret."""
    with pytest.raises(RdlError) as caught:
        compile_source("window(\n  atom(<1 cpu>, 1, 1, 9, 9),\n  0, 5)", CONTEXT)

    assert str(caught.value) == (
        "line 2, column 3: it takes at least 9s, but its window, from 0s to 5s "
        "after the origin, is 5s; leave it at least 9s, or ask for less\n"
        "      atom(<1 cpu>, 1, 1, 9, 9),\n"
        "      ^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


def test_a_long_cycle_is_reported_in_short() -> None:
    """Its first members, how many more, and the one it comes back to: a line, not a page."""
    names = tuple(f"n{i}" for i in range(1000))
    edges = tuple(Edge(i, (i + 1) % 1000) for i in range(1000))
    (problem,) = problems(Graph(names, (ATOM,) * 1000, edges))
    way = problem.message.removeprefix("the graph has a cycle: ").split(" -> ")
    assert way[0] == way[-1]
    assert way[-2] == "(993 more)"
    assert len(way) == 9


def test_a_cycle_names_its_way() -> None:
    """The message walks along the arrows and returns to where it began."""
    arrows = (Edge(0, 1), Edge(1, 2), Edge(2, 3), Edge(3, 1))
    graph = Graph(("in", "a", "b", "c"), (ATOM,) * 4, arrows)

    (problem,) = problems(graph)

    names = problem.message.removeprefix("the graph has a cycle: ").split(" -> ")
    assert names[0] == names[-1]
    assert set(names) == {"a", "b", "c"}
    assert all(pair in {("a", "b"), ("b", "c"), ("c", "a")} for pair in pairwise(names))


@pytest.mark.parametrize(
    ("bundle", "on", "message", "fix"),
    [
        ({"cpu": 5000}, None, "5 cpu is more than any machine has", "the largest has 4 cpu"),
        ({"cpu": 3000}, "ssd", "3 cpu is more than any machine with the label 'ssd' has", "2 cpu"),
        ({"cpu": 3000, "memory": 9000}, None, "no one machine has all of", ""),
        ({"gpus": 1}, None, "no machine has any gpus", "did you mean 'gpu'?"),
        ({"cpu": 1000}, "sdd", "no machine carries the label 'sdd'", "did you mean 'ssd'?"),
    ],
)
def test_a_bundle_larger_than_any_machine(
    bundle: dict[str, int], on: str | None, message: str, fix: str
) -> None:
    """A bundle runs on one machine: the largest with the label is the bound, by resource."""
    atom = replace(ATOM, bundle=Resources.of(bundle), on=on)

    (problem,) = problems(atom, replace(CONTEXT, machines=MACHINES))

    assert problem.code == UNSATISFIABLE
    assert problem.message.startswith(message)
    assert fix in (problem.fix or "")


def test_a_bundle_that_one_machine_holds_is_let_through() -> None:
    """Exactly as large as a machine is not too large; without machines nothing is."""
    atom = replace(ATOM, bundle=Resources.of({"cpu": 2000, "gpu": 2}), on="ssd")

    exact = compile_expression(atom, replace(CONTEXT, machines=MACHINES))
    unknown = compile_expression(replace(atom, bundle=Resources.of({"cpu": 10**9})), CONTEXT)

    assert exact.bundles == (atom.bundle,)
    assert unknown.bundles == (Resources.of({"cpu": 10**9}),)


def test_unreachable_work_is_refused_only_when_asked() -> None:
    """7 bundle-seconds of pairs: the next is 8, the one before 6; by default 8 is taken."""
    text = "atom(<1 cpu>, 2, 2, 1, 7)"

    graph = compile_source(text, CONTEXT)

    assert graph.notes == ("work 7 -> 8 bundle-seconds",)
    with pytest.raises(RdlError, match="exactly 7 bundle-seconds") as caught:
        compile_source(text, replace(CONTEXT, exact_work=True))
    (problem,) = caught.value.problems
    assert (problem.code, problem.fix) == (MALFORMED, "write work=6 or 8")


def test_work_that_only_the_grid_cannot_reach_is_not_refused() -> None:
    """exact_work looks at the client's own units: 90 s leases are exact, whatever the step."""
    context = CompileContext(TimeGrid(60_000, 100), exact_work=True)

    graph = compile_source("atom(<1 cpu>, 1, 1, 90s, 270s)", context)

    assert graph.notes == ("lease 90s -> 2 steps, work 270 -> 360 bundle-seconds",)


INNER = Every(20_000, ATOM, times=4)


@pytest.mark.parametrize("steps", [100, 120, 180, 10_000])
@pytest.mark.parametrize(
    ("expression", "pointer"),
    [
        (Every(60_000, INNER, times=2), "/every/of"),
        (Every(60_000, replace(INNER, same_offset=False), times=2, same_offset=False), "/every/of"),
        (Window(Offset(0), Offset(60_000), INNER), "/window/of"),
        (Window(Offset(0), Offset(9_000), Window(Offset(120_000), Offset(130_000), ATOM)),
         "/window/of"),
    ],
)  # fmt: skip
def test_what_no_horizon_holds_is_unsatisfiable_at_every_horizon(
    expression: Expression, pointer: str, steps: int
) -> None:
    """What lies past the end of the window or period around it does not wait for a later plan."""
    (problem, *_) = problems(expression, CompileContext(TimeGrid(1000, steps)))

    assert problem.code == UNSATISFIABLE
    assert (problem.pointer or "").startswith(pointer)


@pytest.mark.parametrize("limits", [{"max_atoms": 3}, {"max_depth": 3}, {"max_options": 3}])
def test_sizes_beyond_the_limits(limits: dict[str, int]) -> None:
    """Four atoms, four levels or four options are one too many where three are allowed."""
    deep: Expression = ATOM
    for _ in range(3):
        deep = AllOf((deep,))
    wide = AnyOf((ATOM,) * 4)
    context = replace(CONTEXT, limits=SourceLimits(**limits))

    (problem,) = problems(deep if "max_depth" in limits else wide, context)

    assert problem.code == MALFORMED
    assert "3" in problem.message + (problem.fix or "")


@pytest.mark.parametrize(
    "expression",
    [
        Every(1000, ATOM, times=10**9),
        Every(1000, ATOM, times=10**9, same_offset=False),
        Every(10**6, Every(10**5, Every(1000, ATOM, times=50), times=10), times=50),
        Every(1000, AllOf((ATOM,) * 500), times=9000, same_offset=False),
    ],
)
def test_recurrences_that_explode_are_refused_soon(expression: Expression) -> None:
    """Occurrences are counted as they are laid out, and laying out stops at the bound."""
    context = CompileContext(TimeGrid(1000, 10**7))
    found: list[Problem] = []

    assert calls_made(lambda: found.extend(problems(expression, context))) < 2_000_000

    problem = found[0]
    assert problem.code == MALFORMED
    assert "more than" in problem.message


def test_a_shared_expression_is_judged_in_each_place() -> None:
    """The same object twice in a tree has two places, and both are named."""
    wrong = replace(ATOM, minimum=9)

    assert [p.pointer for p in problems(AllOf((wrong, ATOM, wrong)))] == ["/all/0", "/all/2"]


_AFTER = "option 2 is preferred to option 1, though it is written after it"


@pytest.mark.parametrize(
    ("prefer", "note"),
    [
        (None, ()),
        ((1.0, 0.5, 0.5), ()),
        (
            (0.5, 0.5, 1.0),
            (f"prefer rises from 0.5 to 1: {_AFTER}",),
        ),
        (
            (1.0, 0.25, 0.5),
            (f"prefer rises from 0.25 to 0.5: {_AFTER}",),
        ),
    ],
)
def test_preferences_that_rise_are_noted(
    prefer: tuple[float, ...] | None, note: tuple[str, ...]
) -> None:
    """The order written is meant as the order of preference: where it is not, a note says so."""
    choice = AnyOf((ATOM, ATOM, ATOM), prefer)
    assert compile_expression(choice, CONTEXT).notes == note
    inside = compile_expression(Order((ATOM, choice)), CONTEXT)
    assert inside.notes == tuple(f"any of 3 (second of order): {one}" for one in note)


GANG = replace(ATOM, minimum=2, maximum=2, work_ms=2000)


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (Void(CPU, 1), "together holds atoms only"),
        (Together((GANG,)), "together holds atoms only"),
        (Window(Offset(0), Offset(9000), GANG), "together holds atoms only"),
        (ATOM, "holds 1 to 4 bundles"),
        (replace(GANG, lease_ms=2000, work_ms=4000), "runs for 2s, the first atom for 1s"),
        (replace(GANG, work_ms=4000), "does not run for exactly one lease"),
        (replace(GANG, credit=True), "credit=yes"),
        (replace(GANG, bundle=Resources.of({"cpu": MAX_AMOUNT})), "of one resource together"),
    ],
)
def test_what_cannot_start_and_end_at_the_same_time_is_refused(
    member: Expression, words: str
) -> None:
    """Each member is a gang of one lease, as long as the first; the message says which is not."""
    with pytest.raises(RdlError) as caught:
        compile_expression(Together((GANG, member)), CONTEXT)
    assert {problem.code for problem in caught.value.problems} == {MALFORMED}
    assert words in str(caught.value)


def test_a_together_and_its_members_do_not_both_name_a_domain() -> None:
    """Two domains would need two choices for one bundle."""
    with pytest.raises(RdlError, match="write within once"):
        compile_expression(Together((GANG, replace(GANG, within="zone")), "rack"), CONTEXT)
