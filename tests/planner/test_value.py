"""Sizes and values are core-hours that do not depend on how many machines there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.metrics import measure, outcome_of
from planner.placement import Code, PlacementResult
from planner.plan.plan import Plan
from planner.value import cores_of, value_asked
from rdl.resources import Resources
from tests.builders import a_cluster, a_request

_TEXTS = (
    "atom(<1 cpu>, 1, 2, 4, 8)",
    "atom(<1 cpu, 6 GiB memory>, 2, 2, 4, 8)",
    "order(atom(<1 cpu, 1 gpu>, 1, 1, 4, 4), atom(<2 cpu>, 1, 2, 2, 4))",
)


def _cluster(plain: int, gpu: int = 1) -> Cluster:
    return (
        a_cluster()
        .horizon(60)
        .machines("plain", plain, cpu=8, memory=32 * 1024)
        .machines("gpu", gpu, cpu=8, memory=64 * 1024, gpu=4)
        .build()
    )


@pytest.mark.parametrize("text", _TEXTS)
def test_machines_that_come_or_go_change_no_value(text: str) -> None:
    """D9: the same request is worth the same on 8, 12 and 16 machines, and alongside more GPUs."""
    values = [
        value_asked(a_request("r", text).on(cluster), cluster.reference)
        for cluster in (_cluster(8), _cluster(12), _cluster(16), _cluster(8, gpu=3))
    ]
    assert values == [values[0]] * 4
    assert values[0] > 0


@pytest.mark.parametrize(
    ("bundle", "cores"),
    [
        ({"cpu": 3000}, 3.0),
        ({"cpu": 1000, "memory": 16 * 1024}, 2.0),
        ({"cpu": 1000, "gpu": 1}, 2.0),
        ({"cpu": 1000, "fpga": 1}, 1.0),
    ],
)
def test_a_bundle_counts_as_the_cores_of_its_dominant_share(
    bundle: dict[str, int], cores: float
) -> None:
    """Of a machine with the most of each resource; what no machine has is left out."""
    assert cores_of(Resources.of(bundle), _cluster(8).reference) == cores


def test_without_cores_machines_are_counted() -> None:
    """Half a machine of a cluster that has GPUs alone."""
    assert cores_of(Resources.of({"gpu": 2}), Resources.of({"gpu": 4})) == 0.5


@given(st.lists(st.sampled_from(_TEXTS), min_size=1, max_size=6), st.data())
def test_fewer_accepted_are_never_worth_more(texts: list[str], data: st.DataObject) -> None:
    """Whoever is left out of what was accepted: the value of the rest falls or stays."""
    cluster = _cluster(2)
    requests = [a_request(f"r{i}", text).on(cluster) for i, text in enumerate(texts)]
    view = Plan(cluster, cluster.grid()).view()
    results = agent_named("headroom").plan(requests, view, Limits())
    fewer = [
        result if data.draw(st.booleans()) else PlacementResult(Code.CAPACITY, "left out")
        for result in results
    ]
    whole, part = (
        measure(
            [outcome_of(*pair, cluster.reference) for pair in zip(requests, answers, strict=True)],
            cluster.nominal,
            60,
        )
        for answers in (results, fewer)
    )
    assert part.accepted <= whole.accepted
    assert part.value <= whole.value
