"""Reservations in Slurm follow the Plan: created, resized in place, moved, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmReservation
from dispatch.backends.slurm.reserved.reservation_keeper import (
    MOST_CHANGES,
    PlanPiece,
    ReservationKeeper,
)

NOW = 1_000


class SlurmOfReservations:
    """As much of Slurm as keeps reservations."""

    def __init__(self) -> None:
        self.there: dict[str, SlurmReservation] = {}
        self.in_use: set[str] = set()
        self.done: list[str] = []
        self.refused = 0

    def reservations(self) -> list[SlurmReservation]:
        """Return all."""
        return list(self.there.values())

    def create_reservation(
        self, name: str, start_s: int, end_s: int, nodes: Sequence[str], users: Sequence[str]
    ) -> None:
        """Create one."""
        assert name not in self.there
        self.done.append(f"create {name}")
        one = SlurmReservation(name, start_s, end_s, tuple(nodes), tuple(users), ())
        self.there[name] = one

    def update_reservation(self, name: str, **changes: str) -> None:
        """Change one; what has begun keeps its begin, as Slurm wants."""
        self.done.append(f"update {name}")
        one = self.there[name]
        if "starttime" in changes:
            assert one.start_s > NOW
            one = replace(one, start_s=_unix(changes["starttime"]))
        if "endtime" in changes:
            one = replace(one, end_s=_unix(changes["endtime"]))
        if "nodes" in changes:
            one = replace(one, nodes=tuple(changes["nodes"].split(",")))
        self.there[name] = one

    def delete_reservation(self, name: str) -> None:
        """Delete one without jobs."""
        if name in self.in_use:
            self.refused += 1
            raise SlurmError("Requested reservation is in use")
        self.done.append(f"delete {name}")
        del self.there[name]


def _unix(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def keeper_of(slurm: SlurmOfReservations) -> ReservationKeeper:
    """Return a keeper of a Slurm."""
    return ReservationKeeper(cast("SlurmCommands", slurm), "agenda", "me")


def piece(start: int, end: int, *nodes: str, of: str = "r") -> PlanPiece:
    """Return a piece of a reservation, in seconds from now."""
    return PlanPiece(NOW + start, NOW + end, of, nodes)


def held(slurm: SlurmOfReservations, at_s: int) -> set[tuple[str, str, int]]:
    """Return which nodes which reservation has from an instant on, and until when."""
    return {
        (one.name.split("_")[1], node, one.end_s)
        for one in slurm.there.values()
        if one.name.startswith("agenda_") and one.start_s <= at_s < one.end_s
        for node in one.nodes
    }


@pytest.fixture
def slurm() -> SlurmOfReservations:
    """Return a Slurm with a reservation of another user's."""
    found = SlurmOfReservations()
    found.create_reservation("maintenance", NOW, NOW + 9, ["n1"], ["root"])
    found.done.clear()
    return found


def test_a_piece_is_created_once(slurm: SlurmOfReservations) -> None:
    """A second pass, of this keeper or of another after a restart, changes nothing."""
    wanted = [piece(10, 60, "n1", "n2")]
    for keeper in (keeper_of(slurm), keeper_of(slurm)):
        assert keeper.keep(wanted, NOW)
    assert slurm.done == ["create agenda_r_1"]


def test_more_and_fewer_nodes_are_a_change_in_place(slurm: SlurmOfReservations) -> None:
    """Jobs that run in it stay in it."""
    keeper = keeper_of(slurm)
    keeper.keep([piece(-10, 60, "n1", "n2")], NOW)
    keeper.keep([piece(-10, 60, "n2", "n3")], NOW + 5)
    keeper.keep([piece(-10, 90, "n2", "n3")], NOW + 6)
    assert slurm.done == ["create agenda_r_1", "update agenda_r_1", "update agenda_r_1"]
    assert held(slurm, NOW + 10) == {("r", "n2", NOW + 90), ("r", "n3", NOW + 90)}


