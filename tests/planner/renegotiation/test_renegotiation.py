"""Renegotiating what has begun: the past stays, counts, and nothing else is promised twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.metrics import measure
from planner.placement import Code, PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Update
from planner.renegotiation import renegotiation_of
from planner.reservations.state import State
from planner.validation.validate import validate
from planner.workload.plan import document_of
from rdl.errors import RdlError
from tests.builders import a_cluster, a_plan, a_request, commit

GREE = agent_named("gree")


def _four(horizon: int = 20) -> Cluster:
    return a_cluster().horizon(horizon).machines("m", 4, cpu=1).build()


def _renegotiate(plan: Plan, id_: str, text: str) -> PlacementResult:
    """Place the update on the present Plan and commit it when it is placed."""
    present = plan.reservation(id_)
    assert present is not None
    request = a_request(id_, text).on(plan.cluster, plan.grid)
    result = renegotiation_of(plan, id_, request).place(GREE, Limits())
    if result.placed:
        prepared = commit(plan, Update(id_, present.revision, request, result, "gree"))
        assert not prepared.conflicts, prepared.conflicts
    return result


def _rows(plan: Plan, id_: str) -> dict[str, list[list[int]]]:
    found = plan.reservation(id_)
    assert found is not None
    return {atom.path: atom.rows.tolist() for atom in found.atoms}


def _valid(plan: Plan) -> bool:
    metrics = measure([], plan.cluster.nominal, plan.grid.horizon)
    document = document_of(plan, "gree", "submitted", metrics).to_json()
    del document["metrics"]
    return validate(document, grid=plan.grid) == []


def test_past_rows_count_towards_the_new_work() -> None:
    """Two cores on [4, 10), renegotiated at 6 to 8 core-steps: 4 are held, 4 are left."""
    cluster = _four()
    text = "window(atom(<1 cpu>, 2, 2, 1, {}), 0, {})"
    plan = a_plan(cluster).holding(a_request("a", text.format(12, 10)).on(cluster)).build()
    commit(plan, Advance(6))
    assert _renegotiate(plan, "a", text.format(8, 12)).placed
    assert _rows(plan, "a") == {"0": [[4, 6, 2], [10, 12, 2]]}
    assert _valid(plan)


def test_bundles_taken_are_kept_until_their_leases_end() -> None:
    """A lease of 5 taken at 5 runs to 10, whatever the new request would rather have."""
    cluster = _four()
    text = "window(atom(<1 cpu>, 2, 2, 5, {}), 0, {})"
    plan = a_plan(cluster).holding(a_request("a", text.format(10, 10)).on(cluster)).build()
    commit(plan, Advance(6))
    assert _renegotiate(plan, "a", text.format(20, 20)).placed
    assert _rows(plan, "a") == {"0": [[5, 10, 2], [15, 20, 2]]}
    assert _valid(plan)


def test_a_reservation_that_is_held_already_needs_no_more() -> None:
    """The new work is what leases in force make it: the rest of the old is released."""
    cluster = _four()
    text = "window(atom(<1 cpu>, 2, 2, 2, {}), 0, 10)"
    plan = a_plan(cluster).holding(a_request("a", text.format(12)).on(cluster)).build()
    commit(plan, Advance(5))
    assert _renegotiate(plan, "a", text.format(4)).placed
    assert _rows(plan, "a") == {"0": [[4, 6, 2]]}


def test_less_than_what_is_held_is_past_changed() -> None:
    """Nobody can ask for less than was used."""
    cluster = _four()
    text = "window(atom(<1 cpu>, 2, 2, 1, {}), 0, 10)"
    plan = a_plan(cluster).holding(a_request("a", text.format(12)).on(cluster)).build()
    commit(plan, Advance(8))
    result = _renegotiate(plan, "a", text.format(6))
    assert result.code is Code.PAST_CHANGED
    assert "holds 8 bundle-steps" in result.detail


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("window(atom(<2 cpu>, 2, 2, 1, 12), 0, 10)", "other bundles"),
        ("window(all(atom(<1 cpu>, 2, 2, 1, 12)), 0, 10)", "no longer asked"),
        ("window(atom(<1 cpu>, 1, 1, 1, 12), 0, 20)", "has held 2"),
        ("window(atom(<1 cpu>, 2, 2, 1, 12), 6, 16)", "window"),
    ],
)
def test_a_request_that_contradicts_the_past_is_past_changed(text: str, words: str) -> None:
    """Other bundles, another shape, lower heights, a window that starts after the past."""
    cluster = a_cluster().horizon(20).machines("m", 4, cpu=2).build()
    old = "window(atom(<1 cpu>, 2, 2, 1, 12), 0, 10)"
    plan = a_plan(cluster).holding(a_request("a", old).on(cluster)).build()
    before = _rows(plan, "a")
    commit(plan, Advance(6))
    result = _renegotiate(plan, "a", text)
    assert result.code is Code.PAST_CHANGED
    assert words in result.detail
    assert _rows(plan, "a") == before


def test_a_later_stage_may_change_while_an_earlier_one_runs() -> None:
    """The first stage of a chain has begun; the second grows and follows it still."""
    cluster = _four(30)
    text = "window(order(atom(<1 cpu>, 2, 2, 4, 8), atom(<1 cpu>, 1, 4, 2, {})), 0, {})"
    plan = a_plan(cluster).holding(a_request("a", text.format(8, 12)).on(cluster)).build()
    commit(plan, Advance(7))
    assert _renegotiate(plan, "a", text.format(24, 30)).placed
    rows = _rows(plan, "a")
    assert rows["0.0"] == [[6, 10, 2]]
    assert rows["0.1"] == [[24, 30, 4]]
    assert _valid(plan)


def test_a_stage_that_is_done_bounds_the_next_with_its_gap() -> None:
    """What follows a finished stage starts at least the gap after its real end."""
    cluster = _four(40)
    text = "window(order(atom(<1 cpu>, 2, 2, 4, 8), atom(<1 cpu>, 4, 4, {}, {}), gap=5), 0, {})"
    plan = a_plan(cluster).holding(a_request("a", text.format(4, 16, 15)).on(cluster)).build()
    assert _rows(plan, "a") == {"0.0": [[2, 6, 2]], "0.1": [[11, 15, 4]]}
    commit(plan, Advance(7))
    assert _renegotiate(plan, "a", text.format(3, 12, 14)).placed
    assert _rows(plan, "a") == {"0.0": [[2, 6, 2]], "0.1": [[11, 14, 4]]}
    assert not _renegotiate(plan, "a", text.format(5, 20, 15)).placed


def test_work_before_what_has_begun_cannot_grow() -> None:
    """The second stage runs; the first may not ask for more."""
    cluster = _four()
    text = "window(order(atom(<1 cpu>, 2, 2, 1, {}), atom(<1 cpu>, 2, 2, 1, 8)), 0, {})"
    plan = a_plan(cluster).holding(a_request("a", text.format(4, 10)).on(cluster)).build()
    commit(plan, Advance(7))
    result = _renegotiate(plan, "a", text.format(8, 20))
    assert result.code is Code.PAST_CHANGED
    assert "has begun" in result.detail


def test_the_option_that_has_begun_stays_chosen() -> None:
    """A choice made is kept; its work may change."""
    cluster = _four()
    text = "window(any(atom(<1 cpu>, 9, 9, 1, 9), atom(<1 cpu>, 2, 2, 1, {})), 0, {})"
    plan = a_plan(cluster).holding(a_request("a", text.format(12, 10)).on(cluster)).build()
    commit(plan, Advance(6))
    assert _renegotiate(plan, "a", text.format(16, 20)).placed
    found = plan.reservation("a")
    assert found is not None
    assert dict(found.choices) == {"0": 1}
    assert _rows(plan, "a") == {"0.1": [[4, 6, 2], [14, 20, 2]]}
    assert _valid(plan)


@pytest.mark.parametrize("others", [0, 1, 2])
def test_stages_may_become_options(others: int) -> None:
    """What has begun is the option taken, also if there was no choice before."""
    cluster = _four()
    atom = "atom(<1 cpu>, 2, 2, 1, {})"
    plan = (
        a_plan(cluster)
        .holding(a_request("a", f"window(order({atom.format(12)}), 0, 10)").on(cluster))
        .build()
    )
    commit(plan, Advance(6))
    options = [atom.format(16), *["atom(<1 cpu>, 1, 1, 1, 1)"] * others]
    assert _renegotiate(plan, "a", f"window(any({', '.join(options)}), 0, 20)").placed
    found = plan.reservation("a")
    assert found is not None
    assert dict(found.choices) == {"0": 0}
    assert _rows(plan, "a") == {"0.0": [[4, 6, 2], [14, 20, 2]]}
    assert _valid(plan)


def test_two_stages_that_have_begun_are_no_options() -> None:
    """Both were held, and of an any only one may be."""
    cluster = _four()
    atoms = "atom(<1 cpu>, 1, 1, 4, 4), atom(<1 cpu>, 1, 1, 4, 4)"
    plan = (
        a_plan(cluster).holding(a_request("a", f"window(all({atoms}), 0, 10)").on(cluster)).build()
    )
    commit(plan, Advance(8))
    result = _renegotiate(plan, "a", f"window(any({atoms}), 0, 20)")
    assert result.code is Code.PAST_CHANGED
    assert "more than one option" in result.detail


def test_a_recurrence_that_has_begun_may_be_renegotiated_to_itself_only() -> None:
    """Its rows are bound to one offset."""
    cluster = _four(40)
    text = "window(every(10, window(atom(<1 cpu>, 2, 2, 2, {}), 0, 5), times=3), 0, 30)"
    plan = a_plan(cluster).holding(a_request("a", text.format(4)).on(cluster)).build()
    commit(plan, Advance(14))
    before = _rows(plan, "a")
    assert _renegotiate(plan, "a", text.format(4)).placed
    assert _rows(plan, "a") == before
    assert _renegotiate(plan, "a", text.format(6)).code is Code.PAST_CHANGED


def test_a_recurrence_alongside_what_has_begun_keeps_its_anchor() -> None:
    """An untouched part that counts periods from its window still counts from there."""
    cluster = _four(60)
    text = (
        "all(window(atom(<1 cpu>, 1, 1, 1, {}), 0, 8), "
        "window(every(10, window(atom(<1 cpu>, 1, 1, 2, 2), 0, 5), times=3), 20, 60))"
    )
    plan = a_plan(cluster).holding(a_request("a", text.format(6)).on(cluster)).build()
    commit(plan, Advance(5))
    assert _renegotiate(plan, "a", text.format(5)).placed
    assert _valid(plan)


def test_what_has_not_begun_is_placed_again() -> None:
    """And keeps its rows when they satisfy the new request already."""
    cluster = _four()
    text = "window(atom(<1 cpu>, 2, 2, 2, {}), 0, {})"
    plan = a_plan(cluster).holding(a_request("a", text.format(4, 10)).on(cluster)).build()
    assert _renegotiate(plan, "a", text.format(4, 20)).placed
    assert _rows(plan, "a") == {"0": [[8, 10, 2]]}
    assert _renegotiate(plan, "a", text.format(8, 20)).placed
    assert _rows(plan, "a") == {"0": [[16, 20, 2]]}
    found = plan.reservation("a")
    assert found is not None
    assert (found.revision, found.state) == (3, State.ACCEPTED)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 14),
    st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(1, 4), st.integers(1, 20)),
    st.integers(1, 40),
    st.integers(8, 30),
)
def test_whatever_is_renegotiated_is_valid_and_keeps_its_past(
    now: int, atom: tuple[int, int, int, int], work: int, deadline: int
) -> None:
    """At any instant, to any work and deadline: placed means the oracle and the validator agree
    and the past is untouched; refused means nothing changed; the same again is always placed."""
    least, more, lease, first_work = atom
    cluster = _four(30)
    text = f"window(atom(<1 cpu>, {least}, {least + more}, {lease}, {{}}), 0, {{}})"
    other = a_request("b", "window(atom(<1 cpu>, 1, 1, 3, 9), 0, 25)").on(cluster)
    plan = a_plan(cluster).holding(other).build()
    assume(_compiles(cluster, text.format(first_work, 16)))
    assume(_compiles(cluster, text.format(work, deadline)))
    request = a_request("a", text.format(first_work, 16)).on(cluster)
    result = GREE.plan([request], plan.view(), Limits())[0]
    if not result.placed:
        return
    plan = a_plan(cluster).holding(other, request).build()
    commit(plan, Advance(now))
    before = _dense(plan)
    assert _renegotiate(plan, "a", text.format(first_work, 16)).placed
    assert (_dense(plan) == before).all()
    if _renegotiate(plan, "a", text.format(work, deadline)).placed:
        assert (_dense(plan)[:now] == before[:now]).all()
        assert _valid(plan)
    else:
        assert (_dense(plan) == before).all()


def _compiles(cluster: Cluster, text: str) -> bool:
    try:
        a_request("a", text).on(cluster)
    except RdlError:
        return False
    return True


def _dense(plan: Plan) -> np.ndarray:
    held = np.zeros(40, dtype=np.int64)
    for rows in _rows(plan, "a").values():
        for start, end, bundles in rows:
            held[start:end] += bundles
    return held


def test_nights_that_have_begun_keep_their_days() -> None:
    """Of free nights by times of day the first is over; the others stay on theirs, with more."""
    cluster = (
        a_cluster()
        .step("1h")
        .horizon("7d")
        .origin("2026-06-01T00:00:00Z")
        .machines("m", 4, cpu=1)
        .build()
    )
    text = (
        "every(1d, window(atom(<1 cpu>, 1, {}, 1h, 2h), 22:00, 06:00), days=[mon..wed], times=3, "
        'same_offset=false, anchor=14:00, zone="Europe/Berlin")'
    )
    plan = a_plan(cluster).holding(a_request("a", text.format(1)).on(cluster)).build()
    before = _rows(plan, "a")
    assert list(before) == ["0@0.0", "0@1.0", "0@2.0"]
    commit(plan, Advance(40))  # after the night to Tuesday, before the next

    assert _renegotiate(plan, "a", text.format(2)).placed
    after = _rows(plan, "a")

    assert after["0@0.0"] == before["0@0.0"]
    assert [len(rows) for rows in after.values()] == [1, 1, 1]
    for k, night in enumerate((20, 44, 68)):  # 22:00 in Berlin is 20:00 UTC
        start, end, _ = after[f"0@{k}.0"][0]
        assert night <= start < end <= night + 8
    assert _valid(plan)


def test_a_recurrence_by_time_of_day_alongside_what_has_begun_keeps_its_days() -> None:
    """Its first period is still the one that held the submission, not the one of now."""
    cluster = (
        a_cluster()
        .step("1h")
        .horizon("7d")
        .origin("2026-06-01T00:00:00Z")
        .machines("m", 4, cpu=1)
        .build()
    )
    text = (
        "all(atom(<1 cpu>, 1, 1, 1h, {}h), window(every(1d, window(atom(<1 cpu>, 1, 1, 1h, 2h), "
        '22:00, 06:00), days=[tue, thu], anchor=14:00, times=2, zone="Europe/Berlin"), 0, 7d))'
    )
    plan = a_plan(cluster).placed_by("earliest")
    held = plan.holding(a_request("a", text.format(30)).on(cluster)).build()
    commit(held, Advance(10))

    assert _renegotiate(held, "a", text.format(31)).placed
    rows = _rows(held, "a")
    assert sum((end - start) * bundles for start, end, bundles in rows["0"]) == 31
    assert _valid(held)
