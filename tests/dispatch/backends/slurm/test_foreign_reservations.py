"""Reservations that others made in Slurm: which machines the Plan has not, and when."""

from __future__ import annotations

from dataclasses import replace

from dispatch.backends.slurm.control.records import SlurmReservation
from dispatch.backends.slurm.reserved.foreign_reservations import (
    ForeignSpan,
    foreign_begin,
    foreign_spans,
)


def _one(name: str, *nodes: str, flags: tuple[str, ...] = ()) -> SlurmReservation:
    return SlurmReservation(name, 60, 90, nodes, ("ann",), flags)


def test_machines_are_away_for_the_time_of_a_reservation() -> None:
    """From a minute before it; Agenda's own do not count, nor nodes that it does not plan."""
    found = foreign_spans(
        [_one("maint", "n1", "n7"), _one("agenda_r_1", "n1"), _one("agendas", "n2")],
        "agenda",
        {"n1": "m-0", "n2": "m-1"},
    )
    assert list(found) == [
        ForeignSpan("m-0", 0, 90, "maint"),
        ForeignSpan("m-1", 0, 90, "agendas"),
    ]


def test_one_that_floats_never_begins() -> None:
    """Its begin moves on with the clock."""
    one = _one("float", "n1", flags=("TIME_FLOAT", "SPEC_NODES"))
    assert list(foreign_spans([one], "agenda", {"n1": "m-0"})) == []


def test_a_job_ends_before_the_next_one_of_its_node() -> None:
    """One that is over, one that floats, and one elsewhere do not count."""
    some = [
        _one("over", "n1"),
        replace(_one("later", "n1", "n2"), start_s=200, end_s=300),
        replace(_one("next", "n1"), start_s=150, end_s=300),
        replace(_one("float", "n2", flags=("TIME_FLOAT",)), start_s=120, end_s=300),
    ]
    assert [foreign_begin(some, node, 100) for node in ("n1", "n2", "n3")] == [150, 200, 0]
