"""What a cluster costs is told before anything is made of it, and what is too much is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from planner.cluster.cost import MOST_BYTES, cells_fit, cost_of, excesses
from planner.files import FileError, read_cluster
from planner.placement import Code
from planner.plan.batch.admission import screen
from tests.builders import ClusterBuilder, a_cluster, a_plan, a_request
from tests.examples import some_of

#: Plans on a cluster file in a process of its own; prints MiB that this took. Its greatest size is
#: read where it begins again: `getrusage` begins with that of the process that started this one.
_MEASURE = """
import sys
from pathlib import Path
def greatest():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
from planner.plan.records.changes import Advance
from planner.files import read_cluster
from planner.plan.plan import Plan
from tests.builders import a_request, ask, commit
cluster = read_cluster(sys.argv[1])
small = Plan(cluster, cluster.grid().with_horizon(1000))
ask(small, a_request("r", "window(atom(<1 cpu>, 1, 5, 60, 600), 0, 900)").on(cluster, small.grid))
before = greatest()
plan = Plan(cluster, cluster.grid())
both = "all(atom(<1 cpu>, 1, 5, 60, 600), atom(<1 cpu>, 1, 2, 60, 600))"
source = f"window({both}, 10, {plan.grid.horizon - 10})"
ask(plan, a_request("r", source).on(cluster, plan.grid))
commit(plan, Advance(1, plan.grid.horizon + 1))
print((greatest() - before) // 1024)
"""


_ONE_GROUP = '[[machines]]\nname = "a"\ncount = 10\nresources = {cpu = 1}\n'


def _labelled(count: int) -> ClusterBuilder:
    cluster = a_cluster().machines("plain", 10, cpu=1)
    for number in range(count):
        cluster = cluster.machines(f"l{number}", 1, (f"label{number}",), cpu=1)
    return cluster


@pytest.mark.parametrize(
    "shape",
    some_of(
        [
            f"step = 1\nhorizon = 4000000\n{_ONE_GROUP}",
            f"step = 1\nhorizon = 2000000\n{_ONE_GROUP}"
            '[[policies]]\ntype = "capacity_over_time"\naverage = 0.5\nwindow = 3000000\n',
            "step = 1\nhorizon = 2000000\n"
            + "".join(
                f'[[machines]]\nname = "m{n}"\ncount = 10\n'
                f'resources = {{cpu = 1, memory = "1 GiB"}}\nlabels = ["x{n}"]\n'
                for n in range(5)
            ),
        ],
        2,
    ),
    ids=lambda shape: "labels" if "labels" in shape else "window" if "window" in shape else "long",
)
def test_memory_is_predicted(tmp_path: Path, shape: str) -> None:
    """What a process takes for a plan is within a half and one and a half of what was reported."""
    path = tmp_path / "cluster.toml"
    path.write_text(shape)
    told = sum(one.memory_bytes for one in cost_of(read_cluster(path))) / 2**20
    ran = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    assert told / 2 <= int(ran.stdout) <= told * 1.5, (told, ran.stdout)


def test_a_year_of_seconds_can_be_planned() -> None:
    """The limits leave capacity for a year of seconds, and for a hundred thousand machines."""
    year = a_cluster().horizon("365d").machines("plain", 1000, cpu=8, memory="32 GiB").build()
    assert excesses(year) == ()
    many = a_cluster().horizon("1w").machines("plain", 100_000, cpu=8, memory="32 GiB").build()
    assert excesses(many) == ()


def test_the_plan_that_locked_a_server_up_is_refused() -> None:
    """49,000,000 steps and 30 labels: the message has the numbers, the fix a horizon that fits."""
    (excess,) = excesses(_labelled(30).horizon(49_000_000).build())
    assert excess.pointer == "/horizon"
    assert "49,000,000 steps x 31 rows of the profile (1 resource, 30 labels" in excess.message
    assert "24.5 GiB of memory" in excess.message
    most = int(excess.fix.split()[3].replace(",", ""))
    assert excesses(_labelled(30).horizon(most - 1000).build()) == ()


@pytest.mark.parametrize(
    ("cluster", "pointer", "said"),
    [
        (a_cluster().machines("m", 10_000_000, cpu=1), "/machines", "10,000,000 machines"),
        (
            a_cluster().machines("m", 900_000, **{f"r{n}": 1 for n in range(100)}),
            "/machines",
            "900,000 machines x 100 resources",
        ),
        (
            a_cluster().machines("m", 600_000, cpu=1).outage("m", 600_000, 0, 9)
            .outage("m", 600_000, 9, 20),
            "/outages",
            "outages name 1,200,000 machines",
        ),
        (
            a_cluster().machines("m", 1, cpu=1)
            .policy("capacity_over_time", average=0.5, window=500_000_000),
            "/policies",
            "1 averages over windows of up to 500,000,000 steps",
        ),
        (
            a_cluster().machines("m", 1_000_000, cpu=1_000_000)
            .policy("capacity_over_time", average=0.5, window=90_000_000_000),
            "/policies/0/window",
            "too long to be summed up",
        ),
        (
            a_cluster().step("1d").horizon("1000000d").machines("m", 1, cpu=1)
            .policy("quota", limit={"cpu": 1}, start="08:00", end="09:00"),
            "/policies",
            "1 quotas at times of day (1 rows) on 1,000,001 days",
        ),
        (
            a_cluster().horizon(2_000_000).machines("m", 1, cpu=1)._with(
                prices=[{"start": 0, "end": 2_000_000, "factor": 2}] * 5000
            ),
            "/prices",
            "5,000 prices for 10,000,000,000 steps",
        ),
        (
            a_cluster().machines("m", 1, cpu=1)._with(
                queues=[{"name": f"q{n}"} for n in range(10_001)]
            ),
            "/queues",
            "10,001 queues",
        ),
    ],
)  # fmt: skip
def test_what_is_too_much_is_named(cluster: ClusterBuilder, pointer: str, said: str) -> None:
    """Each thing that could take all memory or all time has a place, a number and advice."""
    found = [one for one in excesses(cluster.build()) if one.pointer == pointer]
    assert found, excesses(cluster.build())
    assert said in found[0].message
    assert found[0].fix


def test_a_cluster_of_nothing_costs_next_to_nothing() -> None:
    """Groups without machines or resources are rows of no length, not errors."""
    assert excesses(a_cluster().machines("m", 0, cpu=1).build()) == ()
    assert excesses(a_cluster().machines("m", 3).build()) == ()


def test_a_plan_that_reaches_further_is_shown_what_can_be_done_now() -> None:
    """A horizon cannot be taken back at once: advice to shorten it alone would not help."""
    (excess,) = excesses(_labelled(30).horizon(1000).build(), end=49_000_000)
    assert "the plan reaches further already" in excess.fix


def test_outages_that_are_over_cost_nothing() -> None:
    """A plan that has moved past them can continue taking machines away."""
    cluster = a_cluster().machines("m", 600_000, cpu=1)
    cluster = cluster.outage("m", 600_000, 0, 9).outage("m", 600_000, 9, 20)
    assert excesses(cluster.build())
    assert excesses(cluster.build(), first=9) == ()


def test_a_few_words_cannot_name_more_machines_than_are_read() -> None:
    """Twenty outages of a million machines each are refused before their numbers are listed."""
    cluster = a_cluster().machines("m", 1_000_000, cpu=1)
    for number in range(20):
        cluster = cluster.outage("m", 1_000_000, number, number + 1)
    with pytest.raises(FileError, match="outages name 11,000,000 machines up to here"):
        cluster.build()


def test_a_cluster_file_beyond_the_limits_is_refused(tmp_path: Path) -> None:
    """`agenda plan` and the first start of `agenda serve` read files this way."""
    path = tmp_path / "cluster.toml"
    groups = "".join(
        f'[[machines]]\nname = "m{n}"\ncount = 1\nresources = {{cpu = 1}}\nlabels = ["x{n}"]\n'
        for n in range(30)
    )
    path.write_text(f"step = 1\nhorizon = 49000000\n{groups}")
    with pytest.raises(FileError, match="rows of the profile") as refused:
        read_cluster(path)
    assert refused.value.pointer == "/horizon"
    assert MOST_BYTES == 4 * 2**30


def test_tenants_counted_apart_are_taken_while_there_is_capacity_for_their_limits() -> None:
    """Each new tenant has rows of its own: one that would need too many is refused."""
    cluster = a_cluster().horizon(20_000_000).machines("m", 10, cpu=1)
    cluster = cluster.policy("quota", tenant="*", limit={"cpu": 5})
    plan = a_plan(cluster.build()).build()
    taken = []
    for number in range(12):
        request = a_request(f"r{number}", "atom(<1 cpu>, 1, 1, 60, 60)").tenant(f"t{number}")
        refused = screen(plan, request.on(plan.cluster))
        taken.append(refused is None)
    assert refused is not None
    assert refused.code is Code.COUNT_LIMIT
    assert "have no free capacity to count 't11'" in refused.detail
    known = a_request("known", "atom(<1 cpu>, 1, 1, 60, 60)").tenant("t0")
    assert screen(plan, known.on(plan.cluster)) is None
    assert taken == [True] * taken.count(True) + [False] * taken.count(False)
    assert cells_fit((1 + taken.count(True)) * 20_000_000, 20_000_000)
    assert not cells_fit((2 + taken.count(True)) * 20_000_000, 20_000_000)
