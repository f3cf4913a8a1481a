"""Jobs: the rows of optimisations and comparisons, which share a table and differ in their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.problems import problem
from service.store import OptimizationRow

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
    """

    prefix: str
    noun: str

    def new_id(self, runtime: Runtime) -> str:
        """Return an id that none has."""
        return runtime.new_id().replace("r-", self.prefix, 1)

    def known(self, runtime: Runtime, id_: str) -> OptimizationRow:
        """Return the row of one.

        Raises
        ------
        ApiProblemError
            ``not_found``.
        """
        row = runtime.optimizations.rows.get(id_, runtime.optimizations.now_ms())
        if row is None or not id_.startswith(self.prefix):
            raise problem("not_found", f"there is no {self.noun} {id_!r}")
        return row

    def rows(self, runtime: Runtime) -> list[OptimizationRow]:
        """Return all that are remembered, newest first."""
        return runtime.optimizations.rows.page(runtime.optimizations.now_ms(), self.prefix)

    def stop(self, runtime: Runtime, id_: str) -> OptimizationRow:
        """Ask one to end with what it has; one that is over stays as it is.

        Raises
        ------
        ApiProblemError
            ``not_found``.
        """
        self.known(runtime, id_)
        runtime.optimizations.rows.stop(id_)
        return self.known(runtime, id_)

    def forget(self, runtime: Runtime, id_: str) -> None:
        """Drop one and what it found; one that runs ends without keeping anything.

        Raises
        ------
        ApiProblemError
            ``not_found``.
        """
        self.known(runtime, id_)
        runtime.optimizations.rows.delete(id_)
