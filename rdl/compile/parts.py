"""Parts: the normalised tree while it is built and tightened; the compiler makes arrays of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rdl.expressions import Expression
from rdl.resources import Resources
from rdl.work_graph import ANY

#: More steps than any grid has; lengths stop growing here, so that arrays hold them.
FAR: Final = 2**40

#: (before, after, least gap, largest gap or -1), child indices.
Arrow = tuple[int, int, int, int]


class Numbers(NamedTuple):
    """An atom on the grid: g, h and work in whole multiples, lease and work in steps.

    h is at most the number that fits on machines at the same time under the rule of the atom.
    """

    bundle: Resources
    label: str | None
    g: int
    h: int
    multiple: int
    lease: int
    work: int
    #: No allocation of the atom is longer, where leases leave capacity for one block only; else
    #: FAR.
    longest: int
    #: Most bundles at once on one machine, or in one value of `domain`; 0 = no limit.
    spread: int = 0
    domain: str | None = None
    #: May a bundle change machine between leases?
    handover: bool = False
    #: All bundles in one value of this domain; None = anywhere.
    within: str | None = None
    #: All bundles in at most so many values of it.
    values: int = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """Why no plan can satisfy a part: an error, or a mark where another option is left."""

    expression: Expression
    path: str
    code: str
    message: str
    fix: str | None = None


@dataclass(slots=True)
class VertexDraft:
    """One vertex to be. Mutable: the normaliser builds it, tightening narrows it.

    Attributes
    ----------
    kind
        As in `rdl.work_graph`.
    source, path
        The outermost expression folded into it, and the path that the vertex will carry.
    start, end
        No step of it lies outside [start, end).
    shortest
        Least steps from its first to past its last.
    first_end, last_start
        Its last step ends no earlier, its first step starts no later.
    form
        ``all``, ``order`` or ``graph`` for kind ALL, so that equals can be merged; else empty.
    topological
        Child indices, each after what precedes it; None = as written.
    by_before, by_after
        `edges` in the topological order of the child before, or after.
    shifts
        Index of its slice in the normaliser's table of shifts.
    last_shift
        EVERY: steps from the first occurrence to the last.
    endless
        It holds a recurrence that never ends.
    trouble
        Set where the part itself cannot be satisfied; it then takes no part in tightening.
    failed
        Whether the part, or one that it needs, has a problem.
    """

    kind: int
    source: Expression
    path: str
    start: int
    end: int
    shortest: int = 0
    first_end: int = 0
    last_start: int = FAR
    numbers: Numbers | None = None
    children: list[VertexDraft] = field(default_factory=list)
    form: str = ""
    edges: list[Arrow] = field(default_factory=list)
    topological: list[int] | None = None
    by_before: list[Arrow] = field(default_factory=list)
    by_after: list[Arrow] = field(default_factory=list)
    prefer: float = 1.0
    options: tuple[tuple[str, int], ...] = ()
    shifts: int = 0
    last_shift: int = 0
    endless: bool = False
    trouble: Finding | None = None
    failed: bool = False


def critical_path(part: VertexDraft) -> int:
    """Return the least steps that the children of an ALL take together, with their gaps."""
    if not part.edges:
        return max((child.shortest for child in part.children), default=0)
    lengths = [child.shortest for child in part.children]
    reach = [0] * len(lengths)
    for before, after, least, _ in part.by_before:
        arrival = reach[before] + lengths[before] + least
        if arrival > reach[after]:
            reach[after] = arrival
    return min(FAR, max(r + length for r, length in zip(reach, lengths, strict=True)))


def settle(part: VertexDraft) -> None:
    """Set `shortest`, `failed` and `endless` of a group from its children."""
    part.endless = part.endless or any(child.endless for child in part.children)
    if part.trouble is not None:
        part.failed, part.shortest = True, 0
    elif part.children:
        left = [child for child in part.children if not child.failed]
        if part.kind == ANY:
            part.failed = not left
            part.shortest = min((child.shortest for child in left), default=0)
        else:
            part.failed = len(left) < len(part.children)
            part.shortest = min(FAR, critical_path(part) + part.last_shift)


def blame(part: VertexDraft, trouble: Finding) -> None:
    """Record that the part cannot be satisfied; its children no longer matter."""
    part.trouble, part.failed, part.shortest = trouble, True, 0


def troubles_of(part: VertexDraft) -> list[Finding]:
    """Return the text between a failed part and a plan, in written order."""
    if part.trouble is not None:
        return [part.trouble]
    return [trouble for child in part.children if child.failed for trouble in troubles_of(child)]


def topological(count: int, arrows: list[tuple[int, int]]) -> list[int]:
    """Return the indices below `count` in topological order; incomplete if there is a cycle.

    Kahn's algorithm; ties keep the written order.
    """
    blocked = [0] * count
    after: list[list[int]] = [[] for _ in range(count)]
    for before, behind in arrows:
        blocked[behind] += 1
        after[before].append(behind)
    ready = [i for i in range(count - 1, -1, -1) if not blocked[i]]
    found: list[int] = []
    while ready:
        here = ready.pop()
        found.append(here)
        for behind in reversed(after[here]):
            blocked[behind] -= 1
            if not blocked[behind]:
                ready.append(behind)
    return found


def cycle_of(count: int, arrows: list[tuple[int, int]]) -> list[int]:
    """Return one cycle, its first index repeated at its end, or an empty list."""
    order = topological(count, arrows)
    if len(order) == count:
        return []
    # Each remaining index has a remaining predecessor: walk back until one repeats.
    left = set(range(count)) - set(order)
    before = {behind: ahead for ahead, behind in arrows if ahead in left and behind in left}
    walk = [next(i for i in range(count) if i in left)]
    seen = {walk[0]: 0}
    while True:
        here = before[walk[-1]]
        walk.append(here)
        if here in seen:
            return walk[seen[here] :][::-1]
        seen[here] = len(walk) - 1
