"""Promise levels: pieces keep leases, slots hold what they are given, and `placed` breaks none."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.machines.placement.policy import Policy
from dispatch.simulation.cluster.slots import (
    SlotBook,
    SlotPiece,
    is_packable,
    pieces_of,
    replay,
)
from dispatch.simulation.experiments.promise_levels import (
    STRATEGIES,
    admit_all,
    promise_table,
    run_promise_seed,
)
from dispatch.simulation.experiments.promise_requests import CASES, PromiseOptions

TINY = PromiseOptions(machines=6, requests=60, horizon=200, load=1.3, seeds=(1, 2))

rows = st.lists(
    st.tuples(st.integers(0, 10), st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=5
)


def merged(drawn: list[tuple[int, int, int]]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return rows one after the other, so that none overlap."""
    found, at = [], 0
    for gap, length, bundles in drawn:
        found.append((at + gap, at + gap + length, bundles))
        at += gap + length
    return np.array(found, dtype=np.int64)


@given(rows)
def test_pieces_add_up_to_the_allocation_and_the_oldest_end_first(
    drawn: list[tuple[int, int, int]],
) -> None:
    """At every step as many pieces as bundles; who starts earlier never ends later."""
    allocation = merged(drawn)
    pieces = pieces_of("r", allocation, (1,))
    for step in range(int(allocation[-1, 1]) + 1):
        held = sum(bundles for start, end, bundles in allocation.tolist() if start <= step < end)
        assert held == sum(piece.start <= step < piece.end for piece in pieces)
    ends = [piece.end for piece in sorted(pieces, key=lambda piece: (piece.start, piece.end))]
    assert ends == sorted(ends)


pieces_drawn = st.lists(
    st.builds(
        lambda name, start, length, cpu, memory: SlotPiece(
            f"r{name}", start, start + length, (cpu, memory)
        ),
        st.integers(0, 3),
        st.integers(0, 8),
        st.integers(1, 6),
        st.integers(1, 6),
        st.integers(1, 6),
    ),
    min_size=1,
    max_size=10,
)
CAPACITY = np.array([[8, 4], [4, 8], [6, 6]], dtype=np.int64)


def over_committed(placed: list[tuple[SlotPiece, int, int]]) -> bool:
    """Whether a machine holds more than it has at some step, counted step by step."""
    for step in range(20):
        used = np.zeros_like(CAPACITY)
        for piece, machine, since in placed:
            if since <= step < piece.end:
                used[machine] += piece.amounts
        if (used > CAPACITY).any():
            return True
    return False


@given(st.lists(pieces_drawn, min_size=1, max_size=4))
def test_slots_never_over_commit_a_machine_and_a_refusal_takes_nothing(
    batches: list[list[SlotPiece]],
) -> None:
    """What the book gave fits on every machine at every step; who is refused leaves no trace."""
    book = SlotBook(CAPACITY, 20)
    placed: list[tuple[SlotPiece, int, int]] = []
    for batch in batches:
        before = book.left.copy()
        machines = book.place(batch)
        if machines is None:
            assert (book.left == before).all()
        else:
            placed += [(p, m, p.start) for p, m in zip(batch, machines, strict=True)]
    assert not over_committed(placed)
    if placed:
        every = [piece for piece, _, _ in placed]
        assert is_packable_somehow(every)


def is_packable_somehow(pieces: list[SlotPiece]) -> bool:
    """Whether the whole of all machines holds the pieces at every step: a necessary condition."""
    whole = CAPACITY.sum(axis=0)
    return all(
        (np.sum([p.amounts for p in pieces if p.start <= step < p.end], axis=0) <= whole).all()
        for step in range(20)
        if any(p.start <= step < p.end for p in pieces)
    )


@given(pieces_drawn, st.sampled_from(sorted(STRATEGIES)))
@settings(max_examples=40, deadline=None)
def test_a_replay_moves_nothing_and_misses_nothing(
    pieces: list[SlotPiece], strategy: Policy
) -> None:
    """Machines are never over-committed, and each bundle-step either ran or is counted below."""
    below, ran = replay(CAPACITY, pieces, strategy)
    assert not over_committed(ran)
    asked = sum(piece.end - piece.start for piece in pieces)
    assert asked == sum(below.values()) + sum(piece.end - since for piece, _, since in ran)


def test_packing_at_every_instant_is_not_enough_when_pieces_stay() -> None:
    """Two machines of 2: one short and one long piece each, then one of 2 finds both half full."""
    capacity = np.array([[2], [2]], dtype=np.int64)
    pieces = [
        SlotPiece("a", 0, 4, (1,)),
        SlotPiece("b", 0, 2, (1,)),
        SlotPiece("c", 0, 2, (1,)),
        SlotPiece("d", 0, 4, (1,)),
        SlotPiece("e", 2, 4, (2,)),
    ]
    assert is_packable(capacity, pieces, [0, 2])
    below, _ = replay(capacity, pieces, "greedy")
    assert below == {"e": 2}
    assert SlotBook(capacity, 4).place(pieces) is not None


def test_placed_breaks_none_and_each_level_costs_acceptance() -> None:
    """Large bundles on two kinds of machines: pooled breaks some, placed none of fewer accepted."""
    pooled, packable, placed = (
        admit_all(TINY, level, CASES["large bundles, two kinds of machines"], 1)
        for level in ("pooled", "packable", "placed")
    )
    assert pooled.figures("best_fit")["broken"] > 0.1
    assert packable.figures("best_fit")["broken"] < pooled.figures("best_fit")["broken"]
    assert placed.figures(None)["broken"] == 0.0
    assert len(pooled.pieces) > len(packable.pieces) >= len(placed.pieces) > 0


def test_the_table_is_plain_json_over_the_seeds_that_ran() -> None:
    """Nine rows a case; the seeds told are those that ran."""
    table = promise_table(TINY, [run_promise_seed(TINY, 1)])
    document = json.loads(json.dumps(table.to_json()))
    assert len(document["rows"]) == 27
    assert document["params"]["seeds"] == [1]
