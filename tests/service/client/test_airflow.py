"""agenda-airflow against a real server: by a stand-in for Airflow, and by Airflow where it is."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import agenda

ROOT = Path(__file__).parents[3]
RDL = "window(order(a: atom(<1 cpu>, 1, 1, 1, 1), b: atom(<1 cpu>, 1, 1, 1, 1)), +0, +20m)"
RECURS = f"every(20m, {RDL.replace('+0, +20m', '4s, 10m')}, times=2)"
STAGES = {"a": {"command": "x"}, "b": {"command": "y"}}


class Deferred(Exception):  # noqa: N818 - what Airflow's TaskDeferred is
    """A task that waits in the triggerer."""

    def __init__(self, trigger: Any, method_name: str) -> None:
        super().__init__()
        self.trigger, self.method_name = trigger, method_name


class Operator:
    """What the operators use of Airflow's BaseOperator."""

    def __init__(self, *, task_id: str) -> None:
        self.task_id, self.dag_id = task_id, "nightly"
        self.log = logging.getLogger("airflow.task")

    def defer(self, *, trigger: Any, method_name: str) -> None:
        raise Deferred(trigger, method_name)


def stand_in() -> dict[str, ModuleType]:
    """Return the modules of Airflow 3 that are imported."""
    contents: dict[str, dict[str, Any]] = {
        "airflow": {},
        "airflow.sdk": {"BaseOperator": Operator},
        "airflow.sdk.bases": {},
        "airflow.sdk.bases.sensor": {"BaseSensorOperator": Operator},
        "airflow.triggers": {},
        "airflow.triggers.base": {"BaseTrigger": object, "TriggerEvent": dict},
    }
    modules = {name: ModuleType(name) for name in contents}
    for name, values in contents.items():
        vars(modules[name]).update(values)
    return modules


