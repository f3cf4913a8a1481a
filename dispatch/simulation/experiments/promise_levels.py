"""What a promise is worth: the Plan's pool, packable at every step, or placed at commit.

A pool can promise what machines cannot hold, and a packing for every instant does not help when
pieces may not move. Requests come one by one and are planned by the real agent on the real Plan
(pooled, with fit caps); `packable` refuses what no packing is found for at some step, `placed` what
finds no machine for a whole lease. Then everything accepted is carried out with nothing else on the
cluster, and what finds no machine when it is due is a broken entitlement. Pieces of `placed` go
where their slots are; those of the other two by a strategy, as time comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dispatch.machines.placement.policy import Policy
from dispatch.simulation.cluster.slots import (
    Amounts,
    SlotBook,
    SlotPiece,
    is_packable,
    pieces_of,
    replay,
)
from dispatch.simulation.experiments.promise_requests import (
    CASES,
    PromiseCase,
    PromiseOptions,
    asked_work,
    capacity_of,
    draw_requests,
    promise_cluster,
)
from dispatch.simulation.spread import Figure, figures_json, figures_over_seeds
from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster import Cluster
from planner.placement import PlacementResult
from planner.plan.changes import Admit
from planner.plan.plan import Plan
from planner.request import Request
from rdl.work_graph import BUNDLE

LEVELS = ("pooled", "packable", "placed")
STRATEGIES: Final[tuple[Policy, ...]] = ("best_fit", "greedy", "spread", "tetris")


#: Case, level and strategy.
RowKey = tuple[str, str, str]
#: Figures of one seed.
SeedFigures = dict[RowKey, dict[str, float]]


@dataclass(frozen=True, slots=True)
class PromiseTable:
    """Figures by case, level and strategy; mean and spread over seeds."""

    params: dict[str, object]
    rows: dict[RowKey, dict[str, Figure]]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "experiment": "promise-levels",
            "params": self.params,
            "rows": [
                {
                    "case": case,
                    "level": level,
                    "strategy": strategy,
                    "figures": figures_json(figures),
                }
                for (case, level, strategy), figures in self.rows.items()
            ],
        }


def run_promise_seed(options: PromiseOptions, seed: int) -> SeedFigures:
    """Admit the same requests under each level, and carry out what was accepted."""
    found: SeedFigures = {}
    for name, case in CASES.items():
        for level in LEVELS:
            run = admit_all(options, level, case, seed)
            if level == "placed":
                found[name, level, "its slots"] = run.figures(None)
                continue
            for policy in STRATEGIES:
                found[name, level, policy] = run.figures(policy)
    return found


def promise_table(options: PromiseOptions, runs: Sequence[SeedFigures]) -> PromiseTable:
    """Return mean and spread over the seeds that were run, the first of `options.seeds`."""
    rows = {row: figures_over_seeds([run[row] for run in runs]) for row in runs[0]}
    params: dict[str, object] = {
        "machines": options.machines,
        "requests": options.requests,
        "horizon_steps": options.horizon,
        "load": options.load,
        "agent": options.agent,
        "seeds": list(options.seeds[: len(runs)]),
    }
    return PromiseTable(params, rows)


@dataclass(frozen=True, slots=True)
class AcceptedPieces:
    """What one level accepted: pieces by reservation, and their machines where they have slots."""

    capacity: Amounts
    asked: int
    asked_work: float
    pieces: dict[str, list[SlotPiece]]
    slots: dict[str, list[int]]

    def figures(self, policy: Policy | None) -> dict[str, float]:
        """Carry everything out by a placement policy, or None by slots; count what is broken."""
        every = [piece for pieces in self.pieces.values() for piece in pieces]
        below = self._clashes() if policy is None else replay(self.capacity, every, policy)[0]
        work = sum(self._work(piece) for piece in every)
        steps = sum(piece.end - piece.start for piece in every)
        return {
            "accepted": len(self.pieces) / max(self.asked, 1),
            "accepted by work": work / self.asked_work,
            "broken": len(below) / max(len(self.pieces), 1),
            "bundle-time without a machine": sum(below.values()) / max(steps, 1),
        }

    def _work(self, piece: SlotPiece) -> float:
        whole = self.capacity.sum(axis=0)
        return (piece.end - piece.start) * float((np.array(piece.amounts) / whole).max())

    def _clashes(self) -> dict[str, int]:
        """Fill machines slot by slot, without the book that gave them; count what is too much."""
        last = max(piece.end for pieces in self.pieces.values() for piece in pieces)
        left = np.repeat(self.capacity[:, None, :], last, axis=1)
        below: dict[str, int] = {}
        for name, pieces in self.pieces.items():
            for piece, machine in zip(pieces, self.slots[name], strict=True):
                left[machine, piece.start : piece.end] -= piece.amounts
                short = int((left[machine, piece.start : piece.end] < 0).any(axis=1).sum())
                if short:
                    below[name] = below.get(name, 0) + short
        return below


def admit_all(options: PromiseOptions, level: str, case: PromiseCase, seed: int) -> AcceptedPieces:
    """Offer every request of a seed to one level, in order of submission."""
    cluster = promise_cluster(options, case)
    plan, agent = Plan(cluster, cluster.grid()), agent_named(options.agent)
    capacity = capacity_of(cluster)
    book = SlotBook(capacity, options.horizon)
    requests = draw_requests(options, cluster, case, np.random.default_rng(seed))
    admitted = AcceptedPieces(capacity, len(requests), asked_work(requests, capacity), {}, {})
    for request, _ in requests:
        result = agent.plan([request], plan.view(), Limits())[0]
        if not result.placed:
            continue
        pieces = _pieces(request, result, cluster)
        if level == "packable" and not _fits_packed(capacity, admitted, pieces):
            continue
        if level == "placed":
            slots = book.place(pieces)
            if slots is None:
                continue
            admitted.slots[request.id] = slots
        prepared = plan.prepare([Admit(request, result, agent.name)], plan.version)
        assert prepared.record is not None
        plan.apply(prepared.record, prepared.takings)
        admitted.pieces[request.id] = pieces
    return admitted


def _fits_packed(
    capacity: Amounts,
    admitted: AcceptedPieces,
    pieces: list[SlotPiece],
) -> bool:
    first, last = min(p.start for p in pieces), max(p.end for p in pieces)
    others = [
        piece
        for held in admitted.pieces.values()
        for piece in held
        if piece.start < last and piece.end > first
    ]
    # What runs changes only where a piece starts.
    steps = {piece.start for piece in [*others, *pieces] if first <= piece.start < last}
    return is_packable(capacity, [*others, *pieces], sorted(steps | {first}))


def _pieces(request: Request, result: PlacementResult, cluster: Cluster) -> list[SlotPiece]:
    found: list[SlotPiece] = []
    for vertex, rows in result.atoms():
        bundle = request.graph.bundles[int(request.graph.vertices[vertex, BUNDLE])]
        amounts = tuple(bundle.get(kind, 0) for kind in cluster.resources)
        found += pieces_of(request.id, rows, amounts)
    return found
