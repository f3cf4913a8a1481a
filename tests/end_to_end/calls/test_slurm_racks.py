"""A driver and 64 workers in one rack of a real Slurm: ten nodes of 16 CPUs play two racks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.end_to_end.slurm_lab import SlurmLab, part, until
from tests.own_slurm import own_slurm

pytestmark = pytest.mark.slurm

#: Nodes of a rack: four hold the workers, one the driver.
RACK = 5
RACKS = {
    rack: {f"{rack}-{index}": f"n{first + index}" for index in range(RACK)}
    for rack, first in (("left", 1), ("right", RACK + 1))
}
CLUSTER = """
step = "1s"
horizon = "1h"
""" + "".join(
    f"""
[[machines]]
name = "{rack}"
count = {RACK}
resources = {{ cpu = 16, memory = "2000 MiB" }}
domains = {{ rack = "{rack}" }}
"""
    for rack in RACKS
)


@pytest.fixture
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """Return a server on a Slurm of two racks."""
    there = own_slurm().commands.nodes()
    if len(there) != 2 * RACK or there[0].cpus != 16:
        pytest.skip(
            "start .ci/slurm with AGENDA_SLURM_NODES=10 AGENDA_SLURM_CPUS=16, as .ci/run does"
        )
    machines = {name: node for rack in RACKS.values() for name, node in rack.items()}
    with ExitStack() as stack:
        found = SlurmLab(tmp_path_factory.mktemp("slurm"), stack, CLUSTER, machines)
        stack.callback(found.close)
        found.serve()
        yield found


def test_a_driver_and_64_workers_run_in_the_other_rack_when_theirs_is_lost(lab: SlurmLab) -> None:
    """Within one rack: that of the promise, and after its nodes were drained the other one.

    Each ends when all are there. Jobs of others have all nodes, so nothing starts ahead of its slot
    as best effort.
    """
    for _ in range(2 * RACK):
        lab.slurm.commands.run(
            "sbatch", f"--job-name={lab.prefix}-other", "--partition=scavenge", "--requeue",
            "--exclusive", "--output=/dev/null", "--wrap=sleep 900",
        )  # fmt: skip
    until(lambda: sum(job.is_up for job in lab.slurm.jobs(lab.prefix)) == 2 * RACK)
    members = (
        "together(driver: atom(<4 cpu>, 1, 1, 240, 240), "
        "workers: atom(<1 cpu>, 64, 64, 240, 15360), within=rack)"
    )
    rdl = f"window({members}, +60, +900)"
    body = {"id": "training", "rdl": rdl, "tenant": "root", "agent": "earliest"}
    lab.call("POST", "/v1/reservations", body)
    there = lab.folder / "there"
    there.mkdir()
    meet = (
        f"touch {there}/$SLURM_JOB_ID; set -- {there}/*; "
        f"while [ $# -lt 65 ]; do sleep 3; set -- {there}/*; done"
    )
    parts = (part("driver", 1, meet), part("workers", 64, meet, cpu=1))
    bound = [one | {"atom": one["name"]} for one in parts]
    lab.submit("train", *bound, reservation="training", complete="all")

    def racks() -> set[str]:
        return {name.partition("-")[0] for name in lab.slots("training")}

    (lost,) = racks()
    (other,) = RACKS.keys() - {lost}
    for node in RACKS[lost].values():
        lab.slurm.commands.run(
            "scontrol", "update", f"nodename={node}", "state=drain", "reason=lost"
        )
    until(lambda: racks() == {other})
    until(lambda: lab.application("train")["state"] == "completed", 900)

    done = [job for job in lab.jobs("train") if job.state == "COMPLETED"]
    drivers = [job for job in done if "/driver/" in job.name]
    assert (len(drivers), len(done)) == (1, 65)
    assert {job.partition for job in done} == {"agenda"}
    assert {node for job in done for node in job.nodes} == set(RACKS[other].values())
