"""The data of a skyline as arrays: allocation by tenant and time, and capacity, per resource.

A picture has at most `LAYERS` layers of at most `COLUMNS` columns, whatever the size of the Plan:
smaller tenants share one layer, and several steps are averaged into a column, which keeps areas
(work) exact. Time ends with the last allocation, or with the horizon if that is earlier.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.cluster.calendar import calendar_of
from planner.cluster.cluster import Cluster
from planner.colours import COLOURS, tenant_slots
from planner.files import cluster_from_json
from rdl.resources import CPU, Resources

Floats = NDArray[np.float64]

COLUMNS = 360
LAYERS = len(COLOURS) + 1
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
        float64[columns]: amount of the machines without outages, mean over the column.
    used
        float64[layers, columns]: amount allocated to each layer, mean over the column.
    """

    resource: str
    capacity: Floats
    used: Floats


@dataclass(frozen=True, slots=True)
class Layer:
    """One colour of the picture: a tenant, or all smaller tenants together.

    Attributes
    ----------
    slot
        Index among the tenants (`planner.colours.tenant_slots`); None for the smaller ones.
    """

    name: str
    accepted: int
    requests: int
    slot: int | None


@dataclass(frozen=True, slots=True)
class CommonAxes:
    """Common order, colours and end of pictures that are shown next to each other.

    Attributes
    ----------
    tenants
        In the order of the layers: the largest allocation in all Plans first.
    slots
        Index of each tenant with a request in any Plan, which determines its colour.
    resources
        In the order of the panels: the most used in all Plans first.
    end_s
        The end of the last allocation in any Plan, seconds from the origin; 0 if there is none.
    """

    tenants: tuple[str, ...]
    slots: Mapping[str, int]
    resources: tuple[str, ...]
    end_s: float


