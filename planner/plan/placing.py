"""Places for requests on a draft, including machines: one atom, by an agent, or many together.

If one atom finds no machines at its agent's place, it is searched in the free capacity of
machines, from the start of its window if its agent plans early, else from the end. A request of
several atoms goes back to the agent, on a view that limits machines to the number of bundles found
where they did not fit, until everything finds machines or the tries are used up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.agent import Agent, Limits, plans_early
from planner.capacity.profile import FreeProfile
from planner.capacity.shortage import takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.explain import machines_sentence
from planner.machines.room import MachineRoom
from planner.machines.slot_atom import SlotAtom
from planner.placement import MACHINES, Binding, Code, PlacementResult
from planner.plan.draft import Draft, MachineShortage
from planner.plan.slots import joint_pieces
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.holding import holding_of, rule_of, with_slots
from planner.reservations.reservation import AtomAllocation, Holding, shared_runs
from planner.reservations.rows import add_up
from planner.reservations.slots import Slots, no_slots, pieces_of, sort_slots
from planner.view import Demand
from rdl.compound import Compound, Member, parts_of
from rdl.local_time import zone_named
from rdl.names import part_name
from rdl.resources import Resources
from rdl.time_grid import TimeGrid
from rdl.work_graph import (
    BUNDLE,
    END,
    EVERY,
    KIND,
    LABEL,
    LEASE,
    MAX_HEIGHT,
    MIN_HEIGHT,
    MULTIPLE,
    START,
    WORK,
    WorkGraph,
)

#: Starts that the search for one atom tries, by the number of machines from which on it tries them.
_TRIES: Final = ((1000, 4), (100, 16), (0, 256))

#: How often an agent is asked again.
_ROUNDS: Final = 12

#: Most cells of the capacity that are read to tell agents what machines hold.
_MOST_CELLS: Final = 8192

T = TypeVar("T")

_Kind: TypeAlias = tuple[Resources, str | None]

#: A placed request, and what it then holds, with slots.
Found = tuple[PlacementResult, Holding]

#: Takes a request where an agent placed it, with machines; or returns what finds none.
Stand: TypeAlias = Callable[[Request, PlacementResult], Holding | MachineShortage]


def machines_refusal(
    missed: MachineShortage, grid: TimeGrid, request: Request | None = None
) -> PlacementResult:
    """Return the refusal of a request that the pool has capacity for and machines have not."""
    path, needed, found = missed.atom.path, missed.needed, missed.found
    if missed.needed_in_all and missed.by_value:
        path, needed = path.rpartition(".")[0], missed.needed_in_all
        found = missed.by_value[0][1]
    expression = None if request is None else request.graph.expression
    name = None if expression is None else part_name(expression, path)
    zone = None if expression is None else zone_named(expression)
    binding = Binding(path, MACHINES, missed.start, None, needed, found, name=name)
    detail = machines_sentence(grid, binding, missed.end, zone, missed.atom.rule, missed.by_value)
    return PlacementResult(Code.CAPACITY, detail, binding=binding)


def tries_for(machines: int) -> int:
    """Return how many starts are tried on this many machines."""
    return next(tries for least, tries in _TRIES if machines >= least)


def place_elsewhere(
    draft: Draft,
    request: Request,
    missed: MachineShortage,
    planner: Agent | None,
    *,
    asked: bool,
    stand: Stand | None = None,
    begun: bool = False,
) -> Found | MachineShortage:
    """Take and return another place for a request that found no machines.

    Parameters
    ----------
    missed
        Placements that found no machine at first.
    planner
        Asked again; None asks no one.
    asked
        Whether it is the planner whose answer found no machines at first.
    stand
        Takes the place that an agent chose for a request and returns it with machines; or returns
        what found none. By default it is placed as a new one.
    begun
        Whether some of the request has begun: then only its planner knows what may move.

    Returns
    -------
    Found | MachineShortage
        Its place, or the pieces without a machine.
    """

    if planner is not None and not asked:
        fresh = planner.plan([request], draft.view(), Limits())[0]
        if not fresh.placed:
            return missed
        found = _place(draft, request, fresh, stand)
        if not isinstance(found, MachineShortage):
            return found
        missed = found
    if is_lone(request) and not begun:
        return place_alone(draft, request, early=plans_early(planner)) or missed
    if planner is None:
        return missed
    return place_by_agent(draft, request, planner, _ROUNDS, stand=stand, missed=missed) or missed


def try_on_machines(
    draft: Draft,
    request: Request,
    result: PlacementResult,
    planner: Agent,
    *,
    asked: bool = True,
) -> PlacementResult:
    """Return where a commit would place a request that an agent placed, or the refusal.

    Nothing of it stays taken.

    Parameters
    ----------
    planner
        The agent, called again if there are no machines for its place.
    asked
        Whether it is the planner that placed it.
    """
    level = request.promise or draft.ledger.book.cluster.promise
    if level is PromiseLevel.POOLED:
        return result
    savepoint = draft.savepoint()
    try:
        placed = draft.place_exactly(holding_of(request, result), request.graph)
        if not isinstance(placed, MachineShortage):
            return result
        other = place_elsewhere(draft, request, placed, planner, asked=asked)
    finally:
        draft.roll_back(savepoint)
    if isinstance(other, MachineShortage):
        return machines_refusal(other, draft.ledger.grid, request)
    return other[0]


def place_by_agent(
    draft: Draft,
    request: Request,
    agent: Agent,
    rounds: int,
    *,
    stand: Stand | None = None,
    missed: MachineShortage | None = None,
) -> Found | MachineShortage | None:
    """Call an agent until its answer fits on machines, and take it.

    Parameters
    ----------
    rounds, missed
        As for `until_it_stands`.
    stand
        As for `place_elsewhere`.

    Returns
    -------
    Found | MachineShortage | None
        The place, the last that found no machine, or None if the agent finds no place at all.
    """
    caps, view = MachineCaps(draft.room, request.graph, draft.first), draft.view()

    def ask(over: Callable[[PlanSnapshot], PlanSnapshot]) -> PlacementResult:
        return agent.plan([request], over(view), Limits())[0]

    def place(result: PlacementResult) -> Found | MachineShortage:
        return _place(draft, request, result, stand)

    return until_it_stands(caps, ask, place, rounds, missed)


def _place(
    draft: Draft, request: Request, result: PlacementResult, stand: Stand | None
) -> Found | MachineShortage:
    """Take an agent's place for a request; return the pieces without a machine."""
    if stand is None:
        found = draft.place_exactly(holding_of(request, result), request.graph)
    else:
        found = stand(request, result)
    return found if isinstance(found, MachineShortage) else (result, found)


