"""Jobs: the rows of optimisations and comparisons, which share a table and differ in their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.access.actor import present_actor
from service.problems import problem
from service.store import AuditRow, OptimizationRow

if TYPE_CHECKING:
    from service.runtime import Runtime


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of job.

    Attributes
    ----------
    prefix
        How its ids begin.
    noun
        What people call it.
    word
        What paths and the audit call it.
    """

    prefix: str
    noun: str
    word: str

    def new_id(self, runtime: Runtime) -> str:
        """Return an id that none has."""
        return runtime.new_id().replace("r-", self.prefix, 1)

    def row_of(self, runtime: Runtime, id_: str) -> OptimizationRow:
        """Return the row of one.

        Raises
        ------
        ApiProblemError
            ``not_found``.
        """
        row = runtime.optimizations.rows.get(id_)
        if row is None or not id_.startswith(self.prefix):
            raise problem("not_found", f"there is no {self.noun} {id_!r}")
        return row

    def audited(self, runtime: Runtime, verb: str, id_: str, detail: str = "") -> AuditRow:
        """Return the row of the audit of what is done to one: start, stop, apply or delete."""
        kind = f"{verb}_{self.word}"
        return AuditRow(present_actor(), runtime.clock_ms(), kind, id_, detail=detail)

    def rows(self, runtime: Runtime) -> list[OptimizationRow]:
        """Return all that are remembered, newest first."""
        return runtime.optimizations.rows.page(self.prefix)

    def stop(self, runtime: Runtime, id_: str) -> OptimizationRow:
        """Ask one to end with what it has; one that is over stays as it is.

        Raises
        ------
        ApiProblemError
            ``not_found``.
        """
        self.row_of(runtime, id_)
        runtime.optimizations.rows.stop(id_, self.audited(runtime, "stop", id_))
        return self.row_of(runtime, id_)

    def forget(self, runtime: Runtime, id_: str) -> None:
        """Drop one and what it found; one that runs ends without keeping anything.

        Raises
        ------
        ApiProblemError
            ``not_found``.
        """
        self.row_of(runtime, id_)
        runtime.optimizations.rows.delete(id_, self.audited(runtime, "delete", id_))
