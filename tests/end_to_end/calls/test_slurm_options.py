"""Every option of sbatch: the job begins in its slot, or is refused by name and gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from click.testing import CliRunner, Result

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob
from rdl.resources import Resources
from service.cli.main import main
from tests.end_to_end.server_process import serving
from tests.end_to_end.slurm_lab import CLUSTER, SlurmLab, until

pytestmark = pytest.mark.slurm

#: Options of jobs that begin: their nodes, CPUs and MiB of each are reserved.
BEGIN = {
    "": (1, 1, 100),
    "-n 6": (2, 3, 300),
    "-N 2 -n 8": (2, 4, 400),
    "-N 1-4 -n 2": (1, 2, 200),
    "-N 2 --ntasks-per-node=2 -c 2 --mem=500": (2, 4, 500),
    "--mem-per-cpu=150 -c 2": (1, 2, 300),
    "--mincpus=3": (1, 3, 300),
    "--exclusive -N 1": (1, 4, 2000),
    "--mem=0": (1, 4, 2000),
    "-C fat": (1, 1, 100),
    "-p main": (1, 1, 100),
    "--partition=scavenge --requeue": (1, 1, 100),
    "-J mine -A root --nice --mail-type=NONE": (1, 1, 100),
    "--spread-job -N 2": (2, 1, 100),
    "--signal=B:TERM@10 --open-mode=append": (1, 1, 100),
}

#: Options of jobs that are refused, and what the refusal names.
REFUSED = {
    "-C fat|thin": "--constraint=fat|thin",
    "-d singleton": "--dependency",
    "-b now+100": "--begin",
    "-a 0-3": "--array",
    "-x n1": "--exclude",
    "-w n1": "--nodelist",
    "--contiguous -N 2": "--contiguous",
    "--tmp=100": "--tmp",
    "--cores-per-socket=2": "sockets, cores and threads",
    "--threads-per-core=1": "sockets, cores and threads",
    "--ntasks-per-socket=1 -n 2": "--ntasks-per-socket",
    "-s": "--oversubscribe",
    "-t 2 --time-min=1": "--time-min",
    "--comment=mine": "--comment",
    "--hold": "--hold",
    "--no-such-option": "--no-such-option",
    "-L none:1": "license",
    "-p nowhere": "partition",
    "-N 99": "spread=1 on 6 machines",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """Return a server on a Slurm of which two nodes have a feature."""
    with ExitStack() as stack:
        found = SlurmLab(tmp_path_factory.mktemp("slurm"), stack)
        fat = 'name = "n"\ncount = 6\nlabels = ["fat"]'
        found.cluster.write_text(CLUSTER.replace('name = "n"\ncount = 6', fat))
        stack.callback(found.close)
        for node in range(1, 7):
            found.slurm.commands.run(
                "scontrol", "update", f"nodename=n{node}", "availablefeatures=fat,thin",
                "activefeatures=fat,thin",
            )  # fmt: skip
        database, settings = found.folder / "agenda.db", str(found.settings)
        server = serving(database, found.cluster, slurm=settings, agent="earliest")
        found.port = stack.enter_context(server).port
        yield found


def sbatch(lab: SlurmLab, options: str) -> Result:
    """Submit a script with options of sbatch; its time is a minute unless they say another."""
    script = lab.folder / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --time=1 --output=/dev/null\nsleep 1\n")
    url = f"http://127.0.0.1:{lab.port}"
    words = ["sbatch", "--server", url, "--deadline=10m", *options.split(), str(script)]
    return CliRunner().invoke(main, words)


def open_jobs(lab: SlurmLab) -> list[SlurmJob]:
    """Return the jobs that wait or run."""
    return [job for job in lab.slurm.commands.jobs() if job.is_open]


def test_each_job_begins_in_its_slot_or_is_refused_and_gone(lab: SlurmLab) -> None:
    """As Slurm has it: what it charges is what was reserved."""
    faults: list[str] = []
    for options, word in REFUSED.items():
        done = sbatch(lab, options)
        if done.exit_code not in (1, 3) or word.lower() not in done.stderr.lower():
            faults.append(f"{options}: exit code {done.exit_code}, {done.stderr.strip()}")
    until(lambda: not open_jobs(lab))
    jobs: dict[str, tuple[int, str]] = {}
    for options in BEGIN:
        done = sbatch(lab, options)
        if done.exit_code:
            faults.append(f"{options}: exit code {done.exit_code}, {done.stderr.strip()}")
            continue
        id_ = done.stderr.partition("reserved as ")[2].partition(":")[0]
        jobs[options] = int(done.stdout.split()[-1]), id_
    until(lambda: not open_jobs(lab), 300)
    ended = {job.id: job for job in lab.slurm.commands.jobs()}
    for options, (number, id_) in jobs.items():
        job, (nodes, cpus, memory) = ended[number], BEGIN[options]
        if job.state != "COMPLETED" or len(job.nodes) != nodes or job.partition != "agenda":
            faults.append(f"{options}: {job.state} on {job.nodes} in {job.partition}")
        found = lab.call("GET", f"/v1/reservations/{id_}")
        (atom,) = found["atoms"]
        wanted = Resources.of({"cpu": 1000 * cpus, "memory": memory})
        if Resources.from_json(atom["bundle"]) != wanted:
            faults.append(f"{options}: {atom['bundle']} of each node was reserved")
        if [entry["what"] for entry in found["history"]][:1] != ["admitted"] or "missed" in str(
            found["history"]
        ):
            faults.append(f"{options}: {found['history']}")
    assert not faults, "\n".join(faults)


def test_the_promised_partition_takes_no_job_without_a_promise(lab: SlurmLab) -> None:
    """`ReqResv=YES`: its tier is for those that have a reservation."""
    with pytest.raises(SlurmError, match="permission denied"):
        lab.slurm.commands.run(
            "sbatch", "--partition=agenda", "--output=/dev/null", "--wrap=sleep 1"
        )
