"""Pools: units of the whole cluster, counted at every instant, on no machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.calendar import calendar_of
from planner.cluster.cluster import Cluster, ClusterError, Outage, Pool
from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.files.workload_file import WorkloadLine
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Reconfigure
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.state import State
from planner.validation.validate import validate
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_from_nothing
from rdl.compile.shapes import least_reachable
from rdl.errors import RdlError
from rdl.resources import Resources
from tests.builders import a_plan, a_request, ask, commit
from tests.planner.adaptation.events import adapt_now
from tests.planner.brute_force_plan import best_value
from tests.planner.plan.plan_json import plan_json
from tests.planner.plan_documents import document, faults, reservation

SECOND = 1000


def _cluster(count: int = 3, machines: int = 4, horizon: int = 24, **more: Any) -> Cluster:
    """Machines of four cores and a pool of licences, in steps of a second."""
    described: dict[str, Any] = {
        "step": 1,
        "horizon": horizon,
        "machines": [{"name": "m", "count": machines, "resources": {"cpu": 4}}],
        "pools": [{"name": "lic", "count": count}],
    }
    return cluster_from_json(described | more)


def _used(plan: Plan, name: str = "lic") -> list[int]:
    """Return what is promised of a resource at each step, counted one by one."""
    used = np.zeros(plan.grid.horizon, dtype=np.int64)
    for number in range(len(plan.table)):
        for atom in plan.table.holding(number).atoms:
            for _, rows in atom.occurrences():
                for start, end, bundles in rows.tolist():
                    used[start:end] += bundles * atom.bundle.get(name, 0)
    return [int(one) for one in used]


def _tiny(seed: int, cluster: Cluster) -> list[Request]:
    """Draw three requests of which some ask for licences, so small that all plans are tried."""
    rng = np.random.default_rng(seed)
    found: list[Request] = []
    while len(found) < 3:
        g = int(rng.integers(1, 3))
        h = g + int(rng.integers(0, 2))
        lease = int(rng.integers(1, 4))
        work = least_reachable(g, h, 1, lease, int(rng.integers(1, 6)))
        bundle = rng.choice(["<1 cpu>", "<1 cpu, 1 lic>", "<2 cpu, 1 lic>", "<1 lic>"])
        text = f"atom({bundle}, {g}, {h}, 0.00{lease}, 0.0{work:02d})"
        other = f"atom(<1 cpu, 2 lic>, 1, 1, 0.002, 0.00{int(rng.integers(1, 3)) * 2})"
        gang = f"atom(<1 cpu>, {g}, {g}, 0.00{lease}, 0.00{g * lease})"
        texts = [
            text,
            f"any({text}, {other}, prefer=[1, 0.5])",
            f"order({other}, {text})",
            f"together({gang}, atom(<1 lic>, 1, 1, 0.00{lease}, 0.00{lease}))",
        ]
        text = texts[int(rng.integers(0, len(texts)))]
        try:
            found.append(a_request(f"r{len(found)}", text).on(cluster))
        except RdlError:
            continue
    return found


@pytest.mark.parametrize("agent", ["milp", "exact"])
@pytest.mark.parametrize("seed", range(12))
def test_solvers_find_what_trying_every_plan_finds(agent: str, seed: int) -> None:
    """On tiny sets their value is that of full enumeration, the pool one more capacity."""
    cluster = cluster_from_json(
        {
            "step": "0.001s",
            "horizon": "0.006s",
            "machines": [{"name": "m", "count": 1, "resources": {"cpu": 4}}],
            "pools": [{"name": "lic", "count": 2}],
        }
    )
    requests = _tiny(seed, cluster)
    view = Plan(cluster, cluster.grid()).snapshot()
    _, report = agent_named(agent).solve(requests, view, Limits(work=200, seed=1))  # type: ignore[attr-defined]
    assert report.value == pytest.approx(best_value(requests, cluster.nominal, 6))


@st.composite
def _pooled_clusters(draw: st.DrawFn) -> Cluster:
    """A pool that some of the time has fewer units or none, and machines that go."""
    count, machines = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    outages = []
    for name, size in (("lic", count), ("m", machines)):
        if draw(st.booleans()):
            start = draw(st.integers(0, 20))
            names = draw(st.sets(st.integers(0, size - 1), min_size=1))
            outages.append(
                {
                    "machines": name,
                    "names": [f"{name}-{index}" for index in sorted(names)],
                    "start": start,
                    "end": start + draw(st.integers(1, 9)),
                }
            )
    pool: dict[str, object] = {"name": "lic", "count": count}
    if draw(st.booleans()):
        pool |= {"from": draw(st.integers(0, 6)), "to": draw(st.sampled_from([12, 17.5, 40]))}
    cluster = _cluster(count, machines, pools=[pool], outages=outages)
    return replace(cluster, promise=draw(st.sampled_from(list(PromiseLevel))))


@st.composite
def _lines(draw: st.DrawFn) -> list[WorkloadLine]:
    found = []
    for number in range(draw(st.integers(1, 7))):
        bundle = draw(st.sampled_from(["<1 cpu, 1 lic>", "<4 cpu, 2 lic>", "<2 cpu>", "<1 lic>"]))
        height, lease = draw(st.integers(1, 3)), draw(st.integers(1, 5))
        start = draw(st.integers(0, 15))
        end = start + lease + draw(st.integers(0, 8))
        atom = f"atom({bundle}, 1, {height}, {lease}, {height * lease})"
        found.append(WorkloadLine(f"r{number}", f"window({atom}, {start}, {end})"))
    return found


@settings(max_examples=60)
@given(
    _pooled_clusters(),
    _lines(),
    st.sampled_from(["gree", "gree-l", "earliest", "aligned", "headroom", "portfolio"]),
)
def test_no_instant_has_more_than_the_pool(
    cluster: Cluster, lines: list[WorkloadLine], agent: str
) -> None:
    """Whatever agents place, on totals and on machines, the pool's units suffice at each step."""
    try:
        compiled = compile_workload(lines, cluster)
    except RdlError:
        return
    plan = plan_from_nothing(cluster, compiled, agent_named(agent), Limits(work=20)).plan
    assert validate(plan_json(plan), cluster=cluster, grid=plan.grid) == []
    calendar = calendar_of(cluster, 0, plan.grid.horizon)
    offered = calendar.dense(calendar.capacity("lic")).tolist()
    used = _used(plan)
    assert all(taken <= there for taken, there in zip(used, offered, strict=True))
    row = plan.view().row_names.index(("pool", "lic"))
    left = plan.view().free[row].tolist()
    assert left == [there - taken for taken, there in zip(used, offered, strict=True)]