def test_what_has_begun_stays_when_a_rise_joins_it(slurm: SlurmOfReservations) -> None:
    """Two pieces that both have begun and end together stay two."""
    keeper = keeper_of(slurm)
    keeper.keep([piece(0, 60, "n1"), piece(30, 60, "n2")], NOW)
    keeper.keep([piece(0, 60, "n1"), piece(30, 60, "n2")], NOW + 40)
    assert slurm.done == ["create agenda_r_1", "create agenda_r_2"]


def test_what_is_given_back_is_deleted_and_others_are_left_alone(
    slurm: SlurmOfReservations,
) -> None:
    """One in which a job runs is tried again until it has ended."""
    keeper = keeper_of(slurm)
    keeper.keep([piece(0, 60, "n1")], NOW)
    slurm.in_use.add("agenda_r_1")
    keeper.keep([], NOW + 1)
    assert "agenda_r_1" in slurm.there
    slurm.in_use.clear()
    keeper.keep([], NOW + 2)
    assert list(slurm.there) == ["maintenance"]


def test_what_slurm_refuses_keeps_nothing_else_from_its_turn(slurm: SlurmOfReservations) -> None:
    """Many jobs continue in what is released; each is tried again in its turn, not all at once."""
    keeper, many = keeper_of(slurm), 3 * MOST_CHANGES
    given_back = [piece(0, 60, "n1", of=f"a{number}") for number in range(many)]
    last = piece(0, 60, "n2", of="z")
    while not keeper.keep([*given_back, last], NOW):
        pass
    slurm.in_use = {name for name in slurm.there if name.startswith("agenda_a")}
    keeper.keep([last], NOW + 1)
    slurm.done, slurm.refused = [], 0
    assert keeper.keep([piece(0, 90, "n2", of="z")], NOW + 2)
    assert [one.partition(" ")[0] for one in slurm.done] == ["update"]
    assert slurm.refused == MOST_CHANGES
    slurm.in_use.clear()
    while not keeper.keep([], NOW + 3):
        pass
    assert list(slurm.there) == ["maintenance"]


def test_a_job_may_run_in_its_own_reservation_first(slurm: SlurmOfReservations) -> None:
    """Then in what is lent there, or begins later: one that it does not name keeps it away."""
    keeper = keeper_of(slurm)
    keeper.keep(
        [
            piece(0, 60, "n1", of="a"),
            piece(3, 60, "n1", "n2", of="b"),
            piece(20, 60, "n1", of="c"),
        ],
        NOW,
    )
    rights = keeper.rights_on("n1", "b", NOW, NOW + 5)
    assert rights.names == ("agenda_b_2", "agenda_a_1", "agenda_c_3")
    assert (rights.own, rights.active) == (True, True)
    assert not keeper.rights_on("n1", "c", NOW, NOW + 5).own  # it begins later
    rights = keeper.rights_on("n2", None, NOW, NOW + 5)
    assert (rights.names, rights.own, rights.active) == (("agenda_b_2",), False, True)
    assert not keeper.rights_on("n3", None, NOW, NOW + 5).active


_NODES = ("n1", "n2", "n3", "n4")
_PIECES = st.lists(
    st.builds(
        lambda start, length, nodes, of: piece(start, start + length, *sorted(nodes), of=of),
        st.sampled_from((-5, 0, 10, 20)),
        st.sampled_from((30, 40, 60)),
        st.sets(st.sampled_from(_NODES), min_size=1),
        st.sampled_from(("p", "q")),
    ),
    max_size=6,
)


@given(st.lists(_PIECES, min_size=1, max_size=4))
def test_slurm_holds_what_the_plan_wants_after_every_change(plans: list[list[PlanPiece]]) -> None:
    """Whatever stood before: each node to each end, now and when the pieces begin."""
    slurm = SlurmOfReservations()
    keeper = keeper_of(slurm)
    for wanted in plans:
        assert keeper.keep(wanted, NOW)
        for at_s in (NOW + 1, NOW + 10, NOW + 20):
            assert held(slurm, at_s) == {
                (one.reservation, node, one.end_s)
                for one in wanted
                if one.start_s <= at_s < one.end_s
                for node in one.nodes
            }
