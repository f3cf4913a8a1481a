"""Which machines take promised pods, and which are used by others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from dispatch.backends.kubernetes.cluster import ClusterView, KubernetesCluster, machine_report
from dispatch.backends.kubernetes.records import GATE, KubernetesJob, KubernetesNode, KubernetesPod

_PROMISED = 1_000_000
_SIZES = {"n-0": {"cpu": 3500}, "n-1": {"cpu": 3500}}
_LATER_MS = 60_000


def pod(
    name: str,
    cpu: int,
    *,
    priority: int = 0,
    job: str = "",
    daemon: bool = False,
    leaves_s: int | None = None,
) -> KubernetesPod:
    return KubernetesPod(
        name, "ads", name, "1", job, "a", "", (), leaves_s, daemon, priority, {"cpu": cpu}
    )


def taken(
    pods: list[KubernetesPod], planned: int = 0, priority: int | None = _PROMISED
) -> dict[str, dict[str, int]]:
    """Return what pods on node `a`, which is n-0, take for longer than a moment."""
    nodes = {
        f"n-{index}": KubernetesNode(name, f"n-{index}", {"cpu": 4000}, {}, "")
        for index, name in enumerate("ab")
    }
    view = ClusterView({}, tuple(pods), nodes)
    cluster = object.__new__(KubernetesCluster)
    cluster._priority, cluster._others = priority, {}
    plan = {"job": {"n-0": planned}}
    assert cluster.taken_amounts(view, _SIZES, plan, 0, 0) == {}
    return cluster.taken_amounts(view, _SIZES, plan, _LATER_MS, _LATER_MS / 1000)


def test_pods_that_promised_ones_preempt_take_nothing() -> None:
    assert taken([pod("web", 4000, priority=_PROMISED - 1)]) == {}
    assert taken([pod("web", 1000, priority=_PROMISED)]) == {"n-0": {"cpu": 500}}
    assert taken([pod("web", 5000, priority=_PROMISED)]) == {"n-0": {"cpu": 3500}}
    # Without the class nothing yields.
    assert taken([pod("web", 4000)], priority=None) == {"n-0": {"cpu": 3500}}


def test_daemons_have_what_the_import_left_them() -> None:
    assert taken([pod("logs", 500, daemon=True)]) == {}
    pods = [pod("logs", 500, daemon=True), pod("net", 1, daemon=True)]
    assert taken(pods) == {"n-0": {"cpu": 1}}


def test_pods_of_a_job_take_nothing_where_the_plan_has_them() -> None:
    pods = [pod(name, 1500, priority=_PROMISED, job="job") for name in ("one", "two")]
    assert taken(pods, planned=2) == {}
    assert taken(pods, planned=1) == {"n-0": {"cpu": 1000}}


def test_pods_that_are_being_deleted_have_their_own_time_to_end() -> None:
    assert taken([pod("db", 4000, priority=_PROMISED, leaves_s=600)]) == {}
    late = [pod("db", 4000, priority=_PROMISED, leaves_s=0)]
    assert taken(late) == {"n-0": {"cpu": 3500}}


class Api:
    """Keeps the calls that it gets."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    def call(self, method: str, path: str, body: Any) -> Any:
        self.bodies.append(body)
        return {"metadata": {"uid": "gone"}}


def test_a_pod_keeps_the_gates_of_others() -> None:
    api = Api()
    gated = replace(pod("one", 1), gates=("quota", GATE))
    KubernetesCluster(cast("Any", api), lambda: None).place(gated, "n-0")
    assert api.bodies[0]["spec"]["schedulingGates"] == [{"name": "quota"}]


@pytest.mark.parametrize("end", ["-", "."])
def test_an_event_of_a_job_with_a_long_name_has_a_valid_name(end: str) -> None:
    api = Api()
    job = KubernetesJob("u", "ads", f"{'j' * 39}{end}x", "7", 0, {}, True, 4, 4, None, {})
    KubernetesCluster(cast("Any", api), lambda: None).report(job, "Promised", "it is")
    assert api.bodies[0]["metadata"]["generateName"] == f"{'j' * 39}."


def test_machines_without_a_node_that_takes_pods_are_lost() -> None:
    nodes = {
        "n-0": KubernetesNode("a", "n-0", {}, {}, ""),
        "n-1": KubernetesNode("b", "n-1", {}, {}, "is cordoned"),
    }
    report = machine_report(ClusterView({}, (), nodes), ["n-0", "n-1", "n-2"], 7)
    assert report.live == {"n-0"}
    assert report.lost == {"n-1": 7, "n-2": 7}
