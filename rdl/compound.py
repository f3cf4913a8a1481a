"""A `together` as planners see it: one atom whose bundle is all of its members' bundles.

The members of a `together` are gangs that run for one lease, at the same time. So only their time
remains to be decided: the compiler makes them one atom of height 1, whose bundle is a
`Compound`, the sum of all bundles of all members, and whose lease and work are the common length.
Agents, solvers and bounds read it as any other atom: one demand, one length. Code that treats it
as several atoms is on both sides of them:

- the use of the profile by one unit (`planner.capacity.capacity_rows`): a row of a label counts
  only the members with that label, and machines hold one unit if they hold each member;
- the holding of a reservation (`planner.reservations.holding`): each member is a separate
  atom there, with its own path, bundle, rows and machines. So machines hold each member's bundles
  separately, and the dispatcher and the validator never meet a compound.

The way back, from held atoms to rows of the compound, is `rows_of_vertex`; it exists only while all
members hold their counts over the same steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rdl.expressions import Together, members_of
from rdl.resources import Resources
from rdl.work_graph import BUNDLE, DOMAIN, HANDOVER, LABEL, SPREAD, VALUES, WITHIN, WorkGraph


@dataclass(frozen=True, slots=True)
class Member:
    """One atom of a `together`.

    Attributes
    ----------
    count
        Its bundles at once.
    label, spread, domain, handover, within, values
        As of `rdl.expressions.Atom`.
    is_shared
        Whether `within` is one value for all members, that of the `together`.
    """

    bundle: Resources
    count: int
    label: str | None = None
    spread: int = 0
    domain: str | None = None
    handover: bool = False
    within: str | None = None
    values: int = 1
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Compound(Resources):
    """All bundles of all members of a `together`, added up.

    Attributes
    ----------
    members
        In written order: member i has the path of the `together`, a dot, and i.
    """

    members: tuple[Member, ...] = ()

    def dominant_share(self, capacity: Resources) -> float:
        """Return the sum of the dominant shares of all bundles."""
        return sum(one.count * one.bundle.dominant_share(capacity) for one in self.members)


def compound_of(together: Together) -> Compound:
    """Return the compound of the gangs of a `together`, with the sum of their amounts."""
    atoms, is_shared = members_of(together), together.within is not None
    amounts: dict[str, int] = {}
    for atom in atoms:
        for name, amount in atom.bundle.items_:
            amounts[name] = amounts.get(name, 0) + atom.minimum * amount
    members = tuple(
        Member(
            atom.bundle, atom.minimum, atom.on, atom.spread, atom.domain, atom.hands_over,
            atom.within, atom.values, is_shared,
        )
        for atom in atoms
    )  # fmt: skip
    return Compound(Resources.of(amounts).items_, members)


class AtomPart(NamedTuple):
    """An atom of the source that a vertex represents.

    Attributes
    ----------
    path
        Source path, with the occurrences of the vertex's.
    member
        Its bundle; its `count` is the number of bundles at a height of 1 of the vertex.
    """

    path: str
    member: Member


def parts_of(graph: WorkGraph, vertex: int) -> tuple[AtomPart, ...]:
    """Return the atoms of the source for an atom of a graph: itself, or the members."""
    row, path = graph.vertices[vertex], graph.paths[vertex]
    bundle = graph.bundles[int(row[BUNDLE])]
    if isinstance(bundle, Compound):
        return tuple(
            AtomPart(f"{path}.{index}" if path else str(index), member)
            for index, member in enumerate(bundle.members)
        )
    label = graph.labels[row[LABEL]] if row[LABEL] >= 0 else None
    domain = graph.domains[row[DOMAIN]] if row[DOMAIN] >= 0 else None
    within = graph.domains[row[WITHIN]] if row[WITHIN] >= 0 else None
    places = within, int(row[VALUES])
    alone = Member(bundle, 1, label, int(row[SPREAD]), domain, bool(row[HANDOVER]), *places)
    return (AtomPart(path, alone),)


def vertices_by_path(graph: WorkGraph) -> dict[str, int]:
    """Return the vertex of each atom of the source, by its path."""
    return {
        part.path: vertex for vertex in graph.atoms.tolist() for part in parts_of(graph, vertex)
    }


def rows_of_vertex(
    graph: WorkGraph, vertex: int, held: Mapping[str, NDArray[np.int64]]
) -> NDArray[np.int64] | None:
    """Return the rows of a vertex from those of its atoms, int64[m, 3] of (start, end, height).

    Parameters
    ----------
    held
        Rows by source path.

    Returns
    -------
    ndarray or None
        None if nothing is held, or if members do not hold their counts over the same steps.
    """
    found: NDArray[np.int64] | None = None
    for path, member in parts_of(graph, vertex):
        rows = held.get(path)
        if rows is None or (rows[:, 2] % member.count).any():
            return None
        units = rows // np.array([1, 1, member.count])
        if found is not None and not np.array_equal(found, units):
            return None
        found = units
    return found
