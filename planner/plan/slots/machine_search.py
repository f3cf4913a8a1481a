"""Another place for a request whose bundles machines cannot hold where an agent put them.

One atom is searched against what machines have left, from the front of its window where its agent
plans early, else from the end. A request of several atoms goes back to the agent, on a view in
which machines hold no more of a bundle than was found where it did not fit, until everything finds
machines or a number of tries is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.agent import Agent, Limits, plans_early
from planner.capacity.overlay import Overlay, takings_of
from planner.explain import machines_sentence
from planner.machines.room import MachineRoom
from planner.machines.slot_atom import SlotAtom
from planner.placement import MACHINES, Binding, Code, PlacementResult
from planner.plan.slots.slot_batch import MachineShortage, SlotBatch
from planner.request import Request
from planner.reservations.holding import holding_of, rule_of, with_slots
from planner.reservations.reservation import Holding
from planner.reservations.rows import add_up
from planner.reservations.slots import Slots
from planner.value import PriceList
from planner.view import AverageSlack, Demand, PlanView, ProfileArrays
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

#: Most cells of the room that are read to tell agents what machines hold.
_MOST_CELLS: Final = 8192

T = TypeVar("T")

_Kind: TypeAlias = tuple[Resources, str | None]

#: A placed request, and what it then holds, with slots.
Found = tuple[PlacementResult, Holding]


def machines_refusal(
    missed: MachineShortage, grid: TimeGrid, request: Request | None = None
) -> PlacementResult:
    """Return the refusal of a request that the pool has room for and machines have not."""
    path, needed, found = missed.atom.path, missed.needed, missed.found
    expression = None if request is None else request.graph.expression
    name = None if expression is None else part_name(expression, path)
    zone = None if expression is None else zone_named(expression)
    binding = Binding(path, MACHINES, missed.start, None, needed, found, name=name)
    detail = machines_sentence(grid, binding, missed.end, zone)
    return PlacementResult(Code.CAPACITY, detail, binding=binding)


def tries_for(machines: int) -> int:
    """Return how many starts are tried on so many machines."""
    return next(tries for least, tries in _TRIES if machines >= least)


@dataclass(frozen=True, slots=True)
class MachineSearch:
    """Where requests that find no machines at first are tried elsewhere.

    Attributes
    ----------
    batch
        What machines have left; it keeps what is found.
    overlay
        What the pool has left besides the changes of the batch.
    view
        Returns the same as agents read it.
    first
        The earliest step.
    stand
        Returns what a request holds where an agent placed it, with machines, taken; or what found
        none.
    begun
        Whether some of the request has begun: then only its planner knows what may move.
    """

    batch: SlotBatch
    overlay: Overlay
    view: Callable[[], PlanView]
    first: int
    stand: Callable[[Request, PlacementResult], Holding | MachineShortage]
    begun: bool = False

    def elsewhere(
        self,
        request: Request,
        missed: MachineShortage,
        planner: Agent | None,
        *,
        asked: bool,
    ) -> Found | MachineShortage:
        """Return another place for a request, what it takes of machines taken.

        Parameters
        ----------
        missed
            What found no machine at first.
        planner
            Asked once more; None asks nobody.
        asked
            Whether it is the planner whose answer found no machines at first.

        Returns
        -------
        Found | MachineShortage
            Its place, or what found no machine.
        """
        if planner is not None and not asked:
            fresh = self._answer(request, planner, self.view())
            if not isinstance(fresh, MachineShortage):
                return missed if fresh is None else fresh
            missed = fresh
        if is_lone(request) and not self.begun:
            return self._search_alone(request, early=plans_early(planner)) or missed
        return missed if planner is None else self._again(request, planner, missed)

    def _search_alone(self, request: Request, *, early: bool) -> Found | None:
        mark = self.batch.mark()
        found = search_alone(self.batch, self.overlay, request, self.first, early=early)
        if found is None:
            return None
        takings = takings_of(found[1], self.overlay.ledger, request.tenant, request.queue)
        if self.overlay.shortage(takings) is None:
            return found
        self.batch.undo(mark)
        return None

    def _again(
        self, request: Request, planner: Agent, missed: MachineShortage
    ) -> Found | MachineShortage:
        """Ask the planner until what it answers finds machines."""
        caps, view = MachineCaps(self.batch.room, request.graph, self.first), self.view()

        def ask(over: Callable[[PlanView], PlanView]) -> PlacementResult:
            return planner.plan([request], over(view), Limits())[0]

        def stand(result: PlacementResult) -> Found | MachineShortage:
            found = self.stand(request, result)
            return found if isinstance(found, MachineShortage) else (result, found)

        return until_it_stands(caps, ask, stand, _ROUNDS, missed) or missed

    def _answer(
        self, request: Request, planner: Agent, view: PlanView
    ) -> Found | MachineShortage | None:
        """Return where a planner places a request, on machines; None if it refuses."""
        result = planner.plan([request], view, Limits())[0]
        if not result.placed:
            return None
        found = self.stand(request, result)
        return found if isinstance(found, MachineShortage) else (result, found)


def is_lone(request: Request) -> bool:
    """Return whether a request is one atom that occurs once."""
    return len(request.graph.vertices) == 1 and len(request.graph.shifts) == 1


def search_alone(
    batch: SlotBatch, overlay: Overlay, request: Request, first: int, *, early: bool = False
) -> Found | None:
    """Return another place for a request of one atom that occurs once, its slots taken; or None.

    Parameters
    ----------
    overlay
        What the pool has left besides the changes of the batch.
    first
        The earliest step.
    early
        Search from the front of the window, else from its end.
    """
    if not is_lone(request):
        return None
    graph = request.graph
    row, ledger = graph.vertices[0], overlay.ledger
    low, high = max(first, int(row[START])), min(int(row[END]), ledger.grid.horizon)
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
    room, tries = overlay.room_for(demand, low, high), tries_for(batch.room.machines)
    slots = _search_early(batch, atom, room, tries) if early else batch.search(atom, room, tries)
    if slots is None:
        return None
    rows = add_up(slots[:, :3])
    index = np.zeros(1, dtype=np.int64)
    result = PlacementResult(None, "", index, np.array([0, len(rows)]), rows)
    holding = holding_of(request, result)
    return result, with_slots(holding, [slots])


def _search_early(
    batch: SlotBatch, atom: SlotAtom, room: NDArray[np.int64], tries: int
) -> Slots | None:
    """Return slots that end early, taken; or None.

    A search tries the lowest rectangles first, which are the longest: what it finds is sought in
    shorter windows too, whose end is halved in.
    """
    mark = batch.mark()
    found = batch.search(atom, room, tries)
    if found is None:
        return None
    end, none = int(found[:, 1].max()), atom.lo + max(atom.lease, -(-atom.work // atom.most)) - 1
    while end - none > 1:
        middle = (none + end) // 2
        batch.undo(mark)
        other = batch.search(replace(atom, hi=middle), room[: middle - atom.lo], tries)
        if other is None:
            none = middle
        else:
            found, end = other, int(other[:, 1].max())
    batch.undo(mark)
    return batch.search(replace(atom, hi=end), room[: end - atom.lo], tries)


class MachineCaps:
    """How many bundles of a request machines hold, finer than totals say it.

    Parameters
    ----------
    room
        What machines have left; None knows only what is noted.
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

    def over(self, view: PlanView) -> PlanView:
        """Return a view in which machines hold no more; the same where nothing was missed."""
        return CappedView(view, self) if self._missed else view

    def breaks(self) -> list[NDArray[np.int64]]:
        """Return the steps at which what machines hold may change."""
        found = [np.array([one.start, one.end], dtype=np.int64) for one in self._missed]
        for start, held in self._known().values():
            found.append(start + 1 + np.flatnonzero(np.diff(held)))
            found.append(np.array([start, start + len(held)], dtype=np.int64))
        return found

    def lower(
        self, bundle: Resources, label: str | None, starts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the most bundles that machines hold from each step of `starts` to the next."""
        most = np.full(len(starts), 2**62, dtype=np.int64)
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
                    for kind, (start, end, lease) in spans.items():
                        self._held[kind] = start, self._room.most_held(start, end, lease, *kind)
        return self._held


def _spans_of(graph: WorkGraph, first: int) -> dict[_Kind, tuple[int, int, int]]:
    """Return by bundle and label where a request may have some, and the shortest lease of them."""
    spans: dict[_Kind, tuple[int, int, int]] = {}
    recurs = len(graph.shifts) > 1 or bool((graph.vertices[:, KIND] == EVERY).any())
    for vertex in graph.atoms.tolist():
        row = graph.vertices[vertex]
        label = graph.labels[row[LABEL]] if graph.labels and row[LABEL] >= 0 else None
        kind = graph.bundles[int(row[BUNDLE])], label
        low, high = max(first, int(row[START])), min(int(row[END]), graph.grid.horizon)
        if recurs:
            low, high = first, graph.grid.horizon
        if low < high:
            start, end, lease = spans.get(kind, (low, high, int(row[LEASE])))
            spans[kind] = min(start, low), max(end, high), min(lease, int(row[LEASE]))
    return spans


def until_it_stands(
    caps: MachineCaps,
    ask: Callable[[Callable[[PlanView], PlanView]], PlacementResult],
    stand: Callable[[PlacementResult], T | MachineShortage | None],
    rounds: int,
    missed: MachineShortage | None = None,
) -> T | MachineShortage | None:
    """Ask an agent for places until machines hold what it answers.

    Parameters
    ----------
    ask
        Returns an answer, read on views that it lets the caps look over.
    stand
        Takes an answer; returns what stands, what finds no machine, or None where it does not fit.
    rounds
        How often the agent is asked.
    missed
        What found no machine before.

    Returns
    -------
    T | MachineShortage | None
        What stands, the last that found no machine, or None where no agent finds a place at all.
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


class CappedView:
    """A view in which machines hold fewer of some bundles during some steps than they have.

    It is a `planner.view.PlanView`; what is free stays as it is, `segments` and the `fit` of
    demands are finer.
    """

    def __init__(self, view: PlanView, caps: MachineCaps) -> None:
        self._view, self._caps = view, caps
        self._demands: dict[tuple[Resources, str | None, str, str], Demand] = {}
        base = view.segments
        inner = np.concatenate(caps.breaks())
        inner = inner[(inner > base[0]) & (inner < base[-1])]
        self._segments = np.unique(np.concatenate([base, inner])).astype(np.int64)

    def demand(self, bundle: Resources, label: str | None, tenant: str, queue: str) -> Demand:
        """Return what `bundle` takes, with what machines hold of it in each segment."""
        key = (bundle, label, tenant, queue)
        known = self._demands.get(key)
        if known is None:
            known = self._demands[key] = self._cap(*key)
        return known

    def _cap(self, bundle: Resources, label: str | None, tenant: str, queue: str) -> Demand:
        base = self._view.demand(bundle, label, tenant, queue)
        starts = self._segments[:-1]
        index = np.searchsorted(self._view.segments, starts, side="right") - 1
        fit = np.array(base.fit, dtype=np.int64)[index]
        fit = np.minimum(fit, self._caps.lower(bundle, label, starts))
        return replace(base, fit=tuple(fit.tolist()))

    @property
    def version(self) -> int:
        """Version of the Plan this view shows."""
        return self._view.version

    @property
    def grid(self) -> TimeGrid:
        """The Plan's grid."""
        return self._view.grid

    @property
    def reference(self) -> Resources:
        """The most of each resource that one machine has."""
        return self._view.reference

    @property
    def nominal(self) -> Resources:
        """All machines together, no outages."""
        return self._view.nominal

    @property
    def first(self) -> int:
        """Step of column 0 of `free`."""
        return self._view.first

    @property
    def free(self) -> NDArray[np.int64]:
        """int64[row, step - first], read-only."""
        return self._view.free

    @property
    def row_names(self) -> tuple[tuple[str, str], ...]:
        """(what, resource) of each row."""
        return self._view.row_names

    @property
    def segments(self) -> NDArray[np.int64]:
        """int64[s + 1]: steps at which what machines hold changes."""
        return self._segments

    @property
    def averages(self) -> AverageSlack:
        """What window averages leave."""
        return self._view.averages

    @property
    def prices(self) -> PriceList | None:
        """What a step costs."""
        return self._view.prices

    def arrays(self) -> ProfileArrays | None:
        """Return the arrays behind the view; ask for demands first."""
        return self._view.arrays()

    def after(self, placed: Iterable[tuple[Request, PlacementResult]], version: int) -> CappedView:
        """Return a view in which `placed` holds its allocations besides, with the same caps."""
        return CappedView(self._view.after(placed, version), self._caps)

    def without(
        self, placed: Iterable[tuple[Request, PlacementResult]], version: int
    ) -> CappedView:
        """Return a view in which `placed` does not stand, with the same caps."""
        return CappedView(self._view.without(placed, version), self._caps)

    def without_steps(self, steps: NDArray[np.bool_]) -> CappedView:
        """Return a view in which no machine is free at some steps, with the same caps."""
        return CappedView(self._view.without_steps(steps), self._caps)
