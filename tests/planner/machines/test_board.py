"""One more slot on machines: what gives way stands elsewhere, or nothing has changed."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster
from planner.machines.board import MachineBoard
from planner.reservations.slots import slots_of
from rdl.resources import Resources
from tests.builders import a_cluster

_MACHINES, _STEPS, _CPU = 3, 6, 4

#: (start, length, cpu) of a bundle.
_Bundle = tuple[int, int, int]


@cache
def _bundles() -> st.SearchStrategy[list[_Bundle]]:
    one = st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(1, _CPU))
    return st.lists(one, min_size=2, max_size=6)


def _use(
    bundles: list[_Bundle], places: list[int]
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    use = np.zeros((_MACHINES, _STEPS), dtype=np.int64)
    for (start, length, cpu), place in zip(bundles, places, strict=True):
        use[place, start : min(_STEPS, start + length)] += cpu
    return use


def _first_fit(bundles: list[_Bundle]) -> tuple[list[_Bundle], list[int]]:
    """Return the bundles that find a machine one after the other, and which."""
    kept: list[_Bundle] = []
    places: list[int] = []
    for one in bundles:
        for machine in range(_MACHINES):
            if (_use([*kept, one], [*places, machine]) <= _CPU).all():
                kept.append(one)
                places.append(machine)
                break
    return kept, places


@settings(max_examples=80)
@given(_bundles(), st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(1, _CPU)))
def test_a_slot_is_inserted_only_where_all_fit(bundles: list[_Bundle], new: _Bundle) -> None:
    """A place is one that an exhaustive search knows of; where none is found nothing moved."""
    kept, places = _first_fit(bundles)
    board = _board()
    slots = slots_of(
        [[s, min(_STEPS, s + n), 1, m] for (s, n, _), m in zip(kept, places, strict=True)]
    )
    kinds = np.array([cpu - 1 for _, _, cpu in kept], dtype=np.int64)
    board.stand(slots, kinds, np.ones(len(kept), dtype=bool), 2)
    start, length, cpu = new
    piece = (start, min(_STEPS, start + length), 1)
    moves, _ = board.insert(piece, cpu - 1, None, 50)
    after = [moves.get(number, place) for number, place in enumerate(places)]
    possible = any(
        (_use([*kept, new], list(way)) <= _CPU).all()
        for way in product(range(_MACHINES), repeat=len(kept) + 1)
    )
    if moves:
        assert possible
        assert (_use([*kept, new], [*after, moves[len(kept)]]) <= _CPU).all()
    else:
        assert after == places
        # Nothing changed: what fits on the board as it was is placed still.
        direct = any((_use([*kept, new], [*places, m]) <= _CPU).all() for m in range(_MACHINES))
        assert not direct


def test_what_may_not_move_does_not() -> None:
    """Two halves stand apart: with both fixed a whole bundle finds no place, with one it does."""
    for movable, found in (([False, False], False), ([False, True], True)):
        board = MachineBoard(_cluster(2), (0, _STEPS), 1, _KINDS)
        slots = slots_of([[0, 4, 1, 0], [0, 4, 1, 1]])
        board.stand(slots, np.array([1, 1]), np.array(movable), 1)
        moves, _ = board.insert((0, 4, 1), _CPU - 1, None, 10)
        assert bool(moves) is found


_KINDS = [(Resources.of({"cpu": 1000 * cpu}), None) for cpu in range(1, _CPU + 1)]


def _cluster(machines: int) -> Cluster:
    return a_cluster().horizon(_STEPS).machines("m", machines, cpu=_CPU).build()


def _board() -> MachineBoard:
    return MachineBoard(_cluster(_MACHINES), (0, _STEPS), 1, _KINDS)
