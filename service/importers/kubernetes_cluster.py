"""Import the nodes of a Kubernetes cluster as a cluster file: groups of identical machines.

A machine has what a node can allocate, without what its daemons request. Which node is which
machine is a label of the node: a node keeps its machine at a later import, and a new node takes the
machine of one that is gone, or comes after all others. Nodes with a taint are left out, because
only pods that tolerate it may run there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dispatch.backends.kubernetes.records import KubernetesNode, KubernetesPod, label_of
from planner.cluster.cluster import Cluster
from rdl.durations import instant_of_epoch_ms, rfc3339_text
from rdl.resources import CPU, MEMORY, Resources

#: Labels of nodes that become labels of machines, in addition to those that are asked for.
LABELS: Final = (
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
)

#: What nodes of one group have in common: resources, labels.
_Kind = tuple[Resources, frozenset[str]]


@dataclass(frozen=True, slots=True)
class ImportedNodes:
    """The result of the import.

    Attributes
    ----------
    cluster
        Text of the cluster file.
    machines
        The node of each machine.
    left_out
        Nodes that are no machines, and why.
    """

    cluster: str
    machines: Mapping[str, str]
    left_out: Mapping[str, str]


def import_nodes(
    nodes: Sequence[KubernetesNode],
    pods: Iterable[KubernetesPod],
    labels: Collection[str],
    previous: Cluster | None,
    grid_s: tuple[int, int, int],
) -> ImportedNodes:
    """Return a cluster file for nodes.

    Parameters
    ----------
    pods
        All pods: those of daemons stay on their nodes.
    labels
        Keys of labels that requests select by, in addition to `LABELS`.
    previous
        The cluster of an earlier import, whose groups stay.
    grid_s
        Step, horizon and origin (Unix time) of a new cluster file, s; of an earlier one the origin
        stays.

    Raises
    ------
    ValueError
        If there are no nodes, or a node has changed so that it would be another machine.
    """
    daemons: dict[str, list[KubernetesPod]] = {}
    for pod in pods:
        if pod.is_daemon and pod.node:
            daemons.setdefault(pod.node, []).append(pod)
    left_out = {
        node.name: node.why_away
        for node in nodes
        if not node.machine and node.why_away.startswith("has the taint")
    }
    planned = [node for node in nodes if node.name not in left_out]
    if not planned:
        raise ValueError(f"all {len(nodes)} nodes have a taint")
    wanted = {*LABELS, *labels}
    kinds = {node.name: _kind(node, daemons.get(node.name, ()), wanted) for node in planned}
    groups: dict[str, _Kind] = {}
    counts: dict[str, int] = {}
    for group in previous.machines if previous else ():
        groups[group.name], counts[group.name] = (group.resources, group.labels), group.count
    machines: dict[str, str] = {}
    for node in sorted(planned, key=lambda one: (not one.machine, one.name)):
        kind = kinds[node.name]
        if node.machine:
            name, _, index = node.machine.rpartition("-")
            if groups.setdefault(name, kind) != kind:
                raise ValueError(
                    f"node {node.name} is machine {node.machine}, and its size or labels are not "
                    f"those of group {name} any more: remove its label agenda/machine, and import "
                    "again"
                )
            counts[name] = max(counts.get(name, 0), int(index) + 1)
            machines[node.machine] = node.name
            continue
        name = next((one for one, of in groups.items() if of == kind), "")
        if not name:
            name = _new_name(groups)
            groups[name], counts[name] = kind, 0
        taken = {int(one.rpartition("-")[2]) for one in machines if one.rpartition("-")[0] == name}
        free = next(index for index in range(counts[name] + 1) if index not in taken)
        counts[name] = max(counts[name], free + 1)
        machines[f"{name}-{free}"] = node.name
    step_s, horizon_s, now_s = grid_s
    origin = previous.origin if previous else None
    began = instant_of_epoch_ms(now_s // step_s * step_s * 1000) if origin is None else origin
    lines = [
        f'step = "{step_s}s"',
        f'horizon = "{horizon_s}s"',
        f'origin = "{rfc3339_text(began)}"',
    ]
    for name, kind in groups.items():
        lines += _group_lines(name, counts[name], kind)
    return ImportedNodes("\n".join([*lines, ""]), machines, left_out)


def _kind(node: KubernetesNode, daemons: Iterable[KubernetesPod], wanted: Collection[str]) -> _Kind:
    """Return the size and the labels of a node's machine."""
    left = dict(node.allocatable)
    for pod in daemons:
        for name, count in pod.needs.items():
            left[name] = max(0, left.get(name, 0) - count)
    labels = frozenset(label_of(key, node.labels[key]) for key in wanted if key in node.labels)
    return Resources.of({name: count for name, count in left.items() if count}), labels


def _new_name(groups: Collection[str]) -> str:
    """Return a name for a group that no group has."""
    names = ("node", *(f"node{number}" for number in range(2, len(groups) + 3)))
    return next(name for name in names if name not in groups)


def _group_lines(name: str, count: int, kind: _Kind) -> list[str]:
    resources, labels = kind
    units = {CPU: "m", MEMORY: " MiB"}
    sizes = ", ".join(
        f"{json.dumps(one)} = " + (f'"{many}{units[one]}"' if one in units else str(many))
        for one, many in sorted(resources.items())
    )
    return [
        "",
        "[[machines]]",
        f'name = "{name}"',
        f"count = {count}",
        f"resources = {{ {sizes} }}",
        *([f"labels = {json.dumps(sorted(labels))}"] if labels else []),
    ]
