"""Promises that name no machine: nothing stands in Slurm, their work goes ahead of best effort."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.reserved.reservation_keeper import (
    ReservationKeeper,
    machineless_at,
    nodes_by_atom,
    pieces_of,
)
from dispatch.backends.slurm.reserved.user_jobs import UserJobs
from planner.promise import PromiseLevel
from tests.builders import a_cluster, a_plan, a_request


def test_pooled_reservations_are_told_while_they_hold_something() -> None:
    """Placed ones are pieces instead."""
    cluster = a_cluster().machines("m", 4, cpu=4).build()
    gang = "window(atom(<4 cpu>, 2, 2, 10, 20), 20, 30)"
    requests = [
        replace(a_request(id_, gang).on(cluster), promise=level)
        for id_, level in (("p", PromiseLevel.POOLED), ("s", PromiseLevel.PLACED))
    ]  # fmt: skip
    plan = a_plan(cluster).holding(*requests).build()
    assert machineless_at(plan, 5_000, 10_000) == frozenset()
    assert machineless_at(plan, 15_000, 20_000) == {"p"}
    assert machineless_at(plan, 29_000, 34_000) == {"p"}
    assert machineless_at(plan, 30_000, 35_000) == frozenset()
    nodes = {f"m-{index}": f"n{index}" for index in range(4)}
    assert {piece.reservation for piece in pieces_of(plan, 0, 99_000, 0, nodes)} == {"s"}


def test_nodes_are_those_of_each_member_until_it_is_over() -> None:
    """Equal members are two; a reservation that is not in the Plan has none."""
    cluster = a_cluster().machines("m", 4, cpu=4).build()
    members = "together(atom(<4 cpu>, 1, 1, 10, 10), atom(<4 cpu>, 1, 1, 10, 10), {})"
    group = f"window({members.format('atom(<3 cpu>, 2, 2, 10, 20)')}, 20, 30)"
    request = replace(a_request("p", group).on(cluster), promise=PromiseLevel.PLACED)
    plan = a_plan(cluster).holding(request).build()
    nodes = {f"m-{index}": f"n{index}" for index in range(4)}
    found = nodes_by_atom(plan, ["p", "none"], 29_000, nodes)
    assert {atom: len(some) for atom, some in found["p"].items()} == {0: 1, 1: 1, 2: 2}
    assert set().union(*found["p"].values()) == set(nodes.values())
    assert found.keys() == {"p"}
    assert nodes_by_atom(plan, ["p"], 30_000, nodes) == {}


class SlurmOfJobs:
    """As much of Slurm as changes and releases jobs."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def update_job(self, id_: int, **changes: str) -> None:
        """Note a change."""
        self.done.append((id_, changes))

    def release(self, id_: int) -> None:
        """Note a release."""
        self.done.append(id_)


def test_a_held_job_of_such_a_promise_is_let_run_as_promised_work() -> None:
    """Once it holds something, and once only."""
    slurm = SlurmOfJobs()
    keeper = cast("ReservationKeeper", SimpleNamespace(of=lambda _id: []))
    settings = SlurmSettings({"m-0": "n0"}, promised="agenda", best_effort="scavenge")
    jobs = UserJobs(settings, cast("SlurmCommands", slurm), keeper)
    held = SlurmJob(7, "job", "ann", promise_comment("p", 99, 9), "PENDING", "JobHeldUser", ())

    jobs.follow([held], {"p": "ann"}, 10)
    assert slurm.done == []
    jobs.follow([held], {"p": "ann"}, 20, frozenset({"p"}))
    jobs.follow([replace(held, reason="Priority")], {"p": "ann"}, 21, frozenset({"p"}))
    assert slurm.done == [(7, {"partition": "agenda"}), 7]