def test_units_are_not_of_a_machine() -> None:
    """Three units on three machines or on one, and the fourth request waits for one of them."""
    plan = Plan(_cluster(), _cluster().grid())
    for number in range(3):
        text = "window(atom(<4 cpu, 1 lic>, 1, 1, 6, 6), 0, 6)"
        assert not ask(plan, a_request(f"wide{number}", text).on(plan.cluster)).conflicts
    late = "window(atom(<1 cpu, 3 lic>, 1, 1, 4, 4), 0, 12)"
    ask(plan, a_request("late", late).on(plan.cluster), agent_named("earliest"))
    found = plan.reservation("late")
    assert found is not None
    assert found.atoms[0].rows.tolist() == [[6, 10, 1]]


def test_a_refusal_names_the_pool_and_when_it_is_full() -> None:
    """Its size, and what of it is away, why and by whom."""
    away = {
        "machines": "lic", "count": 1, "start": 0, "end": 9, "reason": "audit", "by": "ann",
    }  # fmt: skip
    cluster = _cluster(outages=[away])
    plan = Plan(cluster, cluster.grid())
    ask(plan, a_request("a", "window(atom(<1 cpu, 2 lic>, 1, 1, 8, 8), 0, 8)").on(cluster))
    ask(plan, a_request("b", "window(atom(<1 cpu, 1 lic>, 1, 1, 8, 8), 0, 8)").on(cluster))
    refusal = plan.refusal("b")
    assert refusal is not None
    assert refusal.code is Code.CAPACITY
    assert refusal.binding is not None
    assert (refusal.binding.resource, refusal.binding.needed, refusal.binding.free) == (
        "lic", 1, 0,
    )  # fmt: skip
    words = "; the pool lic has 3; 1 of them away for maintenance 'audit' ("
    assert words in refusal.detail
    assert ") by ann, from 0s to 9s after the origin" in refusal.detail


