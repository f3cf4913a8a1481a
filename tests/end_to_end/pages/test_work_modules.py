"""Modules of Ask, Optimise and Compare that draw nothing: what they make of what they are given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from service.web.shell import packaged_assets
from tests.end_to_end.pages.browser import visiting
from tests.end_to_end.pages.site import Site

pytestmark = pytest.mark.browser

Evaluate = Callable[..., Any]


@pytest.fixture(scope="module")
def run(browser: Browser, day: Site) -> Iterator[Evaluate]:
    """Return a function that evaluates an expression with a module at hand as ``m``."""
    with visiting(browser, day) as it:
        page = it.open("/ui/ask")

        def evaluate(module: str, expression: str, *arguments: Any) -> Any:
            address = packaged_assets().address(module)
            code = f"async (a) => {{ const m = await import('{address}'); return {expression}; }}"
            return page.evaluate(code, list(arguments))

        yield evaluate


def test_tokens_are_what_the_grammar_of_editors_says(run: Evaluate) -> None:
    """Operators, names, amounts, times, comments; what fits no rule is left out."""
    text = 'job: window(atom(<1 cpu>, min=1, lease=5m), 06:00, +2h, zone="UTC") # on time\n§ a -> b'
    found = run(
        "rdl/tokens.js", "m.tokensOf(a[0]).map((t) => [a[0].slice(t.start, t.end), t.kind])", text
    )
    kinds = dict(found)
    assert kinds["window"] == kinds["atom"] == "operator"
    assert (kinds["job"], kinds["<1 cpu>"], kinds["min"]) == ("name", "bundle", "argument")
    assert (kinds["5m"], kinds["06:00"], kinds['"UTC"']) == ("number", "time", "string")
    assert (kinds["# on time"], kinds["->"], kinds["b"]) == ("comment", "sign", "word")
    assert "§" not in kinds


def test_every_operator_and_argument_is_coloured(run: Evaluate) -> None:
    """The tokens know the words that the grammar for editors knows."""
    grammar = Path("docs/editors/rdl.tmLanguage.json").read_text()
    words = re.findall(r"\\\\b\(\?:([a-z_|]+)\)\(\?=", grammar)
    assert len(words) == 2
    for rule, kind, after in ((words[0], "operator", "("), (words[1], "argument", "=")):
        for word in rule.split("|"):
            text = f"{word}{after}"
            assert run("rdl/tokens.js", "m.tokensOf(a[0])[0].kind", text) == kind, word


def test_pieces_are_the_text_and_carry_all_marks(run: Evaluate) -> None:
    """Nested marks lie over each other; a mark without length shows at its place."""
    text = "window(atm(1))"
    marks = [
        {"span": [7, 13], "kind": "wrong"},
        {"span": [7, 10], "kind": "bound"},
        {"span": [14, 14], "kind": "end"},
    ]
    pieces = run(
        "rdl/marks.js",
        "m.piecesOf(a[0], [{start: 0, end: 6, kind: 'operator'}], a[1])",
        text,
        marks,
    )
    assert "".join(piece["text"] for piece in pieces) == text
    assert {"text": "window", "kinds": ["operator"]} in pieces
    assert {"text": "atm", "kinds": ["wrong", "bound"]} in pieces
    assert {"text": ")", "kinds": ["end"]} in pieces
    assert run("rdl/marks.js", "m.piecesOf('', [], [{span: [0, 0], kind: 'end'}])") == []


@pytest.mark.parametrize(
    ("span", "before", "after", "now"),
    [
        ([4, 6], "0123456789", "01x23456789", [5, 7]),
        ([4, 6], "0123456789", "0123456789x", [4, 6]),
        ([4, 6], "0123456789", "01234x56789", None),
        ([4, 6], "0123456789", "0123x456789", [5, 7]),
        ([4, 6], "0123456789", "", None),
    ],
)
def test_marks_move_with_what_is_typed(
    run: Evaluate, span: list[int], before: str, after: str, now: list[int] | None
) -> None:
    """Behind the change by its length; one that is cut into is dropped."""
    assert run("rdl/marks.js", "m.moved(a[0], a[1], a[2])", span, before, after) == now


def test_spans_of_the_server_count_characters(run: Evaluate) -> None:
    """A string counts some characters twice: places behind them are moved."""
    text = "# \U0001f600\natm(1)"
    parts = [{"span": [4, 7]}, {"span": None}, {"span": [4, 99]}]
    placed = run("rdl/marks.js", "m.placedIn(a[0], a[1])", text, parts)
    assert [one["span"] for one in placed] == [[5, 8], None, [5, 11]]
    assert run("rdl/marks.js", "m.placedIn('atm', a[0])", parts) == parts


def test_the_next_problem_is_the_one_behind_the_caret(run: Evaluate) -> None:
    """Past the last one the first comes again; those without a place are left out."""
    problems = [{"span": [9, 10]}, {"span": None}, {"span": [2, 4]}]
    for place, found in ((0, [2, 4]), (2, [9, 10]), (9, [2, 4])):
        assert run("rdl/marks.js", "m.nextAfter(a[0], a[1]).span", problems, place) == found
    assert run("rdl/marks.js", "m.nextAfter([], 0)") is None
    assert run("rdl/marks.js", "m.replacementOf(\"did you mean 'atom'?\")") == "atom"
    assert run("rdl/marks.js", "m.replacementOf('write max=30 or more')") is None


def test_changes_are_ordered_counted_and_told(run: Evaluate) -> None:
    """What matters most comes first; of what an older version kept, bars go from begin to end."""
    changes = [
        {"id": "m", "fate": "moved", "tenant": "web", "before": "accepted", "after": "accepted",
         "start": [0, 60], "end": [60, 120], "rows": [[[0, 60, 4]], [[60, 90, 2], [90, 120, 4]]]},
        {"id": "g", "fate": "gained", "tenant": "ads", "before": "capacity", "after": "accepted",
         "start": [None, 30], "end": [None, 90]},
    ]  # fmt: skip
    assert run("improve/diff.js", "m.chosen(a[0]).map((c) => c.id)", changes) == ["g", "m"]
    assert run("improve/diff.js", "m.chosen(a[0], {find: 'AD'}).map((c) => c.id)", changes) == ["g"]
    counts = run("improve/diff.js", "m.countsOf(a[0]).map((c) => [c.fate, c.count])", changes)
    assert counts == [["gained", 1], ["moved", 1]]
    assert run("improve/diff.js", "m.coverOf(a[0])", changes) == [-60, 180]
    assert run("improve/diff.js", "m.barsOf(a[0], 1)", changes[0]) == [[60, 90, 0.5], [90, 120, 1]]
    assert run("improve/diff.js", "m.barsOf(a[0], 0)", changes[1]) == []
    assert run("improve/diff.js", "m.barsOf(a[0], 1)", changes[1]) == [[30, 90, 1]]
    times = "{span: (a, b) => `${a}-${b}`}"
    told = run("improve/diff.js", f"a[0].map((c) => m.wordsOf(c, {times}))", changes)
    assert told == ["0-60 → 60-120", "no place (capacity) → 30-90"]


def test_conflicts_name_who_does_not_fit(run: Evaluate) -> None:
    """The id comes from the pointer, and is not said twice."""
    errors = [{"pointer": "/result/diff/requests/a", "message": "a: it has gone"}]
    assert run("improve/diff.js", "m.conflictsOf(a[0])", errors) == [
        {"id": "a", "detail": "it has gone"}
    ]


def test_a_trace_stays_in_its_box(run: Evaluate) -> None:
    """Value below bound, both to the end; a point alone is a line; no bound draws none."""
    box = {"width": 100, "height": 50}
    trace = [[1, 10, 20, "plan"], [2, 12, 18, "search"]]
    shown = run("improve/trace.js", "m.tracePicture(a[0], 10, 5, a[1])", trace, box)
    assert shown["value"].startswith("M0.0 ")
    assert shown["value"].endswith("H50.0")
    assert all(0 <= level["y"] <= 50 for level in shown["levels"])
    lowest, highest = (
        [float(y) for y in re.findall(r"[ V]([\d.]+)", shown[line])] for line in ("value", "bound")
    )
    assert lowest == sorted(lowest, reverse=True), "value rises"
    assert highest == sorted(highest), "the bound falls"
    assert min(lowest) > max(highest), "and stays above"
    alone = run("improve/trace.js", "m.tracePicture([[1, 10, null, 'plan']], 0, 1, a[0])", box)
    assert (alone["bound"], alone["value"].endswith("H100.0")) == (None, True)


def test_a_workload_is_read_line_by_line(run: Evaluate) -> None:
    """Blank lines are none; faults name their lines; an empty file is a fault."""
    read = "m.readWorkload(a[0])"
    found = run("compare/workload.js", read, '\ufeff{"id": "a"}\r\n\n{"id": "b"}\n')
    assert ([one["id"] for one in found["lines"]], found["faults"]) == (["a", "b"], [])
    wrong = run("compare/workload.js", read, '{"id": "a"}\n[1]\n{')
    assert [one["line"] for one in wrong["faults"]] == [2, 3]
    assert run("compare/workload.js", read, " \n")["faults"][0]["message"] == "there is no line"


def test_the_least_bound_holds_for_all(run: Evaluate) -> None:
    """All plan the same requests: gaps of all agents are to the best bound that one proves."""
    agents = [
        {"agent": "gree", "metrics": {"value": 60, "bound": None}},
        {"agent": "exact", "metrics": {"value": 80, "bound": 100}},
        {"agent": "milp", "metrics": {"value": 70, "bound": 120}},
        {"agent": "lost", "metrics": None},
    ]
    gaps = run("compare/figures.js", "m.figuresOf({agents: a[0]}).map((f) => f.gap)", agents)
    assert gaps == [0.4, 0.2, 0.3, None]
    named = "m.bestBound({agents: a[0], bound_by: a[1]}).agent"
    assert run("compare/figures.js", named, agents, "milp") == "milp"
    assert run("compare/figures.js", named, agents, None) == "exact"
    differing = [{"id": "x", "tenant": "web", "weight": 1, "answers": ["accepted", "capacity"]}]
    assert run("compare/figures.js", "m.tally(a[0], ['gree', 'exact'])", differing) == [
        {"agent": "gree", "taken": 1, "alone": 1},
        {"agent": "exact", "taken": 0, "alone": 0},
    ]


def test_layers_stand_on_each_other(run: Evaluate) -> None:
    """The top of the last layer is the sum of all; tenants of a file get the next free slots."""
    layers = [[1, 2], [3, 2]]
    box = {"width": 20, "height": 40}
    areas = run("compare/skylines.js", "m.areasOf(a[0], 4, a[1])", layers, box)
    assert areas[0] == "M0 30.0H10.0V20.0H20.0V40.0H10.0V40.0H0.0Z"
    assert areas[1] == "M0 0.0H10.0V0.0H20.0V20.0H10.0V30.0H0.0Z"
    known = [{"name": "web", "slot": 0}, {"name": "ads", "slot": 4}]
    slots = run("chart/slots.js", "[...m.slotsFor(a[0], a[1])]", known, ["new", "web", None])
    assert slots == [["web", 0], ["ads", 4], ["new", 5]]


def test_an_open_question_keeps_its_key(run: Evaluate) -> None:
    """No answer keeps the key for the same request; an answer, or another request, ends it."""
    api = packaged_assets().address("core/api.js")
    told = run(
        "ask/key.js",
        f"""await (async () => {{
          const {{ Problem }} = await import('{api}');
          const key = new m.AskKey(), first = key.of({{rdl: 'a'}});
          key.told(new Problem(0, {{}}));
          const again = key.of({{rdl: 'a'}}) === first, other = key.of({{rdl: 'b'}}) === first;
          const second = key.of({{rdl: 'b'}});
          key.told(new Problem(409, {{}}));
          return [again, other, key.of({{rdl: 'b'}}) === second];
        }})()""",
    )
    assert told == [True, False, False]


def test_a_binding_leads_to_its_part(run: Evaluate) -> None:
    """Occurrences on the path are left out; a path that there is not leads nowhere."""
    outline = [{"path": "", "span": [0, 9]}, {"path": "0.1", "span": [2, 4]}]
    for path, place in (("0@3.1", [2, 4]), ("", [0, 9]), ("0.7", None), (None, None)):
        assert run("ask/outline-view.js", "m.placeOf(a[0], a[1])", outline, path) == place


def test_a_form_sends_what_was_filled_in(run: Evaluate) -> None:
    """Fields that were left alone stay out of an optimisation's body."""
    form = {
        "admit": True,
        "solver": "auto",
        "lexicographic": False,
        "weights": {"churn": "2"},
        "pins": "a, b\nc",
    }
    assert run("improve/start-form.js", "m.bodyOf(a[0])", form) == {
        "admit_refused": True, "weights": {"churn": 2}, "pins": ["a", "b", "c"],
    }  # fmt: skip
