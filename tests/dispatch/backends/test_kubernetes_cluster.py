"""Which machines take promised pods, and which are used by others."""

from __future__ import annotations

from dispatch.backends.kubernetes.cluster import ClusterView, KubernetesCluster, machine_report
from dispatch.backends.kubernetes.records import KubernetesNode, KubernetesPod

_PROMISED = 1_000_000
_SIZES = {"n-0": {"cpu": 3500}, "n-1": {"cpu": 3500}}
_LATER_MS = 60_000


def pod(
    name: str, cpu: int, *, priority: int = 0, job: str = "", daemon: bool = False
) -> KubernetesPod:
    return KubernetesPod(
        name, "ads", name, "1", job, "a", "", False, False, daemon, priority, {"cpu": cpu}
    )


def taken(
    pods: list[KubernetesPod], planned: int = 0, priority: int | None = _PROMISED
) -> set[str]:
    """Return the machines that pods on node `a`, which is n-0, take for longer than a moment."""
    nodes = {
        f"n-{index}": KubernetesNode(name, f"n-{index}", {"cpu": 4000}, {}, "")
        for index, name in enumerate("ab")
    }
    view = ClusterView({}, tuple(pods), nodes)
    cluster = object.__new__(KubernetesCluster)
    cluster._priority, cluster._taken = priority, {}
    plan = {"job": {"n-0": planned}}
    assert cluster.taken_machines(view, _SIZES, plan, 0) == {}
    return set(cluster.taken_machines(view, _SIZES, plan, _LATER_MS))


def test_pods_that_promised_ones_preempt_take_nothing() -> None:
    assert taken([pod("web", 4000, priority=_PROMISED - 1)]) == set()
    assert taken([pod("web", 4000, priority=_PROMISED)]) == {"n-0"}
    assert taken([pod("web", 4000)], priority=None) == {"n-0"}  # without the class nothing yields


def test_daemons_have_what_the_import_left_them() -> None:
    assert taken([pod("logs", 500, daemon=True)]) == set()
    assert taken([pod("logs", 500, daemon=True), pod("net", 1, daemon=True)]) == {"n-0"}


def test_pods_of_a_job_take_nothing_where_the_plan_has_them() -> None:
    pods = [pod(name, 1500, priority=_PROMISED, job="job") for name in ("one", "two")]
    assert taken(pods, planned=2) == set()
    assert taken(pods, planned=1) == {"n-0"}


def test_machines_without_a_node_that_takes_pods_are_lost() -> None:
    nodes = {
        "n-0": KubernetesNode("a", "n-0", {}, {}, ""),
        "n-1": KubernetesNode("b", "n-1", {}, {}, "is cordoned"),
    }
    report = machine_report(ClusterView({}, (), nodes), ["n-0", "n-1", "n-2"], 7)
    assert report.live == {"n-0"}
    assert report.lost == {"n-1": 7, "n-2": 7}
