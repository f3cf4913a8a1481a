"""What a skyline shows, as arrays: allocation by tenant and time under capacity, per resource.

However many reservations a Plan holds, a picture has at most `LAYERS` layers of at most `COLUMNS`
columns: tenants beyond the largest share one layer, and steps beyond that many are averaged, which
keeps areas (work) exact.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.cluster.calendar import calendar_of
from planner.cluster.cluster import Cluster
from planner.files import cluster_from_json
from rdl.resources import CPU, Resources

Floats = NDArray[np.float64]

COLUMNS = 360
LAYERS = 10
PANELS = 4
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Panel:
    """One resource over time.

    Attributes
    ----------
    resource
        Canonical name.
    capacity
        float64[columns]: amount the machines offer, outages taken off, mean over the column.
    used
        float64[layers, columns]: amount each layer holds, mean over the column.
    """

    resource: str
    capacity: Floats
    used: Floats


@dataclass(frozen=True, slots=True)
class Layer:
    """One colour of the picture: a tenant, or all the smaller ones together."""

    name: str
    accepted: int
    requests: int


@dataclass(frozen=True, slots=True)
class SkylineData:
    """A Plan, reduced to what is drawn.

    Attributes
    ----------
    edges
        float64[columns + 1]: seconds from the origin; the last column may be shorter.
    steps_per_column
        How many steps a column averages; 1 when nothing is averaged.
    layers
        Largest first, at the bottom of the stack.
    panels
        At most `PANELS` resources, the most used first; those that nobody uses are left out.
    refusals
        The refusals of the document, as they stand there.
    codes
        (code, how many), most frequent first.
    """

    edges: Floats
    steps_per_column: int
    layers: tuple[Layer, ...]
    panels: tuple[Panel, ...]
    refusals: tuple[Mapping[str, object], ...]
    codes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _TimeColumns:
    """Steps [0, horizon) in columns of `per` steps each, the last one shorter."""

    step_ms: int
    horizon: int
    per: int

    @classmethod
    def of(cls, cluster: Cluster) -> _TimeColumns:
        grid = cluster.grid()
        return cls(grid.step_ms, grid.horizon, -(-grid.horizon // COLUMNS))

    @property
    def starts(self) -> NDArray[np.int64]:
        return np.arange(0, self.horizon, self.per, dtype=np.int64)

    @property
    def edges(self) -> Floats:
        ends = np.append(self.starts, self.horizon)
        return ends.astype(np.float64) * self.step_ms / 1000.0

    def mean(self, steps: NDArray[np.int64]) -> Floats:
        """Return float64[columns]: the mean of int64[horizon] over each column."""
        sums = np.add.reduceat(steps, self.starts).astype(np.float64)
        lengths = np.diff(np.append(self.starts, self.horizon))
        return np.asarray(sums / lengths)


def tenant_order(documents: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the tenants of several Plans of one cluster, whoever holds most in all of them first:
    the order in which pictures beside each other stack and colour them alike."""
    total: dict[str, float] = defaultdict(float)
    for document in documents:
        cluster = cluster_from_json(document["cluster"])
        use = _use_by_tenant(_objects(document, "reservations"), cluster, _TimeColumns.of(cluster))
        for tenant, share in _shares(use, cluster).items():
            total[tenant] += share
    return sorted(total, key=lambda tenant: (-total[tenant], tenant))


def skyline_data(
    document: Mapping[str, object], tenants: Sequence[str] | None = None
) -> SkylineData:
    """Reduce a Plan document (files.md) to what a skyline shows.

    Parameters
    ----------
    tenants
        Order of the layers, where it is given from outside; all that hold anything must be in it.

    Raises
    ------
    planner.files.FileError
        If the cluster inside the document is not one.
    """
    cluster = cluster_from_json(document["cluster"])
    columns = _TimeColumns.of(cluster)
    reservations = _objects(document, "reservations")
    refusals = _objects(document, "refusals")
    use = _use_by_tenant(reservations, cluster, columns)
    shares = _shares(use, cluster)
    order = tenants or sorted(shares, key=lambda tenant: (-shares[tenant], tenant))
    layers, members = _layers(order, reservations, refusals)
    panels = _panels(use, members, cluster, columns)
    counted = Counter(str(refusal["code"]) for refusal in refusals)
    codes = tuple(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))
    return SkylineData(columns.edges, columns.per, layers, panels, tuple(refusals), codes)