def is_lone(request: Request) -> bool:
    """Return whether a request is one atom that occurs once."""
    return len(request.graph.vertices) == 1 and len(request.graph.shifts) == 1


def place_alone(draft: Draft, request: Request, *, early: bool = False) -> Found | None:
    """Return a place for a request of one atom that occurs once, its slots taken; or None.

    It is searched for on machines, at every time of its window.

    Parameters
    ----------
    early
        Search from the front of the window, else from its end.
    """
    savepoint = draft.savepoint()
    found = _search_alone(draft, request, early=early)
    if found is None:
        return None
    if draft.shortage(takings_of(found[1], draft.ledger, request.tenant, request.queue)) is None:
        return found
    draft.roll_back(savepoint)
    return None


def other_times(draft: Draft, request: Request, *, early: bool) -> Iterator[PlacementResult]:
    """Yield answers to a request of one atom that occurs once, as rectangles that totals allow.

    Averages over windows are not checked.

    Parameters
    ----------
    early
        The earliest first, else the latest; the lowest first of all.
    """
    atom, room = _task_of(draft, request, early=early) or (None, None)
    if atom is None or room is None:
        return
    for height in range(atom.least, atom.most + 1):
        length = atom.work // height
        if atom.work % height or height % atom.multiple or length < atom.lease:
            continue
        # A start is good where no step of its length is short: as many were before as behind it.
        short = np.concatenate([[0], np.cumsum(room < height)])
        starts = np.flatnonzero(short[length:] == short[: max(0, len(short) - length)])
        for start in starts.tolist() if early else reversed(starts.tolist()):
            first = atom.lo + start
            rows = np.array([[first, first + length, height]], dtype=np.int64)
            yield _lone_result(rows)


def _lone_result(rows: NDArray[np.int64]) -> PlacementResult:
    """Return the answer that one atom has these rows."""
    return PlacementResult(None, "", np.zeros(1, dtype=np.int64), np.array([0, len(rows)]), rows)


