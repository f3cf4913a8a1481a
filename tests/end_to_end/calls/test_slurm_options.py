"""Every option of sbatch: the job begins in its slot, or is refused by name and gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob
from rdl.resources import Resources
from service.cli.batch_script import _PASSED_ON, read_options
from service.cli.main import main
from tests.end_to_end.server_process import serving
from tests.end_to_end.slurm_lab import CLUSTER, SlurmLab, until
from tests.patience import eventually

pytestmark = pytest.mark.slurm

#: Options of jobs that begin: their nodes, and CPUs, MiB and GPUs of each, are reserved.
BEGIN: dict[str, tuple[int, ...]] = {
    "": (1, 1, 100),
    "-n 6": (2, 3, 300),
    "-N 2 -n 8": (2, 4, 400),
    "-N 1-4 -n 2": (1, 2, 200),
    "-N 2 --ntasks-per-node=2 -c 2 --mem=500": (2, 4, 500),
    "--mem-per-cpu=150 -c 2": (1, 2, 300),
    "--mincpus=3": (1, 3, 300),
    "--exclusive -N 1": (1, 4, 2000, 2),
    "--mem=0": (1, 4, 2000, 2),
    "-G 2": (1, 1, 100, 2),
    "-N 2 -G 3 -n 2": (2, 1, 100, 2),
    "--gres=gpu:a100:1": (1, 1, 100, 1),
    "-N 2 --gpus-per-node=1": (2, 1, 100, 1),
    "--gpus-per-task=a100:1 -n 2": (1, 2, 200, 2),
    "-G 2 --cpus-per-gpu=2 --gpu-bind=none": (1, 4, 400, 2),
    "-G 1 --mem-per-gpu=300 --gres-flags=enforce-binding": (1, 1, 300, 1),
    "-O -n 8": (2, 1, 100),
    "--priority=5 -Q": (1, 1, 100),
    "-m block --use-min-nodes --cpu-freq=high --mem-bind=none": (1, 1, 100),
    "--acctg-freq=30 -D /tmp -e /dev/null -i /dev/null --export=NONE": (1, 1, 100),
    "--no-kill --no-requeue --propagate --profile=none --nice=10": (1, 1, 100),
    "--prefer=thin --wckey=x -v --mail-user=root --wait-all-nodes=1": (1, 1, 100),
    "--kill-on-invalid-dep=yes --delay-boot=1 --parsable --ignore-pbs": (1, 1, 100),
    "-C fat": (1, 1, 100),
    "-p main": (1, 1, 100),
    "--partition=scavenge --requeue": (1, 1, 100),
    "-J mine -A root --nice --mail-type=NONE": (1, 1, 100),
    "--spread-job -N 2": (2, 1, 100),
    "--signal=B:TERM@10 --open-mode=append": (1, 1, 100),
    "--comment=mine": (1, 1, 100),
    "-b now+60": (1, 1, 100),
    "-d afterany:{first}": (1, 1, 100),
    "-q single -c 2": (1, 2, 200),
    "-q single -c 3": (1, 3, 300),
}

#: Arrays: tasks, how many nodes' worth is reserved, of this many CPUs and MiB, for how many
#: seconds.
ARRAYS = {
    "-a 0-2": (3, 3, 1, 100, 60),
    "-a 1-5:2%2 -c 2": (3, 2, 2, 200, 120),
    "-a 7 -N 2": (1, 2, 1, 100, 60),
}

#: Options of jobs that are refused, and what the refusal names.
REFUSED = {
    "-C fat|thin": "--constraint=fat|thin",
    "-d singleton": "--dependency=singleton",
    "--gres=fpga:1": "gres",
    "--gres=gpu:v100:1": "gpu-v100",
    "--gpus-per-socket=1 --sockets-per-node=1": "--gpus-per-socket",
    "--exclusive=user": "--exclusive=user",
    "-B 1:2:1": "sockets, cores and threads",
    "--hint=nomultithread": "sockets, cores and threads",
    "--gres=gpu:a100:1 -C fat": "fat and gpu-a100",
    "-M elsewhere": "elsewhere",
    "-q single -t 6": "MaxWall of QOS single is 5 minutes",
    "-q single -a 0-1": "jobs of root in QOS single are 1 at a time",
    "-N 1 : -N 2 -w n1": "--nodelist",
    "-N 1 -q single : -N 2 -q single": "jobs of root in QOS single are 1 at a time",
    "-b now+2hours": "its deadline is",
    "-x n1": "--exclude",
    "-w n1": "--nodelist",
    "--contiguous -N 2": "--contiguous",
    "--tmp=100": "--tmp",
    "--cores-per-socket=2": "sockets, cores and threads",
    "--threads-per-core=1": "sockets, cores and threads",
    "--ntasks-per-socket=1 -n 2": "--ntasks-per-socket",
    "-s": "--oversubscribe",
    "-t 2 --time-min=1": "--time-min",
    "--reservation=mine": "--reservation",
    "--ntasks-per-core=1 -n 2": "--ntasks-per-core",
    "--switches=1": "--switches",
    "--hold": "--hold",
    "--no-such-option": "--no-such-option",
    "-L none:1": "license",
    "-p nowhere": "partition",
    "-N 99": "spread=1 on 6 machines",
}


#: Options that are not played, and why.
NOT_PLAYED = {
    "uid gid get-user-env": "of root alone, and older users' files",
    "reboot": "restarts nodes",
    "bb bbf container network power mcs-label resv-ports cluster-constraint": "need a plugin",
    "core-spec thread-spec": "are dropped by a Slurm without AllowSpecResourcesUsage",
    "batch nodefile gpu-freq ntasks-per-gpu export-file tres-per-task": "as others of their kind",
    "container-id extra segment stepmgr tres-bind": "newer than 22.05",
    "output": "in every script here",
    "wrap wait": "tried by test_a_job_without_a_script_is_waited_for",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """Return a server on a Slurm of which two nodes have a feature."""
    with ExitStack() as stack:
        found = SlurmLab(tmp_path_factory.mktemp("slurm"), stack)
        fat = 'name = "n"\ncount = 6\nlabels = ["fat", "gpu-a100"]'
        text = CLUSTER.replace('name = "n"\ncount = 6', fat).replace("cpu = 4", "cpu = 4, gpu = 2")
        found.cluster.write_text(text)
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
    words = ["sbatch", "--server", url, "--deadline=15m", "--no-allow-start"]
    words += [*options.split(), str(script)]
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
    held: dict[str, Any] = {}
    for options in [*BEGIN, *ARRAYS]:
        done = sbatch(lab, options.replace("{first}", str(jobs[""][0] if jobs else 0)))
        if done.exit_code:
            faults.append(f"{options}: exit code {done.exit_code}, {done.stderr.strip()}")
            continue
        id_ = done.stderr.partition("reserved as ")[2].partition(":")[0]
        jobs[options] = int(done.stdout.split()[-1]), id_
        if options in ARRAYS:  # what is left over is released at its end
            held[options] = lab.call("GET", f"/v1/reservations/{id_}")
    until(lambda: not open_jobs(lab), 300)
    ended = {job.id: job for job in lab.slurm.commands.jobs()}
    for options, (number, id_) in jobs.items():
        if options in ARRAYS:
            faults += array_faults(lab, options, number, held[options])
            continue
        job, (nodes, cpus, memory, *gpus) = ended[number], BEGIN[options]
        if job.state != "COMPLETED" or len(job.nodes) != nodes or job.partition != "agenda":
            faults.append(f"{options}: {job.state} on {job.nodes} in {job.partition}")
        found = lab.call("GET", f"/v1/reservations/{id_}")
        (atom,) = found["atoms"]
        wanted = Resources.of({"cpu": 1000 * cpus, "memory": memory, "gpu": sum(gpus)})
        if Resources.from_json(atom["bundle"]) != wanted:
            faults.append(f"{options}: {atom['bundle']} of each node was reserved")
        if [entry["what"] for entry in found["history"]][:1] != ["admitted"] or "missed" in str(
            found["history"]
        ):
            faults.append(f"{options}: {found['history']}")
        if options == "--comment=mine" and not job.comment.endswith(" -- mine"):
            faults.append(f"{options}: {job.comment}")
        if options.startswith("-b") and job.started_s < job.submitted_s + 59:
            faults.append(f"{options}: began {job.started_s - job.submitted_s} s after it came")
        if options.startswith("-d") and job.started_s < ended[jobs[""][0]].ends_s:
            faults.append(f"{options}: began before the job that it waits for had ended")
    first, second = (ended[jobs[f"-q single -c {cpus}"][0]] for cpus in (2, 3))
    if second.started_s < first.ends_s:
        faults.append("QOS single runs one job at a time")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("form", ["words", "lines"])
def test_components_of_a_job_begin_together_and_preempt_best_effort(
    lab: SlurmLab, form: str
) -> None:
    """Each on the nodes of its own member; the small one, which could share a node, has a whole."""
    until(lambda: not open_jobs(lab))
    fill = ["--partition=scavenge", "--requeue", "--exclusive", "--output=/dev/null"]
    for _ in range(6):
        lab.slurm.commands.run("sbatch", *fill, "--wrap=sleep 600")
    until(lambda: sum(job.is_up for job in open_jobs(lab)) == 6)
    script = lab.folder / "components.sh"
    lines = "#SBATCH -c 2\n#SBATCH hetjob\n#SBATCH -N 3 -n 6\n" if form == "lines" else ""
    said = lab.folder / form
    script.write_text(
        f"#!/bin/bash\n#SBATCH --time=1 --output=/dev/null\n{lines}"
        f"echo $SLURM_JOB_NUM_NODES_HET_GROUP_0 $SLURM_JOB_NUM_NODES_HET_GROUP_1 > {said}\n"
    )
    words = ["-c", "2", ":", "-N", "3", "-n", "6", "-t", "1"] if form == "words" else []
    url = f"http://127.0.0.1:{lab.port}"
    done = CliRunner().invoke(
        main, ["sbatch", "--server", url, "--deadline=15m", f"--id={form}", *words, str(script)]
    )
    assert done.exit_code == 0, done.output
    leader = int(done.stdout.split()[-1])

    def components() -> list[SlurmJob]:
        found = (job for job in lab.slurm.commands.jobs() if job.leader == leader)
        return sorted(found, key=lambda job: job.offset)

    until(lambda: all(job.state == "COMPLETED" for job in components()))
    assert said.read_text() == "1 3\n"
    first, second = components()
    assert (len(first.nodes), len(second.nodes)) == (1, 3)
    assert not set(first.nodes) & set(second.nodes)
    assert {first.partition, second.partition} == {"agenda"}
    assert abs(first.started_s - second.started_s) <= 1  # Slurm starts them one after the other
    found = lab.call("GET", f"/v1/reservations/{form}")
    assert [Resources.from_json(atom["bundle"]).get("cpu", 0) for atom in found["atoms"]] == [
        4000, 2000,
    ]  # fmt: skip
    until(lambda: lab.call("GET", f"/v1/reservations/{form}")["state"] == "completed")
    assert "missed" not in str(lab.call("GET", f"/v1/reservations/{form}")["history"])
    assert eventually(lambda: work_of(url, form), is_told) == "in time"
    shown = CliRunner().invoke(main, ["sacct", "--server", url, "-o", "json"])
    work = next(one for one in json.loads(shown.stdout) if one["reservation"] == form)
    assert (work["promise"], work["jobs"]) == ("kept", 2)
    assert work["promised_s"] == 4 * 60
    lab.slurm.commands.cancel([job.id for job in open_jobs(lab)])


def array_faults(lab: SlurmLab, options: str, number: int, found: dict[str, Any]) -> list[str]:
    """Return what is wrong with an array that has ended, and that was promised this."""
    tasks, bundles, cpus, memory, seconds = ARRAYS[options]
    (atom,) = found["atoms"]
    wanted = Resources.of({"cpu": 1000 * cpus, "memory": memory})
    rows = [(end - start, count) for start, end, count in atom["allocation"]]
    there = [job for job in lab.slurm.commands.jobs() if job.array == number]
    faults: list[str] = []
    if [job.state for job in there] != ["COMPLETED"] * tasks:
        faults.append(f"{options}: tasks are {[(job.state, job.reason) for job in there]}")
    if any(job.partition != "agenda" for job in there):
        faults.append(f"{options}: not all tasks ran in the promised partition")
    if Resources.from_json(atom["bundle"]) != wanted or rows != [(seconds, bundles)]:
        faults.append(f"{options}: {rows} of {atom['bundle']} was reserved")
    begin_s, end_s = (
        datetime.fromisoformat(found[name]).timestamp() for name in ("begin_at", "finish_at")
    )
    if any(job.started_s < begin_s - 1 or job.ends_s > end_s + seconds for job in there):
        faults.append(f"{options}: {[(job.started_s, job.ends_s) for job in there]} in {begin_s}")
    return faults


def test_every_option_of_sbatch_is_played_or_left_out_for_a_reason() -> None:
    """The rows above name each that `agenda sbatch` knows."""
    rows = [*BEGIN, *ARRAYS, *REFUSED]
    played = {one.name for row in rows if "no-such" not in row and "hold" not in row
              and "reservation" not in row
              for one in read_options(row.split())[0]}  # fmt: skip
    left_out = {name for names in NOT_PLAYED for name in names.split()}
    assert _PASSED_ON - played - left_out == set()
    assert left_out & played == set()
    assert left_out <= _PASSED_ON


def test_a_job_without_a_script_is_waited_for(lab: SlurmLab) -> None:
    """`--wrap` and `--wait`: the exit code is the job's own."""
    url = f"http://127.0.0.1:{lab.port}"
    words = ["sbatch", "--server", url, "--deadline=10m", "--time=1", "--output=/dev/null"]
    done = CliRunner().invoke(main, [*words, "--wait", "--wrap=exit 4"])
    assert done.exit_code == 4, done.output


