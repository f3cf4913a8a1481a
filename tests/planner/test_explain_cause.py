"""What lies behind a shortage is part of the refusal: machines away, a cluster too small."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from planner.agents import agent_named
from planner.cluster.cluster import Cluster, MachineGroup, Outage, Taken
from planner.files.workload_file import WorkloadLine
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_from_nothing
from rdl.resources import Resources

HOUR = 3_600_000
MACHINES = MachineGroup("n", 8, Resources.of({"cpu": 16_000}))
AWAY = Outage(
    "n", tuple(range(8)), 2 * HOUR, 4 * HOUR, "maintenance", "o-ec71", "new switch", "ann"
)
FEW = Outage("n", (7,), 2 * HOUR, 4 * HOUR, "maintenance", "o-few")


def _refused(text: str, *outages: Outage, taken: tuple[Taken, ...] = ()) -> str:
    origin = datetime(2026, 11, 28, tzinfo=UTC)
    cluster = Cluster(60_000, 24 * HOUR, (MACHINES,), origin, outages=outages, taken=taken)
    compiled = compile_workload([WorkloadLine("cross", text)], cluster)
    plan = plan_from_nothing(cluster, compiled, agent_named("gree")).plan
    (refusal,) = plan.refusals.values() if hasattr(plan.refusals, "values") else plan.refusals
    return refusal.detail


@pytest.mark.parametrize(
    ("text", "outages", "cause"),
    [
        ("window(atom(<16 cpu>, 8, 8, 3h, 24h), +0, +5h)", (AWAY,),
         "8 machines of n are away for maintenance 'new switch' (o-ec71) by ann, "
         "Sat 2026-11-28 02:00 to 04:00 (UTC)"),
        ("window(atom(<1 cpu>, 8, 8, 3h, 24h), +0, +5h)", (AWAY,), "(o-ec71) by ann"),
        ("window(atom(<1 cpu>, 256, 256, 1h, 256h), +0, +5h)", (FEW,), "cluster"),
        ("window(atom(<9 cpu>, 9, 9, 1h, 9h), +0, +5h)", (), "cluster together hold 8"),
    ],
)  # fmt: skip
def test_a_refusal_names_what_is_behind_it(
    text: str, outages: tuple[Outage, ...], cause: str
) -> None:
    """Maintenance with its id and end; what all machines have where it is never enough."""
    assert cause in _refused(text, *outages)


def test_an_outage_that_changes_nothing_is_not_blamed() -> None:
    """With its one machine it would not fit either."""
    assert "o-few" not in _refused("window(atom(<1 cpu>, 256, 256, 1h, 256h), +0, +5h)", FEW)


def test_the_cluster_has_what_others_leave() -> None:
    taken = (("n-3", Resources.of({"cpu": 8000})),)
    text = "window(atom(<9 cpu>, 8, 8, 1h, 8h), +0, +5h)"
    assert "cluster together hold 7" in _refused(text, taken=taken)
