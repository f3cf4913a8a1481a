"""Cores used by the elastic components of an application over time.

Their number changes while an application runs, so that its start and end do not determine its use.
The leading process adds a step whenever the number changes; the steps are part of the application's
stored status, and the next leader continues them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from dispatch.executions.execution import Execution
from rdl.resources import CPU

#: Most steps stored for an application; beyond that, the oldest are merged into their mean.
MOST_STEPS = 400


class ElasticUse(msgspec.Struct):
    """Cores in use over time, as steps.

    Attributes
    ----------
    elastic
        (start in ms from the Plan's origin, millicores from then on), in order of time.
    """

    elastic: list[tuple[int, int]] = []

    def observe(self, at_ms: int, millicores: int) -> None:
        """Add a step, unless the number is unchanged."""
        last = self.elastic[-1][1] if self.elastic else 0
        if millicores == last:
            return
        if self.elastic and self.elastic[-1][0] >= at_ms:
            at_ms = self.elastic.pop()[0]
        self.elastic.append((at_ms, millicores))
        if len(self.elastic) > MOST_STEPS:
            self._merge_oldest()

    def _merge_oldest(self) -> None:
        """Replace the first two steps by their mean, which preserves the core-hours."""
        (start, first), (middle, second), (end, _) = self.elastic[:3]
        mean = round((first * (middle - start) + second * (end - middle)) / (end - start))
        self.elastic[:2] = [(start, mean)]

    def core_ms(self, start_ms: int, end_ms: int) -> float:
        """Return the use within [start_ms, end_ms), in cores times milliseconds."""
        return sum(
            max(0, min(until, end_ms) - max(since, start_ms)) * millicores / 1000
            for since, until, millicores in self._spans(end_ms)
        )

    def _spans(self, end_ms: int) -> Iterator[tuple[int, int, int]]:
        for (since, millicores), (until, _) in pairwise([*self.elastic, (end_ms, 0)]):
            yield since, until, millicores


def elastic_millicores(execution: Execution) -> int:
    """Return the millicores of the running elastic components."""
    return sum(
        part.running * part.component.resources.get(CPU, 0)
        for part in execution.parts
        if not part.component.core
    )
