"""Gangs that run together: placed on machines, moved, renegotiated and repeated as a whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.adaptation.adapter import adapt
from planner.agent import Limits
from planner.agents import AGENT_NAMES, agent_named
from planner.cluster.cluster import Cluster, Outage
from planner.metrics import measure
from planner.offer_search import quick
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Reconfigure, Refuse, Update
from planner.promise import PromiseLevel
from planner.renegotiation import renegotiation_of
from planner.request import Request
from planner.reservations.state import State
from planner.validation.validate import validate
from planner.workload.plan import document_of
from tests.builders import ClusterBuilder, a_cluster, a_plan, a_request, commit

STEPS = 24


def _placed(built: ClusterBuilder) -> Cluster:
    return replace(built.build(), promise=PromiseLevel.PLACED)


def _racks(racks: int = 3) -> Cluster:
    """Racks of a machine with eight cores and three with four cores and a GPU each."""
    built = a_cluster().horizon(STEPS)
    for rack in range(racks):
        built = built.machines(f"big{rack}", 1, cpu=8).machines(f"gpu{rack}", 3, cpu=4, gpu=1)
    return _placed(built)


def _ask(plan: Plan, request: Request, agent: str = "gree") -> bool:
    """Place a request and commit the answer as the service does; return whether it is accepted."""
    chosen = agent_named(agent)
    result = chosen.plan([request], plan.view(), Limits(work=20, seed=1))[0]
    if result.code is not None:
        commit(plan, Refuse(request, result.code, result.detail, result.binding))
        return False
    return commit(plan, Admit(request, result, agent, planner=quick(chosen))).record is not None


def _violations(plan: Plan) -> list[str]:
    document = document_of(plan, "x", "submitted", measure([], plan.cluster.nominal, STEPS))
    body = document.to_json()
    del body["metrics"]
    return [f"{one.where}: {one.detail}" for one in validate(body, grid=plan.grid)]


def _rows(plan: Plan, id_: str = "job") -> dict[str, list[list[int]]]:
    found = plan.reservation(id_)
    assert found is not None
    return {path: rows.tolist() for atom in found.atoms for path, rows in atom.occurrences()}


def _job(length: int = 4, workers: int = 6, start: int = 0, end: int = STEPS) -> str:
    driver = f"driver: atom(<6 cpu>, 1, 1, {length}, {length})"
    each = f"workers: atom(<3 cpu, 1 gpu>, {workers}, {workers}, {length}, {workers * length})"
    return f"window(together({driver}, {each}), {start}, {end})"


@pytest.mark.parametrize("agent", AGENT_NAMES)
def test_every_agent_promises_a_driver_and_its_workers_on_machines(agent: str) -> None:
    """Each member has its own bundles on its own machines, over the same steps."""
    plan = a_plan(_racks()).build()
    request = a_request("job", _job()).on(plan.cluster)
    assert _ask(plan, request, agent)
    rows = _rows(plan)
    ((start, end, _),) = rows["0.0"]
    assert end - start == 4
    assert rows == {"0.0": [[start, end, 1]], "0.1": [[start, end, 6]]}
    assert _violations(plan) == []


def test_a_driver_and_64_workers_are_moved_by_a_lost_rack_as_a_whole() -> None:
    """With 72 GPUs in nine racks a lost one leaves enough, but not before the rest is free."""
    built = a_cluster().horizon(STEPS)
    for rack in range(9):
        built = built.machines(f"r{rack}", 2, cpu=32, gpu=4)
    plan = a_plan(_placed(built)).build()
    driver = "driver: atom(<8 cpu>, 1, 1, 4, 4)"
    text = f"window(together({driver}, workers: atom(<4 cpu, 1 gpu>, 64, 64, 4, 256)), 0, 16)"
    other = "window(atom(<1 cpu, 4 gpu>, 2, 2, 10, 20), 0, 10)"
    assert _ask(plan, a_request("other", other).on(plan.cluster), "earliest")
    assert _ask(plan, a_request("job", text).on(plan.cluster), "earliest")
    assert _rows(plan)["0.1"] == [[0, 4, 64]]
    lost = (Outage("r3", (0, 1), 0, STEPS * 1000),)
    commit(plan, Reconfigure(replace(plan.cluster, outages=lost)))
    found = adapt(plan, Limits(work=20, seed=1))
    prepared = plan.prepare(found.changes, found.based_on, joint=True)
    assert prepared.record is not None, prepared.outcomes
    plan.apply(prepared.record)
    ((start, end, _),) = _rows(plan)["0.0"]
    assert start >= 10
    assert _rows(plan)["0.1"] == [[start, end, 64]]
    assert _violations(plan) == []


def test_machines_that_hold_totals_but_not_every_bundle_refuse_the_whole() -> None:
    """Two bundles of three cores and two of one fit two machines of four; three and two do not."""
    plan = a_plan(_placed(a_cluster().horizon(STEPS).machines("m", 2, cpu=4))).build()
    small = "atom(<1 cpu>, 2, 2, 4, 8)"
    fits = a_request("fits", f"window(together(atom(<3 cpu>, 2, 2, 4, 8), {small}), 0, 4)")
    assert _ask(plan, fits.on(plan.cluster))
    unfit = a_request("unfit", "window(together(atom(<2500m cpu>, 2, 2, 4, 8), "
                      "atom(<1600m cpu>, 1, 1, 4, 4)), 4, 24)")  # fmt: skip
    assert not _ask(plan, unfit.on(plan.cluster))
    assert _violations(plan) == []


def test_a_member_takes_its_share_of_a_quota_with_the_others() -> None:
    """Seven cores of a quota of seven: together they are promised once, and not side by side."""
    built = a_cluster().horizon(8).machines("m", 4, cpu=4)
    plan = a_plan(_placed(built.policy("quota", name="q", tenant="ads", limit={"cpu": 7}))).build()
    text = "window(together(atom(<1 cpu>, 1, 1, 4, 4), atom(<2 cpu>, 3, 3, 4, 12)), 0, 8)"
    asked = [a_request(f"r{n}", text).tenant("ads").on(plan.cluster) for n in range(3)]
    assert [_ask(plan, one) for one in asked] == [True, True, False]


def test_a_move_by_its_owner_keeps_members_together() -> None:
    """A later window moves the driver with its workers; a larger one keeps all in place."""
    plan = a_plan(_racks()).build()
    assert _ask(plan, a_request("job", _job(end=8)).on(plan.cluster))
    commit(plan, Advance(1, STEPS))
    known = plan.reservation("job")
    assert known is not None
    wanted = a_request("job", _job(start=10, end=20)).on(plan.cluster)
    asked = renegotiation_of(plan, "job", wanted)
    result = asked.place(agent_named("gree"), Limits())
    assert result.placed, result.detail
    assert commit(plan, Update("job", known.revision, wanted, result, "gree")).record is not None
    assert _rows(plan) == {"0.0": [[16, 20, 1]], "0.1": [[16, 20, 6]]}
    assert _violations(plan) == []


def test_what_has_begun_together_is_kept_to_its_end() -> None:
    """Half of it is past: the same request is answered by the same rows."""
    plan = a_plan(_racks()).build()
    assert _ask(plan, a_request("job", _job()).on(plan.cluster), "earliest")
    before = _rows(plan)
    commit(plan, Advance(2, STEPS))
    known = plan.reservation("job")
    assert known is not None
    wanted = a_request("job", _job(end=20)).on(plan.cluster)
    result = renegotiation_of(plan, "job", wanted).place(agent_named("gree"), Limits())
    assert result.placed, result.detail
    assert commit(plan, Update("job", known.revision, wanted, result, "gree")).record is not None
    assert _rows(plan) == before


def test_a_member_that_loses_its_machines_while_it_runs_degrades_the_whole() -> None:
    """No machine can replace the driver's: all is degraded, and none of it is promised anew."""
    plan = a_plan(_racks(1)).build()
    assert _ask(plan, a_request("job", _job(workers=2)).on(plan.cluster), "earliest")
    commit(plan, Advance(2, STEPS))
    lost = (Outage("big0", (0,), 2000, STEPS * 1000),)
    commit(plan, Reconfigure(replace(plan.cluster, outages=lost)))
    found = adapt(plan, Limits(work=20, seed=1))
    prepared = plan.prepare(found.changes, found.based_on, joint=True)
    assert prepared.record is not None, prepared.outcomes
    plan.apply(prepared.record)
    known = plan.reservation("job")
    assert known is not None
    assert known.state is State.DEGRADED


