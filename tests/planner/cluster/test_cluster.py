"""The cluster: capacity over time, fit caps, and what it refuses to be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cluster.calendar import calendar_of
from planner.cluster.cluster import Cluster, ClusterError, MachineGroup, Outage, Queue
from planner.files import cluster_from_json, cluster_to_json
from rdl.resources import Resources
from tests.builders import a_cluster

ONE = Resources.of({"cpu": 1000})


def _steps(cluster: Cluster, resource: str, label: str | None = None) -> list[int]:
    calendar = calendar_of(cluster, 0, cluster.horizon_ms // cluster.step_ms)
    breaks, values = calendar.breaks, calendar.capacity(resource, label)
    return np.repeat(values, np.diff(breaks)).tolist()


def test_capacity_is_the_sum_of_groups_less_outages() -> None:
    """Two groups and an outage of one machine of the second for the middle step."""
    cluster = (
        a_cluster()
        .horizon("3s")
        .machines("small", 2, cpu=1)
        .machines("large", 3, cpu=4)
        .outage("large", 1, 1, 2)
        .build()
    )
    assert _steps(cluster, "cpu") == [14000, 10000, 14000]


def test_nominal_counts_all_machines_and_no_outages() -> None:
    """Policies and shares are measured against what was bought, not what is up."""
    cluster = a_cluster().machines("m", 3, cpu=4, memory="1 GiB").outage("m", 3, 0, 800).build()
    assert dict(cluster.nominal) == {"cpu": 12000, "memory": 3072}


def test_capacity_of_a_label_counts_only_its_machines() -> None:
    """Machines without the label add nothing."""
    cluster = a_cluster().machines("a", 2, ("ssd",), cpu=1).machines("b", 5, cpu=1).build()
    assert set(_steps(cluster, "cpu", "ssd")) == {2000}
    assert set(_steps(cluster, "cpu", "nowhere")) == {0}


def test_overlapping_outages_of_one_machine_count_once() -> None:
    """The union of the machines away is away, not the sum."""
    group = MachineGroup("m", 4, ONE)
    outages = (Outage("m", (3,), 0, 4000), Outage("m", (2, 3), 2000, 6000))
    cluster = Cluster(1000, 8000, (group,), outages=outages)
    assert _steps(cluster, "cpu") == [3000, 3000, 2000, 2000, 2000, 2000, 4000, 4000]


def test_an_outage_takes_every_step_it_touches() -> None:
    """Capacity is rounded down: half a step away is a step away."""
    cluster = a_cluster().horizon("4s").machines("m", 1, cpu=1).outage("m", 1, 0.5, 1.5).build()
    assert _steps(cluster, "cpu") == [0, 0, 1000, 1000]


def test_fit_caps_count_machine_by_machine() -> None:
    """Ten GPU machines among 400 plain ones make 20 places for <1 gpu, 16 cpu>, not more."""
    cluster = a_cluster().machines("plain", 400, cpu=32).machines("gpu", 10, cpu=32, gpu=4).build()
    calendar = calendar_of(cluster, 0, 800)
    assert calendar.fit(Resources.of({"cpu": 16000, "gpu": 1})).tolist() == [20]
    assert calendar.fit(Resources.of({"cpu": 33000})).tolist() == [0]


def test_a_segment_starts_wherever_machines_come_or_go() -> None:
    """Breaks are the ends of the horizon and of the outages inside it."""
    cluster = a_cluster().machines("m", 2, cpu=1).outage("m", 1, 100, 200).build()
    assert calendar_of(cluster, 0, 800).breaks.tolist() == [0, 100, 200, 800]
    assert calendar_of(cluster, 150, 800).breaks.tolist() == [150, 200, 800]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 6), st.sets(st.integers(0, 4), min_size=1)),
        max_size=5,
    )
)
def test_capacity_equals_counting_machines_step_by_step(
    outages: list[tuple[int, int, set[int]]],
) -> None:
    """The sweep agrees with asking at each step which machines are down."""
    away = tuple(
        Outage("m", tuple(sorted(indices)), start * 1000, (start + length) * 1000)
        for start, length, indices in outages
    )
    cluster = Cluster(1000, 12_000, (MachineGroup("m", 5, ONE),), outages=away)
    for step, amount in enumerate(_steps(cluster, "cpu")):
        down = {i for s, n, indices in outages if s <= step < s + n for i in indices}
        assert amount == 1000 * (5 - len(down))


def test_prices_hold_on_their_steps_and_are_one_elsewhere() -> None:
    """A price covers [start, end) in steps; the later entry wins."""
    cluster = a_cluster().horizon("4s").build()
    from planner.cluster.cluster import Price

    priced = Cluster(
        1000, 4000, cluster.machines, prices=(Price(0, 3000, 2.0), Price(1000, 2000, 3.0))
    )
    assert priced.price_factors(priced.grid()).tolist() == [2.0, 3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machines": (MachineGroup("m", 1, ONE),) * 2}, "machine group 'm' is given twice"),
        ({"queues": (Queue("q"), Queue("q"))}, "queue 'q' is given twice"),
        ({"horizon_ms": 10}, "shorter than a step"),
        ({"outages": (Outage("x", (0,), 0, 1),)}, "unknown machines 'x'"),
        ({"outages": (Outage("m", (9,), 0, 1),)}, "outside m-0"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    """Names are unique and known, and the horizon holds a step."""
    keys: dict[str, object] = {
        "step_ms": 1000,
        "horizon_ms": 9000,
        "machines": (MachineGroup("m", 2, ONE),),
    }
    with pytest.raises(ClusterError, match=message):
        Cluster(**{**keys, **changes})  # type: ignore[arg-type]


def test_a_quota_at_times_of_day_needs_an_origin() -> None:
    """Without an origin no one can say when a day starts."""
    builder = a_cluster().policy("quota", name="day", limit={"cpu": 1}, start="08:00", end="18:00")
    with pytest.raises(ClusterError, match="give the cluster an origin"):
        builder.build().grid()
    assert builder.origin("2026-01-05T00:00:00Z").build().grid().origin is not None


def test_every_outage_has_an_id_of_its_own() -> None:
    """One without gets one; of the parts of one that was divided the last to end keeps it."""
    whole = Outage("m", (2, 3), 0, 8000, "loss", "o-1")
    parts = (replace(whole, indices=(2,), end_ms=4000), replace(whole, indices=(3,)))
    plain = Outage("m", (0,), 0, 4000)
    gone = replace(whole, indices=(5, 6))
    group = MachineGroup("m", 4, ONE)
    cluster = Cluster(1000, 8000, (group,), outages=(*parts, plain, plain), absent=(gone,))
    ids = [one.id for one in cluster.outages]
    assert ids[1] == "o-1"
    assert len(set(ids)) == 4
    assert [one.id for one in cluster.absent] == ["o-1"]
    described = cluster_to_json(cluster)
    read = cluster_from_json(described)
    assert read == cluster
    assert [one.id for one in read.outages] == ids
    assert [one.id for one in read.absent] == ["o-1"]
