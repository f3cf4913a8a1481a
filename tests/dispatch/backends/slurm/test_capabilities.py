"""What a Slurm is asked at the start: the right to make reservations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.control.capabilities import (
    _license_problems,
    _partition_problems,
    _permission_problems,
    _warnings,
)
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.settings import SlurmSettings

_SETTINGS = SlurmSettings({"m-0": "n1"}, "agenda", "scavenge", user="me")


class _Slurm:
    """A Slurm that keeps names of reservations, and may fail at one of two commands."""

    def __init__(self) -> None:
        self.there: list[str] = []
        self.fails: dict[str, SlurmError] = {}

    def create_reservation(self, name: str, *_: object) -> None:
        if "create" in self.fails:
            raise self.fails["create"]
        if name in self.there:
            raise SlurmError("Duplicate reservation name")
        self.there.append(name)

    def delete_reservation(self, name: str) -> None:
        if "delete" in self.fails:
            raise self.fails["delete"]
        self.there.remove(name)


def _problems(slurm: _Slurm) -> Iterable[str]:
    return list(_permission_problems(_SETTINGS, cast("Any", slurm)))


def test_a_try_that_was_left_behind_hinders_no_other() -> None:
    """A server was killed, or slurmctld did not answer, before it was deleted."""
    slurm = _Slurm()
    slurm.fails["delete"] = SlurmAwayError("no answer")
    with pytest.raises(SlurmAwayError):
        _problems(slurm)
    slurm.fails.clear()
    assert _problems(slurm) == []
    assert len(slurm.there) == 1
    assert slurm.there[0].startswith("agenda_")  # so that the keeper of reservations deletes it


def test_a_try_that_the_keeper_deleted_first_is_no_problem() -> None:
    """Another server's, of the same prefix."""
    slurm = _Slurm()
    slurm.fails["delete"] = SlurmError("Requested reservation is invalid")
    assert _problems(slurm) == []


def test_who_may_make_no_reservation_is_told_so_and_a_silent_slurm_is_waited_for() -> None:
    """The two are not taken for each other."""
    slurm = _Slurm()
    slurm.fails["create"] = SlurmError("Access/permission denied")
    (problem,) = _problems(slurm)
    assert problem.startswith("no reservation can be made as me: Access/permission denied")
    slurm.fails["create"] = SlurmAwayError("no answer")
    with pytest.raises(SlurmAwayError):
        _problems(slurm)


@pytest.mark.parametrize(
    ("partitions", "problems"),
    [
        ({"agenda": {"PriorityTier": "2"}, "scavenge": {"PriorityTier": "1"}}, []),
        ({"agenda": {"PriorityTier": 2}, "scavenge": {}}, []),
        ({"agenda": {"PriorityTier": 1}, "scavenge": {"PriorityTier": 1}}, ["(1)"]),
        ({"agenda": {}, "scavenge": {"PriorityTier": 3}}, ["(3)"]),
        ({"agenda": {"PriorityTier": 2}}, ["it has agenda"]),
        ({}, ["it has none", "it has none"]),
    ],
)
def test_promised_work_preempts(partitions: dict[str, Any], problems: list[str]) -> None:
    """Both partitions are there, and the tier of the promised one is above the other's."""

    class _Partitions:
        def partitions(self) -> dict[str, Any]:
            return partitions

    found = list(_partition_problems(_SETTINGS, cast("Any", _Partitions())))
    assert len(found) == len(problems)
    assert all(part in text for part, text in zip(problems, found, strict=True))


def test_a_licence_that_slurm_does_not_count_is_a_problem() -> None:
    """By its name, and with those that there are."""
    settings = replace(_SETTINGS, licenses=("matlab", "ansys"))
    assert list(_license_problems(settings, {"matlab": 4, "ansys": 1})) == []
    (problem,) = _license_problems(settings, {"matlab": 4})
    assert problem == "licenses: Slurm has no licence 'ansys'; it has matlab"


@pytest.mark.parametrize(
    ("kind", "parts"),
    [("partition_prio", []), ("qos", ["preempt/qos"]), ("none", ["preempts nothing"])],
)
def test_a_slurm_that_preempts_otherwise_is_warned_of(kind: str, parts: list[str]) -> None:
    """Promised work waits there for what runs."""
    found = list(_warnings({"PreemptType": f"preempt/{kind}"}, accounting=True))
    assert len(found) == len(parts)
    assert all(part in text for part, text in zip(parts, found, strict=True))
