"""The answer of an agent to one request: rows per atom, or a code with the binding limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rdl.resources import Resources
from rdl.work_graph import WorkGraph


class Code(StrEnum):
    """Why a request is refused: the list of all codes (planning.md, docs/api.md)."""

    MALFORMED = "malformed"
    UNSATISFIABLE = "unsatisfiable"
    BEYOND_HORIZON = "beyond_horizon"
    CAPACITY = "capacity"
    CAPACITY_OVER_TIME = "capacity_over_time"
    QUOTA = "quota"
    WINDOW_LIMIT = "window_limit"
    LEAD_TIME = "lead_time"
    COUNT_LIMIT = "count_limit"
    PRIORITY_LIMIT = "priority_limit"
    AGENT_LIMIT = "agent_limit"
    CONFLICT = "conflict"
    DUPLICATE_ID = "duplicate_id"
    PAST_CHANGED = "past_changed"
    TIME_LIMIT = "time_limit"


#: Kinds of `Binding` whose numbers are times, or work in bundles times time.
TIMED_KINDS: Final = frozenset({"lease", "work", "shape"})

#: Kind of `Binding` for requests that fit the totals but not the machines.
MACHINES: Final = "machines"

#: All kinds of `Binding`.
BINDING_KINDS: Final = (
    "capacity",
    "fit",
    "lease",
    "work",
    "shape",
    "gap",
    "window",
    "policy",
    "promise",
    MACHINES,
)


@dataclass(frozen=True, slots=True)
class Binding:
    """The limit that stopped a refused request.

    Attributes
    ----------
    path
        Source path of the atom that could not be placed.
    kind
        ``capacity``, ``fit``, ``lease``, ``work``, ``shape``, ``gap``, ``window``, ``policy``,
        ``promise`` or ``machines``: it fits the totals, but not the single machines.
    at
        Step with the least free capacity in the atom's window (``lease``: a step that cuts short
        the longest time with capacity), or None if no step is the cause.
    resource
        The resource that was short there, or None.
    needed, free
        Amount of that resource that the smallest allocation of the atom takes at a step, and the
        free amount at `at` (millicores, MiB, units; bundles if no resource is named). ``lease``:
        length of a lease, and the longest time with capacity for the minimum height, ms. ``work``
        and ``shape``: the work, and all the capacity for it, bundle-ms. ``machines``: bundles
        wanted from `at` on, and how many of them fit on machines.
    policy
        Name of the policy that refused, or None.
    name
        Name of the atom at `path` for people (`rdl.names.PartNames`); None is the request itself.
    """

    path: str
    kind: str
    at: int | None = None
    resource: str | None = None
    needed: int | None = None
    free: int | None = None
    policy: str | None = None
    name: str | None = None


def _no_rows() -> NDArray[np.int64]:
    return np.empty((0, 3), dtype=np.int64)


def _no_indices() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """Placed with allocations, or refused with a code.

    Attributes
    ----------
    code
        None if placed.
    detail
        One sentence for a person, empty if placed.
    vertices
        int64[a]: indices into `WorkGraph.vertices` of the atoms with an allocation (without atoms
        of options not chosen), ascending.
    first
        int64[a + 1]: atom i holds `rows[first[i] : first[i + 1]]`.
    rows
        int64[m, 3]: start step, end step, bundles; sorted and merged within an atom. For an atom
        inside `every` they are occurrence 0; the others are the same rows moved by its shifts.
    choices
        (vertex of the `any`, index of the chosen option), for every `any` that was reached.
    binding
        The binding limit, if refused.
    """

    code: Code | None = None
    detail: str = ""
    vertices: NDArray[np.int64] = field(default_factory=_no_indices)
    first: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    rows: NDArray[np.int64] = field(default_factory=_no_rows)
    choices: tuple[tuple[int, int], ...] = ()
    binding: Binding | None = None

    @property
    def placed(self) -> bool:
        """Whether the request is placed."""
        return self.code is None

    def atoms(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield (vertex, rows[k, 3]) for every atom with an allocation."""
        for index, vertex in enumerate(self.vertices.tolist()):
            yield vertex, self.rows[self.first[index] : self.first[index + 1]]


def shifts_of(graph: WorkGraph, vertex: int) -> NDArray[np.int64]:
    """Return the occurrences of an atom as offsets in steps (``[0]`` outside `every`)."""
    from rdl.work_graph import SHIFT_COUNT, SHIFT_FIRST

    first = int(graph.vertices[vertex, SHIFT_FIRST])
    return graph.shifts[first : first + int(graph.vertices[vertex, SHIFT_COUNT])]


def atoms_held(
    graph: WorkGraph, result: PlacementResult
) -> Iterator[tuple[Resources, NDArray[np.int64]]]:
    """Yield (bundle, rows[k, 3]) of every atom with an allocation, once per occurrence.

    The members of a `together` are yielded separately.
    """
    from rdl.compound import parts_of

    for vertex, rows in result.atoms():
        for _, member in parts_of(graph, vertex):
            held = rows * np.array([1, 1, member.count])
            for shift in shifts_of(graph, vertex).tolist():
                yield member.bundle, held + np.array([shift, shift, 0])