@pytest.mark.parametrize("level", list(PromiseLevel))
def test_units_that_go_take_promises_with_them(level: PromiseLevel) -> None:
    """What can wait is moved past the outage; what cannot is degraded; both end inside the pool."""
    cluster = replace(_cluster(2), promise=level)
    texts = (f"window(atom(<1 cpu, 1 lic>, 1, 1, 6, 6), 0, {e})" for e in (6, 20))
    asked = [a_request(f"r{n}", text).on(cluster) for n, text in enumerate(texts)]
    plan = a_plan(cluster).placed_by("earliest").holding(*asked).build()
    gone = Outage("lic", (0, 1), 2 * SECOND, 9 * SECOND)
    commit(plan, Reconfigure(replace(cluster, outages=(gone,))))
    found = adapt_now(plan)
    assert sorted(one.fate.value for one in found.affected) == ["degraded", "moved"]
    assert validate(plan_json(plan), cluster=plan.cluster, grid=plan.grid) == []
    states = {id_: plan.reservation(id_) for id_ in ("r0", "r1")}
    assert states["r0"] is not None
    assert states["r0"].state is State.DEGRADED


@pytest.mark.parametrize(
    ("rows", "is_fault"), [([[0, 5, 3]], False), ([[0, 5, 4]], True), ([[7, 9, 3]], True)]
)
def test_the_validator_counts_for_itself(rows: list[list[int]], *, is_fault: bool) -> None:
    """Four of three units, and three while one is away, are more than there are."""
    away = {"machines": "lic", "names": ["lic-1"], "start": 8, "end": 9}
    cluster = _cluster(outages=[away], promises={"level": "pooled"})
    work = sum((end - start) * bundles for start, end, bundles in rows)
    text = f"atom(<1 cpu, 1 lic>, 1, 9, 1, {work})"
    entry = reservation("r", text, {"": rows}, bundle={"cpu": 1, "lic": 1})
    written = document(entry) | {"cluster": cluster_to_json(cluster)}
    found = [rule for rule, where in faults(written, cluster) if where == "pool"]
    assert found == (["capacity"] if is_fault else [])


def test_a_pool_is_written_as_it_is_read() -> None:
    """Machines are written without it, and it may be made larger."""
    pool = {"name": "lic", "count": 3, "from": 2, "to": 20}
    cluster = _cluster(pools=[pool])
    written = cluster_to_json(cluster)
    assert written["pools"] == [pool]
    assert written["machines"][0]["resources"] == {"cpu": 4}
    assert cluster_from_json(written) == cluster
    assert dict(cluster.nominal) == {"cpu": 16_000, "lic": 3}
    more = cluster_from_json(written | {"pools": [{"name": "lic", "count": 5}]})
    assert more.nominal["lic"] == 5
    assert dict(cluster.on_machines(cluster.machines[0].resources)) == {"cpu": 4000}


@pytest.mark.parametrize(
    ("pools", "pointer"),
    [
        ([{"name": "CPU", "count": 1}], "/pools/0/name"),
        ([{"name": "lic!", "count": 1}], "/pools/0/name"),
        ([{"name": "gpu", "count": 1}], "/pools/0/name"),
        ([{"name": "lic", "count": 0}], "/pools/0/count"),
        ([{"name": "lic", "count": 1, "from": 5, "to": 5}], "/pools/0/to"),
        ([{"name": "lic", "count": 1}, {"name": "lic", "count": 2}], "/"),
        ([{"name": "m", "count": 1}], "/"),
    ],
)
def test_a_pool_that_cannot_be_names_its_place(pools: list[Any], pointer: str) -> None:
    """Amounts of machines, no units, no time, names given twice."""
    machines = [{"name": "m", "count": 1, "resources": {"cpu": 4, "gpu": 1}}]
    with pytest.raises(FileError) as caught:
        cluster_from_json({"step": 1, "horizon": 9, "machines": machines, "pools": pools})
    assert pointer in [one.pointer for one in caught.value.problems]


def test_an_outage_names_units_that_there_are() -> None:
    """As of machines: other units are no units, and a pool cannot be drained."""
    lost = Outage("lic", (3,), 0, SECOND)
    with pytest.raises(ClusterError):
        replace(_cluster(), outages=(lost,))
    entry = {"machines": "lic", "count": 1, "start": 0, "end": 1, "kind": "drain"}
    with pytest.raises(FileError, match="cannot be drained"):
        _cluster(outages=[entry])


def test_applications_get_no_units_without_a_reservation() -> None:
    """The dispatcher counts machines; what is nowhere is for reservations only."""
    (quota,) = replace(_cluster(), pools=(Pool("lic", 2),)).application_quotas
    assert (quota.limit, quota.scope.tenant, quota.max_count) == ((("lic", 0),), None, None)


def test_sizes_count_a_unit_as_its_share_of_the_pool() -> None:
    """A third of the pool is as much as a third of the largest machine."""
    assert _cluster().reference == Resources.of({"cpu": 4000, "lic": 3})
