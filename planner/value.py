"""Size, value and price of requests, which agents optimise and metrics report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster
from planner.placement import PlacementResult, atoms_held, shifts_of
from planner.request import Request
from planner.reservations.holding import bundle_steps
from planner.reservations.reservation import AtomAllocation
from rdl.compound import Compound
from rdl.resources import CPU, Resources
from rdl.time_grid import TimeGrid
from rdl.work_graph import (
    ANY,
    ATOM,
    BUNDLE,
    CHILD_COUNT,
    CHILD_FIRST,
    KIND,
    SATISFIABLE,
    SHIFT_COUNT,
    WORK,
    WorkGraph,
)

_HOUR_MS: Final = 3_600_000

#: Larger than any reservation number.
_NEWEST: Final = 2**40


def relative_gap(value: float, bound: float) -> float:
    """Return (bound - value) / bound; 0 if nothing more can be accepted."""
    return max(0.0, (bound - value) / bound) if bound > 0 else 0.0


def importance(priority: int, value: float, number: int) -> tuple[int, float, int]:
    """Return the sort key of the common order of reservations, the least important first.

    When capacity is lost, the least important is dropped. When capacity returns, several are
    placed, or a drain or displacement chooses what to spare, the most important is first.

    Parameters
    ----------
    number
        Number in the Plan, by admission; negative for requests that are not in it, the newest.
    """
    age = number if number >= 0 else _NEWEST - number
    return priority, value, -age


def held_value(
    weight: float, atoms: Iterable[AtomAllocation], reference: Resources, step_ms: int
) -> float:
    """Return weight x size of an allocation, in core-hours by its rows.

    Ignores a resource that the cluster lacks, as `size_of`.
    """
    cores = (bundle_steps([atom]) * cores_of(atom.bundle, reference) for atom in atoms)
    return weight * sum(cores) * step_ms / _HOUR_MS


def cores_of(bundle: Resources, reference: Resources) -> float:
    """Return how many cores a bundle counts as, by its dominant share.

    A machine with the largest amount of each resource (`Cluster.reference`) counts as its cores:
    with 32 cores, 128 GiB and 4 GPUs a GPU counts as 8 cores, and 8 GiB as 2. If no machine has
    cores, the unit is machines. Ignores a resource that the cluster lacks. The bundles of a
    compound count separately.
    """
    if isinstance(bundle, Compound):
        return sum(one.count * cores_of(one.bundle, reference) for one in bundle.members)
    known = Resources.of({name: amount for name, amount in bundle.items() if name in reference})
    return known.dominant_share(reference) * reference.get(CPU, 1000) / 1000


def size_of(graph: WorkGraph, reference: Resources) -> float:
    """Return the size: work times the cores that a bundle counts as (`cores_of`), in core-hours.

    Sums over the atoms of the first option of each `any`, with all occurrences. Work is rounded to
    the grid, so the size is that of the actual allocation. Ignores a resource that the cluster
    lacks (in an unsatisfiable first option), since an infinite size would outweigh every other
    request.
    """
    cores = [cores_of(bundle, reference) for bundle in graph.bundles]
    total = 0.0
    for vertex in _first_option_atoms(graph):
        row = graph.vertices[vertex]
        total += int(row[WORK]) * int(row[SHIFT_COUNT]) * cores[int(row[BUNDLE])]
    return total * graph.grid.step_ms / _HOUR_MS


def cpu_hours_of(graph: WorkGraph) -> float:
    """Return the requested core-hours; the first options count.

    Counts cores only: a GPU or memory counts as none, unlike in :func:`size_of`.
    """
    total = 0
    for vertex in _first_option_atoms(graph):
        row = graph.vertices[vertex]
        cores = graph.bundles[int(row[BUNDLE])].get(CPU, 0)
        total += int(row[WORK]) * int(row[SHIFT_COUNT]) * cores
    return total / 1000 * graph.grid.step_ms / _HOUR_MS


def _first_option_atoms(graph: WorkGraph) -> Iterable[int]:
    pending = [len(graph.vertices) - 1] if len(graph.vertices) else []
    while pending:
        vertex = pending.pop()
        row = graph.vertices[vertex]
        if row[KIND] == ATOM:
            yield vertex
            continue
        first, count = int(row[CHILD_FIRST]), int(row[CHILD_COUNT])
        children = graph.children[first : first + count].tolist()
        # Vertices are numbered as written; options are in order of preference.
        pending.extend([min(children)] if row[KIND] == ANY else children)


def preference_losses(graph: WorkGraph, reference: Resources) -> NDArray[np.float64]:
    """Return float64[vertex]: the share of a request's worth lost by choosing an option.

    Parts of a group share its worth by their sizes; an option has the worth of its `any` times its
    preference. So the worth of a request is 1 minus the losses of all chosen options: independent
    parts add up, and an `any` inside an option multiplies. Vertices other than options lose
    nothing.
    """
    losses = np.zeros(len(graph.vertices))
    if (graph.prefer == 1.0).all():
        return losses
    worth, sizes = np.ones(len(graph.vertices)), vertex_sizes(graph, reference)
    for vertex in range(len(graph.vertices) - 1, -1, -1):  # parents before children
        row = graph.vertices[vertex]
        if row[KIND] == ATOM:
            continue
        children = options_of(graph, vertex)
        if row[KIND] == ANY:
            losses[children] = worth[vertex] * (1.0 - graph.prefer[children])
            worth[children] = worth[vertex] * graph.prefer[children]
            continue
        total = sizes[children].sum()
        shares = sizes[children] / total if total > 0 else 1.0 / len(children)
        worth[children] = worth[vertex] * shares
    return losses


def vertex_sizes(graph: WorkGraph, reference: Resources) -> NDArray[np.float64]:
    """Return float64[vertex]: size of the part below each vertex, in core-steps."""
    cores = [cores_of(bundle, reference) for bundle in graph.bundles]
    sizes = np.zeros(len(graph.vertices))
    for vertex, row in enumerate(graph.vertices):
        if row[KIND] == ATOM:
            sizes[vertex] = int(row[WORK]) * int(row[SHIFT_COUNT]) * cores[int(row[BUNDLE])]
            continue
        children = options_of(graph, vertex)
        sizes[vertex] = sizes[min(children)] if row[KIND] == ANY else sizes[children].sum()
    return sizes


def worth_of(graph: WorkGraph, choices: Iterable[tuple[int, int]], reference: Resources) -> float:
    """Return 1 minus the losses of the chosen options (`preference_losses`).

    Parameters
    ----------
    choices
        (vertex of the `any`, option) of every `any` that was reached.
    """
    taken = [options_of(graph, vertex)[option] for vertex, option in choices]
    if not taken:
        return 1.0
    return 1.0 - math.fsum(preference_losses(graph, reference)[taken].tolist())


def options_of(graph: WorkGraph, vertex: int) -> list[int]:
    """Return the vertices of the children of a group, in written order; options by preference."""
    first = int(graph.vertices[vertex, CHILD_FIRST])
    count = int(graph.vertices[vertex, CHILD_COUNT])
    return [int(child) for child in graph.children[first : first + count]]


def satisfiable_options(graph: WorkGraph, vertex: int) -> list[int]:
    """Return the satisfiable children."""
    return [v for v in options_of(graph, vertex) if graph.vertices[v, SATISFIABLE]]


def value_of(request: Request, choices: Iterable[tuple[int, int]], reference: Resources) -> float:
    """Return weight times size times the worth of the chosen options."""
    worth = worth_of(request.graph, choices, reference)
    return request.weight * size_of(request.graph, reference) * worth


def value_asked(request: Request, reference: Resources) -> float:
    """Return the value at a preference of 1: the largest value of the request."""
    return request.weight * size_of(request.graph, reference)


def falls_of(graph: WorkGraph, result: PlacementResult) -> int:
    """Return the falls of one result: the sum of decreases of its atoms, last falls included."""
    total = 0
    for vertex, rows in result.atoms():
        follows = np.append(rows[1:, 0] == rows[:-1, 1], False)
        after = np.where(follows, np.roll(rows[:, 2], -1), 0)
        total += int(np.maximum(0, rows[:, 2] - after).sum()) * len(shifts_of(graph, vertex))
    return total


def score_of(
    requests: Sequence[Request], results: Sequence[PlacementResult], reference: Resources
) -> tuple[float, int]:
    """Return (accepted value, minus falls): the greater of two scores is the better plan."""
    value, falls = 0.0, 0
    for request, result in zip(requests, results, strict=True):
        if result.placed:
            value += value_of(request, result.choices, reference)
            falls += falls_of(request.graph, result)
    return value, -falls


class PriceList:
    """The price factor of every step, ready to be summed over rows.

    Attributes
    ----------
    factors
        float64[horizon]: c_t, 0 or more.
    """

    __slots__ = ("_paid", "factors")

    def __init__(self, factors: NDArray[np.float64]) -> None:
        self.factors = factors
        self._paid = np.concatenate([[0.0], np.cumsum(factors)])

    def cost(
        self, held: Iterable[tuple[Resources, NDArray[np.int64]]], nominal: Resources
    ) -> float:
        """Return the sum over steps of bundles x dominant share x price factor.

        Parameters
        ----------
        held
            (bundle, int64[n, 3] rows) of every atom, one entry per occurrence.
        nominal
            Capacity to which shares are relative.

        Returns
        -------
        float
            In steps of the whole cluster at a factor of 1; steps outside the horizon cost nothing.
        """
        total, last = 0.0, len(self._paid) - 1
        for bundle, rows in held:
            ends = np.clip(rows[:, :2], 0, last)
            steps = self._paid[ends[:, 1]] - self._paid[ends[:, 0]]
            total += bundle.dominant_share(nominal) * float((steps * rows[:, 2]).sum())
        return total

    def cost_of(self, request: Request, result: PlacementResult, nominal: Resources) -> float:
        """Return the cost of one result; 0 for a refusal."""
        return self.cost(atoms_held(request.graph, result), nominal) if result.placed else 0.0


def prices_of(cluster: Cluster, grid: TimeGrid) -> PriceList | None:
    """Return the prices of a cluster, or None without prices."""
    return PriceList(cluster.price_factors(grid)) if cluster.prices else None
