"""Tasks, sweeps, comparisons and optimisations on a Dask cluster of separate processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.optimization.objective import Objective
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.workload.compare import comparison_of, run_agent
from service.jobs.dask_workers import DaskWorkers
from service.jobs.executors import Link, WorkerError, answers_of
from service.jobs.tasks import bare_limits, compare_on, improve_on
from tests.dask_cluster import DaskCluster, dask_cluster
from tests.patience import eventually
from tests.service.better_plan import two_in_the_way
from tests.service.conftest import Open, Service
from tests.service.jobs import work


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], DaskCluster]]:
    """Return what gives the cluster that runs, a new one where its scheduler was killed."""
    with ExitStack() as stack:
        found: list[DaskCluster] = []

        def running() -> DaskCluster:
            if not found or found[-1].scheduler.poll() is not None:
                made = dask_cluster(tmp_path_factory.mktemp("dask"))
                found.append(stack.enter_context(made))
            return found[-1]

        yield running


@pytest.fixture
def cluster(clusters: Callable[[], DaskCluster]) -> DaskCluster:
    """Return a scheduler and two workers that run."""
    return clusters()


@pytest.fixture
def workers(cluster: DaskCluster) -> Iterator[DaskWorkers]:
    """Return the workers of the cluster."""
    made = DaskWorkers(cluster.address)
    yield made
    made.close()


def test_each_task_is_answered_once_and_its_news_is_heard(workers: DaskWorkers) -> None:
    """As in local processes; and what a task raises is raised here."""
    heard: list[Any] = []
    tasks = [(f"square of {n}", partial(work.squared, n)) for n in range(5)]
    found = answers_of(tasks, workers, Link(tell=heard.append))
    assert sorted(found) == [(n, n * n) for n in range(5)]
    assert sorted(heard) == [f"squaring {n}" for n in range(5)]
    with pytest.raises(ValueError, match="no such number"):
        list(answers_of([("broken", work.broken)], workers, Link()))


def test_after_a_stop_those_at_work_end_and_no_more_begin(workers: DaskWorkers) -> None:
    """Each that had begun answers with the best so far; of six tasks two workers begin two."""
    begun: list[Any] = []
    tasks = [(str(n), work.until_stopped) for n in range(6)]
    found = dict(answers_of(tasks, workers, Link(lambda: bool(begun), begun.append)))
    assert set(found.values()) == {"the best so far"}
    assert 0 < len(found) <= 2


def test_the_first_begins_though_it_is_to_stop_already(workers: DaskWorkers) -> None:
    """As in this process: what it had kept is not lost, it answers with that."""
    tasks = [(str(n), work.until_stopped) for n in range(2)]
    assert dict(answers_of(tasks, workers, Link(lambda: True)))[0] == "the best so far"


def test_a_task_at_work_ends_when_its_command_leaves(cluster: DaskCluster, tmp_path: Path) -> None:
    """No worker continues for a command that gave up."""
    workers, mark = DaskWorkers(cluster.address), tmp_path / "mark"
    workers.submit(partial(work.until_stopped_at, mark), first=True)
    eventually(mark.exists, bool)
    workers.close()
    eventually(mark.exists, lambda there: not there)


def test_a_job_of_a_server_runs_there_is_watched_and_stopped(
    cluster: DaskCluster, open_service: Open
) -> None:
    """Progress and the best so far come back; a comparison too has its rows from there."""
    service = open_service(dask=cluster.address)
    two_in_the_way(service)
    asked = {"time_limit": 600, "admit_refused": True, "frozen_until": "+0", "solver": "none"}
    id_ = service.client.post("/v1/optimizations", json=asked).get_json()["id"]

    def gained() -> float:
        done = _shown(service, f"/v1/optimizations/{id_}")["progress"]
        return float(done["value"] - done["trace"][0][1]) if "value" in done else 0.0

    eventually(gained, lambda more: more > 0.0)
    assert service.client.post(f"/v1/optimizations/{id_}/stop").status_code == 202
    done = _ended(service, f"/v1/optimizations/{id_}")
    assert (done["state"], done["result"]["admitted"]) == ("stopped", 1)
    started = service.client.post("/v1/comparisons", json={"agents": ["gree", "gree-l"]})
    compared = _ended(service, f"/v1/comparisons/{started.get_json()['id']}")
    assert {one["status"] for one in compared["result"]["agents"]} == {"placed"}


def test_plans_are_the_same_as_here(workers: DaskWorkers, service: Service) -> None:
    """An optimisation by work and a comparison: the same changes, value and documents."""
    two_in_the_way(service)
    with service.runtime.reading() as plan:
        twin = plan.copy()
    scope, options = OptimizeScope(admit_refused=True), OptimizeOptions(Limits(work=60), "")
    there = improve_on(workers, twin, Objective(), scope, options)
    here = optimize(twin, Objective(), scope, options)
    assert there.to_json() == here.to_json()
    assert [repr(one) for one in there.changes] == [repr(one) for one in here.changes]
    day = work.day_of(twin)
    names = ("gree", "gree-l")
    compared = compare_on(workers, day, bare_limits(names, None, 0), bool)
    alone = comparison_of([run_agent(*day, agent_named(name), Limits()) for name in names])
    for one, other in zip(compared.runs, alone.runs, strict=True):
        assert one.document is not None
        assert other.document is not None
        ours, theirs = one.document.to_json(), other.document.to_json()
        assert (ours["reservations"], ours["refusals"]) == (
            theirs["reservations"], theirs["refusals"],
        )  # fmt: skip


def test_a_worker_with_more_threads_is_refused_by_name(cluster: DaskCluster) -> None:
    """Tasks of one process would disturb each other: the message says how to start it."""
    worker = cluster.add_worker("--nthreads", "2")

    def refused() -> str:
        try:
            DaskWorkers(cluster.address).close()
        except WorkerError as error:
            return str(error)
        return ""

    try:
        assert "start workers with --nthreads 1" in eventually(refused, bool)
    finally:
        worker.kill()
        worker.wait()
    eventually(refused, lambda said: not said)


def test_a_task_whose_worker_is_killed_continues_from_what_it_kept(
    cluster: DaskCluster, workers: DaskWorkers, tmp_path: Path
) -> None:
    """Of two workers one is left, which is given what the other has kept."""
    left = sum(one.poll() is None for one in cluster.workers)
    kept: list[Any] = []
    tasks = [("dies once", partial(work.dies_once, tmp_path / "mark"))]
    found = list(answers_of(tasks, workers, Link(keep=kept.append)))
    assert (found, kept) == ([(0, {"found": 0.1 + 0.2})], [{"found": 0.1 + 0.2}])
    assert sum(one.poll() is None for one in cluster.workers) == left - 1


def test_a_scheduler_that_dies_is_reported_and_its_tasks_end(cluster: DaskCluster) -> None:
    """Nobody waits for the command, and no worker continues for no one."""
    workers = DaskWorkers(cluster.address)
    killing = Link(tell=lambda news: cluster.scheduler.kill())
    with pytest.raises(WorkerError, match="no longer answers"):
        list(answers_of([("long", work.until_stopped)], workers, killing))
    workers.close()
    cluster.scheduler.wait()
    eventually(lambda: [one.poll() for one in cluster.workers], lambda codes: None not in codes)


def _shown(service: Service, path: str) -> dict[str, Any]:
    body: dict[str, Any] = service.client.get(path).get_json()
    return body


def _ended(service: Service, path: str) -> dict[str, Any]:
    at_work = ("running", "stopping")
    return eventually(lambda: _shown(service, path), lambda body: body["state"] not in at_work)