@dataclass(frozen=True, slots=True)
class SkylineData:
    """A Plan, reduced to the data that is drawn.

    Attributes
    ----------
    edges
        float64[columns + 1]: seconds from the origin; the last column may be shorter.
    steps_per_column
        The number of steps that a column averages; 1: no averaging.
    layers
        Largest first, at the bottom of the stack.
    panels
        At most `PANELS` resources that are used, the most used in all Plans first.
    refusals
        The refusals of the document, unchanged.
    codes
        (code, count), most frequent first.
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
    def of(cls, cluster: Cluster, end_s: float) -> _TimeColumns:
        grid = cluster.grid()
        steps = -(-round(end_s * 1000) // grid.step_ms)
        shown = min(grid.horizon, steps) or grid.horizon
        return cls(grid.step_ms, shown, -(-shown // COLUMNS))

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


def common_axes(documents: Sequence[Mapping[str, object]]) -> CommonAxes:
    """Return common axes for pictures of several Plans of one cluster."""
    tenants: dict[str, float] = defaultdict(float)
    resources: dict[str, float] = defaultdict(float)
    end_s = max((_last_end(document) for document in documents), default=0.0)
    for document in documents:
        cluster = cluster_from_json(document["cluster"])
        columns = _TimeColumns.of(cluster, end_s)
        use = _use_by_tenant(_objects(document, "reservations"), cluster, columns)
        for tenant, share in _shares(use, cluster).items():
            tenants[tenant] += share
        for (_, resource), steps in use.items():
            whole = cluster.nominal.get(resource, 0)
            resources[resource] += float(steps.sum()) / whole if whole else 0.0
    return CommonAxes(
        tuple(sorted(tenants, key=lambda name: (-tenants[name], name))),
        _slots(documents),
        tuple(sorted(resources, key=lambda name: (-resources[name], name))),
        end_s,
    )


def _slots(documents: Sequence[Mapping[str, object]]) -> dict[str, int]:
    """Number the tenants of all Plans, including refused ones, so that the numbers agree."""
    return tenant_slots(
        str(entry["tenant"])
        for document in documents
        for key in ("reservations", "refusals")
        for entry in _objects(document, key)
    )


def _last_end(document: Mapping[str, object]) -> float:
    """Return the end of the last allocation, seconds from the origin; 0 without any."""
    last = 0.0
    for reservation in _objects(document, "reservations"):
        atoms = reservation["atoms"]
        assert isinstance(atoms, list)
        for atom in atoms:
            last = max(last, *(row[1] for row in atom["allocation"]), 0.0)
    return last


def skyline_data(document: Mapping[str, object], common: CommonAxes | None = None) -> SkylineData:
    """Reduce a Plan document (files.md) to the data of a skyline.

    Parameters
    ----------
    common
        Common axes with other pictures; they must have been computed with this document.

    Raises
    ------
    planner.files.FileError
        If the cluster in the document is invalid.
    """
    shared = common or common_axes([document])
    cluster = cluster_from_json(document["cluster"])
    columns = _TimeColumns.of(cluster, shared.end_s)
    reservations = _objects(document, "reservations")
    refusals = _objects(document, "refusals")
    use = _use_by_tenant(reservations, cluster, columns)
    layers, members = _layers(shared, reservations, refusals)
    panels = _panels(use, members, cluster, columns, shared.resources)
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
    """Return int64[horizon] by (tenant, resource): allocated amounts at each step."""
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
    """Yield (bundle, start step, end step, bundles) without released parts."""
    atoms = reservation["atoms"]
    assert isinstance(atoms, list)
    for atom in atoms:
        bundle = Resources.from_json(atom["bundle"])
        for start_s, end_s, count in atom["allocation"]:
            start = round(start_s * 1000) // columns.step_ms
            end = round(end_s * 1000) // columns.step_ms
            yield bundle, start, end, count


def _shares(use: Mapping[tuple[str, str], NDArray[np.int64]], cluster: Cluster) -> dict[str, float]:
    """Return the allocation of each tenant as its largest share of any resource."""
    shares: dict[str, float] = defaultdict(float)
    for (tenant, resource), steps in use.items():
        whole = cluster.nominal.get(resource, 0)
        share = float(steps.sum()) / whole if whole else 0.0
        shares[tenant] = max(shares[tenant], share)
    return shares


def _layers(
    shared: CommonAxes,
    reservations: Sequence[Mapping[str, object]],
    refusals: Sequence[Mapping[str, object]],
) -> tuple[tuple[Layer, ...], tuple[tuple[str, ...], ...]]:
    """Return the layers and the tenants in each; tenants without allocation have no layer."""
    accepted = Counter(str(reservation["tenant"]) for reservation in reservations)
    refused = Counter(str(refusal["tenant"]) for refusal in refusals)
    alone, rest = shared.tenants[: len(COLOURS)], shared.tenants[len(COLOURS) :]
    groups: list[tuple[str, tuple[str, ...], int | None]] = [
        (tenant, (tenant,), shared.slots[tenant]) for tenant in alone
    ]
    if rest:
        groups.append((f"{OTHERS} ({len(rest)})", rest, None))
    layers = []
    for name, tenants, slot in groups:
        kept = sum(accepted[tenant] for tenant in tenants)
        layers.append(Layer(name, kept, kept + sum(refused[tenant] for tenant in tenants), slot))
    return tuple(layers), tuple(tenants for _, tenants, _ in groups)


def _panels(
    use: Mapping[tuple[str, str], NDArray[np.int64]],
    members: Sequence[Sequence[str]],
    cluster: Cluster,
    columns: _TimeColumns,
    order: Sequence[str],
) -> tuple[Panel, ...]:
    panels = []
    # A cluster without machines also has a picture: an empty one with a capacity of zero.
    for resource in order or cluster.resources or (CPU,):
        capacity = columns.mean(_capacity_steps(cluster, resource, columns.horizon))
        used = np.zeros((len(members), len(capacity)))
        for index, tenants in enumerate(members):
            for tenant in tenants:
                if (tenant, resource) in use:
                    used[index] += columns.mean(use[tenant, resource])
        panels.append(Panel(resource, capacity, used))
    return tuple(panels[:PANELS])


def _capacity_steps(cluster: Cluster, resource: str, horizon: int) -> NDArray[np.int64]:
    calendar = calendar_of(cluster, 0, cluster.horizon_ms // cluster.step_ms)
    breaks, values = calendar.breaks, calendar.capacity(resource)
    inside = np.clip(breaks, 0, horizon)
    return np.repeat(values, np.diff(inside)).astype(np.int64)
