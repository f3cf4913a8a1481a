"""How many machines a workload needs."""

from __future__ import annotations

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.files.workload_file import WorkloadLine
from planner.workload.sizing import MOST_TIMES, size_cluster, try_sizes, with_machines
from tests.builders import a_cluster

GREE = agent_named("gree")


def lines(*sources: str) -> list[WorkloadLine]:
    """Return a request for each source."""
    return [WorkloadLine(f"r{n}", source, "t", "default") for n, source in enumerate(sources)]


def gang(cores: int, start: int, end: int) -> str:
    """Return a gang of one-core bundles that fills its window."""
    length = end - start
    return f"window(atom(<1 cpu>, {cores}, {cores}, {length}, {cores * length}), {start}, {end})"


@pytest.mark.parametrize("described", [1, 4, 7, 30])
def test_the_fewest_machines_are_the_peak_of_what_cannot_move(described: int) -> None:
    """Three gangs that overlap need their sum, wherever the search begins."""
    cluster = a_cluster().horizon(60).machines("m", described, cpu=2).build()
    work = lines(gang(4, 0, 20), gang(6, 10, 30), gang(4, 15, 40))
    sizing = size_cluster(cluster, work, GREE, 1.0)
    assert sizing.found is not None
    assert sizing.found.machines == {"m": 7}
    assert sizing.is_complete


@pytest.mark.parametrize("target", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("counted", ["work", "requests"])
def test_the_answer_is_that_of_trying_every_number(target: float, counted: str) -> None:
    """Where more machines never accept less, bisection finds what a scan finds."""
    cluster = a_cluster().horizon(60).machines("m", 3, cpu=1).build()
    work = lines(*(gang(cores, 0, 20 + cores) for cores in (1, 2, 3, 5, 1, 4)))
    scan = try_sizes(cluster, work, GREE, range(1, 20))
    shares = [one.share(counted) for one in scan]  # type: ignore[arg-type]
    assert shares == sorted(shares)
    wanted = next(one for one in scan if one.share(counted) >= target)  # type: ignore[arg-type]
    sizing = size_cluster(cluster, work, GREE, target, counted=counted)  # type: ignore[arg-type]
    assert sizing.found is not None
    assert sizing.found.machines == wanted.machines
    assert sizing.found.share(counted) == wanted.share(counted)  # type: ignore[arg-type]


def test_what_no_number_of_machines_can_hold_ends_the_search() -> None:
    """A bundle larger than a machine is refused at any size: no answer, and few sizes tried."""
    cluster = a_cluster().horizon(60).machines("m", 2, cpu=2).build()
    sizing = size_cluster(
        cluster, lines("window(atom(<8 cpu>, 1, 1, 10, 10), 0, 20)"), GREE, 1.0, counted="requests"
    )
    assert sizing.found is None
    assert sizing.is_complete
    assert sizing.tried[-1].total <= MOST_TIMES * 2


def test_only_the_named_group_changes() -> None:
    """Requests for a label need machines of its group; the other keeps its count."""
    cluster = (
        a_cluster()
        .horizon(60)
        .machines("plain", 3, cpu=1)
        .machines("ssd", 1, cpu=1, labels=["ssd"])
        .build()
    )
    work = lines('window(atom(<1 cpu>, 4, 4, 20, 80, on="ssd"), 0, 20)')
    sizing = size_cluster(cluster, work, GREE, 1.0, group="ssd")
    assert sizing.found is not None
    assert sizing.found.machines == {"plain": 3, "ssd": 4}


def test_a_stopped_search_keeps_the_least_size_so_far() -> None:
    """Stopped after two sizes it answers by those, and says that it is not complete."""
    cluster = a_cluster().horizon(60).machines("m", 16, cpu=1).build()
    done: list[int] = []
    sizing = size_cluster(
        cluster,
        lines(gang(3, 0, 20)),
        GREE,
        1.0,
        limits=Limits(stop=lambda: len(done) == 2),
        report=lambda one: done.append(one.total),
    )
    assert sizing.found is not None
    assert (sizing.found.total, sizing.is_complete) == (min(done), False)
    assert done == [16, 8]


@pytest.mark.parametrize("total", range(2, 40))
def test_groups_keep_their_proportion(total: int) -> None:
    """Counts add up, each is within one of its share, and no group is empty."""
    cluster = a_cluster().horizon(60).machines("a", 7, cpu=1).machines("b", 1, cpu=1).build()
    changed = with_machines(cluster, total)
    counts = [one.count for one in changed.machines]
    assert sum(counts) == total
    assert min(counts) >= 1
    assert all(abs(n - total * k / 8) <= 1 for n, k in zip(counts, (7, 1), strict=True))


def test_outages_keep_the_machines_that_are_left() -> None:
    """An outage of machines 3 to 5 of 6 has 3 and 4 of five, and is gone with three."""
    cluster = a_cluster().horizon(60).machines("m", 6, cpu=1).outage("m", 3, 10, 20).build()
    [left] = with_machines(cluster, 5).outages
    assert left.indices == (3, 4)
    assert with_machines(cluster, 3).outages == ()


def test_a_gang_larger_than_what_is_described_counts_as_work() -> None:
    """Four machines hold the small job only: the gang of eight is requested nevertheless."""
    cluster = a_cluster().horizon(60).machines("m", 4, cpu=1).build()
    sizing = size_cluster(cluster, lines(gang(1, 0, 10), gang(8, 20, 40)), GREE, 1.0)
    assert sizing.found is not None
    assert sizing.found.machines == {"m": 8}
