"""An Airflow operator that reserves a cluster and a sensor that waits for the reservation.

Copy this file next to your DAGs. It needs ``cluster-agenda-client``; AGENDA_SERVER and
AGENDA_TOKEN say where the server is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import agenda

try:
    from airflow.sdk import BaseOperator
    from airflow.sdk.bases.sensor import BaseSensorOperator
except ImportError:  # Airflow 2
    from airflow.models.baseoperator import BaseOperator
    from airflow.sensors.base import BaseSensorOperator


class AgendaReserveOperator(BaseOperator):
    """Ask for a reservation; the id is the task's result.

    The key is made of the DAG's run and the task, so that a retry of the task is notified of the
    reservation that it has made already. A refusal fails the task, with the offers in its log.

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
        key = f"airflow-{context['run_id']}-{self.task_id}"
        try:
            made = agenda.Client().submit(self.rdl, key=key, **self.fields)
        except agenda.RefusedError as refused:
            for offer in refused.offers:
                self.log.info("offer (%s): %s", offer.kind, offer.expression)
            raise
        self.log.info("%s runs from %s to %s", made.id, made.begin, made.finish)
        return made.id


class AgendaReservationSensor(BaseSensorOperator):
    """Wait until a reservation has begun: what comes after has its machines.

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
