"""Machines that jobs of Slurm hold beyond what the Plan has for them are not free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.control.capabilities import Capabilities, _yielding
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob, job_of
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.control.slurm import Look
from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan
from dispatch.backends.slurm.reserved.held_nodes import held_spans, lasting_jobs
from dispatch.backends.slurm.slurm_follower import SlurmFollower
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from tests.builders import a_cluster, a_plan, a_request

CLUSTER = replace(
    a_cluster().machines("m", 2, cpu=4, memory="8 GiB").build(), promise=PromiseLevel.PLACED
)
MACHINE_OF = {"n1": "m-0", "n2": "m-1"}
YIELDING = frozenset({"main", "scavenge"})


def a_job(
    id_: int = 1,
    *,
    nodes: tuple[str, ...] = ("n1",),
    ends_s: int = 100,
    partition: str = "agenda",
    reservation: str = "",
    state: str = "RUNNING",
    cpus: int = 4,
    memory: int = 0,
) -> SlurmJob:
    """Return a job that runs."""
    comment = promise_comment(reservation, 0, 0) if reservation else ""
    return SlurmJob(
        id_, "job", "ann", comment, state, "", nodes, partition=partition, started_s=1,
        ends_s=ends_s, cpus=cpus * len(nodes), memory=memory,
    )  # fmt: skip


def spans_of(plan: Plan, *jobs: SlurmJob, now_s: int = 10) -> list[tuple[str, int, int]]:
    """Return the machines that are held, from and to s; the origin is Unix time 0."""
    lasting = list(lasting_jobs(jobs, YIELDING, MACHINE_OF, now_s, 0))
    return [
        (one.machine, one.start // 1000, one.end // 1000)
        for one in held_spans(plan, lasting, 1000 * now_s)
    ]


def a_plan_of(*texts: str) -> Plan:
    """Return a plan that holds r1, r2, ..."""
    requests = [a_request(f"r{i}", text).on(CLUSTER) for i, text in enumerate(texts, 1)]
    return a_plan(CLUSTER).holding(*requests).build()


@pytest.mark.parametrize(
    ("job", "spans"),
    [
        (a_job(), [("m-0", 10, 100)]),  # in the promised partition, for no promise
        (a_job(partition="urgent"), [("m-0", 10, 100)]),
        (a_job(partition="main"), []),  # promised work pushes it aside
        (a_job(partition="urgent", state="PENDING", nodes=()), []),
        (a_job(state="COMPLETED"), []),
        (a_job(state="COMPLETING"), []),  # it has ended
        (a_job(state="CONFIGURING"), [("m-0", 10, 100)]),
        (a_job(nodes=("n2", "n9")), [("m-1", 10, 100)]),
        (a_job(ends_s=10), [("m-0", 10, 30)]),  # Slurm is late
        (a_job(ends_s=0), [("m-0", 10, 10 + 365 * 86_400)]),
        (a_job(reservation="gone"), [("m-0", 10, 100)]),  # cancelled, degraded, or over
    ],
)
def test_what_runs_holds_its_machines_until_it_is_expected_to_end(
    job: SlurmJob, spans: list[tuple[str, int, int]]
) -> None:
    """Unless promised work pushes it aside."""
    assert spans_of(a_plan_of(), job) == spans


@pytest.mark.parametrize(("now_s", "spans"), [(10, [("m-0", 10, 31)]), (31, [])])
def test_a_job_that_is_not_pushed_aside_yet_holds_its_machines_until_then(
    now_s: int, spans: list[tuple[str, int, int]]
) -> None:
    """Slurm's PreemptExemptTime; one that ends before holds them until its end."""
    plan, exempt_s = a_plan_of(), 30

    def found(job: SlurmJob) -> list[tuple[str, int, int]]:
        lasting = lasting_jobs((job,), YIELDING, MACHINE_OF, now_s, 0, exempt_s)
        held = held_spans(plan, lasting, 1000 * now_s)
        return [(one.machine, one.start // 1000, one.end // 1000) for one in held]

    assert found(a_job(partition="main")) == spans
    if spans:
        assert found(a_job(partition="main", ends_s=20)) == [("m-0", 10, 20)]


def test_a_job_in_its_slot_holds_only_what_is_beyond() -> None:
    """A limit that an operator raised, or a job that began late, holds its node longer."""
    plan = a_plan_of("window(atom(<4 cpu>, 2, 2, 50, 100), 5, 55)")
    both = ("n1", "n2")
    assert spans_of(plan, a_job(nodes=both, ends_s=55, reservation="r1")) == []
    longer = a_job(nodes=both, ends_s=80, reservation="r1")
    assert spans_of(plan, longer) == [("m-0", 55, 80), ("m-1", 55, 80)]


def test_a_job_that_began_ahead_of_its_slot_holds_nothing_beyond() -> None:
    """FLEX lets work start early."""
    plan = a_plan_of("window(atom(<4 cpu>, 2, 2, 50, 100), 20, 70)")
    assert spans_of(plan, a_job(ends_s=65, reservation="r1")) == []


def test_promises_that_have_begun_beside_a_job_stay() -> None:
    """They would be the first to lose the machine."""
    plan = a_plan_of("window(atom(<2 cpu>, 4, 4, 50, 200), 5, 55)")
    assert spans_of(plan, a_job(cpus=1, partition="urgent")) == []
    assert spans_of(plan, a_job(cpus=1, partition="urgent"), now_s=60) == [("m-0", 60, 100)]


@pytest.mark.parametrize(
    ("cpus", "memory", "stay"), [(2, 0, True), (3, 0, False), (2, 7000, True), (2, 7500, False)]
)
def test_promises_that_fit_beside_a_job_stay(cpus: int, memory: int, stay: bool) -> None:
    """Others are moved, for their nodes are not free when they begin."""
    plan = a_plan_of("window(atom(<2 cpu, 1 GiB memory>, 2, 2, 50, 100, spread=1), 30, 90)")
    job = a_job(cpus=cpus, memory=memory, partition="urgent")
    assert bool(spans_of(plan, job)) is not stay


def test_only_lower_tiers_that_are_preempted_yield() -> None:
    """And none if Slurm does not preempt by partition."""
    partitions = {
        "agenda": {"PriorityTier": "10", "PreemptMode": "OFF"},
        "main": {"PriorityTier": "5", "PreemptMode": "REQUEUE"},
        "off": {"PriorityTier": "5", "PreemptMode": "OFF"},
        "same": {"PriorityTier": "10", "PreemptMode": "REQUEUE"},
        "urgent": {"PriorityTier": "20", "PreemptMode": "REQUEUE"},
    }
    by_tier = {"PreemptType": "preempt/partition_prio"}
    assert _yielding(by_tier, partitions, "agenda") == {"main"}
    assert _yielding({"PreemptType": "preempt/qos"}, partitions, "agenda") == frozenset()
    assert _yielding({}, partitions, "agenda") == frozenset()


@pytest.mark.parametrize(
    ("text", "memory"),
    [("cpu=4,mem=400M,node=1", 400), ("cpu=4,mem=1.50G", 1536), ("mem=2048K", 2), ("cpu=1", 0)],
)
def test_what_a_job_was_given_is_read(text: str, memory: int) -> None:
    """CPUs and memory of all its nodes."""
    entry: dict[str, Any] = {"job_id": 1, "job_state": "RUNNING", "cpus": 4, "tres_alloc_str": text}
    found = job_of(entry)
    assert (found.cpus, found.memory) == (4, memory)


class _Slurm:
    """A Slurm of two nodes with some jobs."""

    def __init__(self, *jobs: SlurmJob) -> None:
        machines = {name: node for node, name in MACHINE_OF.items()}
        self.settings = SlurmSettings(machines, "agenda", "scavenge", user="u", poll_s=0.0)
        self.commands = self
        self.capabilities = Capabilities("22.05", accounting=False, yielding=YIELDING)
        self._jobs = jobs

    def reservations(self) -> list[Any]:
        return []

    def cancel(self, ids: list[int]) -> None: ...

    def look(self) -> Look:
        return Look({job.id: job for job in self._jobs}, {})


def test_components_and_what_totals_are_promised_to_are_counted_elsewhere() -> None:
    """The first is the dispatcher's to stop; the second is in the totals, wherever it runs."""
    request = a_request("p", "window(atom(<4 cpu>, 1, 1, 50, 50), 5, 55)").on(CLUSTER)
    pooled = replace(request, promise=PromiseLevel.POOLED)
    plan = a_plan(CLUSTER).holding(pooled).build()
    component = replace(a_job(1), name="agenda/x/w/0", user="u")
    promised = a_job(2, reservation="p", ends_s=55)
    other = a_job(3, nodes=("n2",), partition="urgent", ends_s=80)
    slurm = _Slurm(component, promised, other)
    follower = SlurmFollower(cast("Any", slurm), cast("Any", None), 1, 0)
    assert follower.foreign_spans is None
    follower.backend.events(10_000)
    follower.read(plan, 10_000)
    assert follower.foreign_spans is None  # what others reserved is not known yet
    follower._keeper.keep([], 10)
    assert follower.foreign_spans == (ForeignSpan("m-1", 10_000, 80_000, "job 3"),)
