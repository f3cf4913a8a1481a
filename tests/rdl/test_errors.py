"""Errors: rendering with carets, suggestions, and the code of the whole."""

from __future__ import annotations

import pickle

from rdl.errors import (
    BEYOND_HORIZON,
    MALFORMED,
    UNSATISFIABLE,
    Problem,
    ProblemList,
    RdlError,
    did_you_mean,
    limited_suggestions,
    nearest,
    quote,
    render,
)


def _one(source: str, span: tuple[int, int], fix: str | None = None) -> str:
    return render((Problem(MALFORMED, "wrong", span, fix=fix),), source)


def test_a_problem_is_shown_under_its_line() -> None:
    """The line and column count from one; carets stand under the span."""
    assert _one("all(\n  atm()\n)", (7, 10), "write atom") == (
        "line 2, column 3: wrong; write atom\n      atm()\n      ^^^"
    )


def test_carets_of_several_lines_end_with_the_first() -> None:
    """A span over several lines is shown on the line where it begins."""
    assert _one("all(\nall())", (0, 10)) == "line 1, column 1: wrong\n    all(\n    ^^^^"


def test_carets_past_the_end_are_one() -> None:
    """The end of the text has a caret of its own."""
    assert _one("all(", (4, 4)) == "line 1, column 5: wrong\n    all(\n        ^"


def test_long_lines_are_cut_around_the_caret() -> None:
    """At most 120 characters of the line, with marks where it was cut."""
    source = "x" * 500 + "BAD" + "y" * 500
    lines = _one(source, (500, 503)).splitlines()

    assert lines[1] == "    ..." + "x" * 60 + "BAD" + "y" * 57 + "..."
    assert lines[2].index("^") == lines[1].index("BAD")
    assert lines[2].count("^") == 3


def test_tabs_and_control_characters_do_not_move_carets() -> None:
    """One blank stands for each, and a line ended by CR LF shows neither."""
    assert _one("\tall\x1b[0m(x\r\n)", (9, 10)).splitlines()[1:] == [
        "     all [0m(x",
        "             ^",
    ]


def test_json_problems_have_their_pointer() -> None:
    """A pointer before the message; none for the whole document."""
    assert render((Problem(MALFORMED, "wrong", pointer="/all/0"),), None) == "/all/0: wrong"
    assert render((Problem(MALFORMED, "wrong", pointer=""),), None) == "wrong"


def test_the_code_of_the_whole_is_malformed_if_any_is() -> None:
    """Otherwise that of the first problem."""
    late = Problem(BEYOND_HORIZON, "late")
    never = Problem(UNSATISFIABLE, "never")
    wrong = Problem(MALFORMED, "wrong")

    assert RdlError((late, never)).code == BEYOND_HORIZON
    assert RdlError((late, wrong)).code == MALFORMED


def test_errors_cross_processes() -> None:
    """A pickled error has the same problems, source and text."""
    error = RdlError((Problem(MALFORMED, "wrong", (0, 3)),), "atm()")
    again = pickle.loads(pickle.dumps(error))

    assert (again.problems, again.source, str(again)) == (error.problems, error.source, str(error))


def test_problems_become_json() -> None:
    """The shape of an entry of `errors` in a problem document."""
    assert Problem(MALFORMED, "wrong", (3, 4), None, "right").to_json() == {
        "pointer": None,
        "span": [3, 4],
        "code": "malformed",
        "message": "wrong",
        "fix": "right",
    }


def test_the_nearest_word_is_named() -> None:
    """Whatever its case; all of them where none is near, and a hostile word costs nothing."""
    assert nearest("ODER", ["order", "all"]) == "order"
    assert nearest("europe/pari", ["Europe/Paris"]) == "Europe/Paris"
    assert nearest("zzz" * 1_000_000, ["order", "all"]) is None
    assert did_you_mean("oder", ["order", "all"]) == "did you mean 'order'?"
    assert did_you_mean("zzz", ["order", "all"]) == "write one of order, all"
    assert did_you_mean("zzz", []) == "none is known here"


def test_words_of_the_client_are_quoted_briefly() -> None:
    """Cut at forty characters, without anything a terminal would act on."""
    assert quote("a" * 50) == f"'{'a' * 40}...'"
    assert quote("\x1b[2J") == r"'\x1b[2J'"


def test_a_list_of_problems_keeps_the_first_and_counts_the_others() -> None:
    """What another list has only counted is counted here too."""
    first: ProblemList[int] = ProblemList(range(25))
    both: ProblemList[int] = ProblemList([7])
    both.extend(first)
    assert (list(first), first.more, first.total) == (list(range(20)), 5, 25)
    assert (list(both), both.more) == ([7, *range(19)], 6)
    assert (list(first.each(str)), first.each(str).more) == ([str(one) for one in range(20)], 5)
    assert not ProblemList()


def test_searches_for_a_nearest_word_are_limited() -> None:
    """Inside, the third search finds nothing; after it all do again."""
    with limited_suggestions(2):
        found = [nearest("alll", ["all"]) for _ in range(3)]
    assert found == ["all", "all", None]
    assert nearest("alll", ["all"]) == "all"
