"""Several requests at once, and what policies leave each of them."""

from __future__ import annotations

from datetime import UTC, datetime, time
from decimal import Decimal

from planner.cluster.cluster import Cluster
from planner.cluster.policy import CapacityOverTime, Quota, Scope
from planner.placement import Code
from tests.contract.scenarios.language import FULL, HOUR, SECOND, UNIT, Ask, Scenario, atom, cluster

BATCHES = (
    Scenario(
        "the larger priority comes first",
        (
            Ask(f"window({FULL}, 0, 1)", Code.CAPACITY, priority=1),
            Ask(f"window({FULL}, 0, 1)", rows={"0": [(0, 1, 10)]}, priority=2),
        ),
    ),
    Scenario(
        "at equal priority the earlier submission comes first",
        (
            Ask(f"window({FULL}, 5, 6)", Code.CAPACITY, submitted=3),
            Ask(f"window({FULL}, 5, 6)", rows={"0": [(5, 6, 10)]}, submitted=2),
        ),
    ),
    Scenario(
        "a refused request leaves nothing behind",
        (
            Ask(f"window(order({FULL}, {atom(11, 11, 1, 11)}), 0, 2)", Code.CAPACITY, priority=1),
            Ask(f"window({atom(10, 10, 2, 20)}, 0, 2)", rows={"0": [(0, 2, 10)]}),
        ),
    ),
    Scenario(
        "requests that cannot be compiled do not disturb the others",
        (
            Ask(f"window({FULL}, 0, 0)", Code.MALFORMED),
            Ask("atom(", Code.MALFORMED),
            Ask(f"window({FULL}, 0, 1)", rows={"0": [(0, 1, 10)]}),
        ),
    ),
    Scenario(
        "a weight of nothing is a request like any other",
        (
            Ask(f"window({atom(5, 5, 1, 5)}, 0, 1)", rows={"0": [(0, 1, 5)]}, weight=0.0),
            Ask(f"window({atom(5, 5, 1, 5)}, 0, 1)", rows={"0": [(0, 1, 5)]}),
        ),
    ),
    Scenario("no requests at all", ()),
)


def ruled(*policies: CapacityOverTime | Quota, steps: int = 100, **rest: object) -> Cluster:
    """Return ten cores under policies."""
    return cluster(steps=steps, policies=policies, **rest)


EACH = Scope(tenant="*")
HALF = ruled(CapacityOverTime("share", EACH, instant=Decimal("0.5")))
QUARTER = ruled(CapacityOverTime("mean", EACH, average=Decimal("0.25"), window_ms=20 * SECOND))
OFFICE = cluster(
    steps=24,
    step_ms=HOUR,
    origin=datetime(2026, 1, 5, tzinfo=UTC),
    policies=(Quota("office", EACH, (("cpu", 2000),), time(8), time(18)),),
)
POLICIES = (
    Scenario(
        "a quota of five cores",
        (
            Ask(atom(6, 6, 1, 6), Code.QUOTA),
            Ask(f"window({atom(1, 10, 1, 10)}, 0, 2)", rows={"0": [(0, 2, 5)]}),
        ),
        ruled(Quota("five", EACH, (("cpu", 5000),))),
    ),
    Scenario(
        "each tenant half, whatever the others leave",
        (
            Ask(f"window({atom(1, 10, 1, 10)}, 0, 2)", rows={"0": [(0, 2, 5)]}, tenant="ads"),
            Ask(f"window({atom(1, 4, 1, 8)}, 0, 2)", rows={"0": [(0, 2, 4)]}, tenant="ml"),
            Ask(f"window({UNIT}, 0, 2)", Code.CAPACITY_OVER_TIME, tenant="ads", submitted=0.5),
        ),
        HALF,
    ),
    Scenario(
        "outside office hours there is more",
        (
            Ask("window(atom(<1 cpu>, 3, 3, 1h, 3h), 8h, 18h)", Code.QUOTA),
            Ask("window(atom(<1 cpu>, 10, 10, 1h, 10h), 7h, 9h)", rows={"0": [(7, 8, 10)]}),
        ),
        OFFICE,
    ),
    Scenario(
        "a quarter on average is all for a quarter of the window",
        (
            Ask(f"window({atom(10, 10, 5, 50)}, 40, 45)", rows={"0": [(40, 45, 10)]}),
            Ask(f"window({UNIT}, 40, 60)", Code.CAPACITY_OVER_TIME, submitted=0.5),
            Ask(f"window({UNIT}, 45, 60)", Code.CAPACITY_OVER_TIME, submitted=0.5),
            Ask(
                f"window({atom(10, 10, 1, 10)}, 60, 61)", rows={"0": [(60, 61, 10)]}, submitted=0.5
            ),
        ),
        QUARTER,
    ),
    Scenario(
        "more than the average in any window",
        (Ask(f"window({atom(10, 10, 6, 60)}, 0, 90)", Code.CAPACITY_OVER_TIME),),
        QUARTER,
    ),
)