def _task_of(
    draft: Draft, request: Request, *, early: bool
) -> tuple[SlotAtom, NDArray[np.int64]] | None:
    """Return the one atom of a request, and the free totals at each step of its window."""
    if not is_lone(request):
        return None
    graph = request.graph
    row, ledger = graph.vertices[0], draft.ledger
    low, high = max(draft.first, int(row[START])), min(int(row[END]), ledger.grid.horizon)
    if low >= high:
        return None
    label = graph.labels[row[LABEL]] if graph.labels and row[LABEL] >= 0 else None
    bundle = graph.bundles[int(row[BUNDLE])]
    demand = ledger.demand(bundle, label, request.tenant, request.queue)
    least, most, multiple, lease, work = (
        int(row[column]) for column in (MIN_HEIGHT, MAX_HEIGHT, MULTIPLE, LEASE, WORK)
    )
    rule = rule_of(graph, 0)
    atom = SlotAtom(low, high, least, most, multiple, lease, work, bundle, label, rule, early)
    free = ledger.room_over(demand, low, high)
    if isinstance(bundle, Compound) and draft.room.cells(low, high) <= _MOST_CELLS:
        for one in bundle.members:
            held = draft.room.most_held(low, high, lease, one.bundle, one.label, _narrowest(one))
            free = np.minimum(free, held // one.count)
    return atom, free


def _search_alone(draft: Draft, request: Request, *, early: bool) -> Found | None:
    """Return the places where machines have capacity for one atom; averages over windows are not
    checked."""
    task = _task_of(draft, request, early=early)
    if task is None:
        return None
    (atom, room), tries = task, tries_for(draft.room.machines)
    if isinstance(atom.bundle, Compound):
        return _search_together(draft, request, tries, early=early)
    slots = _search_early(draft, atom, room, tries) if early else draft.search(atom, room, tries)
    if slots is None:
        return None
    result = _lone_result(add_up(slots[:, :3]))
    holding = holding_of(request, result)
    return result, with_slots(holding, [slots])


def _search_together(draft: Draft, request: Request, tries: int, *, early: bool) -> Found | None:
    """Return where machines hold all members of a `together`, each start that totals allow."""
    for result in islice(other_times(draft, request, early=early), tries):
        found = draft.place_exactly(holding_of(request, result), request.graph)
        if not isinstance(found, MachineShortage):
            return result, found
    return None


def _search_early(
    draft: Draft, atom: SlotAtom, room: NDArray[np.int64], tries: int
) -> Slots | None:
    """Return slots that end early, taken; or None.

    A search tries the lowest rectangles first, which are the longest; it also tries shorter
    windows by bisecting the end.
    """
    savepoint = draft.savepoint()
    found = draft.search(atom, room, tries)
    if found is None:
        return None
    end, none = int(found[:, 1].max()), atom.lo + max(atom.lease, -(-atom.work // atom.most)) - 1
    while end - none > 1:
        middle = (none + end) // 2
        draft.roll_back(savepoint)
        other = draft.search(replace(atom, hi=middle), room[: middle - atom.lo], tries)
        if other is None:
            none = middle
        else:
            found, end = other, int(other[:, 1].max())
    draft.roll_back(savepoint)
    return draft.search(replace(atom, hi=end), room[: end - atom.lo], tries)


class MachineCaps:
    """Number of bundles of a request that fit on machines, more precise than totals.

    Parameters
    ----------
    room
        What machines have left; None uses only recorded limits.
    graph
        The request that agents are asked about: bundles stay for its leases, in its windows.
    first
        The earliest step.
    """

    def __init__(
        self, room: MachineRoom | None = None, graph: WorkGraph | None = None, first: int = 0
    ) -> None:
        self._missed: list[MachineShortage] = []
        self._held: dict[_Kind, tuple[int, NDArray[np.int64]]] | None = None
        self._room, self._graph, self._first = room, graph, first

    def note(self, *missed: MachineShortage) -> None:
        """Let machines hold no more of a bundle than were found, where some were missed."""
        self._missed.extend(missed)

    def over(self, view: PlanSnapshot) -> PlanSnapshot:
        """Return a view with these limits of machines; the same view if nothing was missing."""
        return CappedSnapshot(view.ledger, view.version, self) if self._missed else view

    def breaks(self) -> list[NDArray[np.int64]]:
        """Return the steps at which the number that machines hold may change."""
        found = [np.array([one.start, one.end], dtype=np.int64) for one in self._missed]
        for start, held in self._known().values():
            found.append(start + 1 + np.flatnonzero(np.diff(held)))
            found.append(np.array([start, start + len(held)], dtype=np.int64))
        return found

    def lower(
        self, bundle: Resources, label: str | None, starts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the most bundles that machines hold from each step of `starts` to the next.

        For a compound, as many as fit of each member.
        """
        most = np.full(len(starts), 2**62, dtype=np.int64)
        if isinstance(bundle, Compound):
            for member in bundle.members:
                held = self.lower(member.bundle, member.label, starts)
                most = np.minimum(most, held // member.count)
        known = self._known().get((bundle, label))
        if known is not None:
            start, held = known
            inside = (starts >= start) & (starts < start + len(held))
            most[inside] = held[starts[inside] - start]
        for one in self._missed:
            if one.atom.bundle == bundle and one.atom.label == label:
                inside = (starts >= one.start) & (starts < one.end)
                most[inside] = np.minimum(most[inside], one.found)
        return most

    def _known(self) -> dict[_Kind, tuple[int, NDArray[np.int64]]]:
        """Return by bundle and label (first step, the most at each step), where it is cheap."""
        if self._held is None:
            self._held = {}
            if self._room is not None and self._graph is not None:
                spans = _spans_of(self._graph, self._first)
                if sum(self._room.cells(*span[:2]) for span in spans.values()) <= _MOST_CELLS:
                    for kind, (start, end, lease, within) in spans.items():
                        held = self._room.most_held(start, end, lease, *kind, within)
                        self._held[kind] = start, held
        return self._held


def _spans_of(graph: WorkGraph, first: int) -> dict[_Kind, tuple[int, int, int, str | None]]:
    """Return by bundle and label where a request may have some, and the shortest lease of them.

    The last is the domain within which all atoms of the kind are, if it is the same for all. The
    members of a `together` are listed separately.
    """
    spans: dict[_Kind, tuple[int, int, int, str | None]] = {}
    recurs = len(graph.shifts) > 1 or bool((graph.vertices[:, KIND] == EVERY).any())
    for vertex in graph.atoms.tolist():
        row = graph.vertices[vertex]
        low, high = max(first, int(row[START])), min(int(row[END]), graph.grid.horizon)
        if recurs:
            low, high = first, graph.grid.horizon
        for _, member in parts_of(graph, vertex):
            kind = member.bundle, member.label
            if low < high:
                new = (low, high, int(row[LEASE]), _narrowest(member))
                start, end, lease, within = spans.get(kind, new)
                within = within if within == _narrowest(member) else None
                lease = min(lease, int(row[LEASE]))
                spans[kind] = min(start, low), max(end, high), lease, within
    return spans


def _narrowest(member: Member) -> str | None:
    """Return the domain in one value of which all bundles of an atom are, or None."""
    return member.within if member.values == 1 else None


def until_it_stands(
    caps: MachineCaps,
    ask: Callable[[Callable[[PlanSnapshot], PlanSnapshot]], PlacementResult],
    stand: Callable[[PlacementResult], T | MachineShortage | None],
    rounds: int,
    missed: MachineShortage | None = None,
) -> T | MachineShortage | None:
    """Call an agent until its answer fits on machines.

    Parameters
    ----------
    ask
        Returns an answer, read on views that it lets the caps look over.
    stand
        Takes an answer; returns the placement, the pieces without a machine, or None if it does
        not fit.
    rounds
        Limit of calls of the agent.
    missed
        Placements that found no machine earlier.

    Returns
    -------
    T | MachineShortage | None
        The placement, the last one without machines, or None if no agent finds a place at all.
    """
    for _ in range(rounds):
        if missed is not None:
            caps.note(missed)
        result = ask(caps.over)
        if not result.placed:
            return missed
        found = stand(result)
        if not isinstance(found, MachineShortage):
            return found
        missed = found
    return missed


class CappedSnapshot(PlanSnapshot):
    """A view in which machines hold fewer of some bundles during some steps than they have.

    Free capacity does not change; `segments` and the `fit` of demands are finer.
    """

    __slots__ = ("_caps", "_demands", "_segments")

    def __init__(self, ledger: FreeProfile, version: int, caps: MachineCaps) -> None:
        super().__init__(ledger, version)
        self._caps = caps
        self._demands: dict[tuple[Resources, str | None, str, str], Demand] = {}
        base = super().segments
        inner = np.concatenate(caps.breaks())
        inner = inner[(inner > base[0]) & (inner < base[-1])]
        self._segments = np.unique(np.concatenate([base, inner])).astype(np.int64)

    def demand(self, bundle: Resources, label: str | None, tenant: str, queue: str) -> Demand:
        """Return the use of `bundle`, with the number that machines hold in each segment."""
        key = (bundle, label, tenant, queue)
        known = self._demands.get(key)
        if known is None:
            known = self._demands[key] = self._cap(*key)
        return known

    def _cap(self, bundle: Resources, label: str | None, tenant: str, queue: str) -> Demand:
        base = super().demand(bundle, label, tenant, queue)
        starts = self._segments[:-1]
        index = np.searchsorted(super().segments, starts, side="right") - 1
        fit = np.array(base.fit, dtype=np.int64)[index]
        fit = np.minimum(fit, self._caps.lower(bundle, label, starts))
        return replace(base, fit=tuple(fit.tolist()))

    @property
    def segments(self) -> NDArray[np.int64]:
        """int64[s + 1]: steps at which the number that machines hold changes."""
        return self._segments

    def _on(self, ledger: FreeProfile, version: int) -> CappedSnapshot:
        return CappedSnapshot(ledger, version, self._caps)


class WantedSlots(NamedTuple):
    """Atoms of one holding that want slots.

    Attributes
    ----------
    atoms
        With their rows; their slots are ignored.
    leases
        Steps of a lease by atom path (`planner.reservations.holding.leases_of`).
    """

    atoms: Sequence[AtomAllocation]
    leases: Mapping[str, int]


class _Piece(NamedTuple):
    """Bundles that begin and end together, or, under `within`, of an occurrence.

    Attributes
    ----------
    share
        Dominant share of the bundles that must be on one machine, or in one value, at the same
        time.
    parts
        Atom and rows; several, if a `together` is to be in one value.
    """

    number: int
    share: float
    parts: tuple[tuple[AtomAllocation, NDArray[np.int64]], ...]


def place_together(draft: Draft, wanted: Mapping[int, WantedSlots]) -> dict[int, tuple[Slots, ...]]:
    """Return the slots of each atom of the holdings that find machines, taken.

    They are placed by begin, before any of them is given up. If bundles have one shape, or fill
    a machine, this places everything that fits in totals: a machine that is free when a bundle
    begins is free from then on (interval colouring).

    Parameters
    ----------
    wanted
        Number -> holding that needs slots, none of which has begun.
    """
    found = {
        number: {one.path: [no_slots()] for one in own.atoms} for number, own in wanted.items()
    }
    for piece in sorted(_pieces(wanted, draft.nominal), key=_turn):
        number = piece.number
        if number not in found:
            continue
        slots = _lay_piece(draft, piece, wanted[number].leases, found[number])
        if slots is not None:
            for (atom, _), own in zip(piece.parts, slots, strict=True):
                found[number][atom.path].append(own)
            continue
        given = found.pop(number)
        for one in wanted[number].atoms:
            draft.change_slots([(np.concatenate(given[one.path]), one.bundle)], -1)
    return {
        number: tuple(sort_slots(np.concatenate(parts)) for parts in own.values())
        for number, own in found.items()
    }


def _lay_piece(
    draft: Draft, piece: _Piece, leases: Mapping[str, int], held: Mapping[str, list[Slots]]
) -> Sequence[Slots] | None:
    """Return the slots of each part of a piece, taken; or None."""
    if len(piece.parts) > 1:
        found = draft.lay_joint([(atom, rows, no_slots()) for atom, rows in piece.parts])
        return None if isinstance(found, MachineShortage) else found
    ((atom, rows),) = piece.parts
    beside = np.concatenate(held[atom.path])
    if atom.rule.within is not None:  # a piece is a whole occurrence
        beside = no_slots()
    slots = draft.lay(atom, rows, leases[atom.path] if atom.rule.handover else 0, beside)
    return None if slots is None else (slots,)


def _pieces(wanted: Mapping[int, WantedSlots], nominal: Resources) -> Iterator[_Piece]:
    for number, own in wanted.items():
        for run in shared_runs(own.atoms):
            parts = [(own.atoms[one.place], pieces_of(one.rows)) for one in run]
            parts.sort(key=lambda part: -part[0].bundle.dominant_share(nominal))
            yield _Piece(number, sum(_share(part, nominal) for part in parts), tuple(parts))
        for atom in own.atoms:
            share = atom.bundle.dominant_share(nominal)
            for pieces in () if atom.rule.is_shared else joint_pieces(atom):
                if atom.rule.within is not None:
                    whole = (atom, pieces)
                    yield _Piece(number, _share(whole, nominal), (whole,))
                    continue
                for row in pieces:
                    yield _Piece(number, share, ((atom, row[None]),))


def _share(part: tuple[AtomAllocation, NDArray[np.int64]], nominal: Resources) -> float:
    """Return the dominant share of all bundles of a part."""
    atom, pieces = part
    return atom.bundle.dominant_share(nominal) * int(pieces[:, 2].max())


def _turn(piece: _Piece) -> tuple[float, ...]:
    """Return the key of an order: by begin, then the largest bundles, then the longest."""
    start = min(int(rows[:, 0].min()) for _, rows in piece.parts)
    end = max(int(rows[:, 1].max()) for _, rows in piece.parts)
    return start, -piece.share, start - end
