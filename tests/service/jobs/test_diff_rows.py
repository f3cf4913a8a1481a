"""What a picture of a diff is given: rows over time, and whose they are."""

from __future__ import annotations

from service.jobs.optimization import drawn_difference, held_rows


def _entry(*atoms: list[list[float]], tenant: str = "ads") -> dict[str, object]:
    return {"tenant": tenant, "atoms": [{"path": "", "allocation": rows} for rows in atoms]}


def test_atoms_are_added_up_over_time() -> None:
    """Rows are in order of time and add up where atoms run next to each other; gaps stay gaps."""
    entry = _entry([[0, 60, 2], [60, 120, 4]], [[60, 180, 1]], [[300, 360, 3]])

    assert held_rows(entry) == [(0, 60, 2), (60, 120, 5), (120, 180, 1), (300, 360, 3)]
    assert held_rows(None) == []
    assert held_rows({"tenant": "ads", "code": "capacity"}) == []


def test_many_rows_become_few_and_hide_no_height() -> None:
    """Neighbours are joined until they are few; begin, end and the most held stay."""
    rows = [[60.0 * n, 60.0 * n + 60, 1.0 + n % 7] for n in range(101)]
    few = held_rows(_entry(rows), most=10)

    assert len(few) <= 10
    assert (few[0][0], few[-1][1]) == (0, 60.0 * 101)
    assert max(height for _, _, height in few) == 7


def test_an_entry_of_the_diff_says_whose_it_is_and_where_it_was() -> None:
    """The tenant comes from the plan after, else from the plan before."""
    refused = {"tenant": "ml", "code": "capacity"}
    gained = drawn_difference({"id": "a"}, refused, _entry([[0, 60, 1]], tenant="ml"))
    gone = drawn_difference({"id": "b"}, _entry([[0, 60, 1]]), None)

    assert gained == {"id": "a", "tenant": "ml", "rows": [[], [(0, 60, 1)]]}
    assert gone == {"id": "b", "tenant": "ads", "rows": [[(0, 60, 1)], []]}
