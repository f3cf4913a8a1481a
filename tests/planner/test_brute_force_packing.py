"""The brute force over machines says what was worked out by hand."""

from __future__ import annotations

from dataclasses import astuple

from tests.planner.brute_force_packing import (
    Piece,
    fits_on_machines,
    pieces_of,
)

TEN = [[10]] * 4


def test_the_pool_has_capacity_that_no_packing_has() -> None:
    """4 machines of 10 cores hold 4 x 6 and 2 x 8 cores as a pool (40), but not machine by machine.

    Alongside a bundle of 6 there is no free capacity for one of 8, so 6 machines are needed.
    """
    pieces = [(0, 1, 4, (6,)), (0, 1, 2, (8,))]
    assert sum(n * amounts[0] for _, _, n, amounts in pieces) == 40
    assert not fits_on_machines(TEN, pieces)
    assert fits_on_machines(TEN, [(0, 1, 2, (6,)), (0, 1, 2, (8,)), (0, 1, 2, (4,))])
    assert fits_on_machines([[10]] * 6, pieces)


def test_an_outage_takes_the_machine_for_its_steps() -> None:
    """A piece that ends when its machine goes stays; a longer one has no place."""
    assert fits_on_machines([[1]], [(0, 2, 1, (1,))], away=[(0, 2, 4)])
    assert not fits_on_machines([[1]], [(0, 3, 1, (1,))], away=[(0, 2, 4)])
    assert fits_on_machines([[1], [1]], [(0, 3, 1, (1,))], away=[(0, 2, 4)])


def test_labels_and_spread_narrow_the_choice() -> None:
    """Two bundles of one core fit on one machine of two, unless its atom must spread."""
    two = Piece(0, 1, 2, (1,))
    assert fits_on_machines([[2]], [two])
    alone = Piece(0, 1, 2, (1,), atom=1, spread=1)
    assert not fits_on_machines([[2]], [alone])
    assert fits_on_machines([[2], [2]], [alone])
    assert not fits_on_machines([[2], [2]], [Piece(0, 1, 3, (2,))])
    assert not fits_on_machines([[2], [2]], [Piece(0, 1, 2, (2,), frozenset({1}))])


def test_every_resource_counts() -> None:
    """Two bundles share the cores of a machine, but not its memory."""
    assert not fits_on_machines([[4, 3]], [(0, 1, 2, (2, 2))])
    assert fits_on_machines([[4, 4]], [(0, 1, 2, (2, 2))])


def test_pieces_of_rows_are_first_in_first_out() -> None:
    """Heights 1, 2, 1: the bundle taken first is released first."""
    pieces = pieces_of([[0, 5, 1], [5, 10, 2], [10, 15, 1]], (1,))
    assert [astuple(one)[:3] for one in pieces] == [(0, 10, 1), (5, 15, 1)]
    assert [astuple(one)[:3] for one in pieces_of([[1, 3, 2], [4, 6, 1]], (1,))] == [
        (1, 3, 1),
        (1, 3, 1),
        (4, 6, 1),
    ]
