"""`agenda sbatch` learns from Slurm's accounting how long promised jobs wait for their start."""

from __future__ import annotations

from dataclasses import replace

from dispatch.backends.slurm.control.job_demand import JobDemand
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from rdl.text.parser import parse
from service.cli.batch_script import request_of
from service.cli.slurm import delays_of, enlarged

RUN = SlurmJob(
    7, "job", "ann", promise_comment("r", 900, 9), "COMPLETED", "", ("n1", "n2"), started_s=107,
    ends_s=120, cpus=8, eligible_s=100,
)  # fmt: skip


def test_a_request_is_longer_by_what_jobs_of_its_size_waited() -> None:
    """Seven seconds for four CPUs a node, whatever memory it asks for; its work grows with it."""
    table = delays_of([RUN] * 10)
    demand = JobDemand(2, 4, 2048)
    longer, delay_ms = enlarged(request_of([demand], 60, "+1h"), demand.cpus, table)
    assert delay_ms == 7000
    assert parse(longer) == parse(request_of([demand], 67, "+1h"))


def test_without_enough_starts_a_request_stays() -> None:
    """Nine are too few; jobs of no one's promise, and those that had not begun, say nothing."""
    request = request_of([JobDemand(2, 4)], 60, "+1h")
    others = [replace(RUN, comment="mine")] * 20 + [replace(RUN, started_s=0)] * 20
    assert enlarged(request, 4, delays_of([RUN] * 9 + others)) == (request, 0)
