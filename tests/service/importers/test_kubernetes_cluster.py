"""The nodes of a Kubernetes cluster as a cluster file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dispatch.backends.kubernetes.records import KubernetesNode, KubernetesPod
from planner.cluster.cluster import Cluster
from planner.files import read_cluster
from service.importers.kubernetes_cluster import ImportedNodes, import_nodes

_GRID_S = (60, 86_400, 1_796_040_030)


def node(name: str, machine: str = "", cpu: int = 4000, **labels: str) -> KubernetesNode:
    return KubernetesNode(name, machine, {"cpu": cpu, "memory": 8192, "x/gpu": 2}, labels, "")


def daemon(on: str, cpu: int) -> KubernetesPod:
    return KubernetesPod(on, "kube-system", on, "1", "", on, "", (), None, True, 0, {"cpu": cpu})


def read(found: ImportedNodes, folder: Path) -> Cluster:
    path = folder / "cluster.toml"
    path.write_text(found.cluster)
    return read_cluster(path)


def test_identical_nodes_are_a_group_with_what_daemons_leave(tmp_path: Path) -> None:
    nodes = [node("a"), node("b"), node("c", disk="ssd")]
    found = import_nodes(nodes, [daemon(one, 500) for one in "abc"], ["disk"], None, _GRID_S)
    assert found.machines == {"node-0": "a", "node-1": "b", "node2-0": "c"}
    plain, ssd = read(found, tmp_path).machines
    assert (plain.count, ssd.count) == (2, 1)
    assert dict(plain.resources) == {"cpu": 3500, "memory": 8192, "x/gpu": 2}
    assert (plain.labels, ssd.labels) == (frozenset(), {"disk-ssd"})


def test_tainted_nodes_are_left_out_and_cordoned_ones_are_not(tmp_path: Path) -> None:
    tainted = replace(node("a"), why_away="has the taint gpu")
    cordoned = replace(node("b"), why_away="is cordoned")
    found = import_nodes([tainted, cordoned], [], [], None, _GRID_S)
    assert found.machines == {"node-0": "b"}
    assert found.left_out == {"a": "has the taint gpu"}
    with pytest.raises(ValueError, match="nodes have a taint"):
        import_nodes([tainted], [], [], None, _GRID_S)


def test_nodes_keep_their_machines_and_new_ones_take_those_of_nodes_that_are_gone(
    tmp_path: Path,
) -> None:
    first = import_nodes([node(one) for one in "abc"], [], [], None, _GRID_S)
    before = read(first, tmp_path)
    nodes = [node("c", "node-2"), node("a", "node-0"), node("d"), node("e"), node("f", cpu=1000)]
    again = import_nodes(nodes, [], [], before, (60, 86_400, _GRID_S[2] + 9_999))
    assert again.machines == {
        "node-0": "a", "node-1": "d", "node-2": "c", "node-3": "e", "node2-0": "f",
    }  # fmt: skip
    after = read(again, tmp_path)
    assert [group.count for group in after.machines] == [4, 1]
    assert after.origin == before.origin


def test_a_node_that_has_changed_is_refused(tmp_path: Path) -> None:
    before = read(import_nodes([node("a")], [], [], None, _GRID_S), tmp_path)
    with pytest.raises(ValueError, match="node-0"):
        import_nodes([node("a", "node-0", cpu=8000)], [], [], before, _GRID_S)
