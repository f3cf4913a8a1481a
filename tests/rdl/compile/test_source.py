"""Any source: text, JSON text, JSON values and YARN definitions, and hostile JSON."""

from __future__ import annotations

import json

import pytest

from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.expressions import AllOf, Window
from rdl.limits import SourceLimits
from rdl.text.parser import parse
from tests.patience import calls_made
from tests.rdl.codecs.yarn_definition import definition
from tests.rdl.fuzz_rdl import fuzz


def test_text_and_json_are_distinguished() -> None:
    """Text that begins with a brace is JSON; a mapping is JSON already read."""
    expected = AllOf((AllOf(()),))

    assert read_source("all(all())") == expected
    assert read_source(' \n{"all": [{"all": []}]}') == expected
    assert read_source({"all": [{"all": []}]}) == expected


def test_a_yarn_definition_is_read_as_one() -> None:
    """By its reservation-requests, bare or inside a submission's body."""
    bare = read_source(definition())

    assert isinstance(bare, Window)
    assert read_source({"reservation-definition": definition(), "queue": "q"}) == bare
    assert read_source(json.dumps(definition())) == bare


def test_limits_reach_every_kind_of_source() -> None:
    """The same bound refuses the same request in text and in JSON."""
    limits = SourceLimits(max_depth=1)
    for source in ("all(all())", '{"all": [{"all": []}]}', {"all": [{"all": []}]}):
        with pytest.raises(RdlError, match="nested more than 1 deep"):
            read_source(source, limits)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, "a request is RDL text or a JSON object; write such as atom(...)"),
        (
            '{"all": [}',
            "line 1, column 10: not JSON: Expecting value; write an object {...}\n"
            '    {"all": [}\n'
            "             ^",
        ),
        ('{"all": [], "all": [3]}', "not JSON: the key 'all' is given twice in one object"),
        ('{"all": [NaN]}', "not JSON: NaN is not a number of JSON"),
        (f'{{"all": [{"9" * 5000}]}}', "a number has thousands of digits; write fewer"),
        ('{"all":' * 100_000, "objects and lists are nested too deeply; nest less"),
        ("{" + " " * 1_000_000, "the text has 1000001 characters; write at most 1000000"),
    ],
)
def test_other_sources_are_refused(value: object, expected: str) -> None:
    """JSON that is none, or has no one meaning, gets a clear error."""
    with pytest.raises(RdlError) as caught:
        read_source(value)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    "value",
    [
        '{"all": [' + "[" * 900_000,
        '{"all": [' + '{"all": []},' * 80_000 + "3]}",
        '{"all": {' + ",".join(f'"{n}": 0' for n in range(80_000)) + ', "9": 1}}',
        '{"any": [' + "0," * 450_000 + "0]}",
        '{"void": {"max": 1, "bundle": {' + ",".join(f'"r{n}": 1' for n in range(60_000)) + "}}}",
        '{"void": {"max": 1, "bundle": {"cpu": "' + "9" * 900_000 + '"}}}',
        '{"' + "a" * 900_000 + '": 1}',
    ],
    ids=lambda value: f"{value[:16]!r}",
)
def test_hostile_json_is_refused_in_one_pass(value: str) -> None:
    """Too deep, too long, too many keys: a short error, for a few calls a character."""
    with pytest.raises(RdlError) as caught:
        read_source(value)

    def again() -> None:
        with pytest.raises(RdlError):
            read_source(value)

    assert len(str(caught.value)) < 1_000_000
    assert calls_made(again) < 4 * len(value)


def test_a_deep_request_within_the_limits_is_read() -> None:
    """The deepest allowed nesting fits the interpreter's stack, in text, in JSON and back."""
    deepest = parse("all(" * 200 + ")" * 200)
    value: dict[str, object] = {"all": []}
    for _ in range(199):
        value = {"all": [value]}

    assert read_source(value) == deepest
    assert read_source(json.dumps(value)) == deepest


@pytest.mark.parametrize(
    ("name", "value"), [("max_depth", 201), ("max_atoms", 0), ("max_source", -1), ("max_edges", -1)]
)
def test_limits_have_limits(name: str, value: int) -> None:
    """A depth the stack cannot carry, or a bound of nothing, is misuse."""
    with pytest.raises(ValueError, match=name):
        SourceLimits(**{name: value})


def test_bent_requests_crash_nothing() -> None:
    """A small run of the fuzzer, which checks every round trip on its way, and its own seed."""
    first, second = fuzz(480, seed=7), fuzz(480, seed=7)

    assert first.crashes == []
    assert first.accepted > 40
    assert first.compiled > 20
    assert (first.accepted, first.refused, first.compiled) == (
        second.accepted,
        second.refused,
        second.compiled,
    )


def test_a_value_that_cannot_be_read_hides_no_other_mistake_in_text() -> None:
    """What could be read alongside a misspelt value is checked in the same answer."""
    text = (
        "order(window(atom(<1 cpu>, 1, 10, lease=2min, work=5), 0, 9), atom(<1 cpu>, 5, 2, 6, 9))"
    )
    with pytest.raises(RdlError) as caught:
        read_source(text)
    spans = [text[slice(*problem.span)] for problem in caught.value.problems if problem.span]
    assert spans == ["2min", "atom(<1 cpu>, 5, 2, 6, 9)"]


def test_a_value_that_cannot_be_read_hides_no_other_mistake_in_json() -> None:
    """The pointers of both mistakes are in one answer, those inside a broken graph too."""
    wrong = {"atom": {"bundle": {"cpu": 1}, "min": 5, "max": 2, "lease": 60, "work": 100}}
    window = {"window": {"of": wrong, "start": 0, "end": "5min"}}
    graph = {"graph": {"nodes": {"a/b": wrong}, "edges": [["a/b", "x"]]}}
    with pytest.raises(RdlError) as caught:
        read_source({"order": [window, graph]})
    assert {problem.pointer for problem in caught.value.problems} == {
        "/order/0/window/end",
        "/order/0/window/of",
        "/order/1/graph/edges/0/1",
        "/order/1/graph/nodes/a~1b",
    }