@pytest.fixture
def ours(address: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the package, on the stand-in; its clients find the server."""
    monkeypatch.setenv("AGENDA_SERVER", address)
    monkeypatch.syspath_prepend(str(ROOT / "service" / "airflow"))
    for name, module in stand_in().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "agenda_airflow", raising=False)
    module = importlib.import_module("agenda_airflow")
    monkeypatch.delitem(sys.modules, "agenda_airflow")
    return module


def context(run: str, tries: int = 1) -> dict[str, Any]:
    """Return what Airflow gives to `execute`."""
    return {"run_id": run, "ti": SimpleNamespace(try_number=tries, map_index=-1)}


def fire(task: Any, given: Mapping[str, Any]) -> Any:
    """Run a deferrable task as a worker and a triggerer do; return its result."""
    with pytest.raises(Deferred) as deferred:
        task.execute(given)
    trigger = deferred.value.trigger
    name, arguments = trigger.serialize()
    assert name == "agenda_airflow.AgendaJobTrigger"

    async def first() -> Any:
        return [event async for event in type(trigger)(**arguments).run()]

    (event,) = asyncio.run(first())
    return getattr(task, deferred.value.method_name)(given, event)


def test_a_job_is_submitted_once_and_waited_for_in_the_triggerer(ours: Any) -> None:
    """A retry has the same job; another task waits for its run."""
    job = {"id": "by-airflow", "rdl": RDL, "stages": STAGES}
    task = ours.AgendaJobOperator(task_id="run", job=job, fields={"margin": "1m"})
    first = fire(task, context("manual-1"))
    assert fire(task, context("manual-1", tries=2)) == first
    other = ours.AgendaJobOperator(task_id="wait", pipeline=first, deferrable=False)
    assert other.execute(context("manual-1")) == first
    second = fire(task, context("manual-2"))  # another run of the DAG is another job
    assert first != second
    assert {one.rpartition("-")[0] for one in (first, second)} == {"by-airflow"}


def test_a_job_that_recurs_is_waited_for_until_its_first_run_has_ended(ours: Any) -> None:
    """Whether its task is deferred or not, and if it is tried again before that."""
    job = {"id": "recurs", "rdl": RECURS, "stages": STAGES}
    deferred = ours.AgendaJobOperator(task_id="recurs", job=job)
    made = fire(deferred, context("manual-1", tries=2))
    assert agenda.Client().job(made).state(0) == "succeeded"
    waiting = ours.AgendaJobOperator(task_id="recurs-too", job=job, deferrable=False)
    assert waiting.execute(context("manual-2")).startswith("recurs-")


def test_a_deferred_task_that_is_killed_cancels_the_job_that_it_submitted(ours: Any) -> None:
    """Not one that it only waits for."""
    later = {"rdl": RDL.replace("+0, +20m", "+10m, +20m"), "stages": STAGES}
    tasks = (
        ours.AgendaJobOperator(task_id="later", job=later, fields={"id": "killed"}),
        ours.AgendaJobOperator(task_id="wait", pipeline="killed"),
    )
    states = []
    for task in tasks:
        with pytest.raises(Deferred) as deferred:
            task.execute(context("manual-1"))
        _, arguments = deferred.value.trigger.serialize()
        states.append(arguments)
    for arguments in reversed(states):
        asyncio.run(ours.AgendaJobTrigger(**arguments).on_kill())
        states.append(agenda.Client().get("killed").state)
    assert states[-2:] == ["accepted", "cancelled"]


@pytest.mark.parametrize("fields", [{}, {"id": "own"}])
def test_a_task_that_was_killed_has_another_job_when_it_is_tried_again(
    ours: Any, fields: dict[str, str]
) -> None:
    """And keeps that one in further tries."""
    later = {"id": "tried", "rdl": RDL.replace("+0, +20m", "+10m, +20m"), "stages": STAGES}
    made = []
    for tries in (1, 2, 3):
        task = ours.AgendaJobOperator(task_id="tried", job=later, fields=fields)
        with pytest.raises(Deferred) as deferred:
            task.execute(context(f"manual-{len(fields) + 1}", tries))
        made.append(deferred.value.trigger.id_)
        if tries == 1:
            task.on_kill()
    assert made == [made[0], f"{made[0]}-2", f"{made[0]}-2"]


def test_a_failure_is_reported_where_no_logs_are_kept(
    ours: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a stage that had started."""
    caplog.set_level(logging.INFO, "airflow.task")
    long = RDL.replace("atom(<1 cpu>, 1, 1, 1, 1)", "atom(<1 cpu>, 1, 1, 5m, 5m)")
    made = agenda.Client().run({"id": "begun", "rdl": long, "stages": STAGES})
    while made.stages()["a"] != "running":
        time.sleep(0.2)
    made.cancel()
    with pytest.raises(RuntimeError, match="the run of begun has failed"):
        fire(ours.AgendaJobOperator(task_id="wait", pipeline="begun"), context("manual-1"))
    assert "no log of a: begun.a: " in caplog.text


def test_what_fails_fails_the_task(ours: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A refused job, and a run that was ended with its reason."""
    caplog.set_level(logging.INFO, "airflow.task")
    large = {
        "rdl": "window(a: atom(<1 cpu>, 11, 11, 1m, 11m), +10m, +20m)",
        "stages": {"a": {"command": "x"}},
    }
    with pytest.raises(agenda.RefusedError):
        ours.AgendaJobOperator(task_id="large", job=large).execute(context("manual-1"))
    late = {"rdl": RDL.replace("+0, +20m", "+10m, +20m"), "stages": STAGES}
    task = ours.AgendaJobOperator(task_id="late", job=late, fields={"id": "ended-job"})
    with pytest.raises(Deferred):
        task.execute(context("manual-1"))
    task.on_kill()
    with pytest.raises(RuntimeError, match="the run of ended-job has failed"):
        fire(ours.AgendaJobOperator(task_id="late", pipeline="ended-job"), context("manual-1"))
    assert "its owner ended it" in caplog.text
    with pytest.raises(ValueError, match="either a job or a pipeline"):
        ours.AgendaJobOperator(task_id="none")


def test_a_reservation_is_made_once_and_its_start_is_sensed(
    ours: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that is tried again has the same reservation; the sensor says whether it began."""
    rdl = "window(atom(<1 cpu>, 1, 1, 5, 5), +10m, +20m)"
    task = ours.AgendaReserveOperator(task_id="reserve", rdl=rdl)
    made, again = (task.execute(context("manual-1")) for _ in range(2))
    assert made == again
    sensor = ours.AgendaReservationSensor(task_id="begun", reservation_id=made)
    assert sensor.poke({}) is False
    agenda.Client().cancel(made)
    with pytest.raises(RuntimeError, match="is cancelled"):
        sensor.poke({})
    caplog.set_level(logging.INFO, "airflow.task")
    gang = "window(atom(<1 cpu>, 6, 6, 10m, 60m), +10m, +20m)"
    taken = agenda.Client().submit(gang)
    with pytest.raises(agenda.RefusedError):
        ours.AgendaReserveOperator(task_id="gang", rdl=gang).execute(context("manual-1"))
    agenda.Client().cancel(taken.id)
    assert "offer (" in caplog.text


DAG = f"""
import datetime
from airflow.sdk import DAG
from agenda_airflow import AgendaJobOperator, AgendaReservationSensor, AgendaReserveOperator

with DAG("nightly", schedule=None, start_date=datetime.datetime(2026, 1, 1)) as dag:
    job = {{"id": "real-airflow", "rdl": {RDL!r}, "stages": {STAGES!r}}}
    run = AgendaJobOperator(task_id="run", job=job)
    wait = AgendaJobOperator(
        task_id="wait", pipeline="{{{{ ti.xcom_pull(task_ids='run') }}}}", deferrable=False
    )
    reserve = AgendaReserveOperator(
        task_id="reserve", rdl="window(atom(<1 cpu>, 1, 1, 60, 60), +0, +10m)"
    )
    begun = AgendaReservationSensor(
        task_id="begun", reservation_id="{{{{ ti.xcom_pull(task_ids='reserve') }}}}",
        poke_interval=1,
    )
    run >> wait >> reserve >> begun

if __name__ == "__main__":
    run = dag.test()
    print("states", run.state, sorted((one.task_id, one.state) for one in run.get_task_instances()))
"""


def test_a_dag_runs_in_airflow(address: str, tmp_path: Path) -> None:
    """With Airflow's own operators, triggers and templates; AGENDA_AIRFLOW names its Python."""
    python = os.environ.get("AGENDA_AIRFLOW")
    if python is None:
        pytest.skip("AGENDA_AIRFLOW names no Python that has apache-airflow")
    (tmp_path / "nightly.py").write_text(DAG)
    paths = [ROOT / "service" / "airflow", ROOT / "service" / "client"]
    ran = subprocess.run(
        [python, "-c", "from airflow.utils.db import initdb; initdb(); import nightly as n, runpy; "
         "runpy.run_path('nightly.py', run_name='__main__')"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={
            "PATH": os.environ["PATH"],
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "AGENDA_SERVER": address,
        },
    )  # fmt: skip
    tasks = [(name, "success") for name in ("begun", "reserve", "run", "wait")]
    assert f"states success {tasks}" in ran.stdout, ran.stdout + ran.stderr
    made = [one.id for one in agenda.Client(address).list() if one.id.startswith("real-airflow-")]
    assert [agenda.Client(address).job(one).state() for one in made] == ["succeeded"]