def test_every_night_a_driver_and_its_workers() -> None:
    """Each run has all its members at the offset of the first."""
    plan = a_plan(_racks()).build()
    text = f"every(6, {_job(2, 6, 0, 6)}, times=3)"
    assert _ask(plan, a_request("job", text).on(plan.cluster))
    rows = _rows(plan)
    first = rows["0@0.0.0"][0][0]
    assert rows == {
        f"0@{k}.0.{member}": [[first + 6 * k, first + 6 * k + 2, count]]
        for k, (member, count) in product(range(3), ((0, 1), (1, 6)))
    }
    assert _violations(plan) == []


@given(st.data())
def test_what_is_promised_together_stands_on_machines_and_satisfies_the_request(
    data: st.DataObject,
) -> None:
    """Small jobs one after the other on a few machines, judged by the validator."""
    cores = data.draw(st.lists(st.integers(2, 6), min_size=1, max_size=4))
    built = a_cluster().horizon(12)
    for number, one in enumerate(cores):
        built = built.machines(f"m{number}", 1, cpu=one)
    plan = a_plan(_placed(built)).build()
    for number in range(data.draw(st.integers(1, 4))):
        lease = data.draw(st.integers(1, 4))
        members = []
        for _ in range(data.draw(st.integers(2, 3))):
            count, size = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
            members.append(f"atom(<{size} cpu>, {count}, {count}, {lease}, {count * lease})")
        text = f"window(together({', '.join(members)}), 0, {data.draw(st.integers(4, 12))})"
        request = a_request(f"r{number}", text).if_possible(plan.cluster)
        if request is not None:
            _ask(plan, request, data.draw(st.sampled_from(["gree", "gree-l", "headroom"])))
    assert _violations(plan) == []
    for held in plan.reservations():
        starts = {tuple(np.asarray(atom.rows)[0, :2]) for atom in held.atoms}
        assert len(starts) == 1


def test_a_refusal_for_lack_of_machines_names_all_members() -> None:
    plan = a_plan(_placed(a_cluster().horizon(STEPS).machines("m", 2, cpu=5))).build()
    members = "atom(<3 cpu>, 3, 3, 4, 12), atom(<1 cpu>, 1, 1, 4, 4)"
    request = a_request("job", f"all(atom(<1 cpu>, 1, 1, 1, 1), together({members}))")
    result = agent_named("gree").plan([request.on(plan.cluster)], plan.view(), Limits())[0]
    assert result.detail == (
        "together of 3 x <3 cpu> for 4s and 1 x <1 cpu> for 4s (second of all) needs 4 bundles "
        "at the same time; at the origin machines do not hold all of them"
    )
