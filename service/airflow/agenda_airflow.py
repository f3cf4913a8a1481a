"""Airflow operators that run jobs of an Agenda server, and reserve its cluster.

AGENDA_SERVER and AGENDA_TOKEN say where the server is, on workers and on the triggerer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import agenda

try:
    from airflow.sdk import BaseOperator
    from airflow.sdk.bases.sensor import BaseSensorOperator
except ImportError:  # Airflow 2
    from airflow.models.baseoperator import BaseOperator
    from airflow.sensors.base import BaseSensorOperator

from airflow.triggers.base import BaseTrigger, TriggerEvent


class AgendaJobOperator(BaseOperator):
    """Run a job of several stages, or wait for the run of a pipeline; its id is the result.

    A refusal fails the task; so does a run that fails, with the output of the failed stages in
    its log. A retry of the task runs the stages again that had not succeeded.

    Parameters
    ----------
    job
        The job, or the path of a job file; a template.
    pipeline
        Instead of `job`: the id of a pipeline that was submitted before, whose newest run is waited
        for; a template.
    fields
        `tenant`, `queue`, `margin` and the like: they replace those of the job; a template. Without
        an `id` here, each run of the DAG has a pipeline of its own, called by the `id` of the job,
        or the task, and a number.
    deferrable
        Whether to wait in the triggerer, without a worker.
    """

    template_fields: Sequence[str] = ("job", "pipeline", "fields")

    def __init__(
        self,
        *,
        job: Mapping[str, Any] | str | None = None,
        pipeline: str | None = None,
        fields: agenda.JobFields | None = None,
        deferrable: bool = True,
        **options: Any,
    ):
        super().__init__(**options)
        if (job is None) is (pipeline is None):
            raise ValueError("an AgendaJobOperator has either a job or a pipeline")
        self.job = job
        self.pipeline = pipeline
        self.fields = fields or {}
        self.deferrable = deferrable
        self._submitted: agenda.Job | None = None

    def execute(self, context: Any) -> str:
        """Submit the job and wait until its run has ended."""
        client = agenda.Client()
        if self.job is None:
            made = client.job(str(self.pipeline))
            number = made.run()["run"]
        else:
            made, number = self._submit(client, context), 0
            self._submitted = made
            # A retry gets the same job, whose run may have failed.
            if context["ti"].try_number > 1 and made.state(number) == "failed":
                made.again(number)
        self.log.info("%s is %s", made.id, made.raw["reservation"]["state"])
        if self.deferrable:
            trigger = AgendaJobTrigger(made.id, number, owns=self._submitted is not None)
            self.defer(trigger=trigger, method_name="end")
        return self.end(context, {"id": made.id, "run": number, "state": made.wait(number)})

    def _submit(self, client: agenda.Client, context: Any) -> agenda.Job:
        """Return the job of a DAG's run: another one only after a try that was killed."""
        key, job = _key_of(self, context), agenda.read_job(self.job or {})
        id_ = f"{job.get('id', self.task_id)}-{key[-8:]}"
        fields: Any = {"id": id_, **self.fields}
        id_ = fields["id"]
        made = client.run(job, key=key, **fields)
        for count in range(2, context["ti"].try_number + 1):
            if made.refresh()["reservation"]["state"] != "cancelled":
                break
            fields = {**self.fields, "id": f"{id_}-{count}"}
            made = client.run(job, key=f"{key}-{count}", **fields)
        return made

    def end(self, context: Any, event: Mapping[str, Any]) -> str:
        """Return the id of a job whose run has succeeded.

        Raises
        ------
        RuntimeError
            If it has not.
        """
        del context
        id_, number = str(event["id"]), event["run"]
        if event["state"] != "succeeded":
            job = agenda.Client().job(id_)
            for stage in job.run(number)["stages"]:
                if stage["state"] == "completed":
                    continue
                self.log.error("%s is %s: %s", stage["name"], stage["state"], stage["reason"])
                if not stage["started_at"]:
                    continue
                try:
                    for piece in job.logs(stage["name"], number):
                        self.log.info("%s: %s", piece.stream, piece.text)
                except agenda.AgendaError as error:  # such as a server that keeps no logs
                    self.log.warning("no log of %s: %s", stage["name"], error)
            raise RuntimeError(f"the run of {id_} has {event['state']}")
        return id_

    def on_kill(self) -> None:
        """Cancel the job that this task submitted; once deferred its trigger does (Airflow 3.3)."""
        if self._submitted is not None:
            self._submitted.cancel()