def test_a_try_reserves_and_submits_nothing(lab: SlurmLab) -> None:
    """`--test-only` says when the job would run, or why not."""
    before = len(lab.call("GET", "/v1/reservations")["reservations"])
    jobs = {job.id for job in open_jobs(lab)}
    done = sbatch(lab, "--test-only -N 2")
    assert done.exit_code == 0, done.output
    assert "would be reserved: from " in done.stderr
    assert sbatch(lab, "--test-only -N 99").exit_code in (1, 3)
    until(lambda: {job.id for job in open_jobs(lab)} <= jobs)
    assert len(lab.call("GET", "/v1/reservations")["reservations"]) == before


def work_of(url: str, id_: str) -> str:
    """Return what Slurm's accounting says of the work of a promise; nothing if it is behind."""
    shown = CliRunner().invoke(main, ["sacct", "--server", url, "-o", "json"])
    entries = json.loads(shown.stdout)
    return next((one["work"] for one in entries if one["reservation"] == id_), "")


def is_told(work: str) -> bool:
    """Return whether the accounting has it all."""
    return work not in ("", "open")


def test_why_a_job_waits_and_how_it_ended_is_said(lab: SlurmLab) -> None:
    """In Slurm's words: in the history, in `agenda squeue`, and in the explanation."""
    script = lab.folder / "fails.sh"
    script.write_text("#!/bin/bash\n#SBATCH --time=1 --output=/dev/null\nexit 3\n")
    url = f"http://127.0.0.1:{lab.port}"
    words = ["sbatch", "--server", url, "--deadline=10m", "--id=fails", str(script)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    number = done.stdout.split()[-1]

    def said() -> str:
        history = lab.call("GET", "/v1/reservations/fails")["history"]
        return next((one["detail"] for one in history if one["what"] == "work_ended"), "")

    assert until(said) == f"job {number} failed with exit code 3"
    until(lambda: lab.call("GET", "/v1/reservations/fails")["state"] == "completed")
    assert eventually(lambda: work_of(url, "fails"), is_told) == "failed"


def test_what_its_owner_cancels_is_cancelled_and_no_failure(lab: SlurmLab) -> None:
    """By Slurm's accounting; and its promise is released."""
    script = lab.folder / "long.sh"
    script.write_text("#!/bin/bash\n#SBATCH --time=5 --output=/dev/null\nsleep 300\n")
    url = f"http://127.0.0.1:{lab.port}"
    words = ["sbatch", "--server", url, "--deadline=20m", "--id=cancelled", str(script)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    number = int(done.stdout.split()[-1])
    until(lambda: any(job.id == number and job.is_up for job in lab.slurm.commands.jobs()))
    lab.slurm.commands.cancel([number])

    assert eventually(lambda: work_of(url, "cancelled"), is_told) == "cancelled"
    until(lambda: lab.call("GET", "/v1/reservations/cancelled")["state"] == "completed")


def test_what_is_cancelled_before_its_begin_is_accounted_for(lab: SlurmLab) -> None:
    """Slurm's `sacct` lists such a job only if it is asked for its state."""
    script = lab.folder / "later.sh"
    script.write_text("#!/bin/bash\n#SBATCH --time=1 --output=/dev/null -b now+9minutes\ntrue\n")
    url = f"http://127.0.0.1:{lab.port}"
    words = ["sbatch", "--server", url, "--deadline=20m", "--id=later", str(script)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    lab.slurm.commands.cancel([int(done.stdout.split()[-1])])
    assert eventually(lambda: work_of(url, "later"), is_told) == "cancelled"


def test_the_promised_partition_takes_no_job_without_a_promise(lab: SlurmLab) -> None:
    """`ReqResv=YES`: its tier is for those that have a reservation."""
    with pytest.raises(SlurmError, match="permission denied"):
        lab.slurm.commands.run(
            "sbatch", "--partition=agenda", "--output=/dev/null", "--wrap=sleep 1"
        )
