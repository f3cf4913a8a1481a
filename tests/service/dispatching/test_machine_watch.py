"""Outages follow which machines have an executor, and touch no other outage."""

from __future__ import annotations

from dataclasses import replace

from planner.cluster.calendar import LOST_MS, WINDOW_MS
from planner.cluster.cluster import Outage
from planner.files import cluster_from_json
from service.dispatching.machine_watch import outages_with_losses, without_old

CLUSTER = cluster_from_json(
    {
        "step": 60,
        "horizon": 3600,
        "machines": [{"name": "a-b", "count": 2, "resources": {"cpu": 1}}],
        "outages": [{"machines": "a-b", "count": 1, "start": 600, "end": 1200}],
    },
    "the test",
)
OWN = CLUSTER.outages[0]
LOSS = Outage("a-b", (0,), 120_000, 120_000 + LOST_MS, "loss")


def test_a_lost_machine_is_down_from_the_step_in_which_it_was_lost() -> None:
    """The name of its group may hold a dash; the operator's outages stay."""
    assert outages_with_losses(CLUSTER, {"a-b-0": 150_000}, (), 170_000) == (OWN, LOSS)


def test_what_is_an_outage_already_is_none_twice() -> None:
    """The next tick changes nothing."""
    there = replace(CLUSTER, outages=(OWN, LOSS))
    assert outages_with_losses(there, {"a-b-0": 150_000}, ["a-b-1"], 170_000) == (OWN, LOSS)


def test_a_machine_that_is_back_was_away_until_now() -> None:
    """In whole steps; within the step of its loss nothing of the outage is left."""
    there = replace(CLUSTER, outages=(OWN, LOSS))
    assert outages_with_losses(there, {}, ["a-b-0", "a-b-1"], 190_000) == (
        OWN,
        replace(LOSS, end_ms=180_000),
    )
    assert outages_with_losses(there, {}, ["a-b-0", "a-b-1"], 170_000) == (OWN,)


def test_machines_lost_in_one_step_are_one_outage() -> None:
    """Of a thousand machines without an executor the cluster gets one entry."""
    lost = {"a-b-1": 125_000, "a-b-0": 150_000}
    assert outages_with_losses(CLUSTER, lost, (), 170_000) == (OWN, replace(LOSS, indices=(0, 1)))


def test_a_loss_that_a_leader_before_has_written_is_none_again() -> None:
    """Another leader may count it from another instant."""
    there = replace(CLUSTER, outages=(OWN, replace(LOSS, indices=(0, 1))))
    assert outages_with_losses(there, {"a-b-0": 900_000}, (), 900_000) == there.outages


def test_one_of_several_comes_back() -> None:
    """The others stay away."""
    there = replace(CLUSTER, outages=(OWN, replace(LOSS, indices=(0, 1))))
    assert outages_with_losses(there, {}, ["a-b-0"], 190_000) == (
        OWN,
        replace(LOSS, indices=(1,)),
        replace(LOSS, indices=(0,), end_ms=180_000),
    )


def test_what_was_over_a_month_ago_is_left_out_of_the_next_change() -> None:
    """A description does not grow for ever; the operator's own outages stay."""
    over = replace(LOSS, end_ms=180_000)
    at_ms = 180_000 + WINDOW_MS
    assert without_old((OWN, over), at_ms - 1) == (OWN, over)
    assert without_old((OWN, over, LOSS), at_ms) == (OWN, LOSS)


def test_what_others_had_an_hour_ago_is_left_out_of_the_next_change() -> None:
    """Jobs of a busy Slurm come and go by the thousand."""
    over = replace(LOSS, end_ms=180_000, kind="reserved")
    assert without_old((OWN, over), 180_000 + 3_599_999) == (OWN, over)
    assert without_old((OWN, over), 180_000 + 3_600_000) == (OWN,)