class AgendaJobTrigger(BaseTrigger):
    """Fires when a run of a job has ended.

    Parameters
    ----------
    id_, run
        The job, and the number of its run; None: the newest.
    owns
        Whether to cancel the job when somebody clears or marks the task that waits for it.
    """

    def __init__(self, id_: str, run: int | None = None, owns: bool = False):
        super().__init__()
        self.id_, self.number, self.owns = id_, run, owns

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the arguments from which a triggerer creates the trigger."""
        arguments = {"id_": self.id_, "run": self.number, "owns": self.owns}
        return f"{__name__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event with the state of the run."""
        async with agenda.AsyncClient() as client:
            state = await (await client.job(self.id_)).wait(self.number)
        yield TriggerEvent({"id": self.id_, "run": self.number, "state": state})

    async def on_kill(self) -> None:
        """Cancel the job; a triggerer that ends or hands the trigger over does not call this."""
        if self.owns:
            async with agenda.AsyncClient() as client:
                await (await client.job(self.id_)).cancel()


class AgendaReserveOperator(BaseOperator):
    """Ask for a reservation; the id is the task's result.

    A retry of the task gets the reservation that it has made already. A refusal fails the task,
    with the offers in its log.

    Parameters
    ----------
    rdl
        The request; a template.
    fields
        `tenant`, `queue` and the like.
    """

    template_fields: Sequence[str] = ("rdl",)

    def __init__(self, *, rdl: str, fields: agenda.RequestFields | None = None, **options: Any):
        super().__init__(**options)
        self.rdl = rdl
        self.fields = fields or {}

    def execute(self, context: Any) -> str:
        """Ask, and return the id."""
        try:
            made = agenda.Client().submit(self.rdl, key=_key_of(self, context), **self.fields)
        except agenda.RefusedError as refused:
            for offer in refused.offers:
                self.log.info("offer (%s): %s", offer.kind, offer.expression)
            raise
        self.log.info("%s runs from %s to %s", made.id, made.begin, made.finish)
        return made.id


class AgendaReservationSensor(BaseSensorOperator):
    """Wait until a reservation has begun, so that later tasks have its machines.

    Use ``mode="reschedule"`` where that takes hours.

    Parameters
    ----------
    reservation_id
        Its id; a template, such as ``{{ ti.xcom_pull(task_ids='reserve') }}``.
    """

    template_fields: Sequence[str] = ("reservation_id",)

    def __init__(self, *, reservation_id: str, **options: Any):
        super().__init__(**options)
        self.reservation_id = reservation_id

    def poke(self, context: Any) -> bool:
        """Return whether it has begun.

        Raises
        ------
        RuntimeError
            If it never will.
        """
        del context
        now = agenda.Client().get(self.reservation_id)
        if now.state in ("cancelled", "failed", "refused"):
            raise RuntimeError(f"{now.id} is {now.state}: {now.detail or 'it will not run'}")
        return agenda.has_reached(now, "begun")


def _key_of(task: Any, context: Any) -> str:
    """Return the Idempotency-Key of a task of a DAG's run: the same for all of its tries."""
    instance = context["ti"]
    words = (task.dag_id, context["run_id"], task.task_id, getattr(instance, "map_index", -1))
    return f"airflow-{sha256(repr(words).encode()).hexdigest()}"
