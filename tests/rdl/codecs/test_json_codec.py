"""JSON codec: exact round trips, and every problem with its pointer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from rdl.codecs.json_codec import from_json, pointer_of, to_json
from rdl.errors import RdlError
from rdl.expressions import (
    AfterSubmission,
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
    Void,
    Window,
    children_of,
)
from rdl.limits import SourceLimits
from rdl.resources import Resources
from rdl.text.formatter import format_expression
from rdl.text.parser import parse
from tests.strategies import expressions

ATOM_JSON = {"atom": {"bundle": {"cpu": 1}, "min": 1, "max": 2, "lease": 60, "work": "1h"}}
ATOM = Atom(Resources.of({"cpu": 1000}), 1, 2, 60_000, 3_600_000)


@given(expressions())
def test_json_reads_back_as_the_same_expression(expression: Expression) -> None:
    """from_json(to_json(e)) == e, also through JSON text."""
    value = to_json(expression)

    assert from_json(value) == expression
    assert from_json(json.loads(json.dumps(value))) == expression


@given(expressions())
def test_text_and_json_say_the_same(expression: Expression) -> None:
    """Reading the text and writing JSON gives what writing JSON at once gives."""
    assert to_json(parse(format_expression(expression))) == to_json(expression)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ATOM_JSON, ATOM),
        (
            {"window": {"start": 0, "end": "2h", "of": ATOM_JSON}},
            Window(Offset(0), Offset(7_200_000), ATOM),
        ),
        (
            {"window": {"start": "+90s", "end": 0.5, "of": ATOM_JSON}},
            Window(AfterSubmission(90_000), Offset(500), ATOM),
        ),
        ({"any": [ATOM_JSON], "prefer": [1]}, AnyOf((ATOM,), (1.0,))),
        ({"all": [ATOM_JSON, {"all": []}]}, AllOf((ATOM, AllOf(())))),
        ({"order": [ATOM_JSON], "gap": 300}, Order((ATOM,), Gap(300_000))),
        ({"order": [ATOM_JSON], "gap": [0, "1h"]}, Order((ATOM,), Gap(0, 3_600_000))),
        (
            {
                "graph": {
                    "nodes": {"a": ATOM_JSON, "b": ATOM_JSON},
                    "edges": [["a", "b"], ["a", "b", {}], ["a", "b", {"gap": "5m"}]],
                }
            },
            Graph(("a", "b"), (ATOM, ATOM), (Edge(0, 1), Edge(0, 1), Edge(0, 1, Gap(300_000)))),
        ),
        (
            {"every": {"period": "24h", "times": 7, "same_offset": False, "of": ATOM_JSON}},
            Every(86_400_000, ATOM, times=7, same_offset=False),
        ),
        ({"void": {"bundle": {"gpu": 1}, "max": 3}}, Void(Resources.of({"gpu": 1}), 3)),
    ],
)
def test_every_operator_is_read(value: object, expected: Expression) -> None:
    """The forms of files.md."""
    assert from_json(value) == expected


def _problems(value: object) -> list[str]:
    with pytest.raises(RdlError) as caught:
        from_json(value)
    assert caught.value.code == "malformed"
    return str(caught.value).splitlines()


GOOD: dict[str, object] = {"bundle": {"cpu": 1}, "min": 1, "max": 2, "lease": 1, "work": 2}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, ['an expression is an object, not 3; write an object such as {"atom": {...}}']),
        (
            {},
            [
                "the object is empty; write one of atom, any, all, order, graph, together, window, "
                "deadline, every, void"
            ],
        ),
        ({"atm": {}}, ["/atm: unknown operator 'atm'; did you mean 'atom'?"]),
        (
            {"all": [], "any": []},
            [
                "one object names all and any; write one operator in each object; "
                "all or order join several"
            ],
        ),
        ({"all": [], "gap": 1}, ["/gap: all has no key 'gap'; all stands alone"]),
        (
            {"window": {"start": 0, "end": 1, "of": {"all": []}}, "prio": 3},
            [
                "/prio: unknown key 'prio' alongside window; window stands alone; "
                "its keys go inside it"
            ],
        ),
        (
            {"all": [{"graph": {"nodes": {}}, "edges": []}]},
            [
                "/all/0/edges: unknown key 'edges' alongside graph; "
                "graph stands alone; its keys go inside it"
            ],
        ),
        (
            {"void": {"bundle": {"m": 1, "GiB": 2}, "max": 1}},
            [
                "/void/bundle/m: 'm' is a unit of cpu, not a resource; name the resource",
                "/void/bundle/GiB: 'GiB' is a unit of memory, not a resource; name the resource",
            ],
        ),
        ({"all": {}}, ["/all: all is a list, not an object; write [e1, e2]"]),
        (
            {"atom": {"bundle": {"cpu": 1}, "min": 1}},
            [
                "/atom: atom needs max and lease and work; "
                "its keys are bundle, min, max, lease, work, multiple, on, spread, by, within, "
                "values, handover, credit, tasks, each"
            ],
        ),
        (
            {"atom": {**GOOD, "spread": 0, "handover": "yes"}},
            [
                "/atom/spread: a count is at least 1; write a whole number from 1",
                "/atom/handover: true or false, not 'yes'",
            ],
        ),
        (
            {"atom": {**GOOD, "by": "rack"}},
            [
                "/atom/by: by says in what bundles are spread, and there is no spread; "
                "write spread=1 too, or leave by out"
            ],
        ),
        (
            {"together": [], "values": 2},
            [
                "/values: values says of how many, and there is no within; "
                "write within=rack too, or leave values out"
            ],
        ),
        (
            {"atom": {**GOOD, "spread": 1, "by": 3}},
            ['/atom/by: a text, not 3; write such as "ssd"'],
        ),
        (
            {"window": {"start": -1, "end": True, "of": {"all": []}}},
            [
                "/window/start: -1 is negative; "
                "write seconds (90), a duration (2h), +2h, 06:00 or 2026-01-05T09:00:00Z",
                "/window/end: true is not a time; "
                "write seconds (90), a duration (2h), +2h, 06:00 or 2026-01-05T09:00:00Z",
            ],
        ),
        (
            {"any": [{"all": []}], "prefer": [0.5, 1]},
            ["/prefer: prefer has 2 values for 1 options; write one in (0, 1] for each option"],
        ),
        (
            {"any": [{"all": []}], "prefer": [1.5]},
            ["/prefer/0: the worth of an option is above 0 and at most 1; write 0.5"],
        ),
        (
            {"order": [], "gap": [3600, 60]},
            ["/gap: the longest gap is shorter than the shortest; write 5m..1h"],
        ),
        (
            {"graph": {"nodes": {"a": {"all": []}}, "edges": [["a", "aa"], "x", ["a", "a", 5]]}},
            [
                "/graph/edges/0/1: no expression of the graph is named 'aa'; did you mean 'a'?",
                "/graph/edges/1: an arrow is a list of two names and an optional object; "
                'write ["a", "b"] or ["a", "b", {"gap": 300}]',
                '/graph/edges/2/2: an arrow carries a gap only; write such as {"gap": 300}',
            ],
        ),
        (
            {"every": {"period": 0, "of": {"all": []}}},
            ["/every/period: a period of zero; write a duration such as 24h"],
        ),
        (
            {"every": {"period": 60, "of": {"all": []}, "times": 2, "until": 9}},
            ["/every/until: every has both times and until; keep the one that is meant"],
        ),
        (
            {"void": {"bundle": {"memory": "2 cores", "a/b": "x"}, "max": 1.0}},
            [
                "/void/bundle/memory: unknown unit 'cores' for memory; "
                "write one of B KiB MiB GiB TiB kB KB MB GB TB",
                "/void/bundle/a~1b: cannot read 'x' as an amount of a/b; write 4 or '16 GiB'",
                "/void/max: a whole number, not 1.0; write such as 4",
            ],
        ),
        (
            {"void": {"bundle": {}, "max": 1}},
            ["/void/bundle: the bundle is empty; write at least one resource: <1 cpu>"],
        ),
    ],
)
def test_problems_say_where_and_what_would_be_right(value: object, expected: list[str]) -> None:
    """Each problem has its pointer and its fix, and all come at once."""
    assert _problems(value) == expected


@given(expressions())
def test_pointers_lead_from_paths_into_the_json_form(expression: Expression) -> None:
    """pointer_of(e, path) leads, in to_json(e), to the JSON of the expression at that path."""
    document = to_json(expression)
    todo = [("", expression)]
    while todo:
        path, here = todo.pop()
        assert _at(document, pointer_of(expression, path)) == to_json(here)
        for index, child in enumerate(children_of(here)):
            todo.append((f"{path}.{index}" if path else str(index), child))


def test_the_number_of_an_occurrence_takes_no_part_in_a_pointer() -> None:
    """Occurrences share the JSON of the child of their `every`."""
    expression = Every(86_400_000, Order((ATOM, ATOM)), times=7)

    assert pointer_of(expression, "0@3.1") == "/every/of/order/1"


def test_paths_that_lead_nowhere_are_refused() -> None:
    """A path past the children is a ValueError, not another user's pointer."""
    with pytest.raises(ValueError, match=r"the expression has no path '0\.1'"):
        pointer_of(AllOf((ATOM,)), "0.1")


