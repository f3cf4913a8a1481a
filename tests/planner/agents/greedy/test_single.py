"""Profiles that are lent, and the least values of their blocks: the same answers, sooner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.capacity.block_index import BLOCK, INDEXED_FROM, block_minima
from planner.capacity.capacity_rows import CapacityRows
from planner.capacity.profile import FreeProfile
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Cancel
from tests.builders import a_cluster, a_request

#: Steps of a second; long enough for an index, no whole number of blocks.
_STEPS = INDEXED_FROM + 40
_AGENTS = ("gree", "gree-l", "aligned", "earliest", "portfolio")


class _Copied:
    """A view that shares no arrays, so that agents copy what they read."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def arrays(self) -> None:
        """Nothing to share."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


def _cluster(steps: int = _STEPS) -> Any:
    return (
        a_cluster()
        .horizon(steps)
        .machines("m", 5, cpu=4)
        .outage("m", 2, steps // 3, steps // 2)
        .policy("capacity_over_time", name="fair", tenant="*", instant=0.9, average=0.6, window=300)
        .build()
    )


@st.composite
def _texts(draw: st.DrawFn) -> str:
    """Return an atom in a window of the horizon."""
    lease = draw(st.integers(1, 400))
    most = draw(st.integers(1, 16))
    least = draw(st.sampled_from([1, most]))
    work = most * lease * draw(st.integers(1, 3))
    start = draw(st.integers(0, _STEPS - 2000))
    length = draw(st.integers(3 * lease, 1900))
    return f"window(atom(<1 cpu>, {least}, {most}, {lease}, {work}), {start}, {start + length})"


def _standing(texts: list[str]) -> Plan:
    cluster = _cluster()
    plan = Plan(cluster, cluster.grid())
    for number, text in enumerate(texts):
        request = a_request(f"s{number}", text).tenant(f"t{number % 3}").on(cluster)
        result = agent_named("gree").plan([request], plan.view(), Limits())[0]
        if result.placed:
            record = plan.prepare([Admit(request, result, "gree")], plan.version).record
            assert record is not None
            plan.apply(record)
    return plan


def _told(result: Any) -> object:
    return result.code, result.detail, result.binding, result.rows.tolist(), result.choices


@settings(max_examples=12, deadline=None)
@given(standing=st.lists(_texts(), max_size=8), asked=st.lists(_texts(), min_size=1, max_size=4))
def test_a_lent_profile_gives_the_same_answers(standing: list[str], asked: list[str]) -> None:
    """Placed on the view's own arrays or on a copy: the same rows or refusal, nothing written."""
    plan = _standing(standing)
    view = plan.view()
    for name in _AGENTS:
        agent = agent_named(name)
        for number, text in enumerate(asked):
            request = a_request(f"r{number}", text).tenant("t1").on(plan.cluster)
            before = [one.copy() for one in view.arrays()]
            lent = agent.plan([request], view, Limits())[0]
            copied = agent.plan([request], _Copied(view), Limits())[0]  # type: ignore[arg-type]
            assert _told(lent) == _told(copied)
            if len(before[0]) == len(view.arrays()[0]):
                assert all(map(np.array_equal, before, view.arrays()))


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(_texts(), min_size=1, max_size=8), data=st.data())
def test_the_index_follows_every_change(texts: list[str], data: st.DataObject) -> None:
    """After admissions, cancellations and a roll of the horizon each block knows its least, and
    what is left is what a new ledger with the same rows taken has."""
    plan = _standing(texts)
    held = [one.id for one in plan.reservations()]
    for id_ in data.draw(st.lists(st.sampled_from(held), unique=True)) if held else []:
        record = plan.prepare([Cancel(id_)], plan.version).record
        assert record is not None
        plan.apply(record)
    now = data.draw(st.integers(0, 200))
    record = plan.prepare([Advance(now, _STEPS + now)], plan.version).record
    assert record is not None
    plan.apply(record)
    cells = plan.ledger.cells
    assert cells.low.shape[1] == -(-_STEPS // BLOCK)
    assert np.array_equal(cells.low[: cells.rows], block_minima(cells.free[: cells.rows]))
    slack = cells.slack[: cells.averages]
    assert np.array_equal(cells.slack_low[: cells.averages], block_minima(slack))
    fresh = FreeProfile(CapacityRows(plan.cluster), plan.grid, plan.ledger.first)
    for one in plan.table.rows_by_taker():
        demand = fresh.demand(one.bundle, one.label, one.tenant, one.queue)
        for row in one.rows:
            fresh.take([(demand, row.reshape(1, 3), 1)])
    names = {(row.what, row.resource): number for number, row in enumerate(fresh.book.rows)}
    for number, row in enumerate(plan.ledger.book.rows):
        if row.policy is None:
            assert np.array_equal(plan.ledger.free[number], fresh.free[names[row.what, "cpu"]])


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(_texts(), max_size=6), text=_texts())
def test_what_is_plainly_free_is_free(texts: list[str], text: str) -> None:
    """Rows that an agent placed fit the ledger; the same rows on a full one do not."""
    plan = _standing(texts)
    request = a_request("r", text).tenant("t1").on(plan.cluster)
    result = agent_named("gree").plan([request], plan.view(), Limits())[0]
    if not result.placed:
        return
    demand = plan.ledger.demand(request.graph.bundles[0], None, "t1", "default")
    free = plan.ledger.free
    rows = result.rows
    fits = all(
        (free[row, start:end] >= bundles * amount).all()
        for start, end, bundles in rows.tolist()
        for row, amount in zip(demand.rows, demand.amounts, strict=True)
    )
    assert fits
    taller = rows + np.array([0, 0, 100])
    assert not plan.ledger.plainly_free([(demand, taller)])
    if plan.ledger.plainly_free([(demand, rows)]):
        plan.ledger.take([(demand, rows, 1)])
        assert (plan.ledger.free >= 0).all()
        assert (plan.ledger.averages.slack >= 0).all()


@pytest.mark.parametrize("columns", [1, BLOCK, INDEXED_FROM - 1])
def test_short_rows_carry_no_index(columns: int) -> None:
    """A copy for a batch is read as it is."""
    assert block_minima(np.ones((2, columns), dtype=np.int64)).shape == (2, 0)