def _objects(document: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    values = document[key]
    assert isinstance(values, list)
    return values


def _use_by_tenant(
    reservations: Sequence[Mapping[str, object]], cluster: Cluster, columns: _TimeColumns
) -> dict[tuple[str, str], NDArray[np.int64]]:
    """Return int64[horizon] by (tenant, resource): amounts held at each step."""
    changes: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
    for reservation in reservations:
        tenant = str(reservation["tenant"])
        for bundle, start, end, count in _rows(reservation, columns):
            for resource, amount in bundle.items():
                changes[tenant, resource].append((start, end, amount * count))
    use = {}
    for key, rows in changes.items():
        starts, ends, amounts = np.array(rows, dtype=np.int64).T
        difference = np.zeros(columns.horizon + 1, dtype=np.int64)
        np.add.at(difference, np.clip(starts, 0, columns.horizon), amounts)
        np.subtract.at(difference, np.clip(ends, 0, columns.horizon), amounts)
        use[key] = np.cumsum(difference[:-1])
    return use


def _rows(
    reservation: Mapping[str, object], columns: _TimeColumns
) -> Iterator[tuple[Resources, int, int, int]]:
    """Yield (bundle, start step, end step, bundles); what was released is no longer held."""
    atoms = reservation["atoms"]
    assert isinstance(atoms, list)
    for atom in atoms:
        bundle = Resources.from_json(atom["bundle"])
        for start_s, end_s, count in atom["allocation"]:
            start = round(start_s * 1000) // columns.step_ms
            end = round(end_s * 1000) // columns.step_ms
            yield bundle, start, end, count


def _shares(use: Mapping[tuple[str, str], NDArray[np.int64]], cluster: Cluster) -> dict[str, float]:
    """Return what each tenant holds, as its largest share of any resource over the horizon."""
    shares: dict[str, float] = defaultdict(float)
    for (tenant, resource), steps in use.items():
        whole = cluster.nominal.get(resource, 0)
        share = float(steps.sum()) / whole if whole else 0.0
        shares[tenant] = max(shares[tenant], share)
    return shares


def _layers(
    order: Sequence[str],
    reservations: Sequence[Mapping[str, object]],
    refusals: Sequence[Mapping[str, object]],
) -> tuple[tuple[Layer, ...], tuple[tuple[str, ...], ...]]:
    """Return the layers and the tenants in each; tenants without allocation have no layer."""
    accepted = Counter(str(reservation["tenant"]) for reservation in reservations)
    refused = Counter(str(refusal["tenant"]) for refusal in refusals)
    alone = order if len(order) <= LAYERS else order[: LAYERS - 1]
    groups: list[tuple[str, tuple[str, ...]]] = [(tenant, (tenant,)) for tenant in alone]
    rest = tuple(order[len(alone) :])
    if rest:
        groups.append((f"{OTHERS} ({len(rest)})", rest))
    layers = []
    for name, tenants in groups:
        kept = sum(accepted[tenant] for tenant in tenants)
        layers.append(Layer(name, kept, kept + sum(refused[tenant] for tenant in tenants)))
    return tuple(layers), tuple(tenants for _, tenants in groups)


def _panels(
    use: Mapping[tuple[str, str], NDArray[np.int64]],
    members: Sequence[Sequence[str]],
    cluster: Cluster,
    columns: _TimeColumns,
) -> tuple[Panel, ...]:
    panels = []
    # A cluster without a single machine still has a picture: empty, under a line at zero.
    for resource in cluster.resources or (CPU,):
        capacity = columns.mean(_capacity_steps(cluster, resource, columns.horizon))
        used = np.zeros((len(members), len(capacity)))
        for index, tenants in enumerate(members):
            for tenant in tenants:
                if (tenant, resource) in use:
                    used[index] += columns.mean(use[tenant, resource])
        panels.append(Panel(resource, capacity, used))
    panels.sort(key=lambda panel: -float(panel.used.sum() / max(1.0, panel.capacity.sum())))
    used_at_all = [panel for panel in panels if panel.used.any()] or panels
    return tuple(used_at_all[:PANELS])


def _capacity_steps(cluster: Cluster, resource: str, horizon: int) -> NDArray[np.int64]:
    calendar = calendar_of(cluster, 0, cluster.horizon_ms // cluster.step_ms)
    breaks, values = calendar.breaks, calendar.capacity(resource)
    inside = np.clip(breaks, 0, horizon)
    return np.repeat(values, np.diff(inside)).astype(np.int64)
