"""The parts of a request in words."""

from __future__ import annotations

import pytest

from rdl.compile.source import read_source
from rdl.meaning.outline import outline_of

ATOM = "atom(<1 cpu>, 1, 2, 10m, 2h)"


@pytest.mark.parametrize(
    ("rdl", "said"),
    [
        (ATOM, "1 to 2 of <1 cpu>, each for 10m or longer, 2h of work in all"),
        ("atom(<1 cpu>, 4, 4, 1h, 4h)", "4 of <1 cpu>, all of them for 1h"),
        (
            'atom(<1 cpu>, 2, 4, 1h, 8h, multiple=2, on="ssd", spread=1, by=rack)',
            "2 to 4 of <1 cpu>, each for 1h or longer, 8h of work in all, 2 at a time, "
            "on machines labelled ssd, at most 1 in one rack",
        ),
        (
            "atom(<1 cpu>, 2, 2, 1h, 2h, within=rack)",
            "2 of <1 cpu>, all of them for 1h, all of them in one rack",
        ),
        (
            "together(atom(<1 cpu>, 1, 1, 1h, 1h), atom(<1 cpu>, 2, 2, 1h, 2h), within=rack)",
            "2, which start and end at the same time, all in one rack",
        ),
        (
            "atom(<1 cpu>, 8, 8, 1h, 8h, spread=4, by=rack, within=rack, values=2)",
            "8 of <1 cpu>, all of them for 1h, at most 4 in one rack, all of them in at most 2 "
            "values of rack",
        ),
        ("void(<1 cpu>, 3)", "up to 3 of <1 cpu>; nothing is promised"),
        (f"any({ATOM}, {ATOM}, prefer=[1, 0.5])", "one of 2, worth 1, 0.5"),
        (f"all({ATOM}, {ATOM})", "each of 2, in any order"),
        (f"order({ATOM}, {ATOM}, gap=5m..1h)", "2, one after the other, 5m to 1h between"),
        (f"order({ATOM}, {ATOM}, gap=0..0)", "2, one after the other, 0s between"),
        (f"order({ATOM}, {ATOM}, gap=5m)", "2, one after the other, 5m or more between"),
        (f"graph(a: {ATOM}, b: {ATOM}; a -> b)", "2 parts, 1 arrow"),
        (f"window({ATOM}, +1h, 06:00, zone=\"Europe/Berlin\")",
         "from +1h until 06:00 (Europe/Berlin)"),
        (f"deadline({ATOM}, 2h)", "before 2h"),
        (f"every(1d, {ATOM}, times=3, days=[mon..fri], zone=\"Europe/Berlin\")",
         "1d, 3 times, on mon..fri, by the calendar of Europe/Berlin"),
        (f"every(1d, {ATOM})", "1d, without end"),
    ],
)  # fmt: skip
def test_each_operator_says_what_it_asks_for(rdl: str, said: str) -> None:
    """One line a part, without its children."""
    assert outline_of(read_source(rdl))[0].said == said


def test_parts_are_called_by_their_paths_and_stand_where_they_are_written() -> None:
    """Parents come before their children; of JSON there is no place in a text."""
    rdl = f"every(1d, any({ATOM}, train: {ATOM}))"
    parts = outline_of(read_source(rdl))
    assert [(part.path, part.name) for part in parts] == [
        ("", None), ("0", None), ("0.0", None), ("0.1", "train"),
    ]  # fmt: skip
    assert parts[3].span is not None
    assert rdl[slice(*parts[3].span)] == ATOM
    json_atom = {"bundle": {"cpu": 1}, "min": 1, "max": 1, "lease": 60, "work": 60}
    assert outline_of(read_source({"atom": json_atom}))[0].span is None


def test_a_long_request_is_listed_as_far_as_asked() -> None:
    """The list is cut, and says nothing wrong of what it has."""
    parts = outline_of(read_source(f"all({', '.join([ATOM] * 20)})"), most=5)
    assert [part.path for part in parts] == ["", "0", "1", "2", "3"]
