"""Outages follow what others have reserved beneath the Plan, and touch no other outage."""

from __future__ import annotations

from dataclasses import replace

from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan
from planner.cluster.cluster import RESERVED, Cluster, Outage, Pool
from planner.files import cluster_from_json
from service.dispatching.machine_watch import outages_with_reserved

CLUSTER = cluster_from_json(
    {
        "step": 60,
        "horizon": 3600,
        "machines": [{"name": "a-b", "count": 3, "resources": {"cpu": 1}}],
        "outages": [{"machines": "a-b", "count": 1, "start": 600, "end": 1200}],
    },
    "the test",
)
OWN = CLUSTER.outages[0]
HELD = Outage("a-b", (0, 1), 300_000, 900_000, RESERVED)
SPANS = [ForeignSpan(f"a-b-{index}", 300_000, 900_000, "maint") for index in (0, 1)]


def _with(*outages: Outage) -> Cluster:
    return replace(CLUSTER, outages=(OWN, *outages))


def test_machines_reserved_together_are_one_outage() -> None:
    """The operator's outages stay; machines that the cluster has not are left out."""
    spans = [*SPANS, ForeignSpan("a-b-9", 300_000, 900_000, "maint")]
    assert outages_with_reserved(CLUSTER, spans, 61_000) == (OWN, HELD)


def test_what_is_an_outage_already_is_none_twice() -> None:
    """Before it begins and while it continues."""
    for now_ms in (61_000, 450_000):
        assert outages_with_reserved(_with(HELD), SPANS, now_ms) == (OWN, HELD)


def test_what_began_before_it_was_seen_is_away_from_now_on() -> None:
    """In whole steps, and the next look changes nothing."""
    late = replace(HELD, start_ms=420_000)
    found = outages_with_reserved(CLUSTER, SPANS, 450_000)
    assert found == (OWN, late)
    assert outages_with_reserved(_with(late), SPANS, 470_000) == (OWN, late)


def test_a_machine_that_is_held_from_now_on_is_the_same_outage_at_every_look() -> None:
    """A span may begin at the instant of the look, inside of a step."""
    outages = outages_with_reserved(CLUSTER, [ForeignSpan("a-b-0", 301_234, 900_000, "")], 301_234)
    assert outages == (OWN, replace(HELD, indices=(0,)))
    for now_ms in (301_734, 340_000, 365_000):
        span = ForeignSpan("a-b-0", now_ms, 900_000, "")
        assert outages_with_reserved(_with(outages[1]), [span], now_ms) == outages


def test_what_is_over_is_no_outage_and_stays_in_the_history() -> None:
    """A reservation that has ended is not taken for one that was given up."""
    assert outages_with_reserved(CLUSTER, SPANS, 900_000) == (OWN,)
    assert outages_with_reserved(_with(HELD), (), 900_000) == (OWN, HELD)


def test_a_reservation_that_is_given_up_ends_now_or_never_begins() -> None:
    """One machine of two, and both."""
    now = outages_with_reserved(_with(HELD), SPANS[:1], 450_000)
    assert now == (OWN, replace(HELD, indices=(0,)), replace(HELD, indices=(1,), end_ms=420_000))
    assert outages_with_reserved(_with(HELD), (), 61_000) == (OWN,)


def test_one_that_is_changed_is_another() -> None:
    """Its begin while that is ahead, and its end at all times."""
    later = [one._replace(start=360_000) for one in SPANS]
    assert outages_with_reserved(_with(HELD), later, 61_000) == (
        OWN,
        replace(HELD, start_ms=360_000),
    )
    longer = [one._replace(end=960_000) for one in SPANS]
    assert outages_with_reserved(_with(HELD), longer, 450_000) == (
        OWN,
        replace(HELD, end_ms=420_000),
        replace(HELD, start_ms=420_000, end_ms=960_000),
    )


def test_two_reservations_of_one_machine_are_two_outages() -> None:
    """One of them may end before the other."""
    spans = [SPANS[0], SPANS[0]._replace(end=960_000, reservation="course")]
    one = replace(HELD, indices=(0,))
    assert outages_with_reserved(CLUSTER, spans, 0) == (OWN, one, replace(one, end_ms=960_000))


def test_an_outage_says_what_holds_its_machines_in_slurm() -> None:
    """Machines that two jobs hold until the same time are two outages, each with its own reason."""
    spans = [ForeignSpan(f"a-b-{n}", 300_000, 900_000, f"job {n}") for n in (0, 1)]
    found = outages_with_reserved(CLUSTER, spans, 301_000)[1:]
    assert [(one.indices, one.reason) for one in found] == [
        ((0,), "in Slurm: job 0"),
        ((1,), "in Slurm: job 1"),
    ]


def test_units_of_a_pool_are_away_as_machines_are() -> None:
    """Licences that a job has; those past the pool's count are left out."""
    cluster = replace(CLUSTER, pools=(Pool("matlab", 2),))
    spans = [ForeignSpan(f"matlab-{unit}", 300_000, 900_000, "job 7") for unit in (1, 2)]
    away = Outage("matlab", (1,), 300_000, 900_000, RESERVED)
    found = outages_with_reserved(cluster, spans, 61_000)
    assert found == (OWN, away)
    assert found[1].reason == "in Slurm: job 7"
    assert outages_with_reserved(replace(cluster, outages=found), spans, 361_000) == found
