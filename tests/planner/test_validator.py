"""The validator finds each kind of fault where it is, and nothing in a plan without faults."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cluster import Cluster, MachineGroup, Outage, Queue
from planner.policy import CapacityOverTime, Policy, Quota, RequestLimits, Scope
from planner.validator import PlanViolation, validate
from planner.validator_policies import largest_integral
from rdl.resources import Resources

CORE = Resources.of({"cpu": 1000})
SECOND = 1000


def cluster(
    *groups: MachineGroup, horizon: int = 100, outages: Sequence[Outage] = (), **rest: Any
) -> Cluster:
    """Return a cluster of seconds; ten machines of one core by default."""
    machines = groups or (MachineGroup("m", 10, CORE),)
    return Cluster(SECOND, horizon * SECOND, machines, outages=tuple(outages), **rest)


def reservation(
    name: str, expression: str, atoms: dict[str, list[list[int]]], **rest: Any
) -> dict[str, Any]:
    """Return a reservation of one-core bundles; `atoms` are rows by path."""
    bundle, on = rest.pop("bundle", {"cpu": 1}), rest.pop("on", None)
    label = {} if on is None else {"on": on}
    held = [
        {"path": path, "bundle": bundle, "allocation": rows, **label}
        for path, rows in atoms.items()
    ]
    known = {
        "id": name,
        "tenant": "ads",
        "queue": "default",
        "submitted": 0,
        "state": "accepted",
        "weight": 1.0,
        "priority": 0,
        "revision": 1,
        "agent": "gree",
        "expression": expression,
        "choices": {},
        "notes": [],
        "atoms": held,
    }
    return known | rest


def refusal(name: str, **rest: Any) -> dict[str, Any]:
    known = {
        "id": name,
        "tenant": "ads",
        "queue": "default",
        "submitted": 0,
        "weight": 1.0,
        "priority": 0,
        "expression": "atom(<1 cpu>, 1, 1, 1, 1)",
        "code": "capacity",
        "detail": "",
        "binding": None,
        "offers": [],
    }
    return known | rest


def document(
    *reservations: dict[str, Any], refusals: Sequence[dict[str, Any]] = (), **rest: Any
) -> dict[str, Any]:
    """Return a plan document without metrics, so that one fault is one violation."""
    known = {
        "cluster": {},
        "version": 1,
        "step_s": 1,
        "agent": "gree",
        "order": "submitted",
        "reservations": list(reservations),
        "refusals": list(refusals),
        "metrics": None,
    }
    return known | rest


def faults(plan: dict[str, Any], on: Cluster | None = None, **how: Any) -> list[tuple[str, str]]:
    """Return (rule, where) of each violation."""
    return [(v.rule, v.where) for v in validate(plan, cluster=on or cluster(), **how)]


STAGES = "window(order(atom(<1 cpu>, 1, 10, 240, 2400), atom(<1 cpu>, 1, 20, 120, 2400)), 0, 800)"
EXAMPLE = document(
    reservation("r1", STAGES, {"0.0": [[440, 680, 10]], "0.1": [[680, 800, 20]]}),
    cluster={
        "step": "1s",
        "horizon": "800s",
        "machines": [{"name": "standard", "count": 100, "resources": {"cpu": 1}}],
    },
    metrics={
        "runtime_ms": 0.1,
        "acceptance": 1.0,
        "accepted": 1,
        "requests": 1,
        "preemption": 30,
        "preemption_inner": 0,
        "uniformity": 1.225,
        "value": 48.0,
        "bound": None,
        "gap": None,
        "status": "placed",
    },
)


def test_the_worked_example_is_valid() -> None:
    """The example of the plan format, its own cluster and metrics included."""
    assert validate(EXAMPLE) == []


@pytest.mark.parametrize("figure", ["accepted", "requests", "preemption", "preemption_inner"])
def test_metrics_are_recounted(figure: str) -> None:
    """A figure that is one too high is named."""
    wrong = copy.deepcopy(EXAMPLE)
    wrong["metrics"][figure] += 1
    assert [(v.rule, v.where) for v in validate(wrong)] == [("metrics", f"/metrics/{figure}")]


def test_uniformity_is_recounted() -> None:
    """Rounding is forgiven, another figure is not."""
    wrong = copy.deepcopy(EXAMPLE)
    wrong["metrics"]["uniformity"] = 1.23
    assert [v.where for v in validate(wrong)] == ["/metrics/uniformity"]


FIVE = "atom(<1 cpu>, 5, 5, 10, 50)"


@pytest.mark.parametrize(
    ("asked", "atoms", "how", "value"),
    [
        (FIVE, {"": [[0, 10, 5]]}, {}, 5.0),
        (FIVE, {"": [[0, 10, 5]]}, {"weight": 3}, 15.0),
        (FIVE, {"": [[0, 10, 5]]}, {"state": "degraded"}, 0.0),
        # The first option is the size, whichever is taken; what the taken one is worth counts.
        (
            f"any(atom(<1 cpu>, 1, 1, 20, 20), window({FIVE}, 0, 20), prefer=[1, 0.5])",
            {"1.0": [[0, 10, 5]]},
            {"choices": {"": 1}},
            1.0,
        ),
        (
            f"every(20s, any({FIVE}, atom(<1 cpu>, 1, 1, 9, 9), prefer=[0.5, 1]), times=2)",
            {"0@0.0": [[0, 10, 5]], "0@1.0": [[20, 30, 5]]},
            {"choices": {"0@0": 0}},
            5.0,
        ),
    ],
)
def test_value_is_recounted(
    asked: str, atoms: dict[str, list[list[int]]], how: dict[str, Any], value: float
) -> None:
    """Weight x size x worth, by hand on ten cores; another figure is named."""
    held = reservation("r", asked, atoms, **how)
    falls = sum(rows[-1][2] for rows in atoms.values())
    said = EXAMPLE["metrics"] | {
        "accepted": int(how.get("state") != "degraded"), "preemption": falls, "value": value
    }  # fmt: skip
    wrong = validate(document(held, metrics=said), cluster=cluster())
    assert [v.where for v in wrong] == ["/metrics/uniformity"]
    said |= {"value": value + 0.01}
    wrong = validate(document(held, metrics=said), cluster=cluster())
    assert [v.where for v in wrong] == ["/metrics/uniformity", "/metrics/value"]


ONE = "atom(<1 cpu>, 1, 10, 5, 50)"


@pytest.mark.parametrize(
    ("rows", "rule", "where"),
    [
        ([[0, 5, 10]], None, None),
        ([[0, 2, 10], [2, 5, 10]], "rows", "/reservations/0/atoms/0/allocation/1"),
        ([[5, 10, 5], [0, 5, 5]], "rows", "/reservations/0/atoms/0/allocation/1"),
        ([[0, 5, 5], [4, 9, 5]], "rows", "/reservations/0/atoms/0/allocation/1"),
        ([[0, 0, 10]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[96, 101, 10]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0.5, 5.5, 10]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 5, 10.0]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 5, -10]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 5]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0, "5", 10]], "shape", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 5, 10**30]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 1e306, 10]], "shape", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 10**400, 10]], "shape", "/reservations/0/atoms/0/allocation/0"),
        ([[0, float("nan"), 10]], "shape", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 4, 10]], "oracle", "/reservations/0"),
        ([[0, 4, 10], [4, 6, 5]], "oracle", "/reservations/0"),
    ],
)
def test_rows(rows: list[list[int]], rule: str | None, where: str | None) -> None:
    """Rows lie on steps, half-open, sorted, merged, inside the horizon, and keep the promise."""
    expected = [] if rule is None else [(rule, where)]
    assert faults(document(reservation("r", ONE, {"": rows}))) == expected


@pytest.mark.parametrize(
    ("change", "rule", "where"),
    [
        ({"state": "refused"}, "state", "/reservations/0/state"),
        ({"state": "planned"}, "state", "/reservations/0/state"),
        ({"weight": -1}, "shape", "/reservations/0/weight"),
        ({"weight": float("nan")}, "shape", "/reservations/0/weight"),
        ({"revision": 0}, "shape", "/reservations/0/revision"),
        ({"submitted": "noon"}, "shape", "/reservations/0/submitted"),
        ({"submitted": 6}, "oracle", "/reservations/0"),
        ({"expression": "atom("}, "expression", "/reservations/0/expression"),
        ({"expression": "all(void(<1 cpu>, 1))"}, "path", "/reservations/0/atoms/0/path"),
        ({"expression": "atom(<2 cpu>, 1, 10, 5, 50)"}, "bundle", "/reservations/0/atoms/0/bundle"),
        ({"choices": {"": 0}}, "oracle", "/reservations/0"),
        ({"choices": {"": "0"}}, "shape", "/reservations/0/choices"),
        ({"atoms": []}, "oracle", "/reservations/0"),
        ({"atoms": None}, "shape", "/reservations/0/atoms"),
        ({"queue": "night"}, "queue", "/reservations/0/queue"),
        ({"id": ""}, "id", "/reservations/0/id"),
    ],
)
def test_fields_of_a_reservation(change: dict[str, Any], rule: str, where: str) -> None:
    """Each field that is wrong is named, once."""
    held = reservation("r", ONE, {"": [[5, 10, 10]]})
    assert faults(document(held)) == []
    assert faults(document(held | change)) == [(rule, where)]


def test_the_same_path_twice() -> None:
    """Two entries for one atom would hide its sum."""
    held = reservation("r", ONE, {"": [[5, 10, 10]]})
    held["atoms"].append(copy.deepcopy(held["atoms"][0]))
    assert faults(document(held)) == [("path", "/reservations/0/atoms/1/path")]


@pytest.mark.parametrize("broken", [None, 7, "r", [], [[]]])
def test_junk_is_a_violation_not_a_crash(broken: object) -> None:
    """Whatever stands where a reservation should, the validator answers."""
    assert ("shape", "/reservations/0") in faults(document(broken))  # type: ignore[arg-type]
    assert ("shape", "/refusals/0") in faults(document(refusals=[broken]))  # type: ignore[list-item]
    assert ("shape", "/reservations") in faults(document(reservations=None))
    assert ("shape", "/step_s") in faults(document(step_s=broken))
    assert [v.rule for v in validate({"cluster": broken})] == ["shape"]
    assert ("state", "/refusals/0/code") in faults(document(refusals=[refusal("a", code=broken)]))


def test_ids_are_those_asked_each_once() -> None:
    """Reservations and refusals together are what was asked."""
    held = reservation("a", ONE, {"": [[5, 10, 10]]})
    plan = document(held, refusals=[refusal("b")])
    assert faults(plan, asked=["a", "b"]) == []
    assert faults(plan, asked=["a", "b", "c"]) == [("id", "/reservations")]
    assert faults(plan, asked=["a"]) == [("id", "/refusals/0")]
    twice = document(held, refusals=[refusal("a")])
    assert faults(twice) == [("id", "/refusals/0/id")]


def test_refusals() -> None:
    """A refusal has a known code and holds nothing."""
    assert faults(document(refusals=[refusal("b")])) == []
    wrong = faults(document(refusals=[refusal("b", code="busy")]))
    assert wrong == [("state", "/refusals/0/code")]
    assert faults(document(refusals=[refusal("b", atoms=[])])) == [("state", "/refusals/0")]


def test_queues() -> None:
    """A queue that is not reservable holds no reservation."""
    night = cluster(queues=(Queue("default", reservable=False),))
    held = reservation("r", ONE, {"": [[5, 10, 10]]})
    assert faults(document(held), night) == [("queue", "/reservations/0/queue")]


@pytest.mark.parametrize(("state", "held_to"), [("completed", True), ("cancelled", False)])
def test_the_oracle_judges_whole_promises_only(state: str, held_to: bool) -> None:
    """What was cancelled, degraded or failed keeps its past and no more."""
    part = reservation("r", ONE, {"": [[5, 9, 10]]}, state=state)
    assert faults(document(part)) == ([("oracle", "/reservations/0")] if held_to else [])


def test_released_rows_keep_the_promise_and_free_the_machines() -> None:
    """What was given back counts for the oracle, not for capacity."""
    early = reservation("a", ONE, {"": [[0, 3, 10]]}, state="completed")
    early["atoms"][0]["released"] = [[3, 5, 10]]
    other = reservation("b", "atom(<1 cpu>, 1, 10, 2, 20)", {"": [[3, 5, 10]]})
    assert faults(document(early, other)) == []
    half = copy.deepcopy(early)
    half["atoms"][0] |= {"allocation": [[0, 3, 10], [3, 5, 4]], "released": [[3, 5, 6]]}
    assert faults(document(half)) == []
    assert [v.rule for v in validate(document(half, other), cluster=cluster())] == ["capacity"]


def ten(name: str, start: int) -> dict[str, Any]:
    """Return a reservation of all ten cores for five steps."""
    return reservation(name, ONE, {"": [[start, start + 5, 10]]})


def test_capacity() -> None:
    """Each stretch above capacity is told once, with its worst step and by how much."""
    small = reservation("c", "atom(<1 cpu>, 1, 1, 1, 1)", {"": [[4, 5, 1]]})
    found = validate(document(ten("a", 0), ten("b", 3), small), cluster=cluster())
    detail = "21000 of cpu at step 4, 11000 above 10000; exceeded over steps [3, 5)"
    assert found == [PlanViolation("pool", "capacity", detail, None, 4, 21_000, 10_000)]
    assert faults(document(ten("a", 0), ten("b", 5))) == []


def test_outages_take_whole_steps_and_each_machine_once() -> None:
    """4 of 10 machines away in [1.5 s, 3.2 s), 2 of them named twice: 6 left in steps 1 to 3."""
    outages = (
        Outage("m", (6, 7, 8, 9), 1500, 3200),
        Outage("m", (8, 9), 2000, 3000),
    )
    six = "atom(<1 cpu>, 1, 7, 1, 7)"
    away = cluster(outages=outages)
    for step in range(6):
        held = reservation("r", six, {"": [[step, step + 1, 7]]})
        expected = 1 <= step < 4
        assert (("capacity", "pool") in faults(document(held), away)) == expected, step


GPU = Resources.of({"cpu": 4000, "gpu": 2})


def test_labels() -> None:
    """Machines with a label are counted apart: 2 of them hold 4 GPUs and 8 cores."""
    mixed = cluster(MachineGroup("plain", 10, CORE), MachineGroup("g", 2, GPU, frozenset({"gpu"})))
    asked = 'atom(<1 cpu>, 1, 9, 1, 9, on="gpu")'
    held = reservation("r", asked, {"": [[0, 1, 9]]}, on="gpu")
    found = faults(document(held), mixed)
    assert found == [("capacity", "label:gpu"), ("fit", "/reservations/0/atoms/0")]
    wrong = reservation("r", asked, {"": [[0, 1, 9]]}, on="ssd")
    assert faults(document(wrong), mixed) == [("bundle", "/reservations/0/atoms/0/on")]


def test_fit_caps() -> None:
    """<1 gpu, 3 cpu> fits once on each of 2 machines, though the pool has room for 3."""
    mixed = cluster(MachineGroup("plain", 10, CORE), MachineGroup("g", 2, GPU))
    bundle = {"cpu": 3, "gpu": 1}
    asked = "atom(<3 cpu, 1 gpu>, 1, 3, 1, 3)"
    held = reservation("r", asked, {"": [[4, 5, 3]]}, bundle=bundle)
    (found,) = validate(document(held), cluster=mixed)
    assert (found.rule, found.at, found.amount, found.limit) == ("fit", 4, 3, 2)


def over_time(**limits: Any) -> CapacityOverTime:
    return CapacityOverTime("share", limits.pop("scope", Scope(tenant="*")), **limits)


def policy_faults(policy: Policy, *held: dict[str, Any], on: Cluster | None = None) -> list[Any]:
    """Return what the validator says of one policy, where and how much."""
    base = on or cluster()
    found = validate(document(*held), cluster=replace(base, policies=(policy,)))
    return [(v.rule, v.where, v.at, v.amount, v.limit) for v in found]


def half(name: str, start: int, **rest: Any) -> dict[str, Any]:
    """Return a reservation of five cores for ten steps."""
    rows = {"": [[start, start + 10, 5]]}
    return reservation(name, "atom(<1 cpu>, 1, 5, 10, 50)", rows, **rest)


def test_instant_share() -> None:
    """Each tenant holds at most half at once; two tenants may hold all."""
    policy = over_time(instant=Decimal("0.5"))
    assert policy_faults(policy, half("a", 0), half("b", 0, tenant="ml")) == []
    found = policy_faults(policy, half("a", 0), half("b", 8))
    assert found == [("policy", "policy:share ads", 8, 10_000, 5000)]
    together = over_time(instant=Decimal("0.5"), scope=Scope())
    both = policy_faults(together, half("a", 0), half("b", 0, tenant="ml"))
    assert both == [("policy", "policy:share", 0, 10_000, 5000)]
    named = over_time(instant=Decimal("0.4"), scope=Scope(tenant="ml", queue="default"))
    assert policy_faults(named, half("a", 0)) == []


@pytest.mark.parametrize("start", [0, 3, 47, 90])
def test_average_share_is_kept_exactly_at_any_start(start: int) -> None:
    """Half of the cluster for exactly half of the window is a quarter of it, wherever it lies."""
    exact = over_time(average=Decimal("0.25"), window_ms=20 * SECOND)
    assert policy_faults(exact, half("a", start)) == []
    less = over_time(average=Decimal("0.2499"), window_ms=20 * SECOND)
    assert len(policy_faults(less, half("a", start))) == 1


def test_average_share_slides() -> None:
    """[0, 10) and [15, 25) at half: a window of 20 that starts at 5 holds 5 + 10 steps of them."""
    policy = over_time(average=Decimal("0.25"), window_ms=20 * SECOND)
    found = policy_faults(policy, half("a", 0), half("b", 15))
    # 15 steps x 5,000 millicores against 0.25 x 20 x 10,000; from step 0 the window holds 15 too.
    assert found == [("policy", "policy:share ads", 0, 75_000, 50_000)]
    assert policy_faults(policy, half("a", 0), half("b", 20)) == []


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(1, 15))
def test_largest_integral_by_every_window(used: list[int], window: int) -> None:
    """At every half step, on the grid or off it, no window holds more than what is found."""
    found, start = largest_integral(np.array(used), window * 2, 2)

    def integral(first: int) -> int:
        return sum(used[t // 2] for t in range(first, first + 2 * window) if 0 <= t < 2 * len(used))

    assert found == max(integral(t) for t in range(-2 * window, 2 * len(used)))
    assert found == integral(start)


def test_quota_at_times_of_day() -> None:
    """On weekdays from 8 to 10 in Paris, 2 cores: 7 to 9 UTC in January."""
    hourly = Cluster(
        3600 * SECOND,
        72 * 3600 * SECOND,
        (MachineGroup("m", 10, CORE),),
        origin=datetime(2026, 1, 9, tzinfo=UTC),  # a Friday
    )
    quota = Quota(
        "day",
        Scope(),
        (("cpu", 2000),),
        time(8),
        time(10),
        frozenset(range(5)),
        "Europe/Paris",
    )
    broken = []
    for hour in range(72):
        held = reservation(
            "r", "atom(<1 cpu>, 1, 3, 1h, 3h)", {"": [[hour * 3600, (hour + 1) * 3600, 3]]}
        )
        plan = document(held, step_s=3600)
        found = validate(plan, cluster=replace(hourly, policies=(quota,)))
        broken += [hour for v in found if v.rule == "policy"]
    assert broken == [7, 8]


def test_quota_at_night_runs_past_midnight() -> None:
    """From 22:00 to 06:00 on Fridays: Friday night, its Saturday morning too, nothing else."""
    night = Quota("night", Scope(), (("cpu", 2000),), time(22), time(6), frozenset({4}), "UTC")
    hourly = Cluster(
        3600 * SECOND,
        72 * 3600 * SECOND,
        (MachineGroup("m", 10, CORE),),
        origin=datetime(2026, 1, 9, tzinfo=UTC),
        policies=(night,),
    )
    whole = reservation("r", "atom(<1 cpu>, 3, 3, 72h, 216h)", {"": [[0, 72 * 3600, 3]]})
    found = validate(document(whole, step_s=3600), cluster=hourly)
    assert [v.detail for v in found] == [
        "3000 of cpu at step 22, 1000 above 2000; exceeded over steps [22, 30)"
    ]


def test_limits() -> None:
    """Windows, leads and counts, each against its limit."""
    asked = "window(atom(<1 cpu>, 1, 5, 10, 50), 20, 60)"
    held = reservation("a", asked, {"0": [[20, 30, 5]]}, submitted=10)
    at_limit = RequestLimits("l", Scope(), 40 * SECOND, 10 * SECOND, 10 * SECOND, 1)
    assert policy_faults(at_limit, held) == []
    for tighter, amount in (
        ({"max_window_ms": 39 * SECOND}, 40 * SECOND),
        ({"min_lead_ms": 11 * SECOND}, 10 * SECOND),
        ({"max_lead_ms": 9 * SECOND}, 10 * SECOND),
        ({"max_count": 0}, 1),
    ):
        (found,) = policy_faults(replace(at_limit, **tighter), held)
        assert (found[0], found[3]) == ("policy", amount), tighter


@pytest.mark.parametrize(
    ("asked", "atoms", "seconds", "lead"),
    [
        (f"order(window({FIVE}, 20, 40), window({FIVE}, 50, 70))", {"0.0": 20, "1.0": 50}, 50, 20),
        (f"window(order({FIVE}, window({FIVE}, 30, 40)), 5, 100)", {"0.0": 5, "0.1.0": 30}, 35, 5),
        (f"every(30s, window({FIVE}, 5, 20), times=2)", {"0@0.0": 5, "0@1.0": 35}, 45, 5),
    ],
)
def test_the_window_of_a_request_is_what_all_its_windows_leave(
    asked: str, atoms: dict[str, int], seconds: int, lead: int
) -> None:
    """Windows inside and recurrences count: the limits that just allow it, and just do not."""
    rows = {path: [[start, start + 10, 5]] for path, start in atoms.items()}
    held = reservation("a", asked, rows)
    exact = RequestLimits("l", Scope(), seconds * SECOND, lead * SECOND, lead * SECOND)
    assert policy_faults(exact, held) == []
    for tighter in (
        {"max_window_ms": seconds * SECOND - 1},
        {"min_lead_ms": lead * SECOND + 1},
        {"max_lead_ms": lead * SECOND - 1},
    ):
        assert len(policy_faults(replace(exact, **tighter), held)) == 1, tighter


def test_a_best_effort_session_has_no_window() -> None:
    """Nothing is promised to a void, so no limit on windows can be broken by it."""
    asked = reservation("v", "window(void(<1 cpu>, 5), 10, 90)", {})
    assert policy_faults(RequestLimits("l", Scope(), SECOND, 50 * SECOND, SECOND), asked) == []


def test_policies_of_today_need_not_hold_for_what_stands() -> None:
    """A lowered policy evicts nobody: the check of policies can be left out."""
    lowered = replace(cluster(), policies=(over_time(instant=Decimal("0.1")),))
    assert faults(document(half("a", 0)), lowered, policies=False) == []
