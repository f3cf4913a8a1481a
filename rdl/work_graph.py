"""WorkGraph: a checked, normalised request as the flat arrays that agents read.

The normalised tree is stored as vertices in post-order (children before parents, the root last).
Windows are folded into the vertices and tightened along precedence with the shortest lengths, so
a window of an atom is never wider than anything around it allows. `any` stays a choice.

Invariants: `parent[v] > v` for all but the root; the children of a group are in
`children[child_first : child_first + child_count]` in written order, options of an `any` by falling
preference (those of equal worth as written); every precedence edge joins two children of one
parent; windows are in steps on `grid`, half-open.

Folding: `order(order)`, `all(all)`, `any(any)` and single children leave one group; windows leave
none. An `every` with one occurrence leaves its child, unless it is endless. A void leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rdl.expressions import Expression
from rdl.resources import Resources
from rdl.time_grid import TimeGrid

# Kinds of a vertex.
ATOM: Final = 0
ANY: Final = 1
ALL: Final = 2  # `all`, and `order` and `graph` too: the edges say what precedes what
EVERY: Final = 3  # one child; occurrences are shifts of it

# Columns of `vertices`.
KIND: Final = 0
PARENT: Final = 1  # -1 for the root
START: Final = 2  # tightened window, first step
END: Final = 3  # tightened window, first step past it
SHORTEST: Final = 4  # least number of steps from its first to past its last (critical path)
BUNDLE: Final = 5  # index into `bundles`; atoms only
MIN_HEIGHT: Final = 6  # g, rounded up to a multiple of k
MAX_HEIGHT: Final = 7  # h, at most what SPREAD and WITHIN leave, rounded down to a multiple of k
MULTIPLE: Final = 8  # k
LEASE: Final = 9  # l', steps
WORK: Final = 10  # w'', bundle-steps, reachable
LABEL: Final = 11  # index into `labels`, -1 = any machine
SHIFT_FIRST: Final = 12  # atoms: occurrences at start + shifts[SHIFT_FIRST + i]; EVERY: its own
SHIFT_COUNT: Final = 13  # 1 (a single shift of 0) outside `every`; groups other than EVERY: 0
CHILD_FIRST: Final = 14
CHILD_COUNT: Final = 15
LAST_SHIFT: Final = 16  # EVERY: steps from the child's end to the end of its last occurrence
SATISFIABLE: Final = 17  # 0 = in an option that no plan can satisfy; never 0 outside `any`
SPREAD: Final = 18  # most bundles of the atom at once on one machine (or in one value), 0 = any
DOMAIN: Final = 19  # index into `domains`: what SPREAD counts in; -1 = one machine
HANDOVER: Final = 20  # 1 = a bundle of the atom may change machine between leases
WITHIN: Final = 21  # index into `domains`: all bundles in one value of it; -1 = anywhere
VALUES: Final = 22  # in at most so many values of it
COLUMNS: Final = 23


@dataclass(frozen=True, slots=True)
class WorkGraph:
    """One request, ready to be placed.

    Attributes
    ----------
    expression
        As submitted, never normalised, so that paths stay true.
    grid
        The grid all steps below are on.
    submitted
        Step of the submission, rounded up; nothing is placed before it.
    vertices
        int64[n, COLUMNS], post-order.
    paths
        Source path of each vertex in `expression` (children counted, ``@k`` after the child of
        occurrence k; ``@0`` if one vertex represents all occurrences, see `occurrence_path`).
        An atom or an EVERY has its own path; any other group the path of the outermost expression
        folded into it. The one atom that a `together` becomes has the path of the `together`
        (`rdl.compound`).
    children
        int64[sum of child counts]: vertex indices.
    edges
        int64[m, 4]: before, after, least gap, largest gap (-1 = none), in steps, from the end of
        `before` to the start of `after`.
    shifts
        int64[s]: offsets of occurrences in steps, ascending from 0 within an atom's slice. Atoms
        inside `every(..., same_offset=true)` have one entry for each occurrence; if such an
        `every` is inside another, one for each pair, the inner counted first.
    bundles, labels
        Distinct bundles and machine labels the atoms index.
    prefer
        float64[n]: worth of a vertex as an option of its `any`, 1 elsewhere.
    root_effort
        float64[n]: mu of an interval rule that shares intervals in proportion to it: atom sqrt(w),
        order the sum, all the root of the sum of squares, graph the sum over its levels of the
        root of the sum of squares, any that of its first satisfiable option.
    endless
        Period in steps of an endless recurrence (the least common multiple of several), or 0. Its
        shifts reach to the grid's horizon.
    void
        True for a whole request that is best effort; `vertices` is then empty.
    notes
        Numbers that were rounded to the grid, one sentence each.
    options
        (vertex, path of an `any`, index of its option): choices that hold in the source where
        that vertex is placed. They name every `any` of the source, folded ones too; read them with
        `choices_of`.
    domains
        Distinct domains over which atoms spread their bundles, or within which they keep them.
    """

    expression: Expression
    grid: TimeGrid
    submitted: int
    vertices: NDArray[np.int64]
    paths: tuple[str, ...]
    children: NDArray[np.int64]
    edges: NDArray[np.int64]
    shifts: NDArray[np.int64]
    bundles: tuple[Resources, ...]
    labels: tuple[str, ...]
    prefer: NDArray[np.float64]
    root_effort: NDArray[np.float64]
    endless: int = 0
    void: bool = False
    notes: tuple[str, ...] = field(default=())
    options: tuple[tuple[int, str, int], ...] = ()
    domains: tuple[str, ...] = ()

    @property
    def atoms(self) -> NDArray[np.int64]:
        """Indices of the atoms, in post-order (= written order)."""
        return np.flatnonzero(self.vertices[:, KIND] == ATOM)


def choices_of(graph: WorkGraph, atoms: Iterable[int]) -> dict[str, int]:
    """Return the option taken by path of each `any` of the source that was reached.

    Parameters
    ----------
    atoms
        Vertices of the atoms that hold an allocation.
    """
    if not graph.options:
        return {}
    parents = graph.vertices[:, PARENT].tolist()
    placed: set[int] = set()
    for atom in atoms:
        vertex = int(atom)
        while vertex >= 0 and vertex not in placed:
            placed.add(vertex)
            vertex = parents[vertex]
    return {path: option for vertex, path, option in graph.options if vertex in placed}


def occurrence_path(graph: WorkGraph, vertex: int, k: int) -> str:
    """Return the source path of occurrence `k` (an index into its shifts) of an atom.

    Raises
    ------
    IndexError
        If the atom has no such occurrence.
    """
    count = int(graph.vertices[vertex, SHIFT_COUNT])
    if not 0 <= k < count:
        raise IndexError(f"atom {vertex} has {count} occurrences, not {k + 1}")
    path = graph.paths[vertex]
    above = int(graph.vertices[vertex, PARENT])
    while above >= 0:
        row = graph.vertices[above]
        if row[KIND] == EVERY:
            k, here = divmod(k, int(row[SHIFT_COUNT]))
            child = f"{graph.paths[above]}.0@" if graph.paths[above] else "0@"
            path = f"{child}{here}{path[len(child) + 1 :]}"
        above = int(row[PARENT])
    return path