@pytest.mark.parametrize(
    ("value", "limits", "message"),
    [
        ({"all": [{"all": [{"all": []}]}]}, SourceLimits(max_depth=2), "nested more than 2 deep"),
        ({"all": [ATOM_JSON] * 3}, SourceLimits(max_atoms=2), "more than 2 atoms"),
        ({"any": [ATOM_JSON] * 3}, SourceLimits(max_options=2), "more than 2 options"),
        (
            {"graph": {"nodes": {"a": ATOM_JSON, "b": ATOM_JSON}, "edges": [["a", "b"]] * 3}},
            SourceLimits(max_edges=2),
            "more than 2 arrows",
        ),
    ],
)
def test_values_beyond_a_limit_are_refused(
    value: object, limits: SourceLimits, message: str
) -> None:
    """Depth, atoms, options and arrows are bounded, each with a message of its own."""
    with pytest.raises(RdlError, match=message):
        from_json(value, limits)


def test_a_hopeless_document_is_read_to_twenty_problems() -> None:
    """A long list of mistakes is cut, so that the answer stays short."""
    assert len(_problems({"all": [{"al": []}] * 1000})) == 20


def _at(document: object, pointer: str) -> object:
    here = document
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        here = here[int(key)] if isinstance(here, list) else here[key]  # type: ignore[index]
    return here
